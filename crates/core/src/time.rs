//! Time as the core sees it: an argument, in milliseconds.
//!
//! A [`Time`] counts from the Unix epoch, so that it can go into timestamps; whoever calls the core makes sure that
//! it never runs backwards (a monotonic clock added to the wall-clock time of the start).

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// As the wire's timestamps have it.
    pub fn as_millis(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// The time that has passed since `earlier`; nothing if that lies in the future.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
