//! Keeps the newest of each conversation in memory: for trying things out, and for tests.

use super::archive::{Archive, Deleted, Entry, Report, Summary};
use super::history::{BLOCK, PAGE_BYTES};
use super::rekey::Rekeyed;
use crate::ports::{Journal, Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{Answer, History, Page, Record, Stanza, Stopped};
use sotto_core::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records kept per conversation beside what has not ended, and stanzas; the oldest go first.
const MAX_RECORDS: usize = 1_000;
/// Bytes kept per conversation, of each of the two.
const MAX_BYTES: usize = 256 << 10;

/// A store that forgets when the process ends.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    conversations: Arc<Mutex<BTreeMap<String, Kept>>>,
}

#[derive(Debug, Default)]
struct Kept {
    held: bool,
    created: Time,
    updated: Time,
    reserved: i32,
    /// The last record's place in the order.
    seq: u64,
    joined: Vec<Placed>,
    facts: VecDeque<Placed>,
    fact_bytes: usize,
    /// What has not ended, each with its message.
    open: Vec<(u64, String)>,
    stanzas: VecDeque<Placed>,
    stanza_bytes: usize,
    newest: BTreeMap<Audience, i32>,
    /// The newest number of a stanza that is no longer kept.
    dropped: i32,
}

/// A record and its place in the order: a stanza has that of the record before it.
#[derive(Clone, Debug)]
struct Placed {
    seq: u64,
    size: usize,
    at: Time,
    record: Record,
}

impl Memory {
    fn conversations(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn open(&self, conversation: &str) -> BoxFuture<'static, Result<Box<dyn Journal>, StoreError>> {
        let mut conversations = self.conversations();
        let now = now();
        let fresh = || Kept { created: now, updated: now, ..Kept::default() };
        let kept = conversations.entry(conversation.to_owned()).or_insert_with(fresh);
        if std::mem::replace(&mut kept.held, true) {
            let held = "the conversation is held by this process already".to_owned();
            return ready(Err(StoreError::Held(held))).boxed();
        }
        let owned = Owned { memory: self.clone(), name: conversation.to_owned() };
        ready(Ok(Box::new(owned) as Box<dyn Journal>)).boxed()
    }
}

fn now() -> Time {
    Time(super::database::now().unsigned_abs())
}

/// A conversation that is somebody's.
#[derive(Debug)]
struct Owned {
    memory: Memory,
    name: String,
}

impl Owned {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Kept) -> Result<T, StoreError>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let mut conversations = self.memory.conversations();
        // What somebody has is never deleted.
        let result = conversations.get_mut(&self.name).map_or(Err(StoreError::Lost), work);
        ready(result).boxed()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(kept) = self.memory.conversations().get_mut(&self.name) {
            kept.held = false;
        }
    }
}

impl Journal for Owned {
    fn history(&self) -> BoxFuture<'static, Result<History, StoreError>> {
        self.with(Kept::history)
    }

    fn append(&self, records: Vec<Record>, _durable: bool) -> BoxFuture<'static, Result<(), StoreError>> {
        self.with(|kept| {
            kept.updated = now();
            for record in records {
                kept.add(record);
            }
            kept.shrink();
            Ok(())
        })
    }

    fn stanzas(&self, after: i32, until: i32, most: usize) -> BoxFuture<'static, Result<Page, StoreError>> {
        self.with(|kept| {
            let mut bytes = 0;
            let fits = |stanza: &&Stanza| {
                let fits = bytes < PAGE_BYTES;
                bytes += stanza.bytes.len();
                fits
            };
            let wanted = kept.stanzas().filter(|stanza| (until..after).contains(&stanza.number));
            let stanzas = wanted.take(most).take_while(fits).cloned().collect();
            Ok(Page { stanzas, incomplete: kept.dropped < after.min(0) })
        })
    }
}

impl Kept {
    fn history(&mut self) -> Result<History, StoreError> {
        let number = self.reserved;
        let block = BLOCK as i32;
        self.reserved = number.checked_sub(block).ok_or_else(|| {
            StoreError::Broken("the conversation has used up all its numbers; delete it".to_owned())
        })?;
        let mut records: Vec<_> = self.joined.iter().chain(&self.facts).collect();
        records.sort_by_key(|placed| placed.seq);
        let records: Vec<_> = records.into_iter().map(|placed| placed.record.clone()).collect();
        let unfinished = History::unfinished_since(&records)
            .map(|since| self.stanzas().filter(|stanza| stanza.number < since).cloned().collect());
        Ok(History {
            number,
            reserved: self.reserved,
            last_kept: self.newest.iter().map(|(audience, number)| (audience.clone(), *number)).collect(),
            unfinished: unfinished.unwrap_or_default(),
            records,
        })
    }

    fn stanzas(&self) -> impl DoubleEndedIterator<Item = &Stanza> {
        self.stanzas.iter().filter_map(|placed| match &placed.record {
            Record::Stanza(stanza) => Some(stanza),
            _ => None,
        })
    }

    fn add(&mut self, record: Record) {
        match &record {
            Record::Reserved { number } => self.reserved = self.reserved.min(*number),
            Record::Stanza(stanza) => self.add_stanza(stanza.clone()),
            Record::Joined(joined) => {
                let knows = |placed: &Placed| matches!(&placed.record, Record::Joined(known) if known.identity == joined.identity);
                if !self.joined.iter().any(knows) {
                    let placed = self.placed(record);
                    self.joined.push(placed);
                }
            }
            Record::Message(message) => {
                let knows = |placed: &Placed| matches!(&placed.record, Record::Message(known) if known.id == message.id);
                if !self.facts.iter().any(knows) {
                    let id = message.id.clone();
                    self.add_fact(record);
                    self.open.push((self.seq, id));
                }
            }
            Record::Variation(variation) => {
                let message = self.message_of(&variation.target);
                self.add_fact(record);
                self.open.push((self.seq, message));
            }
            Record::Answer(Answer { message, .. }) => {
                let ended = self.open.iter().position(|(_, open)| Some(open) == message.as_ref());
                if let Some(index) = ended {
                    self.open.remove(index);
                }
                self.add_fact(record);
            }
            _ => self.add_fact(record),
        }
    }

