//! Reading: what an engine needs to go on, within bounds, and stanzas that are asked for again.

use super::keys::Seal;
use super::records::Lease;
use super::seal::{Locked, Place};
use super::sql::{Fault, Row, Sql, values};
use crate::ports::StoreError;
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{History, Page, Record, Stanza};
use tracing::warn;

/// Numbers reserved at once.
pub(super) const BLOCK: i64 = 1_024;
/// How much of what has ended is given: about so many records, and so many bytes.
pub(super) const MAX_RECORDS: usize = 2_000;
pub(super) const MAX_BYTES: usize = 1 << 20;
/// About how many bytes of stanzas are given at once.
pub(super) const PAGE_BYTES: usize = 256 << 10;
/// Rows read by one statement.
const CHUNK: i64 = 128;

/// Everything but the numbers, which [`reserve`] gives.
pub(super) async fn load<C: Sql>(
    connection: &mut C,
    conversation: i64,
    seal: &Seal,
) -> Result<History, Fault> {
    let records = records(connection, conversation, seal).await?;
    let unfinished = match History::unfinished_since(&records) {
        Some(since) => {
            let all = (usize::MAX, usize::MAX);
            stanzas(connection, conversation, seal, (i64::from(since), i64::MIN), all).await?
        }
        None => Vec::new(),
    };
    let select = "SELECT audience, min(number) FROM stanzas WHERE conversation = $1 GROUP BY audience";
    let mut last_kept = Vec::new();
    for mut row in connection.rows(select, values![conversation]).await? {
        if let Some(audience) = audience(row.text(0)?) {
            last_kept.push((audience, number(row.int(1)?)?));
        }
    }
    last_kept.sort();
    Ok(History { last_kept, records, unfinished, ..History::default() })
}

/// Takes the next block of numbers: the last number that may have been used, and the last one of the block.
pub(super) async fn reserve<C: Sql>(connection: &mut C, lease: Lease) -> Result<(i32, i32), Fault> {
    let update = "UPDATE conversations SET reserved = reserved - $1 \
                  WHERE id = $2 AND fence = $3 AND reserved >= $4 RETURNING reserved";
    let lowest = i64::from(i32::MIN) + BLOCK;
    let rows = connection.rows(update, values![BLOCK, lease.conversation, lease.fence, lowest]).await?;
    let Some(taken) = rows.first() else {
        let select = "SELECT reserved FROM conversations WHERE id = $1 AND fence = $2";
        let ours = !connection.rows(select, values![lease.conversation, lease.fence]).await?.is_empty();
        return Err(Fault::Refused(if ours {
            StoreError::Broken("the conversation has used up all its numbers; delete it".to_owned())
        } else {
            StoreError::Lost
        }));
    };
    let reserved = taken.int(0)?;
    Ok((number(reserved + BLOCK)?, number(reserved)?))
}

/// Records, oldest first: from the oldest that has not ended, and before that as much as there is room for.
async fn records<C: Sql>(connection: &mut C, conversation: i64, seal: &Seal) -> Result<Vec<Record>, Fault> {
    let select = "SELECT seq FROM open WHERE conversation = $1 ORDER BY seq LIMIT 1";
    let open = connection.rows(select, values![conversation]).await?;
    let oldest_open = open.first().map(|row| row.int(0)).transpose()?.unwrap_or(i64::MAX);

    let mut found: Vec<(i64, Vec<u8>)> = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    let mut before = i64::MAX;
    'all: loop {
        // A stop does nothing more to what has ended, and takes no room of what was said: anyone may send any number.
        let select = "SELECT seq, body, kind FROM records WHERE conversation = $1 AND seq < $2 \
                      AND (kind <> 'stopped' OR seq > $3) ORDER BY seq DESC LIMIT $4";
        let rows = connection.rows(select, values![conversation, before, oldest_open, CHUNK]).await?;
        let is_last = (rows.len() as i64) < CHUNK;
        for mut row in rows {
            let (seq, body, kind) = (row.int(0)?, row.bytes(1)?, row.text(2)?);
            if kind != "stopped" {
                count += 1;
                bytes += body.len();
            }
            if seq < oldest_open && (count > MAX_RECORDS || bytes > MAX_BYTES) {
                break 'all;
            }
            before = seq;
            found.push((seq, body));
        }
        if is_last {
            break;
        }
    }
    let select = "SELECT seq, body FROM participants WHERE conversation = $1";
    for mut row in connection.rows(select, values![conversation]).await? {
        found.push((row.int(0)?, row.bytes(1)?));
    }
    found.sort_unstable_by_key(|(seq, _)| *seq);
    let read = found.into_iter().filter_map(|(seq, body)| record(conversation, seal, seq, body));
    read.map(whole).collect()
}

