//! The exchange of the protocol, as a Rust participant and as one on the Python SDK see it.

use serde_json::{Value, json};
use sotto_core::wire::body::Body;
use sotto_harness::{
    endpoint::{Answer, Reply, Style},
    peer::Peer,
};

use super::{Scene, dialogue, told};

const THOUGHTS: [&str; 2] = ["They want to know how far it is.", "I know the mean distance."];
const ANSWER: &str = "About 384,400 km. That is 1.28 light seconds, on average.\n\nIt varies by 6 %.";

/// Pieces that fall anywhere, as tokens do.
fn thoughtful() -> Reply {
    let mut answer = Answer::default().usage(200, 0, 60);
    for piece in ["They want ", "to know how far", " it is.\n\nI know", " the mean distance."] {
        answer = answer.reasoning(piece);
    }
    for piece in
        ["About 384,", "400 km. That is 1.", "28 light seconds, on average.\n", "\nIt varies by 6 %."]
    {
        answer = answer.text(piece);
    }
    Reply::answer(Style::Vllm, &answer)
}

pub(crate) async fn the_exchange_is_complete_and_in_order() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    anna.can(&["streaming", "reasoning_steps", "tool_use"]).await;
    for turn in [2, 3] {
        scene.model.reply(thoughtful());
        let question = anna.says("How far is the moon?").await;
        let exchange = anna.exchange().await;
        let lines: Vec<_> = exchange.iter().map(|envelope| told(&envelope.body)).collect();
        assert_eq!(
            lines,
            [
                &format!("ack {turn}"),
                &format!("step 1: {}", THOUGHTS[0]),
                &format!("step 2: {}", THOUGHTS[1]),
                "start",
                "1: About 384,400 km.",
                "2:  That is 1.28 light seconds, on average.",
                "3: \n\nIt varies by 6 %. (final)",
            ]
        );
        let mut answer_id = String::new();
        let mut text = String::new();
        for envelope in &exchange {
            assert_eq!(envelope.conversation.as_deref(), Some(scene.room.as_str()));
            match &envelope.body {
                Body::ReasoningStep(step) => assert_eq!(step.previous_id, question),
                Body::StartAnswer(start) => {
                    assert_eq!(start.previous_id, question);
                    answer_id.clone_from(&start.id);
                }
                Body::AssistantSentence(sentence) => {
                    assert_eq!(sentence.previous_id, answer_id);
                    text.push_str(&sentence.text);
                }
                _ => {}
            }
        }
        assert_eq!(text, ANSWER);
        // Kept stanzas name the one before of the same audience; the others name nothing.
        let previous = |kind: &[u16]| -> Vec<(i32, Option<i64>)> {
            let of_kind = exchange.iter().filter(|envelope| kind.contains(&envelope.body.kind()));
            of_kind
                .map(|envelope| (envelope.stanza, envelope.meta.get("sotto.prev").and_then(Value::as_i64)))
                .collect()
        };
        assert!(previous(&[8]).iter().all(|(_, previous)| previous.is_none()));
        for audience in [previous(&[5]), previous(&[13, 16])] {
            let first_of_all = turn == 2;
            assert_eq!(audience[0].1 == Some(0), first_of_all, "{audience:?}");
            for pair in audience.windows(2) {
                assert_eq!(pair[1].1, Some(pair[0].0.into()), "{audience:?}");
            }
        }
    }
    // What was thought is not told to the model again, what was said is.
    let request = scene.asked(1).await;
    let question = "user: How far is the moon?";
    assert_eq!(dialogue(&request), [question, &format!("assistant: {ANSWER}"), question]);
}

