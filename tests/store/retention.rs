//! What goes by itself.

use crate::bench::{
    Bench, answer, elsewhere, journal, kept, message, reasoning, settings, stanza, stanza_for,
};
use futures_util::TryStreamExt;
use sotto::store::process::Process;
use sotto::store::{KeptReasoning, Settings};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::Record;
use std::time::Duration;

const AGE_STANZAS: &str = "UPDATE stanzas SET at = at - 7200000";

pub(crate) async fn old_and_many_stanzas_go_but_the_newest_of_each_audience_stays(bench: Bench) {
    let settings = Settings { replay_count: 300, replay_window: Duration::from_secs(3_600), ..settings() };
    let store = bench.open_with(settings, Process::this()).await;
    let room = journal(&store, "room").await;
    let mut records = vec![stanza_for(-1, Audience::Whole, 5), stanza_for(-2, Audience::Reasoning, 5)];
    records.extend((3..=1_000).map(|number| stanza(-number)));
    room.append(records, false).await.expect("the store works");
    store.tidy().await.expect("the store works");
    // The newest 300, and the only one of each other audience.
    let page = room.stanzas(0, i32::MIN, 1_000).await.expect("the store works");
    let numbers: Vec<_> = page.stanzas.iter().map(|stanza| stanza.number).collect();
    assert_eq!(numbers.len(), 302);
    assert_eq!(numbers[..3], [-1, -2, -701]);
    let last_kept = room.history().await.expect("the store works").last_kept;
    assert_eq!(last_kept, [(Audience::Everyone, -1_000), (Audience::Reasoning, -2), (Audience::Whole, -1)]);

    bench.run(AGE_STANZAS).await;
    room.append(vec![stanza(-1_001)], false).await.expect("the store works");
    store.tidy().await.expect("the store works");
    let page = room.stanzas(0, i32::MIN, 1_000).await.expect("the store works");
    assert_eq!(page.stanzas.iter().map(|stanza| stanza.number).collect::<Vec<_>>(), [-1, -2, -1_001]);
    store.tidy().await.expect("twice does no harm");
}

pub(crate) async fn what_is_replayed_last_says_that_some_is_gone(bench: Bench) {
    let store = bench.open_with(Settings { replay_count: 10, ..settings() }, Process::this()).await;
    let room = journal(&store, "room").await;
    room.append((1..=30).map(|number| stanza(-number)).collect(), false).await.expect("the store works");
    let incomplete =
        async |after| room.stanzas(after, i32::MIN, 100).await.expect("the store works").incomplete;
    assert!(!incomplete(0).await);
    store.tidy().await.expect("the store works");
    assert!(incomplete(0).await);
    assert!(incomplete(-19).await);
    assert!(!incomplete(-20).await);
    assert!(!incomplete(-30).await);
}

pub(crate) async fn reasoning_is_erased_when_it_cannot_be_replayed_any_more(bench: Bench) {
    let settings = Settings { reasoning: KeptReasoning::Replay, ..settings() };
    let store = bench.open_with(settings, Process::this()).await;
    let room = journal(&store, "room").await;
    room.append(vec![stanza_for(-1, Audience::Reasoning, 9)], true).await.expect("the store works");
    bench.run("UPDATE stanzas SET at = at - 90000000").await;
    room.append(vec![message("m1"), reasoning("m1", "old thoughts"), answer("m1")], true)
        .await
        .expect("the store works");
    bench.run("UPDATE records SET at = at - 90000000").await;
    room.append(vec![message("m2"), reasoning("m2", "new thoughts"), answer("m2")], true)
        .await
        .expect("the store works");
    store.tidy().await.expect("the store works");
    let records = kept(&store, "room").await;
    let thoughts: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Reasoning(reasoning) => Some((&reasoning.message[..], reasoning.steps.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, [("m1", vec![]), ("m2", vec!["new thoughts".to_owned()])]);
    // Nor does the stanza stay, although it is the newest of its audience; only its number does.
    assert_eq!(records.len(), 6);
    assert_eq!(room.history().await.expect("the store works").last_kept, [(Audience::Reasoning, -1)]);
    let page = room.stanzas(0, i32::MIN, 10).await.expect("the store works");
    assert!(page.stanzas.is_empty() && page.incomplete);
}

pub(crate) async fn reasoning_can_be_kept_out(bench: Bench) {
    let settings = Settings { reasoning: KeptReasoning::Nothing, ..settings() };
    let store = bench.open_with(settings, Process::this()).await;
    let room = journal(&store, "room").await;
    let thoughts = vec![reasoning("m1", "secret"), stanza_for(-1, Audience::Reasoning, 9)];
    room.append(thoughts.clone(), true).await.expect("there is nothing to be done");
    room.append([vec![message("m1"), stanza(-2)], thoughts].concat(), true).await.expect("the store works");
    assert_eq!(kept(&store, "room").await, [message("m1"), stanza(-2)]);
    assert_eq!(room.history().await.expect("the store works").last_kept, [(Audience::Everyone, -2)]);
}

pub(crate) async fn untouched_conversations_go(bench: Bench) {
    let settings = Settings { retention: Some(Duration::from_secs(30 * 86_400)), ..settings() };
    let store = bench.open_with(settings.clone(), Process::this()).await;
    for name in ["old", "used"] {
        let room = journal(&store, name).await;
        room.append((0..500).map(|index| message(&format!("m{index}"))).collect(), true)
            .await
            .expect("the store works");
    }
    bench.run("UPDATE conversations SET updated = updated - 2700000000").await;
    let far = bench.open_with(settings, elsewhere()).await;
    let used = loop {
        // The one before is given free in the background.
        if let Ok(room) = far.open("used").await {
            break room;
        }
        tokio::task::yield_now().await;
    };
    journal(&store, "new").await.append(vec![message("m1")], true).await.expect("the store works");
    store.tidy().await.expect("the store works");
    let names: Vec<_> =
        store.conversations().map_ok(|summary| summary.name).try_collect().await.expect("it works");
    assert_eq!(names, ["new", "used"]);
    assert!(kept(&store, "old").await.is_empty());
    // A name that comes again is a new conversation.
    assert_eq!(journal(&store, "old").await.history().await.expect("the store works").records, []);
    drop(used);
}
