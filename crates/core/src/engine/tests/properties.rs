//! What holds whatever happens. The rules themselves are in `world.rs`, which looks at every output.

use super::simulation::dice::Dice;
use super::world::{World, settings};
use crate::engine::event::{Input, Output};
use crate::engine::settings::Settings;
use crate::model::{Chunk, Finish, Message, ToolCall};
use crate::wire::body::{Body, Configuration, Execution, UserMessage};
use crate::wire::{self, Envelope};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Map;
use std::collections::BTreeMap;
use std::time::Duration;

fn play(choice: u8, actions: &[[u8; 4]]) -> World {
    let mut world = World::new(settings(choice), choice);
    for &action in actions {
        world.act(action);
    }
    world.settle();
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Numbers, audiences, the store, acknowledgements, answers, steps and ends: see `World::look_at` and `settle`.
    #[test]
    fn the_rules_hold_whatever_happens(choice: u8, actions in vec(any::<[u8; 4]>(), 0..150)) {
        play(choice, &actions);
    }

    #[test]
    fn equal_seeds_and_inputs_give_equal_outputs(choice: u8, actions in vec(any::<[u8; 4]>(), 0..80)) {
        prop_assert_eq!(play(choice, &actions).log, play(choice, &actions).log);
    }

    #[test]
    fn how_a_stream_is_cut_changes_nothing(
        thinking in prose(), answer in prose(),
        cuts in vec(any::<prop::sample::Index>(), 0..20), more in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let whole = said(&[&thinking], &[&answer]);
        let cut = said(&pieces(&thinking, &cuts), &pieces(&answer, &more));
        prop_assert_eq!(&whole, &cut);
        let (steps, sentences) = whole;
        prop_assert_eq!(sentences.concat(), answer.trim());
        prop_assert!(steps.len() <= thinking.chars().count() / 2 + 1, "never one step per token");
    }

    #[test]
    fn live_pieces_joined_are_the_step_and_come_at_most_ten_times_a_second(
        chunks in vec((prose(), 0_u64..300), 1..30),
    ) {
        let mut world = World::new(Settings { conversation: "room".to_owned(), ..Settings::default() }, 1);
        let features = Some(vec!["streaming".to_owned(), "reasoning_deltas".to_owned()]);
        packet(&mut world, 1, Body::Configuration(Configuration { features, ..Configuration::default() }));
        ask(&mut world, 2, "q1");
        let (mut time, mut moments, mut seen) = (0, Vec::new(), world.log.len());
        for (text, pause) in chunks {
            world.model(1, Ok(Chunk::Reasoning(text)));
            world.confirm(usize::MAX, true);
            for millisecond in 0..=pause {
                world.pass(Duration::from_millis(u64::from(millisecond > 0)));
                world.confirm(usize::MAX, true);
                moments.extend(bodies(&world.log[seen..]).map(|body| (time + millisecond, body)));
                seen = world.log.len();
            }
            time += pause;
        }
        world.model(1, Ok(Chunk::Text("So.".to_owned())));
        world.confirm(usize::MAX, true);
        moments.extend(bodies(&world.log[seen..]).map(|body| (time, body)));
        let mut joined = BTreeMap::<String, String>::new();
        let mut sent = Vec::new();
        for (at, body) in moments {
            match body {
                Body::ReasoningDelta(delta) => {
                    joined.entry(delta.id).or_default().push_str(&delta.delta);
                    sent.push(at);
                }
                Body::ReasoningStep(step) => {
                    // What completes a step may come early, and whoever saw nothing of it needs no piece.
                    if let Some(joined) = joined.get(&step.id) {
                        prop_assert_eq!(joined, &step.content);
                        sent.pop();
                    }
                }
                _ => {}
            }
        }
        for pair in sent.windows(2) {
            prop_assert!(pair[1] - pair[0] >= 100, "{sent:?}");
        }
    }
}

/// Text of several sentences, paragraphs and points.
fn prose() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "word",
        " ",
        ". ",
        "3.14",
        "\n",
        "\n\n",
        "Dr. No",
        "1. ",
        "- ",
        "!",
        "?\"",
        "…",
        "e.g. ",
        "六。",
        "😀",
        "`a.b`",
        "```\n",
        "https://a.b/c.d ",
        "the",
        "A ",
        "long enough to matter ",
    ]);
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn pieces<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let mut at: Vec<usize> =
        cuts.iter().filter(|_| !borders.is_empty()).map(|cut| *cut.get(&borders)).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// The steps and sentences that come of a stream.
