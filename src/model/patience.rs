//! How long an answer may take, and the clock that runs while it is awaited.
//!
//! None of these limits cuts a stream that goes on, except the one on the whole answer. The clock starts when it is our
//! turn: time spent waiting in our own queue is not the endpoint's.

use super::trouble::Trouble;
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The limits, for every endpoint alike.
#[derive(Clone, Debug)]
pub struct Limits {
    /// To reach the endpoint at all.
    pub connect: Duration,
    /// From asking to the first piece of the answer.
    pub first_token: Duration,
    /// From one piece of the answer to the next. Comments that keep the connection alive are none.
    pub between_chunks: Duration,
    /// The whole answer, further attempts included.
    pub total: Duration,
    /// How often one endpoint is asked again before the first token.
    pub retries: u32,
    /// The wait before the first retry; it doubles each time, and chance shortens it by up to half.
    pub back_off: Duration,
    /// The longest wait that an endpoint may ask for (`Retry-After`); where it asks for more, it is not asked again.
    pub longest_wait: Duration,
    /// How many answers may be under way at once; the others wait their turn.
    pub max_concurrent: usize,
    /// How long one may wait for its turn.
    pub in_queue: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_token: Duration::from_secs(60),
            between_chunks: Duration::from_secs(20),
            total: Duration::from_secs(600),
            retries: 3,
            back_off: Duration::from_millis(250),
            longest_wait: Duration::from_secs(10),
            max_concurrent: 64,
            in_queue: Duration::from_secs(60),
        }
    }
}

/// The clock of one answer.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    first_token: Duration,
    between_chunks: Duration,
    total: Duration,
    end: Instant,
    since: Instant,
    heard: bool,
}

impl Patience {
    /// The whole answer's time begins.
    pub(super) fn begin(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            first_token: limits.first_token,
            between_chunks: limits.between_chunks,
            total: limits.total,
            end: later(now, limits.total),
            since: now,
            heard: false,
        }
    }

    /// The endpoint is asked, once more.
    pub(super) fn ask(&mut self) {
        self.since = Instant::now();
        self.heard = false;
    }

    /// A piece of the answer came.
    pub(super) fn hear(&mut self) {
        self.since = Instant::now();
        self.heard = true;
    }

    /// Awaits something of the endpoint, as long as there is patience.
    pub(super) async fn wait_for<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Trouble> {
        let (limit, trouble) = if self.heard {
            (self.between_chunks, Trouble::Stalled(self.between_chunks))
        } else {
            (self.first_token, Trouble::NoFirstToken(self.first_token))
        };
        let end = later(self.since, limit);
        timeout_at(end.min(self.end), awaited)
            .await
            .map_err(|_| if self.end <= end { Trouble::TooLong(self.total) } else { trouble })
    }

    /// Waits, unless the answer's time is over before.
    pub(super) async fn sleep(&self, duration: Duration) -> Result<(), Trouble> {
        if later(Instant::now(), duration) >= self.end {
            return Err(Trouble::TooLong(self.total));
        }
        tokio::time::sleep(duration).await;
        Ok(())
    }
}

/// Limits come from people, who write large numbers for "never".
fn later(moment: Instant, duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    moment + duration.min(NEVER)
}
