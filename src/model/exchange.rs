//! One request over HTTP, up to the body of its reply.
//!
//! The only file that touches the HTTP client. It never reads a good reply, and asks twice only where a connection
//! was closed without any reply.

use super::endpoint::Target;
use super::patience::Patience;
use super::trouble::Trouble;
use crate::tls;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, redirect};
use serde_json::Value;
use sotto_core::model::Prompt;
use sotto_core::model::request::{self, RequestOptions};
use std::time::Duration;

/// The body of a reply. Dropped before its end, it closes the connection.
pub(super) type Body = BoxStream<'static, Result<Vec<u8>, reqwest::Error>>;

/// An error message beyond this is not read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Asks endpoints, over connections that are kept for the next time.
pub(super) struct Exchange {
    client: reqwest::Client,
}

impl Exchange {
    pub(super) fn new(connect_timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config())
            .connect_timeout(connect_timeout)
            // One stream to a connection: closing it ends that answer and no other.
            .http1_only()
            // Whoever sends us elsewhere does not get the key carried there.
            .redirect(redirect::Policy::none())
            // When to ask again is decided here and nowhere else.
            .retry(reqwest::retry::never())
            .user_agent(concat!("sotto/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client })
    }

    /// Sends the request; the body of a good reply.
    pub(super) async fn ask(
        &self,
        target: &Target,
        prompt: &Prompt,
        options: &RequestOptions,
        patience: &Patience,
    ) -> Result<Body, Trouble> {
        let body = request::body(prompt, options).to_string();
        let mut response = self.send(target, body.clone(), patience).await;
        // A connection that was kept may be closed by now (llama.cpp's server promises to keep it, and closes it after each
        // stream), which shows only when it is used. That is no fault of anybody: once more, at once.
        if matches!(response, Err(Trouble::Broken(_))) {
            response = self.send(target, body, patience).await;
        }
        let response = response?;
        let status = response.status().as_u16();
        let kind = response.headers().get(CONTENT_TYPE);
        let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        let retry_after = retry_after(response.headers());
        let body: Body = response.bytes_stream().map_ok(Vec::from).boxed();
        match status {
            200..=299 if is_page => Err(Trouble::WebPage),
            200..=299 => Ok(body),
            _ => Err(Trouble::Status { status, message: reason(body, patience).await, retry_after }),
        }
    }

    async fn send(&self, target: &Target, body: String, patience: &Patience) -> Result<Response, Trouble> {
        let mut request = self
            .client
            .post(target.completions.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body);
        if let Some(authorization) = &target.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        Ok(patience.wait_for(request.send()).await??)
    }
}

/// Why the endpoint refused, in its own words. A refusal is one whether or not its reason arrives.
async fn reason(mut body: Body, patience: &Patience) -> Option<String> {
    let mut received = Vec::new();
    while received.len() < MAX_ERROR_BODY
        && let Ok(Some(Ok(bytes))) = patience.wait_for(body.next()).await
    {
        received.extend(bytes);
    }
    error_message(&received)
}

/// `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or(Duration::ZERO))
}

/// The endpoint's own words, wherever it puts them.
fn error_message(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let places = ["/error/message", "/error", "/message", "/detail/message", "/detail", "/0/error/message"];
    places.iter().find_map(|place| value.pointer(place)?.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn asked_to_wait(value: &str) -> Option<Duration> {
        let value = HeaderValue::from_str(value).expect("a header's value");
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        assert_eq!(asked_to_wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked_to_wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(asked_to_wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(
            asked_to_wait("Tue, 31 Dec 2999 23:59:59 GMT")
                .is_some_and(|wait| wait > Duration::from_secs(3600))
        );
        for nonsense in ["soon", "-3", "NaN", "1e300", ""] {
            assert_eq!(asked_to_wait(nonsense), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn the_reason_is_found_wherever_it_stands() {
        for body in [
            r#"{"error":{"message":"why","type":"x"}}"#,
            r#"{"error":"why"}"#,
            r#"{"object":"error","message":"why"}"#,
            r#"{"detail":"why"}"#,
            r#"[{"error":{"message":"why"}}]"#,
        ] {
            assert_eq!(error_message(body.as_bytes()).as_deref(), Some("why"), "{body}");
        }
        for body in ["", "<html>", r#"{"error":{"code":5}}"#, "null"] {
            assert_eq!(error_message(body.as_bytes()), None, "{body}");
        }
    }
}
