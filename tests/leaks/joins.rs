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
/// `livekit` keeps a session that was left while it waited for an answer for ten seconds more, twice if it had another
/// offer to make, and tells nobody.
const LIVEKITS_PATIENCE: Duration = Duration::from_secs(22);
/// A leak of anything that matters is larger: a session has some 300 kB.
const LEFT_PER_VISIT_KB: usize = 1;

/// After some visits to warm up, `count` more change neither the sockets nor the memory in use.
///
/// What counts is what is allocated. How much of the freed memory the allocator hands back to the system depends on
/// how many sessions were alive at once (`livekit` keeps some for up to twenty seconds); it is only printed.
pub(crate) async fn leave_nothing(count: usize) {
    let _profiler = dhat::Profiler::builder().testing().build();
    let server = Server::start().await;
    visits(&server, WARM_UP).await;
    // What is closing may need a moment; the server's own test of readiness has left none.
    let sockets = settled_sockets(0).await;
    sleep(LIVEKITS_PATIENCE).await;
    let (memory, resident, threads) = (allocated_kb(), footprint::resident_kb(), footprint::threads());

    visits(&server, count).await;
    let sockets_after = settled_sockets(sockets).await;
    sleep(LIVEKITS_PATIENCE).await;
    let (memory_after, threads_after) = (allocated_kb(), footprint::threads());
    println!(
        "{count} joins and leaves: sockets {sockets} -> {sockets_after}, threads {threads} -> {threads_after}, \
         allocated {memory} -> {memory_after} kB, resident {resident} -> {} kB (with the counting of it all)",
        footprint::resident_kb()
    );
    assert!(sockets_after <= sockets, "sockets leak: {sockets} -> {sockets_after}");
    assert!(threads_after <= threads, "threads leak: {threads} -> {threads_after}");
    let left = memory_after.saturating_sub(memory);
    assert!(left <= count * LEFT_PER_VISIT_KB, "memory leaks: {memory} -> {memory_after} kB");
}

fn allocated_kb() -> usize {
    dhat::HeapStats::get().curr_bytes / 1024
}

/// Each visit joins a room of its own, publishes, says something and leaves, with one and two peer connections by turns.
async fn visits(server: &Server, count: usize) {
    for visit in 0..count {
        let connections = if visit.is_multiple_of(2) { PeerConnections::One } else { PeerConnections::Two };
        let guest = Participant::join_with(server, &new_room(), "guest", connections.options()).await;
        let voice = Voice::publish(&guest, "voice", Tone::mono(440.0)).await;
        guest.send(visit.to_be_bytes().to_vec(), "", true).await;
        guest.assert_udp().await;
        drop(voice);
        guest.leave().await;
        if visit % 100 == 0 {
            println!("{visit} of {count} visits: allocated {} kB", allocated_kb());
        }
    }
}

/// The number of sockets once it has come down to `expected`, or what it is when patience ends.
async fn settled_sockets(expected: usize) -> usize {
    let deadline = Instant::now() + if expected == 0 { Duration::from_secs(2) } else { PATIENCE };
    while footprint::sockets() > expected && Instant::now() < deadline {
        sleep(Duration::from_millis(50)).await;
    }
    footprint::sockets()
}
