//! Pieces of transcripts on their way to the room, in order, each with what is to be stored before it is sent.

use sotto_core::engine::event::Transcript;
use std::collections::{BTreeSet, VecDeque};

#[derive(Default)]
pub(super) struct Transcripts {
    waiting: VecDeque<(u64, Transcript)>,
    /// The segments of which the room has the beginning and not the end.
    open: BTreeSet<String>,
}

impl Transcripts {
    /// A piece that waits for all that is to be stored so far, which [`after`](Self::after) is to say.
    pub(super) fn push(&mut self, piece: Transcript) {
        self.waiting.push_back((u64::MAX, piece));
    }

    /// What has come since waits for so many things.
    pub(super) fn after(&mut self, asked: u64) {
        for (after, _) in &mut self.waiting {
            *after = asked.min(*after);
        }
    }

    /// Whether there is a piece that may go, once so many things are over.
    pub(super) fn is_due(&self, over: u64) -> bool {
        self.waiting.front().is_some_and(|(after, _)| *after <= over)
    }

    /// The next piece, for the room.
    pub(super) fn take(&mut self) -> Option<Transcript> {
        let (_, piece) = self.waiting.pop_front()?;
        match &piece {
            Transcript::Begin { segment } => _ = self.open.insert(segment.clone()),
            Transcript::Delta { .. } => {}
            Transcript::End { segment } => _ = self.open.remove(segment),
        }
        Some(piece)
    }

    /// Nobody goes on with them any more: what waits is forgotten, and what was begun ends where it is.
    pub(super) fn break_off(&mut self) {
        let ends = self.open.iter().map(|segment| (0, Transcript::End { segment: segment.clone() }));
        self.waiting = ends.collect();
    }
}
