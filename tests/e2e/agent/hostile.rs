//! Garbage, floods and traps from one user, while another is served as if nothing were.

use sotto_core::wire::body::{Body, Configuration};
use std::time::Instant;

use super::{Scene, told};

const MALFORMED: &str = "sotto_events_total{kind=\"malformed\"}";
const OVERFLOW: &str = "sotto_events_total{kind=\"queue_overflow\"}";

/// The same bytes each time, and nobody's envelope.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

pub(crate) async fn each_kind_of_garbage_is_refused_to_its_sender_alone() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let mut mallory = scene.user("mallory").await;
    // A list in a list in a list …; a map that promises four billion entries; a stream of nothing; one too long.
    let nested = vec![0x91; 10_000];
    let promising = vec![0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, b'x'];
    for bytes in [noise(500, 1), nested, promising, noise(1_000_000, 2), noise((1 << 20) + 1, 3)] {
        let length = bytes.len();
        mallory.sends_bytes(bytes).await;
        assert_eq!(mallory.hears(1).await, ["error 101 final"], "for {length} bytes");
        assert_eq!(anna.asks("And me?").await, "Yes.");
        mallory.exchange().await;
    }
    // Five in ten seconds are enough: what follows is counted and not answered, but what makes sense is.
    mallory.sends_bytes(noise(100, 4)).await;
    scene.agent.metric_reaches(&[MALFORMED], 6).await;
    assert_eq!(mallory.asks("Sorry.").await, "Yes.");
}

/// Readable enough to say which stanza is refused.
pub(crate) async fn an_empty_message_is_refused_by_its_number() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    anna.says("").await;
    let first = anna.next().await.body;
    let Body::ErrorMessage(error) = &first else { panic!("not an error: {}", told(&first)) };
    assert_eq!((error.code, error.recoverable), (101, false));
    assert!(error.originating_id.as_deref().is_some_and(|id| id.starts_with("message-")), "{error:?}");
    assert_eq!(anna.hears(1).await, ["refused 1"]);
    assert_eq!(scene.asked_so_far(), 0);
}

/// Whether there is such a conversation elsewhere is nobody's business.
pub(crate) async fn another_conversation_is_not_found_here() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let configuration = Body::Configuration(Configuration::default());
    anna.sends_to(Some("another-room"), configuration.clone()).await;
    assert_eq!(anna.hears(2).await, ["error 201 final", "refused 1"]);
    anna.sends_to(Some(&scene.room), configuration).await;
    assert_eq!(anna.hears(2).await, ["ack 2", "configuration"]);
}

pub(crate) async fn a_flood_of_garbage_harms_nobody_else() {
    const FLOOD: usize = 2_000;
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let mut mallory = scene.user("mallory").await;
    let start = Instant::now();
    let flood = async {
        for number in 0..FLOOD {
            mallory.sends_bytes(noise(60, number as u64)).await;
        }
    };
    let talk = async {
        for _ in 0..5 {
            assert_eq!(anna.asks("Still there?").await, "Yes.");
        }
    };
    tokio::join!(flood, talk);
    scene.agent.metric_reaches(&[MALFORMED, OVERFLOW], FLOOD as u64).await;
    // Whatever was owed for it has been sent before this is acknowledged.
    mallory.sends(Body::Configuration(Configuration::default())).await;
    let came = mallory.until(|body| matches!(body, Body::Acknowledgement(_))).await;
    let refusals = came.iter().filter(|envelope| told(&envelope.body) == "error 101 final").count();
    let windows = start.elapsed().as_secs() as usize / 10 + 1;
    assert!((1..=5 * windows).contains(&refusals), "{refusals} errors for {FLOOD} packets");
}

pub(crate) async fn whoever_writes_too_much_is_told_for_each_message() {
    const MESSAGES: usize = 60;
    let limits = [("SOTTO_LIMITS_MESSAGES_BURST", "10"), ("SOTTO_LIMITS_MESSAGES_PER_SECOND", "1")];
    let scene = Scene::begin_with(&limits).await;
    let mut anna = scene.user("anna").await;
    let mut mallory = scene.user("mallory").await;
    for _ in 0..MESSAGES {
        mallory.says("Me! Me! Me!").await;
    }
    assert_eq!(anna.asks("And me?").await, "Yes.");
    let (mut taken, mut refused) = (0, 0);
    while taken + refused < MESSAGES {
        match mallory.next().await.body {
            Body::Acknowledgement(_) => taken += 1,
            Body::ErrorMessage(error) => {
                assert_eq!((error.code, error.recoverable), (429, true), "{error:?}");
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(taken >= 10 && refused >= 20, "{taken} taken, {refused} refused");
}
