//! Joining, who is seen, which way the packets go, and leaving.

use std::net::IpAddr;

use livekit::prelude::*;
use sotto_harness::{
    isolation,
    participant::{Participant, PeerConnections},
    server::{MediaAddress, Server, ServerOptions, new_room},
    skip,
    tone::{Ear, LEVEL, Tone, Voice},
};
use tokio::runtime::Runtime;

pub(crate) async fn pair_is_udp_with_one_peer_connection() {
    pair_is_udp(PeerConnections::One).await;
}

pub(crate) async fn pair_is_udp_with_two_peer_connections() {
    pair_is_udp(PeerConnections::Two).await;
}

async fn pair_is_udp(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join_with(&server, &room, "anna", connections.options()).await;
    let mut boris = Participant::join_with(&server, &room, "boris", connections.options()).await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    assert_eq!(anna.room.is_single_peer_connection_active(), connections == PeerConnections::One);

    // Data and audio make sure that both directions, and so both peer connections if there are two, are in use.
    anna.send(b"hello".to_vec(), "", true).await;
    assert_eq!(boris.data().await.payload.as_slice(), b"hello");
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;

    for participant in [&anna, &boris] {
        participant.assert_udp().await;
        for pair in participant.candidate_pairs().await {
            assert_eq!(pair.remote.port, i32::from(server.udp_port()), "{pair:?}");
        }
    }
    if connections == PeerConnections::Two {
        assert_eq!(anna.candidate_pairs().await.len(), 2, "one pair to publish, one to subscribe");
    }
}

pub(crate) async fn pair_is_ipv6_when_the_server_offers_only_that() {
    if !isolation::isolated() {
        skip("IPv6 needs the private network");
    }
    let server =
        Server::start_with(ServerOptions { media: MediaAddress::V6, ..ServerOptions::default() }).await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    anna.send(b"over six".to_vec(), "", true).await;
    assert_eq!(boris.data().await.payload.as_slice(), b"over six");

    anna.assert_udp().await;
    for pair in anna.candidate_pairs().await {
        for candidate in [&pair.local, &pair.remote] {
            let address = candidate.address.trim_matches(['[', ']']).parse::<IpAddr>();
            assert!(address.expect("statistics name an address").is_ipv6(), "{pair:?}");
        }
    }
}

pub(crate) async fn late_joiner_gets_what_is_there() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(523.0)).await;

    let mut late = Participant::join(&server, &room, "late").await;
    let participants = late
        .event("the room as it was", |event| match event {
            RoomEvent::Connected { participants_with_tracks } => Some(participants_with_tracks.clone()),
            _ => None,
        })
        .await;
    let [(participant, publications)] = participants.as_slice() else {
        panic!("one participant is there: {participants:?}")
    };
    assert_eq!(participant.identity().as_str(), "anna");
    assert_eq!(publications.iter().map(RemoteTrackPublication::name).collect::<Vec<_>>(), ["voice"]);
    Ear::new(&late.audio_of("anna").await, 48_000, 1).expect_tone(&[523.0], LEVEL).await;
    anna.meets("late").await;
    anna.send(b"welcome".to_vec(), "", true).await;
    assert_eq!(late.data().await.payload.as_slice(), b"welcome");
}

pub(crate) async fn leaving_is_seen_and_the_server_does_not_complain() {
    // Its own, because others make a shared one complain with reason.
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    let voice = Voice::publish(&boris, "voice", Tone::mono(440.0)).await;
    Ear::new(&anna.audio_of("boris").await, 48_000, 1).expect_tone(&[440.0], LEVEL).await;

    boris.leave().await;
    drop(voice);
    anna.happens("the track goes", |event| matches!(event, RoomEvent::TrackUnsubscribed { .. })).await;
    let left = anna.event("boris leaves", |event| match event {
        RoomEvent::ParticipantDisconnected(participant) => Some(participant.clone()),
        _ => None,
    });
    let left = left.await;
    assert_eq!(left.identity().as_str(), "boris");
    assert_eq!(left.disconnect_reason(), DisconnectReason::ClientInitiated);
    assert!(anna.room.remote_participants().is_empty());
    anna.leave().await;
    assert_eq!(server.complaints(), Vec::<String>::new());
}

/// What `#[tokio::test]` does all the time: the runtime of one test is gone when the next one connects.
pub(crate) async fn rooms_outlive_the_runtime_of_an_earlier_one() {
    let server = Server::shared().await;
    let visit = async |identity: &'static str| {
        let room = new_room();
        let mut guest = Participant::join(&server, &room, identity).await;
        let mut host = Participant::join(&server, &room, "host").await;
        host.meets(identity).await;
        guest.meets("host").await;
        guest.send(identity.into(), "", true).await;
        assert_eq!(host.data().await.payload.as_slice(), identity.as_bytes());
        guest.leave().await;
        host.leave().await;
    };
    // Within a runtime no other can be driven, so the two get threads of their own.
    std::thread::scope(|scope| {
        for identity in ["first", "second"] {
            let visiting = scope
                .spawn(|| Runtime::new().expect("the system can start threads").block_on(visit(identity)));
            visiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}
