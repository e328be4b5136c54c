//! Joining and leaving over and over in one process.

use std::time::Duration;

use sotto_harness::{
    PATIENCE, footprint,
    participant::{Participant, PeerConnections},
    server::{Server, new_room},
    tone::{Tone, Voice},
};
use tokio::time::{Instant, sleep};

const WARM_UP: usize = 20;
const VISITS_PER_HOST: usize = 10;
/// `livekit` keeps a session that was left while it waited for an answer for ten seconds more, and tells nobody.
const LIVEKITS_PATIENCE: Duration = Duration::from_secs(11);
const GROWTH_ALLOWED: f64 = 1.05;

/// After some visits to warm up, `count` more change neither the sockets nor the memory.
pub(crate) async fn leave_nothing(count: usize) {
    let server = Server::start().await;
    visits(&server, WARM_UP).await;
    // What is closing may need a moment; the server's own test of readiness has left none.
    let sockets = settled_sockets(0).await;
    sleep(LIVEKITS_PATIENCE).await;
    let (memory, threads) = (footprint::resident_kb(), footprint::threads());

    visits(&server, count).await;
    let sockets_after = settled_sockets(sockets).await;
    sleep(LIVEKITS_PATIENCE).await;
    let (memory_after, threads_after) = (footprint::resident_kb(), footprint::threads());
    println!(
        "{count} joins and leaves: sockets {sockets} -> {sockets_after}, threads {threads} -> {threads_after}, \
         resident {memory} -> {memory_after} kB"
    );
    assert!(sockets_after <= sockets, "sockets leak: {sockets} -> {sockets_after}");
    assert!(threads_after <= threads, "threads leak: {threads} -> {threads_after}");
    let growth = memory_after as f64 / memory as f64;
    assert!(growth <= GROWTH_ALLOWED, "memory leaks: {memory} -> {memory_after} kB");
}

/// Each visit joins, publishes, says something and leaves, with one and two peer connections by turns.
async fn visits(server: &Server, count: usize) {
    // A host keeps the events that a test has not asked for; a new one now and then keeps that from counting.
    for first in (0..count).step_by(VISITS_PER_HOST) {
        let room = new_room();
        let mut host = Participant::join(server, &room, "host").await;
        for visit in first..count.min(first + VISITS_PER_HOST) {
            receive(server, &room, &mut host, visit).await;
        }
        host.leave().await;
        if first % 100 == 0 {
            println!("{first} of {count} visits: resident {} kB", footprint::resident_kb());
        }
    }
}

async fn receive(server: &Server, room: &str, host: &mut Participant, visit: usize) {
    let connections = if visit.is_multiple_of(2) { PeerConnections::One } else { PeerConnections::Two };
    let guest = Participant::join_with(server, room, &format!("guest-{visit}"), connections.options()).await;
    let voice = Voice::publish(&guest, "voice", Tone::mono(440.0)).await;
    host.audio_of(guest.identity()).await;
    guest.send(visit.to_be_bytes().to_vec(), "", true).await;
    assert_eq!(*host.data().await.payload, visit.to_be_bytes());
    drop(voice);
    guest.leave().await;
}

/// The number of sockets once it has come down to `expected`, or what it is when patience ends.
async fn settled_sockets(expected: usize) -> usize {
    let deadline = Instant::now() + if expected == 0 { Duration::from_secs(2) } else { PATIENCE };
    while footprint::sockets() > expected && Instant::now() < deadline {
        sleep(Duration::from_millis(50)).await;
    }
    footprint::sockets()
}
