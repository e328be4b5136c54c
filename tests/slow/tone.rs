//! A long tone: clocks that drift, or queues that fill or run dry, show themselves only after minutes.
//!
//! In real time a machine that stands still for longer than the buffers last makes quiet frames whatever the program
//! does. The machine's own stalls are therefore measured, and what they explain is counted apart.

use std::time::Duration;

use sotto_harness::{
    participant::Participant,
    server::{Server, new_room},
    stall::{Stall, StallWatch, explained},
    tone::{Ear, LEVEL, Tone, Voice},
};

const MINUTES: usize = 10;
const FRAMES_PER_MINUTE: usize = 6_000;
/// One in a thousand.
const QUIET_FRAMES_PER_MINUTE: usize = FRAMES_PER_MINUTE / 1_000;

pub(crate) async fn tone_of_10_minutes() {
    let server = Server::start().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    let mut ear = Ear::new(&boris.audio_of("anna").await, 16_000, 1);
    ear.expect_tone(&[440.0], LEVEL).await;
    let watch = StallWatch::start();
    for minute in 1..=MINUTES {
        let sound = ear.hear(FRAMES_PER_MINUTE).await;
        let stalls = watch.take();
        let quiet = sound.quiet_moments(LEVEL);
        let unexplained = quiet.len() - explained(&stalls, &quiet);
        println!(
            "minute {minute}: {sound}, {} frames quiet, {unexplained} of them not explained by {} stalls of the machine \
             ({:.0?} in all, the longest {:.0?})",
            quiet.len(),
            stalls.len(),
            stalls.iter().map(Stall::length).sum::<Duration>(),
            stalls.iter().map(Stall::length).max().unwrap_or_default(),
        );
        assert!(sound.holds_tone(&[440.0], LEVEL), "in minute {minute}: {sound}");
        assert!(
            unexplained <= QUIET_FRAMES_PER_MINUTE,
            "in minute {minute} {unexplained} frames are quiet without a reason"
        );
    }
}
