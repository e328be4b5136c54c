//! The same path without Sotto: a plain participant in a process of its own reads a stream of the same endpoint with the same
//! HTTP client, and does nothing but send each piece as a bare packet through the same server to everyone in the room.

use crate::beacon;
use serde_json::{Value, json};
use sotto_harness::{
    agent::Agent,
    endpoint::{Endpoint, Reply, Request},
    server::Server,
};
use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

/// The topic of its packets.
pub(crate) const TOPIC: &str = "relayed";
/// The key under which a relay says which room it asks for.
const ASKS: &str = "relay";
/// More pieces than any measurement lasts.
const PIECES: usize = 4_000;
/// Tokens, bare packets and these must not keep step.
const EVERY: Duration = Duration::from_millis(67);

/// Relays until it is dropped.
pub(crate) fn start(server: &Server, endpoint: &Endpoint, room: &str) -> Agent {
    let program = env::current_exe().expect("a running program knows its own file");
    Agent::start(&program.to_string_lossy(), server, &["relay", room, &endpoint.url()], &[])
}

/// What the endpoint streams to a relay, if it is one that asks.
pub(crate) fn reply(request: &Request) -> Option<Reply> {
    request.body.get(ASKS)?;
    let piece = |number: usize| json!({"piece": number, "padding": "x".repeat(beacon::SIZE - 40)});
    let reply = (0..PIECES).fold(Reply::stream(), |reply, number| reply.event(&piece(number)));
    Some(reply.paced(EVERY).done())
}

/// When the endpoint was about to write the piece that `payload` holds (the last, if they were joined) in a room.
pub(crate) fn written(requests: &[Request], room: &str, payload: &[u8]) -> Option<Instant> {
    let text = std::str::from_utf8(payload).ok()?;
    let piece = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back()?;
    let number = serde_json::from_str::<Value>(piece).ok()?.get("piece")?.as_u64()?;
    let request = requests.iter().find(|request| request.body[ASKS] == room)?;
    request.written.get(usize::try_from(number).ok()?).copied()
}

/// The process itself, with a runtime as the agent's.
pub(crate) fn run(room: &str, url: &str) -> ExitCode {
    sotto::tls::choose_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the system can poll").block_on(relay(room, url));
    ExitCode::SUCCESS
}

async fn relay(name: &str, url: &str) {
    let room = beacon::join(name, "relay").await;
    let client = reqwest::Client::builder().http1_only().build().expect("the defaults are sound");
    let body = json!({ ASKS: name }).to_string();
    let asked = client.post(format!("{url}/chat/completions")).body(body).send().await;
    let mut stream = asked.expect("the endpoint is there");
    // Ends with the endpoint or the room.
    while let Ok(Some(piece)) = stream.chunk().await {
        if !beacon::publish(&room, TOPIC, piece.to_vec()).await {
            return;
        }
    }
}
