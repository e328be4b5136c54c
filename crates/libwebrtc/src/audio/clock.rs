//! Steady 10 ms ticks, and how many samples 10 ms are at a given rate.
//!
//! Neither reads a clock: the caller says what time it is.

use std::time::{Duration, Instant};

/// The length of one tick.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Further behind than this many ticks (200 ms) means that the machine or the task stood still.
const MAX_BEHIND: u64 = 20;

/// Who is behind runs at least this many ticks at a time, and a third of those that are due, …
const CATCH_UP_TICKS: u64 = 2;
/// … and lets others have their turn for this long in between.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(5);

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
/// After a stall the missed ticks are caught up with step by step, not all at once: what they need has
/// stood still too (packets still in a socket, an application that could not push) and comes in the
/// meantime. After a stall of more than 200 ms (a suspended machine) they are
/// skipped, but for one: nobody wants to hear them any more.
#[derive(Debug, Clone)]
pub(crate) struct TickClock {
    start: Instant,
    /// Ticks that were run or skipped.
    done: u64,
    /// Before this moment nothing more is caught up with.
    pausing_until: Instant,
}

impl TickClock {
    /// A clock whose first tick is due at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, done: 0, pausing_until: start }
    }

    /// How many ticks to run now; each tick is reported once.
    pub(crate) fn due(&mut self, now: Instant) -> DueTicks {
        if now < self.pausing_until {
            return DueTicks::default();
        }
        let pending = self.pending(now);
        if pending > MAX_BEHIND {
            return self.due_without_arrears(now);
        }
        let run = pending.div_ceil(3).max(CATCH_UP_TICKS).min(pending);
        self.done += run;
        self.pausing_until = now + CATCH_UP_PAUSE;
        DueTicks { run: run as u32, skipped: 0 }
    }

    /// The same where nobody wants what was missed: all but the newest tick are skipped.
    pub(crate) fn due_without_arrears(&mut self, now: Instant) -> DueTicks {
        let pending = self.pending(now);
        self.done += pending;
        DueTicks { run: pending.min(1) as u32, skipped: pending.saturating_sub(1) }
    }

    /// When to ask again.
    pub(crate) fn next(&self) -> Instant {
        (self.start + Duration::from_millis(self.done * 10)).max(self.pausing_until)
    }

    /// Ticks whose time has come.
    fn pending(&self, now: Instant) -> u64 {
        let Some(elapsed) = now.checked_duration_since(self.start) else { return 0 };
        let reached = (elapsed.as_nanos() / TICK.as_nanos()) as u64 + 1;
        reached.saturating_sub(self.done)
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
    fn an_hour_of_jittery_wake_ups_has_all_its_ticks() {
        let start = Instant::now();
        let mut clock = TickClock::new(start);
        let mut now = Duration::ZERO;
        let (mut ticks, mut random) = (0_u64, 1_u64);
        let hour = Duration::from_hours(1);
        while now < hour {
            let due = clock.due(start + now);
            assert_eq!(due.skipped, 0);
            ticks += u64::from(due.run);
            assert!(clock.next() > start + now, "there is nothing more to do now");
            // Wakes up to 60 ms too late.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lateness = Duration::from_micros((random >> 33) % 60_000);
            now = clock.next().duration_since(start) + lateness;
        }
        // The last moment of the hour may have been overslept by some ticks, or not yet caught up with.
        assert!(ticks.abs_diff(360_000) <= MAX_BEHIND, "{ticks}");
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
    }

    #[test]
    fn a_short_stall_is_caught_up_with_in_small_steps() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut clock = TickClock::new(start);
        assert_eq!(clock.due(start).run, 1);
        // Ticks 1 to 9 were missed.
        let mut caught_up = Vec::new();
        let mut now = at(91);
        while clock.next() != at(120) {
            let due = clock.due(now);
            assert_eq!(due.skipped, 0);
            caught_up.push((now.duration_since(start).as_millis(), due.run));
            assert_eq!(clock.due(now).run, 0, "others first");
            now = clock.next();
        }
        assert_eq!(caught_up, [(91, 3), (96, 2), (101, 2), (106, 2), (111, 2)]);
    }

    #[test]
    fn arrears_that_nobody_wants_are_skipped_at_once() {
        let start = Instant::now();
        let mut clock = TickClock::new(start);
        assert_eq!(clock.due(start).run, 1);
        let resumed = start + Duration::from_millis(55);
        assert_eq!(clock.due_without_arrears(resumed), DueTicks { run: 1, skipped: 4 });
        assert_eq!(clock.due_without_arrears(resumed), DueTicks::default());
        assert_eq!(clock.next(), start + Duration::from_millis(60));
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