fn said(thinking: &[&str], answer: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut world = World::new(Settings { conversation: "room".to_owned(), ..Settings::default() }, 1);
    ask(&mut world, 1, "q1");
    for &text in thinking {
        world.model(1, Ok(Chunk::Reasoning(text.to_owned())));
    }
    for &text in answer {
        world.model(1, Ok(Chunk::Text(text.to_owned())));
    }
    world.model(1, Ok(Chunk::Finish(Finish::Stop)));
    world.settle();
    let (mut steps, mut sentences) = (Vec::new(), Vec::new());
    for body in bodies(&world.log) {
        match body {
            Body::ReasoningStep(step) => steps.push(step.content),
            Body::AssistantSentence(sentence) => sentences.push(sentence.text),
            _ => {}
        }
    }
    (steps, sentences)
}

fn bodies(log: &[Output]) -> impl Iterator<Item = Body> {
    log.iter().filter_map(|output| match output {
        Output::Send { bytes, .. } => {
            wire::decode(bytes, &wire::Limits::default()).ok().map(|read| read.body)
        }
        _ => None,
    })
}

fn packet(world: &mut World, stanza: i32, body: Body) {
    let envelope = Envelope { stanza, conversation: None, meta: Map::new(), body };
    world.handle(Input::Received { from: "anna".to_owned(), envelope: Ok(envelope) });
    world.confirm(usize::MAX, true);
}

fn ask(world: &mut World, stanza: i32, id: &str) {
    let body = Body::UserMessage(UserMessage {
        id: id.to_owned(),
        previous_id: None,
        conversation_id: String::new(),
        content: format!("Question {id}"),
        timestamp: None,
        attachments: None,
    });
    packet(world, stanza, body);
}

/// The same rules where much is done with tools: of any actions at all, few get that far.
#[test]
fn tools_are_used_by_the_rules() {
    // Messages, calls, ends of answers, results, the store, time; offers, answers of clients, leave.
    const ACTIONS: [u8; 17] = [0, 15, 15, 15, 17, 17, 19, 20, 31, 31, 22, 24, 26, 26, 28, 28, 7];
    let (mut runs, mut asked, mut allowed, mut handed, mut told) = (0, 0, 0, 0, 0);
    for seed in 0..if cfg!(feature = "slow") { 20_000 } else { 250 } {
        let mut dice = Dice::new(seed);
        let mut byte = || u8::try_from(dice.between(0, 255)).unwrap_or(u8::MAX);
        // Without hooks, which have a test of their own.
        let choice = byte() % 16;
        let mut world = World::new(settings(choice), choice);
        for person in 0..3 {
            world.act([24, person, byte(), 1]);
        }
        for _ in 0..150 {
            let what = ACTIONS[usize::from(byte()) % ACTIONS.len()];
            // The newest question, from its asker more often than not.
            let (who, which) = if byte() < 128 { (0, 0) } else { (byte(), byte()) };
            world.act([what, who, if matches!(what, 26 | 28) { which } else { byte() | 2 }, byte()]);
        }
        world.settle();
        runs += world.log.iter().filter(|output| matches!(output, Output::RunTool { .. })).count();
        for body in bodies(&world.log) {
            match body {
                Body::ToolConsentRequest(_) => asked += 1,
                Body::ToolUseRequest(request) if request.execution == Execution::Client => handed += 1,
                Body::ToolUseRequest(request) if request.tool_name == "mail" => allowed += 1,
                Body::ToolUseResult(_) => told += 1,
                _ => {}
            }
        }
    }
    println!("{runs} runs, {asked} questions, {allowed} allowed, {handed} handed to clients, {told} results");
    assert!(runs > 200 && asked > 150 && allowed > 15 && handed > 10 && told > 400);
}

/// The same rules where hooks are asked much: nothing is said or run that they have not let pass.
#[test]
fn hooks_are_minded_whatever_they_say_and_whenever() {
    // Messages, a stop, words, calls, ends of answers, results, the store, time; what hooks say, leave.
    const ACTIONS: [u8; 20] = [0, 4, 12, 12, 13, 13, 15, 17, 17, 18, 19, 20, 22, 23, 23, 23, 23, 28, 31, 31];
    let (mut questions, mut given_up, mut sentences, mut runs) = (0, 0, 0, 0);
    for seed in 0..if cfg!(feature = "slow") { 20_000 } else { 800 } {
        let mut dice = Dice::new(seed);
        let mut byte = || u8::try_from(dice.between(0, 255)).unwrap_or(u8::MAX);
        let choice = byte();
        let mut world = World::new(settings(choice), choice);
        world.act([24, 0, byte(), 1]);
        for _ in 0..200 {
            let what = ACTIONS[usize::from(byte()) % ACTIONS.len()];
            // Rarely somebody else, a stop, or words for a request that is over.
            let rare = byte() < 16;
            if matches!(what, 0 | 4 | 18) && byte() < 200 {
                continue;
            }
            world.act([what, u8::from(rare), if rare { byte() } else { byte() | 1 }, byte()]);
        }
        world.settle();
        for output in &world.log {
            match output {
                Output::AskHook { .. } => questions += 1,
                Output::CancelHook(_) => given_up += 1,
                Output::RunTool { .. } => runs += 1,
                _ => {}
            }
        }
        let is_said = |body: &Body| matches!(body, Body::AssistantSentence(said) if !said.text.is_empty());
        sentences += bodies(&world.log).filter(is_said).count();
    }
    println!("{questions} questions, {given_up} given up, {sentences} sentences, {runs} runs");
    assert!(questions > 1_000 && given_up > 200 && sentences > 1_000 && runs > 50);
}

