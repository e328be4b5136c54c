//! Points at which a test can end the process, as `kill -9` would, or make the engine panic: the environment says at which
//! one, counted from 1 over the whole process. Without the feature `failpoints` there are none.

/// A point at which the process may end: `SOTTO_CRASH_AT`.
#[cfg(feature = "failpoints")]
pub(super) fn crash(what: &str) {
    static REACHED: AtomicU64 = AtomicU64::new(0);
    if is_due(&REACHED, "SOTTO_CRASH_AT") {
        // Not a panic: nothing is to be caught, dropped or flushed.
        eprintln!("crashing at a fail point: {what}");
        std::process::abort();
    }
}

/// A point at which the engine may panic: `SOTTO_PANIC_AT`, or when a test of this crate says so.
#[cfg(feature = "failpoints")]
pub(super) fn panic() {
    static REACHED: AtomicU64 = AtomicU64::new(0);
    #[cfg(test)]
    assert!(!PANIC_NEXT.take(), "a test's fail point");
    assert!(!is_due(&REACHED, "SOTTO_PANIC_AT"), "a fail point");
}

#[cfg(feature = "failpoints")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "failpoints")]
fn is_due(reached: &AtomicU64, variable: &str) -> bool {
    let place = reached.fetch_add(1, Ordering::Relaxed) + 1;
    std::env::var(variable).is_ok_and(|wanted| wanted.parse() == Ok(place))
}

#[cfg(not(feature = "failpoints"))]
pub(super) fn crash(_: &str) {}

#[cfg(not(feature = "failpoints"))]
pub(super) fn panic() {
    #[cfg(test)]
    assert!(!PANIC_NEXT.take(), "a test's fail point");
}

#[cfg(test)]
thread_local! {
    /// Whether the engine of a session on this thread panics at the next thing that happens.
    pub(super) static PANIC_NEXT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
