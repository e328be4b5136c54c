//! Reading with patience, in a time that passes only here.

use super::*;
use crate::model::Limits;
use sotto_core::model::{Finish, StreamError};
use tokio::sync::mpsc;
use tokio::time::{advance, sleep};

const FIRST: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_secs(20);
const TOTAL: Duration = Duration::from_secs(600);

/// Bytes, each after a pause; at the end the body ends, or nothing more comes.
fn body(
    pieces: Vec<(Duration, &'static str)>,
    ends: bool,
) -> impl Stream<Item = Result<&'static [u8], Trouble>> + Send + Unpin + 'static {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        for (pause, piece) in pieces {
            sleep(pause).await;
            if sender.send(Ok(piece.as_bytes())).await.is_err() {
                return;
            }
        }
        if !ends {
            sender.closed().await;
        }
    });
    Box::pin(futures_util::stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    }))
}

async fn read(pieces: Vec<(Duration, &'static str)>, ends: bool) -> (Vec<Chunk>, Result<(), Trouble>) {
    let limits = Limits { first_token: FIRST, between_chunks: BETWEEN, total: TOTAL, ..Limits::default() };
    let mut reading = Reading::new(body(pieces, ends), StreamOptions::default(), Patience::begin(&limits));
    let mut chunks = Vec::new();
    loop {
        let batch = reading.next().await;
        chunks.extend(batch.chunks);
        if let Some(end) = batch.end {
            return (chunks, end);
        }
    }
}

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const PING: &str = ": ping\n\n";
const CALL: &str = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\
                    \"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n";
const MORE: &str = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\
                    \"function\":{\"arguments\":\" \"}}]}}]}\n\n";
const LAST: &str = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\
                    \"function\":{\"arguments\":\"}\"}}]}}]}\n\n";

fn just_within(limit: Duration) -> Duration {
    limit.saturating_sub(Duration::from_millis(1))
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_that_goes_on_is_never_cut() {
    let mut pieces = vec![(just_within(FIRST), TEXT)];
    pieces.extend(std::iter::repeat_n((just_within(BETWEEN), TEXT), 20));
    pieces.push((just_within(BETWEEN), STOP));
    pieces.push((Duration::ZERO, DONE));
    let (chunks, end) = read(pieces, true).await;
    assert_eq!(end, Ok(()));
    assert_eq!(chunks.len(), 22);
}

#[tokio::test(start_paused = true)]
async fn fragments_of_a_call_are_progress() {
    let mut pieces = vec![(just_within(FIRST), CALL)];
    pieces.extend(std::iter::repeat_n((just_within(BETWEEN), MORE), 10));
    pieces.extend([(just_within(BETWEEN), LAST), (just_within(BETWEEN), STOP), (Duration::ZERO, DONE)]);
    let (chunks, end) = read(pieces, true).await;
    assert_eq!(end, Ok(()));
    assert_eq!(chunks.last(), Some(&Chunk::Finish(Finish::ToolCalls)));
}

#[tokio::test(start_paused = true)]
async fn comments_are_no_progress() {
    let pings = std::iter::repeat_n((Duration::from_secs(1), PING), 300);
    assert_eq!(read(pings.clone().collect(), false).await.1, Err(Trouble::NoFirstToken(FIRST)));
    let pieces = [(Duration::ZERO, TEXT)].into_iter().chain(pings).collect();
    let (chunks, end) = read(pieces, false).await;
    assert_eq!((chunks.len(), end), (1, Err(Trouble::Stalled(BETWEEN))));
}

#[tokio::test(start_paused = true)]
async fn the_whole_answer_has_its_limit() {
    let pieces = std::iter::repeat_n((Duration::from_secs(10), TEXT), 1000).collect();
    let (chunks, end) = read(pieces, false).await;
    assert_eq!(end, Err(Trouble::TooLong(TOTAL)));
    assert!((59..=60).contains(&chunks.len()), "{}", chunks.len());
}

#[tokio::test(start_paused = true)]
async fn a_finished_answer_is_good_however_the_body_ends() {
    for ends in [true, false] {
        let (chunks, end) = read(vec![(Duration::ZERO, TEXT), (Duration::ZERO, STOP)], ends).await;
        assert_eq!(end, Ok(()), "ends: {ends}");
        assert_eq!(chunks.last(), Some(&Chunk::Finish(Finish::Stop)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_before_an_error_is_passed_on() {
    let (chunks, end) = read(vec![(Duration::ZERO, TEXT)], true).await;
    assert_eq!(chunks, [Chunk::Text("a".to_owned())]);
    assert_eq!(end, Err(Trouble::Stream(StreamError::Truncated)));
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_takes_long_does_not_blame_the_endpoint() {
    let pieces =
        vec![(Duration::ZERO, TEXT), (Duration::ZERO, TEXT), (Duration::ZERO, STOP), (Duration::ZERO, DONE)];
    let limits = Limits { first_token: FIRST, between_chunks: BETWEEN, total: TOTAL, ..Limits::default() };
    let mut reading = Reading::new(body(pieces, true), StreamOptions::default(), Patience::begin(&limits));
    assert!(reading.next().await.says_anything());
    advance(BETWEEN * 2).await;
    let batch = reading.next().await;
    assert!(batch.says_anything() && batch.end.is_none(), "{batch:?}");
}
