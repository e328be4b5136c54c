//! A store that keeps its word in all that happens to it: transactions, a fence against whoever had the conversation
//! before, numbers reserved in blocks, what is durable and what is not. It fills up, goes away, forgets what is old and
//! loses its power.
//!
//! Each [`Fault`] but the first breaks its word in one way, to see that the simulation notices.

use crate::engine::people::Audience;
use crate::engine::record::{History, Page, Record, Stanza};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What is done wrong on purpose, in the store or in the shell around the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Whoever had the conversation before may still write.
    NoFence,
    /// A new agent goes on with the number after the last that is stored.
    NumbersReused,
    /// A new agent is not told of messages that are not answered.
    OpenForgotten,
    /// A new agent is not told which answer was under way.
    UnfinishedForgotten,
    /// A new agent is not told of tools that were begun.
    ToolsForgotten,
    /// Tools that a crash cut short are run again.
    ToolsRunAgain,
    /// Of what is stored together, a crash leaves a part.
    TornTransactions,
    /// What is durable is lost with the power too.
    DurableLost,
    /// What could not be stored is not tried again.
    NotTriedAgain,
    /// What was said to have failed is there after all.
    FailedButKept,
    /// What is read does not wait for what is to be stored before.
    ReadTooEarly,
    /// A stanza is left out of what is read.
    ReadWithGap,
    /// That something is no longer kept is not said.
    RetentionUnsaid,
    /// Everyone is a newcomer after a restart.
    FirstJoiningForgotten,
    /// The newest stanza of each audience is not remembered.
    ChainForgotten,
}

/// Why nothing was kept or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// For now.
    Unavailable,
    /// For good: another agent has the conversation.
    Lost,
}

struct Kept {
    record: Record,
    /// The last one of its transaction.
    last: bool,
    /// A stanza that is no longer given to anyone.
    dropped: bool,
}

#[derive(Default)]
pub(super) struct Store {
    log: Vec<Kept>,
    /// So many of them survive a loss of power.
    durable: usize,
    /// Who may write: goes up with each opening.
    pub(super) fence: u64,
    /// The newest stanza that is no longer given to anyone.
    pub(super) dropped: i32,
    /// Which stanzas were lost with the power.
    pub(super) lost: BTreeSet<i32>,
    pub(super) full_until: Time,
    pub(super) away_until: Time,
    pub(super) fault: Fault,
}

