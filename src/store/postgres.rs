//! Conversations in a PostgreSQL database, for several machines at once.
//!
//! A pool of connections, a transaction for each piece of work. What need not survive a loss of power is committed
//! without waiting for the server's disk. A connection that is lost is replaced when one is needed next.

mod trouble;

use super::Settings;
use super::archive::Archive;
use super::database::Database;
use super::process::Process;
use super::records::{self, Quick};
use super::schema::{self, Dialect};
use super::sql::{Driver, Fault, Sql, speaks_sql, values};
use crate::ports::StoreError;
use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, PgConnection};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::sleep;
use tracing::warn;
use trouble::Trouble;

/// Connections of one process.
const CONNECTIONS: u32 = 16;
/// How long a connection is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before asking again a server that went away at the worst moment.
const AGAIN: Duration = Duration::from_millis(300);
/// Whoever brings the tables up to date holds this lock; any number will do that nobody else takes.
const MIGRATION_LOCK: i64 = 0x736f_7474_6f00;

const DIALECT: Dialect =
    Dialect { identity: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", clustered: "", bytes: "BYTEA" };

const DATA_KEYS: &str = "CREATE TABLE IF NOT EXISTS data_keys \
                         (conversation BIGINT PRIMARY KEY, master TEXT NOT NULL, wrapped BYTEA NOT NULL)";

/// Opens the database at a URL, as `postgres://user:password@host/database`.
pub async fn open(url: &str, settings: Settings, process: Process) -> Result<Arc<dyn Archive>, StoreError> {
    let options = options(url)?;
    let trouble = Trouble::new(&options);
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).min_connections(0).acquire_timeout(PATIENCE);
    let driver = Postgres { line: Line { pool: pool.connect_lazy_with(options.clone()), trouble } };
    // By a connection of its own: a pool would only say that it waited in vain, not why.
    start(&options).await.map_err(|fault| driver.line.trouble.describe(fault))?;
    Ok(Arc::new(Database::begin(driver, settings, process).await?))
}

fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|_| {
        // The error would show parts of the URL, and with them the password.
        StoreError::Broken(
            "store.url is not the URL of a PostgreSQL database; write postgres://user:password@host:5432/database"
                .to_owned(),
        )
    })?;
    let options = options
        .application_name("sotto")
        // A connection that broke off must not hold its locks for ever, nor wait for those of others.
        .options([
            ("idle_in_transaction_session_timeout", "10s"),
            ("lock_timeout", "10s"),
            ("statement_timeout", "60s"),
            // What must survive a loss of power says so in its transaction.
            ("synchronous_commit", "off"),
        ])
        .disable_statement_logging();
    // As everywhere else: where this is set, its roots are trusted too.
    Ok(match std::env::var_os("SSL_CERT_FILE") {
        Some(roots) if !url.contains("sslrootcert") => options.ssl_root_cert(roots),
        _ => options,
    })
}

async fn start(options: &PgConnectOptions) -> Result<(), Fault> {
    let connect = tokio::time::timeout(PATIENCE, options.connect());
    let mut connection = connect.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    connection.run("BEGIN", values![]).await?;
    connection.run("SELECT pg_advisory_xact_lock($1)", values![MIGRATION_LOCK]).await?;
    schema::migrate(&mut connection, &DIALECT).await?;
    connection.run(DATA_KEYS, values![]).await?;
    connection.run("COMMIT", values![]).await?;
    Ok(())
}

speaks_sql!(PgConnection, now);

async fn now(connection: &mut PgConnection) -> Result<i64, Fault> {
    let select = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let rows = connection.rows(select, values![]).await?;
    rows.first().map_or(Err(sqlx::Error::RowNotFound.into()), |row| row.int(0))
}

/// Writes stanzas, if the conversation is ours, and nobody can take it meanwhile.
static QUICKLY: LazyLock<Vec<String>> = LazyLock::new(|| {
    let statement = "WITH ours AS (SELECT id, last_seq FROM conversations WHERE id = $2 AND fence = $3 FOR SHARE) \
                     INSERT INTO stanzas (conversation, number, audience, reasoning, seq, at, body) \
                     SELECT id, column1, column2, column3, last_seq, $1, column4 \
                     FROM ours, (VALUES {ROWS}) AS stanza \
                     ON CONFLICT (conversation, number) DO NOTHING";
    records::statements(statement, 4, &["::BIGINT", "::TEXT", "::BIGINT", "::BYTEA"])
});

struct Postgres {
    line: Line,
}

#[derive(Clone)]
struct Line {
    pool: PgPool,
    trouble: Trouble,
}

