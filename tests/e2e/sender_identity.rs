//! Who sent a packet, when the sender has only just come: our one addition to the original crate.

use libwebrtc::sender_identity::{Sender, Senders};
use livekit::{prelude::Room, webrtc::stats::RtcStats};
use sotto_harness::{
    participant::{Participant, PeerConnections},
    server::{Server, new_room},
};

/// The record of the connection that data arrives on.
async fn senders(room: &Room) -> Senders {
    let stats = room.get_stats().await.expect("statistics");
    // With two connections data arrives on the subscriber's, with one on the only one.
    let reports =
        if stats.subscriber_stats.is_empty() { stats.publisher_stats } else { stats.subscriber_stats };
    let username = reports.iter().find_map(|report| match report {
        RtcStats::Transport(transport) => Some(transport.transport.ice_local_username_fragment.clone()),
        _ => None,
    });
    Senders::of_connection(&username.expect("a transport")).expect("the connection is on record")
}

pub(crate) async fn newcomers_are_named_with_one_peer_connection() {
    newcomers_are_named(PeerConnections::One).await;
}

pub(crate) async fn newcomers_are_named_with_two_peer_connections() {
    newcomers_are_named(PeerConnections::Two).await;
}

/// Two newcomers speak at once, each is known by name, though `livekit` may not know either yet.
async fn newcomers_are_named(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut host = Participant::join_with(&server, &room, "host", connections.options()).await;
    let record = senders(&host.room).await;
    let (anna, boris) =
        tokio::join!(Participant::join(&server, &room, "anna"), Participant::join(&server, &room, "boris"));
    tokio::join!(anna.send(b"I am new here".to_vec(), "", true), boris.send(b"So am I".to_vec(), "", true));
    let mut unknown_to_livekit = 0;
    for _ in 0..2 {
        let packet = host.data().await;
        unknown_to_livekit += usize::from(packet.sender.is_none());
        let expected = if *packet.payload == b"So am I" { "boris" } else { "anna" };
        assert_eq!(record.take(&packet.payload), Sender::Identity(expected.to_owned()));
    }
    println!("{unknown_to_livekit} of 2 newcomers were unknown to livekit");
}

/// A thief repeats a victim's bytes: whoever asks late is told that nobody can be named.
pub(crate) async fn repeated_bytes_name_nobody() {
    let server = Server::shared().await;
    let room = new_room();
    let mut host = Participant::join(&server, &room, "host").await;
    let record = senders(&host.room).await;
    let victim = Participant::join(&server, &room, "victim").await;
    let thief = Participant::join(&server, &room, "thief").await;
    victim.send(b"pay 5 to carla".to_vec(), "", true).await;
    thief.send(b"pay 5 to carla".to_vec(), "", true).await;
    for _ in 0..2 {
        host.data().await;
    }
    assert_eq!(record.take(b"pay 5 to carla"), Sender::Ambiguous);
    assert_eq!(record.take(b"pay 5 to carla"), Sender::Ambiguous);
    assert_eq!(record.take(b"pay 5 to carla"), Sender::Unknown);
}