impl Store {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, ..Self::default() }
    }

    /// Takes the conversation for one agent alone, with numbers that nobody can have used.
    pub(super) fn open(&mut self, block: i32) -> (u64, History) {
        self.fence += 1;
        let mut number = self.reserved();
        if self.fault == Fault::NumbersReused {
            number = self.stanzas().map(|stanza| stanza.number).min().unwrap_or(0);
        }
        let history = self.history(number, number - block);
        self.log.push(Kept {
            record: Record::Reserved { number: number - block },
            last: true,
            dropped: false,
        });
        self.durable = self.log.len();
        (self.fence, history)
    }

    /// All of it or nothing.
    pub(super) fn append(&mut self, fence: u64, records: Vec<Record>, durable: bool) -> Result<(), Refused> {
        if fence != self.fence && self.fault != Fault::NoFence {
            return Err(Refused::Lost);
        }
        let count = records.len();
        for (place, record) in records.into_iter().enumerate() {
            self.log.push(Kept { record, last: place + 1 == count, dropped: false });
        }
        if durable {
            self.durable = self.log.len();
        }
        Ok(())
    }

    pub(super) fn read(&self, fence: u64, after: i32, until: i32, most: usize) -> Result<Page, Refused> {
        if fence != self.fence {
            return Err(Refused::Lost);
        }
        let there = self.log.iter().filter(|kept| !kept.dropped).filter_map(|kept| stanza(&kept.record));
        let mut stanzas: Vec<Stanza> =
            there.filter(|stanza| (until..after).contains(&stanza.number)).take(most).cloned().collect();
        if self.fault == Fault::ReadWithGap && stanzas.len() > 2 {
            stanzas.remove(1);
        }
        let incomplete = self.dropped < after && self.fault != Fault::RetentionUnsaid;
        Ok(Page { stanzas, incomplete })
    }

    /// The disk has had the time to take in what was written.
    pub(super) fn sync(&mut self) {
        self.durable = self.log.len();
    }

    /// What is not durable may be gone, the newest first, and never a part of a transaction.
    pub(super) fn lose_power(&mut self, mut how_much: impl FnMut(usize) -> usize) -> usize {
        let safe = if self.fault == Fault::DurableLost { 0 } else { self.durable };
        let mut left = safe + how_much(self.log.len() - safe);
        while left > safe && !self.log[left - 1].last {
            left -= 1;
        }
        let gone = self.log.split_off(left);
        self.lost.extend(gone.iter().filter_map(|kept| stanza(&kept.record)).map(|stanza| stanza.number));
        self.durable = left;
        gone.len()
    }

    /// Stanzas that are old are no longer given to anyone, but for those of an answer that is under way.
    pub(super) fn forget_but(&mut self, count: usize) {
        let since = History::unfinished_since(&self.records()).unwrap_or(i32::MIN);
        let mut stanzas: Vec<&mut Kept> =
            self.log.iter_mut().filter(|kept| stanza(&kept.record).is_some()).collect();
        let old = stanzas.len().saturating_sub(count);
        for kept in &mut stanzas[..old] {
            let number = stanza(&kept.record).map_or(0, |stanza| stanza.number);
            if number >= since {
                kept.dropped = true;
                self.dropped = self.dropped.min(number);
            }
        }
    }

    /// Everything but stanzas.
    pub(super) fn records(&self) -> Vec<Record> {
        let all = self.log.iter().map(|kept| &kept.record);
        all.filter(|record| !matches!(record, Record::Stanza(_) | Record::Reserved { .. })).cloned().collect()
    }

    /// All stanzas, also those that are no longer given to anyone.
    pub(super) fn stanzas(&self) -> impl DoubleEndedIterator<Item = &Stanza> {
        self.log.iter().filter_map(|kept| stanza(&kept.record))
    }

    pub(super) fn has(&self, number: i32) -> bool {
        self.stanzas().rev().any(|stanza| stanza.number == number)
    }

    fn reserved(&self) -> i32 {
        let reserved = self.log.iter().filter_map(|kept| match kept.record {
            Record::Reserved { number } => Some(number),
            _ => None,
        });
        reserved.min().unwrap_or(0)
    }

    fn history(&self, number: i32, reserved: i32) -> History {
        let mut last_kept: BTreeMap<Audience, i32> = BTreeMap::new();
        if self.fault != Fault::ChainForgotten {
            last_kept.extend(self.stanzas().map(|stanza| (stanza.audience.clone(), stanza.number)));
        }
        let mut records = self.records();
        let ended: BTreeSet<String> = records
            .iter()
            .filter_map(|record| match record {
                Record::Answer(answer) => answer.message.clone(),
                _ => None,
            })
            .collect();
        let fault = self.fault;
        records.retain(|record| match record {
            Record::Message(message) => fault != Fault::OpenForgotten || ended.contains(&message.id),
            Record::Joined(_) => fault != Fault::FirstJoiningForgotten,
            Record::ToolBegun(_) | Record::ToolEnded(_) => fault != Fault::ToolsForgotten,
            _ => true,
        });
        let since = History::unfinished_since(&records).filter(|_| fault != Fault::UnfinishedForgotten);
        let unfinished = self
            .stanzas()
            .filter(|stanza| since.is_some_and(|since| stanza.number < since))
            .cloned()
            .collect();
        History { number, reserved, last_kept: last_kept.into_iter().collect(), records, unfinished }
    }
}

fn stanza(record: &Record) -> Option<&Stanza> {
    match record {
        Record::Stanza(stanza) => Some(stanza),
        _ => None,
    }
}
