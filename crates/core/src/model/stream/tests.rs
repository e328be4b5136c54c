//! Recorded-style streams, one file per case in `streams/`: what it shows, what it needs (`!` lines), the body and the
//! chunks that have to come of it. Each is read whole, byte by byte, and cut in two at every byte.
#![allow(
    clippy::format_push_string,
    reason = "a test reads better so, and its allocations cost nobody anything"
)]

use super::{Chunks, Limits, Stream, StreamOptions};
use crate::model::{Chunk, Finish, StreamError, ToolSpec};
use std::collections::BTreeSet;

pub(super) struct Fixture {
    pub(super) options: StreamOptions,
    pub(super) body: Vec<u8>,
    expected: String,
}

impl Fixture {
    fn read(file: &str) -> Self {
        let (head, rest) = file.split_once("==== stream\n").expect("a fixture has a stream");
        let (body, expected) = rest.split_once("==== chunks\n").expect("a fixture has chunks");
        let mut options = StreamOptions::default();
        let mut body = body.to_owned();
        for need in head.lines().filter_map(|line| line.strip_prefix("! ")) {
            match need.splitn(3, ' ').collect::<Vec<_>>()[..] {
                ["starts_inside"] => options.starts_inside = true,
                ["crlf"] => body = body.replace('\n', "\r\n"),
                ["tool", name, parameters] => options.tools.push(ToolSpec {
                    name: name.to_owned(),
                    description: String::new(),
                    repeatable: true,
                    parameters: serde_json::from_str(parameters).expect("a schema is JSON"),
                }),
                _ => panic!("unknown need of a fixture: {need}"),
            }
        }
        Self { options, body: body.into_bytes(), expected: expected.to_owned() }
    }

    fn check(&self) {
        assert_eq!(self.replay([&self.body[..]]), self.expected, "whole");
        assert_eq!(self.replay(self.body.chunks(1)), self.expected, "byte by byte");
        for cut in 0..=self.body.len() {
            let (first, second) = self.body.split_at(cut);
            assert_eq!(self.replay([first, second]), self.expected, "cut at byte {cut}");
        }
    }

    fn replay<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        show(&read(self.options.clone(), pieces))
    }
}

/// Reads a body; neighbouring texts of one kind are joined, also over the borders of pieces.
pub(super) fn read<'a>(options: StreamOptions, pieces: impl IntoIterator<Item = &'a [u8]>) -> Chunks {
    let mut stream = Stream::new(options);
    let mut all: Chunks = Vec::new();
    let mut join = |chunks: Chunks| {
        for chunk in chunks {
            match (all.last_mut(), chunk) {
                (Some(Ok(Chunk::Text(before))), Ok(Chunk::Text(text)))
                | (Some(Ok(Chunk::Reasoning(before))), Ok(Chunk::Reasoning(text))) => before.push_str(&text),
                (_, chunk) => all.push(chunk),
            }
        }
    };
    for piece in pieces {
        join(stream.push(piece));
    }
    join(stream.finish());
    assert!(stream.is_over());
    assert_eq!(stream.push(b"data: {}\n\n"), []);
    assert_eq!(stream.finish(), []);
    all
}

pub(super) fn show(chunks: &Chunks) -> String {
    let mut lines = String::new();
    for chunk in chunks {
        lines += &match chunk {
            Ok(Chunk::Reasoning(text)) => format!("reasoning {}", quote(text)),
            Ok(Chunk::Text(text)) => format!("text {}", quote(text)),
            Ok(Chunk::ToolCall(call)) => match &call.arguments {
                Ok(arguments) => {
                    let arguments = serde_json::to_string(arguments).expect("a map is JSON");
                    format!("call {} {} {arguments}", call.id, call.name)
                }
                Err(raw) => format!("call {} {} unreadable {}", call.id, call.name, quote(raw)),
            },
            Ok(Chunk::Usage(usage)) => {
                let part =
                    |name, part: Option<u64>| part.map_or(String::new(), |part| format!(" {name}={part}"));
                let parts = part("reasoning", usage.reasoning) + &part("cached", usage.cached);
                format!("usage input={} output={}{parts}", usage.input, usage.output)
            }
            Ok(Chunk::Finish(finish)) => format!(
                "finish {}",
                match finish {
                    Finish::Stop => "stop",
                    Finish::ToolCalls => "tool_calls",
                    Finish::Length => "length",
                    Finish::Filtered => "filtered",
                }
            ),
            Err(StreamError::Reported(message)) => format!("error reported {}", quote(message)),
            Err(StreamError::Truncated) => "error truncated".to_owned(),
            Err(error @ StreamError::TooLarge(..)) => format!("error {error}"),
        };
        lines.push('\n');
    }
    lines
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

macro_rules! fixtures {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                Fixture::read(include_str!(concat!("../streams/", stringify!($name), ".txt"))).check();
            }
        )*

        const FIXTURES: &[&str] = &[$(stringify!($name)),*];
    };
}

