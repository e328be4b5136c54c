//! People's data: what there is, all of it, and its end.

use crate::bench::{Bench, answer, joined, journal, kept, message, stanza};
use futures_util::TryStreamExt;
use sotto::ports::StoreError;
use sotto::store::Deleted;

pub(crate) async fn conversations_are_listed_shown_and_deleted(bench: Bench) {
    let store = bench.open().await;
    for name in ["b", "a"] {
        let room = journal(&store, name).await;
        let records = vec![joined("alice", 0), message("m1"), message("m2"), stanza(-1), answer("m1")];
        room.append(records, true).await.expect("the store works");
    }
    let list = || async { store.conversations().try_collect::<Vec<_>>().await.expect("the store works") };
    let summaries = list().await;
    assert_eq!(summaries.iter().map(|summary| &summary.name[..]).collect::<Vec<_>>(), ["a", "b"]);
    let a = &summaries[0];
    assert_eq!((a.participants, a.messages, a.records, a.stanzas, a.open), (1, 2, 3, 1, 1));
    assert!(a.created <= a.updated);

    assert!(matches!(store.delete("a").await, Ok(Deleted::FromDisk | Deleted::FromTables)));
    assert_eq!(store.delete("a").await, Ok(Deleted::Nothing));
    assert_eq!(list().await, summaries[1..]);
    assert!(kept(&store, "a").await.is_empty());
    assert_eq!(kept(&store, "b").await.len(), 5);
    let history = journal(&store, "a").await.history().await.expect("the store works");
    assert!(history.records.is_empty() && history.last_kept.is_empty());
}

pub(crate) async fn a_conversation_in_use_is_not_deleted(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    room.append(vec![message("m1")], true).await.expect("the store works");
    assert!(matches!(store.delete("room").await, Err(StoreError::Held(_))));
    assert_eq!(kept(&store, "room").await, [message("m1")]);
    room.append(vec![message("m2")], true).await.expect("it is still ours");
}

pub(crate) async fn a_long_conversation_is_read_in_pieces(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let mut all = Vec::new();
    let mut number = 0;
    // Runs of different lengths, so that the pieces of the three tables end at different places.
    for round in 0..60 {
        let mut records = vec![joined(&format!("user-{round}"), number), message(&format!("m{round}"))];
        for _ in 0..(round * 7) % 23 {
            number -= 1;
            records.push(stanza(number));
        }
        records.extend((0..round % 5).map(|index| message(&format!("m{round}-{index}"))));
        room.append(records.clone(), false).await.expect("the store works");
        all.extend(records);
    }
    assert_eq!(kept(&store, "room").await, all);
}

pub(crate) async fn a_check_tells_what_there_is(bench: Bench) {
    let store = bench.open().await;
    journal(&store, "room").await.append(vec![message("m1")], true).await.expect("the store works");
    let report = store.check().await.expect("the store works");
    assert_eq!((report.conversations, report.problems.len()), (1, 0), "{report:?}");
    assert_eq!(report.schema.0, report.schema.1);
    assert!(report.bytes > 0);
    assert!(!report.place.is_empty());
}
