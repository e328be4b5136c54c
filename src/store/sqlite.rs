//! Conversations in one SQLite file.
//!
//! All writing is done by one task on one connection, which takes all that waits into one transaction: many
//! conversations share each commit. What is sent as soon as it is kept is kept in a [spool] until then.
//! Reading has connections of its own and never waits for writing, but for what is in the spool.
//!
//! The keys of sealed conversations are in a file of their own beside it, `keys` in SQL, which every connection has open.

mod spool;
mod syncing;
mod trouble;
mod writer;

use super::archive::Archive;
use super::database::Database;
use super::process::Process;
use super::records::Quick;
use super::schema::{self, Dialect};
use super::sql::{Driver, Fault, Left, Sql, speaks_sql, values};
use super::{Settings, database};
use crate::ports::StoreError;
use futures_util::future::BoxFuture;
use spool::Spool;
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
use tracing::warn;
use trouble::Trouble;
use writer::{PATIENCE, Writer};

/// How long those who read are waited for when something was deleted, and how often they are asked.
const ERASING: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_millis(100);
/// How large a file may be that is written anew when a conversation is deleted from it, in bytes.
const LARGEST_REBUILT: u64 = 64 << 20;
/// How long others that start at the same time are waited for.
const START: Duration = Duration::from_secs(20);
/// Connections for reading.
const READERS: u32 = 4;

const DIALECT: Dialect =
    Dialect { identity: "INTEGER PRIMARY KEY AUTOINCREMENT", clustered: " WITHOUT ROWID", bytes: "BLOB" };

const DATA_KEYS: &str = "CREATE TABLE IF NOT EXISTS keys.data_keys \
                         (conversation INTEGER PRIMARY KEY, master TEXT NOT NULL, wrapped BLOB NOT NULL)";

/// Opens the file, and makes it and its directory where they are not there.
pub async fn open(path: &Path, settings: Settings, process: Process) -> Result<Arc<dyn Archive>, StoreError> {
    let trouble = Trouble::new(path);
    create(path).map_err(|error| trouble.with_file(&error))?;
    // Its log and its keys are beside the file itself, not beside a link to it.
    let path = &std::fs::canonicalize(path).map_err(|error| trouble.with_file(&error))?;
    let keys = beside(path, "-keys");
    if settings.keys.is_some() {
        create(&keys).map_err(|error| Trouble::new(&keys).with_file(&error))?;
    }
    let began = Instant::now();
    let opening = Opening { options: options(path), keys: keys.exists().then_some(keys) };
    // The very first to come changes the kind of the file, for which it must be alone.
    let writer = loop {
        match start(&opening).await {
            Ok(writer) => break writer,
            Err(fault) if trouble.is_busy(&fault) && began.elapsed() < START => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(fault) => return Err(trouble.describe(fault)),
        }
    };
    let readers = opening.readers();
    let keys = opening.keys.clone();
    let log = LogOf::new(path).map_err(|error| trouble.with_file(&error))?;
    let spool = Arc::new(Spool::new(path, &process));
    let writer = Writer::start(writer, opening, trouble.clone(), log, Arc::clone(&spool));
    let driver =
        Sqlite { path: path.to_owned(), process: process.clone(), keys, writer, spool, readers, trouble };
    Ok(Arc::new(Database::begin(driver, settings, process).await?))
}

/// The path of a file that belongs to another.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
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
        // A copy of what people said is nothing for a directory that all share.
        .pragma("temp_store", "MEMORY")
        // The one that writes does that itself, between commits.
        .pragma("wal_autocheckpoint", "0")
        .disable_statement_logging()
}

/// How connections are made.
struct Opening {
    options: SqliteConnectOptions,
    /// The file of keys, if there is one.
    keys: Option<PathBuf>,
}

impl Opening {
    /// A connection that writes.
    async fn connect(&self) -> Result<SqliteConnection, Fault> {
        let mut connection = self.options.connect().await?;
        if let Some(keys) = &self.keys {
            let trouble = Trouble::new(keys);
            prepare_keys(&mut connection, keys).await.map_err(|fault| {
                // In words about the file that it is about, unless it will do to wait.
                if trouble.is_busy(&fault) { fault } else { Fault::Refused(trouble.describe(fault)) }
            })?;
        }
        Ok(connection)
    }

