//! Answers that are stopped, interrupted, or asked for again.

use sotto_core::wire::body::{Body, VariationMode};
use sotto_harness::endpoint::{End, Gate, Reply};

use super::{Scene, dialogue, unfinished};

/// A sentence, and the beginning of another.
const STORY: [&str; 2] = ["Once upon a time. There", " was"];

pub(crate) async fn a_stop_ends_the_answer_at_once_and_is_no_error() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&STORY));
    anna.says("Tell me a story.").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: Once upon a time."]);
    anna.stops().await;
    assert_eq!(anna.hears(2).await, ["2:  There was (final)", "ack 2"]);
    assert_eq!(scene.model.end(scene.probes).await, End::ClosedByClient);
    // Nothing follows it; and what was said stays said.
    anna.says("Go on.").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 3", "start", "1: Yes. (final)"]);
    let expected = ["user: Tell me a story.", "assistant: Once upon a time. There was", "user: Go on."];
    assert_eq!(dialogue(&scene.asked(1).await), expected);
    assert_eq!(scene.agent.metric("sotto_turns_total{kind=\"stopped\"}").await, 1);
    assert_eq!(scene.agent.metric("sotto_turns_total{kind=\"failed\"}").await, 0);
}

pub(crate) async fn a_stop_while_the_model_thinks_gives_an_empty_answer() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    // Live thinking tells when the thought is there.
    anna.can(&["streaming", "reasoning_deltas", "turn_meta"]).await;
    let thinks = serde_json::json!({"choices": [{"index": 0, "delta": {"reasoning": "Let me think"}}]});
    scene.model.reply(Reply::stream().event(&thinks).stall());
    anna.says("Well?").await;
    anna.until(|body| matches!(body, Body::ReasoningDelta(_))).await;
    anna.stops().await;
    let mut heard = anna.hears_to_the_end().await;
    heard.retain(|line| !line.starts_with("delta"));
    assert_eq!(heard, ["step 1: Let me think", "start", "1:  (final)"]);
    assert_eq!(anna.hears(2).await, ["meta (interrupted)", "ack 3"]);
    assert_eq!(scene.model.end(scene.probes).await, End::ClosedByClient);
}

pub(crate) async fn a_new_message_interrupts_the_answer_to_the_same_user() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&STORY));
    scene.model.reply(Reply::text("Of course."));
    anna.says("Tell me a story.").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: Once upon a time."]);
    anna.says("No, something else!").await;
    assert_eq!(
        anna.hears_to_the_end().await,
        ["ack 2", "2:  There was (final)"],
        "the old answer is ended before the new one begins"
    );
    assert_eq!(anna.hears_to_the_end().await, ["start", "1: Of course. (final)"]);
    assert_eq!(scene.model.end(scene.probes).await, End::ClosedByClient);
    let expected =
        ["user: Tell me a story.", "assistant: Once upon a time. There was", "user: No, something else!"];
    assert_eq!(dialogue(&scene.asked(1).await), expected);
}

pub(crate) async fn with_a_queue_messages_wait_their_turn_as_long_as_there_is_room() {
    let settings = [("SOTTO_AGENT_INTERRUPTION", "queue"), ("SOTTO_LIMITS_WAITING", "2")];
    let scene = Scene::begin_with(&settings).await;
    let mut anna = scene.user("anna").await;
    let gate = Gate::new();
    scene.model.reply(Reply::text("One.").gated(&gate));
    for text in ["Two.", "Three.", "Four."] {
        scene.model.reply(Reply::text(text));
    }
    for question in ["First?", "Second?", "Third?"] {
        anna.sends_message(question, question).await;
    }
    assert_eq!(anna.hears(3).await, ["ack 1", "ack 2", "ack 3"]);
    anna.sends_message("Fourth?", "Fourth?").await;
    assert_eq!(anna.hears(1).await, ["error 504 recoverable"]);
    gate.open();
    let answers = ["start", "1: One. (final)", "start", "1: Two. (final)", "start", "1: Three. (final)"];
    assert_eq!(anna.hears(6).await, answers);
    // What was refused for now may be sent again.
    anna.sends_message("Fourth?", "Fourth?").await;
    assert_eq!(anna.hears_to_the_end().await, ["ack 5", "start", "1: Four. (final)"]);
}

pub(crate) async fn an_answer_can_be_had_again_edited_and_continued() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    for text in ["Blue.", "Green.", "It is red.", "And round."] {
        scene.model.reply(Reply::text(text));
    }
    let question = anna.says("What colour is it?").await;
    let (blue, text) = anna.answer().await;
    assert_eq!(text, "Blue.");

    anna.varies(&blue, VariationMode::Regenerate, None).await;
    let (green, text) = anna.answer().await;
    assert_eq!(text, "Green.");
    assert_ne!(green, blue, "a new answer has an id of its own");
    assert_eq!(dialogue(&scene.asked(1).await), ["user: What colour is it?"]);

    anna.varies(&question, VariationMode::Edit, Some("What colour is the ball?")).await;
    let (red, text) = anna.answer().await;
    assert_eq!(text, "It is red.");
    assert_eq!(dialogue(&scene.asked(2).await), ["user: What colour is the ball?"]);

    anna.varies(&red, VariationMode::Continue, None).await;
    assert_eq!(anna.answer().await.1, "And round.");
    let asked = dialogue(&scene.asked(3).await);
    assert_eq!(asked[..2], ["user: What colour is the ball?", "assistant: It is red."]);
    assert!(asked[2].starts_with("user: Go on"), "{asked:?}");

    anna.varies("nothing", VariationMode::Regenerate, None).await;
    assert_eq!(anna.hears(2).await, ["error 202 final", "refused 5"]);
}
