//! The adapter against an endpoint that does what it is told.

mod answering;
mod failing;
mod probing;
mod taking_turns;

use super::*;
use crate::model::Key;
use sotto_core::model::request::RequestOptions;
use sotto_core::model::{Finish, Message};
use sotto_harness::endpoint as scripted;

/// Quick where a test waits for us, patient where it waits for the endpoint.
fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(20),
        first_token: Duration::from_secs(20),
        between_chunks: Duration::from_secs(20),
        total: Duration::from_secs(60),
        retries: 2,
        back_off: Duration::from_millis(1),
        ..Limits::default()
    }
}

/// An endpoint of which everything is known.
fn known(server: &scripted::Endpoint) -> Endpoint {
    at(&server.url())
}

fn at(url: &str) -> Endpoint {
    Endpoint {
        shown_url: None,
        thinks: true,
        url: url.to_owned(),
        key: None,
        starts_inside: Some(false),
        find_switch: false,
        request: RequestOptions { model: "scripted".to_owned(), ..RequestOptions::default() },
    }
}

fn model(endpoints: Vec<Endpoint>) -> OpenAi {
    model_with(endpoints, limits())
}

fn model_with(endpoints: Vec<Endpoint>, limits: Limits) -> OpenAi {
    OpenAi::new(endpoints, limits).expect("good endpoints")
}

fn prompt(text: &str) -> Prompt {
    Prompt { messages: vec![Message::User(text.to_owned())], tools: Vec::new(), thinking: true }
}

/// The whole answer: what came, and the failure that ended it.
async fn answer(model: &OpenAi, text: &str) -> (Vec<Chunk>, Option<Failure>) {
    collect(model.answer(prompt(text))).await
}

async fn collect(mut stream: BoxStream<'static, Result<Chunk, Failure>>) -> (Vec<Chunk>, Option<Failure>) {
    let mut chunks = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "a failure is the last item");
                return (chunks, Some(failure));
            }
        }
    }
    (chunks, None)
}

async fn failure(model: &OpenAi) -> Failure {
    let (chunks, failure) = answer(model, "Hello").await;
    assert_eq!(chunks, []);
    failure.expect("no answer came")
}

fn said(text: &str) -> Vec<Chunk> {
    vec![Chunk::Text(text.to_owned()), Chunk::Finish(Finish::Stop)]
}

fn requests(server: &scripted::Endpoint) -> usize {
    server.log().requests.len()
}
