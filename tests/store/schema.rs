//! The tables: made once, by whoever comes first, and never by two.

use crate::bench::{Bench, elsewhere, journal, message, settings};
use futures_util::future::join_all;
use sotto::ports::StoreError;

pub(crate) async fn eight_may_start_at_once(bench: Bench) {
    let stores = join_all((0..8).map(|_| bench.try_open(settings(), elsewhere()))).await;
    for (index, store) in stores.into_iter().enumerate() {
        let store = store.expect("each can start");
        let room = journal(&store, &format!("room-{index}")).await;
        room.append(vec![message("m1")], true).await.expect("the store works");
    }
}

pub(crate) async fn newer_tables_are_refused_unless_they_fit(bench: Bench) {
    bench.open().await.close().await;
    bench.run("UPDATE sotto_schema SET version = 1000, works_with = 1000").await;
    let Err(StoreError::Broken(words)) = bench.try_open(settings(), elsewhere()).await else {
        panic!("it is too new")
    };
    assert!(words.contains("newer Sotto") && words.contains("1000"), "{words}");
    bench.run("UPDATE sotto_schema SET works_with = 1").await;
    let store = bench.open().await;
    journal(&store, "room").await.append(vec![message("m1")], true).await.expect("they fit");
}
