//! `set key=value`: under which settings a scenario plays, and what it shows.

use super::super::render::Show;
use crate::engine::hook::{self, WhenAway};
use crate::engine::mask::Secrets;
use crate::engine::policy::Taint;
use crate::engine::settings::{Gate, Interruption, Settings, Speakers, Visibility};
use crate::model::ToolSpec;
use crate::tool::{Effects, Execution, Rights, Tool};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn set(pair: &str, settings: &mut Settings, show: &mut Show, slow_store: &mut bool) {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let number = || value.parse::<u64>().unwrap_or_else(|_| panic!("{key} needs a number"));
    match key {
        "interruption" => {
            settings.interruption =
                if value == "queue" { Interruption::Queue } else { Interruption::Interrupt }
        }
        "visibility" => {
            settings.visibility = if value == "hidden" { Visibility::Hidden } else { Visibility::Full }
        }
        "keep_reasoning" => settings.keep_reasoning = value != "off",
        "share_history" => settings.share_history = value == "on",
        "greeting" => settings.greeting = Some(value.to_owned()),
        "instructions" => settings.instructions = value.to_owned(),
        "language" => settings.language = Some(value.to_owned()),
        "thinking" => settings.thinking = value != "off",
        "tools" => settings.tools = value.split(',').map(tool).collect(),
        "client_tools" => settings.client_tools = value == "on",
        "return_seconds" => settings.return_timeout = Duration::from_secs(number()),
        "consent_seconds" => settings.consent_timeout = Duration::from_secs(number()),
        "untrusted" => settings.policy.untrusted = gate(value),
        "private" => settings.policy.private = gate(value),
        "descriptions" => settings.policy.descriptions = gate(value),
        "past_turns" => settings.policy.past_turns = value == "on",
        "speakers" => {
            settings.policy.speakers =
                if value == "asker" { Speakers::TheAsker } else { Speakers::InThePrompt }
        }
        "schema" => {
            let (name, schema) = value.split_once(':').unwrap_or_else(|| panic!("schema=name:{{…}}"));
            let schema = serde_json::from_str(schema).unwrap_or_else(|_| panic!("no JSON: {schema}"));
            for tool in settings.tools.iter_mut().filter(|tool| tool.spec.name == name) {
                tool.spec.parameters = Value::clone(&schema);
            }
        }
        "description" => {
            let (name, description) =
                value.split_once(':').unwrap_or_else(|| panic!("description=name:text"));
            for tool in settings.tools.iter_mut().filter(|tool| tool.spec.name == name) {
                description.clone_into(&mut tool.spec.description);
            }
        }
        // `before_say=closed:2000`: what happens without its word, and after how many milliseconds.
        "before_model" => settings.hooks.before_model = Some(hook(value)),
        "before_tool" => settings.hooks.before_tool = Some(hook(value)),
        "before_say" => settings.hooks.before_say = Some(hook(value)),
        "max_rounds" => settings.max_tool_rounds = number() as u32,
        "max_thinking_seconds" => settings.max_thinking = Duration::from_secs(number()),
        "max_thinking_chars" => settings.max_thinking_chars = number() as usize,
        "max_answer_chars" => settings.max_answer_chars = number() as usize,
        "context_tokens" => settings.context_tokens = number(),
        "answer_tokens" => settings.answer_tokens = number(),
        "waiting" => settings.limits.waiting = number() as usize,
        "messages_burst" => settings.limits.messages_burst = number() as u32,
        "others_burst" => settings.limits.others_burst = number() as u32,
        "content_bytes" => settings.limits.content_bytes = number() as usize,
        "turn_tokens" => settings.budget.turn.tokens = Some(number()),
        "turn_seconds" => settings.budget.turn.seconds = Some(number()),
        "turn_tool_calls" => settings.budget.turn.tool_calls = Some(number() as u32),
        "conversation_tokens" => settings.budget.conversation.tokens = Some(number()),
        "conversation_tool_calls" => settings.budget.conversation.tool_calls = Some(number() as u32),
        "conversation_seconds" => settings.budget.conversation.seconds = Some(number()),
        "effort" => settings.effort = Some(value.to_owned()),
        "step_chars" => settings.step_chars = number() as usize,
        "agent_name" => settings.agent_name = value.to_owned(),
        "secret" => settings.secrets = Secrets::new([value.to_owned()]),
        "store" => *slow_store = value == "slow",
        "show" => {
            for what in value.split(',') {
                match what {
                    "transcript" => show.transcript = true,
                    "prompt" => show.prompt = true,
                    "counts" => show.counts = true,
                    "saves" => show.saves = true,
                    "numbers" => show.numbers = true,
                    "tools" => show.tools = true,
                    "descriptions" => show.descriptions = true,
                    _ => panic!("unknown: show={what}"),
                }
            }
        }
        _ => panic!("unknown setting {key}"),
    }
}

