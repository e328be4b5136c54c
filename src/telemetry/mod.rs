//! The log: what is written, and how much of it.
//!
//! Events of `tracing` and records of `log` (`livekit` and our `libwebrtc` write those) go to stderr through one
//! filter; stdout belongs to what a command was asked for. Nothing here ever decides what is worth logging.

pub mod metrics;

use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A filter that cannot be read; silently logging something else would mislead.
    #[error("{variable}={value:?} is not a log filter ({reason}); examples: debug, or warn,livekit=debug")]
    BadFilter {
        /// The environment variable it came from.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The process already has a logger.
    #[error("the log was started twice")]
    AlreadyStarted,
}

/// Starts the log, filtered by `SOTTO_LOG`, else `RUST_LOG`, else by what is configured.
pub fn start(configured: &str, format: Format) -> Result<(), TelemetryError> {
    let variable = |name| std::env::var(name).ok();
    let terminal = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(variable("SOTTO_LOG"), variable("RUST_LOG"), configured)?)
        .with_writer(std::io::stderr);
    let harmless = filter_fn(is_harmless);
    let started = match format {
        Format::Json => log.json().with_span_list(false).finish().with(harmless).try_init(),
        Format::Auto if !terminal => log.json().with_span_list(false).finish().with(harmless).try_init(),
        Format::Auto | Format::Pretty => log.with_ansi(terminal).finish().with(harmless).try_init(),
    };
    started.map_err(|_| TelemetryError::AlreadyStarted)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Where it panicked, but not with which words: they may quote what people said.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    tracing::error!(thread, "panicked at {place}");
}

/// Whatever the filter says, frames of a `WebSocket` are not logged: they carry the tokens that let one join. Nor is what the
/// SDK of MCP has to say: it quotes addresses with the keys in them, and what tools are asked and answer.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    (*metadata.level() != Level::TRACE || !target.starts_with("tungstenite")) && !target.starts_with("rmcp")
}

/// Writes a line, with words of its sender, for every stream that is not as it should be: anybody in a room could fill the
/// log with that. The room counts such streams (`refused_streams`), and tells their sender.
const CAUSED_BY_STRANGERS: &str = "livekit_data_stream";

/// The first of the two variables that is set and not blank decides, else the configuration, which was checked. What
/// strangers can cause is left out unless it is named.
fn filter(
    sotto_log: Option<String>,
    rust_log: Option<String>,
    configured: &str,
) -> Result<EnvFilter, TelemetryError> {
    let chosen = [("SOTTO_LOG", sotto_log), ("RUST_LOG", rust_log)]
        .into_iter()
        .find_map(|(variable, value)| Some((variable, value.filter(|value| !value.trim().is_empty())?)));
    let (filter, written) = match chosen {
        None => (EnvFilter::new(configured), configured.to_owned()),
        Some((variable, value)) => match EnvFilter::try_new(&value) {
            Ok(filter) => (filter, value),
            Err(error) => {
                return Err(TelemetryError::BadFilter { variable, reason: error.to_string(), value });
            }
        },
    };
    if written.contains(CAUSED_BY_STRANGERS) {
        return Ok(filter);
    }
    let silence = format!("{CAUSED_BY_STRANGERS}=off").parse().expect("a target and a level are a directive");
    Ok(filter.add_directive(silence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sotto_log: Option<&str>, rust_log: Option<&str>) -> String {
        let filter = filter(sotto_log.map(Into::into), rust_log.map(Into::into), "warn");
        filter.expect("a valid filter").to_string()
    }

    /// Whether errors of streams, and of anything else, are logged.
    fn logged(written: &str) -> (bool, bool) {
        let filter = filter(Some(written.to_owned()), None, "warn").expect("a valid filter");
        // With more than one, each event is judged where it happens and not once for all.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(filter), || {
            let of_streams =
                tracing::enabled!(target: "livekit_data_stream::incoming::manager", Level::ERROR);
            (of_streams, tracing::enabled!(target: "livekit::room", Level::ERROR))
        })
    }

    #[test]
    fn what_may_quote_secrets_is_never_logged() {
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(filter_fn(is_harmless)),
            || {
                assert!(!tracing::enabled!(target: "rmcp::transport::worker", Level::ERROR));
                assert!(!tracing::enabled!(target: "tungstenite::protocol", Level::TRACE));
                assert!(tracing::enabled!(target: "tungstenite::protocol", Level::DEBUG));
                assert!(tracing::enabled!(target: "sotto::tools::mcp", Level::TRACE));
            },
        );
    }

    #[test]
    fn sotto_log_goes_before_rust_log() {
        assert_eq!(chosen(Some("debug"), Some("error")), "livekit_data_stream=off,debug");
        assert_eq!(chosen(None, Some("error")), "livekit_data_stream=off,error");
    }

    #[test]
    fn a_blank_variable_counts_as_unset() {
        assert_eq!(chosen(Some(" "), Some("error")), "livekit_data_stream=off,error");
        assert_eq!(chosen(Some(""), None), "livekit_data_stream=off,warn");
    }

    #[test]
    fn a_bad_filter_is_refused_with_the_name_of_its_variable() {
        let error = filter(None, Some("sotto=shout".into()), "warn").expect_err("shout is no level");
        assert!(error.to_string().starts_with("RUST_LOG=\"sotto=shout\""), "{error}");
    }

    #[test]
    fn what_strangers_can_cause_is_logged_only_if_it_is_named() {
        for written in ["trace", "warn,sotto=debug", "livekit=trace"] {
            assert_eq!(logged(written), (false, true), "{written}");
        }
        for written in ["warn,livekit_data_stream=debug", "error,livekit_data_stream::incoming=error"] {
            assert_eq!(logged(written), (true, true), "{written}");
        }
    }
}
