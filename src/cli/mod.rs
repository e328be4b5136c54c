//! The command line: what can be asked of `sotto`, and one module per command.
//!
//! This module parses and dispatches. It prepares what every command needs (log, TLS, runtime) and holds no logic of
//! its own. `anyhow` is used here and in `main.rs` only.

pub mod dev;

use crate::{telemetry, tls};
use anyhow::Context;
use clap::{Parser, Subcommand};

/// A realtime voice-agent participant for LiveKit rooms.
#[derive(Parser, Debug)]
#[command(
    name = "sotto",
    version,
    after_help = "SOTTO_LOG (or RUST_LOG) sets what is logged, e.g. SOTTO_LOG=debug."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Dev(dev::Arguments),
}

impl Arguments {
    /// Runs the command to its end.
    pub fn run(self) -> anyhow::Result<()> {
        telemetry::start()?;
        tls::choose_provider();
        let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
        match self.command {
            Command::Dev(arguments) => runtime.block_on(dev::run(arguments)),
        }
    }
}
