//! Stanzas that are asked for again.

use crate::bench::{Bench, journal, stanza, stanza_for};
use sotto::ports::Journal;
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::Record;

async fn numbers(room: &dyn Journal, after: i32, until: i32, most: usize) -> Vec<i32> {
    let page = room.stanzas(after, until, most).await.expect("the store works");
    assert!(!page.incomplete);
    page.stanzas.iter().map(|stanza| stanza.number).collect()
}

pub(crate) async fn pages_are_exact(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    // Not every number is kept.
    let records: Vec<_> = (1..=10).map(|number| stanza(-3 * number)).collect();
    room.append(records.clone(), false).await.expect("the store works");
    assert_eq!(numbers(&*room, 0, i32::MIN, 100).await, [-3, -6, -9, -12, -15, -18, -21, -24, -27, -30]);
    assert_eq!(numbers(&*room, -9, -18, 100).await, [-12, -15, -18]);
    assert_eq!(numbers(&*room, -10, -17, 100).await, [-12, -15]);
    assert_eq!(numbers(&*room, -9, i32::MIN, 2).await, [-12, -15]);
    assert!(numbers(&*room, -30, i32::MIN, 100).await.is_empty());
    assert!(numbers(&*room, -9, -18, 0).await.is_empty());
    let page = room.stanzas(-6, -9, 9).await.expect("the store works");
    assert_eq!(page.stanzas.into_iter().map(Record::Stanza).collect::<Vec<_>>(), records[2..3]);
}

pub(crate) async fn pages_are_bounded(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let records =
        (1..=20).map(|number| stanza_for(-number, Audience::One("bob".to_owned()), 12_000)).collect();
    room.append(records, false).await.expect("the store works");
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = room.stanzas(after, -20, 100).await.expect("the store works").stanzas;
        let Some(last) = page.last() else { break };
        after = last.number;
        assert!(page.iter().map(|stanza| stanza.bytes.len()).sum::<usize>() < (256 << 10) + 12_000);
        seen.extend(page.iter().map(|stanza| stanza.number));
    }
    assert_eq!(seen, (1..=20).map(|number| -number).collect::<Vec<_>>());
}
