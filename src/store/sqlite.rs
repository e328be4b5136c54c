//! Conversations in one SQLite file.
//!
//! All writing is done by one task on one connection, which takes all that waits into one transaction: many
//! conversations share each commit. Reading has connections of its own and never waits for writing.

mod syncing;
mod trouble;
mod writer;

use super::archive::Archive;
use super::database::Database;
use super::process::Process;
use super::records::Quick;
use super::schema::{self, Dialect};
use super::sql::{Driver, Fault, Sql, speaks_sql, values};
use super::{Settings, database};
use crate::ports::StoreError;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqliteConnection};
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncing::LogOf;
use tokio::time::sleep;
use trouble::Trouble;
use writer::{PATIENCE, Writer};

/// How long those who read are waited for when something was deleted, and how often they are asked.
const ERASING: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_millis(100);
/// How long others that start at the same time are waited for.
const START: Duration = Duration::from_secs(20);
/// Connections for reading.
const READERS: u32 = 4;

const DIALECT: Dialect =
    Dialect { identity: "INTEGER PRIMARY KEY AUTOINCREMENT", clustered: " WITHOUT ROWID", bytes: "BLOB" };

/// Opens the file, and makes it and its directory where they are not there.
pub async fn open(path: &Path, settings: Settings, process: Process) -> Result<Arc<dyn Archive>, StoreError> {
    let trouble = Trouble::new(path);
    create(path).map_err(|error| trouble.with_file(&error))?;
    let began = Instant::now();
    let options = options(path);
    // The very first to come changes the kind of the file, for which it must be alone.
    let writer = loop {
        match start(&options).await {
            Ok(writer) => break writer,
            Err(fault) if trouble.is_busy(&fault) && began.elapsed() < START => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(fault) => return Err(trouble.describe(fault)),
        }
    };
    let reading = options.clone().pragma("query_only", "ON");
    let readers =
        SqlitePoolOptions::new().max_connections(READERS).min_connections(0).connect_lazy_with(reading);
    let log = LogOf::new(path).map_err(|error| trouble.with_file(&error))?;
    let writer = Writer::start(writer, options, trouble.clone(), log);
    let driver = Sqlite { path: path.to_owned(), writer, readers, trouble };
    Ok(Arc::new(Database::begin(driver, settings, process).await?))
}

/// What people said is for nobody else on the machine.
fn create(path: &Path) -> std::io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path).map(drop)
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(PATIENCE)
        .pragma("secure_delete", "ON")
        .disable_statement_logging()
}

async fn start(options: &SqliteConnectOptions) -> Result<SqliteConnection, Fault> {
    let mut connection = options.connect().await?;
    connection.run("BEGIN IMMEDIATE", values![]).await?;
    schema::migrate(&mut connection, &DIALECT).await?;
    connection.run("COMMIT", values![]).await?;
    Ok(connection)
}

struct Sqlite {
    path: PathBuf,
    writer: Writer,
    readers: SqlitePool,
    trouble: Trouble,
}

// The file is on this machine, and so is its clock.
speaks_sql!(SqliteConnection, async |_: &mut SqliteConnection| Ok::<_, Fault>(database::now()));

impl Driver for Sqlite {
    type Connection = SqliteConnection;

    async fn write<T, W>(&self, durable: bool, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static,
    {
        self.writer.write(durable, work).await
    }

    async fn write_quickly(&self, quick: Quick) -> bool {
        self.writer.write_quickly(quick).await
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Fault>> + Send,
    {
        let mut connection =
            self.readers.acquire().await.map_err(|error| self.trouble.describe(error.into()))?;
        work(&mut connection).await.map_err(|fault| self.trouble.describe(fault))
    }

    /// What was deleted is overwritten in the file as soon as the log is written back to it, and the log is emptied.
    async fn erase(&self) -> Result<bool, StoreError> {
        let began = Instant::now();
        while !self.writer.checkpoint().await? {
            if began.elapsed() > ERASING {
                return Ok(false);
            }
            sleep(ASKING).await;
        }
        Ok(true)
    }

    async fn inspect(&self) -> Result<(Vec<String>, u64), StoreError> {
        let check = self.read(|connection| {
            Box::pin(async move {
                let mut wrong = Vec::new();
                for mut row in connection.rows("PRAGMA integrity_check", values![]).await? {
                    wrong.extend(Some(row.text(0)?).filter(|line| line != "ok"));
                }
                Ok(wrong)
            })
        });
        let wrong = check.await?;
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        Ok((wrong, size(&self.path) + size(Path::new(&log))))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[cfg(test)]
mod tests;
