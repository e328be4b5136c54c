//! `sotto check`: does everything that is configured work? Tries each part for real and says what to do where it does not.

use crate::address;
use crate::app::{App, AppError};
use crate::config::{Config, Endpoint};
use crate::model::Probe;
use crate::tools::Approval;
use anyhow::bail;
use livekit_api::access_token::{AccessToken, VideoGrants};
use livekit_signaling::{SignalClient, SignalOptions};
use serde_json::{Value, json};
use sotto_core::model::request::Switch;
use sotto_core::model::style::{Field, Style};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Try everything that is configured, and say what to do where it does not work.
///
/// Joins LiveKit for a moment (in a room of its own, hidden), and asks the model something tiny: does it stream, does it
/// think, and how, does it call tools. Starts the MCP servers, and asks the hooks about something made up. The exit code is 0 if all is well.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
#[derive(Debug)]
struct Finding {
    what: String,
    good: bool,
    text: String,
    details: Value,
}

/// Tries everything, in order.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    let mut findings = vec![Finding {
        what: "configuration".to_owned(),
        good: true,
        text: "is valid".to_owned(),
        details: Value::Null,
    }];
    findings.push(livekit(&config).await);
    let app = App::new(config)?;
    findings.extend(model(&app).await);
    findings.push(store(&app).await);
    findings.extend(tools(&app).await);
    findings.extend(hooks(&app).await);
    print(&findings, arguments.json);
    let bad = findings.iter().filter(|finding| !finding.good).count();
    if bad > 0 {
        bail!("{bad} of {} checks failed", findings.len());
    }
    Ok(())
}

fn print(findings: &[Finding], json: bool) {
    if json {
        let checks: Vec<Value> = findings
            .iter()
            .map(|finding| json!({ "what": finding.what, "ok": finding.good, "text": finding.text, "details": finding.details }))
            .collect();
        println!("{}", json!({ "ok": findings.iter().all(|finding| finding.good), "checks": checks }));
        return;
    }
    for Finding { what, good, text, .. } in findings {
        println!("{} {what}: {text}", if *good { "✓" } else { "✗" });
    }
}

async fn store(app: &App) -> Finding {
    let what = "store".to_owned();
    let checked = async { Ok(app.store().await?.check().await?) };
    let checked: Result<_, AppError> = checked.await;
    match checked {
        Ok(report) => {
            let good = report.problems.is_empty();
            let text = if good {
                format!(
                    "{}, {} conversations, {} kB",
                    report.place,
                    report.conversations,
                    report.bytes / 1_000
                )
            } else {
                format!("{}: {}", report.place, report.problems.join("; "))
            };
            let details = json!({
                "place": report.place, "conversations": report.conversations, "bytes": report.bytes,
                "problems": report.problems,
            });
            Finding { what, good, text, details }
        }
        Err(error) => Finding { what, good: false, text: error.to_string(), details: Value::Null },
    }
}

/// Starts each MCP server, and sees what of its tools the model would be offered.
async fn tools(app: &App) -> Vec<Finding> {
    let tools = app.toolbox().open();
    tools.settled(PATIENCE).await;
    let mut findings = Vec::new();
    for server in tools.servers() {
        let offers = server.offers();
        let approved = offers.iter().filter(|offer| offer.approval == Approval::Approved).count();
        let settled = timeout(Duration::ZERO, server.settled()).await;
        let (good, text) =
            match settled.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs()))) {
                Err(reason) => (false, reason),
                Ok(()) if approved == offers.len() => (true, format!("{approved} tools")),
                Ok(()) => (
                    false,
                    format!("only {approved} of {} tools are approved; see `sotto tools list`", offers.len()),
                ),
            };
        let details = json!({ "tools": offers.len(), "approved": approved });
        findings.push(Finding { what: format!("MCP server {}", server.name()), good, text, details });
    }
    findings
}

async fn hooks(app: &App) -> Vec<Finding> {
    let mut findings = Vec::new();
    for hook in app.hooks().configured() {
        let asked = Instant::now();
        let answered = app.hooks().check(hook, PATIENCE).await;
        let (good, text) = match answered {
            Ok(_) => (true, format!("answers within {} ms", asked.elapsed().as_millis().max(1))),
            Err(trouble) => (false, trouble.to_string()),
        };
        findings.push(Finding { what: format!("hook {}", hook.name()), good, text, details: Value::Null });
    }
    findings
}

