//! Keeps the newest records of each conversation in memory: for trying things out, and for tests.

use crate::ports::{Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use sotto_core::engine::record::Record;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Records kept per conversation; the oldest go first.
const MAX_RECORDS: usize = 1_000;
/// Bytes of stanzas kept per conversation.
const MAX_BYTES: usize = 256 << 10;

/// A store that forgets when the process ends.
#[derive(Debug, Default)]
pub struct Memory {
    conversations: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Record>,
    bytes: usize,
}

impl Memory {
    /// What is kept of a conversation, oldest first.
    pub fn records(&self, conversation: &str) -> Vec<Record> {
        let conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        conversations.get(conversation).map(|kept| kept.records.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Store for Memory {
    fn append(
        &self,
        conversation: &str,
        records: Vec<Record>,
        _durable: bool,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = conversations.entry(conversation.to_owned()).or_default();
        for record in records {
            kept.bytes += bytes(&record);
            kept.records.push_back(record);
        }
        while (kept.records.len() > MAX_RECORDS || kept.bytes > MAX_BYTES)
            && let Some(oldest) = kept.records.pop_front()
        {
            kept.bytes -= bytes(&oldest);
        }
        ready(Ok(())).boxed()
    }
}

fn bytes(record: &Record) -> usize {
    match record {
        Record::Stanza { bytes, .. } => bytes.len(),
        Record::Message { text, .. } | Record::Answer { text, .. } => text.len(),
        Record::Variation { text, .. } => text.as_ref().map_or(0, String::len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sotto_core::engine::people::Audience;

    fn stanza(number: i32, size: usize) -> Record {
        Record::Stanza { number, audience: Audience::Everyone, bytes: vec![0; size] }
    }

    #[tokio::test]
    async fn keeps_the_newest_and_no_more_than_its_share() {
        let store = Memory::default();
        for number in 1..=3_000 {
            store.append("room", vec![stanza(-number, 10)], false).await.expect("memory takes everything");
        }
        let records = store.records("room");
        assert_eq!(records.len(), MAX_RECORDS);
        assert_eq!(records.last(), Some(&stanza(-3_000, 10)));
        store.append("room", vec![stanza(-3_001, MAX_BYTES)], false).await.expect("memory takes everything");
        assert_eq!(store.records("room").len(), 1);
        assert!(store.records("another").is_empty());
    }
}
