//! What only SQLite does, seen from inside.

use super::syncing::Log;
use super::*;
use crate::store::archive::Entry;
use crate::store::records::{KeptStanza, Lease};
use futures_util::{FutureExt, TryStreamExt};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{Record, Stanza};
use sqlx::Executor;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tempfile::TempDir;

async fn driver(directory: &TempDir, log: impl Log) -> Sqlite {
    let path = directory.path().join("sotto.db");
    create(&path).expect("a new file");
    let keys = beside(&path, "-keys");
    create(&keys).expect("a new file");
    let (opening, trouble) =
        (Opening { options: options(&path), keys: Some(keys.clone()) }, Trouble::new(&path));
    let connection = start(&opening).await.expect("a new file");
    let readers = opening.readers();
    let process = Process::this();
    let spool = Arc::new(Spool::new(&path, &process));
    let writer = Writer::start(connection, opening, trouble.clone(), log, Arc::clone(&spool));
    Sqlite { writer, spool, path, process, keys: Some(keys), readers, trouble }
}

/// Counts how often it is synced, and fails when told to.
#[derive(Clone, Default)]
struct CountingLog(Arc<(AtomicUsize, AtomicBool)>);

impl Log for CountingLog {
    fn sync(&self) -> std::io::Result<()> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        if self.0.1.load(Ordering::SeqCst) { Err(std::io::Error::other("the disk is ill")) } else { Ok(()) }
    }
}

async fn write(driver: &Sqlite, durable: bool) {
    let write = driver.write(durable, |connection| {
        Box::pin(async move {
            connection
                .run(
                    "INSERT INTO open (conversation, message, seq) SELECT 1, '', count(*) FROM open",
                    values![],
                )
                .await
        })
    });
    assert_eq!(write.await, Ok(1));
}

/// The disk is waited for where that is asked for, and nowhere else.
#[tokio::test]
async fn only_what_must_survive_a_loss_of_power_waits_for_the_disk() {
    let directory = TempDir::new().expect("a directory");
    let log = CountingLog::default();
    let driver = driver(&directory, log.clone()).await;
    for (durable, synced) in [(false, 0), (true, 1), (true, 2), (false, 2)] {
        write(&driver, durable).await;
        assert_eq!(log.0.0.load(Ordering::SeqCst), synced);
    }
}

/// What was committed cannot be taken back: it is brought to the disk on another way.
#[tokio::test]
async fn a_log_that_cannot_be_synced_is_written_back_instead() {
    let directory = TempDir::new().expect("a directory");
    let log = CountingLog::default();
    let driver = driver(&directory, log.clone()).await;
    let size = || std::fs::metadata(directory.path().join("sotto.db-wal")).expect("it is there").len();
    log.0.1.store(true, Ordering::SeqCst);
    write(&driver, true).await;
    assert_eq!(size(), 0, "the log was written back");
    log.0.1.store(false, Ordering::SeqCst);
    write(&driver, true).await;
    assert!(size() > 0);
}

/// The one that writes is needed until all that was committed is on the disk.
#[tokio::test]
async fn a_store_whose_log_cannot_be_synced_is_closed_all_the_same() {
    let directory = TempDir::new().expect("a directory");
    let log = CountingLog::default();
    log.0.1.store(true, Ordering::SeqCst);
    let driver = Arc::new(driver(&directory, log.clone()).await);
    write(&driver, false).await;
    // Someone who reads keeps the log from being written back.
    let mut reader = options(&driver.path).connect().await.expect("it can be read");
    reader.execute("BEGIN; SELECT count(*) FROM open").await.expect("a sound statement");
    let writing = tokio::spawn({
        let driver = Arc::clone(&driver);
        async move { write(&driver, true).await }
    });
    while log.0.0.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let closing = tokio::spawn({
        let driver = Arc::clone(&driver);
        async move { driver.close().await }
    });
    reader.execute("COMMIT").await.expect("it was begun");
    tokio::time::timeout(Duration::from_secs(60), closing)
        .await
        .expect("it ends")
        .expect("it does not panic");
    writing.await.expect("it was kept after all");
}

fn stanza(conversation: i64, fence: i64, number: i64, body: &[u8]) -> Quick {
    let stanza =
        KeptStanza { number, audience: "everyone".to_owned(), reasoning: false, body: body.to_owned() };
    Quick { at: 7, lease: Lease { conversation, fence }, stanzas: vec![stanza] }
}

