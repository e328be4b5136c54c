//! Bare packets, to compare with: a plain participant in a process of its own sends them through the same server to
//! everyone in the room, as sentences are, each with the time of day at which it was sent. Both processes read the same clock.

use livekit::prelude::{DataPacket, Room, RoomOptions};
use livekit_api::access_token::{AccessToken, VideoGrants};
use sotto_harness::{agent::Agent, server::Server};
use std::{
    env,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{MissedTickBehavior, interval};

/// The topic of bare packets.
pub(crate) const TOPIC: &str = "bare";
/// About as much as the packet of a sentence.
pub(crate) const SIZE: usize = 250;

/// Sends packets until it is dropped.
pub(crate) fn start(server: &Server, room: &str, every: Duration) -> Agent {
    let program = env::current_exe().expect("a running program knows its own file");
    let program = program.to_string_lossy();
    let every = every.as_millis().to_string();
    Agent::start(&program, server, &["beacon", room, &every], &[])
}

/// How long ago a packet was sent.
pub(crate) fn trip(payload: &[u8]) -> Option<Duration> {
    let sent = u64::from_le_bytes(payload.first_chunk().copied()?);
    now().checked_sub(Duration::from_nanos(sent))
}

/// The process itself.
pub(crate) fn run(room: &str, every_ms: u64) -> ExitCode {
    sotto::tls::choose_provider();
    let runtime = tokio::runtime::Runtime::new().expect("the system can start threads");
    runtime.block_on(send(room, every_ms));
    ExitCode::SUCCESS
}

async fn send(room: &str, every_ms: u64) {
    let room = join(room, "beacon").await;
    let mut ticks = interval(Duration::from_millis(every_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut payload = vec![0; SIZE];
        payload[..8].copy_from_slice(&(now().as_nanos() as u64).to_le_bytes());
        if !publish(&room, TOPIC, payload).await {
            return;
        }
    }
}

/// A plain participant of the room; whoever started this process says how.
pub(crate) async fn join(room: &str, identity: &str) -> Room {
    let variable = |name| env::var(name).expect("set by whoever started us");
    let grants = VideoGrants { room_join: true, room: room.to_owned(), ..VideoGrants::default() };
    let token = AccessToken::with_api_key(&variable("LIVEKIT_API_KEY"), &variable("LIVEKIT_API_SECRET"))
        .with_identity(identity)
        .with_grants(grants)
        .to_jwt()
        .expect("key and secret are set");
    let url = variable("LIVEKIT_URL");
    let joined = Room::connect(&url, &token, RoomOptions::default()).await;
    joined.expect("the server takes everybody").0
}

/// Sends a packet; false if the room is over.
pub(crate) async fn publish(room: &Room, topic: &str, payload: Vec<u8>) -> bool {
    let packet =
        DataPacket { payload, topic: Some(topic.to_owned()), reliable: true, ..DataPacket::default() };
    room.local_participant().publish_data(packet).await.is_ok()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
