//! Whose turn it is at the endpoint: so many at once, the others in order of arrival, and nobody waits for ever.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A fair queue. Whoever stops waiting leaves it at once and holds nobody up.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    places: Arc<Semaphore>,
    longest_wait: Duration,
}

/// The right to ask, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Others were being answered for longer than anybody is to wait.
#[derive(Debug)]
pub(super) struct Crowded;

impl Queue {
    /// At least one may ask, or nothing would ever be answered.
    pub(super) fn new(max_concurrent: usize, longest_wait: Duration) -> Self {
        let places = max_concurrent.clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(places)), longest_wait }
    }

    pub(super) async fn enter(&self) -> Result<Place, Crowded> {
        // Tokio's semaphore serves in order of arrival.
        let turn = Arc::clone(&self.places).acquire_owned();
        let permit = timeout(self.longest_wait, turn).await.map_err(|_| Crowded)?;
        Ok(Place { _permit: permit.expect("nobody ever closes this semaphore") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    const LONGEST_WAIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_after_its_limit_and_not_before() {
        let queue = Queue::new(1, LONGEST_WAIT);
        let held = queue.enter().await.expect("nobody else is there");
        let began = Instant::now();
        assert!(queue.enter().await.is_err());
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        drop(held);
        assert!(queue.enter().await.is_ok(), "whoever gave up took no place");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_is_passed_over() {
        let queue = Queue::new(1, LONGEST_WAIT);
        let held = queue.enter().await.expect("nobody else is there");
        let enter = |queue: &Queue| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter().await.is_ok() })
        };
        let first = enter(&queue);
        sleep(LONGEST_WAIT / 2).await;
        let second = enter(&queue);
        sleep(LONGEST_WAIT * 3 / 4).await;
        drop(held);
        assert!(!first.await.expect("it does not panic"), "its wait was over");
        assert!(second.await.expect("it does not panic"), "its own was not");
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_place_is_given_whatever_the_limit() {
        for longest_wait in [Duration::ZERO, Duration::MAX] {
            assert!(Queue::new(0, longest_wait).enter().await.is_ok());
        }
    }
}
