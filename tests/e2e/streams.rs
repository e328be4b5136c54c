//! Text and byte streams of a megabyte.

use livekit::{SendByteOptions, SendTextOptions, StreamReader, prelude::*};
use serde_json::json;
use sotto_harness::{
    PATIENCE,
    participant::{Participant, PeerConnections},
    peer::{Peer, sha256, stream_content},
    server::{Server, new_room},
};
use tokio::time::timeout;

const MEGABYTE: usize = 1_000_000;

async fn send_streams(sender: &Participant, seed: usize) {
    let content = stream_content(MEGABYTE, seed);
    let sender = sender.room.local_participant();
    let text = sender.send_text(&content, SendTextOptions::new_with_topic("text")).await;
    text.expect("a connected participant can send");
    // Compression would shrink the regular content to a few packets: without it all of it goes over the wire.
    let mut options = SendByteOptions::new_with_topic("bytes");
    options.compress = Some(false);
    sender.send_bytes(content.as_bytes(), options).await.expect("a connected participant can send");
}

async fn read_text(reader: &mut Participant, sender: &str) -> String {
    let stream = reader.event("a text stream", |event| match event {
        RoomEvent::TextStreamOpened { reader, topic, participant_identity }
            if topic == "text" && participant_identity.as_str() == sender =>
        {
            reader.take()
        }
        _ => None,
    });
    let content = timeout(PATIENCE, stream.await.read_all()).await.expect("the stream ends");
    content.expect("the stream is complete")
}

async fn read_bytes(reader: &mut Participant, sender: &str) -> Vec<u8> {
    let stream = reader.event("a byte stream", |event| match event {
        RoomEvent::ByteStreamOpened { reader, topic, participant_identity }
            if topic == "bytes" && participant_identity.as_str() == sender =>
        {
            reader.take()
        }
        _ => None,
    });
    let content = timeout(PATIENCE, stream.await.read_all()).await.expect("the stream ends");
    content.expect("the stream is complete").to_vec()
}

pub(crate) async fn rust_to_rust() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;

    let expected = stream_content(MEGABYTE, 5);
    let ((), (text, bytes)) = tokio::join!(send_streams(&anna, 5), async {
        (read_text(&mut boris, "anna").await, read_bytes(&mut boris, "anna").await)
    });
    assert!(text == expected, "the text differs");
    assert!(bytes == expected.as_bytes(), "the bytes differ");
}

pub(crate) async fn rust_and_python() {
    with_python(PeerConnections::One).await;
}

pub(crate) async fn rust_and_python_with_two_peer_connections() {
    with_python(PeerConnections::Two).await;
}

async fn with_python(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join_with(&server, &room, "rust", connections.options()).await;
    let mut python = Peer::join(&server, &room, "python").await;
    rust.meets("python").await;

    send_streams(&rust, 6).await;
    let expected = stream_content(MEGABYTE, 6);
    for kind in ["text", "bytes"] {
        let stream = python.event("stream", |event| event["kind"] == kind).await;
        assert_eq!(stream["from"], "rust");
        assert_eq!(stream["length"], MEGABYTE);
        assert_eq!(stream["sha256"], sha256(expected.as_bytes()), "the {kind} stream differs");
    }

    let expected = stream_content(MEGABYTE, 7);
    python.call("send_stream", json!({"kind": "text", "length": MEGABYTE, "seed": 7})).await;
    assert!(read_text(&mut rust, "python").await == expected, "the text differs");
    python.call("send_stream", json!({"kind": "bytes", "length": MEGABYTE, "seed": 7})).await;
    assert!(read_bytes(&mut rust, "python").await == expected.as_bytes(), "the bytes differ");
}
