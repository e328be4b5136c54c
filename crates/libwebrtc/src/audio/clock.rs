//! Steady 10 ms ticks, and how many samples 10 ms are at a given rate.
//!
//! Neither reads a clock: the caller says what time it is.

use std::time::{Duration, Instant};

/// The length of one tick.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// More ticks than this at once (200 ms) means that the machine or the task stood still.
const MAX_BURST: u64 = 20;

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DueTicks {
    /// Ticks to run now.
    pub(crate) run: u32,
    /// Ticks that are given up, lying before those to run.
    pub(crate) skipped: u64,
}

/// Ticks every 10 ms from a start, without drift: tick *n* is due at start + *n* × 10 ms, however
/// late the ones before it ran.
///
/// After a stall of more than 200 ms (a suspended machine) the missed ticks are skipped, but for
/// one: playing them all at once would help nobody.
#[derive(Debug, Clone)]
pub(crate) struct TickClock {
    start: Instant,
    /// Ticks that were run or skipped.
    done: u64,
}

impl TickClock {
    /// A clock whose first tick is due at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, done: 0 }
    }

    /// How many ticks to run now; each tick is reported once.
    pub(crate) fn due(&mut self, now: Instant) -> DueTicks {
        let Some(elapsed) = now.checked_duration_since(self.start) else { return DueTicks::default() };
        let reached = (elapsed.as_nanos() / TICK.as_nanos()) as u64 + 1;
        let pending = reached.saturating_sub(self.done);
        self.done += pending;
        if pending > MAX_BURST {
            DueTicks { run: 1, skipped: pending - 1 }
        } else {
            DueTicks { run: pending as u32, skipped: 0 }
        }
    }

    /// When the next tick is due.
    pub(crate) fn next(&self) -> Instant {
        self.start + Duration::from_millis(self.done * 10)
    }
}

/// The lengths of successive 10 ms blocks at a rate, exact in the long run: 110, 110, 110, 111, …
/// at 11 025 Hz.
#[derive(Debug, Clone)]
pub(crate) struct BlockSizes {
    rate: u32,
    /// Hundredths of a sample owed to the blocks to come.
    owed: u32,
}

impl BlockSizes {
    /// Blocks of a stream of `rate` samples per second.
    pub(crate) fn new(rate: u32) -> Self {
        Self { rate, owed: 0 }
    }

    /// Samples per channel of the next block.
    pub(crate) fn peek(&self) -> usize {
        ((self.rate + self.owed) / 100) as usize
    }

    /// Goes on to the next block and says how long the finished one was.
    pub(crate) fn advance(&mut self) -> usize {
        let size = self.peek();
        self.owed = (self.rate + self.owed) % 100;
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_jittery_wake_ups_has_exactly_360_000_ticks() {
        let start = Instant::now();
        let mut clock = TickClock::new(start);
        let mut now = Duration::ZERO;
        let (mut ticks, mut random) = (0_u64, 1_u64);
        let hour = Duration::from_hours(1);
        while now < hour {
            let due = clock.due(start + now);
            assert_eq!(due.skipped, 0);
            ticks += u64::from(due.run);
            assert!(clock.next() > start + now, "what was due has been run");
            // Wakes up to 60 ms too late.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lateness = Duration::from_micros((random >> 33) % 60_000);
            now = (clock.next().duration_since(start) + lateness).min(hour);
        }
        let last_moment = Duration::from_nanos(3_600_000_000_000 - 1);
        ticks += u64::from(clock.due(start + last_moment).run);
        assert_eq!(ticks, 360_000);
    }

    #[test]
    fn nothing_is_due_before_the_start_or_twice() {
        let start = Instant::now() + Duration::from_secs(1);
        let mut clock = TickClock::new(start);
        assert_eq!(clock.due(start.checked_sub(TICK).unwrap()), DueTicks::default());
        assert_eq!(clock.due(start).run, 1);
        assert_eq!(clock.due(start).run, 0);
        assert_eq!(clock.next(), start + TICK);
    }

    #[test]
    fn a_long_stall_is_skipped_and_the_grid_kept() {
        let start = Instant::now();
        let mut clock = TickClock::new(start);
        assert_eq!(clock.due(start).run, 1);
        let resumed = start + Duration::from_millis(60_005);
        assert_eq!(clock.due(resumed), DueTicks { run: 1, skipped: 5_999 });
        assert_eq!(clock.next(), start + Duration::from_millis(60_010));
        // A short one is caught up with.
        assert_eq!(clock.due(start + Duration::from_millis(60_200)), DueTicks { run: 20, skipped: 0 });
    }

    #[test]
    fn block_sizes_add_up_to_the_rate() {
        for rate in [8_000, 11_025, 22_050, 44_100, 48_000, 7_999] {
            let mut sizes = BlockSizes::new(rate);
            let total: usize = (0..100)
                .map(|_| {
                    let peeked = sizes.peek();
                    assert_eq!(peeked, sizes.advance());
                    assert!(peeked.abs_diff(rate as usize / 100) <= 1);
                    peeked
                })
                .sum();
            assert_eq!(total, rate as usize);
        }
    }
}
