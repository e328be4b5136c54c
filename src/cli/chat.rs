//! `sotto chat`: a conversation with the agent of a room, in a terminal or through pipes.
//!
//! | module | what it is for |
//! |---|---|
//! | `talk` | the conversation itself: lines in, messages out and in, text out |
//! | `command` | what a typed line means |
//! | `dialogue` | which message and answer are ours, and whether an answer is under way |
//! | `screen` | what is shown |

mod command;
mod dialogue;
mod screen;
mod talk;

use super::terminal;
use super::token::JoinToken;
use crate::client::{Client, ClientOptions};
use crate::config::Config;
use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use screen::Style;
use sotto_core::ids::{Ids, Kind};
use std::io::IsTerminal;
use std::time::Duration;
use talk::{Input, Manner, Talk};

/// How long the token lets one join; whoever is in the room by then stays.
const TOKEN_TTL: Duration = Duration::from_secs(600);
/// Longer than an agent waits for its model before it says so.
const PATIENCE_SECONDS: u64 = 300;

/// Talk to the agent of a room, in this terminal.
///
/// What others in the room ask is shown too, as far as they let everyone know. Thoughts are shown as they come, then the answer sentence by sentence, with the tools that were used. Ctrl-C stops an
/// answer; when nothing is running, it leaves. /help lists the commands.
///
/// Without a terminal it reads questions line by line, waits for each answer and prints plain text, so that it can be
/// piped: echo "What is 12*7?" | sotto chat my-room. Then the exit code is 1 if an answer failed or did not come.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  sotto chat my-room
  sotto chat my-room --message \"What is 12*7?\"
  sotto chat my-room --json < questions.txt | jq -r 'select(.type == \"AssistantSentence\").body.text'")]
pub struct Arguments {
    /// The room
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    room: String,
    /// Who joins; random if not given. Two with one identity cannot be in a room at once
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    identity: Option<String>,
    /// What others (and the model) call you; the name of your account if not given
    #[arg(long)]
    name: Option<String>,
    /// Print one JSON object per received message: type, stanzaId, conversationId, meta, body
    #[arg(long)]
    json: bool,
    /// Ask this, and leave after the answer
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    message: Option<String>,
    /// Do not show what the model thinks
    #[arg(long)]
    no_reasoning: bool,
    /// Let the agent use this tool whenever it asks for leave; may be given several times. At a terminal you are asked for
    /// the others; without one they are denied
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Without a terminal: give up after so many seconds in which nothing comes
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE_SECONDS, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// Joins and talks until the end of the input, `/quit` or Ctrl-C.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    let Arguments { room, identity, name, json, message, no_reasoning, allow, timeout } = arguments;
    let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let interactive = at_terminal && message.is_none() && !json;
    let identity = identity.map_or_else(random_identity, Ok)?;
    let name = name.or_else(|| std::env::var("USER").ok());
    let token =
        JoinToken { room: &room, identity: &identity, name: name.as_deref(), agent: false, ttl: TOKEN_TTL }
            .sign(&config.livekit)?;
    let options = ClientOptions {
        shown_url: Some(config.livekit.url.shown().to_owned()),
        topic: config.room.topic.as_deref().map(str::to_owned),
        reasoning: !no_reasoning,
        consent: interactive || !allow.is_empty(),
        ..ClientOptions::default()
    };
    let client = Client::join(&config.livekit.url, &token, options).await?;

    let manner = Manner {
        interactive,
        allow,
        style: style(json),
        reasoning: !no_reasoning,
        patience: Duration::from_secs(timeout),
    };
    let input = message.map_or_else(Input::lines_of_stdin, |message| Ok(Input::one_message(message)));
    Talk::new(client, manner).run(input.context("cannot read the standard input")?).await
}

/// Talks in a room as `sotto chat` without options does.
pub async fn converse(room: &str, config: &Config) -> anyhow::Result<()> {
    let arguments = Arguments {
        room: room.to_owned(),
        identity: None,
        name: None,
        json: false,
        message: None,
        no_reasoning: false,
        allow: Vec::new(),
        timeout: PATIENCE_SECONDS,
    };
    run(arguments, config.clone()).await
}

fn style(json: bool) -> Style {
    if json {
        Style::Json
    } else if std::io::stdout().is_terminal() {
        Style::Terminal { colour: terminal::has_colours() }
    } else {
        Style::Plain
    }
}

/// `user-` and something that nobody else in the room is called.
fn random_identity() -> anyhow::Result<String> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system has no randomness to give")?;
    let id = Ids::from_seed(seed).next(Kind::Message);
    Ok(format!("user-{}", &id[id.len() - 12..]))
}
