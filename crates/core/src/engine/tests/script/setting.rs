//! `set key=value`: under which settings a scenario plays, and what it shows.

use super::super::render::Show;
use crate::engine::mask::Secrets;
use crate::engine::settings::{Interruption, Settings, Visibility};
use crate::model::ToolSpec;
use crate::tool::Tool;
use serde_json::json;
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
                    _ => panic!("unknown: show={what}"),
                }
            }
        }
        _ => panic!("unknown setting {key}"),
    }
}

/// A tool; with `!` behind its name it must not be run twice.
fn tool(name: &str) -> Tool {
    let repeatable = !name.ends_with('!');
    let name = name.trim_end_matches('!');
    Tool::harmless(ToolSpec {
        name: name.to_owned(),
        description: format!("the {name}"),
        repeatable,
        parameters: json!({ "type": "object" }),
    })
}
