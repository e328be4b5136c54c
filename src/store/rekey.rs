//! Other keys from now on: wraps every conversation's key by the master key in use, and seals what is still in the clear.
//!
//! In small steps beside agents that are running, as `retention` does; whoever ends in the middle may begin again.

use super::database::Shared;
use super::keys::Seal;
use super::seal::{Locked, MARK, Place};
use super::sql::{Driver, Fault, Row, Sql, values};
use crate::ports::StoreError;
use futures_util::FutureExt;
use sotto_core::engine::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows handled by one step.
const STEP: i64 = 200;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rekeyed {
    /// How the master key in use is called.
    pub key: String,
    /// How many conversations' keys are wrapped by it since now.
    pub wrapped: u64,
    /// How many rows were in the clear and are sealed now.
    pub sealed: u64,
    /// Whether what was in the clear is overwritten already, rather than some time later.
    pub overwritten: bool,
    /// How many conversations stayed as they were, by reason.
    pub left: BTreeMap<String, u64>,
}

impl Rekeyed {
    fn leave(&mut self, locked: &Locked) {
        *self.left.entry(locked.to_string()).or_default() += 1;
    }
}

pub(super) async fn rekey<D: Driver>(shared: &Arc<Shared<D>>) -> Result<Rekeyed, StoreError> {
    let Some(masters) = &shared.keys.masters else {
        return Err(StoreError::Broken(
            "there is no key to seal with; `sotto store key` makes one, and store.key or store.key_file names it".to_owned(),
        ));
    };
    let mut done = Rekeyed { key: masters.id().to_owned(), ..Rekeyed::default() };
    wrap_all(shared, masters.id(), &mut done).await?;
    seal_all(shared, &mut done).await?;
    // What was in the clear, and keys as they were wrapped before.
    done.overwritten = shared.driver.erase().await?;
    Ok(done)
}

/// All keys, also those of conversations that are not here: a newer backup may have them.
async fn wrap_all<D: Driver>(
    shared: &Arc<Shared<D>>,
    id: &str,
    done: &mut Rekeyed,
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        let id = id.to_owned();
        let read = shared.driver.read(move |connection| {
            async move {
                let select = "SELECT conversation FROM data_keys WHERE conversation > $1 AND master <> $2 \
                              ORDER BY conversation LIMIT $3";
                first_column(&connection.rows(select, values![after, &id[..], STEP]).await?)
            }
            .boxed()
        });
        let some = read.await?;
        let Some(last) = some.last() else { return Ok(()) };
        after = *last;
        let work = Arc::new((shared.keys.clone(), some));
        let wrap = shared.driver.write(true, move |connection| {
            let work = Arc::clone(&work);
            async move {
                let (mut wrapped, mut locked) = (0, Vec::new());
                for conversation in &work.1 {
                    match work.0.rewrap(connection, *conversation).await? {
                        Ok(was_not) => wrapped += u64::from(was_not),
                        Err(why) => locked.push(why),
                    }
                }
                Ok((wrapped, locked))
            }
            .boxed()
        });
        let (wrapped, locked) = wrap.await?;
        done.wrapped += wrapped;
        for locked in &locked {
            done.leave(locked);
        }
    }
}

async fn seal_all<D: Driver>(shared: &Arc<Shared<D>>, done: &mut Rekeyed) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let read = shared.driver.read(move |connection| {
            async move {
                let select = "SELECT id FROM conversations WHERE id > $1 ORDER BY id LIMIT $2";
                first_column(&connection.rows(select, values![after, STEP]).await?)
            }
            .boxed()
        });
        let some = read.await?;
        let Some(last) = some.last() else { return Ok(()) };
        after = *last;
        for conversation in some {
            match seal_of(shared, conversation).await? {
                // What cannot be opened was counted with its key, unless that is missing.
                Seal::Locked(locked) if locked == Locked::unknown() => done.leave(&locked),
                Seal::Locked(_) | Seal::Nothing => {}
                seal @ Seal::With(_) => {
                    for rows in [Rows::Records, Rows::Stanzas] {
                        done.sealed += seal_rows(shared, conversation, &seal, rows).await?;
                    }
                }
            }
        }
    }
}

