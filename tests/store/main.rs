//! What every store must do, shown on each of them: in memory, SQLite in a file, and a real PostgreSQL server.

mod bench;
mod damage;
mod keeping;
mod leases;
mod load;
mod people;
mod replay;
mod retention;
mod schema;
mod sealing;
mod server;

use bench::Bench;
use sotto_harness::trial;
use std::process::ExitCode;

/// The tests of a list, on each of these stores.
macro_rules! on {
    (@ memory $test:path) => { trial(concat!("memory ", stringify!($test)), || $test(Bench::memory())) };
    (@ sqlite $test:path) => { trial(concat!("sqlite ", stringify!($test)), || $test(Bench::sqlite())) };
    (@ sealed_sqlite $test:path) => {
        trial(concat!("sealed sqlite ", stringify!($test)), || $test(Bench::sqlite().sealed()))
    };
    (@ sealed_postgres $test:path) => {
        trial(concat!("sealed postgres ", stringify!($test)), || async { $test(Bench::postgres().await.sealed()).await })
    };
    (@ postgres $test:path) => {
        trial(concat!("postgres ", stringify!($test)), || async { $test(Bench::postgres().await).await })
    };
    ([$($store:ident),*] $tests:tt) => { [$(on!($store $tests)),*].into_iter().flatten() };
    ($store:ident [$($test:path),* $(,)?]) => { vec![$(on!(@ $store $test)),*] };
}

fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(damage::HOLD) {
        sotto_harness::runtime().block_on(damage::hold(file.as_ref()));
    }
    let everywhere = on!([memory, sqlite, postgres, sealed_sqlite, sealed_postgres] [
        keeping::what_was_kept_comes_back_in_its_order,
        keeping::a_message_is_kept_once,
        keeping::a_stanza_is_kept_once,
        keeping::numbers_are_never_given_twice,
        keeping::history_has_all_that_has_not_ended,
        keeping::history_is_bounded,
        keeping::stops_take_no_room_in_the_history,
        keeping::everyones_first_joining_stays,
        keeping::another_answer_keeps_its_message_open,
        keeping::stanzas_of_an_unfinished_turn_come_with_the_history,
        keeping::conversations_do_not_mix,
        keeping::strange_names_are_names_too,
        leases::one_process_has_a_conversation_once,
        leases::many_who_want_it_at_once_get_it_one_by_one,
        replay::pages_are_exact,
        replay::pages_are_bounded,
        people::conversations_are_listed_shown_and_deleted,
        people::a_conversation_in_use_is_not_deleted,
        load::many_conversations_at_once,
    ]);
    let in_databases = on!([sqlite, postgres, sealed_sqlite, sealed_postgres] [
        keeping::a_call_is_kept_whole_or_not_at_all,
        keeping::namespaces_do_not_mix,
        leases::a_living_process_keeps_what_it_has,
        leases::a_process_that_ended_here_is_succeeded_at_once,
        leases::a_silent_process_is_succeeded_and_writes_nothing_more,
        leases::closing_gives_everything_free,
        leases::nobody_waits_for_an_open_that_was_given_up,
        retention::old_and_many_stanzas_go_but_the_newest_of_each_audience_stays,
        retention::what_is_replayed_last_says_that_some_is_gone,
        retention::reasoning_is_erased_when_it_cannot_be_replayed_any_more,
        retention::reasoning_can_be_kept_out,
        retention::untouched_conversations_go,
        people::a_long_conversation_is_read_in_pieces,
        people::a_check_tells_what_there_is,
        schema::eight_may_start_at_once,
        schema::newer_tables_are_refused_unless_they_fit,
    ]);
    let sealing = on!([sqlite, postgres] [
        sealing::nothing_that_was_said_can_be_read_without_the_key,
        sealing::a_row_is_good_in_its_place_alone,
        sealing::without_the_right_key_nobody_goes_on_and_nothing_is_shown,
        sealing::what_needs_no_key_works_without_one,
        sealing::keys_are_rotated,
        sealing::what_was_in_the_clear_is_sealed_later,
        sealing::older_programs_stay_away_once_something_is_sealed,
    ]);
    let in_a_file = on!(sqlite [
        sealing::the_keys_are_in_a_private_file_of_their_own,
        sealing::deleting_erases_backups_too,
        sealing::a_backup_without_its_keys_is_not_taken_for_a_new_beginning,
        sealing::a_file_of_keys_that_is_none_is_told_as_such,
        damage::a_missing_directory_is_made_and_private,
        damage::what_is_wrong_is_told_in_words,
        damage::what_waits_for_a_lock_is_kept_when_it_opens,
        damage::after_kill_9_another_goes_on_at_once_and_nothing_is_lost,
        damage::deleted_words_are_gone_from_the_disk,
        load::figures,
        load::figures_of_sealing,
    ]);
    let on_a_server = on!(postgres [
        sealing::a_dump_and_its_keys_are_restored_apart,
        server::a_connection_lost_during_a_commit_is_seen_through,
    ]);
    let with_a_server = sotto_harness::tests![
        server::a_server_that_crashes_loses_and_doubles_nothing,
        server::a_commit_whose_answer_is_lost_is_kept_once,
        server::what_is_wrong_is_told_in_words_without_the_password,
    ];
    let all = everywhere
        .chain(in_databases)
        .chain(sealing)
        .chain(in_a_file)
        .chain(on_a_server)
        .chain(with_a_server);
    sotto_harness::run_here(2, all.collect())
}
