//! The agent's own work in one round of a tool, with one conversation and with many: from the model's call being complete to the
//! tool being asked, and from the tool's answer to the next request to the model.
//!
//! The tool is an HTTP request, so that both ends tell when bytes left and when they came. From the median of each way is taken
//! the median of a bare HTTP request with the same body to the same end, sent in between in the same run.

use crate::{
    crowd,
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{Script, is_question, question},
    visitor::Visitor,
};
use serde_json::{Value, json};
use sotto_harness::endpoint::{Answer, Endpoint, Reply, Request, Style};
use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

/// Rounds in each conversation: as many as most have, because prompts grow with them.
const ROUNDS_ALONE: usize = 50;
const ROUNDS_OF_MANY: usize = 10;
/// How long each of many waits between two questions: they are conversations, and no siege.
const PAUSE_OF_MANY: Duration = Duration::from_secs(3);
/// How often bare requests are sent, and the header that tells when.
const BARE_EVERY: Duration = Duration::from_millis(23);
const SENT: &str = "x-sent";

pub(crate) async fn measure(report: &mut Report, rooms: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let tool = Endpoint::start().await;
    tool.reply_by(|_| Reply::status(200, r#"{"weather":"fair"}"#));
    let file = configure(directory.path(), &tool);
    let settings = [("SOTTO_CONFIG", file.as_str())];
    // Only what the model is asked to get to know it is answered by this.
    let script = Script::of_sentences(1, Duration::ZERO);

    progress("rounds of a tool in one conversation, with `sotto join`");
    let (scene, visitor) = Scene::in_one_room(&script, &settings).await;
    tell(report, "1 conversation", &scene, &tool, vec![visitor], ROUNDS_ALONE, Duration::ZERO).await;
    drop(scene);

    progress(&format!("rounds of a tool in {rooms} conversations"));
    let mut scene = Scene::for_many_rooms(&script, &settings).await;
    let visitors = crowd::gather(&mut scene, rooms).await;
    let what = format!("{rooms} conversations");
    tell(report, &what, &scene, &tool, visitors, ROUNDS_OF_MANY, PAUSE_OF_MANY).await;
}

/// A file with the tool in it.
fn configure(directory: &Path, tool: &Endpoint) -> String {
    let file = directory.join("sotto.toml");
    let config = format!(
        "[tools]\nallow_hosts = [\"127.0.0.1\"]\n[[tools.http]]\nname = \"weather\"\ndescription = \"Tells the weather.\"\n\
         url = \"{}/weather\"\neffects = []\nrepeatable = true\n\
         parameters = {{ type = \"object\", properties = {{ of = {{ type = \"string\" }} }} }}\n",
        tool.url()
    );
    std::fs::write(&file, config).expect("it can be written");
    file.to_string_lossy().into_owned()
}

/// A question is answered by calling the tool with it, and what the tool gave by a word.
fn answer(request: &Request) -> Reply {
    if is_question(request) && request.header(SENT).is_none() {
        let call = Answer::default().call("weather", json!({"of": question(request)}));
        Reply::answer(Style::Vllm, &call)
    } else {
        Reply::text("Fair.")
    }
}

async fn tell(
    report: &mut Report,
    where_: &str,
    scene: &Scene,
    tool: &Endpoint,
    visitors: Vec<Visitor>,
    rounds: usize,
    pause: Duration,
) {
    scene.endpoint.reply_by(answer);
    let (models, tools) = (scene.endpoint.log().requests.len(), tool.log().requests.len());
    let before = scene.processor_times();
    let began = Instant::now();
    let many = visitors.len();
    let mut asking = JoinSet::new();
    for (number, mut visitor) in visitors.into_iter().enumerate() {
        let first = pause.mul_f64(number as f64 / many as f64);
        asking.spawn(async move {
            sleep(first).await;
            for _ in 0..rounds {
                visitor.ask_and_wait().await;
                sleep(pause).await;
            }
        });
    }
    tokio::select! {
        _ = asking.join_all() => {}
        () = send_bare([&scene.endpoint, tool]) => {}
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = scene.processor_times();
    let [agent, server, others] =
        [0, 1, 2].map(|who| after[who].saturating_sub(before[who]).as_secs_f64() / seconds);
    progress(&format!(
        "cores in use: agent {agent:.2}, server {server:.2}, clients and endpoints {others:.2}"
    ));

    let (models, tools) = (&scene.endpoint.log().requests[models..], &tool.log().requests[tools..]);
    let is_agents = |request: &&Request| request.header(SENT).is_none();
    let by_question: HashMap<&str, &Request> = models
        .iter()
        .filter(|request| is_agents(request) && is_question(request))
        .map(|request| (question(request), request))
        .collect();
    let runs: HashMap<&str, &Request> = tools
        .iter()
        .filter(is_agents)
        .map(|run| (run.body["of"].as_str().unwrap_or_default(), run))
        .collect();
    let last = |request: &Request| request.written.last().copied();
    let calls = runs.iter().filter_map(|(question, run)| {
        Some(run.arrived.saturating_duration_since(last(by_question.get(question)?)?))
    });
    let results = models.iter().filter(is_agents).filter_map(|request| {
        let run = runs.get(asked_by_user(&request.body)).filter(|_| ends_with_result(&request.body))?;
        Some(request.arrived.saturating_duration_since(last(run)?))
    });
    let trips = |requests: &[Request]| Samples::new(requests.iter().filter_map(trip)).median();
    let ways = [
        ("call complete → tool asked", Samples::new(calls), trips(tools)),
        ("result → request to the model", Samples::new(results), trips(models)),
    ];
    for (what, samples, bare) in ways {
        let mut add = |part: &str, value, target| {
            report.add(format!("tools, {where_}: {what}, {part}"), value, "ms", target);
        };
        add("median", samples.median(), Target::None);
        add("p95", samples.p95(), Target::None);
        add("a bare HTTP request, median", bare, Target::None);
        add("own work, median", samples.median() - bare, Target::AtMost(2.0));
        progress(&format!("{} rounds", samples.count()));
    }
}

/// Whom a request to the model is about, however many messages follow.
fn asked_by_user(body: &Value) -> &str {
    let mut messages = body["messages"].as_array().into_iter().flatten();
    let asked = messages.rfind(|message| message["role"] == "user");
    asked.and_then(|message| message["content"].as_str()).unwrap_or_default()
}

fn ends_with_result(body: &Value) -> bool {
    body["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .is_some_and(|last| last["role"] == "tool")
}

/// Sends bare requests to both ends, with what the agent sent there last, for as long as it is asked; each has the moment at
/// which it was sent in a header.
async fn send_bare(ends: [&Endpoint; 2]) {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client without wishes");
    loop {
        for end in ends {
            let body = end.log().requests.last().map(|request| request.body.to_string()).unwrap_or_default();
            let sent = clock().elapsed().as_nanos().to_string();
            let request = client.post(format!("{}/bare", end.url())).header(SENT, sent).body(body);
            request.send().await.expect("it answers").bytes().await.expect("it answers");
        }
        sleep(BARE_EVERY).await;
    }
}

/// How long a bare request was under way.
fn trip(request: &Request) -> Option<Duration> {
    let sent = clock() + Duration::from_nanos(request.header(SENT)?.parse().ok()?);
    Some(request.arrived.saturating_duration_since(sent))
}

/// What both ends, which are in this process, count from.
fn clock() -> Instant {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BEGAN.get_or_init(Instant::now)
}
