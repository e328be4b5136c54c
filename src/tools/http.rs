//! Tools that are one HTTP request each: the arguments as JSON in, the answer as JSON (or text) out.
//!
//! `GET`, `HEAD` and `DELETE` carry the arguments in the query, all others in the body. Where a tool may be connected to is the
//! rule of `targets`. Dropping a run closes its connection. Words about failures never hold the URL or a header: both may
//! have secrets in them.

use super::results::{cut, notice};
use super::targets::{TargetError, Targets};
use super::terms::Terms;
use crate::ports::{Progress, Tools};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::Tool;
use std::error::Error;
use std::time::Duration;
use thiserror::Error;

/// One tool, as configured.
#[derive(Clone, Debug)]
pub struct Definition {
    /// How the model calls it; see `names`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Where it is.
    pub url: Url,
    /// How it is asked.
    pub method: Method,
    /// What is sent with each request; may hold secrets.
    pub headers: HeaderMap,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// What holds for it.
    pub terms: Terms,
}

/// A tool that could not be used at all.
#[derive(Debug, Error)]
#[error("the tool (or server of tools) {name:?} cannot be used: {reason}")]
pub struct Unusable {
    name: String,
    reason: TargetError,
}

impl Unusable {
    /// Says why.
    pub fn new(name: &str, reason: TargetError) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// HTTP tools, with a client each that reaches nothing but the tool's host.
pub struct HttpTools {
    tools: Vec<(Definition, Client)>,
}

impl HttpTools {
    /// Makes their clients; connects to nothing yet.
    pub fn new(definitions: Vec<Definition>, targets: &Targets) -> Result<Self, Unusable> {
        let tools = definitions.into_iter().map(|definition| match targets.client(&definition.url) {
            Ok(client) => Ok((definition, client)),
            Err(reason) => Err(Unusable { name: definition.name, reason }),
        });
        Ok(Self { tools: tools.collect::<Result<_, _>>()? })
    }

    fn find(&self, name: &str) -> Option<&(Definition, Client)> {
        self.tools.iter().find(|(definition, _)| definition.name == name)
    }
}

impl Tools for HttpTools {
    fn offered(&self) -> Vec<Tool> {
        let tools = self.tools.iter().map(|(definition, _)| {
            let Definition { name, description, parameters, terms, .. } = definition;
            terms.tool(name.clone(), description.clone(), parameters.clone())
        });
        tools.collect()
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::empty().boxed()
    }

    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
        _progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        let Some((definition, client)) = self.find(name) else {
            return std::future::ready(ToolOutcome::Failed(format!("there is no tool {name:?}"))).boxed();
        };
        let most = definition.terms.max_result_bytes;
        let request = request(definition, client, arguments).timeout(timeout);
        async move { cut(ask(request, most).await, most) }.boxed()
    }
}

fn request(
    definition: &Definition,
    client: &Client,
    arguments: Map<String, Value>,
) -> reqwest::RequestBuilder {
    let Definition { url, method, headers, .. } = definition;
    let in_query = [Method::GET, Method::HEAD, Method::DELETE].contains(method);
    let mut url = url.clone();
    if in_query && !arguments.is_empty() {
        let mut query = url.query_pairs_mut();
        for (name, value) in &arguments {
            match value {
                Value::Null => continue,
                Value::String(text) => query.append_pair(name, text),
                other => query.append_pair(name, &other.to_string()),
            };
        }
    }
    let request = client.request(method.clone(), url).header(reqwest::header::ACCEPT, "application/json");
    // The configuration's go before ours.
    let request = if in_query {
        request
    } else {
        request
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(Value::Object(arguments).to_string())
    };
    request.headers(headers.clone())
}

async fn ask(request: reqwest::RequestBuilder, most: usize) -> ToolOutcome {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return ToolOutcome::Failed(in_words(&error)),
    };
    let status = response.status();
    let (text, is_whole) = match body(response, most).await {
        Ok(body) => body,
        Err(error) => return ToolOutcome::Failed(in_words(&error)),
    };
    if !status.is_success() {
        let reason = match text.trim() {
            "" => format!("the service answered {status}"),
            said => format!("the service answered {status}: {said}"),
        };
        // What services say when they do not like the arguments; the model may do better.
        return match status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                ToolOutcome::InvalidParameters(reason)
            }
            _ => ToolOutcome::Failed(reason),
        };
    }
    if !is_whole {
        return ToolOutcome::Done(text.into());
    }
    ToolOutcome::Done(match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(_) if text.trim().is_empty() => "done; the service said nothing".into(),
        Err(_) => text.into(),
    })
}

/// The answer as text, read no further than needed; and whether that is all of it.
async fn body(mut response: Response, most: usize) -> reqwest::Result<(String, bool)> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most {
            let text = String::from_utf8_lossy(&bytes);
            let kept = &text[..text.floor_char_boundary(most.saturating_sub(notice(most, None).len()))];
            return Ok((format!("{kept}{}", notice(most, None)), false));
        }
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), true))
}

/// What went wrong, without the URL.
pub(crate) fn in_words(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn Error> = error.source();
    let mut innermost = None;
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<TargetError>() {
            return format!("the service cannot be used: {refused}");
        }
        innermost = Some(error.to_string());
        cause = error.source();
    }
    if error.is_timeout() {
        return "the service did not answer in time".to_owned();
    }
    let reason = innermost.unwrap_or_else(|| "the connection broke".to_owned());
    format!("the service cannot be reached: {reason}")
}

#[cfg(test)]
mod tests;