#[test]
fn of_many_calls_at_once_some_are_run_and_the_model_is_told_about_the_rest() {
    let mut world = World::new(settings(0), 1);
    ask(&mut world, 1, "q1");
    for _ in 0..1_000 {
        let call = ToolCall { id: "call_1".into(), name: "clock".into(), arguments: Ok(Map::new()) };
        world.model(1, Ok(Chunk::ToolCall(call)));
    }
    world.model(1, Ok(Chunk::Finish(Finish::ToolCalls)));
    world.settle();
    let runs = world.log.iter().filter(|output| matches!(output, Output::RunTool { .. })).count();
    let shown = bodies(&world.log).filter(|body| matches!(body, Body::ToolUseRequest(_))).count();
    let told = bodies(&world.log).filter(|body| matches!(body, Body::ToolUseResult(_))).count();
    assert_eq!((runs, shown, told), (32, 32, 32));
    let mut prompts = world.log.iter().filter_map(|output| match output {
        Output::Generate { prompt, .. } => Some(prompt),
        _ => None,
    });
    let last = prompts.next_back().expect("the model is asked again");
    let results: Vec<&String> = last
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 33);
    assert!(results[32].contains("Too many calls at once"), "{}", results[32]);
}

#[test]
fn a_snapshot_is_the_newest_of_the_conversation_and_not_all_of_it() {
    for (content_bytes, expected) in [(10, 50), (8_000, 12), (101_000, 0)] {
        let mut settings = Settings { conversation: "room".to_owned(), ..Settings::default() };
        settings.limits.content_bytes = 200_000;
        let mut world = World::new(settings, 1);
        for count in 1..=60 {
            world.pass(Duration::from_secs(1));
            let content = "x".repeat(content_bytes);
            let id = format!("q{count}");
            let message = UserMessage {
                id,
                content,
                previous_id: None,
                conversation_id: String::new(),
                timestamp: None,
                attachments: None,
            };
            packet(&mut world, count, Body::UserMessage(message));
            world.model(1, Ok(Chunk::Finish(Finish::Stop)));
            world.confirm(usize::MAX, true);
        }
        let before = world.log.len();
        let last_sequence_seen = Some(0);
        let asked = Configuration { last_sequence_seen, ..Configuration::default() };
        world.shelf.keep_only(0);
        packet(&mut world, 61, Body::Configuration(asked));
        world.confirm(usize::MAX, true);
        let shown: Vec<String> = bodies(&world.log[before..])
            .filter_map(|body| match body {
                Body::UserMessage(message) => Some(message.id),
                _ => None,
            })
            .collect();
        let newest: Vec<String> = (61 - expected..61).map(|count| format!("q{count}")).collect();
        assert_eq!(shown, newest, "of messages of {content_bytes} bytes");
    }
}

/// Memory is estimated by how long the engine is when written out: whatever it holds is in there.
#[test]
fn thousands_of_messages_leave_memory_bounded_and_seldom_change_the_beginning_of_a_prompt() {
    let messages = if cfg!(feature = "slow") { 10_000 } else { 2_800 };
    let mut world = World::new(Settings { conversation: "room".to_owned(), ..Settings::default() }, 1);
    let (mut sizes, mut changes, mut before) = (Vec::new(), 0, Vec::<Message>::new());
    for count in 1..=messages {
        world.pass(Duration::from_millis(200));
        ask(&mut world, count, &format!("q{count}"));
        world.model(1, Ok(Chunk::Reasoning("Well. ".repeat(5))));
        world.model(1, Ok(Chunk::Text(format!("Answer {count} is this. And that."))));
        for output in std::mem::take(&mut world.log) {
            if let Output::Generate { prompt, .. } = output {
                changes += i32::from(!prompt.messages.starts_with(&before));
                before = prompt.messages;
            }
        }
        world.model(1, Ok(Chunk::Finish(Finish::Stop)));
        world.confirm(usize::MAX, true);
        if count > messages / 4 * 3 && count % 25 == 0 {
            sizes.push(format!("{:?}", world.engine).len());
        }
    }
    world.settle();
    // What is oldest is forgotten a quarter at once, so it goes up and down.
    let (first, last) = sizes.split_at(sizes.len() / 2);
    let (first, last) = (first.iter().max(), last.iter().max());
    assert!(last < first.map(|size| size + size / 20).as_ref() && last < Some(&500_000), "{sizes:?}");
    assert!(changes <= messages / 40, "the beginning changed {changes} times");
}
