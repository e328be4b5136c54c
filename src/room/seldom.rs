//! Warnings that strangers can cause: at most one a minute each, with how many there would have been.
//!
//! Else whoever sends packets as fast as it can would fill the log. Pure: the time is an argument.

use std::time::Duration;
use tokio::time::Instant;

const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// One kind of warning.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    warned: Option<Instant>,
    unsaid: u64,
}

impl Seldom {
    /// There is a reason to warn. If it is time to, gives how many there were since the last warning, this one included.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.warned.is_some_and(|warned| now < warned + BETWEEN_WARNINGS) {
            return None;
        }
        self.warned = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_reasons_gives_one_warning_a_minute() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.due(start), Some(1));
        let within_the_minute = (0..59).map(|second| start + Duration::from_secs(second));
        assert!(within_the_minute.map(|now| seldom.due(now)).all(|due| due.is_none()));
        assert_eq!(seldom.due(start + BETWEEN_WARNINGS), Some(60));
        assert_eq!(seldom.due(start + BETWEEN_WARNINGS), None);
    }
}
