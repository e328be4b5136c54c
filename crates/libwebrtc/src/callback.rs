//! A callback that the caller may set, replace or remove at any time, also from within itself.

use parking_lot::Mutex;

/// Holds one optional callback. No lock is held while it runs.
pub(crate) struct Callback<F>(Mutex<Slot<F>>);

struct Slot<F> {
    callback: Option<F>,
    /// Counts how often it was set: a callback taken out to run goes back only if it was not replaced meanwhile.
    generation: u64,
}

impl<F> Default for Callback<F> {
    fn default() -> Self {
        Self(Mutex::new(Slot { callback: None, generation: 0 }))
    }
}

impl<F> Callback<F> {
    pub(crate) fn set(&self, callback: Option<F>) {
        let mut slot = self.0.lock();
        slot.generation += 1;
        // The old one is dropped after the lock is gone: it may own anything.
        let old = std::mem::replace(&mut slot.callback, callback);
        drop(slot);
        drop(old);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().callback.is_some()
    }

    /// Runs the callback. Returns whether there was one.
    pub(crate) fn run(&self, run: impl FnOnce(&mut F)) -> bool {
        let (taken, generation) = {
            let mut slot = self.0.lock();
            (slot.callback.take(), slot.generation)
        };
        let Some(mut callback) = taken else { return false };
        run(&mut callback);
        let mut slot = self.0.lock();
        if slot.generation == generation {
            slot.callback = Some(callback);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Count = Box<dyn FnMut(&Callback<Count2>) + Send>;
    struct Count2(Count);

    #[test]
    fn a_callback_may_remove_itself_while_it_runs() {
        let slot: Arc<Callback<Count2>> = Arc::default();
        slot.set(Some(Count2(Box::new(|own| own.set(None)))));
        assert!(slot.run(|f| (f.0)(&slot)));
        assert!(!slot.run(|f| (f.0)(&slot)), "it removed itself");
    }

    #[test]
    fn a_callback_stays_until_it_is_replaced() {
        let slot = Callback::<Box<dyn FnMut() -> u32 + Send>>::default();
        let mut calls = 0;
        slot.set(Some(Box::new(move || {
            calls += 1;
            calls
        })));
        let mut seen = Vec::new();
        slot.run(|f| seen.push(f()));
        slot.run(|f| seen.push(f()));
        assert_eq!(seen, [1, 2]);
    }
}