/// The same where nothing is shown.
pub(in super::super) fn set_only(pair: &str, settings: &mut Settings) {
    set(pair, settings, &mut Show::default(), &mut false);
}

/// What holds for a hook; one that ends in `:trusted` brings nothing into the prompt.
fn hook(words: &str) -> hook::Terms {
    let mut words = words.split(':');
    let when_away = if words.next() == Some("open") { WhenAway::Open } else { WhenAway::Closed };
    let millis = words.next().and_then(|millis| millis.parse().ok()).unwrap_or(1_000);
    let trusted = words.next().is_some();
    let brings = Taint { untrusted: !trusted, private: !trusted };
    hook::Terms { timeout: Duration::from_millis(millis), when_away, brings }
}

fn gate(word: &str) -> Gate {
    match word {
        "allow" => Gate::Allow,
        "ask" => Gate::Ask,
        "deny" => Gate::Deny,
        _ => panic!("no gate: {word}"),
    }
}

/// A tool: its name, with `!` behind it if it must not be run twice, and what else there is to say of it, each behind a
/// colon: `mail!:sends:confirm`.
pub(super) fn tool(words: &str) -> Tool {
    let mut words = words.split(':');
    let name = words.next().unwrap_or_default();
    let repeatable = !name.ends_with('!');
    let name = name.trim_end_matches('!');
    let mut tool = Tool::harmless(ToolSpec {
        name: name.to_owned(),
        description: format!("the {name}"),
        repeatable,
        parameters: json!({ "type": "object" }),
    });
    for word in words {
        match word.split_once('-') {
            Some(("only", identity)) => only(&mut tool).0.push(identity.to_owned()),
            Some(("role", value)) => only(&mut tool).1.push(("role".to_owned(), value.to_owned())),
            Some(("seconds", value)) => {
                tool.timeout = value.parse().ok().map(Duration::from_secs);
            }
            _ => match word {
                "confirm" => tool.confirm = true,
                "private" => tool.effects.reads_private = true,
                "sends" => tool.effects.sends_out = true,
                "changes" => tool.effects.changes = true,
                "untrusted" => tool.effects.untrusted_output = true,
                "unknown" => tool.effects = Effects::ALL,
                "client" => tool.execution = Execution::Client,
                "rpc" => tool.execution = Execution::Rpc,
                "either" => tool.execution = Execution::Either,
                _ => panic!("what is a tool that is {word}?"),
            },
        }
    }
    tool
}

/// The identities and attributes that may have a tool used.
fn only(tool: &mut Tool) -> (&mut Vec<String>, &mut Vec<(String, String)>) {
    if tool.rights == Rights::Everyone {
        tool.rights = Rights::Only { identities: Vec::new(), attributes: Vec::new() };
    }
    match &mut tool.rights {
        Rights::Only { identities, attributes } => (identities, attributes),
        Rights::Everyone => unreachable!("it was narrowed above"),
    }
}
