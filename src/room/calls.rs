//! The port [`Calls`](ports::Calls) over LiveKit's RPC: tools that people's clients run as methods.
//!
//! The SDK tells answers from one another by ids that only the one who was called is told. Whose answers it sees at all, and
//! how many, is decided before: see [`expect_answer_from`].

use crate::ports;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use libwebrtc::sender_identity::expect_answer_from;
use livekit::prelude::{LocalParticipant, PerformRpcData, RpcError, RpcErrorCode};
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use std::time::Duration;

/// What LiveKit carries as the payload of a call.
const MOST_BYTES: usize = 15 * 1024;
/// How long the way there and back may take; the SDK takes it off the time that it tells the one who is called.
const ROUND_TRIP: Duration = Duration::from_secs(7);

/// Calls in one room.
#[derive(Debug)]
pub(super) struct Calls(pub(super) LocalParticipant);

impl ports::Calls for Calls {
    fn call(
        &self,
        identity: &str,
        method: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> BoxFuture<'static, ToolOutcome> {
        let (ourselves, identity, method) = (self.0.clone(), identity.to_owned(), method.to_owned());
        let payload = Value::Object(arguments).to_string();
        async move {
            if payload.len() > MOST_BYTES {
                return ToolOutcome::InvalidParameters(format!(
                    "The arguments are {} bytes long, and this tool takes at most {MOST_BYTES}. Call it with less.",
                    payload.len()
                ));
            }
            let answer = expect_answer_from(identity.as_str());
            let call = PerformRpcData::new(identity, method)
                .with_payload(payload)
                .with_max_round_trip_latency(ROUND_TRIP)
                .with_response_timeout(timeout + ROUND_TRIP);
            // By itself: the SDK would remember a call that was dropped for as long as the room lasts.
            let calling = tokio::spawn(async move {
                let answered = ourselves.perform_rpc(call).await;
                drop(answer);
                answered
            });
            match calling.await {
                Ok(Ok(answer)) => ToolOutcome::Done(meaning(answer)),
                Ok(Err(error)) => ToolOutcome::Failed(in_words(&error)),
                Err(_) => ToolOutcome::Failed("The call could not be made.".to_owned()),
            }
        }
        .boxed()
    }
}

/// JSON where it is JSON, else text.
fn meaning(answer: String) -> Value {
    serde_json::from_str(&answer).unwrap_or(Value::String(answer))
}

/// What went wrong, for the model. Words of an app's own are as it wrote them.
fn in_words(error: &RpcError) -> String {
    let is = |code: RpcErrorCode| error.code == code as u32;
    if is(RpcErrorCode::UnsupportedMethod) {
        "The user's client has no such method.".to_owned()
    } else if is(RpcErrorCode::RecipientNotFound) || is(RpcErrorCode::RecipientDisconnected) {
        "The user's client, which was to run this, has left. It may have been run.".to_owned()
    } else if is(RpcErrorCode::ConnectionTimeout) {
        "The user's client did not take the call. It was probably not run.".to_owned()
    } else if is(RpcErrorCode::ResponsePayloadTooLarge) {
        "It was run, but its answer was too long to be sent.".to_owned()
    } else {
        match error.data.as_deref().map(str::trim) {
            None | Some("") => error.message.clone(),
            Some(detail) => format!("{}: {detail}", error.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_json_or_text() {
        assert_eq!(meaning("{\"a\": 1}".to_owned()), json!({"a": 1}));
        assert_eq!(meaning("It is {done.".to_owned()), json!("It is {done."));
        assert_eq!(meaning(String::new()), json!(""));
    }

    #[test]
    fn failures_are_told_in_words_and_those_of_an_app_as_it_wrote_them() {
        let told = |code, message: &str, data: Option<&str>| {
            in_words(&RpcError::new(code, message.to_owned(), data.map(str::to_owned)))
        };
        assert_eq!(
            told(1400, "Method not supported at destination", None),
            "The user's client has no such method."
        );
        assert!(told(1503, "Recipient disconnected", None).contains("may have been run"));
        assert_eq!(told(42, "The lamp is broken", Some("bulb 3")), "The lamp is broken: bulb 3");
        assert_eq!(told(42, "The lamp is broken", Some("")), "The lamp is broken");
    }
}
