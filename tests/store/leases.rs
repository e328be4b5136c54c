//! One writer per conversation, whatever happens.

use crate::bench::{Bench, elsewhere, journal, kept, message, settings, stanza};
use sotto::ports::StoreError;
use sotto::store::process::Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) async fn one_process_has_a_conversation_once(bench: Bench) {
    let store = bench.open().await;
    let first = journal(&store, "room").await;
    assert!(matches!(store.open("room").await, Err(StoreError::Held(_))));
    journal(&store, "another").await;
    drop(first);
    // What is being given free is waited for.
    journal(&store, "room").await.append(vec![message("m1")], true).await.expect("it is ours");
}

pub(crate) async fn many_who_want_it_at_once_get_it_one_by_one(bench: Bench) {
    let store = bench.open().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (store, inside) = (Arc::clone(&store), Arc::clone(&inside));
            tokio::spawn(async move {
                loop {
                    match store.open("room").await {
                        Ok(room) => {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            room.history().await.expect("it is ours");
                            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                            return;
                        }
                        Err(StoreError::Held(_)) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("each got its turn");
    }
    let history = journal(&store, "room").await.history().await.expect("it is ours");
    assert_eq!(history.number, -20 * 1_024);
}

pub(crate) async fn a_living_process_keeps_what_it_has(bench: Bench) {
    let far = bench.open_with(settings(), elsewhere()).await;
    let near = bench.open().await;
    let held = journal(&far, "room").await;
    let Err(StoreError::Held(words)) = near.open("room").await else { panic!("it is held") };
    assert!(words.contains("far-away") && words.contains(&std::process::id().to_string()), "{words}");
    drop(held);
    // Given free in the background: soon.
    while near.open("room").await.is_err() {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn a_process_that_ended_here_is_succeeded_at_once(bench: Bench) {
    // A process id of this machine that no process has any more.
    let ended = Process { pid: i64::from(u32::MAX), started: 1, ..Process::this() };
    let old = bench.open_with(settings(), ended).await;
    let held = journal(&old, "room").await;
    held.append(vec![message("m1")], true).await.expect("it is still its own");
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    assert_eq!(held.append(vec![message("m2")], true).await, Err(StoreError::Lost));
    assert_eq!(room.history().await.expect("it is ours").records, [message("m1")]);
}

pub(crate) async fn a_silent_process_is_succeeded_and_writes_nothing_more(bench: Bench) {
    let far = bench.open_with(settings(), elsewhere()).await;
    let old = journal(&far, "room").await;
    old.history().await.expect("it is its own");
    old.append(vec![message("m1"), stanza(-1)], true).await.expect("it is its own");
    let store = bench.open().await;
    assert!(matches!(store.open("room").await, Err(StoreError::Held(_))));
    // It stands still for 20 seconds: so it looks to others, whatever their clocks say.
    bench.run("UPDATE processes SET heartbeat = heartbeat - 20000 WHERE host = 'far-away'").await;
    let new = journal(&store, "room").await;
    let history = new.history().await.expect("it is ours");
    assert_eq!(history.records, [message("m1")]);

    // It wakes up and does not know.
    for durable in [false, true] {
        assert_eq!(old.append(vec![message("m2"), stanza(-2)], durable).await, Err(StoreError::Lost));
    }
    assert_eq!(old.history().await, Err(StoreError::Lost));
    new.append(vec![stanza(history.number - 1)], false).await.expect("it is ours");
    // Its farewell takes nothing from the new one.
    drop(old);
    far.close().await;
    new.append(vec![message("m3")], true).await.expect("it is ours");
    let expected = [message("m1"), stanza(-1), stanza(history.number - 1), message("m3")];
    assert_eq!(kept(&store, "room").await, expected);
}

pub(crate) async fn closing_gives_everything_free(bench: Bench) {
    let far = bench.open_with(settings(), elsewhere()).await;
    let (one, two) = (journal(&far, "one").await, journal(&far, "two").await);
    drop((one, two));
    far.close().await;
    let store = bench.open().await;
    journal(&store, "one").await;
    journal(&store, "two").await;
    assert!(far.open("one").await.is_err(), "it is closed");
}

pub(crate) async fn nobody_waits_for_an_open_that_was_given_up(bench: Bench) {
    let far = bench.open_with(settings(), elsewhere()).await;
    for _ in 0..50 {
        // Given up at once, before the answer.
        drop(far.open("room"));
    }
    let store = bench.open().await;
    while store.open("room").await.is_err() {
        tokio::task::yield_now().await;
    }
}
