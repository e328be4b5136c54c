//! Many idle rooms in one process.

use std::time::{Duration, Instant};

use sotto_harness::{
    footprint,
    participant::Participant,
    server::{Server, new_room},
};
use tokio::time::sleep;

/// How long the rooms are watched doing nothing.
const IDLE: Duration = Duration::from_secs(5);
const ALLOWED_KB: f64 = 500.0;

/// Every room between the first `few` and all the `many` costs at most half a megabyte and no thread.
pub(crate) async fn stay_small(few: usize, many: usize) {
    let server = Server::start().await;
    let (mut participants, mut joins) = (Vec::new(), Vec::new());
    fill(&server, &mut participants, &mut joins, few).await;
    let (memory, threads) = (footprint::resident_kb(), footprint::threads());
    fill(&server, &mut participants, &mut joins, many).await;
    let (memory_after, threads_after) = (footprint::resident_kb(), footprint::threads());

    let each = (memory_after as f64 - memory as f64) / (many - few) as f64;
    println!("{few} -> {many} idle rooms: {each:.0} kB each, threads {threads} -> {threads_after}");
    let before = footprint::processor_time();
    sleep(IDLE).await;
    let busy = footprint::processor_time().saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64();
    // A figure, no judgement: how fast a core is and what else it does is not known here.
    println!(
        "{many} idle rooms take {:.1} % of a core; a join took {:?} in the middle",
        busy * 100.0,
        median(joins)
    );
    for participant in participants {
        participant.leave().await;
    }
    assert!(each <= ALLOWED_KB, "an idle room costs {each:.0} kB");
    assert!(threads_after <= threads, "rooms have threads of their own: {threads} -> {threads_after}");
}

async fn fill(server: &Server, participants: &mut Vec<Participant>, joins: &mut Vec<Duration>, count: usize) {
    while participants.len() < count {
        let began = Instant::now();
        participants.push(Participant::join(server, &new_room(), "agent").await);
        joins.push(began.elapsed());
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
