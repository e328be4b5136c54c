//! How much of all prompts is a prefix that the endpoint has seen before, from the third turn on. The scripted endpoint
//! keeps a cache of prompts as vLLM does (whole blocks of 64 bytes, about 16 tokens); what it generated itself, which vLLM
//! keeps too, does not count there.

use crate::{
    report::{Report, Target, progress},
    scene::Scene,
    script::{self, Script},
};
use sotto_harness::endpoint::Request;
use std::time::Duration;

/// A conversation of which nothing is forgotten.
const TURNS: usize = 40;
/// One that fills the default context again and again, so that old turns must be left out.
const MANY_TURNS: usize = 600;

pub(crate) async fn measure(report: &mut Report) {
    progress("cached prefixes");
    let script = Script::of_sentences(6, Duration::ZERO);
    let (scene, mut visitor) = Scene::in_one_room(&script, &[]).await;
    for _ in 0..MANY_TURNS {
        visitor.ask_and_wait().await;
    }
    let log = scene.endpoint.log();
    let turns: Vec<_> = log.requests.iter().filter(|request| script::is_question(request)).collect();
    let mut add = |what: &str, requests: &[&Request], target| {
        let sum = |of: fn(&Request) -> usize| requests.iter().map(|request| of(request)).sum::<usize>();
        let share = sum(|request| request.cached) as f64 / sum(|request| request.prompt) as f64;
        report.add(format!("cache: cached part of {what}"), 100.0 * share, "%", target);
    };
    add("the third prompt alone", &turns[2..3], Target::None);
    add(&format!("prompts 3 to {TURNS}"), &turns[2..TURNS], Target::AtLeast(90.0));
    add(&format!("prompts 3 to {MANY_TURNS}, old turns left out"), &turns[2..], Target::AtLeast(90.0));
}
