//! What is kept, and how it comes back.

use crate::bench::{
    Bench, answer, begun, broken_off, elsewhere, joined, journal, kept, message, message_of, reasoning,
    settings, stanza, stanza_for, stopped, variation,
};
use sotto::store::Settings;
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{History, Record};

pub(crate) async fn what_was_kept_comes_back_in_its_order(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let first = room.history().await.expect("the store works");
    assert_eq!(first, History { number: 0, reserved: -1_024, ..History::default() });

    let calls = [
        (vec![joined("alice", 0), message("m1")], true),
        (vec![begun("m1", "am_m1", 0), stanza(-1)], false),
        (vec![stanza(-2), joined("bob", -2), stanza_for(-4, Audience::Streaming, 3)], false),
        (vec![reasoning("m1", "Hm."), answer("m1"), stanza(-5)], true),
    ];
    for (records, durable) in calls.clone() {
        room.append(records, durable).await.expect("the store works");
    }
    let all: Vec<Record> = calls.into_iter().flat_map(|(records, _)| records).collect();
    assert_eq!(kept(&store, "room").await, all);

    drop(room);
    let again = journal(&store, "room").await.history().await.expect("the store works");
    let facts: Vec<_> = all.into_iter().filter(|record| !matches!(record, Record::Stanza(_))).collect();
    assert_eq!(again.records, facts);
    assert_eq!(again.last_kept, [(Audience::Everyone, -5), (Audience::Streaming, -4)]);
    assert!(again.unfinished.is_empty());
}

pub(crate) async fn a_message_is_kept_once(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    for _ in 0..2 {
        room.append(vec![message("m1")], true).await.expect("what is there already is kept");
    }
    room.append(vec![message("m1"), message("m2")], true).await.expect("the store works");
    assert_eq!(kept(&store, "room").await, [message("m1"), message("m2")]);

    // Nor was it opened again: one end is enough.
    room.append(vec![answer("m1"), answer("m2")], true).await.expect("the store works");
    room.append(vec![message("m1")], true).await.expect("the store works");
    drop(room);
    let room = journal(&store, "room").await;
    let summaries: Vec<_> = {
        use futures_util::TryStreamExt;
        store.conversations().try_collect().await.expect("the store works")
    };
    assert_eq!((summaries[0].records, summaries[0].open), (4, 0));
    drop(room);
}

pub(crate) async fn a_stanza_is_kept_once(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    room.append(vec![stanza(-1), stanza(-2)], false).await.expect("the store works");
    room.append(vec![stanza_for(-2, Audience::Everyone, 99), stanza(-3)], false)
        .await
        .expect("the store works");
    assert_eq!(kept(&store, "room").await, [stanza(-1), stanza(-2), stanza(-3)]);
}

pub(crate) async fn numbers_are_never_given_twice(bench: Bench) {
    let mut used = 0;
    let store = bench.open().await;
    for round in 1..=5 {
        let room = journal(&store, "room").await;
        let history = room.history().await.expect("the store works");
        assert!(history.number <= used, "{} may have been used", history.number);
        assert_eq!(history.reserved, history.number - 1_024);
        used = history.reserved;
        if round % 2 == 0 {
            used -= 5_000;
            room.append(vec![Record::Reserved { number: used }], false).await.expect("the store works");
            // A higher one takes nothing back.
            room.append(vec![Record::Reserved { number: -1 }], false).await.expect("the store works");
        }
    }
    assert_eq!(used, -5 * 1_024 - 2 * 5_000);
}

