//! Moments that a session waits for.

use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

pub(super) async fn sleep_or_never(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

/// Ready when a shutdown was asked for and its time is over.
pub(super) async fn time_to_go(
    shutdown: &mut watch::Receiver<bool>,
    leave_by: Option<Instant>,
    drain: Duration,
) {
    let leave_by = if let Some(leave_by) = leave_by {
        leave_by
    } else {
        asked_to_leave(shutdown).await;
        Instant::now() + drain
    };
    sleep_until(leave_by).await;
}

pub(super) async fn asked_to_leave(shutdown: &mut watch::Receiver<bool>) {
    // Whoever could ask is gone: nobody will.
    if shutdown.wait_for(|leave| *leave).await.is_err() {
        pending::<()>().await;
    }
}
