//! How regularly packets arrive, and so how long to wait for them.
//!
//! Each packet's *transit* is its arrival minus its RTP time, up to a constant that nobody knows.
//! The quickest transit of the last seconds is taken as the network's own delay; what others took
//! longer is jitter, and the target delay has to cover it. Looking back only some seconds makes
//! clock drift and a changed route harmless.

use super::codec::RTP_RATE;
use std::time::{Duration, Instant};

/// The target delay never leaves these bounds.
pub(crate) const MIN_TARGET: Duration = Duration::from_millis(40);
/// See [`MIN_TARGET`].
pub(crate) const MAX_TARGET: Duration = Duration::from_millis(200);

/// Covers the grain of packets and pulls.
const MARGIN: Duration = Duration::from_millis(20);

/// Two of these are remembered.
const PERIOD: Duration = Duration::from_millis(2_500);

/// Measures transit and says how long to delay playing.
#[derive(Debug, Clone, Default)]
pub(crate) struct DelayTracker {
    /// Time zero of all transits.
    epoch: Option<Instant>,
    current: Option<Period>,
    previous: Option<Period>,
}

/// The range of transits in some seconds, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Period {
    start: Instant,
    quickest: i64,
    slowest: i64,
}

impl DelayTracker {
    /// Notes that the packet of RTP time `time` (extended) arrived.
    pub(crate) fn observe(&mut self, arrival: Instant, time: i64) {
        let epoch = *self.epoch.get_or_insert(arrival);
        let transit = microseconds_between(epoch, arrival) - microseconds_of(time);
        let fresh = Period { start: arrival, quickest: transit, slowest: transit };
        match &mut self.current {
            Some(period) if arrival < period.start + PERIOD => {
                period.quickest = period.quickest.min(transit);
                period.slowest = period.slowest.max(transit);
            }
            outdated => {
                self.previous = outdated.take().filter(|period| arrival < period.start + 2 * PERIOD);
                self.current = Some(fresh);
            }
        }
    }

    /// How long after its quickest possible arrival a packet should be played.
    pub(crate) fn target(&self) -> Duration {
        (self.jitter() + MARGIN).clamp(MIN_TARGET, MAX_TARGET)
    }

    /// How long after its quickest possible arrival audio of RTP time `time` would be played `at`
    /// this moment, in microseconds; none before the first packet.
    pub(crate) fn delay_of(&self, time: i64, at: Instant) -> Option<i64> {
        let quickest = self.periods().map(|period| period.quickest).min()?;
        Some(microseconds_between(self.epoch?, at) - microseconds_of(time) - quickest)
    }

    fn jitter(&self) -> Duration {
        let quickest = self.periods().map(|period| period.quickest).min();
        let slowest = self.periods().map(|period| period.slowest).max();
        Duration::from_micros(slowest.zip(quickest).map_or(0, |(slowest, quickest)| slowest - quickest) as u64)
    }

    fn periods(&self) -> impl Iterator<Item = &Period> {
        self.current.iter().chain(&self.previous)
    }
}

fn microseconds_between(earlier: Instant, later: Instant) -> i64 {
    match later.checked_duration_since(earlier) {
        Some(duration) => duration.as_micros() as i64,
        None => -(earlier.duration_since(later).as_micros() as i64),
    }
}

fn microseconds_of(time: i64) -> i64 {
    time * 1_000 / i64::from(RTP_RATE / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 48;

    fn after(epoch: Instant, ms: i64) -> Instant {
        epoch + Duration::from_millis(ms as u64)
    }

    #[test]
    fn the_target_covers_the_jitter_within_its_bounds() {
        let epoch = Instant::now();
        for (jitter, target) in [(0, 40), (30, 50), (100, 120), (900, 200)] {
            let mut tracker = DelayTracker::default();
            for packet in 0..200 {
                let late = if packet % 7 == 3 { jitter } else { 0 };
                tracker.observe(after(epoch, packet * 20 + late), packet * 20 * MS);
            }
            assert_eq!(tracker.target(), Duration::from_millis(target), "{jitter} ms");
        }
    }

    #[test]
    fn one_slow_packet_is_forgotten() {
        let epoch = Instant::now();
        let mut tracker = DelayTracker::default();
        for packet in 0..500 {
            let late = if packet == 10 { 150 } else { 0 };
            tracker.observe(after(epoch, packet * 20 + late), packet * 20 * MS);
            if packet == 11 {
                assert!(tracker.target() > Duration::from_millis(150));
            }
        }
        assert_eq!(tracker.target(), MIN_TARGET);
    }

    #[test]
    fn the_delay_counts_from_the_quickest_packet() {
        let epoch = Instant::now();
        let mut tracker = DelayTracker::default();
        assert_eq!(tracker.delay_of(0, epoch), None);
        tracker.observe(after(epoch, 30), 0);
        tracker.observe(after(epoch, 25), 20 * MS);
        // The second took 25 ms less than the first: the first would have come at 5 ms.
        assert_eq!(tracker.delay_of(0, after(epoch, 45)), Some(40_000));
        assert_eq!(tracker.delay_of(60 * MS, after(epoch, 45)), Some(-20_000));
    }

    #[test]
    fn a_new_route_is_learned() {
        let epoch = Instant::now();
        let mut tracker = DelayTracker::default();
        for packet in 0..1_000 {
            let route = if packet < 500 { 0 } else { 300 };
            tracker.observe(after(epoch, packet * 20 + route), packet * 20 * MS);
        }
        assert_eq!(tracker.delay_of(1_000 * 20 * MS, after(epoch, 20_340)), Some(40_000));
        assert_eq!(tracker.target(), MIN_TARGET);
    }
}
