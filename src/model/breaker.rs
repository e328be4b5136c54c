//! Whether an endpoint is worth asking before the others: one that failed several answers in a row rests for a while.
//!
//! Without that, everybody would wait for all the attempts at an endpoint that is down before the next one is asked. When
//! the rest is over, one answer tries it; the others go on elsewhere until that one has succeeded. Pure: the time is an
//! argument.

use std::time::Duration;
use tokio::time::Instant;

/// So many answers in a row fail before an endpoint rests.
const FAILURES: u32 = 3;
/// How long it rests, and how long another answer has to wait for its try after one that failed.
const REST: Duration = Duration::from_secs(60);

/// The record of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    rests_until: Option<Instant>,
}

/// How an endpoint is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// As always.
    Good,
    /// In its turn, but once: it may be back.
    OnTrial,
    /// When nobody else is left.
    Resting,
}

impl Breaker {
    /// How the endpoint is to be asked for an answer that begins now. On trial is one answer at a time.
    pub(super) fn standing(&mut self, now: Instant) -> Standing {
        match self.rests_until {
            None => Standing::Good,
            Some(until) if now < until => Standing::Resting,
            Some(_) => {
                // Also where this answer is given up before anybody knows: then another one tries.
                self.rests_until = Some(now + REST);
                Standing::OnTrial
            }
        }
    }

    /// It failed an answer. True if it rests from now on.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        let begins = self.failures >= FAILURES && self.rests_until.is_none();
        if begins {
            self.rests_until = Some(now + REST);
        }
        begins
    }

    /// It answers. True if nobody would have thought so.
    pub(super) fn answered(&mut self) -> bool {
        let rested = self.rests_until.is_some();
        *self = Self::default();
        rested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert!(!breaker.failed(now));
            assert_eq!(breaker.standing(now), Standing::Good);
        }
        assert!(breaker.failed(now), "once too often");
        breaker
    }

    #[test]
    fn failures_in_a_row_lead_to_a_rest_and_others_do_not() {
        let now = Instant::now();
        assert_eq!(down(now).standing(now), Standing::Resting);
        let mut breaker = Breaker::default();
        for _ in 0..3 * FAILURES {
            assert!(!breaker.failed(now));
            assert!(!breaker.answered());
        }
        assert_eq!(breaker.standing(now), Standing::Good);
    }

    #[test]
    fn after_the_rest_one_answer_at_a_time_tries() {
        let now = Instant::now();
        let mut breaker = down(now);
        assert_eq!(breaker.standing(now + REST - Duration::from_nanos(1)), Standing::Resting);
        let later = now + REST;
        assert_eq!(breaker.standing(later), Standing::OnTrial);
        assert_eq!(breaker.standing(later), Standing::Resting, "somebody is trying");
        assert!(!breaker.failed(later), "it rests already");
        assert_eq!(breaker.standing(later + REST / 2), Standing::Resting);
        assert_eq!(breaker.standing(later + REST), Standing::OnTrial);
    }

    #[test]
    fn an_answer_puts_everything_right() {
        let now = Instant::now();
        let mut breaker = down(now);
        assert!(breaker.answered());
        assert_eq!(breaker.standing(now), Standing::Good);
        assert!(!breaker.failed(now), "it counts from the beginning");
    }

    #[test]
    fn failures_of_answers_that_had_begun_before_do_not_make_the_rest_longer() {
        let now = Instant::now();
        let mut breaker = down(now);
        assert!(!breaker.failed(now + REST / 2));
        assert_eq!(breaker.standing(now + REST), Standing::OnTrial);
    }
}
