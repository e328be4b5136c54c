//! Which RTP packets have been seen: finds duplicates and counts losses.

/// How far back a duplicate is recognised.
const WINDOW: u64 = 128;

/// A jump further than this is a new start rather than a loss.
const MAX_JUMP: u64 = 3_000;

/// What an extended sequence number turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Seen for the first time.
    New,
    /// Seen before.
    Duplicate,
    /// So far behind that nobody remembers.
    TooOld,
}

/// A sliding window over extended sequence numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceWindow {
    highest: Option<u64>,
    /// Bit *n* stands for `highest - n`.
    seen: u128,
    received: u64,
    expected: u64,
}

impl SequenceWindow {
    /// Notes a packet.
    pub(crate) fn note(&mut self, sequence: u64) -> Arrival {
        let Some(highest) = self.highest else {
            self.start_at(sequence);
            return Arrival::New;
        };
        if sequence > highest {
            let ahead = sequence - highest;
            if ahead > MAX_JUMP {
                self.start_at(sequence);
                return Arrival::New;
            }
            self.seen = if ahead < WINDOW { self.seen << ahead } else { 0 };
            self.seen |= 1;
            self.highest = Some(sequence);
            self.expected += ahead;
            self.received += 1;
            return Arrival::New;
        }
        let behind = highest - sequence;
        if behind > MAX_JUMP {
            self.start_at(sequence);
            return Arrival::New;
        }
        if behind >= WINDOW {
            return Arrival::TooOld;
        }
        if self.seen >> behind & 1 == 1 {
            return Arrival::Duplicate;
        }
        self.seen |= 1 << behind;
        self.received += 1;
        Arrival::New
    }

    /// Packets that were expected and have not come; goes down when one comes after all.
    pub(crate) fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Forgets where the sequence was; the count of losses stays.
    pub(crate) fn restart(&mut self) {
        self.highest = None;
    }

    fn start_at(&mut self, sequence: u64) {
        self.highest = Some(sequence);
        self.seen = 1;
        self.expected += 1;
        self.received += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_duplicates_and_late_arrivals() {
        let mut window = SequenceWindow::default();
        for sequence in [10, 11, 14] {
            assert_eq!(window.note(sequence), Arrival::New);
        }
        assert_eq!(window.lost(), 2);
        assert_eq!(window.note(11), Arrival::Duplicate);
        assert_eq!(window.note(12), Arrival::New);
        assert_eq!(window.lost(), 1);
        assert_eq!(window.note(300), Arrival::New);
        assert_eq!(window.note(14), Arrival::TooOld);
    }

    #[test]
    fn a_big_jump_or_a_restart_is_no_loss() {
        let mut window = SequenceWindow::default();
        window.note(5);
        window.note(u64::MAX);
        window.note(7);
        window.restart();
        window.note(1_000);
        assert_eq!(window.lost(), 0);
    }
}
