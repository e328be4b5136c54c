//! A long tone: clocks that drift, or queues that fill or run dry, show themselves only after minutes.

use sotto_harness::{
    participant::Participant,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

const MINUTES: usize = 10;
const FRAMES_PER_MINUTE: usize = 6_000;

pub(crate) async fn tone_of_10_minutes() {
    let server = Server::start().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    let mut ear = Ear::new(&boris.audio_of("anna").await, 16_000, 1);
    ear.expect_tone(&[440.0], LEVEL).await;
    for minute in 1..=MINUTES {
        let sound = ear.hear(FRAMES_PER_MINUTE).await;
        let loud = sound.loud_share(LEVEL);
        println!("minute {minute}: {sound}, {:.2} % loud", loud * 100.0);
        assert!(sound.is_tone(&[440.0], LEVEL), "in minute {minute}: {sound}");
        assert!(loud >= 0.999, "in minute {minute} {:.2} % of the frames are quiet", (1.0 - loud) * 100.0);
    }
}
