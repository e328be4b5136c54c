//! Somebody publishes video: we do not decode it, and it must do no harm.

use livekit::prelude::*;
use serde_json::json;
use sotto_harness::{
    participant::{Participant, PeerConnections},
    peer::Peer,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

/// Audio and data go on both ways.
async fn assert_room_works(rust: &mut Participant, python: &mut Peer, ear: &mut Ear) {
    ear.expect_tone(&[784.0], LEVEL).await;
    python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;
    rust.send(b"ping".to_vec(), "", true).await;
    assert_eq!(python.data().await.payload.as_slice(), b"ping");
    python.send(&[b"pong".to_vec()], "").await;
    assert_eq!(rust.data().await.payload.as_slice(), b"pong");
}

pub(crate) async fn subscribed_video_does_no_harm() {
    for connections in [PeerConnections::One, PeerConnections::Two] {
        let server = Server::shared().await;
        let room = new_room();
        let mut rust = Participant::join_with(&server, &room, "rust", connections.options()).await;
        let mut python = Peer::join(&server, &room, "python").await;
        rust.meets("python").await;
        python.call("publish_video", json!({"name": "camera"})).await;
        rust.happens("the video", |event| {
            matches!(event, RoomEvent::TrackSubscribed { track: RemoteTrack::Video(_), .. })
        })
        .await;

        let _voice = Voice::publish(&rust, "rust-voice", Tone::mono(523.0)).await;
        python.call("publish_tone", json!({"name": "python-voice", "hz": [784.0], "level": LEVEL})).await;
        python.subscribes("rust", "rust-voice").await;
        let mut ear = Ear::new(&rust.audio_of("python").await, 48_000, 1);
        assert_room_works(&mut rust, &mut python, &mut ear).await;

        python.call("unpublish", json!({"name": "camera"})).await;
        rust.happens("the video goes", |event| {
            matches!(event, RoomEvent::TrackUnsubscribed { track: RemoteTrack::Video(_), .. })
        })
        .await;
        assert_room_works(&mut rust, &mut python, &mut ear).await;
    }
}

pub(crate) async fn unsubscribed_video_does_no_harm() {
    let server = Server::shared().await;
    let room = new_room();
    let mut options = RoomOptions::default();
    options.auto_subscribe = false;
    let mut rust = Participant::join_with(&server, &room, "rust", options).await;
    let mut python = Peer::join(&server, &room, "python").await;
    rust.meets("python").await;
    python.call("publish_video", json!({"name": "camera"})).await;
    python.call("publish_tone", json!({"name": "python-voice", "hz": [784.0], "level": LEVEL})).await;
    let _voice = Voice::publish(&rust, "rust-voice", Tone::mono(523.0)).await;
    python.subscribes("rust", "rust-voice").await;

    let voice = rust
        .event("the voice is published", |event| match event {
            RoomEvent::TrackPublished { publication, .. } if publication.name() == "python-voice" => {
                Some(publication.clone())
            }
            _ => None,
        })
        .await;
    voice.set_subscribed(true);
    let mut ear = Ear::new(&rust.audio_of("python").await, 48_000, 1);
    assert_room_works(&mut rust, &mut python, &mut ear).await;
    let is_video =
        |event: &RoomEvent| matches!(event, RoomEvent::TrackSubscribed { track: RemoteTrack::Video(_), .. });
    assert!(!rust.has_seen(is_video), "subscribed to the video though nobody asked");
}
