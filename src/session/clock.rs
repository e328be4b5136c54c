//! The engine's time: the wall clock of the start plus a clock that never runs backwards.

use sotto_core::time::Time;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    wall: Time,
}

impl Clock {
    pub(super) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), wall: Time::default() + wall }
    }

    pub(super) fn now(&self) -> Time {
        self.wall + self.start.elapsed()
    }

    /// The instant from which on [`now`](Self::now) says at least `time`.
    pub(super) fn instant(&self, time: Time) -> Instant {
        self.start + (time - self.wall) + Duration::from_millis(1)
    }
}
