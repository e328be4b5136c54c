//! Many at once.

use crate::bench::{Bench, answer, journal, kept, message, stanza, stanza_for};
use futures_util::future::{BoxFuture, join_all};
use sotto::ports::{Journal, StoreError};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::Record;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

const CONVERSATIONS: usize = 300;

pub(crate) async fn many_conversations_at_once(bench: Bench) {
    let store = bench.open().await;
    let talk = |index: usize| {
        let store = Arc::clone(&store);
        async move {
            let name = format!("room-{index}");
            let room = until_it_can(|| store.open(&name)).await;
            let number = until_it_can(|| room.history()).await.number;
            until_it_can(|| room.append(vec![message("m1")], true)).await;
            for step in 1..=5 {
                until_it_can(|| room.append(vec![stanza(number - step)], false)).await;
            }
            until_it_can(|| room.append(vec![answer("m1"), stanza(number - 6)], true)).await;
            name
        }
    };
    let tasks: Vec<_> = (0..CONVERSATIONS).map(|index| tokio::spawn(talk(index))).collect();
    for task in tasks {
        let name = task.await.expect("each was kept");
        assert_eq!(kept(&store, &name).await.len(), 8);
    }
}

/// As a session does it: a store that has too much to do says so, and is asked again.
async fn until_it_can<T>(what: impl Fn() -> BoxFuture<'static, Result<T, StoreError>>) -> T {
    loop {
        match what().await {
            Ok(value) => return value,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Prints how long an append takes that need not survive a loss of power, while 300 conversations make five a second each,
/// and how many fit into a second at most. Asserts only that all of it was kept.
pub(crate) async fn figures(bench: Bench) {
    let store = bench.open().await;
    let seconds: usize =
        std::env::var("SOTTO_TEST_SECONDS").map_or(2, |text| text.parse().expect("a number"));
    let paced = measure(&store, "paced", seconds * 5, Some(Duration::from_millis(200))).await;
    let flat_out = measure(&store, "flat out", 5, None).await;
    println!("\n{paced}\n{flat_out}");
}

const ROUNDS: i32 = 1_000;

/// Prints what sealing costs: appends one after the other, of one conversation that is sealed and one that is not, taking
/// turns so that both meet the same machine. Asserts only that all of it was kept.
pub(crate) async fn figures_of_sealing(bench: Bench) {
    let clear = bench.open().await;
    let bench = Bench::sqlite().sealed();
    let sealed = bench.open().await;
    let rooms = [journal(&clear, "room").await, journal(&sealed, "room").await];
    let sentence = |round: i32| {
        let numbers = [-1 - 2 * round, -2 - 2 * round];
        numbers.map(|number| stanza_for(number, Audience::Everyone, 300)).to_vec()
    };
    let end = |round: i32| vec![message(&format!("m{round}")), answer(&format!("m{round}"))];
    let of_sentence = take_turns(&rooms, false, sentence).await;
    let of_end = take_turns(&rooms, true, end).await;
    println!(
        "\na sentence (2 stanzas of 300 bytes): {of_sentence}\nthe end of a turn (2 facts, synced): {of_end}"
    );
    for store in [clear, sealed] {
        assert_eq!(kept(&store, "room").await.len(), 4 * ROUNDS as usize);
    }
}

async fn take_turns(
    rooms: &[Box<dyn Journal>; 2],
    durable: bool,
    records: impl Fn(i32) -> Vec<Record>,
) -> String {
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (room, took) in rooms.iter().zip(&mut took) {
            let began = Instant::now();
            room.append(records(round), durable).await.expect("the store works");
            took.push(began.elapsed());
        }
    }
    let [clear, sealed] = took.map(|mut took| {
        took.sort_unstable();
        took[took.len() / 2]
    });
    let ratio = sealed.as_secs_f64() / clear.as_secs_f64();
    format!("median {clear:?} in the clear, {sealed:?} sealed, {ratio:.2} times as long")
}

async fn measure(
    store: &Arc<dyn sotto::store::Archive>,
    how: &str,
    appends: usize,
    pace: Option<Duration>,
) -> String {
    let open = |index: usize| async move {
        let room = journal(store, &format!("{how} {index}")).await;
        let number = room.history().await.expect("the store works").number;
        (index, room, number)
    };
    let rooms = join_all((0..CONVERSATIONS).map(open)).await;
    let talk = |(index, room, mut number): (usize, Box<dyn Journal>, i32)| {
        async move {
            // Not all at the same moment.
            tokio::time::sleep(pace.unwrap_or_default() * (index as u32) / CONVERSATIONS as u32).await;
            let mut ticks = interval(pace.unwrap_or(Duration::from_nanos(1)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut took = Vec::with_capacity(appends);
            for _ in 0..appends {
                ticks.tick().await;
                let began = Instant::now();
                room.append(vec![stanza(number - 1), stanza(number - 2)], false)
                    .await
                    .expect("the store works");
                took.push(began.elapsed());
                number -= 2;
            }
            took
        }
    };
    let began = Instant::now();
    let tasks: Vec<_> = rooms.into_iter().map(|room| tokio::spawn(talk(room))).collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.expect("all was kept"));
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    format!(
        "{how}: {} appends of 2 stanzas, {rate:.0} a second; median {:?}, p95 {:?}, longest {:?}",
        took.len(),
        at(50),
        at(95),
        at(100)
    )
}
