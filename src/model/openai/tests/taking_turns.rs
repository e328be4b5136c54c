//! Cancelling, waiting for one's turn, and connections that serve again.

use super::*;
use futures_util::FutureExt;
use futures_util::future::join;
use scripted::{Answer, End, Endpoint as Server, Gate, Reply, Style};

fn one_at_a_time() -> Limits {
    Limits { max_concurrent: 1, ..limits() }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_at_once() {
    let server = Server::start().await;
    server.reply(Reply::answer(Style::Vllm, &Answer::default().reasoning("Hm")).stall());
    server.reply(Reply::silence());
    server.reply(Reply::stream().comment().stall());
    let model = model(vec![known(&server)]);

    // In the middle of an answer.
    let unfinished = serde_json::json!({"choices": [{"delta": {"content": "Well"}}]});
    let other = Server::start().await;
    other.reply(Reply::stream().event(&unfinished).stall());
    let mut stream = self::model(vec![known(&other)]).answer(prompt("Hello"));
    assert_eq!(stream.next().await, Some(Ok(Chunk::Text("Well".to_owned()))));
    drop(stream);
    assert_eq!(other.end(0).await, End::ClosedByClient);

    // A finished answer whose connection is not closed by the server is let go, too.
    assert_eq!(answer(&model, "Hello").await.1, None);
    assert_eq!(server.end(0).await, End::ClosedByClient);

    // Before anything came.
    for number in [1, 2] {
        let mut stream = model.answer(prompt("Hello"));
        let asked = async {
            server.request(number).await;
        };
        tokio::select! {
            item = stream.next() => panic!("nothing can come: {item:?}"),
            () = asked => {}
        }
        drop(stream);
        assert_eq!(server.end(number).await, End::ClosedByClient);
    }
}

#[tokio::test]
async fn a_stream_that_is_not_read_asks_nothing() {
    let server = Server::start().await;
    drop(model(vec![known(&server)]).answer(prompt("Hello")));
    assert_eq!(server.log().connections, 0);
}

#[tokio::test]
async fn turns_are_taken_in_order_and_who_leaves_holds_nobody_up() {
    let server = Server::start().await;
    let gate = Gate::new();
    server.reply(Reply::text("first").gated(&gate));
    server.reply_by(|_| Reply::text("later"));
    let model = model_with(vec![known(&server)], one_at_a_time());
    let mut first = model.answer(prompt("first"));
    gate.pass(2);
    assert_eq!(first.next().await, Some(Ok(Chunk::Text("first".to_owned()))));

    let mut waiting: Vec<_> = ["a", "b", "c", "d"].map(|name| Some(model.answer(prompt(name)))).into();
    for stream in waiting.iter_mut().flatten() {
        assert!(stream.next().now_or_never().is_none(), "somebody else is being answered");
    }
    waiting[1] = None;
    assert_eq!(requests(&server), 1);
    gate.open();
    assert_eq!(collect(first).await.1, None);
    // Asked in the other order, they would still be served in theirs.
    let rest: Vec<_> = waiting.into_iter().flatten().rev().map(collect).collect();
    for (chunks, failure) in join_all(rest).await {
        assert_eq!((chunks, failure), (said("later"), None));
    }
    let log = server.log();
    let order: Vec<_> =
        log.requests.iter().map(|request| request.body["messages"][0]["content"].clone()).collect();
    assert_eq!(order, ["first", "a", "c", "d"]);
}

#[tokio::test]
async fn a_place_is_free_again_after_a_failure_and_after_a_cancel() {
    let server = Server::start().await;
    server.reply(Reply::status(400, "{}"));
    server.reply(Reply::silence());
    server.reply(Reply::text("Hi"));
    let model = model_with(vec![known(&server)], one_at_a_time());
    failure(&model).await;
    let mut stream = model.answer(prompt("Hello"));
    tokio::select! {
        item = stream.next() => panic!("nothing can come: {item:?}"),
        _ = server.request(1) => {}
    }
    drop(stream);
    assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
}

#[tokio::test]
async fn a_turn_that_does_not_come_is_told_and_the_next_one_comes() {
    let server = Server::start().await;
    let gate = Gate::new();
    server.reply(Reply::text("first").gated(&gate));
    server.reply(Reply::text("Hi"));
    let limits = Limits { in_queue: Duration::from_millis(50), ..one_at_a_time() };
    let model = model_with(vec![known(&server)], limits);
    let mut first = model.answer(prompt("first"));
    gate.pass(2);
    assert_eq!(first.next().await, Some(Ok(Chunk::Text("first".to_owned()))));
    let failure = failure(&model).await;
    assert!(failure.recoverable && failure.message.contains("model.queue_timeout"), "{failure}");
    assert_eq!(requests(&server), 1, "nobody was asked");
    gate.open();
    assert_eq!(collect(first).await.1, None);
    assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
}

#[tokio::test]
async fn waiting_for_a_turn_is_not_the_endpoints_time() {
    let server = Server::start().await;
    let unfinished = serde_json::json!({"choices": [{"delta": {"content": "Well"}}]});
    server.reply(Reply::stream().event(&unfinished).stall());
    server.reply(Reply::text("Hi"));
    // The first answer keeps its place for longer than a first token may take.
    let limits = Limits {
        first_token: Duration::from_secs(1),
        between_chunks: Duration::from_millis(1500),
        ..one_at_a_time()
    };
    let model = model_with(vec![known(&server)], limits);
    let mut first = model.answer(prompt("first"));
    assert_eq!(first.next().await, Some(Ok(Chunk::Text("Well".to_owned()))));
    let (first, second) = join(collect(first), answer(&model, "second")).await;
    assert!(first.1.is_some_and(|failure| failure.message.contains("model.chunk_timeout")));
    assert_eq!(second, (said("Hi"), None));
}

#[tokio::test]
async fn one_connection_serves_one_answer_after_the_other() {
    let server = Server::start().await;
    server.reply_by(|_| Reply::text("Hi"));
    let model = model(vec![known(&server)]);
    for _ in 0..20 {
        assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
        // The connection goes back to the pool in a task of its own.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(requests(&server), 20);
    let connections = server.log().connections;
    assert!(connections <= 2, "{connections} connections for 20 answers");
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_is_nobodys_failure() {
    let server = Server::start().await;
    server.reply(Reply::text("Hi"));
    server.reply(Reply::hang_up());
    server.reply(Reply::text("Hi"));
    let model = model_with(vec![known(&server)], Limits { retries: 0, ..limits() });
    for _ in 0..2 {
        assert_eq!(answer(&model, "Hello").await, (said("Hi"), None));
    }
    assert_eq!(requests(&server), 3);
}

#[tokio::test]
async fn answers_at_the_same_time_do_not_wait_for_each_other() {
    let server = Server::start().await;
    let gate = Gate::new();
    let held = gate.clone();
    server.reply_by(move |_| Reply::text("Hi").gated(&held));
    let model = model(vec![known(&server)]);
    let answers = join_all((0..8).map(|_| answer(&model, "Hello")));
    let all_asked = async {
        server.until("eight requests at once", |log| (log.requests.len() == 8).then_some(())).await;
        gate.open();
    };
    let (answers, ()) = join(answers, all_asked).await;
    assert!(answers.into_iter().all(|answer| answer == (said("Hi"), None)));
}
