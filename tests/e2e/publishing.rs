//! Tracks that come, go, fall silent and come back.

use livekit::prelude::*;
use serde_json::json;
use sotto_harness::{
    participant::Participant,
    peer::Peer,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

pub(crate) async fn track_can_be_taken_back_and_published_again() {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    for hz in [440.0, 550.0, 660.0] {
        let voice = Voice::publish(&anna, "voice", Tone::mono(hz)).await;
        Ear::new(&boris.audio_of("anna").await, 48_000, 1).expect_tone(&[hz], LEVEL).await;
        voice.unpublish(&anna).await;
        boris.happens("the track ends", |event| matches!(event, RoomEvent::TrackUnsubscribed { .. })).await;
        boris.happens("the track is gone", |event| matches!(event, RoomEvent::TrackUnpublished { .. })).await;
    }
    assert!(anna.room.local_participant().track_publications().is_empty());
}

pub(crate) async fn mute_is_silence_until_unmute() {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    let mut ear = Ear::new(&boris.audio_of("anna").await, 48_000, 1);
    for _ in 0..2 {
        ear.expect_tone(&[440.0], LEVEL).await;
        voice.publication.mute();
        boris.happens("anna is muted", |event| matches!(event, RoomEvent::TrackMuted { .. })).await;
        ear.expect_silence().await;
        voice.publication.unmute();
        boris.happens("anna is unmuted", |event| matches!(event, RoomEvent::TrackUnmuted { .. })).await;
    }
    ear.expect_tone(&[440.0], LEVEL).await;
}

pub(crate) async fn mute_works_with_python_both_ways() {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join(&server, &room, "rust").await;
    let mut python = Peer::join(&server, &room, "python").await;
    let voice = Voice::publish(&rust, "rust-voice", Tone::mono(523.0)).await;
    python.call("publish_tone", json!({"name": "python-voice", "hz": [784.0], "level": LEVEL})).await;
    let mut ear = Ear::new(&rust.audio_of("python").await, 48_000, 1);
    python.subscribes("rust", "rust-voice").await;
    ear.expect_tone(&[784.0], LEVEL).await;
    python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;

    voice.publication.mute();
    python.event("track_muted", |event| event["from"] == "rust").await;
    python.expect_silence("rust", "rust-voice").await;
    python.call("mute", json!({"name": "python-voice", "muted": true})).await;
    rust.happens("python is muted", |event| matches!(event, RoomEvent::TrackMuted { .. })).await;
    ear.expect_silence().await;

    voice.publication.unmute();
    python.event("track_unmuted", |event| event["from"] == "rust").await;
    python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;
    python.call("mute", json!({"name": "python-voice", "muted": false})).await;
    rust.happens("python is unmuted", |event| matches!(event, RoomEvent::TrackUnmuted { .. })).await;
    ear.expect_tone(&[784.0], LEVEL).await;
}

pub(crate) async fn unsubscribing_stops_the_frames() {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    for _ in 0..2 {
        let (track, publication) = boris
            .event("the voice", |event| match event {
                RoomEvent::TrackSubscribed { track: RemoteTrack::Audio(track), publication, .. } => {
                    Some((track.clone(), publication.clone()))
                }
                _ => None,
            })
            .await;
        let mut ear = Ear::new(&track, 48_000, 1);
        ear.expect_tone(&[440.0], LEVEL).await;
        publication.set_subscribed(false);
        boris.happens("unsubscribed", |event| matches!(event, RoomEvent::TrackUnsubscribed { .. })).await;
        // The SDK says so before the server knows of it; what is wanted again before then is never taken away, and no new
        // track comes of it.
        ear.expect_silence().await;
        publication.set_subscribed(true);
    }
}
