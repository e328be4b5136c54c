//! What can go wrong between us and an endpoint: whether to try again, and the words for it.
//!
//! The words go to everyone in the room and say what to do. They never hold a key or an address (the log has that), and
//! never what people said: a message of the endpoint's own is passed on only if it does not repeat the conversation.

use super::endpoint::Target;
use crate::address;
use sotto_core::model::{Failure, Message, Prompt, StreamError};
use std::fmt;
use std::time::Duration;

/// Why an attempt failed.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No connection came about.
    Unreachable(String),
    /// The connection broke.
    Broken(String),
    /// The endpoint refused.
    Status {
        status: u16,
        /// Its own words: not to be trusted, see [`quotable`].
        message: Option<String>,
        retry_after: Option<Duration>,
    },
    /// A web page came in place of an answer.
    WebPage,
    /// Nothing came.
    NoFirstToken(Duration),
    /// Nothing came any more.
    Stalled(Duration),
    /// The answer's time is over.
    TooLong(Duration),
    /// The stream ended badly, in itself.
    Stream(StreamError),
}

/// What to do about it, as long as nothing was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Ask the same endpoint again, after at least this time.
    Again(Duration),
    /// Ask the next endpoint.
    Elsewhere,
    /// Nothing helps.
    Nothing,
}

/// How much of an endpoint's own message is passed on.
const MESSAGE_CHARS: usize = 300;
/// So many characters in a row, found in the conversation, are taken from it.
const REPEATED_CHARS: usize = 12;
/// A whole message of the conversation, quoted, is found even when it is as short as this.
const QUOTED_CHARS: usize = 4;

impl Trouble {
    pub(super) fn remedy(&self, longest_wait: Duration) -> Remedy {
        match self {
            Self::Status { retry_after: Some(wait), .. } if *wait > longest_wait => Remedy::Elsewhere,
            Self::Status { status, retry_after, .. } if may_pass(*status) => {
                Remedy::Again(retry_after.unwrap_or(Duration::ZERO))
            }
            Self::Unreachable(_)
            | Self::Broken(_)
            | Self::Stream(StreamError::Reported(_) | StreamError::Truncated) => {
                Remedy::Again(Duration::ZERO)
            }
            Self::TooLong(_) => Remedy::Nothing,
            // Refused for good; or silent for so long that it is not better asked twice.
            _ => Remedy::Elsewhere,
        }
    }

    /// Whether it speaks against the endpoint, rather than against what was asked of it or for how long.
    pub(super) fn is_an_outage(&self) -> bool {
        self.recoverable() && !matches!(self, Self::TooLong(_))
    }

    fn recoverable(&self) -> bool {
        match self {
            Self::Status { status, .. } => may_pass(*status),
            Self::WebPage => false,
            _ => true,
        }
    }

    /// For the log: the kind of it, without anybody's words.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Unreachable(detail) => format!("cannot be reached ({detail})"),
            Self::Broken(detail) => format!("the connection broke ({detail})"),
            Self::Status { status, .. } => format!("HTTP {status}"),
            Self::WebPage => "a web page in place of an answer".to_owned(),
            Self::NoFirstToken(limit) => format!("no first token within {}", seconds(*limit)),
            Self::Stalled(limit) => format!("nothing more for {}", seconds(*limit)),
            Self::TooLong(limit) => format!("not finished within {}", seconds(*limit)),
            Self::Stream(StreamError::Reported(_)) => "an error inside the stream".to_owned(),
            Self::Stream(error) => error.to_string(),
        }
    }

    /// For the people in the room: what happened and what to do, and nothing about where the endpoint is.
    pub(super) fn failure(&self, target: &Target, prompt: &Prompt) -> Failure {
        let who = target.name_for_users();
        let [url, name, key] = target.setting_names();
        let quote = |message: &str| quotable(message, target, prompt);
        let quoted = |message: &Option<String>| {
            message.as_deref().and_then(quote).map_or_else(String::new, |message| format!(": {message}"))
        };
        let message = match self {
            Self::Unreachable(_) => {
                format!("{who} cannot be reached; try again in a moment, or check that it runs, and {url}")
            }
            Self::Broken(_) => format!("the connection to {who} broke; try again"),
            Self::Status { status: status @ (401 | 403), .. } if target.endpoint.key.is_none() => {
                format!("{who} asks for a key (HTTP {status}); set {key}")
            }
            Self::Status { status: status @ (401 | 403), .. } => {
                format!("{who} refused the key (HTTP {status}); check {key}")
            }
            Self::Status { status: 404, message, .. } => format!(
                "{who} has no model {model:?}, or is not at its address (HTTP 404){said}; check {name}, and that {url} \
                 ends in /v1",
                model = target.endpoint.request.model,
                said = quoted(message)
            ),
            Self::Status { status: status @ 300..=399, .. } => {
                format!("{who} has moved (HTTP {status}); set {url} to its new address")
            }
            Self::Status { status: 429, retry_after, .. } => {
                let when =
                    retry_after.map_or_else(|| "later".to_owned(), |wait| format!("in {}", seconds(wait)));
                format!("{who} has too many requests (HTTP 429); try again {when}")
            }
            Self::Status { status: 503, .. } => {
                format!("{who} is not ready or overloaded (HTTP 503); try again in a moment")
            }
            Self::Status { status: status @ 500.., message, .. } => {
                format!("{who} failed (HTTP {status}){}; try again, or see its log", quoted(message))
            }
            Self::Status { status, message, .. } => format!(
                "{who} did not accept the request (HTTP {status}){}; check {name}, model.context_tokens and \
                 model.extra, or see its log",
                quoted(message)
            ),
            Self::WebPage => {
                format!("{who} answered with a web page, so it is none; check that {url} ends in /v1")
            }
            Self::NoFirstToken(limit) => format!(
                "{who} said nothing within {}; it may be overloaded or still loading, try again (limit: \
                 model.first_token_timeout)",
                seconds(*limit)
            ),
            Self::Stalled(limit) => format!(
                "{who} stopped in the middle and said nothing more for {}; try again (limit: model.chunk_timeout)",
                seconds(*limit)
            ),
            Self::TooLong(limit) => {
                format!("the answer was not finished within {} (limit: model.total_timeout)", seconds(*limit))
            }
            Self::Stream(StreamError::Reported(message)) => format!(
                "{who} reported an error{}; try again, or see its log",
                quote(message).map_or_else(String::new, |message| format!(": {message}"))
            ),
            Self::Stream(StreamError::Truncated) => {
                format!("{who} ended the answer before it was finished; try again")
            }
            Self::Stream(error @ StreamError::TooLarge(..)) => format!("{who}: {error}"),
        };
        Failure { message, recoverable: self.recoverable() }
    }

    /// For whoever runs the agent, who reads it beside the address: also why it could not be reached.
    pub(super) fn failure_in_detail(&self, target: &Target, prompt: &Prompt) -> Failure {
        let mut failure = self.failure(target, prompt);
        if let Self::Unreachable(detail) | Self::Broken(detail) = self {
            failure.message = format!("{} ({detail})", failure.message);
        }
        failure
    }
}

