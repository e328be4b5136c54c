//! What is sent, and what comes back when all goes well.

use super::*;
use crate::tools::BuiltIn;
use scripted::{Answer, Endpoint as Server, Reply, Style};
use serde_json::json;
use sotto_core::model::{ToolCall, Usage};

/// Neighbours joined: how an answer is cut into chunks is the network's matter.
fn joined(chunks: Vec<Chunk>) -> Vec<Chunk> {
    chunks.into_iter().fold(Vec::new(), |mut all, chunk| {
        match (all.last_mut(), chunk) {
            (Some(Chunk::Text(before)), Chunk::Text(text))
            | (Some(Chunk::Reasoning(before)), Chunk::Reasoning(text)) => before.push_str(&text),
            (_, chunk) => all.push(chunk),
        }
        all
    })
}

#[tokio::test]
async fn every_kind_of_server_gives_the_same_chunks() {
    let script = Answer::default()
        .reasoning("Let me ")
        .reasoning("see.")
        .text("Here ")
        .text("it is.")
        .call("time", json!({"timezone": "Asia/Tokyo"}))
        .usage(100, 64, 20);
    for style in [Style::Vllm, Style::LlamaCpp, Style::Inline, Style::InlineInside] {
        let server = Server::start().await;
        server.reply(Reply::answer(style, &script));
        let endpoint = Endpoint { starts_inside: Some(style == Style::InlineInside), ..known(&server) };
        let mut prompt = prompt("What time is it?");
        prompt.tools = BuiltIn::all().specs();
        let (chunks, failure) = collect(model(vec![endpoint]).answer(prompt)).await;
        assert_eq!(failure, None, "{style:?}");
        let mut chunks = joined(chunks);
        let Some(Chunk::ToolCall(ToolCall { name, arguments, .. })) = chunks.get(2).cloned() else {
            panic!("{style:?}: {chunks:?}")
        };
        assert_eq!((name.as_str(), json!(arguments)), ("time", json!({"Ok": {"timezone": "Asia/Tokyo"}})));
        chunks.remove(2);
        let spoken = |text: &str| text.trim_end().to_owned();
        let chunks: Vec<_> = chunks
            .into_iter()
            .map(|chunk| match chunk {
                Chunk::Reasoning(text) => Chunk::Reasoning(text.trim().to_owned()),
                Chunk::Text(text) => Chunk::Text(spoken(&text)),
                other => other,
            })
            .collect();
        let expected = [
            Chunk::Reasoning("Let me see.".to_owned()),
            Chunk::Text("Here it is.".to_owned()),
            Chunk::Usage(Usage { input: 100, output: 20, reasoning: None, cached: Some(64) }),
            Chunk::Finish(Finish::ToolCalls),
        ];
        assert_eq!(chunks, expected, "{style:?}");
    }
}

#[tokio::test]
async fn chunks_are_handed_out_as_they_come() {
    let server = Server::start().await;
    let gate = scripted::Gate::new();
    let script = Answer::default().text("one ").text("two");
    server.reply(Reply::answer(Style::Vllm, &script).gated(&gate));
    let mut stream = model(vec![known(&server)]).answer(prompt("Count"));
    // The first event only says who speaks.
    gate.pass(2);
    assert_eq!(stream.next().await, Some(Ok(Chunk::Text("one ".to_owned()))));
    gate.pass(1);
    assert_eq!(stream.next().await, Some(Ok(Chunk::Text("two".to_owned()))));
    gate.open();
    assert_eq!(stream.next().await, Some(Ok(Chunk::Finish(Finish::Stop))));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn the_request_names_the_model_and_carries_the_key() {
    let server = Server::start().await;
    server.reply(Reply::text("Hi"));
    let endpoint =
        Endpoint { key: Key::new(" s3cret-key\n"), url: format!("{}/", server.url()), ..known(&server) };
    assert_eq!(answer(&model(vec![endpoint]), "Hello").await, (said("Hi"), None));
    let request = server.request(0).await;
    assert_eq!(request.target, "POST /v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer s3cret-key"));
    assert_eq!(request.body["model"], "scripted");
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["messages"][0]["content"], "Hello");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let server = Server::start().await;
    let body =
        json!({"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]});
    server.reply(Reply::status(200, &body.to_string()));
    assert_eq!(answer(&model(vec![known(&server)]), "Hello").await, (said("Hi"), None));
}

#[test]
fn what_cannot_work_is_refused_at_once_and_without_the_key() {
    let refused = |endpoints| OpenAi::new(endpoints, limits()).err().expect("refused").to_string();
    assert!(refused(vec![]).contains("SOTTO_MODEL_URL"));
    for url in ["", "localhost", "ftp://host/v1", "mailto:me", "http://"] {
        let reason = refused(vec![at(url)]);
        assert!(
            reason.contains("SOTTO_MODEL_URL") && reason.contains("http://localhost:8000/v1"),
            "{url}: {reason}"
        );
    }
    let key = Key::new("two\nlines");
    let reason = refused(vec![at("http://localhost/v1"), Endpoint { key, ..at("http://localhost/v1") }]);
    assert!(reason.contains("[[model.fallback]]") && !reason.contains("two"), "{reason}");
}

#[test]
fn a_key_is_never_shown() {
    let endpoint = Endpoint { key: Key::new("s3cret-key"), ..at("http://localhost/v1") };
    assert!(!format!("{endpoint:?}").contains("s3cret"));
    assert_eq!(Key::new("  "), None);
}
