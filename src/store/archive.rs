//! The store as whoever runs it sees it: what there is, all that was kept of a conversation, deleting, checking.

use super::database::Shared;
use super::history::{record, stanza};
use super::keys::{Keys, Seal};
use super::rekey::Rekeyed;
use super::sql::{Driver, Fault, Sql, values};
use super::{schema, sealed};
use crate::ports::{Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sotto_core::engine::record::Record;
use sotto_core::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows read by one statement.
const CHUNK: i64 = 100;

/// What a store offers to whoever runs it.
pub trait Archive: Store {
    /// All conversations, by name.
    fn conversations(&self) -> BoxStream<'static, Result<Summary, StoreError>>;

    /// All that is kept of a conversation, stanzas included, in the order in which it happened; nothing if there is none of
    /// that name. Reads as it goes, so that a long one does not fill the memory.
    fn entries(&self, conversation: &str) -> BoxStream<'static, Result<Entry, StoreError>>;

    /// Deletes a conversation that nobody has open.
    fn delete(&self, conversation: &str) -> BoxFuture<'static, Result<Deleted, StoreError>>;

    /// Looks the whole store over; that may take its time.
    fn check(&self) -> BoxFuture<'static, Result<Report, StoreError>>;

    /// Removes what is too old now, which otherwise happens once in a while.
    fn tidy(&self) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Wraps the keys of all conversations, those of other namespaces included, by the master key in use, and seals what is
    /// still in the clear; that may take its time.
    fn rekey(&self) -> BoxFuture<'static, Result<Rekeyed, StoreError>>;

    /// To be called before the process ends, after the last journal was dropped: others may have the conversations at once.
    /// Without it they wait until it is certain that this process is gone.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// What became of a conversation that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// There was none of that name.
    Nothing,
    /// It is deleted; the database's files may still hold what was said, until it overwrites that.
    FromTables,
    /// It is deleted and overwritten; copies of pieces may be left in unused room of the database's files.
    Overwritten,
    /// It is deleted, and nothing of it is left in the database's files.
    FromDisk,
}

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name: the room's.
    pub name: String,
    /// When it was first opened.
    pub created: Time,
    /// When something was last kept of it.
    pub updated: Time,
    /// How many took part.
    pub participants: u64,
    /// How many messages people wrote.
    pub messages: u64,
    /// How many records there are, without joinings and stanzas.
    pub records: u64,
    /// How many stanzas there are.
    pub stanzas: u64,
    /// How many messages and variations have not ended.
    pub open: u64,
}

/// One thing that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub record: Record,
    /// Why its content is missing, where that is sealed and cannot be opened.
    pub sealed: Option<String>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Where the store is, without secrets.
    pub place: String,
    /// The version of its tables, and the one that this program knows.
    pub schema: (i64, i64),
    /// How many conversations there are, those of other namespaces included.
    pub conversations: u64,
    /// How many of them are sealed.
    pub sealed: u64,
    /// How large it is.
    pub bytes: u64,
    /// What is wrong; nothing if all is well.
    pub problems: Vec<String>,
}

pub(super) fn conversations<D: Driver>(
    shared: Arc<Shared<D>>,
) -> BoxStream<'static, Result<Summary, StoreError>> {
    stream::try_unfold(Some(String::new()), move |after| {
        let shared = Arc::clone(&shared);
        async move {
            let Some(after) = after else { return Ok(None) };
            let namespace = shared.settings.namespace.clone();
            let read = shared.driver.read(move |connection| {
                async move { summaries(connection, &namespace, &after).await }.boxed()
            });
            let summaries = read.await?;
            let next = summaries.last().filter(|_| summaries.len() as i64 == CHUNK);
            let next = next.map(|summary| summary.name.clone());
            Ok(Some((stream::iter(summaries.into_iter().map(Ok)), next)))
        }
    })
    .try_flatten()
    .boxed()
}

async fn summaries<C: Sql>(connection: &mut C, namespace: &str, after: &str) -> Result<Vec<Summary>, Fault> {
    let select = "SELECT name, created, updated, \
                  (SELECT count(*) FROM participants WHERE conversation = id), \
                  (SELECT count(*) FROM records WHERE conversation = id AND kind = 'message'), \
                  (SELECT count(*) FROM records WHERE conversation = id), \
                  (SELECT count(*) FROM stanzas WHERE conversation = id), \
                  (SELECT count(*) FROM open WHERE conversation = id) \
                  FROM conversations WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3";
    let rows = connection.rows(select, values![namespace, after, CHUNK]).await?;
    let summary = |mut row: super::sql::Row| {
        Ok(Summary {
            name: row.text(0)?,
            created: time(row.int(1)?),
            updated: time(row.int(2)?),
            participants: row.int(3)?.unsigned_abs(),
            messages: row.int(4)?.unsigned_abs(),
            records: row.int(5)?.unsigned_abs(),
            stanzas: row.int(6)?.unsigned_abs(),
            open: row.int(7)?.unsigned_abs(),
        })
    };
    rows.into_iter().map(summary).collect()
}