/// As for the log: whoever prints it by chance prints nothing that people said.
impl fmt::Debug for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind())
    }
}

impl From<reqwest::Error> for Trouble {
    fn from(error: reqwest::Error) -> Self {
        let connect = error.is_connect();
        // The innermost cause is the telling one ("Connection refused"); the outer ones only say where it was met.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        // An error without a cause shows the address, which may hold a password.
        let detail = if cause.downcast_ref::<reqwest::Error>().is_some() {
            if error.is_timeout() { "timed out".to_owned() } else { "request failed".to_owned() }
        } else {
            cause.to_string()
        };
        if connect { Self::Unreachable(detail) } else { Self::Broken(detail) }
    }
}

/// Whether a refusal with this status may pass by itself.
fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 520..=529)
}

/// All failures as one: the first endpoint is the one people have in mind.
pub(super) fn together(failures: &[Failure]) -> Failure {
    let messages: Vec<_> = failures.iter().map(|failure| failure.message.as_str()).collect();
    Failure {
        message: messages.join("; then "),
        recoverable: failures.is_empty() || failures.iter().any(|failure| failure.recoverable),
    }
}

/// Nobody was even asked: others were being answered all the time.
pub(super) fn crowded(waited: Duration) -> Failure {
    let message = format!(
        "many others are being answered, and it was not this one's turn within {}; try again in a moment (limits: \
         model.queue_timeout, model.max_concurrent)",
        seconds(waited)
    );
    Failure { message, recoverable: true }
}

/// An endpoint's own message on one line, cut, without the key and addresses; none where it repeats what was said.
fn quotable(message: &str, target: &Target, prompt: &Prompt) -> Option<String> {
    // The key goes first: cut in two it would not be found.
    let key = target.endpoint.key.as_ref();
    let masked = key.map_or_else(|| message.to_owned(), |key| message.replace(key.reveal(), address::HIDDEN));
    let hidden = address::hidden_in(&masked);
    let host = target.completions.host_str().filter(|host| !host.is_empty());
    let hidden = host.map_or_else(|| hidden.clone(), |host| hidden.replace(host, address::HIDDEN));
    let shown: String = hidden.chars().take(MESSAGE_CHARS).collect();
    (!shown.is_empty() && !repeats(&shown, prompt)).then_some(shown)
}

fn repeats(message: &str, prompt: &Prompt) -> bool {
    let said = prompt.messages.iter().flat_map(|message| match message {
        Message::System(text) | Message::User(text) | Message::Tool { content: text, .. } => {
            vec![text.clone()]
        }
        Message::Assistant { text, reasoning, calls } => {
            let arguments = calls.iter().flat_map(|call| call.arguments.iter()).flat_map(|map| map.values());
            let mut said = vec![text.clone()];
            said.extend(reasoning.clone());
            said.extend(
                arguments.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            );
            said
        }
    });
    // On one line each, as the message is.
    let said: Vec<_> = said.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    if said.iter().any(|text| text.chars().count() >= QUOTED_CHARS && message.contains(text)) {
        return true;
    }
    let starts: Vec<_> = message.char_indices().map(|(at, _)| at).chain([message.len()]).collect();
    starts
        .windows(REPEATED_CHARS + 1)
        .map(|window| &message[window[0]..window[REPEATED_CHARS]])
        .any(|piece| said.iter().any(|text| text.contains(piece)))
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 { format!("{} ms", duration.as_millis()) } else { format!("{seconds:.0} s") }
}