/// A record, and why its content is missing if that needs a key; nothing if it is damaged or this version cannot read it:
/// the rest is still worth having.
pub(super) fn record(
    conversation: i64,
    seal: &Seal,
    seq: i64,
    body: Vec<u8>,
) -> Option<(Record, Option<Locked>)> {
    let opened = seal.open(Place::Record { conversation, seq }, body);
    let record = opened.and_then(|(body, locked)| Some((Record::from_bytes(&body)?, locked)));
    if record.is_none() {
        warn!(conversation, seq, "a record in the store cannot be read; it is passed over");
    }
    record
}

/// What was read, for those who must not go on without a part of it.
fn whole<T>((what, locked): (T, Option<Locked>)) -> Result<T, Fault> {
    locked.map_or(Ok(what), |locked| Err((&locked).into()))
}

/// What was sent after `after` up to `until`.
pub(super) async fn page<C: Sql>(
    connection: &mut C,
    conversation: i64,
    seal: &Seal,
    (after, until): (i32, i32),
    most: usize,
) -> Result<Page, Fault> {
    let (after, until) = (i64::from(after), i64::from(until));
    let stanzas = stanzas(connection, conversation, seal, (after, until), (most, PAGE_BYTES)).await?;
    // Asked last: what was dropped before the stanzas were read is known by now.
    let select = "SELECT dropped FROM conversations WHERE id = $1";
    let rows = connection.rows(select, values![conversation]).await?;
    let dropped = rows.first().map(|row| row.int(0)).transpose()?.unwrap_or_default();
    Ok(Page { stanzas, incomplete: dropped != 0 && dropped < after })
}

/// Stanzas after a number up to another, so many at most, and of so many bytes.
async fn stanzas<C: Sql>(
    connection: &mut C,
    conversation: i64,
    seal: &Seal,
    (mut after, until): (i64, i64),
    (most, most_bytes): (usize, usize),
) -> Result<Vec<Stanza>, Fault> {
    let mut found = Vec::new();
    let mut bytes = 0;
    while found.len() < most && bytes < most_bytes {
        let select = "SELECT number, audience, body FROM stanzas \
                      WHERE conversation = $1 AND number < $2 AND number >= $3 ORDER BY number DESC LIMIT $4";
        let chunk = CHUNK.min(i64::try_from(most - found.len()).unwrap_or(CHUNK));
        let rows = connection.rows(select, values![conversation, after, until, chunk]).await?;
        let is_last = (rows.len() as i64) < chunk;
        for mut row in rows {
            after = row.int(0)?;
            if bytes >= most_bytes {
                break;
            }
            if let Some(stanza) = stanza(conversation, seal, &mut row)?.map(whole).transpose()? {
                bytes += stanza.bytes.len();
                found.push(stanza);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// From the columns number, audience and body, and why its bytes are missing if they need a key; nothing if it was
/// emptied, is damaged, or is meant for those that this version does not know.
pub(super) fn stanza(
    conversation: i64,
    seal: &Seal,
    row: &mut Row,
) -> Result<Option<(Stanza, Option<Locked>)>, Fault> {
    let (number, word, body) = (number(row.int(0)?)?, row.text(1)?, row.bytes(2)?);
    if body.is_empty() {
        return Ok(None);
    }
    let opened = seal.open(Place::Stanza { conversation, number: i64::from(number), audience: &word }, body);
    if opened.is_none() {
        warn!(conversation, number, "a stanza in the store cannot be read; it is passed over");
    }
    Ok(opened.and_then(|(bytes, locked)| {
        let audience = audience(word)?;
        Some((Stanza { number, audience, bytes }, locked))
    }))
}

fn audience(word: String) -> Option<Audience> {
    Audience::try_from(word)
        .inspect_err(|error| warn!("in the store there is {error}; it is passed over"))
        .ok()
}

fn number(value: i64) -> Result<i32, Fault> {
    i32::try_from(value).map_err(|_| {
        Fault::Refused(StoreError::Broken(format!("in the store there is {value} as the number of a stanza")))
    })
}
