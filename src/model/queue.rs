//! Whose turn it is at the endpoint: so many at once, the others in order of arrival.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A fair queue. Whoever stops waiting leaves it at once and holds nobody up.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    places: Arc<Semaphore>,
}

/// The right to ask, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Queue {
    /// At least one may ask, or nothing would ever be answered.
    pub(super) fn new(max_concurrent: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(max_concurrent.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    pub(super) async fn enter(&self) -> Place {
        // Tokio's semaphore serves in order of arrival.
        let permit = Arc::clone(&self.places).acquire_owned().await;
        Place { _permit: permit.expect("nobody ever closes this semaphore") }
    }
}
