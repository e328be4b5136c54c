//! A store as simple as can be: what is put on it stays, in order, and survives the engine.

use super::sotto_core::engine::record::{History, Page, Record, Stanza};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Shelf {
    records: Vec<Record>,
    pub(super) stanzas: Vec<Stanza>,
    /// Numbers down to this one were reserved.
    reserved: i32,
    /// The newest stanza that is no longer there.
    dropped: i32,
}

impl Shelf {
    pub(super) fn put(&mut self, record: Record) {
        match record {
            Record::Stanza(stanza) => {
                let known = self.stanzas.iter().find(|known| known.number == stanza.number);
                assert!(known.is_none_or(|known| *known == stanza), "no number twice: {}", stanza.number);
                self.stanzas.push(stanza);
            }
            Record::Reserved { number } => self.reserved = self.reserved.min(number),
            record => self.records.push(record),
        }
    }

    /// Throws away all but the newest stanzas.
    pub(super) fn keep_only(&mut self, count: usize) {
        let gone = self.stanzas.len().saturating_sub(count);
        self.dropped = self.stanzas.drain(..gone).map(|stanza| stanza.number).min().unwrap_or(self.dropped);
    }

    /// What an engine is told that takes the conversation up; it gets numbers that nobody can have used.
    pub(super) fn history(&mut self) -> History {
        let mut last_kept = BTreeMap::new();
        for stanza in &self.stanzas {
            last_kept.insert(stanza.audience.clone(), stanza.number);
        }
        let number = self.reserved;
        self.reserved -= 1_024;
        let since = History::unfinished_since(&self.records);
        let unfinished =
            self.stanzas.iter().filter(|stanza| since.is_some_and(|since| stanza.number < since));
        History {
            number,
            reserved: self.reserved,
            last_kept: last_kept.into_iter().collect(),
            records: self.records.clone(),
            unfinished: unfinished.cloned().collect(),
        }
    }

    pub(super) fn page(&self, after: i32, until: i32, most: usize) -> Page {
        let asked = |stanza: &&Stanza| (until..after).contains(&stanza.number);
        let stanzas = self.stanzas.iter().filter(asked).take(most).cloned().collect();
        Page { stanzas, incomplete: self.dropped < after }
    }
}
