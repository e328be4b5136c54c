//! Clients that want something else than most.

use sotto_core::wire::body::Body;
use sotto_harness::endpoint::{Answer, Gate, Reply, Style};

use super::{Scene, told};

fn thoughtful() -> Reply {
    let answer = Answer::default()
        .reasoning("First this.\n\nThen ")
        .reasoning("that.")
        .text("So it is. ")
        .text("Indeed.")
        .usage(120, 0, 30);
    Reply::answer(Style::LlamaCpp, &answer)
}

/// Its neighbour still gets sentences.
pub(crate) async fn a_client_without_streaming_gets_whole_answers() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let mut boris = scene.user("boris").await;
    anna.can(&["reasoning_steps"]).await;
    // Where someone is left out, the agent writes to those it knows: boris has introduced himself.
    boris.can(&["streaming"]).await;
    scene.model.reply(thoughtful());
    let question = anna.says("Well?").await;
    let expected = ["ack 2", "step 1: First this.", "step 2: Then that.", "answer: So it is. Indeed."];
    let mut heard = Vec::new();
    while heard.len() < 4 {
        let envelope = anna.next().await;
        heard.push(told(&envelope.body));
        if let Body::AssistantMessage(answer) = envelope.body {
            assert_eq!(answer.previous_id, question);
        }
    }
    assert_eq!(heard, expected);
    let expected =
        ["step 1: First this.", "step 2: Then that.", "start", "1: So it is.", "2:  Indeed. (final)"];
    assert_eq!(boris.hears_to_the_end().await, expected);
}

pub(crate) async fn live_thinking_and_figures_come_to_those_who_ask() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let mut boris = scene.user("boris").await;
    anna.can(&["streaming", "reasoning_deltas", "turn_meta"]).await;
    let gate = Gate::new();
    scene.model.reply(thoughtful().gated(&gate));
    let question = anna.says("Well?").await;
    // The role, and the first piece of the thinking: a finished step and the beginning of another.
    gate.pass(2);
    let mut seen = anna.until(|body| matches!(body, Body::ReasoningDelta(_))).await;
    gate.open();
    seen.extend(anna.until(|body| matches!(body, Body::TurnMeta(_))).await);
    let lines: Vec<_> =
        seen.iter().map(|envelope| told(&envelope.body)).filter(|line| !line.starts_with("delta")).collect();
    let shared =
        ["step 1: First this.", "step 2: Then that.", "start", "1: So it is.", "2:  Indeed. (final)"];
    assert_eq!(lines, [&["ack 2"], &shared[..], &["meta"]].concat());

    // Where there are pieces of a step, they are its text, and came before it under its id.
    let mut live = 0;
    for (place, envelope) in seen.iter().enumerate() {
        let Body::ReasoningStep(step) = &envelope.body else { continue };
        let pieces: String = seen[..place]
            .iter()
            .filter_map(|envelope| match &envelope.body {
                Body::ReasoningDelta(delta) if delta.id == step.id => Some(delta.delta.as_str()),
                _ => None,
            })
            .collect();
        assert!(pieces.is_empty() || pieces == step.content, "{pieces:?} is not {:?}", step.content);
        live += usize::from(!pieces.is_empty());
    }
    assert!(live > 0);
    let Some(Body::TurnMeta(figures)) = seen.last().map(|envelope| &envelope.body) else {
        panic!("{seen:?}")
    };
    assert_eq!((figures.input_tokens, figures.output_tokens, figures.exact), (Some(120), Some(30), true));
    assert_eq!((&figures.message_id, figures.interrupted), (&question, false));
    assert!(figures.answer_id.is_some() && figures.thinking_ms <= figures.total_ms);

    // Nobody else gets either.
    assert_eq!(boris.hears_to_the_end().await, shared);
    boris.says("And I?").await;
    assert_eq!(boris.hears_to_the_end().await, ["ack 1", "start", "1: Yes. (final)"]);
}

pub(crate) async fn hidden_reasoning_reaches_nobody() {
    let scene = Scene::begin_with(&[("SOTTO_REASONING_VISIBILITY", "hidden")]).await;
    let mut anna = scene.user("anna").await;
    anna.can(&["streaming", "reasoning_steps", "reasoning_deltas"]).await;
    for _ in 0..2 {
        scene.model.reply(thoughtful());
        anna.says("Well?").await;
        let heard = anna.hears_to_the_end().await;
        assert_eq!(heard[1..], ["start", "1: So it is.", "2:  Indeed. (final)"]);
    }
}
