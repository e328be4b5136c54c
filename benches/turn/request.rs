//! The agent's own work between a `UserMessage` and the request to the model.
//!
//! A client sends a message, the endpoint notes when the whole request is there; from the median of that is taken the
//! median of a bare packet's trip and the median of a bare HTTP request with the same body, both measured in between in the
//! same run. What is left is the agent's: reading, deciding, storing, making the prompt, handing it over. In memory that is
//! all its own work; in a file the message is also waited for to reach the disk, before anybody is told that it did.

use crate::{
    beacon,
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{Script, question},
    visitor::Noticed,
};
use std::time::{Duration, Instant};

/// Until the conversation is about as long as the model can take in.
const ROUNDS: usize = 200;
/// So many turns are a conversation as most are.
const FEW_ROUNDS: usize = 40;
const BARE_EVERY: Duration = Duration::from_millis(23);

pub(crate) async fn measure(report: &mut Report) {
    measure_with(report, "memory:", Target::AtMost(1.0)).await;
    measure_with(report, "sqlite:sotto.db", Target::None).await;
}

async fn measure_with(report: &mut Report, store: &str, target: Target) {
    progress(&format!("UserMessage → request to the model, with store.url = {store}"));
    let script = Script::of_sentences(2, Duration::ZERO);
    let (scene, mut visitor) = Scene::in_one_room(&script, &[("SOTTO_STORE_URL", store)]).await;
    let _beacon = beacon::start(&scene.server, &visitor.room(), BARE_EVERY);
    let client = reqwest::Client::builder().no_proxy().build().expect("a client without wishes");
    let (mut whole, mut packets, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Two bare packets first: rest for the agent, and a like number of both.
        for _ in 0..2 {
            loop {
                if let (_, Noticed::Bare(trip)) = visitor.notice().await {
                    packets.push(trip);
                    break;
                }
            }
        }
        let (text, sent) = visitor.ask().await;
        while !matches!(visitor.notice().await, (_, Noticed::Sentence { last: true })) {}
        let (arrived, body) = {
            let log = scene.endpoint.log();
            let asked = log.requests.iter().rev().find(|request| question(request) == text);
            let asked = asked.expect("it was answered");
            (asked.arrived, asked.body.to_string())
        };
        whole.push(arrived - sent);

        let sent = Instant::now();
        let request = client.post(format!("{}/chat/completions", scene.endpoint.url())).body(body);
        request.send().await.expect("it answers").bytes().await.expect("it answers");
        let arrived = scene.endpoint.log().requests.last().expect("just asked").arrived;
        requests.push(arrived - sent);
    }
    let packet = Samples::new(packets).median();
    let mut add =
        |what: String, value, target| report.add(format!("request, {store} {what}"), value, "ms", target);
    add("a bare packet, median".to_owned(), packet, Target::None);
    let last = ROUNDS - FEW_ROUNDS;
    for (turns, rounds, target) in [
        (format!("turns 1 to {FEW_ROUNDS}"), 0..FEW_ROUNDS, target),
        (format!("turns {last} to {ROUNDS}"), last..ROUNDS, Target::None),
    ] {
        let median = |times: &[Duration]| Samples::new(times[rounds.clone()].iter().copied()).median();
        let (whole, request) = (median(&whole), median(&requests));
        add(format!("{turns}: UserMessage sent → endpoint has the request, median"), whole, Target::None);
        add(format!("{turns}: a bare HTTP request with the same body, median"), request, Target::None);
        add(format!("{turns}: own work, what is left of the first"), whole - packet - request, target);
    }
}
