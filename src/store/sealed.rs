//! Looks over what is sealed, for `sotto store check`: can all of it be opened?

use super::database::Shared;
use super::keys::Seal;
use super::seal::{MARK, Place};
use super::sql::{Driver, Fault, Row, Sql, values};
use crate::ports::StoreError;
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows read by one statement.
const CHUNK: i64 = 200;

/// How many conversations are sealed, and what is wrong with them.
pub(super) async fn look_over<D: Driver>(shared: &Arc<Shared<D>>) -> Result<(u64, Vec<String>), StoreError> {
    let keys = shared.keys.clone();
    let read = shared.driver.read(move |connection| {
        async move { Ok((keys.survey(connection).await?, without_key(connection, keys.exist).await?)) }
            .boxed()
    });
    let ((sealed, missing), without_key) = read.await?;
    let missing = missing.iter().map(|(master, count)| {
        format!("{count} conversations are sealed with the key {master}, which store.key and store.key_file do not have")
    });
    let mut problems: Vec<_> = missing.collect();
    if without_key > 0 {
        problems.push(format!(
            "{without_key} conversations are sealed and their own keys are not there: either they were deleted since a \
             restored backup was made, then delete them again, or the keys were not restored with it"
        ));
    }
    let mut unreadable = 0;
    for (why, conversations) in open_all(shared, &mut unreadable).await? {
        problems.push(format!("{conversations} conversations: {why}"));
    }
    if unreadable > 0 {
        problems.push(format!(
            "{unreadable} sealed rows cannot be opened: they are damaged, or somebody moved them"
        ));
    }
    Ok((sealed, problems))
}

/// How many conversations have sealed records and no key.
async fn without_key<C: Sql>(connection: &mut C, keys_exist: bool) -> Result<u64, Fault> {
    let select = if keys_exist {
        "SELECT count(DISTINCT conversation) FROM records WHERE substr(body, 1, 1) = $1 \
         AND conversation NOT IN (SELECT conversation FROM data_keys)"
    } else {
        "SELECT count(DISTINCT conversation) FROM records WHERE substr(body, 1, 1) = $1"
    };
    let rows = connection.rows(select, values![&[MARK][..]]).await?;
    Ok(rows.first().map_or(Ok(0), |row| row.int(0))?.unsigned_abs())
}

/// Opens all that there is a key for. Counts the rows for which that fails, and the conversations whose own key is damaged,
/// by reason.
async fn open_all<D: Driver>(
    shared: &Arc<Shared<D>>,
    unreadable: &mut u64,
) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut damaged = BTreeMap::new();
    let Some(masters) = shared.keys.masters.clone() else { return Ok(damaged) };
    let mut after = i64::MIN;
    loop {
        let read = shared.driver.read(move |connection| some_keys(connection, after).boxed());
        let some = read.await?;
        let Some((last, _)) = some.last() else { return Ok(damaged) };
        after = *last;
        // Those whose master key is missing were told of already.
        for (conversation, _) in some.into_iter().filter(|(_, master)| masters.have(master)) {
            let keys = shared.keys.clone();
            let read = shared.driver.read(move |connection| {
                async move {
                    let seal = keys.of(connection, conversation).await?;
                    let unreadable = match seal {
                        Seal::With(_) => unreadable_rows(connection, conversation, &seal).await?,
                        _ => 0,
                    };
                    Ok((seal, unreadable))
                }
                .boxed()
            });
            let (seal, rows) = read.await?;
            *unreadable += rows;
            if let Seal::Locked(locked) = seal {
                *damaged.entry(locked.to_string()).or_default() += 1;
            }
        }
    }
}

async fn some_keys<C: Sql>(connection: &mut C, after: i64) -> Result<Vec<(i64, String)>, Fault> {
    let select =
        "SELECT conversation, master FROM data_keys WHERE conversation > $1 ORDER BY conversation LIMIT $2";
    let rows = connection.rows(select, values![after, CHUNK]).await?;
    rows.into_iter().map(|mut row| Ok((row.int(0)?, row.text(1)?))).collect()
}

async fn unreadable_rows<C: Sql>(connection: &mut C, conversation: i64, seal: &Seal) -> Result<u64, Fault> {
    let records = "SELECT seq, kind, body FROM records WHERE conversation = $1 AND seq > $2 \
                   AND substr(body, 1, 1) = $3 ORDER BY seq LIMIT $4";
    let stanzas = "SELECT number, audience, body FROM stanzas WHERE conversation = $1 AND number > $2 \
                   AND substr(body, 1, 1) = $3 ORDER BY number LIMIT $4";
    let is_record = |row: &mut Row| {
        let place = Place::Record { conversation, seq: row.int(0)? };
        Ok(seal.open(place, row.bytes(2)?).is_some())
    };
    let is_stanza = |row: &mut Row| {
        let (number, audience) = (row.int(0)?, row.text(1)?);
        let place = Place::Stanza { conversation, number, audience: &audience };
        Ok(seal.open(place, row.bytes(2)?).is_some())
    };
    let of_records = count(connection, records, conversation, is_record).await?;
    Ok(of_records + count(connection, stanzas, conversation, is_stanza).await?)
}

/// How many sealed rows do not open.
async fn count<C: Sql>(
    connection: &mut C,
    select: &'static str,
    conversation: i64,
    opens: impl Fn(&mut Row) -> Result<bool, Fault> + Send + Sync,
) -> Result<u64, Fault> {
    let (mut after, mut unreadable) = (i64::MIN, 0);
    loop {
        let rows = connection.rows(select, values![conversation, after, &[MARK][..], CHUNK]).await?;
        let Some(last) = rows.last() else { return Ok(unreadable) };
        after = last.int(0)?;
        for mut row in rows {
            unreadable += u64::from(!opens(&mut row)?);
        }
    }
}