    fn readers(&self) -> SqlitePool {
        let keys = self.keys.clone();
        let pool = SqlitePoolOptions::new().max_connections(READERS).min_connections(0);
        let pool = pool.after_connect(move |connection, _| {
            let keys = keys.clone();
            Box::pin(async move {
                match &keys {
                    Some(keys) => attach(connection, keys).await,
                    None => Ok(()),
                }
            })
        });
        pool.connect_lazy_with(self.options.clone().pragma("query_only", "ON"))
    }
}

async fn attach(connection: &mut SqliteConnection, keys: &Path) -> Result<(), sqlx::Error> {
    // The store's own path is UTF-8, or could not have been opened.
    let keys = keys.to_string_lossy().into_owned();
    sqlx::query("ATTACH DATABASE $1 AS keys").bind(keys).execute(connection).await?;
    Ok(())
}

/// Makes the file of keys fit to be written: as the other one, but whatever happens to a key is on the disk at once.
async fn prepare_keys(connection: &mut SqliteConnection, keys: &Path) -> Result<(), Fault> {
    attach(connection, keys).await?;
    connection.rows("PRAGMA keys.journal_mode = WAL", values![]).await?;
    connection.run("PRAGMA keys.synchronous = FULL", values![]).await?;
    Ok(())
}

async fn start(opening: &Opening) -> Result<SqliteConnection, Fault> {
    let mut connection = opening.connect().await?;
    connection.run("BEGIN IMMEDIATE", values![]).await?;
    schema::migrate(&mut connection, &DIALECT).await?;
    if opening.keys.is_some() {
        connection.run(DATA_KEYS, values![]).await?;
    }
    connection.run("COMMIT", values![]).await?;
    Ok(connection)
}

struct Sqlite {
    path: PathBuf,
    process: Process,
    keys: Option<PathBuf>,
    writer: Writer,
    spool: Arc<Spool>,
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

    fn write_at_once(&self, quick: Quick, span: u64) -> bool {
        self.spool.write(quick, span)
    }

    fn left_by(&self, process: &str) -> Result<Left, StoreError> {
        spool::left_by(&self.path, process).map_err(|error| self.trouble.with_file(&error))
    }

    fn left_behind(&self) -> Result<Vec<String>, StoreError> {
        spool::owners(&self.path, &self.process).map_err(|error| self.trouble.with_file(&error))
    }

    fn brought_in(&self, files: &[PathBuf]) -> Result<(), StoreError> {
        spool::remove(files).map_err(|error| self.trouble.with_file(&error))
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Fault>> + Send,
    {
        // What was kept before is to be seen.
        if !self.spool.waiting().is_empty() {
            self.writer.flush().await?;
        }
        let mut connection =
            self.readers.acquire().await.map_err(|error| self.trouble.describe(error.into()))?;
        work(&mut connection).await.map_err(|fault| self.trouble.describe(fault))
    }

    /// Where SQLite has split pages, pieces of what was in them may be left in their unused room. A large file takes long to be
    /// written anew, and all who write wait for it.
    async fn rebuild(&self) -> bool {
        let size = std::fs::metadata(&self.path).map_or(u64::MAX, |file| file.len());
        if size > LARGEST_REBUILT {
            return false;
        }
        let rebuilt = self.writer.rebuild().await;
        rebuilt.inspect_err(|error| warn!(%error, "the store could not be written anew")).is_ok()
    }

    /// What was deleted is overwritten in the file as soon as the log is written back to it, and the log is emptied.
    async fn erase(&self) -> Result<bool, StoreError> {
        let began = Instant::now();
        loop {
            if !self.spool.is_clear() {
                self.writer.flush().await?;
            }
            let is_clear = self.spool.is_clear();
            if self.writer.checkpoint().await? && is_clear {
                return Ok(true);
            }
            if began.elapsed() > ERASING {
                return Ok(false);
            }
            sleep(ASKING).await;
        }
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
        let with_log = |path: &PathBuf| size(path) + size(&beside(path, "-wal"));
        Ok((wrong, with_log(&self.path) + self.keys.as_ref().map_or(0, with_log)))
    }

    fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    async fn close(&self) {
        if !self.spool.waiting().is_empty()
            && let Err(error) = self.writer.flush().await
        {
            warn!(%error, "what was said last is brought into the store by whoever opens it next");
        }
        self.spool.close();
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[cfg(test)]
mod tests;
