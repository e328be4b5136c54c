//! LiveKit's own conventions: what a stock client, which knows nothing of our packets, writes and reads.

use serde_json::{Value, json};
use sotto_harness::{
    endpoint::{Answer, Gate, Reply, Style},
    peer::Peer,
};

use super::Scene;

const STATE: &str = "lk.agent.state";

pub(crate) async fn a_stock_client_chats_reads_transcripts_and_sees_the_state() {
    let scene = Scene::begin().await;
    let agent = scene.agent.identity();
    let mut python = Peer::join(&scene.server, &scene.room, "python").await;
    let seen = python.call("look", json!({"who": agent})).await;
    assert_eq!(seen["is_agent"], true);
    if seen["attributes"][STATE] != "listening" {
        shows(&mut python, "listening").await;
    }

    let gate = Gate::new();
    let answer = Answer::default().reasoning("A secret thought.").text("It is far. ").text("Very far.");
    scene.model.reply(Reply::answer(Style::Vllm, &answer).gated(&gate));
    python.call("send_text", json!({"text": "How far is it?", "topic": "lk.chat"})).await;
    shows(&mut python, "thinking").await;
    // The role, the thought, and the first half of the answer.
    gate.pass(3);
    let begun = python.event("transcription_begins", |_| true).await;
    assert_eq!(
        (&begun["from"], &begun["attributes"]["lk.transcription_final"]),
        (&json!(agent), &json!("false"))
    );
    shows(&mut python, "speaking").await;
    gate.open();
    let read = python.event("transcription", |_| true).await;
    assert_eq!((&read["from"], &read["text"]), (&json!(agent), &json!("It is far. Very far.")));
    assert_eq!(read["attributes"]["lk.transcription_final"], "true");
    assert_eq!(read["attributes"]["lk.segment_id"], begun["attributes"]["lk.segment_id"]);
    shows(&mut python, "listening").await;

    // A failure is told there too, in words.
    scene.model.reply(Reply::status(401, "{}"));
    python.call("send_text", json!({"text": "And now?", "topic": "lk.chat"})).await;
    let read = python.event("transcription", |_| true).await;
    let text = read["text"].as_str().unwrap_or_default();
    assert!(text.contains("SOTTO_MODEL_KEY"), "{read}");
    // Packets go to everyone; but nobody acknowledges what was no packet.
    python.call("send_text", json!({"text": "Once more?", "topic": "lk.chat"})).await;
    python.event("envelope", |event| is_last_of(event, "Yes.")).await;
    let types = python.call("envelope_types", json!({})).await;
    let types: Vec<_> = types.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    assert_eq!(types, [5, 13, 16, 16, 1, 13, 16]);
}

fn is_last_of(event: &Value, text: &str) -> bool {
    event["envelope"]["body"]["text"] == text
}

async fn shows(python: &mut Peer, state: &str) {
    python.event("attributes", |event| event["changed"][STATE] == state).await;
}
