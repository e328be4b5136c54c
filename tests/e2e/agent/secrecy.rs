//! What must not be seen where it does not belong, and what should be seen again: canaries in the log, and prefixes of
//! prompts.

use livekit::SendTextOptions;
use serde_json::json;
use sotto_core::wire::body::Body;
use sotto_harness::{
    agent::Ended,
    endpoint::{Answer, Reply, Request, Style},
};

use super::{Scene, told};

const KEY: &str = "canary-key-5ad1";
const INSTRUCTIONS: &str = "canary-instructions: be brief.";

/// At the most talkative level of everything that is linked in.
pub(crate) async fn keys_and_speech_are_in_no_log_metric_or_error() {
    let settings =
        [("SOTTO_LOG", "trace"), ("SOTTO_MODEL_KEY", KEY), ("SOTTO_AGENT_INSTRUCTIONS", INSTRUCTIONS)];
    let mut scene = Scene::begin_with(&settings).await;
    let mut anna = scene.user("anna").await;
    anna.can(&["streaming", "reasoning_deltas", "turn_meta"]).await;
    let answer = Answer::default()
        .reasoning("canary-thought, and the key is ")
        .reasoning(KEY)
        .text("canary-answer. ")
        .call("calculator", json!({"expression": "canary-argument"}));
    scene.model.reply(Reply::answer(Style::Vllm, &answer));
    scene.model.reply(Reply::text("canary-more."));
    anna.says("canary-question").await;
    let heard = anna.hears_to_the_end().await.join("\n");
    assert!(heard.contains("canary-thought") && !heard.contains(KEY), "{heard}");

    // An endpoint that repeats what it was sent, and one that breaks off.
    let echo = json!({"error": {"message": format!("cannot answer 'canary-question two' with {KEY}")}});
    scene.model.reply(Reply::status(400, &echo.to_string()));
    anna.says("canary-question two").await;
    let error =
        anna.until(|body| matches!(body, Body::ErrorMessage(_))).await.pop().expect("just found").body;
    let Body::ErrorMessage(error) = error else { panic!("not an error: {}", told(&error)) };
    assert!(!error.message.contains(KEY) && !error.message.contains("canary-question"), "{}", error.message);
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "canary-beginning"}}]});
    scene.model.reply(Reply::stream().event(&piece).raw("data: {canary-broken\n\n").close());
    anna.says("canary-question three").await;
    anna.until(|body| matches!(body, Body::ErrorMessage(_))).await;

    // Packets that can only just be read, chat of both kinds, and streams.
    anna.sends_bytes(b"canary-garbage".to_vec()).await;
    anna.sends_bytes([b"canary-stream".to_vec(), vec![0; 20_000]].concat()).await;
    let speaker = anna.participant.room.local_participant();
    let broken =
        json!({"id": "1", "timestamp": 1, "message": "canary-legacy", "ignoreLegacy": "canary-legacy"});
    anna.participant.send(broken.to_string().into_bytes(), "lk-chat-topic", true).await;
    let options = SendTextOptions::new_with_topic("lk.chat");
    speaker.send_text("canary-chat", options).await.expect("anna is connected");
    anna.exchange().await;
    let (_, metrics) = scene.agent.get("/metrics").await;
    assert!(!metrics.contains("canary") && !metrics.contains("anna"), "{metrics}");

    // It goes on until it has left, and what is still unread then is nobody's business either.
    for _ in 0..100 {
        let options = SendTextOptions::new_with_topic("lk.chat");
        speaker.send_text("canary-late", options).await.expect("anna is connected");
    }
    scene.agent.terminate();
    let ended = scene.agent.ended().await;
    assert_eq!(ended, Ended::WithCode(0));
    let log = scene.agent.log();
    assert!(log.contains("TRACE"), "the log was as talkative as it can be");
    let (_, secret) = scene.server.api_key();
    // As text, as numbers, in hexadecimal; and the tokens that it joins with.
    let canary = ["canary", "99, 97, 110, 97, 114, 121", "63616e617279"];
    let forbidden = [&canary[..], &[secret, "eyJ", "65794a"]].concat();
    let leaks = log.lines().filter(|line| forbidden.iter().any(|word| line.contains(word)));
    let leaks: Vec<_> = leaks.take(5).collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

/// With the endpoint's simulation of vLLM's cache, which knows prompts alone (the real one has the answers too).
pub(crate) async fn the_beginning_of_a_prompt_stays_the_same() {
    /// Its block.
    const BLOCK: usize = 64;
    let instructions = "You are the friendly voice of a harbour office. ".repeat(40);
    let scene = Scene::begin_with(&[("SOTTO_AGENT_INSTRUCTIONS", &instructions)]).await;
    let mut anna = scene.user("anna").await;
    for turn in 0..8 {
        let thought = format!("They ask about ship {turn}.");
        let text = format!("Ship {turn} is in port. It leaves again at {turn} o'clock.");
        scene.model.reply(Reply::answer(Style::Vllm, &Answer::default().reasoning(&thought).text(&text)));
        assert_eq!(anna.asks(&format!("Where is ship number {turn}, and when does it leave?")).await, text);
    }
    let log = scene.model.log();
    let requests = &log.requests[scene.probes..];
    for pair in requests.windows(2) {
        // All of the prompt before, but for a block that was not full.
        assert!(pair[1].cached + BLOCK > pair[0].prompt, "{} of {}", pair[1].cached, pair[0].prompt);
    }
    let shares: Vec<_> = requests.iter().skip(2).map(Request::cached_share).collect();
    assert!(shares.iter().all(|share| *share >= 0.9), "{shares:?}");
}
