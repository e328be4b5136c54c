//! The demo as a session sees it.

use super::*;
use crate::ports::Tools;
use crate::tools::BuiltIn;
use sotto_core::engine::event::ToolOutcome;
use sotto_core::model::{Message, ToolCall};
use std::sync::Arc;

fn prompt(messages: Vec<Message>) -> Prompt {
    Prompt { messages, tools: BuiltIn::all().specs(), thinking: true }
}

fn user(text: &str) -> Message {
    Message::User(text.to_owned())
}

async fn answer(prompt: &Prompt) -> Vec<Chunk> {
    let chunks = Demo::with_pace(Duration::ZERO).answer(prompt.clone()).collect::<Vec<_>>().await;
    chunks.into_iter().map(|chunk| chunk.expect("the demo never fails")).collect()
}

fn reasoning(chunks: &[Chunk]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| if let Chunk::Reasoning(text) = chunk { Some(&**text) } else { None })
        .collect()
}

fn text(chunks: &[Chunk]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| if let Chunk::Text(text) = chunk { Some(&**text) } else { None })
        .collect()
}

fn calls(chunks: &[Chunk]) -> Vec<ToolCall> {
    let calls =
        chunks.iter().filter_map(|chunk| if let Chunk::ToolCall(call) = chunk { Some(call) } else { None });
    calls.cloned().collect()
}

/// Asks, runs what the demo calls, and asks again, as a session would.
async fn exchange(question: &str) -> (Vec<ToolCall>, String) {
    let tools = BuiltIn::all();
    let mut prompt = prompt(vec![Message::System("Be kind.".to_owned()), user(question)]);
    let first = answer(&prompt).await;
    let made = calls(&first);
    assert_eq!(first.last(), Some(&Chunk::Finish(Finish::ToolCalls)));
    prompt.messages.push(Message::Assistant { text: text(&first), reasoning: None, calls: made.clone() });
    for call in &made {
        let arguments = call.arguments.clone().expect("the demo writes objects");
        let content = match tools.run(&call.name, arguments, Duration::ZERO, Arc::new(|_| {})).await {
            ToolOutcome::Done(result) => result.to_string(),
            ToolOutcome::Failed(reason) => reason,
            ToolOutcome::InvalidParameters(reason) => panic!("the demo calls tools rightly: {reason}"),
        };
        prompt.messages.push(Message::Tool { call: call.id.clone(), content });
    }
    let second = answer(&prompt).await;
    assert_eq!(second.last(), Some(&Chunk::Finish(Finish::Stop)));
    (made, text(&second))
}

#[tokio::test]
async fn it_thinks_in_paragraphs_and_then_answers() {
    let chunks = answer(&prompt(vec![user("Which is the highest mountain?")])).await;
    assert!(reasoning(&chunks).split("\n\n").count() >= 3);
    assert!(text(&chunks).contains("Which is the highest mountain?"));
    let first_text = chunks.iter().position(|chunk| matches!(chunk, Chunk::Text(_))).expect("an answer");
    assert!(!chunks[first_text..].iter().any(|chunk| matches!(chunk, Chunk::Reasoning(_))));
    assert_eq!(chunks.last(), Some(&Chunk::Finish(Finish::Stop)));
}

#[tokio::test]
async fn it_says_that_it_is_the_demo_and_how_to_get_a_real_model() {
    for question in ["Hello", "Who are you?", "Why?"] {
        let said = text(&answer(&prompt(vec![user(question)])).await);
        assert!(said.contains("demo") && said.contains("SOTTO_MODEL_URL"), "{said}");
    }
    let earlier = Message::Assistant { text: "I said so.".to_owned(), reasoning: None, calls: Vec::new() };
    let said = text(&answer(&prompt(vec![user("Hello"), earlier, user("Hello again")])).await);
    assert!(!said.contains("SOTTO_MODEL_URL"), "once is enough: {said}");
}

#[tokio::test]
async fn it_works_things_out_with_the_calculator() {
    let (made, said) = exchange("what is 12*(3+4)?").await;
    assert_eq!(made.len(), 1);
    assert!(said.starts_with("12*(3+4) is 84."), "{said}");
}

#[tokio::test]
async fn it_calls_two_tools_at_once() {
    let (made, said) = exchange("What is 6 times 7, and what time is it in Tokyo?").await;
    assert_eq!(made.iter().map(|call| &*call.name).collect::<Vec<_>>(), ["calculator", "time"]);
    assert_ne!(made[0].id, made[1].id);
    assert!(said.starts_with("6 * 7 is 42. It is ") && said.contains("(Asia/Tokyo)."), "{said}");
}

#[tokio::test]
async fn it_says_when_a_tool_could_not_help() {
    let (_, said) = exchange("what is 1/0?").await;
    assert!(said.starts_with("The tool calculator could not help: division by zero."), "{said}");
}

#[tokio::test]
async fn without_tools_it_calls_none() {
    let mut prompt = prompt(vec![user("what is 12*(3+4)?")]);
    prompt.tools.clear();
    let chunks = answer(&prompt).await;
    assert!(calls(&chunks).is_empty());
    assert!(text(&chunks).contains("calculator"));
}

#[tokio::test]
async fn thinking_can_be_off() {
    let mut prompt = prompt(vec![user("Hello")]);
    prompt.thinking = false;
    let chunks = answer(&prompt).await;
    assert_eq!(reasoning(&chunks), "");
    assert!(!text(&chunks).is_empty());
}

#[tokio::test]
async fn long_answers_are_long_enough_to_be_interrupted() {
    let counted = text(&answer(&prompt(vec![user("Count to 100.")])).await);
    assert!(counted.starts_with("1, 2, 3,") && counted.contains("99, 100."), "{counted}");
    let told = answer(&prompt(vec![user("Tell me a long story")])).await;
    let seconds = told.len() as f64 * PACE.as_secs_f64();
    assert!(seconds > 15.0, "at its usual pace the story takes {seconds} s");
}

#[tokio::test]
async fn the_same_prompt_gives_the_same_answer() {
    let prompt = prompt(vec![user("Tell me something")]);
    assert_eq!(answer(&prompt).await, answer(&prompt).await);
}

#[tokio::test(start_paused = true)]
async fn each_piece_takes_its_time() {
    let pace = Duration::from_millis(25);
    let begun = tokio::time::Instant::now();
    let chunks = Demo::with_pace(pace).answer(prompt(vec![user("Hello")])).collect::<Vec<_>>().await;
    let pieces =
        chunks.iter().filter(|chunk| matches!(chunk, Ok(Chunk::Reasoning(_) | Chunk::Text(_)))).count();
    assert_eq!(begun.elapsed(), pace * pieces as u32);
}

#[tokio::test]
async fn an_empty_prompt_is_answered_too() {
    let chunks = answer(&prompt(Vec::new())).await;
    assert_eq!(chunks.last(), Some(&Chunk::Finish(Finish::Stop)));
}
