//! `sotto dev`: everything on this machine, in one terminal: a LiveKit server, the agent, and a chat with it.

mod server;

use super::chat;
use super::join::while_it_lasts;
use crate::app::App;
use crate::config::{Config, Secret, StoreUrl, Text};
use anyhow::{Context, bail};
use server::LocalServer;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

/// Start a local LiveKit server and the agent, and chat with it in this terminal.
///
/// The server listens on loopback alone, on free ports, with a new key. Without `SOTTO_MODEL_URL` the built-in demo model
/// answers, and without `SOTTO_STORE_URL` all is forgotten in the end. Questions may also be piped in:
/// `echo "What is 12*7?" | sotto dev`. Ctrl-C stops an answer; when nothing is running, it ends everything.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The room that the agent joins
    #[arg(long, default_value = "dev")]
    room: String,
    /// The livekit-server to run, if not the one on PATH or of `SOTTO_LIVEKIT_SERVER`
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// No chat: run until Ctrl-C and let others come
    #[arg(long)]
    no_chat: bool,
    /// End by itself after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

/// Runs until the chat ends, the time is over or a signal comes.
pub async fn run(arguments: Arguments, mut config: Config) -> anyhow::Result<()> {
    // From here on a signal ends everything in order: the server must not outlive us.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let binary = server::find(arguments.server.as_deref())?;
    let server = tokio::select! {
        server = LocalServer::start(&binary) => server?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    config.livekit.url = Text::from(server.url.as_str());
    config.livekit.api_key = Some(Text::from(server.api_key.as_str()));
    config.livekit.api_secret = Some(Secret::new(server.api_secret.as_str()));
    // Two may run at once, and nobody watches a trial.
    config.http.addr = None;
    // The server's key is a new one each time, so nobody could come back to what was said.
    if !config.store.chosen {
        config.store.url = StoreUrl::Memory;
    }
    introduce(&server, &arguments.room, &config);

    let outcome = tokio::select! {
        outcome = together(&arguments, config) => outcome,
        // The chat sees to Ctrl-C itself: it may only stop an answer.
        _ = interrupt.recv(), if arguments.no_chat => Ok(Ok(())),
        _ = terminate.recv() => Ok(Ok(())),
    };
    if outcome.is_err() {
        eprintln!("dev: the server's last words:\n{}", server.last_lines());
    }
    server.stop().await;
    outcome?
}

fn introduce(server: &LocalServer, room: &str, config: &Config) {
    eprintln!("dev: livekit-server at {}, the agent is in room {room:?}", server.url);
    eprintln!("dev: from another terminal, or with any LiveKit client of yours:");
    eprintln!(
        "     LIVEKIT_URL={} LIVEKIT_API_KEY={} LIVEKIT_API_SECRET={} sotto chat {room}",
        server.url, server.api_key, server.api_secret
    );
    if config.model.endpoints.is_empty() {
        eprintln!("dev: the built-in demo model answers; SOTTO_MODEL_URL=http://…/v1 uses a real one");
    }
}

/// Agent and chat side by side. The outer error is the agent's, the inner one is how the chat ended.
async fn together(arguments: &Arguments, config: Config) -> anyhow::Result<anyhow::Result<()>> {
    let app = App::new(config.clone())?;
    let (leave, leaving) = watch::channel(false);
    let mut agent = Box::pin(while_it_lasts(app.join(&arguments.room, leaving), app.get_to_know_the_model()));
    let result = tokio::select! {
        ended = &mut agent => {
            let end = ended.context("the agent could not join")?;
            bail!("the agent ended before its time: {end:?}");
        }
        result = converse(arguments, &config) => result,
        () = time_is_over(arguments.seconds) => Ok(()),
    };
    leave.send_replace(true);
    agent.await?;
    app.close().await;
    Ok(result)
}

async fn converse(arguments: &Arguments, config: &Config) -> anyhow::Result<()> {
    if arguments.no_chat {
        // Until a signal comes.
        return std::future::pending().await;
    }
    chat::converse(&arguments.room, config).await
}

async fn time_is_over(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => sleep(Duration::from_secs(seconds)).await,
        None => std::future::pending().await,
    }
}
