//! The server dies, or cannot be reached for a while.

use std::time::Duration;

use livekit::prelude::*;
use sotto_harness::{
    network::Fault,
    participant::Participant,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

use crate::counting::{Counting, count_until, next_number};

/// Ten attempts with a growing pause take the SDK up to 45 s; each may also wait for an answer.
const UNTIL_GIVEN_UP: Duration = Duration::from_secs(120);
/// ICE notices a silent network after some seconds, the SDK then tries again.
const UNTIL_NOTICED: Duration = Duration::from_secs(60);

pub(crate) async fn server_killed_and_restarted() {
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;

    server.kill();
    for participant in [&mut anna, &mut boris] {
        participant.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
    }
    server.restart().await;
    for participant in [&mut anna, &mut boris] {
        let reconnected = |event: &RoomEvent| matches!(event, RoomEvent::Reconnected).then_some(());
        participant.event_within(UNTIL_GIVEN_UP, "reconnected", reconnected).await;
    }
    Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    anna.send(b"back again".to_vec(), "", true).await;
    assert_eq!(boris.data().await.payload.as_slice(), b"back again");
    boris.send(b"so am I".to_vec(), "", true).await;
    assert_eq!(anna.data().await.payload.as_slice(), b"so am I");
    anna.assert_udp().await;
}

pub(crate) async fn server_killed_for_good() {
    let server = Server::start().await;
    let mut anna = Participant::join(&server, &new_room(), "anna").await;
    server.kill();
    anna.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
    let disconnected = |event: &RoomEvent| matches!(event, RoomEvent::Disconnected { .. }).then_some(());
    anna.event_within(UNTIL_GIVEN_UP, "disconnected", disconnected).await;
    assert_eq!(anna.room.connection_state(), ConnectionState::Disconnected);
    let refused = anna.room.local_participant().publish_data(DataPacket::default()).await;
    assert!(refused.is_err(), "sending without a connection must fail");
}

/// Media and data stop, signalling goes on: ICE fails, and the SDK resumes.
pub(crate) async fn media_cut_and_back() {
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    let count = Counting::start(&anna);
    next_number(&mut boris).await;

    let fault = Fault::cut_media(&server);
    let reconnecting = |event: &RoomEvent| matches!(event, RoomEvent::Reconnecting).then_some(());
    anna.event_within(UNTIL_NOTICED, "reconnecting", reconnecting).await;
    drop(fault);
    let reconnected = |event: &RoomEvent| matches!(event, RoomEvent::Reconnected).then_some(());
    anna.event_within(UNTIL_NOTICED, "reconnected", reconnected).await;
    anna.meets("boris").await;
    let last = count.stop().await.last().copied().expect("it counted");
    let heard = count_until(&mut boris, last).await;
    assert!(heard.is_sorted_by(|before, after| before < after), "out of order or twice: {heard:?}");
    anna.assert_udp().await;
}