pub(crate) async fn history_has_all_that_has_not_ended(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let mut expected = vec![joined("alice", 0), message("first")];
    room.append(expected.clone(), true).await.expect("the store works");
    // Far more than the bounds, all of it after a message that is still open.
    for index in 0..30 {
        let id = format!("m{index}");
        let records: Vec<_> =
            (0..100).map(|_| broken_off(&id, "am_x")).chain([message(&id), answer(&id)]).collect();
        room.append(records.clone(), false).await.expect("the store works");
        expected.extend(records);
    }
    drop(room);
    let room = journal(&store, "room").await;
    let history = room.history().await.expect("the store works");
    assert_eq!(history.records.len(), expected.len());
    assert_eq!(history.records, expected);

    room.append(vec![answer("first")], true).await.expect("the store works");
    drop(room);
    let history = journal(&store, "room").await.history().await.expect("the store works");
    assert!(history.records.len() < expected.len());
    assert_eq!(history.records.last(), Some(&answer("first")));
}

pub(crate) async fn history_is_bounded(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let long = "x".repeat(60_000);
    for index in 0..40 {
        let id = format!("m{index}");
        let records = vec![message_of(&id, &long), answer(&id)];
        room.append(records, false).await.expect("the store works");
    }
    drop(room);
    let history = journal(&store, "room").await.history().await.expect("the store works");
    let bytes: usize = history.records.iter().map(|record| record.to_bytes().len()).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
    assert_eq!(history.records.last(), Some(&answer("m39")));
    assert!(history.records.contains(&message_of("m39", &long)));
    assert!(!history.records.contains(&message_of("m0", &long)));
}

pub(crate) async fn stops_take_no_room_in_the_history(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let said = [message("m1"), answer("m1")];
    room.append(said.to_vec(), true).await.expect("the store works");
    for _ in 0..30 {
        room.append(vec![stopped(&[]); 100], false).await.expect("the store works");
    }
    // What this one stops is still to be ended.
    let open = [message("m2"), stopped(&["m2"])];
    room.append(open.to_vec(), true).await.expect("the store works");
    for _ in 0..30 {
        room.append(vec![stopped(&[]); 100], false).await.expect("the store works");
    }
    drop(room);
    let history = journal(&store, "room").await.history().await.expect("the store works");
    assert!(history.records.starts_with(&said), "what was said is gone");
    assert_eq!(history.records[2..4], open, "what stops an open message is gone");
}

pub(crate) async fn everyones_first_joining_stays(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    room.append(vec![joined("alice", 0), message("m0")], true).await.expect("the store works");
    for index in 0..2_500 {
        let records = vec![answer(&format!("m{index}")), message(&format!("m{}", index + 1))];
        room.append(records, false).await.expect("the store works");
    }
    room.append(vec![joined("bob", -9), answer("m2500"), joined("alice", -9)], true)
        .await
        .expect("the store works");
    drop(room);
    let history = journal(&store, "room").await.history().await.expect("the store works");
    assert!(history.records.len() <= 2_002, "{}", history.records.len());
    let joinings: Vec<_> =
        history.records.iter().filter(|record| matches!(record, Record::Joined(_))).cloned().collect();
    assert_eq!(joinings, [joined("alice", 0), joined("bob", -9)]);
    assert_eq!(history.records[0], joined("alice", 0));
    assert_eq!(history.records[history.records.len() - 2..], [joined("bob", -9), answer("m2500")]);
}

pub(crate) async fn another_answer_keeps_its_message_open(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    // Of the message, and of its answer.
    room.append(vec![message("m1"), begun("m1", "am_m1", 0), answer("m1")], true)
        .await
        .expect("the store works");
    room.append(vec![variation("m1"), variation("am_m1")], true).await.expect("the store works");
    let open = || async {
        use futures_util::TryStreamExt;
        let summaries: Vec<_> = store.conversations().try_collect().await.expect("the store works");
        summaries[0].open
    };
    assert_eq!(open().await, 2);
    room.append(vec![answer("m1")], true).await.expect("the store works");
    assert_eq!(open().await, 1);
    room.append(vec![answer("another"), answer("m1")], true).await.expect("the store works");
    assert_eq!(open().await, 0);
}

