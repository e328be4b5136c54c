//! What can be wrong with a file.

use crate::bench::{Bench, elsewhere, journal, kept, message, message_of, settings, stanza};
use sotto::ports::StoreError;
use sotto::store::process::Process;
use sotto::store::{Deleted, sqlite};
use sqlx::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

pub(crate) async fn a_missing_directory_is_made_and_private(bench: Bench) {
    let directory = bench.file().with_file_name("not").join("there yet");
    let file = directory.join("sotto.db");
    let store = sqlite::open(&file, settings(), elsewhere()).await.expect("it can be made");
    journal(&store, "room").await.append(vec![message("m1")], true).await.expect("the store works");
    assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
    assert_eq!(mode(&directory.join("sotto.db-wal")), 0o600);
}

pub(crate) async fn what_is_wrong_is_told_in_words(bench: Bench) {
    let refusal = |result: Result<_, StoreError>| match result {
        Ok(_) => panic!("it must not work"),
        Err(error) => error.to_string(),
    };
    let directory = bench.file().with_file_name("a directory");
    fs::create_dir(&directory).expect("there is room");
    let words = refusal(sqlite::open(&directory, settings(), elsewhere()).await);
    assert!(words.contains("is a directory"), "{words}");

    let words = refusal(sqlite::open(Path::new("/proc/sotto/sotto.db"), settings(), elsewhere()).await);
    assert!(words.contains("/proc/sotto/sotto.db"), "{words}");

    fs::write(bench.file(), "This is a text, and a rather long one, but not a database.".repeat(20))
        .expect("there is room");
    let words = refusal(bench.try_open(settings(), elsewhere()).await);
    assert!(words.contains("not an SQLite database"), "{words}");
    fs::remove_file(bench.file()).expect("it is ours");

    let store = bench.open().await;
    let room = journal(&store, "room").await;
    room.append(vec![message("m1")], true).await.expect("the store works");
    drop(room);
    store.close().await;
    // Damaged: everything behind the first page is gone.
    let mut bytes = fs::read(bench.file()).expect("it is there");
    let middle = 4_096.min(bytes.len());
    bytes[middle..].fill(0xa5);
    fs::write(bench.file(), bytes).expect("there is room");
    let broken = async {
        let store = bench.try_open(settings(), elsewhere()).await?;
        let room = store.open("room").await?;
        room.history().await.map(drop)
    };
    let Err(StoreError::Broken(words)) = broken.await else { panic!("it is damaged") };
    assert!(words.contains("is damaged") && words.contains("backup"), "{words}");
}

pub(crate) async fn what_waits_for_a_lock_is_kept_when_it_opens(bench: Bench) {
    use sqlx::{Connection, Executor, SqliteConnection};
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let mut other =
        SqliteConnection::connect(&format!("sqlite:{}", bench.file().display())).await.expect("it is there");
    other.execute("BEGIN IMMEDIATE").await.expect("nobody else writes");
    // For longer than anybody waits: told as what it is, and nothing is kept of it.
    let Err(StoreError::Unavailable(words)) = room.append(vec![message("m1")], true).await else {
        panic!("it is locked")
    };
    assert!(words.contains("locked by another program"), "{words}");
    let mut waiting = std::pin::pin!(room.append(vec![message("m2")], true));
    assert!(futures_util::FutureExt::now_or_never(waiting.as_mut()).is_none());
    other.execute("COMMIT").await.expect("it was begun");
    waiting.await.expect("the lock is gone");
    assert_eq!(kept(&store, "room").await, [message("m2")]);
}

/// The variable that names the file which another process is to hold, see [`hold`].
pub(crate) const HOLD: &str = "SOTTO_TEST_HOLD";

/// What the other process of the next test does: takes a conversation, writes to it and waits for its end.
pub(crate) async fn hold(file: &Path) {
    let store = sqlite::open(file, settings(), Process::this()).await.expect("the store can be opened");
    let room = journal(&store, "room").await;
    let number = room.history().await.expect("the store works").number;
    room.append(vec![message("m1")], true).await.expect("the store works");
    room.append(vec![stanza(number - 1), stanza(number - 2)], false).await.expect("the store works");
    println!("held");
    std::future::pending::<()>().await;
}

pub(crate) async fn after_kill_9_another_goes_on_at_once_and_nothing_is_lost(bench: Bench) {
    let this = std::env::current_exe().expect("a running test knows its own file");
    let mut holder = Command::new(this)
        .env(HOLD, bench.file())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it can be run again");
    let mut said = BufReader::new(holder.stdout.take().expect("it is piped")).lines();
    assert_eq!(said.next_line().await.expect("it speaks").as_deref(), Some("held"));

    let store = bench.open().await;
    let Err(StoreError::Held(words)) = store.open("room").await else { panic!("it is held") };
    assert!(words.contains(&holder.id().expect("it runs").to_string()), "{words}");
    holder.kill().await.expect("it is ours");
    let room = journal(&store, "room").await;
    let history = room.history().await.expect("the store works");
    assert_eq!((history.number, history.reserved), (-1_024, -2_048));
    assert_eq!(kept(&store, "room").await, [message("m1"), stanza(-1), stanza(-2)]);
}

pub(crate) async fn deleted_words_are_gone_from_the_disk(bench: Bench) {
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let canary = "canary-7f3a ".repeat(2_000);
    room.append(vec![message_of("m1", &canary), message("m2")], true).await.expect("the store works");
    drop(room);
    let found = || {
        let files = fs::read_dir(bench.file().parent().expect("it is in a directory")).expect("it is there");
        files
            .filter(|file| {
                let path = file.as_ref().expect("it can be read").path();
                let bytes = fs::read(path).expect("it can be read");
                bytes.windows(11).any(|window| window == b"canary-7f3a")
            })
            .count()
    };
    assert!(found() > 0);
    // Somebody who reads what was there before keeps the log, and that is told.
    let reader = bench.reader().await;
    assert_eq!(store.delete("room").await, Ok(Deleted::FromTables));
    assert!(found() > 0);
    reader.close().await.expect("it was open");
    store.tidy().await.expect("the store works");
    assert_eq!(found(), 0);

    let room = journal(&store, "room").await;
    room.append(vec![message_of("m1", &canary)], true).await.expect("the store works");
    drop(room);
    assert!(found() > 0);
    assert_eq!(store.delete("room").await, Ok(Deleted::FromDisk));
    assert_eq!(found(), 0);
}