async fn conversation(driver: &Sqlite, id: i64, fence: i64) {
    let insert = driver.write(false, move |connection| {
        let insert = "INSERT INTO conversations (id, namespace, name, fence, created, updated) \
                      VALUES ($1, '', $1, $2, 0, 0)";
        Box::pin(connection.run(insert, values![id, fence]))
    });
    assert_eq!(insert.await, Ok(1));
}

async fn stanzas(driver: &Sqlite) -> Vec<i64> {
    let found = driver.read(|connection| {
        Box::pin(connection.rows("SELECT number FROM stanzas WHERE at = 7 ORDER BY number DESC", values![]))
    });
    let found = found.await.expect("it can be read");
    found.iter().filter_map(|row| row.int(0).ok()).collect()
}

/// Nobody waits for another's transaction, whoever reads after that sees it, and nobody writes to what is another's.
#[tokio::test]
async fn what_is_kept_at_once_is_seen_by_all_that_comes_after() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    conversation(&driver, 1, 3).await;
    let mut other = options(&driver.path).connect().await.expect("it can be opened");
    other.execute("BEGIN IMMEDIATE").await.expect("nobody writes");
    assert!(driver.write_at_once(stanza(1, 3, -1, b"said"), 1));
    other.execute("COMMIT").await.expect("it was begun");
    assert_eq!(stanzas(&driver).await, [-1]);
    assert!(driver.write_at_once(stanza(1, 2, -2, b"said"), 1));
    assert!(driver.write_at_once(stanza(9, 3, -3, b"said"), 1));
    assert!(driver.write_at_once(stanza(1, 3, -4, b"said"), 1));
    assert_eq!(stanzas(&driver).await, [-1, -4], "others have them, or they are deleted");
    let number = driver
        .write(false, |connection| Box::pin(connection.rows("SELECT count(*) FROM stanzas", values![])));
    assert!(driver.write_at_once(stanza(1, 3, -5, b"said"), 1));
    assert_eq!(number.await.expect("a sound statement")[0].int(0).expect("a number"), 3, "also who writes");
    driver.close().await;
    assert!(!driver.write_at_once(stanza(1, 3, -6, b"said"), 1), "it is closed");
    assert!(driver.left_by(&driver.process.id).is_ok_and(|left| left.stanzas.is_empty()));
}

/// Whoever says much need not wait until somebody writes.
#[tokio::test]
async fn there_is_always_room_for_what_is_kept_at_once() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    conversation(&driver, 1, 3).await;
    for number in 1..=200 {
        while !driver.write_at_once(stanza(1, 3, -number, &[1; 4_000]), 1) {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(stanzas(&driver).await.len(), 200);
}

/// What is not in the tables survives the process all the same, also where SQLite cannot write.
#[tokio::test]
async fn what_cannot_be_written_to_the_tables_waits() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    conversation(&driver, 1, 3).await;
    let mut other = options(&driver.path).connect().await.expect("it can be opened");
    other.execute("ALTER TABLE stanzas RENAME TO hidden").await.expect("nobody writes");
    assert!(driver.write_at_once(stanza(1, 3, -1, b"said"), 1));
    assert!(driver.writer.flush().await.is_err());
    assert!(!driver.spool.is_clear());
    let left = driver.left_by(&driver.process.id).expect("it can be read");
    assert_eq!(left.stanzas, [stanza(1, 3, -1, b"said")]);
    other.execute("ALTER TABLE hidden RENAME TO stanzas").await.expect("nobody writes");
    assert_eq!(stanzas(&driver).await, [-1]);
    assert!(driver.spool.is_clear());
}

/// A process that ended, as those on this machine see it.
fn ended() -> Process {
    Process { pid: i64::from(u32::MAX), started: 1, ..Process::this() }
}

/// Says something in a conversation and ends at once, as if it were killed.
fn say_and_end(path: &Path, process: Process, conversation: &str) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let number = runtime.block_on(async {
        let store = open(path, Settings::new("test"), process).await.expect("it can be opened");
        let journal = store.open(conversation).await.expect("nobody has it");
        let number = journal.history().await.expect("it can be read").number - 1;
        let stanza = Stanza { number, audience: Audience::Everyone, bytes: b"said".to_vec() };
        journal.append(vec![Record::Stanza(stanza)], false).now_or_never().expect("at once").expect("kept");
        // Neither may it be given free, as it is when it is dropped.
        std::mem::forget(journal);
        number
    });
    runtime.shutdown_background();
    number
}

