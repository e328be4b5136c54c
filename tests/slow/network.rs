//! Bad networks for longer.

use std::time::Duration;

use livekit::prelude::*;
use sotto_harness::{
    network::{Fault, Jitter},
    participant::Participant,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};
use tokio::time::sleep;

use crate::loss;

const OUTAGE: Duration = Duration::from_secs(40);
const UNTIL_BACK: Duration = Duration::from_secs(120);

/// Each way 20 to 60 ms, so that packets overtake each other, and loss on top.
pub(crate) async fn loss_with_jitter_and_reordering() {
    let _jitter = Jitter::between(20, 60);
    for percent in [1, 5, 10] {
        loss::data_and_audio(percent, 0.9).await;
    }
}

/// Nothing reaches the server for longer than any timeout: the SDK must come back by itself.
pub(crate) async fn outage_of_40_seconds() {
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;

    let fault = Fault::cut(&server);
    // The outage is what is tested, so its length is a given.
    sleep(OUTAGE).await;
    drop(fault);
    for participant in [&mut anna, &mut boris] {
        let reconnected = |event: &RoomEvent| matches!(event, RoomEvent::Reconnected).then_some(());
        participant.event_within(UNTIL_BACK, "reconnected", reconnected).await;
    }
    Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    anna.send(b"back again".to_vec(), "", true).await;
    assert_eq!(boris.data().await.payload.as_slice(), b"back again");
}