    fn placed(&mut self, record: Record) -> Placed {
        self.seq += 1;
        Placed { seq: self.seq, size: record.to_bytes().len(), at: now(), record }
    }

    fn add_fact(&mut self, record: Record) {
        let placed = self.placed(record);
        self.fact_bytes += placed.size;
        self.facts.push_back(placed);
    }

    fn add_stanza(&mut self, stanza: Stanza) {
        // Numbers go down: only one that does not may be known.
        let is_next = self.stanzas().next_back().is_none_or(|last| stanza.number < last.number);
        if !is_next && self.stanzas().any(|known| known.number == stanza.number) {
            return;
        }
        let newest = self.newest.entry(stanza.audience.clone()).or_insert(stanza.number);
        *newest = stanza.number.min(*newest);
        let size = stanza.bytes.len();
        self.stanza_bytes += size;
        self.stanzas.push_back(Placed { seq: self.seq, size, at: now(), record: Record::Stanza(stanza) });
    }

    /// The message that `target` is an answer to, or `target` itself.
    fn message_of(&self, target: &str) -> String {
        let found = self.facts.iter().find_map(|placed| match &placed.record {
            Record::Begun(begun) if begun.answer == target => Some(begun.message.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| target.to_owned())
    }

    /// Forgets the oldest, but nothing since the oldest that has not ended.
    fn shrink(&mut self) {
        let oldest_open = self.open.iter().map(|(seq, _)| *seq).min().unwrap_or(u64::MAX);
        if self.facts.len() > MAX_RECORDS || self.fact_bytes > MAX_BYTES {
            // Stops go first, but for those of what was still to come: they have done all that they do, and anyone may send any
            // number.
            let is_done = |stopped: &Stopped, seq| stopped.coming.is_empty() || seq < oldest_open;
            self.facts.retain(|fact| !matches!(&fact.record, Record::Stopped(it) if is_done(it, fact.seq)));
            self.fact_bytes = self.facts.iter().map(|fact| fact.size).sum();
        }
        while (self.facts.len() > MAX_RECORDS || self.fact_bytes > MAX_BYTES)
            && let Some(oldest) = self.facts.pop_front_if(|oldest| oldest.seq < oldest_open)
        {
            self.fact_bytes -= oldest.size;
        }
        while (self.stanzas.len() > MAX_RECORDS || self.stanza_bytes > MAX_BYTES)
            && let Some(oldest) = self.stanzas.pop_front()
        {
            self.stanza_bytes -= oldest.size;
            if let Record::Stanza(stanza) = oldest.record {
                self.dropped = self.dropped.min(stanza.number);
            }
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let mut all: Vec<_> = self.joined.iter().chain(&self.facts).chain(&self.stanzas).cloned().collect();
        // Stable, so that stanzas come after the record that they follow.
        all.sort_by_key(|placed| placed.seq);
        all.into_iter().map(|placed| Entry { at: placed.at, record: placed.record, sealed: None }).collect()
    }

    fn summary(&self, name: &str) -> Summary {
        let is_message = |placed: &&Placed| matches!(placed.record, Record::Message(_));
        Summary {
            name: name.to_owned(),
            created: self.created,
            updated: self.updated,
            participants: self.joined.len() as u64,
            messages: self.facts.iter().filter(is_message).count() as u64,
            records: self.facts.len() as u64,
            stanzas: self.stanzas.len() as u64,
            open: self.open.len() as u64,
        }
    }
}

impl Archive for Memory {
    fn conversations(&self) -> BoxStream<'static, Result<Summary, StoreError>> {
        let summaries: Vec<_> =
            Memory::conversations(self).iter().map(|(name, kept)| Ok(kept.summary(name))).collect();
        stream::iter(summaries).boxed()
    }

    fn entries(&self, conversation: &str) -> BoxStream<'static, Result<Entry, StoreError>> {
        let entries = Memory::conversations(self).get(conversation).map(Kept::entries).unwrap_or_default();
        stream::iter(entries.into_iter().map(Ok)).boxed()
    }

    fn delete(&self, conversation: &str) -> BoxFuture<'static, Result<Deleted, StoreError>> {
        let mut conversations = Memory::conversations(self);
        let result = match conversations.get(conversation) {
            None => Ok(Deleted::Nothing),
            Some(kept) if kept.held => {
                Err(StoreError::Held("the conversation is held by this process already".to_owned()))
            }
            Some(_) => {
                conversations.remove(conversation);
                Ok(Deleted::FromDisk)
            }
        };
        ready(result).boxed()
    }

    fn check(&self) -> BoxFuture<'static, Result<Report, StoreError>> {
        let conversations = Memory::conversations(self);
        let bytes = conversations.values().map(|kept| kept.fact_bytes + kept.stanza_bytes).sum::<usize>();
        let report = Report {
            place: "the memory of this process".to_owned(),
            conversations: conversations.len() as u64,
            bytes: bytes as u64,
            ..Report::default()
        };
        ready(Ok(report)).boxed()
    }

    /// There is nothing at rest that could be sealed.
    fn rekey(&self) -> BoxFuture<'static, Result<Rekeyed, StoreError>> {
        ready(Ok(Rekeyed::default())).boxed()
    }

    fn tidy(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}