/// How a conversation is sealed; from now on, if it was not.
async fn seal_of<D: Driver>(shared: &Arc<Shared<D>>, conversation: i64) -> Result<Seal, StoreError> {
    let keys = shared.keys.clone();
    let read =
        shared.driver.read(move |connection| async move { keys.of(connection, conversation).await }.boxed());
    let seal = read.await?;
    if !matches!(seal, Seal::Nothing) {
        return Ok(seal);
    }
    // In a transaction of its own: a key must be kept before anything is sealed with it.
    let keys = shared.keys.clone();
    let write = shared.driver.write(true, move |connection| {
        let keys = keys.clone();
        async move { keys.for_writing(connection, conversation).await }.boxed()
    });
    write.await
}

/// The tables that hold what people said.
#[derive(Clone, Copy)]
enum Rows {
    Records,
    Stanzas,
}

/// One row in the clear: its number in the conversation, for whom it is (stanzas alone), and what is in it.
struct Clear {
    number: i64,
    audience: String,
    body: Vec<u8>,
}

/// Seals the rows of a conversation that are in the clear; how many that were.
async fn seal_rows<D: Driver>(
    shared: &Arc<Shared<D>>,
    conversation: i64,
    seal: &Seal,
    rows: Rows,
) -> Result<u64, StoreError> {
    let (mut after, mut sealed) = (i64::MIN, 0);
    loop {
        let read =
            shared.driver.read(move |connection| clear_rows(connection, conversation, rows, after).boxed());
        let found = read.await?;
        let Some(last) = found.last() else { return Ok(sealed) };
        after = last.number;
        let work = Arc::new((seal.clone(), found));
        let write = shared.driver.write(false, move |connection| {
            let work = Arc::clone(&work);
            async move {
                let mut sealed = 0;
                for row in &work.1 {
                    sealed += seal_row(connection, conversation, &work.0, rows, row).await?;
                }
                Ok(sealed)
            }
            .boxed()
        });
        sealed += write.await?;
    }
}

/// A few rows that are in the clear. What was erased or emptied stays as it is: there is nothing to seal.
async fn clear_rows<C: Sql>(
    connection: &mut C,
    conversation: i64,
    rows: Rows,
    after: i64,
) -> Result<Vec<Clear>, Fault> {
    let select = match rows {
        Rows::Records => {
            "SELECT seq, kind, body FROM records WHERE conversation = $1 AND seq > $2 AND kind <> 'reasoning_erased' \
             AND length(body) > 0 AND substr(body, 1, 1) <> $3 ORDER BY seq LIMIT $4"
        }
        Rows::Stanzas => {
            "SELECT number, audience, body FROM stanzas WHERE conversation = $1 AND number > $2 \
             AND length(body) > 0 AND substr(body, 1, 1) <> $3 ORDER BY number LIMIT $4"
        }
    };
    let found = connection.rows(select, values![conversation, after, &[MARK][..], STEP]).await?;
    let clear = |mut row: Row| Ok(Clear { number: row.int(0)?, audience: row.text(1)?, body: row.bytes(2)? });
    found.into_iter().map(clear).collect()
}

/// Seals a row, unless somebody has changed it since; whether it did.
async fn seal_row<C: Sql>(
    connection: &mut C,
    conversation: i64,
    seal: &Seal,
    rows: Rows,
    row: &Clear,
) -> Result<u64, Fault> {
    let number = row.number;
    let (place, clear, update) = match rows {
        Rows::Records => (
            Place::Record { conversation, seq: number },
            // Nothing of what this version cannot read is left in the clear.
            Record::from_bytes(&row.body).map_or_else(Vec::new, |record| record.without_content().to_bytes()),
            "UPDATE records SET body = $1 WHERE conversation = $2 AND seq = $3 AND body = $4",
        ),
        Rows::Stanzas => (
            Place::Stanza { conversation, number, audience: &row.audience },
            Vec::new(),
            "UPDATE stanzas SET body = $1 WHERE conversation = $2 AND number = $3 AND body = $4",
        ),
    };
    let sealed = seal.close(place, &clear, row.body.clone());
    let sealed = sealed.map_err(|error| sqlx::Error::Encode(error.into()))?;
    connection.run(update, values![&sealed[..], conversation, number, &row.body[..]]).await
}

fn first_column(rows: &[Row]) -> Result<Vec<i64>, Fault> {
    rows.iter().map(|row| row.int(0)).collect()
}
