//! Closing a connection frees all of it. A binary of its own: it counts every allocation of the process.

use std::time::Duration;

use libwebrtc::prelude::*;
use tokio::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATIONS: dhat::Alloc = dhat::Alloc;

const ROUNDS: usize = 40;
const HELD_PAIRS: usize = 10;

/// Counts until dropped; one test after the other.
async fn count_allocations() -> (dhat::Profiler, MutexGuard<'static, ()>) {
    static COUNTING: Mutex<()> = Mutex::const_new(());
    let turn = COUNTING.lock().await;
    libwebrtc::offer_loopback_addresses(true);
    (dhat::Profiler::builder().testing().build(), turn)
}

/// Two connections, connected, with an open channel.
async fn connected() -> [PeerConnection; 2] {
    let factory = PeerConnectionFactory::default();
    let connection = || factory.create_peer_connection(RtcConfiguration::default()).expect("a connection");
    let (a, b) = (connection(), connection());
    let init = DataChannelInit { negotiated: true, id: 100, ..Default::default() };
    let channel = a.create_data_channel("x", init.clone()).expect("a channel");
    b.create_data_channel("x", init).expect("a channel");
    let (opened, open) = tokio::sync::oneshot::channel();
    let mut opened = Some(opened);
    channel.on_state_change(Some(Box::new(move |state| {
        if let Some(opened) = opened.take_if(|_| state == DataChannelState::Open) {
            opened.send(()).unwrap_or_default();
        }
    })));
    let offer = a.create_offer(OfferOptions::default()).await.expect("an offer");
    a.set_local_description(offer.clone()).await.expect("our offer");
    b.set_remote_description(offer).await.expect("their offer");
    let answer = b.create_answer(AnswerOptions::default()).await.expect("an answer");
    b.set_local_description(answer.clone()).await.expect("our answer");
    a.set_remote_description(answer).await.expect("their answer");
    tokio::time::timeout(Duration::from_secs(20), open).await.expect("it opens in time").expect("it opens");
    [a, b]
}

async fn connect_and_close() {
    for connection in connected().await {
        connection.close();
    }
}

/// Live bytes, once the tasks of closed connections have ended.
async fn live_bytes() -> usize {
    // Nothing tells when a foreign runtime has dropped its last task; the least of some looks is the truth.
    let mut least = usize::MAX;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        least = least.min(dhat::HeapStats::get().curr_bytes);
    }
    least
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_frees_everything() {
    let _counting = count_allocations().await;
    for _ in 0..10 {
        connect_and_close().await;
    }
    let before = live_bytes().await;
    for _ in 0..ROUNDS {
        connect_and_close().await;
    }
    let after = live_bytes().await;
    let per_connection = after.saturating_sub(before) / (2 * ROUNDS);
    println!("{before} bytes before, {after} after: {per_connection} left by each connection");
    assert!(per_connection < 100, "each closed connection leaves {per_connection} bytes behind");
}

/// Whoever keeps a handle on a closed connection keeps its end state, not the machinery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_that_is_still_held_is_small() {
    let _counting = count_allocations().await;
    connect_and_close().await;
    let none = live_bytes().await;
    let mut held = Vec::new();
    for _ in 0..HELD_PAIRS {
        held.extend(connected().await);
    }
    let open = live_bytes().await - none;
    held.iter().for_each(PeerConnection::close);
    let closed = live_bytes().await.saturating_sub(none);
    println!("{} connections: {open} bytes open, {closed} closed but held", held.len());
    assert!(closed < open / 5, "{} closed connections: {closed} bytes of {open}", held.len());
}