fn found(path: &Path, process: Process, conversation: &str) -> Vec<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = open(path, Settings::new("test"), process).await.expect("it can be opened");
        let entries: Vec<_> = store.entries(conversation).try_collect().await.expect("it can be read");
        store.close().await;
        let number = |entry: &Entry| match &entry.record {
            Record::Stanza(stanza) => Some(stanza.number),
            _ => None,
        };
        entries.iter().filter_map(number).collect()
    })
}

#[test]
fn what_a_process_said_last_is_there_for_whoever_opens_the_store_next() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("sotto.db");
    let number = say_and_end(&path, ended(), "room");
    assert_eq!(
        spool::owners(&path, &Process::this()).expect("it can be read").len(),
        1,
        "it is in the spool"
    );
    assert_eq!(found(&path, Process::this(), "room"), [number]);
    assert!(spool::owners(&path, &Process::this()).expect("it can be read").is_empty());
}

#[test]
fn what_a_process_says_that_lives_is_left_to_it() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("sotto.db");
    say_and_end(&path, Process::this(), "room");
    assert_eq!(found(&path, Process::this(), "room"), [0; 0]);
    assert_eq!(spool::owners(&path, &Process::this()).expect("it can be read").len(), 1);
}

/// Another that runs already sees the end, and goes on where it was.
#[tokio::test]
async fn whoever_takes_a_conversation_from_a_process_that_ended_has_what_it_said_last() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("sotto.db");
    let store = open(&path, Settings::new("test"), Process::this()).await.expect("it can be opened");
    let number = {
        let path = path.clone();
        let said = tokio::task::spawn_blocking(move || say_and_end(&path, ended(), "room"));
        said.await.expect("it does not panic")
    };
    let journal = store.open("room").await.expect("who had it has ended");
    let page = journal.stanzas(0, i32::MIN, 10).await.expect("it can be read");
    let numbers: Vec<_> = page.stanzas.iter().map(|stanza| stanza.number).collect();
    assert_eq!(numbers, [number]);
    assert!(journal.history().await.expect("it can be read").number < number);
    assert!(spool::owners(&path, &Process::this()).expect("it can be read").is_empty());
}

/// Whatever is written, by whomever: it is written back before it is much.
#[tokio::test]
async fn the_log_does_not_grow_without_bound() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    let mut most = 0;
    for conversation in 0..400 {
        let message = "x".repeat(50_000);
        let insert = driver.write(false, move |connection| {
            let values = values![conversation, &message[..]];
            let insert = "INSERT INTO open (conversation, message, seq) VALUES ($1, $2, 0)";
            Box::pin(async move { connection.run(insert, values).await })
        });
        assert_eq!(insert.await, Ok(1));
        most = most.max(std::fs::metadata(beside(&driver.path, "-wal")).expect("it is there").len());
    }
    assert!(most > writer::LONG_LOG && most < writer::LONG_LOG + (1 << 20), "{most}");
}

/// SQLite puts its log beside the file itself.
#[tokio::test]
async fn a_store_behind_a_link_syncs_the_log_that_there_is() {
    let directory = TempDir::new().expect("a directory");
    let (file, link) = (directory.path().join("real.db"), directory.path().join("link.db"));
    create(&file).expect("a new file");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let store = open(&link, Settings::new("test"), Process::this()).await.expect("it can be opened");
    let room = store.open("room").await.expect("nobody has it");
    let number = room.history().await.expect("it can be read").number;
    let record = Record::Reserved { number: number - 1 };
    room.append(vec![record], true).await.expect("it is kept");
    let size = |name: &str| std::fs::metadata(directory.path().join(name)).map(|file| file.len()).ok();
    assert_eq!(size("link.db-wal"), None);
    // Had the log not been found, it would have been written back and emptied.
    assert!(size("real.db-wal").is_some_and(|bytes| bytes > 0));
}

