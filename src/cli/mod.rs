//! The command line: what can be asked of `sotto`, and one module per command.
//!
//! This module parses and dispatches. It prepares what every command needs (log, TLS, runtime, configuration) and holds
//! no logic of its own. `anyhow` is used here and in `main.rs` only.
//!
//! A new command is a file, and one line each in the modules, in [`Command`] and in [`Arguments::run`].

pub mod chat;
pub mod check;
pub mod conversations;
pub mod dev;
mod exported;
pub mod join;
mod json;
pub mod replay;
pub mod store;
mod terminal;
pub mod token;
pub mod tools;

use crate::app::AppError;
use crate::config::{self, Config, ConfigError, LogFormat};
use crate::telemetry::{self, Format, TelemetryError};
use crate::tls;
use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// A realtime voice-agent participant for LiveKit rooms.
#[derive(Parser, Debug)]
#[command(name = "sotto", version, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Read this configuration file; else that of `SOTTO_CONFIG`, ./sotto.toml or ./config/sotto.toml.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  sotto dev                      a LiveKit server, the agent and a chat with it, all in this terminal
  sotto check                    does everything that is configured work?
  sotto join my-room             the agent joins my-room and stays
  sotto token my-room alice      a token that lets alice join my-room
  sotto conversations list       what the store keeps; show, export and delete are beside it
  sotto tools list               what the model can call; call and approve are beside it
  sotto token --help             all about one command

Configuration:
  The file config/sotto.toml of the project lists every key. The environment goes before the file: key `url` of
  [model] is SOTTO_MODEL_URL. LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET say which LiveKit server.
  SOTTO_LOG (or RUST_LOG) sets what is logged, e.g. SOTTO_LOG=debug.

Exit codes:
  0  it did what was asked
  1  it could not; the reason is on stderr
  2  the arguments or the configuration are wrong";

#[derive(Subcommand, Debug)]
enum Command {
    Join(join::Arguments),
    Dev(dev::Arguments),
    Chat(chat::Arguments),
    Check(check::Arguments),
    Token(token::Arguments),
    Conversations(conversations::Arguments),
    Store(store::Arguments),
    Tools(tools::Arguments),
    Replay(replay::Arguments),
}

impl Arguments {
    /// Runs the command to its end.
    pub fn run(self) -> anyhow::Result<()> {
        let config = Config::load(self.config.as_deref());
        let defaults = Config::default().telemetry;
        let mut telemetry = config.as_ref().map_or(&defaults, |config| &config.telemetry).clone();
        if telemetry.log == defaults.log {
            match self.command {
                // People talk in this terminal: a log between the lines is only for what went wrong.
                Command::Chat(_) | Command::Dev(_) => telemetry.log = "warn".into(),
                // What is not as it should be, it tells itself.
                Command::Tools(_) => telemetry.log = "error".into(),
                _ => {}
            }
        }
        start_log(&telemetry)?;
        tls::choose_provider();
        let config = move || config;
        match self.command {
            Command::Join(arguments) => run_async(join::run(arguments, config()?)),
            Command::Dev(arguments) => run_async(dev::run(arguments, config()?)),
            Command::Chat(arguments) => run_async(chat::run(arguments, config()?)),
            Command::Check(arguments) => run_async(check::run(arguments, config()?)),
            Command::Token(arguments) => token::run(&arguments, &config()?),
            Command::Conversations(arguments) => run_async(conversations::run(arguments, config()?)),
            Command::Store(arguments) if arguments.run_unconfigured()? => Ok(()),
            Command::Store(arguments) => run_async(store::run(arguments, config()?)),
            Command::Tools(arguments) => run_async(tools::run(arguments, config()?)),
            Command::Replay(arguments) => replay::run(&arguments, &config()?),
        }
    }
}

fn start_log(telemetry: &config::Telemetry) -> Result<(), TelemetryError> {
    let format = match telemetry.format {
        LogFormat::Auto => Format::Auto,
        LogFormat::Pretty => Format::Pretty,
        LogFormat::Json => Format::Json,
    };
    telemetry::start(&telemetry.log, format)
}

/// On one thread: each command has one conversation at most, and a word that passes through many tasks need not wake another
/// thread for each.
fn run_async(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(command)
}

/// Something that was asked for in a way that cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

/// What the process says when a command has failed: see "Exit codes" above.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    let app = error.downcast_ref::<AppError>();
    let is_misconfigured = error.is::<ConfigError>()
        || error.is::<TelemetryError>()
        || error.is::<UsageError>()
        || matches!(app, Some(AppError::Config(_) | AppError::Model(_) | AppError::Tool(_)));
    ExitCode::from(if is_misconfigured { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SetupError;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_configuration_file_may_be_named_before_or_after_the_command() {
        for line in [
            ["sotto", "--config", "a.toml", "token", "room", "alice"],
            ["sotto", "token", "--config", "a.toml", "room", "alice"],
            ["sotto", "token", "room", "alice", "--config", "a.toml"],
        ] {
            let arguments = Arguments::try_parse_from(line).expect("good arguments");
            assert_eq!(arguments.config, Some("a.toml".into()));
        }
    }

    #[test]
    fn a_wrong_configuration_has_an_exit_code_of_its_own() {
        let missing = Config::load(Some("/nonexistent/sotto.toml".as_ref())).expect_err("no such file");
        let in_context = anyhow::Error::from(missing.clone()).context("cannot start");
        assert_eq!(exit_code(&in_context), ExitCode::from(2));
        assert_eq!(exit_code(&AppError::from(missing).into()), ExitCode::from(2), "also when met later");
        assert_eq!(exit_code(&AppError::from(SetupError::NoEndpoint).into()), ExitCode::from(2));
        assert_eq!(exit_code(&anyhow::anyhow!("the server is gone")), ExitCode::from(1));
    }
}
