//! What is asked of a connection and of a database, so that everything above is written once: both drivers understand
//! the same SQL with `$1`, `$2` … as parameters, and all values are whole numbers, texts or bytes.

use super::records::Quick;
use crate::ports::StoreError;
use futures_util::future::BoxFuture;
use sqlx::{TypeInfo as _, ValueRef as _};
use std::future::{Future, ready};
use std::path::PathBuf;

/// A value of a parameter or a column.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Null,
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(escaped(text))
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_owned())
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

/// PostgreSQL has no texts with a null character in them, and strangers choose some of ours: it is written as two others.
fn escaped(text: &str) -> String {
    if text.contains(['\0', ESCAPE]) {
        text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0")
    } else {
        text.to_owned()
    }
}

fn unescaped(text: String) -> String {
    if text.contains(ESCAPE) { text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}") } else { text }
}

const ESCAPE: char = '\u{1}';

/// The parameters of a statement: `values![id, "text"]`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::store::sql::Value::from($value)),*] };
}
pub(super) use values;

/// One row of an answer. Asking a column for what it is not is a mistake in a statement, or somebody changed the table.
#[derive(Debug)]
pub(super) struct Row(Vec<Value>);

impl Row {
    pub(super) fn int(&self, column: usize) -> Result<i64, Fault> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(*number),
            other => Err(unexpected("a number", other)),
        }
    }

    pub(super) fn text(&mut self, column: usize) -> Result<String, Fault> {
        self.optional_text(column)?.ok_or_else(|| unexpected("a text", None))
    }

    pub(super) fn optional_text(&mut self, column: usize) -> Result<Option<String>, Fault> {
        match self.0.get_mut(column) {
            Some(Value::Text(text)) => Ok(Some(unescaped(std::mem::take(text)))),
            Some(Value::Null) => Ok(None),
            other => Err(unexpected("a text", other.as_deref())),
        }
    }

    pub(super) fn bytes(&mut self, column: usize) -> Result<Vec<u8>, Fault> {
        match self.0.get_mut(column) {
            Some(Value::Bytes(bytes)) => Ok(std::mem::take(bytes)),
            other => Err(unexpected("bytes", other.as_deref())),
        }
    }
}

fn unexpected(wanted: &str, found: Option<&Value>) -> Fault {
    // The kind alone: the value may be what somebody said.
    let found = match found {
        Some(Value::Int(_)) => "a number",
        Some(Value::Text(_)) => "a text",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::Null) | None => "nothing",
    };
    Fault::Refused(StoreError::Broken(format!(
        "the store's tables are not as expected: {found} instead of {wanted}"
    )))
}

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database could not.
    Driver(sqlx::Error),
    /// It must not be done. Whoever says so has written nothing yet.
    Refused(StoreError),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

/// A connection: runs one statement at a time.
pub(super) trait Sql: Send {
    /// All rows of the answer; statements keep them few.
    fn rows(
        &mut self,
        statement: &'static str,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>, Fault>> + Send;

    /// How many rows were written.
    fn run(
        &mut self,
        statement: &'static str,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Several statements without parameters.
    fn script(&mut self, statements: String) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The database's clock, in milliseconds since the Unix epoch.
    fn now(&mut self) -> impl Future<Output = Result<i64, Fault>> + Send;
}

/// What a process kept at once.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) stanzas: Vec<Quick>,
    /// Where they were found.
    pub(super) files: Vec<PathBuf>,
}

/// A database: runs work in transactions.
pub(super) trait Driver: Send + Sync + 'static {
    /// What work is given.
    type Connection: Sql;

    /// Runs work that writes, as one transaction. An error means that nothing of it was kept. Work may be run again, even
    /// after it was kept (a connection may be lost before the answer): it sees that by itself, or does no harm.
    /// To be awaited to its end.
    fn write<T, W>(&self, durable: bool, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut Self::Connection) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static;

    /// Keeps stanzas of a conversation that is known to be ours, here and now, without waiting for anything: they survive this
    /// process, and are seen by all that is done with this driver after that. `span` numbers the time in which nobody could
    /// have thought this process gone. False: it was not done; [`write`](Self::write) must.
    fn write_at_once(&self, _: Quick, _span: u64) -> bool {
        false
    }

