//! What only SQLite does, seen from inside.

use super::*;
use sqlx::Executor;
use tempfile::TempDir;

async fn driver(directory: &TempDir) -> Sqlite {
    let path = directory.path().join("sotto.db");
    create(&path).expect("a new file");
    let keys = beside(&path, "-keys");
    create(&keys).expect("a new file");
    let (opening, trouble) =
        (Opening { options: options(&path), keys: Some(keys.clone()) }, Trouble::new(&path));
    let connection = start(&opening).await.expect("a new file");
    let readers = opening.readers();
    let writer = Writer::start(connection, opening, trouble.clone());
    Sqlite { writer, path, keys: Some(keys), readers, trouble }
}

/// The disk is waited for where that is asked for, and nowhere else.
#[tokio::test]
async fn only_what_must_survive_a_loss_of_power_waits_for_the_disk() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory).await;
    for durable in [false, true, true, false] {
        let synchronous = driver.write(durable, |connection| {
            Box::pin(async move {
                let rows = connection.rows("PRAGMA synchronous", values![]).await?;
                rows.first().map_or(Ok(-1), |row| row.int(0))
            })
        });
        // 1 is NORMAL: the log is not synced; 2 is FULL: it is, with each commit.
        assert_eq!(synchronous.await, Ok(if durable { 2 } else { 1 }));
    }
}

/// A key is on the disk as soon as it is kept, and as soon as it is deleted: what is there no more, nobody can read.
#[tokio::test]
async fn whatever_happens_to_a_key_waits_for_the_disk() {
    let directory = TempDir::new().expect("a directory");
    let driver = driver(&directory).await;
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
    let driver = driver(&directory).await;
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
