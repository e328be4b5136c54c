//! A participant on LiveKit's Python SDK, and so on the real libwebrtc: `tests/python/peer.py` in a process of its
//! own, driven by JSON lines. The test judges by what the peer says, never by how its process ends.

use std::{
    path::Path,
    process::{Output, Stdio},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};

use crate::{
    PATIENCE, children,
    dialogue::{Dialogue, merge},
    participant::Data,
    server::Server,
    tools,
};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/peer.py");

/// Somebody in a room who uses the Python SDK.
pub struct Peer {
    dialogue: Dialogue,
}

impl Peer {
    /// Joins with the SDK's defaults (two peer connections).
    pub async fn join(server: &Server, room: &str, identity: &str) -> Self {
        Self::join_with(server, room, identity, json!({})).await
    }

    /// Joins with more arguments for the script's `join`.
    pub async fn join_with(server: &Server, room: &str, identity: &str, options: Value) -> Self {
        let mut peer = Self::start(identity);
        let mut arguments = json!({"url": server.url(), "token": server.token(room, identity)});
        merge(&mut arguments, options);
        peer.call("join", arguments).await;
        peer
    }

    /// Its name in the room.
    pub fn identity(&self) -> &str {
        self.dialogue.name()
    }

    /// Tells it to do something and gives its answer.
    pub async fn call(&mut self, what: &str, arguments: Value) -> Value {
        self.dialogue.call(what, arguments).await
    }

    /// The first event of that name, past or to come, that fits.
    pub async fn event(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.dialogue.event(name, fits).await
    }

    /// Waits until it is subscribed to a track of that participant.
    pub async fn subscribes(&mut self, identity: &str, track: &str) {
        self.event("track_subscribed", |event| event["from"] == identity && event["name"] == track).await;
    }

    /// Sends packets to everybody.
    pub async fn send(&mut self, payloads: &[Vec<u8>], topic: &str) {
        let payloads: Vec<_> = payloads.iter().map(|payload| BASE64_STANDARD.encode(payload)).collect();
        self.call("send", json!({"payloads": payloads, "topic": topic})).await;
    }

    /// The next data packet.
    pub async fn data(&mut self) -> Data {
        let packet = self.event("data", |_| true).await;
        let payload = packet["payload"].as_str().expect("the script always sends one");
        Data {
            payload: BASE64_STANDARD.decode(payload).expect("the script encoded it").into(),
            topic: packet["topic"].as_str().map(str::to_owned),
            sender: packet["from"].as_str().map(str::to_owned),
        }
    }

    /// Waits until exactly these frequencies are heard, without gaps, at that level.
    pub async fn expect_tone(&mut self, identity: &str, track: &str, hz: &[f64], level: f64) {
        let arguments = json!({"who": identity, "name": track, "channels": hz.len()});
        self.expect_sound(arguments, &format!("{hz:?} Hz at {level}"), |sound| {
            sound.iter().zip(hz).all(|(channel, hz)| {
                let heard = |name: &str| channel[name].as_f64().unwrap_or_default();
                let frames = frame_levels(channel);
                let loud = frames.iter().filter(|frame| **frame > level / 2.0).count();
                (heard("hz") - hz).abs() < 3.0
                    && (heard("level") / level - 1.0).abs() < 0.2
                    && loud * 100 >= frames.len() * 95
            })
        })
        .await;
    }

    /// Waits until each of two channels holds its own frequency, at least that loud, whatever else it holds.
    pub async fn expect_in_channels(&mut self, identity: &str, track: &str, hz: [f64; 2], least: f64) {
        let arguments = json!({"who": identity, "name": track, "channels": 2, "probe": hz});
        self.expect_sound(arguments, &format!("{hz:?} Hz"), |sound| {
            let probed = |channel: usize| sound[channel]["probed"][channel].as_f64().unwrap_or_default();
            probed(0) >= least && probed(1) >= least
        })
        .await;
    }

    /// Waits until nothing is heard.
    pub async fn expect_silence(&mut self, identity: &str, track: &str) {
        self.expect_sound(json!({"who": identity, "name": track}), "silence", |sound| {
            sound.iter().flat_map(frame_levels).all(|level| level < 0.003)
        })
        .await;
    }

    /// Leaves the room; the process stays until it is dropped.
    pub async fn leave(&mut self) {
        self.call("leave", json!({})).await;
    }

    async fn expect_sound(&mut self, arguments: Value, what: &str, is_it: impl Fn(&[Value]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let heard = self.call("hear", arguments.clone()).await;
            let sound = heard["channels"].as_array().expect("the script always sends them");
            if is_it(sound) {
                return;
            }
            assert!(Instant::now() < deadline, "{} listened for {what} and heard {heard}", self.identity());
        }
    }

    fn start(identity: &str) -> Self {
        assert!(Path::new(SCRIPT).exists(), "{SCRIPT} is missing");
        let mut command = children::mortal(tools::PYTHON.path());
        command.arg(SCRIPT);
        Self { dialogue: Dialogue::start(identity, command) }
    }
}

/// Runs a script to its end, with the Python that has LiveKit's SDK.
pub async fn run(script: &Path, variables: &[(&str, String)], arguments: &[&str]) -> Output {
    let mut command = children::mortal(tools::PYTHON.path());
    command.arg(script).args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = children::spawn(command).expect("util-linux and Python are there");
    let output = spawn_blocking(move || child.wait_with_output());
    let output = timeout(PATIENCE, output).await.expect("the script ends").expect("no panic there");
    output.expect("its output can be read")
}

/// The content of a stream that both sides can compute: printable ASCII.
pub fn stream_content(length: usize, seed: usize) -> String {
    (0..length).map(|index| char::from(((index * 31 + seed) % 95 + 32) as u8)).collect()
}

/// The hash by which the script reports content.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn frame_levels(channel: &Value) -> Vec<f64> {
    channel["frame_levels"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}