/// How a transaction ended.
enum End<T> {
    Kept(T),
    NotKept(Fault),
    /// The connection was lost while the server committed: either may be true.
    Unknown(sqlx::Error),
}

impl Line {
    /// Runs work until it is certain what became of it.
    async fn settle<T, W>(&self, durable: bool, work: W) -> Result<T, StoreError>
    where
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>>,
    {
        let mut in_doubt = false;
        loop {
            match self.transaction(durable, &work).await {
                End::Kept(value) => return Ok(value),
                End::NotKept(Fault::Refused(error)) => return Err(error),
                End::NotKept(fault) if !in_doubt || self.pool.is_closed() => {
                    return Err(self.trouble.describe(fault));
                }
                // This time it was not kept, but the first time it may have been. Work sees that when it is run again.
                End::NotKept(_) => {}
                End::Unknown(error) => {
                    if !in_doubt {
                        warn!(%error, "the connection to PostgreSQL was lost during a commit; finding out what became of it");
                    }
                    in_doubt = true;
                }
            }
            sleep(AGAIN).await;
        }
    }

    async fn transaction<T, W>(&self, durable: bool, work: &W) -> End<T>
    where
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>>,
    {
        // Either is said, for the server's own default may be either.
        let begin = if durable {
            "BEGIN; SET LOCAL synchronous_commit = on"
        } else {
            "BEGIN; SET LOCAL synchronous_commit = off"
        };
        let mut transaction = match self.pool.begin_with(begin).await {
            Ok(transaction) => transaction,
            Err(error) => return End::NotKept(error.into()),
        };
        match work(&mut transaction).await {
            Ok(value) => match transaction.commit().await {
                Ok(()) => End::Kept(value),
                Err(error) => End::Unknown(error),
            },
            Err(fault) => {
                // Where this fails the connection is gone, and the server does it by itself.
                let _ = transaction.rollback().await;
                End::NotKept(fault)
            }
        }
    }
}

impl Driver for Postgres {
    type Connection = PgConnection;

    async fn write<T, W>(&self, durable: bool, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static,
    {
        self.line.settle(durable, work).await
    }

    async fn write_quickly(&self, quick: Quick) -> bool {
        let Ok(mut connection) = self.line.pool.acquire().await else { return false };
        let mut values = values![quick.at, quick.lease.conversation, quick.lease.fence];
        for stanza in &quick.stanzas {
            let reasoning = i64::from(stanza.reasoning);
            values.extend(values![stanza.number, &stanza.audience[..], reasoning, &stanza.body[..]]);
        }
        let written = connection.run(&QUICKLY[quick.stanzas.len() - 1], values).await;
        written.is_ok_and(|stanzas| stanzas > 0)
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send,
    {
        let trouble = &self.line.trouble;
        let mut connection =
            self.line.pool.acquire().await.map_err(|error| trouble.describe(error.into()))?;
        work(&mut connection).await.map_err(|fault| trouble.describe(fault))
    }

    /// What is deleted is the server's to overwrite; docs/store.md says so.
    async fn erase(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn inspect(&self) -> Result<(Vec<String>, u64), StoreError> {
        let size = self.read(|connection| {
            Box::pin(async move {
                let select = "SELECT pg_database_size(current_database())";
                let rows = connection.rows(select, values![]).await?;
                rows.first().map_or(Ok(0), |row| row.int(0))
            })
        });
        Ok((Vec::new(), size.await?.unsigned_abs()))
    }

    fn has_keys(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        self.line.trouble.place().to_owned()
    }

    async fn close(&self) {
        self.line.pool.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sotto_harness::postgres::Postgres as Server;

    /// The server's disk is waited for where that is asked for, and nowhere else.
    #[tokio::test]
    async fn only_what_must_survive_a_loss_of_power_waits_for_the_disk() {
        let server = Server::start().await;
        let database = server.database();
        let options = options(database.url()).expect("a good URL");
        let trouble = Trouble::new(&options);
        let driver =
            Postgres { line: Line { pool: PgPoolOptions::new().connect_lazy_with(options), trouble } };
        for durable in [false, true, true, false] {
            let shown = driver.write(durable, |connection| {
                Box::pin(async move {
                    let mut rows = connection.rows("SHOW synchronous_commit", values![]).await?;
                    rows.first_mut().map_or(Ok(String::new()), |row| row.text(0))
                })
            });
            assert_eq!(shown.await.as_deref(), Ok(if durable { "on" } else { "off" }));
        }
        driver.close().await;
    }
}
