//! Removing what is too old or too much: in small steps, each a transaction of its own, so that nobody who writes has to
//! wait. Any process does it, and it does no harm if two do.

use super::database::Shared;
use super::keys::Keys;
use super::records::Lease;
use super::sql::{Driver, Fault, Sql, values};
use super::{KeptReasoning, Settings, lease, seal};
use crate::ports::StoreError;
use futures_util::FutureExt;
use sotto_core::engine::record::Record;
use std::sync::Arc;
use std::time::Duration;

/// Rows removed by one step.
const STEP: i64 = 200;

/// How often a conversation is looked through in the background, as a part of the time that stanzas are kept: often
/// enough for what people expect, seldom enough to cost nothing.
const LOOKS_PER_WINDOW: i64 = 24;

/// When conversations are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Those that were not for some time.
    Due,
    /// All, now.
    Now,
}

/// Removes all that is to be removed now.
pub(super) async fn tidy<D: Driver>(shared: &Arc<Shared<D>>, when: When) -> Result<(), StoreError> {
    let dropped = drop_stanzas(&shared.driver, &shared.settings, when).await?;
    let erased = erase_reasoning(&shared.driver, &shared.settings).await?;
    let deleted = delete_old(shared).await?;
    shared.driver.write(false, |connection| lease::forget(connection).boxed()).await?;
    if dropped || erased || deleted || when == When::Now {
        shared.driver.erase().await?;
    }
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Drops stanzas that nobody may ask for any more; whether there were any.
async fn drop_stanzas<D: Driver>(driver: &D, settings: &Settings, when: When) -> Result<bool, StoreError> {
    let window = millis(settings.replay_window);
    let limits = Limits {
        most: i64::try_from(settings.replay_count).unwrap_or(i64::MAX),
        window,
        empties_reasoning: settings.reasoning != KeptReasoning::Keep,
    };
    let pause = if when == When::Now { 0 } else { window / LOOKS_PER_WINDOW };
    let (mut after, mut any) = (0, false);
    loop {
        let due = driver.read(move |connection| due(connection, after, window, pause).boxed()).await?;
        let Some(last) = due.last() else { return Ok(any) };
        after = *last;
        for conversation in due {
            while driver
                .write(false, move |connection| drop_some(connection, conversation, limits).boxed())
                .await?
            {
                any = true;
            }
        }
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    most: i64,
    window: i64,
    /// The newest of an audience stays, but what the model thought does not stay in it.
    empties_reasoning: bool,
}

/// Conversations that may have too many stanzas: those that were written to since they were swept, and those in which
/// something may have become too old since.
async fn due<C: Sql>(connection: &mut C, after: i64, window: i64, pause: i64) -> Result<Vec<i64>, Fault> {
    let now = connection.now().await?;
    let select = "SELECT id FROM conversations \
                  WHERE id > $1 AND swept - $2 <= updated AND swept <= $3 ORDER BY id LIMIT $4";
    let rows = connection.rows(select, values![after, window, now - pause, STEP]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// Drops a few stanzas, oldest first, but never the newest of an audience; whether there were any.
async fn drop_some<C: Sql>(connection: &mut C, conversation: i64, limits: Limits) -> Result<bool, Fault> {
    let now = connection.now().await?;
    let too_old = now - limits.window;
    let beyond = "SELECT number FROM stanzas WHERE conversation = $1 ORDER BY number LIMIT 1 OFFSET $2";
    let rows = connection.rows(beyond, values![conversation, limits.most]).await?;
    // Numbers are negative, so that none is above 1.
    let too_many = rows.first().map_or(Ok(1), |row| row.int(0))?;
    let delete = "DELETE FROM stanzas WHERE conversation = $1 AND number IN (SELECT number FROM stanzas \
                  WHERE conversation = $1 AND (number >= $2 OR at < $3) \
                  AND number NOT IN (SELECT min(number) FROM stanzas WHERE conversation = $1 GROUP BY audience) \
                  ORDER BY number DESC LIMIT $4) RETURNING number";
    let mut gone = connection.rows(delete, values![conversation, too_many, too_old, STEP]).await?;
    if limits.empties_reasoning {
        let empty = "UPDATE stanzas SET body = $1 WHERE conversation = $2 AND reasoning = 1 AND at < $3 \
                     AND length(body) > 0 RETURNING number";
        gone.extend(connection.rows(empty, values![&[][..], conversation, too_old]).await?);
    }
    let mut newest = 0;
    for row in &gone {
        newest = row.int(0)?.min(newest);
    }
    let note = "UPDATE conversations SET dropped = CASE WHEN dropped > $1 THEN $1 ELSE dropped END, swept = $2 WHERE id = $3";
    connection.run(note, values![newest, now, conversation]).await?;
    Ok(!gone.is_empty())
}

/// Erases what the model thought where it is kept for replay alone; whether there was any.
async fn erase_reasoning<D: Driver>(driver: &D, settings: &Settings) -> Result<bool, StoreError> {
    if settings.reasoning == KeptReasoning::Keep {
        return Ok(false);
    }
    let window = millis(settings.replay_window);
    let mut any = false;
    while driver.write(false, move |connection| erase_some(connection, window).boxed()).await? {
        any = true;
    }
    Ok(any)
}

async fn erase_some<C: Sql>(connection: &mut C, window: i64) -> Result<bool, Fault> {
    let before = connection.now().await? - window;
    let select = "SELECT conversation, seq, body FROM records WHERE kind = 'reasoning' AND at < $1 LIMIT $2";
    let rows = connection.rows(select, values![before, STEP]).await?;
    let any = !rows.is_empty();
    for mut row in rows {
        // That there was reasoning stays, and what it belonged to, for which no key is needed; what cannot be read is erased
        // whole.
        let body = row.bytes(2)?;
        let body = match Record::from_bytes(seal::clear(&body).unwrap_or(&body)) {
            Some(Record::Reasoning(mut reasoning)) => {
                reasoning.steps.clear();
                Record::Reasoning(reasoning).to_bytes()
            }
            _ => Vec::new(),
        };
        let update =
            "UPDATE records SET kind = 'reasoning_erased', body = $1 WHERE conversation = $2 AND seq = $3";
        connection.run(update, values![&body[..], row.int(0)?, row.int(1)?]).await?;
    }
    Ok(any)
}

/// Deletes conversations that were not touched for too long; whether there were any.
async fn delete_old<D: Driver>(shared: &Arc<Shared<D>>) -> Result<bool, StoreError> {
    let Some(retention) = shared.settings.retention.map(millis) else { return Ok(false) };
    let mut any = false;
    let mut after = 0;
    loop {
        let namespace = shared.settings.namespace.clone();
        let read = shared.driver.read(move |connection| {
            async move { too_old(connection, &namespace, after, retention).await }.boxed()
        });
        let old = read.await?;
        let Some((last, _)) = old.last() else { return Ok(any) };
        after = *last;
        for (_, name) in old {
            match shared.delete(name).await {
                Ok(()) => any = true,
                // Somebody uses it after all.
                Err(StoreError::Held(_) | StoreError::Lost) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn too_old<C: Sql>(
    connection: &mut C,
    namespace: &str,
    after: i64,
    retention: i64,
) -> Result<Vec<(i64, String)>, Fault> {
    let before = connection.now().await? - retention;
    let select = "SELECT id, name FROM conversations \
                  WHERE namespace = $1 AND id > $2 AND updated < $3 ORDER BY id LIMIT $4";
    let rows = connection.rows(select, values![namespace, after, before, STEP]).await?;
    rows.into_iter().map(|mut row| Ok((row.int(0)?, row.text(1)?))).collect()
}

/// Deletes a conversation that is ours: its key first, which erases it from all copies that do not have the key.
pub(super) async fn delete<D: Driver>(driver: &D, keys: &Keys, lease: Lease) -> Result<(), StoreError> {
    let keys = keys.clone();
    let delete_key = driver.write(true, move |connection| {
        let keys = keys.clone();
        async move {
            check_fence(connection, lease).await?;
            keys.delete(connection, lease.conversation).await
        }
        .boxed()
    });
    delete_key.await?;
    while driver.write(false, move |connection| delete_some(connection, lease).boxed()).await? {}
    driver.write(true, move |connection| delete_rest(connection, lease).boxed()).await
}

/// Deletes a few of the rows that there may be many of; whether there were any.
async fn delete_some<C: Sql>(connection: &mut C, lease: Lease) -> Result<bool, Fault> {
    check_fence(connection, lease).await?;
    let stanzas = "DELETE FROM stanzas WHERE conversation = $1 AND number IN \
                   (SELECT number FROM stanzas WHERE conversation = $1 LIMIT $2)";
    let records = "DELETE FROM records WHERE conversation = $1 AND seq IN \
                   (SELECT seq FROM records WHERE conversation = $1 LIMIT $2)";
    let mut deleted = 0;
    for statement in [stanzas, records] {
        deleted += connection.run(statement, values![lease.conversation, STEP]).await?;
    }
    Ok(deleted > 0)
}

async fn delete_rest<C: Sql>(connection: &mut C, lease: Lease) -> Result<(), Fault> {
    check_fence(connection, lease).await?;
    for statement in [
        "DELETE FROM participants WHERE conversation = $1",
        "DELETE FROM open WHERE conversation = $1",
        "DELETE FROM conversations WHERE id = $1",
    ] {
        connection.run(statement, values![lease.conversation]).await?;
    }
    Ok(())
}

async fn check_fence<C: Sql>(connection: &mut C, lease: Lease) -> Result<(), Fault> {
    let select = "SELECT id FROM conversations WHERE id = $1 AND fence = $2";
    if connection.rows(select, values![lease.conversation, lease.fence]).await?.is_empty() {
        return Err(Fault::Refused(StoreError::Lost));
    }
    Ok(())
}
