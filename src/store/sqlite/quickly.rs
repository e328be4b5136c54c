//! Stanzas, written where the one who has them stands: without a task, a thread or a lock that somebody else may hold.
//!
//! A sentence is sent when its stanza is in the store, so whatever that takes every sentence takes. The way to the connection
//! that does all other writing is two changes of threads, which on a quiet machine cost more than the writing itself.
//! An insertion without a wait for the disk is some copying of memory; should the file be another's just now, or anything else
//! be in the way, it is left to that other connection, which waits, tries again and knows what to say.

use super::writer::Emptied;
use crate::store::records::Quick;
use crate::store::sql::Value;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tracing::warn;

/// Writes stanzas, if the conversation is ours. `?1`, not `$1`: SQLite counts the latter as they come, whatever they are called.
static STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let statement = "INSERT INTO stanzas (conversation, number, audience, reasoning, seq, at, body) \
                     SELECT id, column1, column2, column3, last_seq, ?1, column4 \
                     FROM conversations, (VALUES {ROWS}) WHERE id = ?2 AND fence = ?3 \
                     ON CONFLICT (conversation, number) DO NOTHING";
    Quick::statements(statement, row)
});

fn row(first: usize) -> String {
    format!("(?{first}, ?{}, ?{}, ?{})", first + 1, first + 2, first + 3)
}

/// A connection for nothing else; `None` once the store is closed, or where it could not be had.
pub(super) struct Quickly {
    connection: Mutex<Option<Connection>>,
    emptied: Emptied,
}

impl Quickly {
    /// Opens a file that is fit to be written to.
    pub(super) fn open(path: &Path, emptied: Emptied) -> Self {
        let connection = connect(path).inspect_err(|error| {
            warn!(%error, "what is said is stored in a roundabout way: a connection to the store could not be had");
        });
        Self { connection: Mutex::new(connection.ok()), emptied }
    }

    /// Writes stanzas as one transaction that does not wait for the disk. False: it was not done, or nobody knows.
    pub(super) fn write(&self, quick: &Quick) -> bool {
        // Who begins the log anew waits for the disk.
        if self.emptied.get() {
            return false;
        }
        let Ok(connection) = self.connection.try_lock() else { return false };
        let Some(connection) = &*connection else { return false };
        let statement = connection.prepare_cached(&STATEMENTS[quick.stanzas - 1]);
        let written = statement.and_then(|mut statement| statement.execute(params_from_iter(&quick.values)));
        written.is_ok_and(|stanzas| stanzas > 0)
    }

    pub(super) fn close(&self) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Nothing is waited for here. Writing the log back to the file takes long: the other connection does that.
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Else copies of what others said stay behind in pages that were split here.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS.len());
    Ok(connection)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Null => ValueRef::Null,
        }))
    }
}