fixtures! {
    // The table of servers.
    vllm
    vllm_older
    vllm_both_fields
    vllm_error
    sglang
    sglang_abort
    llama_cpp
    llama_cpp_error
    ollama
    ollama_error
    ollama_error_line
    dashscope
    openrouter
    openrouter_details
    openrouter_error
    inline_qwen3
    inline_thinking_2507
    inside_but_told_apart
    inline_qwen35
    // What a robust client survives.
    tags_split
    lone_think_end
    think_end_twice
    call_inside_thinking
    answer_in_reasoning
    line_end_missing
    arguments_truncated
    inline_call_truncated
    last_brace_lost
    index_missing
    all_at_index_zero
    ids_missing
    no_finish_reason
    done_alone
    no_done
    cut_off
    cut_in_event
    empty_answer
    content_filter
    calls_said_but_none
    unknown_things
    data_in_lines
    content_parts
    named_error
    whole_answer
    whole_error
    no_model_at_all
    // Inline, in more depth.
    quoted_tags
    quoted_in_thinking
    second_think_block
    fence_left_open_in_thinking
    opened_twice
    call_never_closed
    calls_never_closed
    call_with_quoted_tags
    call_broken
    call_forms
    call_tag_in_prose
}

#[test]
fn every_file_is_replayed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/streams");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of fixtures is part of the sources")
        .map(|file| file.expect("the folder can be read").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, FIXTURES.iter().map(|name| format!("{name}.txt")).collect());
}

fn content(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({"choices": [{"delta": {"content": text}}]}))
}

#[test]
fn text_is_held_back_only_while_it_may_be_a_tag() {
    let mut stream = Stream::new(StreamOptions::default());
    let mut push = |text: &str| show(&stream.push(content(text).as_bytes()));
    assert_eq!(push("one"), "text \"one\"\n");
    assert_eq!(push(" <thin"), "text \" \"\n");
    assert_eq!(push("g> `two"), "text \"<thing> `two\"\n");
    assert_eq!(push("<thi"), "");
    assert_eq!(push("nk>"), "");
    assert_eq!(push("` three"), "text \"<think>` three\"\n");
    assert_eq!(push("<think>four"), "reasoning \"four\"\n");
}

#[test]
fn what_is_too_large_ends_the_stream_and_is_never_shown() {
    let limits = Limits { event: 500, calls: 100 };
    let endless_call = content("Hi <tool_call>{\"name\": \"") + &content(&"a".repeat(200));
    let endless_value = content("Hi <tool_call><function=f><parameter=x>") + &content(&"a".repeat(200));
    for (body, error) in [
        (
            content("Hi ") + "data: " + &"a".repeat(501),
            "an event of the stream is larger than the limit of 500 bytes",
        ),
        (endless_call, "a tool call is larger than the limit of 100 bytes"),
        (endless_value, "a tool call is larger than the limit of 100 bytes"),
    ] {
        let chunks = read(StreamOptions { limits, ..StreamOptions::default() }, [body.as_bytes()]);
        assert_eq!(show(&chunks), format!("text \"Hi \"\nerror {error}\n"));
    }
    let whole = format!("{{\"x\": \"{}\"}}", "a".repeat(501));
    let chunks = read(StreamOptions { limits, ..StreamOptions::default() }, [whole.as_bytes()]);
    assert_eq!(show(&chunks), "error the answer is larger than the limit of 500 bytes\n");
}

#[test]
fn a_code_span_is_not_waited_for_for_ever() {
    let long = "x".repeat(5000);
    let body = content(&format!("A ` and <think>{long}")) + &content("</think>B") + "data: [DONE]\n\n";
    let expected = format!("text \"A ` and \"\nreasoning \"{long}\"\ntext \"B\"\nfinish stop\n");
    assert_eq!(show(&read(StreamOptions::default(), [body.as_bytes()])), expected);
    assert_eq!(show(&read(StreamOptions::default(), body.as_bytes().chunks(7))), expected);
}

#[test]
fn a_finished_answer_is_good_when_the_connection_stays_open() {
    let mut stream = Stream::new(StreamOptions::default());
    let finish = "data: {\"choices\":[{\"delta\":{\"content\":\"Yes.\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(show(&stream.push(finish.as_bytes())), "text \"Yes.\"\n");
    assert!(!stream.is_over());
    assert_eq!(show(&stream.finish()), "finish stop\n");
}
