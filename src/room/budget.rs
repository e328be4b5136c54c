//! How many bytes from strangers may wait in this process at once, over all rooms.
//!
//! Whoever takes such bytes in reserves them first and keeps the [`Reservation`] for as long as they wait; what cannot be
//! reserved is not taken in. Only counts: it allocates nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all rooms share; clones are the same budget.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    free: Arc<AtomicUsize>,
}

impl ByteBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(bytes)) }
    }

    /// An empty reservation, which can grow.
    pub(super) fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// So many bytes, if they are left.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.reservation();
        reservation.grow(bytes).then_some(reservation)
    }
}

/// Bytes that were taken from a budget and go back to it on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: ByteBudget,
    bytes: usize,
}

impl Reservation {
    /// How much it is.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more; false if that much is not left, and then nothing changes.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self
            .budget
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes));
        if taken.is_ok() {
            self.bytes += bytes;
        }
        taken.is_ok()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_gone_until_it_is_dropped() {
        let budget = ByteBudget::new(10);
        let mut first = budget.reserve(6).expect("10 are left");
        assert!(budget.reserve(5).is_none());
        assert!(!first.grow(5));
        assert!(first.grow(4));
        assert!(budget.clone().reserve(1).is_none());
        drop(first);
        assert!(budget.reserve(10).is_some());
    }
}