fn time(millis: i64) -> Time {
    Time(millis.max(0).unsigned_abs())
}

/// The conversation's number, if it is there.
async fn id<C: Sql>(connection: &mut C, namespace: &str, name: &str) -> Result<Option<i64>, Fault> {
    let select = "SELECT id FROM conversations WHERE namespace = $1 AND name = $2";
    connection.rows(select, values![namespace, name]).await?.first().map(|row| row.int(0)).transpose()
}

pub(super) async fn exists<D: Driver>(shared: &Shared<D>, name: &str) -> Result<bool, StoreError> {
    let (namespace, name) = (shared.settings.namespace.clone(), name.to_owned());
    let read =
        shared.driver.read(move |connection| async move { id(connection, &namespace, &name).await }.boxed());
    Ok(read.await?.is_some())
}

pub(super) fn entries<D: Driver>(
    shared: Arc<Shared<D>>,
    name: String,
) -> BoxStream<'static, Result<Entry, StoreError>> {
    stream::try_unfold(None::<Reading>, move |reading| {
        let (shared, name) = (Arc::clone(&shared), name.clone());
        async move {
            let (namespace, keys) = (shared.settings.namespace.clone(), shared.keys.clone());
            let read = shared.driver.read(move |connection| {
                async move {
                    let mut reading = match reading {
                        Some(reading) => reading,
                        None => Reading::begin(connection, &keys, &namespace, &name).await?,
                    };
                    let entries = reading.go_on(connection).await?;
                    Ok((entries, reading))
                }
                .boxed()
            });
            let (entries, reading) = read.await?;
            Ok(entries.map(|entries| (stream::iter(entries.into_iter().map(Ok)), Some(reading))))
        }
    })
    .try_flatten()
    .boxed()
}

/// Three tables read side by side, each in its own order: by place, and stanzas after the record before them.
struct Reading {
    conversation: Option<i64>,
    seal: Seal,
    /// What was read and not given yet, with its place in the order.
    joined: VecDeque<(i64, Entry)>,
    facts: VecDeque<(i64, Entry)>,
    stanzas: VecDeque<(i64, Entry)>,
    /// How far each was read; `None`: to the end.
    joined_after: Option<i64>,
    facts_after: Option<i64>,
    stanzas_after: Option<i64>,
}

impl Reading {
    async fn begin<C: Sql>(
        connection: &mut C,
        keys: &Keys,
        namespace: &str,
        name: &str,
    ) -> Result<Self, Fault> {
        let conversation = id(connection, namespace, name).await?;
        let seal = match conversation {
            Some(conversation) => keys.of(connection, conversation).await?,
            None => Seal::Nothing,
        };
        Ok(Self {
            conversation,
            seal,
            joined: VecDeque::new(),
            facts: VecDeque::new(),
            stanzas: VecDeque::new(),
            joined_after: Some(0),
            facts_after: Some(0),
            stanzas_after: Some(1),
        })
    }

    /// The next entries; `None` at the end.
    async fn go_on<C: Sql>(&mut self, connection: &mut C) -> Result<Option<Vec<Entry>>, Fault> {
        let Some(conversation) = self.conversation else { return Ok(None) };
        let joined = "SELECT seq, at, body FROM participants WHERE conversation = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let facts =
            "SELECT seq, at, body FROM records WHERE conversation = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let of = (conversation, &self.seal);
        read_records(connection, joined, of, &mut self.joined, &mut self.joined_after).await?;
        read_records(connection, facts, of, &mut self.facts, &mut self.facts_after).await?;
        self.read_stanzas(connection, conversation).await?;
        let mut entries = Vec::new();
        // Only while it is known what comes next of each.
        while !(self.joined.is_empty() && self.joined_after.is_some()
            || self.facts.is_empty() && self.facts_after.is_some()
            || self.stanzas.is_empty() && self.stanzas_after.is_some())
        {
            let place = |queue: &VecDeque<(i64, Entry)>| queue.front().map_or(i64::MAX, |(seq, _)| *seq);
            let (joined, fact, stanza) = (place(&self.joined), place(&self.facts), place(&self.stanzas));
            let next = if joined < fact && joined <= stanza {
                self.joined.pop_front()
            } else if fact <= stanza {
                self.facts.pop_front()
            } else {
                self.stanzas.pop_front()
            };
            let Some((_, entry)) = next.or_else(|| self.stanzas.pop_front()) else { break };
            entries.push(entry);
        }
        let is_over = entries.is_empty()
            && self.joined_after.is_none()
            && self.facts_after.is_none()
            && self.stanzas_after.is_none();
        Ok((!is_over).then_some(entries))
    }