pub(crate) async fn stanzas_of_an_unfinished_turn_come_with_the_history(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let before = vec![message("m1"), begun("m1", "am_1", 0), stanza(-1), answer("m1"), stanza(-2)];
    room.append(before, true).await.expect("the store works");
    let under_way =
        vec![message("m2"), begun("m2", "am_2", -4), stanza(-5), stanza_for(-7, Audience::Streaming, 5)];
    room.append(under_way, false).await.expect("the store works");
    drop(room);
    let room = journal(&store, "room").await;
    let unfinished = room.history().await.expect("the store works").unfinished;
    let unfinished: Vec<_> = unfinished.into_iter().map(Record::Stanza).collect();
    assert_eq!(unfinished, [stanza(-5), stanza_for(-7, Audience::Streaming, 5)]);

    room.append(vec![broken_off("m2", "am_2"), stanza(-8)], true).await.expect("the store works");
    assert!(room.history().await.expect("the store works").unfinished.is_empty());
}

pub(crate) async fn conversations_do_not_mix(bench: Bench) {
    let store = bench.open().await;
    let (one, two) = (journal(&store, "one").await, journal(&store, "two").await);
    one.append(vec![message("m1"), stanza(-1)], true).await.expect("the store works");
    two.append(vec![message("m1"), answer("m1"), stanza(-1)], true).await.expect("the store works");
    assert_eq!(kept(&store, "one").await, [message("m1"), stanza(-1)]);
    assert_eq!(kept(&store, "two").await, [message("m1"), answer("m1"), stanza(-1)]);
    assert!(kept(&store, "three").await.is_empty());
}

pub(crate) async fn strange_names_are_names_too(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room\0of '$1' \u{1}").await;
    let one = Audience::One("al\0ice:%_".to_owned());
    let records =
        vec![joined("al\0ice:%_", 0), message("m\0"), message("m\u{1}0"), stanza_for(-1, one.clone(), 3)];
    room.append(records.clone(), true).await.expect("the store works");
    assert_eq!(kept(&store, "room\0of '$1' \u{1}").await, records);
    assert_eq!(room.history().await.expect("the store works").last_kept, [(one, -1)]);
    room.append(vec![message("m\0"), answer("m\0")], true).await.expect("the store works");
    assert_eq!(kept(&store, "room\0of '$1' \u{1}").await.len(), 5);
}

pub(crate) async fn namespaces_do_not_mix(bench: Bench) {
    let (ours, theirs) =
        (bench.open().await, bench.open_with(Settings::new("other.example"), elsewhere()).await);
    let (one, two) = (journal(&ours, "room").await, journal(&theirs, "room").await);
    one.append(vec![message("m1")], true).await.expect("the store works");
    assert!(two.history().await.expect("the store works").records.is_empty());
    assert!(kept(&theirs, "room").await.is_empty());
}

pub(crate) async fn a_call_is_kept_whole_or_not_at_all(bench: Bench) {
    let store = bench.open_with(settings(), elsewhere()).await;
    let room = journal(&store, "room").await;
    room.append(vec![message("m1")], true).await.expect("the store works");
    let other = journal(&store, "other").await;
    // The database refuses one row in the middle, as it would when the disk is full.
    bench.run("ALTER TABLE stanzas RENAME TO elsewhere").await;
    let refused = room.append(vec![message("m2"), stanza(-1)], true).await;
    assert!(refused.is_err());
    // One that fails does not take another with it.
    let together = futures_util::future::join(
        room.append(vec![message("m3"), stanza(-2)], false),
        other.append(vec![message("m4")], false),
    );
    let (refused, taken) = together.await;
    assert!(refused.is_err());
    taken.expect("nothing is wrong with this one");
    bench.run("ALTER TABLE elsewhere RENAME TO stanzas").await;
    assert_eq!(kept(&store, "room").await, [message("m1")]);
    assert_eq!(kept(&store, "other").await, [message("m4")]);
    room.append(vec![message("m2"), stanza(-1)], true).await.expect("the store works again");
    assert_eq!(kept(&store, "room").await, [message("m1"), message("m2"), stanza(-1)]);
}
