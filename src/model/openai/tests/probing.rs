//! What is found out about an endpoint, and what is made of it.

use super::*;
use scripted::{Answer, Endpoint as Server, Reply, Request, Style};
use serde_json::json;

use sotto_core::model::request::Switch;
use sotto_core::model::style::{self, Field};

/// How a server of the test takes the wish not to think.
fn wants_thinking(request: &Request, switch: Switch) -> bool {
    let body = &request.body;
    match switch {
        Switch::TemplateKwargs => body["chat_template_kwargs"]["enable_thinking"] != json!(false),
        Switch::TopLevel => body["enable_thinking"] != json!(false),
        Switch::Effort => body["reasoning_effort"] != json!("none"),
        Switch::OpenRouter => body["reasoning"]["enabled"] != json!(false),
        Switch::None => true,
    }
}

/// A model that thinks unless it is told not to by this switch, and calls a tool where it has one.
async fn thinker(style: Style, switch: Switch) -> Server {
    let server = Server::start().await;
    server.reply_by(move |request| {
        let mut answer = Answer::default().text("yes");
        if wants_thinking(request, switch) {
            answer = answer.reasoning("The user wants a yes.");
        }
        if request.body.get("tools").is_some() {
            answer = answer.call("ping", json!({}));
        }
        Reply::answer(style, &answer)
    });
    server
}

fn unknown(server: &Server) -> Endpoint {
    Endpoint { starts_inside: None, find_switch: true, ..known(server) }
}

async fn probe(server: &Server) -> Probe {
    let mut found = model(vec![unknown(server)]).probe().await;
    found.remove(0).expect("it answers")
}

#[tokio::test]
async fn the_style_of_each_kind_of_server_is_found() {
    for (style, expected) in [
        (Style::Vllm, style::Style::Field(Field::Reasoning)),
        (Style::LlamaCpp, style::Style::Field(Field::ReasoningContent)),
        (Style::Inline, style::Style::Inline),
        (Style::InlineInside, style::Style::Inside),
    ] {
        let server = thinker(style, Switch::TemplateKwargs).await;
        let expected = Probe {
            streams: true,
            style: Some(expected),
            style_when_off: None,
            calls_tools: true,
            switch: Switch::TemplateKwargs,
        };
        assert_eq!(probe(&server).await, expected, "{style:?}");
        assert_eq!(requests(&server), 2, "{style:?}: two tiny requests are enough");
    }
}

#[tokio::test]
async fn the_switch_that_works_is_found_and_used() {
    for switch in [Switch::TopLevel, Switch::Effort, Switch::OpenRouter] {
        let server = thinker(Style::Vllm, switch).await;
        let model = model(vec![unknown(&server)]);
        let found = model.probe().await.remove(0).expect("it answers");
        assert_eq!((found.switch, found.style_when_off), (switch, None));
        let (chunks, _) = collect(model.answer(Prompt { thinking: false, ..prompt("Hello") })).await;
        assert_eq!(chunks, said("yes"), "{switch:?}");
    }
}

#[tokio::test]
async fn a_switch_that_is_refused_is_not_used() {
    let server = Server::start().await;
    server.reply_by(|request| {
        if request.body.get("chat_template_kwargs").is_some() {
            Reply::status(400, r#"{"error":{"message":"unknown field"}}"#)
        } else {
            Reply::text("yes")
        }
    });
    let found = probe(&server).await;
    assert_eq!(found.switch, Switch::Effort);
    assert!(!found.thinks() && !found.calls_tools);
}

#[tokio::test]
async fn a_configured_switch_is_left_alone() {
    let server = thinker(Style::Vllm, Switch::Effort).await;
    let endpoint = Endpoint { find_switch: false, ..unknown(&server) };
    let found = model(vec![endpoint]).probe().await.remove(0).expect("it answers");
    assert_eq!(found.switch, Switch::TemplateKwargs);
    assert!(found.style_when_off.is_some(), "it thinks all the same, and that is known");
    assert_eq!(requests(&server), 2);
}

#[tokio::test]
async fn a_server_without_tools_is_asked_without() {
    let server = Server::start().await;
    server.reply_by(|request| {
        if request.body.get("tools").is_some() { Reply::status(400, "{}") } else { Reply::text("yes") }
    });
    let found = probe(&server).await;
    assert!(found.streams && !found.calls_tools);
}

#[tokio::test]
async fn what_was_found_is_remembered() {
    let server = thinker(Style::InlineInside, Switch::TemplateKwargs).await;
    let model = model(vec![unknown(&server)]);
    assert_eq!(model.probe().await, model.clone().probe().await);
    assert_eq!(requests(&server), 2);
}

#[tokio::test]
async fn nobody_hears_thinking_because_nobody_had_asked_before() {
    let server = thinker(Style::InlineInside, Switch::TemplateKwargs).await;
    let model = model(vec![unknown(&server)]);
    for thinking in [true, false, true] {
        let (chunks, failure) = collect(model.answer(Prompt { thinking, ..prompt("Hello") })).await;
        assert_eq!(failure, None);
        let text: String = chunks
            .iter()
            .filter_map(|chunk| if let Chunk::Text(text) = chunk { Some(&**text) } else { None })
            .collect();
        assert_eq!(text, "yes", "thinking: {thinking}");
        assert_eq!(chunks.iter().any(|chunk| matches!(chunk, Chunk::Reasoning(_))), thinking);
    }
    assert_eq!(requests(&server), 2 + 3);
}

#[tokio::test]
async fn an_answer_cut_short_is_asked_for_again_with_more_room() {
    let server = Server::start().await;
    server.reply_by(|request| {
        if request.body["max_tokens"].as_u64() > Some(1000) {
            return Reply::answer(Style::InlineInside, &Answer::default().reasoning("Long").text("yes"));
        }
        let cut = json!({"choices": [{"delta": {"content": "Long tho"}, "finish_reason": "length"}]});
        Reply::stream().event(&cut).done()
    });
    assert!(probe(&server).await.starts_inside(true));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_told_and_asked_again_later() {
    let server = Server::start().await;
    server.reply(Reply::stream().event(&json!({"error": {"message": "out of memory"}})).done());
    server.reply_by(|_| Reply::text("yes"));
    let model = model(vec![unknown(&server)]);
    let failed = model.probe().await.remove(0).expect_err("it failed");
    assert!(failed.recoverable && failed.message.contains("out of memory"), "{failed}");
    assert!(model.probe().await.remove(0).is_ok());
}