    async fn read_stanzas<C: Sql>(&mut self, connection: &mut C, conversation: i64) -> Result<(), Fault> {
        let Some(after) = self.stanzas_after.filter(|_| self.stanzas.is_empty()) else { return Ok(()) };
        let select = "SELECT number, audience, body, seq, at FROM stanzas \
                      WHERE conversation = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
        let rows = connection.rows(select, values![conversation, after, CHUNK]).await?;
        let is_last = (rows.len() as i64) < CHUNK;
        let mut last = after;
        for mut row in rows {
            last = row.int(0)?;
            let (seq, at) = (row.int(3)?, time(row.int(4)?));
            if let Some((stanza, locked)) = stanza(conversation, &self.seal, &mut row)? {
                let sealed = locked.map(|locked| locked.to_string());
                self.stanzas.push_back((seq, Entry { at, record: Record::Stanza(stanza), sealed }));
            }
        }
        self.stanzas_after = (!is_last).then_some(last);
        Ok(())
    }
}

async fn read_records<C: Sql>(
    connection: &mut C,
    select: &'static str,
    (conversation, seal): (i64, &Seal),
    queue: &mut VecDeque<(i64, Entry)>,
    after: &mut Option<i64>,
) -> Result<(), Fault> {
    let Some(start) = after.filter(|_| queue.is_empty()) else { return Ok(()) };
    let rows = connection.rows(select, values![conversation, start, CHUNK]).await?;
    let is_last = (rows.len() as i64) < CHUNK;
    let mut last = start;
    for mut row in rows {
        let (seq, at, body) = (row.int(0)?, time(row.int(1)?), row.bytes(2)?);
        last = seq;
        if let Some((record, locked)) = record(conversation, seal, seq, body) {
            let sealed = locked.map(|locked| locked.to_string());
            queue.push_back((seq, Entry { at, record, sealed }));
        }
    }
    *after = (!is_last).then_some(last);
    Ok(())
}

pub(super) async fn check<D: Driver>(shared: Arc<Shared<D>>) -> Result<Report, StoreError> {
    let (mut problems, bytes) = shared.driver.inspect().await?;
    let read = shared.driver.read(|connection| {
        async move {
            let version = schema::version(connection).await?.map_or(0, |(version, _)| version);
            let conversations = count(connection, "SELECT count(*) FROM conversations").await?;
            let mut problems = Vec::new();
            for (table, select) in ORPHANS {
                let orphans = count(connection, select).await?;
                if orphans > 0 {
                    problems.push(format!("{orphans} rows of {table} belong to no conversation"));
                }
            }
            Ok((version, conversations, problems))
        }
        .boxed()
    });
    let (version, conversations, orphans) = read.await?;
    problems.extend(orphans);
    let (sealed, unreadable) = sealed::look_over(&shared).await?;
    problems.extend(unreadable);
    if version < schema::VERSION {
        problems.push(format!("the tables have version {version}, not {}", schema::VERSION));
    }
    let place = shared.driver.place();
    Ok(Report { place, schema: (version, schema::VERSION), conversations, sealed, bytes, problems })
}

/// What belongs to no conversation, by table.
const ORPHANS: [(&str, &str); 4] = [
    (
        "participants",
        "SELECT count(*) FROM participants WHERE conversation NOT IN (SELECT id FROM conversations)",
    ),
    ("records", "SELECT count(*) FROM records WHERE conversation NOT IN (SELECT id FROM conversations)"),
    ("open", "SELECT count(*) FROM open WHERE conversation NOT IN (SELECT id FROM conversations)"),
    ("stanzas", "SELECT count(*) FROM stanzas WHERE conversation NOT IN (SELECT id FROM conversations)"),
];

async fn count<C: Sql>(connection: &mut C, select: &'static str) -> Result<u64, Fault> {
    let rows = connection.rows(select, values![]).await?;
    Ok(rows.first().map_or(Ok(0), |row| row.int(0))?.unsigned_abs())
}
