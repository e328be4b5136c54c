//! The client of the SDK's transport over HTTP. It does what the SDK's own does, but for one thing: that one reads an answer in
//! plain JSON to whatever end it has, and here no message is longer than the limit, however it comes.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Error, Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: &str = "mcp-session-id";

/// Reads no message of more than so many bytes.
#[derive(Clone)]
pub(super) struct Bounded {
    pub(super) client: Client,
    pub(super) most: usize,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Outcome<T> = Result<T, StreamableHttpError<Error>>;

impl StreamableHttpClient for Bounded {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Outcome<StreamableHttpPostResponse> {
        let mut request = self.client.post(&*uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, &**session);
        }
        let request = request.headers(headers.into_iter().collect()).json(&message);
        read(request.send().await?, &message, session.is_some(), self.most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Outcome<()> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Outcome<BoxStream<'static, Result<Sse, SseError>>> {
        let (client, most) = (&self.client, self.most);
        client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most).await
    }
}

/// What an answer means.
async fn read(
    response: Response,
    asked: &ClientJsonRpcMessage,
    in_session: bool,
    most: usize,
) -> Outcome<StreamableHttpPostResponse> {
    let status = response.status();
    match status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
        StatusCode::NOT_FOUND if in_session => return Err(StreamableHttpError::SessionExpired),
        _ => {}
    }
    let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let (kind, session) = (header(CONTENT_TYPE.as_str()), header(SESSION));
    let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
    if status.is_success() && is(EVENTS) {
        let mut limiter = Limiter { most, event: 0, line: 0 };
        let bytes = response.bytes_stream().map(move |chunk| limiter.pass(chunk));
        return Ok(StreamableHttpPostResponse::Sse(SseStream::from_bytes_stream(bytes).boxed(), session));
    }
    let said = serde_json::from_slice::<ServerJsonRpcMessage>(&whole(response, most).await?);
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let Some(id) = discovery(asked).filter(|_| !in_session && status.is_client_error() && !is_refused) {
        // An older server that cannot be asked what it is says so in many ways. The SDK then greets it as such ones are.
        let error = match said {
            Ok(JsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}"), None),
        };
        let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
        return Ok(StreamableHttpPostResponse::Json(error, None));
    }
    match said {
        Ok(said) if status.is_success() && is(JSON) => Ok(StreamableHttpPostResponse::Json(said, session)),
        Ok(said @ JsonRpcMessage::Error(_)) if !status.is_success() && !is_refused && is(JSON) => {
            Ok(StreamableHttpPostResponse::Json(said, session))
        }
        _ if !status.is_success() => Err(HttpStatusError::new(status.as_u16(), None).into()),
        // Nobody waits for an answer to these.
        _ if !matches!(asked, JsonRpcMessage::Request(_)) => Ok(StreamableHttpPostResponse::Accepted),
        Err(error) if is(JSON) => Err(error.into()),
        _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

/// The id of a request that asks a server what it is.
fn discovery(asked: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match asked {
        JsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::DiscoverRequest(_)) => {
            Some(&asked.id)
        }
        _ => None,
    }
}

/// All of a body, if it is not too long.
async fn whole(mut response: Response, most: usize) -> Outcome<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > most {
            return Err(too_long(most).into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Passes on the bytes of events of which none is too long.
struct Limiter {
    most: usize,
    /// How long the event is so far, and its last line: an empty one ends it.
    event: usize,
    line: usize,
}

impl Limiter {
    fn pass<Chunk: AsRef<[u8]>>(&mut self, chunk: Result<Chunk, Error>) -> io::Result<Chunk> {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in chunk.as_ref() {
            match byte {
                b'\n' => {
                    self.event = if self.line == 0 { 0 } else { self.event };
                    self.line = 0;
                }
                b'\r' => {}
                _ => (self.event, self.line) = (self.event + 1, self.line + 1),
            }
        }
        if self.event > self.most { Err(too_long(self.most)) } else { Ok(chunk) }
    }
}

fn too_long(most: usize) -> io::Error {
    io::Error::other(format!("a message of the server is longer than {most} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_may_be_many_but_none_too_long() {
        let passes = |chunks: &[&str]| {
            let mut limiter = Limiter { most: 10, event: 0, line: 0 };
            chunks.iter().all(|chunk| limiter.pass(Ok(chunk)).is_ok())
        };
        assert!(passes(&["data: 1\n\n", "data: 2\r\n\r\n", ": ping\n\nda", "ta: 3\n", "\n", "data: 4"]));
        assert!(!passes(&["data: 1\n", "data: 2\n"]), "lines of one event count together");
        assert!(!passes(&["data: ", "12345"]), "also before it has ended");
    }
}
