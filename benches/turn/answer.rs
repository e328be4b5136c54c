//! Question sent → first and last visible text, as a stock LiveKit client sees it (`lk.chat` → `lk.transcription`, LiveKit's
//! Rust SDK), beside the same question put to the endpoint itself over HTTP, turn by turn.

use crate::{
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{PACE, Script},
    visitor::{Noticed, Visitor},
};
use futures_util::StreamExt;
use serde_json::Value;
use std::time::{Duration, Instant};

const ROUNDS: usize = 20;
/// What a model takes to read its prompt.
const BEFORE: Duration = Duration::from_millis(150);

pub(crate) async fn measure(report: &mut Report) {
    progress("question → text, through the agent and without it");
    let script = Script::of_sentences(2, PACE).after(BEFORE);
    let (scene, mut visitor) = Scene::in_one_room(&script, &[]).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client without wishes");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        with.push(through_the_agent(&mut visitor).await);
        let body = scene.endpoint.log().requests.last().expect("it was asked").body.clone();
        without.push(directly(&client, &scene.endpoint.url(), &body).await);
    }
    // The first round opens connections.
    let take = |times: &[[Duration; 2]], nth: usize| Samples::new(times[1..].iter().map(|both| both[nth]));
    for (nth, what) in ["first text", "last text"].into_iter().enumerate() {
        let (with, without) = (take(&with, nth), take(&without, nth));
        let mut add = |what: String, value, unit| report.add(what, value, unit, Target::None);
        add(format!("answer: question → {what}, stock client, median"), with.median(), "ms");
        add(format!("answer: question → {what}, endpoint itself, median"), without.median(), "ms");
        add(format!("answer: question → {what}, client / endpoint"), with.median() / without.median(), "×");
    }
}

async fn through_the_agent(visitor: &mut Visitor) -> [Duration; 2] {
    let sent = visitor.chat().await;
    let mut reader = loop {
        if let (_, Noticed::Transcript(reader)) = visitor.notice().await {
            break reader;
        }
    };
    let mut texts = Vec::new();
    while let Some(Ok(text)) = reader.next().await {
        if !text.is_empty() {
            texts.push(sent.elapsed());
        }
    }
    // The packets of the same answer go their own way; the next question must not interrupt it.
    while !matches!(visitor.notice().await, (_, Noticed::Sentence { last: true })) {}
    first_and_last(&texts)
}

async fn directly(client: &reqwest::Client, url: &str, body: &Value) -> [Duration; 2] {
    let sent = Instant::now();
    let request = client.post(format!("{url}/chat/completions")).body(body.to_string());
    let response = request.send().await.expect("the endpoint answers");
    let (mut stream, mut texts, mut line) = (response.bytes_stream(), Vec::new(), Vec::new());
    while let Some(Ok(bytes)) = stream.next().await {
        for byte in bytes {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            if has_text(&line) {
                texts.push(sent.elapsed());
            }
            line.clear();
        }
    }
    first_and_last(&texts)
}

fn has_text(line: &[u8]) -> bool {
    let data = line.strip_prefix(b"data: ").and_then(|data| serde_json::from_slice::<Value>(data).ok());
    let delta = data.and_then(|data| Some(!data["choices"][0]["delta"]["content"].as_str()?.is_empty()));
    delta.unwrap_or(false)
}

fn first_and_last(texts: &[Duration]) -> [Duration; 2] {
    let (first, last) = (texts.first(), texts.last());
    [*first.expect("there was an answer"), *last.expect("there was an answer")]
}
