//! Joining and leaving over and over in one process.

use std::time::Duration;

use sotto_harness::{
    PATIENCE, footprint,
    participant::{Participant, PeerConnections},
    server::{Server, new_room},
    tone::{Tone, Voice},
    watch,
};
use tokio::time::{Instant, sleep};

/// Enough for everything that is made once, such as the tables of statics and the caches of threads.
const WARM_UP: usize = 50;
/// `livekit` keeps a session that was left while it waited for an answer for ten seconds more, twice if it had another
/// offer to make, and tells nobody.
const LIVEKITS_PATIENCE: Duration = Duration::from_secs(22);
/// How far the memory may end from where it began.
const TOLERANCE_PERCENT: usize = 5;

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
    let memory = settled_memory().await;
    let (resident, threads) = (footprint::resident_kb(), footprint::threads());

    visits(&server, count).await;
    let sockets_after = settled_sockets(sockets).await;
    let memory_after = settled_memory().await;
    let threads_after = footprint::threads();
    println!(
        "{count} joins and leaves: sockets {sockets} -> {sockets_after}, threads {threads} -> {threads_after}, \
         allocated {memory} -> {memory_after} bytes, resident {resident} -> {} kB (with the counting of it all)",
        footprint::resident_kb()
    );
    assert!(sockets_after <= sockets, "sockets leak: {sockets} -> {sockets_after}");
    assert!(threads_after <= threads, "threads leak: {threads} -> {threads_after}");
    assert!(
        memory_after.abs_diff(memory) <= memory * TOLERANCE_PERCENT / 100,
        "memory does not end where it began: {memory} -> {memory_after} bytes"
    );
}

fn allocated() -> usize {
    dhat::HeapStats::get().curr_bytes
}

/// What is allocated once `livekit` has let go of every session, without the log that the harness keeps.
async fn settled_memory() -> usize {
    sleep(LIVEKITS_PATIENCE).await;
    watch::forget_recent();
    allocated()
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
            println!("{visit} of {count} visits: {} bytes allocated", allocated());
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
