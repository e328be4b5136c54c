//! Data packets: complete, in order, byte for byte.

use livekit::prelude::*;
use serde_json::json;
use sotto_harness::{
    participant::{Data, Participant, PeerConnections},
    peer::Peer,
    server::{Server, new_room},
};

const PACKETS: usize = 50;
const LARGEST: usize = 14_000;

/// From nothing to the largest that LiveKit recommends, no two alike.
fn payloads(seed: usize) -> Vec<Vec<u8>> {
    let payload = |index: usize| {
        let length = index * LARGEST / (PACKETS - 1);
        (0..length).map(|byte| (byte * 7 + index * 13 + seed) as u8).collect()
    };
    (0..PACKETS).map(payload).collect()
}

fn assert_same(received: &[Data], sent: &[Vec<u8>], sender: &str, topic: &str) {
    assert_eq!(received.len(), sent.len());
    for (index, (received, sent)) in received.iter().zip(sent).enumerate() {
        assert!(
            *received.payload == *sent,
            "packet {index} of {} bytes differs or is out of order",
            sent.len()
        );
        assert_eq!(received.sender.as_deref(), Some(sender));
        assert_eq!(received.topic.as_deref(), Some(topic));
    }
}

async fn send_all(participant: &Participant, payloads: &[Vec<u8>], topic: &str) {
    for payload in payloads {
        participant.send(payload.clone(), topic, true).await;
    }
}

async fn receive_all(participant: &mut Participant) -> Vec<Data> {
    let mut received = Vec::new();
    while received.len() < PACKETS {
        received.push(participant.data().await);
    }
    received
}

pub(crate) async fn rust_to_rust_with_one_peer_connection() {
    rust_to_rust(PeerConnections::One).await;
}

pub(crate) async fn rust_to_rust_with_two_peer_connections() {
    rust_to_rust(PeerConnections::Two).await;
}

async fn rust_to_rust(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join_with(&server, &room, "anna", connections.options()).await;
    let mut boris = Participant::join_with(&server, &room, "boris", connections.options()).await;
    anna.meets("boris").await;
    boris.meets("anna").await;

    let (from_anna, from_boris) = (payloads(1), payloads(2));
    tokio::join!(send_all(&anna, &from_anna, "a"), send_all(&boris, &from_boris, "b"));
    assert_same(&receive_all(&mut boris).await, &from_anna, "anna", "a");
    assert_same(&receive_all(&mut anna).await, &from_boris, "boris", "b");
}

pub(crate) async fn rust_and_python_with_one_peer_connection() {
    rust_and_python(PeerConnections::One).await;
}

pub(crate) async fn rust_and_python_with_two_peer_connections() {
    rust_and_python(PeerConnections::Two).await;
}

async fn rust_and_python(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join_with(&server, &room, "rust", connections.options()).await;
    let single = json!({"single_peer_connection": connections == PeerConnections::One});
    let mut python = Peer::join_with(&server, &room, "python", single).await;
    rust.meets("python").await;

    let (from_rust, from_python) = (payloads(3), payloads(4));
    python.send(&from_python, "p").await;
    send_all(&rust, &from_rust, "r").await;
    assert_same(&receive_all(&mut rust).await, &from_python, "python", "p");
    let mut received = Vec::new();
    while received.len() < PACKETS {
        received.push(python.data().await);
    }
    assert_same(&received, &from_rust, "rust", "r");
}

pub(crate) async fn lossy_packets_arrive_on_a_clean_network() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    for index in 0..20_u8 {
        anna.send(vec![index; 1_000], "", false).await;
        let received = boris.data().await;
        assert_eq!(*received.payload, vec![index; 1_000]);
    }
}

pub(crate) async fn destination_identities_are_obeyed() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let mut clara = Participant::join(&server, &room, "clara").await;
    for other in ["boris", "clara"] {
        anna.meets(other).await;
    }
    let secret = DataPacket {
        payload: b"for clara".to_vec(),
        reliable: true,
        destination_identities: vec!["clara".to_owned().into()],
        ..DataPacket::default()
    };
    anna.room.local_participant().publish_data(secret).await.expect("clara is there");
    anna.send(b"for all".to_vec(), "", true).await;
    assert_eq!(boris.data().await.payload.as_slice(), b"for all");
    assert_eq!(clara.data().await.payload.as_slice(), b"for clara");
    assert_eq!(clara.data().await.payload.as_slice(), b"for all");
}
