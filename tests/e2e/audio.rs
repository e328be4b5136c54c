//! Sound both ways, judged by its content: frequency, level, no gaps.

use livekit::options::TrackPublishOptions;
use livekit::prelude::TrackSource;
use serde_json::json;
use sotto_harness::{
    participant::{Participant, PeerConnections},
    peer::Peer,
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};

/// Publishes a tone, listens at the given rate, and expects all of it.
async fn rust_to_rust(tone: Tone, connections: PeerConnections, ear_rate: u32) {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join_with(&server, &room, "anna", connections.options()).await;
    let mut boris = Participant::join_with(&server, &room, "boris", connections.options()).await;
    let hz = tone.hz.clone();
    let _voice = Voice::publish(&anna, "voice", tone).await;
    let track = boris.audio_of("anna").await;
    Ear::new(&track, ear_rate, hz.len()).expect_tone(&hz, LEVEL).await;
    boris.assert_udp().await;
}

pub(crate) async fn rust_to_rust_mono() {
    rust_to_rust(Tone::mono(440.0), PeerConnections::One, 48_000).await;
}

/// The SDKs never tell the server that a track is stereo, so the server takes `stereo=1` out of its answer and the
/// original libwebrtc sends a mono mix: each ear hears both tones at half the level. Neither may be lost.
const MIXED: f64 = LEVEL * 0.4;

pub(crate) async fn rust_to_rust_stereo() {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::stereo(440.0, 660.0)).await;
    let track = boris.audio_of("anna").await;
    Ear::new(&track, 48_000, 2).expect_in_channels(&[440.0, 660.0], MIXED).await;
    // Who wants mono hears both as well.
    let mut mono = Ear::new(&track, 16_000, 1);
    mono.expect_in_channels(&[440.0], MIXED).await;
    mono.expect_in_channels(&[660.0], MIXED).await;
}

pub(crate) async fn mono_is_the_same_in_both_ears() {
    let server = Server::shared().await;
    let room = new_room();
    let anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    let _voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
    Ear::new(&boris.audio_of("anna").await, 48_000, 2).expect_tone(&[440.0, 440.0], LEVEL).await;
}

pub(crate) async fn rust_to_rust_with_two_peer_connections() {
    rust_to_rust(Tone::mono(440.0), PeerConnections::Two, 48_000).await;
}

pub(crate) async fn source_at_44100_is_heard_at_16000() {
    rust_to_rust(Tone::mono(1_000.0).at_rate(44_100), PeerConnections::One, 16_000).await;
}

pub(crate) async fn source_at_22050_is_heard_at_48000() {
    // 220.5 samples make 10 ms: the frames of such a source are of 220 samples.
    rust_to_rust(Tone::mono(1_000.0).at_rate(22_050), PeerConnections::One, 48_000).await;
}

pub(crate) async fn both_ways_with_python() {
    with_python(PeerConnections::One).await;
}

pub(crate) async fn both_ways_with_python_and_two_peer_connections() {
    with_python(PeerConnections::Two).await;
}

/// The Python SDK publishes `audio/red` unless told otherwise.
async fn with_python(connections: PeerConnections) {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join_with(&server, &room, "rust", connections.options()).await;
    let mut python = Peer::join(&server, &room, "python").await;
    let _voice = Voice::publish(&rust, "rust-voice", Tone::mono(523.0)).await;
    python.call("publish_tone", json!({"name": "python-voice", "hz": [784.0], "level": LEVEL})).await;

    Ear::new(&rust.audio_of("python").await, 16_000, 1).expect_tone(&[784.0], LEVEL).await;
    python.subscribes("rust", "rust-voice").await;
    python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;
}

pub(crate) async fn stereo_both_ways_with_python() {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join(&server, &room, "rust").await;
    let mut python = Peer::join_with(&server, &room, "python", json!({"single_peer_connection": true})).await;
    let _voice = Voice::publish(&rust, "rust-voice", Tone::stereo(440.0, 660.0)).await;
    let tone = json!({"name": "python-voice", "hz": [550.0, 880.0], "level": LEVEL, "channels": 2});
    python.call("publish_tone", tone).await;

    Ear::new(&rust.audio_of("python").await, 48_000, 2).expect_in_channels(&[550.0, 880.0], MIXED).await;
    python.subscribes("rust", "rust-voice").await;
    python.expect_in_channels("rust", "rust-voice", [440.0, 660.0], MIXED).await;
}

pub(crate) async fn python_without_red() {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join(&server, &room, "rust").await;
    let mut python = Peer::join(&server, &room, "python").await;
    let tone = json!({"name": "voice", "hz": [784.0], "level": LEVEL, "red": false});
    python.call("publish_tone", tone).await;
    let without_red =
        TrackPublishOptions { source: TrackSource::Microphone, red: false, ..TrackPublishOptions::default() };
    let _voice = Voice::publish_with(&rust, "rust-voice", Tone::mono(523.0), without_red).await;

    Ear::new(&rust.audio_of("python").await, 48_000, 1).expect_tone(&[784.0], LEVEL).await;
    python.subscribes("rust", "rust-voice").await;
    python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;
}

/// With DTX the publisher sends almost nothing while it is silent; the pause must sound like one, and end.
pub(crate) async fn python_with_dtx_pauses_and_comes_back() {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join(&server, &room, "rust").await;
    let mut python = Peer::join(&server, &room, "python").await;
    let tone = json!({"name": "python-voice", "hz": [784.0], "level": LEVEL, "dtx": true});
    python.call("publish_tone", tone).await;
    let voice = Voice::publish(&rust, "rust-voice", Tone::mono(523.0)).await;

    let mut ear = Ear::new(&rust.audio_of("python").await, 48_000, 1);
    python.subscribes("rust", "rust-voice").await;
    for _ in 0..2 {
        python.call("set_level", json!({"name": "python-voice", "level": LEVEL})).await;
        voice.set_level(LEVEL);
        ear.expect_tone(&[784.0], LEVEL).await;
        python.expect_tone("rust", "rust-voice", &[523.0], LEVEL).await;

        python.call("set_level", json!({"name": "python-voice", "level": 0.0})).await;
        voice.set_level(0.0);
        ear.expect_silence().await;
        python.expect_silence("rust", "rust-voice").await;
    }
}

pub(crate) async fn five_participants_hear_all_others() {
    const TONES: [(&str, f64); 5] =
        [("anna", 400.0), ("boris", 500.0), ("clara", 600.0), ("david", 700.0), ("emma", 800.0)];
    let server = Server::shared().await;
    let room = new_room();
    let mut participants = Vec::new();
    let mut voices = Vec::new();
    for (identity, hz) in TONES {
        let participant = Participant::join(&server, &room, identity).await;
        voices.push(Voice::publish(&participant, identity, Tone::mono(hz)).await);
        participants.push(participant);
    }
    for participant in &mut participants {
        for (other, hz) in TONES {
            if other != participant.identity() {
                let track = participant.audio_of(other).await;
                Ear::new(&track, 16_000, 1).expect_tone(&[hz], LEVEL).await;
            }
        }
    }
}