/// `msgpack` of Python, and LiveKit's own WebRTC.
pub(crate) async fn a_python_client_sees_the_same_exchange() {
    let scene = Scene::begin().await;
    let mut python = Peer::join(&scene.server, &scene.room, "python").await;
    // It writes before the agent has been announced to it, or it to the agent.
    scene.model.reply(thoughtful());
    let body = json!({"id": "m1", "conversationId": "", "content": "How far is the moon?"});
    python.call("send_envelope", json!({"stanza": 1, "kind": 2, "body": body})).await;

    let mut seen = Vec::new();
    let mut number = 0;
    loop {
        let envelope = python.event("envelope", |_| true).await["envelope"].clone();
        let keys: Vec<_> =
            envelope["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(keys, ["stanzaId", "conversationId", "type", "meta", "body"]);
        assert_eq!(envelope["conversationId"], scene.room.as_str());
        let stanza = envelope["stanzaId"].as_i64().expect("an int");
        assert!(stanza < number, "{stanza} comes after {number}");
        number = stanza;
        let last = envelope["body"]["isFinal"] == true;
        seen.push(envelope);
        if last {
            break;
        }
    }
    let types: Vec<_> = seen.iter().filter_map(|envelope| envelope["type"].as_i64()).collect();
    assert_eq!(types, [8, 5, 5, 13, 16, 16, 16]);
    let bodies: Vec<_> = seen.iter().map(|envelope| &envelope["body"]).collect();
    assert_eq!(bodies[0], &json!({"conversationId": scene.room, "acknowledgedStanzaId": 1, "success": true}));
    for (index, thought) in THOUGHTS.iter().enumerate() {
        let step = bodies[index + 1];
        assert_eq!((&step["previousId"], &step["stepIndex"]), (&json!("m1"), &json!(index + 1)));
        assert_eq!(&step["content"], thought);
        assert!(step["id"].as_str().is_some_and(|id| id.starts_with("ar_") && id.len() == 24), "{step}");
    }
    assert_eq!(bodies[3]["previousId"], "m1");
    let sentences = &bodies[4..];
    assert!(sentences.iter().all(|sentence| sentence["previousId"] == bodies[3]["id"]));
    assert_eq!(sentences.iter().map(|sentence| &sentence["sequence"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(sentences.iter().filter_map(|sentence| sentence["text"].as_str()).collect::<String>(), ANSWER);
}

pub(crate) async fn tools_are_used_and_their_results_go_back_to_the_model() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    let call = Answer::default()
        .reasoning("I had better work this out.")
        .text("Let me see.")
        .call("calculator", json!({"expression": "17*23"}))
        .call("no_such_tool", json!({}));
    scene.model.reply(Reply::answer(Style::Vllm, &call));
    let rest = Answer::default().reasoning("391, then.").text("It is 391.");
    scene.model.reply(Reply::answer(Style::Vllm, &rest));
    anna.says("What is 17 times 23?").await;
    assert_eq!(
        anna.hears_to_the_end().await,
        [
            "ack 1",
            "step 1: I had better work this out.",
            "start",
            "1: Let me see.",
            "tool calculator {\"expression\":\"17*23\"}",
            "result {\"result\":391}",
            "step 2: 391, then.",
            "2: \n\nIt is 391. (final)",
        ]
    );
    // The model is given what came out, with what it thought before it asked; also that a tool does not exist.
    let request = scene.asked(1).await;
    let messages = request.body["messages"].as_array().expect("a prompt has messages");
    let [.., asked, found, unknown] = messages.as_slice() else { panic!("{messages:?}") };
    let thought = ["reasoning", "reasoning_content"].map(|field| asked[field].as_str());
    assert!(thought.contains(&Some("I had better work this out.")), "{asked}");
    assert_eq!(asked["tool_calls"][0]["function"]["name"], "calculator");
    assert_eq!((&found["role"], &found["content"]), (&json!("tool"), &json!("{\"result\":391}")));
    assert_eq!(found["tool_call_id"], asked["tool_calls"][0]["id"]);
    assert!(unknown["content"].as_str().is_some_and(|content| content.contains("unknown_tool")), "{unknown}");

    // In the next turn the reasoning is gone; call, result and answer are still there.
    anna.asks("Thanks.").await;
    let later = scene.asked(2).await.body["messages"].to_string();
    assert!(!later.contains("I had better"), "{later}");
    assert!(later.contains("391") && later.contains("calculator"), "{later}");
}

/// Both ways, as byte streams, and in their place.
pub(crate) async fn large_envelopes_travel_whole_both_ways() {
    let scene = Scene::begin().await;
    let mut anna = scene.user("anna").await;
    // Whoever takes answers whole gets this one in a single envelope.
    anna.can(&[]).await;
    let question = "Tell me all about it. ".repeat(1_500);
    let answer = "So it is told, in many words. ".repeat(2_000);
    scene.model.reply(Reply::text(&answer));
    anna.says(&question).await;
    assert_eq!(anna.hears(2).await, ["ack 2".to_owned(), format!("answer: {}", answer.trim())]);
    assert_eq!(dialogue(&scene.asked(0).await), [format!("user: {question}")]);
}
