//! Many idle rooms in one process.

use sotto_harness::{
    footprint,
    participant::Participant,
    server::{Server, new_room},
};

const ALLOWED_KB: f64 = 500.0;

/// Every room between the first `few` and all the `many` costs at most half a megabyte and no thread.
pub(crate) async fn stay_small(few: usize, many: usize) {
    let server = Server::start().await;
    let mut participants = Vec::new();
    fill(&server, &mut participants, few).await;
    let (memory, threads) = (footprint::resident_kb(), footprint::threads());
    fill(&server, &mut participants, many).await;
    let (memory_after, threads_after) = (footprint::resident_kb(), footprint::threads());

    let each = (memory_after as f64 - memory as f64) / (many - few) as f64;
    println!("{few} -> {many} idle rooms: {each:.0} kB each, threads {threads} -> {threads_after}");
    for participant in participants {
        participant.leave().await;
    }
    assert!(each <= ALLOWED_KB, "an idle room costs {each:.0} kB");
    assert!(threads_after <= threads, "rooms have threads of their own: {threads} -> {threads_after}");
}

async fn fill(server: &Server, participants: &mut Vec<Participant>, count: usize) {
    while participants.len() < count {
        participants.push(Participant::join(server, &new_room(), "agent").await);
    }
}
