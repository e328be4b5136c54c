//! How often someone may do something.

use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A burst at once, then so many a second.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    burst: u32,
    per_second: u32,
    /// Thousandths of what may still be taken.
    left: u64,
    at: Time,
}

impl Rate {
    pub(super) fn new(burst: u32, per_second: u32, now: Time) -> Self {
        Self { burst, per_second, left: u64::from(burst) * 1_000, at: now }
    }

    /// Takes one if there is one.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let passed = (now - self.at).as_millis().min(u128::from(u32::MAX)) as u64;
        self.at = now;
        self.left = (self.left + passed * u64::from(self.per_second)).min(u64::from(self.burst) * 1_000);
        let some = self.left >= 1_000;
        if some {
            self.left -= 1_000;
        }
        some
    }
}

/// At most so many within any stretch of time of the given length.
#[derive(Clone, Debug)]
pub(super) struct Window {
    count: usize,
    length: Duration,
    recent: VecDeque<Time>,
}

impl Window {
    pub(super) fn new(count: usize, length: Duration) -> Self {
        Self { count, length, recent: VecDeque::new() }
    }

    pub(super) fn take(&mut self, now: Time) -> bool {
        while self.recent.front().is_some_and(|&first| now - first >= self.length) {
            self.recent.pop_front();
        }
        let some = self.recent.len() < self.count;
        if some {
            self.recent.push_back(now);
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut rate = Rate::new(3, 2, Time(0));
        let taken = |rate: &mut Rate, now| (0..10).filter(|_| rate.take(Time(now))).count();
        assert_eq!(taken(&mut rate, 0), 3);
        assert_eq!(taken(&mut rate, 499), 0);
        assert_eq!(taken(&mut rate, 500), 1);
        assert_eq!(taken(&mut rate, 60_000), 3, "what was not used is not saved beyond a burst");
    }

    #[test]
    fn a_window_never_holds_more_than_its_count() {
        let mut window = Window::new(5, Duration::from_secs(10));
        let passed: Vec<u64> =
            (0..40).map(|second| second * 500).filter(|&now| window.take(Time(now))).collect();
        assert_eq!(passed, [0, 500, 1_000, 1_500, 2_000, 10_000, 10_500, 11_000, 11_500, 12_000]);
    }
}
