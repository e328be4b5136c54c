//! Several users, those who come and those who come back.

use livekit_api::access_token::{AccessToken, VideoGrants};
use sotto_core::wire::body::Body;
use sotto_harness::{
    endpoint::{Gate, Reply},
    participant::Participant,
};

use super::{Scene, User, dialogue, told};

pub(crate) async fn two_users_at_once_are_both_answered_and_told_apart() {
    let scene = Scene::begin().await;
    let mut anna = named(&scene, "anna", "Anna \"the\" Great").await;
    let mut boris = scene.user("boris").await;
    anna.participant.meets("boris").await;
    assert_eq!(boris.asks("Hello.").await, "Yes.");
    anna.hears_to_the_end().await;
    assert_eq!(dialogue(&scene.asked(0).await), ["user: Hello."], "alone, nobody needs a name");
    // Whoever comes later is announced later. The agent may hear of it a moment after boris does.
    let _later = scene.user("clara").await;
    boris.participant.meets("clara").await;
    let known = asks_until_known(&scene, &mut anna, "Anna  the  Great").await;
    for _ in 0..known {
        boris.exchange().await;
    }
    let gate = Gate::new();
    scene.model.reply(Reply::text("Hello Anna.").gated(&gate));
    scene.model.reply(Reply::text("Hello Boris."));
    let from_anna = anna.says("I am Anna.").await;
    assert_eq!(anna.hears(1).await.len(), 1, "it is acknowledged");
    let from_boris = boris.says("I am Boris.").await;
    assert_eq!(boris.hears(1).await, ["ack 2"]);
    gate.open();
    for user in [&mut anna, &mut boris] {
        // The other's acknowledgement is not among it: there are gaps in the numbers instead.
        let mut answers = Vec::new();
        let mut lines = Vec::new();
        for envelope in user.exchange().await.into_iter().chain(user.exchange().await) {
            lines.push(told(&envelope.body));
            if let Body::StartAnswer(start) = envelope.body {
                answers.push(start.previous_id);
            }
        }
        assert_eq!(lines, ["start", "1: Hello Anna. (final)", "start", "1: Hello Boris. (final)"]);
        assert_eq!(answers, [from_anna.as_str(), &from_boris]);
    }
    let named =
        ["user: \"Anna  the  Great\": I am Anna.", "assistant: Hello Anna.", "user: \"boris\": I am Boris."];
    let asked = dialogue(&scene.asked(known + 2).await);
    assert_eq!(asked[asked.len() - named.len()..], named);
}

/// Asks until the agent has heard how this one is called. How often that was.
async fn asks_until_known(scene: &Scene, user: &mut User, name: &str) -> usize {
    let known = format!("user: \"{name}\": What is my name?");
    for times in 1..20 {
        user.asks("What is my name?").await;
        let asked = dialogue(&scene.asked(scene.asked_so_far() - 1).await);
        if asked.last() == Some(&known) {
            return times;
        }
    }
    panic!("the agent never learnt the name {name}");
}

/// The server announces it to the agent up to 3 s later.
pub(crate) async fn a_newcomer_who_writes_at_once_is_answered_at_once() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    assert_eq!(anna.asks("Hello.").await, "Yes.");
    let token = token(&scene, "clara", "Clara");
    let mut clara = User::of(Participant::join_with_token(&scene.server, &scene.room, "clara", &token).await);
    clara.says("I am new here.").await;
    assert_eq!(clara.hears_to_the_end().await, ["ack 1", "start", "1: Yes. (final)"]);
    let asked = dialogue(&scene.asked(1).await);
    let who = asked.last().expect("a prompt asks something").clone();
    assert!(["user: \"clara\": I am new here.", "user: \"Clara\": I am new here."].contains(&&*who), "{who}");

    // Once it is announced, the model learns how it is called. The agent may hear of it a moment after anna does.
    anna.participant.meets("clara").await;
    asks_until_known(&scene, &mut clara, "Clara").await;
}

pub(crate) async fn a_user_who_leaves_and_comes_back_is_known() {
    let scene = Scene::begin().await;
    let mut boris = scene.user("boris").await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(Reply::text("Hello Anna."));
    anna.sends_message("m1", "I am Anna.").await;
    assert_eq!(anna.answer().await.1, "Hello Anna.");
    boris.answer().await;
    // Whoever leaves before it was announced was never there for others.
    boris.participant.meets("anna").await;
    anna.participant.leave().await;
    boris
        .participant
        .happens("anna leaves", |event| {
            matches!(event, livekit::RoomEvent::ParticipantDisconnected(who) if who.identity().as_str() == "anna")
        })
        .await;
    assert_eq!(boris.asks("Who was that?").await, "Yes.");

    let mut anna = scene.user("anna").await;
    // What is not known to have arrived is sent again, and not answered again.
    anna.sends_message("m1", "I am Anna.").await;
    assert_eq!(anna.hears(1).await, ["ack 1"]);
    // Nobody else may use its id.
    boris.sends_message("m1", "I am Anna.").await;
    assert_eq!(boris.hears(2).await, ["error 202 final", "refused 2"]);
    anna.says("And I am back.").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 2", "start", "1: Yes. (final)"]);
    let expected = [
        "user: \"anna\": I am Anna.",
        "assistant: Hello Anna.",
        "user: \"boris\": Who was that?",
        "assistant: Yes.",
        "user: \"anna\": And I am back.",
    ];
    assert_eq!(dialogue(&scene.asked(2).await), expected);
}

/// Someone with a name besides the identity.
async fn named(scene: &Scene, identity: &str, name: &str) -> User {
    let token = token(scene, identity, name);
    let participant = Participant::join_with_token(&scene.server, &scene.room, identity, &token).await;
    let mut user = User::of(participant);
    user.participant.meets(scene.agent.identity()).await;
    user
}

fn token(scene: &Scene, identity: &str, name: &str) -> String {
    let (key, secret) = scene.server.api_key();
    AccessToken::with_api_key(key, secret)
        .with_identity(identity)
        .with_name(name)
        .with_grants(VideoGrants { room_join: true, room: scene.room.clone(), ..VideoGrants::default() })
        .to_jwt()
        .expect("key and secret are set")
}
