//! Hooks: the developer's own logic over HTTP, behind the port [`Hooks`](crate::ports::Hooks). When they are asked and what comes
//! of it is the engine's part.
//!
//! | module | what it is for |
//! |---|---|
//! | `question` | what a hook is asked, as JSON |
//! | `answer` | what it may say, strictly |
//! | `signature` | by what it knows that it is asked by us |
//!
//! One `POST` for each question, to the hook's own host and no other (the rule is that of tools, `tools::Targets`); once more, at
//! once, where the connection broke before an answer came: a server may have closed one that was kept in that very moment, and
//! nothing is harmed by the same question under the same id. Dropping a question closes its connection; how long it may take is the
//! engine's to say. What is wrong goes to the log, never with the URL, a header, or anything that was asked or said.

mod answer;
mod question;
mod signature;
#[cfg(test)]
mod tests;

use crate::ports::Hooks;
use crate::tools::{TargetError, Targets, trouble_in_words};
use aws_lc_rs::hmac;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use reqwest::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use sotto_core::engine::hook::{Hook, Matter, Question, Ruling};
use sotto_core::model::{Message, Prompt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::time::timeout;
use tracing::warn;

/// How long an answer may be: much, where a whole conversation comes back, and else no more than anyone would say.
const MOST_MESSAGES_BYTES: usize = 4 << 20;
const MOST_OTHER_BYTES: usize = 256 << 10;

/// One hook, as configured.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Which.
    pub hook: Hook,
    /// Where it is.
    pub url: Url,
    /// What requests are signed with.
    pub secret: Vec<u8>,
    /// What is sent with each request; may hold secrets.
    pub headers: HeaderMap,
}

/// A hook that could not be used at all.
#[derive(Debug, Error)]
#[error("hooks.{name} cannot be used: {reason}")]
pub struct Unusable {
    name: &'static str,
    reason: TargetError,
}

/// Why there is no answer that makes sense. Holds nothing of what was asked or said.
#[derive(Debug, Error)]
pub enum Trouble {
    /// It was not reached.
    #[error("{0}")]
    Away(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// It refused.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// It said too much.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    /// It said what cannot be followed.
    #[error("its answer makes no sense: {0}")]
    Malformed(String),
}

/// The hooks that there are.
pub struct HttpHooks {
    hooks: Vec<Arc<Endpoint>>,
}

struct Endpoint {
    hook: Hook,
    url: Url,
    key: hmac::Key,
    headers: HeaderMap,
    client: Client,
}

impl HttpHooks {
    /// Makes their clients; connects to nothing yet.
    pub fn new(definitions: Vec<Definition>, targets: &Targets) -> Result<Self, Unusable> {
        let endpoint = |definition: Definition| {
            let Definition { hook, url, secret, headers } = definition;
            let client = targets.client(&url).map_err(|reason| Unusable { name: hook.name(), reason })?;
            Ok(Arc::new(Endpoint { hook, url, key: signature::key(&secret), headers, client }))
        };
        Ok(Self { hooks: definitions.into_iter().map(endpoint).collect::<Result<_, _>>()? })
    }

    /// Which there are.
    pub fn configured(&self) -> impl Iterator<Item = Hook> {
        self.hooks.iter().map(|endpoint| endpoint.hook)
    }

    /// Asks a hook about something made up, to see whether it answers. It can tell by `check: true`.
    pub async fn check(&self, hook: Hook, patience: Duration) -> Result<Ruling, Trouble> {
        let Some(endpoint) = self.find(hook) else { return Ok(Ruling::Allow) };
        let text = "This is what sotto check says to see whether the hook answers.".to_owned();
        let matter = match hook {
            Hook::BeforeModel => {
                let messages = vec![Message::User(text)];
                Matter::Prompt(Prompt { messages, tools: Vec::new(), thinking: false })
            }
            Hook::BeforeTool => {
                Matter::Call { tool: "sotto_check".to_owned(), parameters: serde_json::Map::new() }
            }
            Hook::BeforeSay => Matter::Sentence(text),
        };
        let question = Question {
            message: "sotto-check".to_owned(),
            answer: "sotto-check".to_owned(),
            asker: "sotto-check".to_owned(),
            number: 1,
            matter,
        };
        let mut body = question::body("sotto-check", &question);
        body["check"] = true.into();
        timeout(patience, endpoint.ask(&body)).await.unwrap_or(Err(Trouble::Late(patience)))
    }

    fn find(&self, hook: Hook) -> Option<&Arc<Endpoint>> {
        self.hooks.iter().find(|endpoint| endpoint.hook == hook)
    }
}

impl Hooks for HttpHooks {
    fn ask(&self, conversation: &str, question: Question) -> BoxFuture<'static, Option<Ruling>> {
        // Only hooks that there are, are asked.
        let Some(endpoint) = self.find(question.matter.hook()).cloned() else { return ready(None).boxed() };
        let conversation = conversation.to_owned();
        async move {
            let answer = endpoint.ask(&question::body(&conversation, &question)).await;
            let told = |trouble: &Trouble| {
                let (hook, message_id) = (endpoint.hook.name(), &question.message);
                warn!(conversation, message_id, hook, "the hook counts as away: {trouble}");
            };
            answer.inspect_err(told).ok()
        }
        .boxed()
    }
}

impl Endpoint {
    async fn ask(&self, body: &Value) -> Result<Ruling, Trouble> {
        let away = |error: reqwest::Error| Trouble::Away(trouble_in_words(&error));
        let bytes = body.to_string();
        let id = body["id"].as_str().unwrap_or_default();
        let response = match self.send(id, bytes.clone()).await {
            Err(error) if error.is_request() => self.send(id, bytes).await,
            response => response,
        };
        let response = response.map_err(away)?;
        let status = response.status();
        if !status.is_success() {
            return Err(Trouble::Status(status));
        }
        let most = if self.hook == Hook::BeforeModel { MOST_MESSAGES_BYTES } else { MOST_OTHER_BYTES };
        let answer = read(response, most).await?;
        answer::read(self.hook, &answer).map_err(Trouble::Malformed)
    }

    async fn send(&self, id: &str, bytes: String) -> reqwest::Result<Response> {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("sotto/", env!("CARGO_PKG_VERSION")))
            .headers(self.headers.clone())
            .header(question::ID_HEADER, id)
            .header(signature::HEADER, signature::sign(&self.key, seconds, bytes.as_bytes()))
            .body(bytes);
        request.send().await
    }
}

async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Away(trouble_in_words(&error)))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most {
            return Err(Trouble::TooLong(most));
        }
    }
    Ok(bytes)
}
