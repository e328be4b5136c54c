//! `sotto join`: the agent in one room.

use crate::app::App;
use crate::config::Config;
use crate::session::End;
use anyhow::{Context, bail};
use std::pin::pin;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

/// Join one room as an agent and stay until told to leave.
///
/// Answers whoever writes there, with the model of `SOTTO_MODEL_URL` or, without one, with a built-in demo. SIGTERM and
/// Ctrl-C let a running answer finish (`agent.drain_seconds`), then leave; a second one leaves at once.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The room's name
    room: String,
}

/// Runs until the room is over or a signal comes.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    // What will be missing in the end is told at once.
    config.livekit.credentials()?;
    // From the start: process 1 of a container does not even notice a signal that it does not listen for.
    let shutdown = shutdown_on_signal()?;
    let app = App::new(config)?;
    let server = app.serve_http().await?;
    if let Some(server) = &server {
        info!("health and metrics on http://{}", server.address());
    }
    // Whoever asks meanwhile waits for the model, not for us to come.
    let joined = while_it_lasts(app.join(&arguments.room, shutdown), app.get_to_know_the_model());
    let end = Box::pin(joined).await;
    app.close().await;
    match end? {
        // Another agent took over, and then it was time to go.
        End::Left | End::Lost => Ok(()),
        End::Closed(reason) => bail!("the room is over: {reason}"),
    }
}

/// Does something beside what matters, and ends with that.
pub(super) async fn while_it_lasts<T>(
    what_matters: impl Future<Output = T>,
    beside: impl Future<Output = ()>,
) -> T {
    let mut what_matters = pin!(what_matters);
    tokio::select! {
        biased;
        end = &mut what_matters => return end,
        () = beside => {}
    }
    what_matters.await
}

/// Becomes true at the first signal; the second ends the process.
pub(super) fn shutdown_on_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let (leave, leaving) = watch::channel(false);
    tokio::spawn(async move {
        for count in 1.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if count > 1 {
                std::process::exit(130);
            }
            info!("leaving");
            leave.send_replace(true);
        }
    });
    Ok(leaving)
}