/// The real one.
#[tokio::test]
async fn the_log_of_a_database_can_be_synced_and_a_missing_one_is_told() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    write(&driver, true).await;
    LogOf::new(&driver.path).and_then(|log| log.sync()).expect("it is there");
    let elsewhere = LogOf::new(&directory.path().join("other.db")).expect("the directory is there");
    assert_eq!(elsewhere.sync().map_err(|error| error.kind()), Err(std::io::ErrorKind::NotFound));
}

/// A key is on the disk as soon as it is kept, and as soon as it is deleted: what is there no more, nobody can read.
#[tokio::test]
async fn whatever_happens_to_a_key_waits_for_the_disk() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    for durable in [false, true, false] {
        let pragmas = driver.write(durable, |connection| {
            Box::pin(async move {
                let mut found = Vec::new();
                for pragma in ["PRAGMA keys.synchronous", "PRAGMA keys.secure_delete"] {
                    let rows = connection.rows(pragma, values![]).await?;
                    found.push(rows.first().map_or(Ok(-1), |row| row.int(0))?);
                }
                let mut rows = connection.rows("PRAGMA keys.journal_mode", values![]).await?;
                Ok((found, rows.first_mut().map_or(Ok(String::new()), |row| row.text(0))?))
            })
        });
        assert_eq!(pragmas.await, Ok((vec![2, 1], "wal".to_owned())));
    }
}

/// Errors as SQLite really gives them.
#[tokio::test]
async fn a_full_disk_and_a_read_only_file_are_told_as_such() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    let too_much = driver.write(true, |connection| {
        Box::pin(async move {
            // As much as if the disk had no more room for this file.
            connection.rows("PRAGMA max_page_count = 1", values![]).await?;
            connection.run("CREATE TABLE filler (bytes BLOB)", values![]).await?;
            connection.run("INSERT INTO filler VALUES (zeroblob(1000000))", values![]).await?;
            Ok(())
        })
    });
    let full = too_much.await.expect_err("there is no room");
    assert!(matches!(&full, StoreError::Unavailable(words) if words.contains("disk is full")), "{full}");

    let mut reader = options(&driver.path).read_only(true).connect().await.expect("it can be read");
    let error = reader.execute("DELETE FROM conversations").await.expect_err("it cannot be written");
    let told = driver.trouble.describe(error.into());
    assert!(matches!(&told, StoreError::Unavailable(words) if words.contains("read-only")), "{told}");
}

/// Numbers that are the same each time.
fn scatter(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 40).expect("24 bits")
}

/// What one conversation said must not stay where pages were split to make room for another's, where SQLite leaves a copy now
/// and then.
#[tokio::test]
async fn nothing_of_what_was_deleted_is_left_in_a_file_that_was_rebuilt() {
    for seed in 0..24 {
        let directory = TempDir::new().expect("a directory");
        let driver = driver(&directory, CountingLog::default()).await;
        for id in 0..4 {
            conversation(&driver, id, 3).await;
        }
        let (mut state, most) = (seed, 40 + 60 * usize::try_from(seed).expect("a small number"));
        let mut numbers = [0; 4];
        for _ in 0..400 {
            let whose = scatter(&mut state) % 4;
            numbers[whose] -= 1;
            let body = format!("said in {whose}: ").repeat(2 + scatter(&mut state) % most / 11);
            let conversation = i64::try_from(whose).expect("a small number");
            assert!(driver.write_at_once(stanza(conversation, 3, numbers[whose], body.as_bytes()), 1));
            // As if each were said alone.
            driver.writer.flush().await.expect("it can be written");
        }
        let delete = driver.write(true, |connection| {
            Box::pin(connection.run("DELETE FROM stanzas WHERE conversation = 1", values![]))
        });
        assert!(delete.await.is_ok_and(|rows| rows > 0));
        assert!(driver.rebuild().await);
        assert_eq!(driver.erase().await, Ok(true));
        let holds = |what: &[u8]| {
            let file = std::fs::read(&driver.path).expect("it can be read");
            file.windows(what.len()).any(|bytes| bytes == what)
        };
        assert!(holds(b"said in 2") && !holds(b"said in 1"));
    }
}

/// All who write would wait for it.
#[tokio::test]
async fn a_large_file_is_not_rebuilt() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory, CountingLog::default()).await;
    let file = OpenOptions::new().write(true).open(&driver.path).expect("it is there");
    file.set_len(LARGEST_REBUILT + 4_096).expect("a file with a hole");
    assert!(!driver.rebuild().await);
}
