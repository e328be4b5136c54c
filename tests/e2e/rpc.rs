//! Remote procedure calls, answers and errors, both ways.

use livekit::prelude::*;
use serde_json::json;
use sotto_harness::{
    participant::Participant,
    peer::Peer,
    server::{Server, new_room},
};

/// Answers like the Python peer: the caller's name and the payload in capitals, or the error that was asked for.
fn serve(participant: &Participant) {
    participant.room.local_participant().register_rpc_method("upper".to_owned(), |call| {
        Box::pin(async move {
            if call.payload == "fail" {
                return Err(RpcError::new(1234, "asked to fail".to_owned(), Some("detail".to_owned())));
            }
            Ok(format!("{}:{}", call.caller_identity, call.payload.to_uppercase()))
        })
    });
}

async fn call(caller: &Participant, to: &str, payload: &str) -> Result<String, RpcError> {
    let call = PerformRpcData::new(to.to_owned(), "upper").with_payload(payload);
    caller.room.local_participant().perform_rpc(call).await
}

async fn assert_calls_work(caller: &Participant, to: &str) {
    let expected = format!("{}:HELLO", caller.identity());
    assert_eq!(call(caller, to, "hello").await.expect("the method exists"), expected);
    let long = "x".repeat(14_000);
    let expected = format!("{}:{}", caller.identity(), long.to_uppercase());
    assert!(call(caller, to, &long).await.expect("the method exists") == expected, "the long answer differs");
    let error = call(caller, to, "fail").await.expect_err("asked to fail");
    assert_eq!(
        (error.code, error.message.as_str(), error.data.as_deref()),
        (1234, "asked to fail", Some("detail"))
    );
}

async fn assert_unknown_method_is_an_error(caller: &Participant, to: &str) {
    let call = PerformRpcData::new(to.to_owned(), "nobody-has-this").with_payload("");
    let error = caller.room.local_participant().perform_rpc(call).await.expect_err("nobody has this");
    assert_eq!(error.code, RpcErrorCode::UnsupportedMethod as u32);
}

pub(crate) async fn rust_to_rust() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut boris = Participant::join(&server, &room, "boris").await;
    anna.meets("boris").await;
    boris.meets("anna").await;
    serve(&anna);
    serve(&boris);
    tokio::join!(assert_calls_work(&anna, "boris"), assert_calls_work(&boris, "anna"));
    assert_unknown_method_is_an_error(&anna, "boris").await;
}

pub(crate) async fn rust_and_python() {
    let server = Server::shared().await;
    let room = new_room();
    let mut rust = Participant::join(&server, &room, "rust").await;
    let mut python = Peer::join(&server, &room, "python").await;
    rust.meets("python").await;
    serve(&rust);
    python.call("rpc_serve", json!({"method": "upper"})).await;
    assert_calls_work(&rust, "python").await;
    assert_unknown_method_is_an_error(&rust, "python").await;

    let answer = python.call("rpc", json!({"to": "rust", "method": "upper", "payload": "hello"})).await;
    assert_eq!(answer["answer"], "python:HELLO");
    let answer = python.call("rpc", json!({"to": "rust", "method": "upper", "payload": "fail"})).await;
    assert_eq!(answer, json!({"code": 1234, "message": "asked to fail", "data": "detail"}));
}
