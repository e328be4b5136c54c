//! The endpoint itself, seen over a bare socket.

use super::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn connect(endpoint: &Endpoint) -> TcpStream {
    TcpStream::connect(endpoint.address).await.expect("it listens")
}

async fn ask(socket: &mut TcpStream, body: &Value) {
    let body = body.to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer k\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.expect("it reads");
}

async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut received = Vec::new();
    while !String::from_utf8_lossy(&received).contains(end) {
        assert!(socket.read_buf(&mut received).await.expect("readable") > 0, "closed before {end:?}");
    }
    String::from_utf8_lossy(&received).into_owned()
}

fn prompt(messages: &[&str]) -> Value {
    let messages: Vec<_> =
        messages.iter().map(|text| serde_json::json!({"role": "user", "content": text})).collect();
    serde_json::json!({ "messages": messages })
}

#[tokio::test]
async fn a_reply_goes_on_only_as_the_gate_lets_it() {
    let endpoint = Endpoint::start().await;
    let gate = Gate::new();
    endpoint.reply(Reply::stream().raw("one").raw("two").gated(&gate));
    let mut socket = connect(&endpoint).await;
    ask(&mut socket, &prompt(&["hello"])).await;
    assert_eq!(endpoint.request(0).await.header("authorization"), Some("Bearer k"));
    assert!(endpoint.log().requests[0].written.is_empty());
    gate.pass(1);
    assert!(!read_until(&mut socket, "one").await.contains("two"));
    gate.open();
    read_until(&mut socket, "0\r\n\r\n").await;
    assert_eq!(endpoint.end(0).await, End::Scripted);
}

#[tokio::test]
async fn one_connection_carries_several_requests_and_a_close_is_seen() {
    let endpoint = Endpoint::start().await;
    endpoint.reply(Reply::text("first"));
    endpoint.reply(Reply::text("second").stall());
    let mut socket = connect(&endpoint).await;
    for word in ["first", "second"] {
        ask(&mut socket, &prompt(&[word])).await;
        assert!(read_until(&mut socket, "[DONE]").await.contains(word));
    }
    drop(socket);
    assert_eq!(endpoint.end(1).await, End::ClosedByClient);
    assert_eq!(endpoint.log().connections, 1);
}

#[tokio::test]
async fn the_prefix_cache_knows_what_it_has_seen() {
    let endpoint = Endpoint::start().await;
    endpoint.reply_by(|_| Reply::text("ok"));
    let (long, other) = ("the same words again ".repeat(50), "other words ".repeat(50));
    let mut socket = connect(&endpoint).await;
    for messages in [vec![&*long], vec![&*long, "more"], vec![&*other, &*long]] {
        ask(&mut socket, &prompt(&messages)).await;
        read_until(&mut socket, "0\r\n\r\n").await;
    }
    let shares: Vec<_> = endpoint.log().requests.iter().map(Request::cached_share).collect();
    assert!(shares[0] == 0.0 && shares[1] > 0.9 && shares[2] < 0.1, "{shares:?}");
}