    /// What another process kept at once, and may not be where it is to be: to be written by whoever takes its conversations.
    fn left_by(&self, _process: &str) -> Result<Left, StoreError> {
        Ok(Left::default())
    }

    /// Other processes of which something may be left.
    fn left_behind(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// What was left is where it is to be.
    fn brought_in(&self, _files: &[PathBuf]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes stanzas in one way to the database and back. False: it was not done, or nobody knows; [`write`](Self::write) finds
    /// out.
    fn write_quickly(&self, _: Quick) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    /// Runs work that only reads.
    fn read<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut Self::Connection) -> BoxFuture<'c, Result<T, Fault>> + Send;

    /// Called after a conversation was deleted, before [`erase`](Self::erase): leaves nothing of it in unused room of the files.
    /// Whether nothing is left there.
    fn rebuild(&self) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    /// Called after something was deleted: what is deleted shall be gone from the disk as well. Whether it is.
    fn erase(&self) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Looks for damage: what is wrong, and how large it all is, in bytes.
    fn inspect(&self) -> impl Future<Output = Result<(Vec<String>, u64), StoreError>> + Send;

    /// Whether there is a table of keys.
    fn has_keys(&self) -> bool;

    /// Where it is, without secrets.
    fn place(&self) -> String;

    /// Ends what it runs in the background, after what was begun.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

pub(super) fn read_row<R>(row: &R) -> Result<Row, Fault>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    i64: for<'r> sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    String: for<'r> sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Vec<u8>: for<'r> sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    let value = |column: usize| {
        let raw = row.try_get_raw(column)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        match raw.type_info().name() {
            "BLOB" | "BYTEA" => row.try_get(column).map(Value::Bytes),
            "TEXT" | "NAME" => row.try_get(column).map(Value::Text),
            _ => row.try_get(column).map(Value::Int),
        }
    };
    Ok(Row((0..row.len()).map(value).collect::<Result<_, sqlx::Error>>()?))
}

/// [`Sql`] for a driver's connection; `$now` is how it tells the time.
macro_rules! speaks_sql {
    ($connection:ty, $now:expr) => {
        impl $crate::store::sql::Sql for $connection {
            async fn rows(
                &mut self,
                statement: &'static str,
                values: Vec<$crate::store::sql::Value>,
            ) -> Result<Vec<$crate::store::sql::Row>, $crate::store::sql::Fault> {
                let rows = bound(statement, values).fetch_all(self).await?;
                rows.iter().map($crate::store::sql::read_row).collect()
            }

            async fn run(
                &mut self,
                statement: &'static str,
                values: Vec<$crate::store::sql::Value>,
            ) -> Result<u64, $crate::store::sql::Fault> {
                Ok(bound(statement, values).execute(self).await?.rows_affected())
            }

            async fn script(&mut self, statements: String) -> Result<(), $crate::store::sql::Fault> {
                sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(self).await?;
                Ok(())
            }

            async fn now(&mut self) -> Result<i64, $crate::store::sql::Fault> {
                $now(self).await
            }
        }

        fn bound(
            statement: &'static str,
            values: Vec<$crate::store::sql::Value>,
        ) -> sqlx::query::Query<
            'static,
            <$connection as sqlx::Connection>::Database,
            <<$connection as sqlx::Connection>::Database as sqlx::Database>::Arguments,
        > {
            use $crate::store::sql::Value;
            values.into_iter().fold(sqlx::query(statement), |query, value| match value {
                Value::Int(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::Null => query.bind(None::<String>),
            })
        }
    };
}
pub(super) use speaks_sql;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was_and_without_null_between() {
        let texts = ["", "plain", "a\0b", "\0\0", "\u{1}", "\u{1}0", "\u{1}1\0", "\0\u{1}\u{1}0é"];
        let mut seen = Vec::new();
        for text in texts {
            let escaped = escaped(text);
            assert!(!escaped.contains('\0') && !seen.contains(&escaped), "{escaped:?}");
            assert_eq!(unescaped(escaped.clone()), text);
            seen.push(escaped);
        }
    }
}
