//! Nothing said is lost, on both databases: a little of what the slow suite does at length.

use crate::crash::{House, at_every_point_of_a_turn, killed_at_random, new_file};
use sotto_harness::postgres::Postgres;

pub(crate) async fn at_every_point() {
    at_every_point_of_a_turn(new_file()).await;
}

pub(crate) async fn fifty_times_on_sqlite() {
    killed_at_random(50, 5, House::new(new_file()).await).await;
}

pub(crate) async fn fifty_times_on_postgres() {
    let database = Postgres::shared().await.database();
    killed_at_random(50, 6, House::new(database.url().to_owned()).await).await;
}

pub(crate) async fn twenty_times_with_a_sealed_store() {
    killed_at_random(20, 7, House::sealed(new_file()).await).await;
}
