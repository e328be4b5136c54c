//! How often pieces of a transcript are sent: word by word while few transcripts are being written in this process, several
//! words at a time while many are. A packet costs the same whether it carries one word or ten, here, on the server and in each
//! client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// So many pieces a second, of all transcripts together.
const PIECES_PER_SECOND: u32 = 500;
/// Nobody waits longer for the next one: slower than this no longer looks like writing.
const LONGEST: Duration = Duration::from_millis(250);

/// What all transcripts of a process share; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    writing: Arc<AtomicU32>,
}

impl Pace {
    /// One more is being written, until the share is dropped.
    pub(super) fn join(&self) -> Share {
        self.writing.fetch_add(1, Ordering::Relaxed);
        Share(self.clone())
    }
}

/// One transcript that is being written.
#[derive(Debug)]
pub(super) struct Share(Pace);

impl Share {
    /// The time between two of its pieces.
    pub(super) fn gap(&self) -> Duration {
        let gap = Duration::from_secs(1) / PIECES_PER_SECOND * self.0.writing.load(Ordering::Relaxed);
        gap.min(LONGEST)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_are_written_the_seldomer_each_goes_on() {
        let pace = Pace::default();
        let first = pace.join();
        assert_eq!(first.gap(), Duration::from_millis(2));
        let others: Vec<_> = (0..99).map(|_| pace.join()).collect();
        assert_eq!(first.gap(), Duration::from_millis(200));
        let more: Vec<_> = (0..900).map(|_| pace.join()).collect();
        assert_eq!(first.gap(), LONGEST);
        drop((others, more));
        assert_eq!(first.gap(), Duration::from_millis(2));
    }
}
