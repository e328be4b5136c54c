//! What takes too long for every day. Each test has a small sibling in `e2e` or `leaks`, and mostly is that sibling
//! with larger numbers.

#[path = "../e2e/crash/mod.rs"]
mod crash;
#[path = "../leaks/joins.rs"]
mod joins;
#[path = "../e2e/loss.rs"]
mod loss;
mod network;
#[path = "../leaks/rooms.rs"]
mod rooms;
mod tone;

use std::{process::ExitCode, time::Duration};

use crash::House;
use sotto_harness::{isolation, limited_trial, postgres::Postgres, skip};

/// Passes on to the system's allocator, and counts while a test asks for it.
#[global_allocator]
static ALLOCATIONS: dhat::Alloc = dhat::Alloc;

const LIMIT: Duration = Duration::from_secs(30 * 60);

async fn five_hundred_joins_and_leaves_leave_nothing() {
    joins::leave_nothing(500).await;
}

async fn two_hundred_idle_rooms_stay_small() {
    rooms::stay_small(20, 200).await;
}

async fn loss_matrix() {
    if !isolation::isolated() {
        skip("loss needs the private network");
    }
    for (percent, loud_share) in [(1, 0.98), (5, 0.96), (20, 0.85)] {
        loss::data_and_audio(percent, loud_share).await;
    }
    loss::ten_percent_data_and_audio().await;
}

async fn thousand_kills_on_sqlite() {
    crash::killed_at_random(1_000, 1, House::new(crash::new_file()).await).await;
}

async fn thousand_kills_on_postgres() {
    let database = Postgres::shared().await.database();
    crash::killed_at_random(1_000, 2, House::new(database.url().to_owned()).await).await;
}

async fn kills_of_a_sealed_store() {
    crash::killed_at_random(300, 3, House::sealed(crash::new_file()).await).await;
}

async fn every_point_on_postgres() {
    let database = Postgres::shared().await.database();
    crash::at_every_point_of_a_turn(database.url().to_owned()).await;
}

fn main() -> ExitCode {
    sotto_harness::run(
        1,
        vec![
            limited_trial("joins_and_leaves_500", LIMIT, five_hundred_joins_and_leaves_leave_nothing),
            limited_trial("idle_rooms_200", LIMIT, two_hundred_idle_rooms_stay_small),
            limited_trial("every_point_postgres", LIMIT, every_point_on_postgres),
            limited_trial("kills_1000_sqlite", LIMIT, thousand_kills_on_sqlite),
            limited_trial("kills_1000_postgres", LIMIT, thousand_kills_on_postgres),
            limited_trial("kills_300_sealed", LIMIT, kills_of_a_sealed_store),
            limited_trial("loss_matrix", LIMIT, loss_matrix),
            limited_trial("loss_with_jitter_and_reordering", LIMIT, network::loss_with_jitter_and_reordering),
            limited_trial("outage_of_40_seconds", LIMIT, network::outage_of_40_seconds),
            limited_trial("tone_of_10_minutes", LIMIT, tone::tone_of_10_minutes),
        ],
    )
}