async fn livekit(config: &Config) -> Finding {
    let url = config.livekit.url.shown().to_owned();
    let what = format!("LiveKit at {url}");
    let finding = |good, text: String, details| Finding { what: what.clone(), good, text, details };
    let (api_key, api_secret) = match config.livekit.credentials() {
        Ok(credentials) => credentials,
        Err(error) => return finding(false, error.to_string(), Value::Null),
    };
    let grants = VideoGrants {
        room_join: true,
        room: "sotto-check".to_owned(),
        hidden: true,
        can_publish: Some(false),
        can_subscribe: Some(false),
        ..VideoGrants::default()
    };
    let token = AccessToken::with_api_key(api_key, api_secret.expose())
        .with_identity("sotto-check")
        .with_grants(grants)
        .to_jwt();
    let token = match token {
        Ok(token) => token,
        Err(error) => return finding(false, format!("no token could be made: {error}"), Value::Null),
    };
    let mut options = SignalOptions::default();
    options.region_failover = false;
    let connected =
        timeout(PATIENCE, SignalClient::connect(&config.livekit.url, &token, options, None)).await;
    match connected {
        Err(_) => finding(
            false,
            format!("no answer within {} s; is it running, and is LIVEKIT_URL right?", PATIENCE.as_secs()),
            Value::Null,
        ),
        Ok(Err(error)) => {
            let text = address::hidden_in(&error.to_string());
            let remedy = if text.contains("401") {
                "the key is refused: check LIVEKIT_API_KEY and LIVEKIT_API_SECRET"
            } else {
                "is it running, and is LIVEKIT_URL right?"
            };
            finding(false, format!("{remedy} ({text})"), Value::Null)
        }
        Ok(Ok((client, join, _events))) => {
            client.close().await;
            let version = join.server_info.map(|info| info.version).unwrap_or_default();
            finding(
                true,
                format!("livekit-server {version} answers and accepts the key"),
                json!({ "version": version }),
            )
        }
    }
}

async fn model(app: &App) -> Vec<Finding> {
    let Some(endpoints) = app.endpoints() else {
        let text = "the built-in demo answers; set SOTTO_MODEL_URL to use a real one".to_owned();
        return vec![Finding {
            what: "model".to_owned(),
            good: true,
            text,
            details: json!({ "kind": "demo" }),
        }];
    };
    let probes = endpoints.probe().await;
    app.config().model.endpoints.iter().zip(probes).map(|(endpoint, probe)| shown(endpoint, probe)).collect()
}

fn shown(endpoint: &Endpoint, probe: Result<Probe, sotto_core::model::Failure>) -> Finding {
    let what = format!("model {} at {}", endpoint.name.shown(), endpoint.url.shown());
    let probe = match probe {
        Ok(probe) => probe,
        Err(failure) => return Finding { what, good: false, text: failure.message, details: Value::Null },
    };
    let style = match probe.style {
        None => "does not think",
        Some(Style::Field(Field::Reasoning)) => "thinks (delta.reasoning)",
        Some(Style::Field(Field::ReasoningContent)) => "thinks (delta.reasoning_content)",
        Some(Style::Field(_)) => "thinks (a field of its own)",
        Some(Style::Inline) => "thinks (inline, between tags)",
        Some(Style::Inside) => "thinks (inline, its stream begins inside)",
    };
    let yes = |word: &'static str, yes: bool| {
        if yes { word.to_owned() } else { format!("does not {}", word.trim_end_matches('s')) }
    };
    let streams = yes("streams", probe.streams);
    let tools = if probe.calls_tools { "calls tools" } else { "did not call a tool when it should" };
    let switch = match probe.switch {
        Switch::TemplateKwargs => "template",
        Switch::TopLevel => "top_level",
        Switch::Effort => "effort",
        Switch::OpenRouter => "openrouter",
        Switch::None => "none",
    };
    let stays =
        if probe.style_when_off.is_some() { ", also when told not to (see model.switch)" } else { "" };
    Finding {
        what,
        good: probe.streams,
        text: format!("answers, {streams}, {style}{stays}, {tools}; model.switch = {switch:?}"),
        details: json!({
            "streams": probe.streams, "thinks": probe.thinks(), "style": style, "calls_tools": probe.calls_tools, "switch": switch,
        }),
    }
}
