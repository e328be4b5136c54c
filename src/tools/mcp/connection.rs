//! One connection to a server, from the handshake to its end.

use super::child::{Process, Program};
use super::http::Bounded;
use super::listener::Listener;
use crate::address;
use crate::tools::targets::{TargetError, Targets};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use rmcp::model::PaginatedRequestParams;
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, Peer, RunningService, RunningServiceCancellationToken,
    serve_client,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{RoleClient, ServiceError, model};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How large one message of a server may be.
const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// More tools than a model can tell apart.
const MAX_TOOLS: usize = 256;
/// How long a connection may take to close.
const FAREWELL: Duration = Duration::from_secs(2);
/// Requests at once over one connection; the engine limits how many calls there are.
const MAX_REQUESTS: usize = 64;

/// How a server is reached.
#[derive(Clone)]
pub enum Reach {
    /// As a child process, over its input and output.
    Program(Program),
    /// Over streamable HTTP.
    Http(Remote),
}

/// A server elsewhere.
#[derive(Clone)]
pub struct Remote {
    url: Url,
    headers: HeaderMap,
    client: Client,
}

impl Remote {
    /// Connects to nothing yet. Headers may hold secrets.
    pub fn new(url: Url, headers: HeaderMap, targets: &Targets) -> Result<Self, TargetError> {
        Ok(Self { client: targets.client(&url)?, url, headers })
    }
}

/// A connection that works. Dropping it ends it at once, and with it the server if that is a child process.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    serving: BoxFuture<'static, ()>,
    close: RunningServiceCancellationToken,
    process: Option<Process>,
}

impl Connection {
    /// Connects and shakes hands.
    pub(super) async fn open(server: &str, reach: &Reach, listener: Arc<Listener>) -> Result<Self, String> {
        let (service, process) = match reach {
            Reach::Program(program) => {
                let (process, stdout, stdin) = Process::start(server, program)
                    .map_err(|error| format!("{} cannot be started: {error}", program.program))?;
                let transport =
                    AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
                let service = serve_client(listener, transport).await;
                (service, Some(process))
            }
            Reach::Http(Remote { url, headers, client }) => {
                let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers)
                    .max_sse_event_size(MAX_MESSAGE_BYTES)
                    .max_concurrent_requests(MAX_REQUESTS);
                let client = Bounded { client: client.clone(), most: MAX_MESSAGE_BYTES };
                let transport = StreamableHttpClientTransport::with_client(client, config);
                (serve_client(listener, transport).await, None)
            }
        };
        let service: RunningService<RoleClient, Arc<Listener>> =
            service.map_err(|error| format!("cannot connect to it: {}", in_words(&error)))?;
        let (peer, close) = (service.peer().clone(), service.cancellation_token());
        // A list that is asked for again is asked for because it may be another.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let serving = service.waiting().map(|_| ()).boxed();
        Ok(Self { peer, serving, close, process })
    }

    /// Ready when it is over.
    pub(super) async fn ended(&mut self) -> String {
        let process = async {
            match &mut self.process {
                Some(process) => process.ended().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            reason = process => reason,
            () = &mut self.serving => "it closed the connection".to_owned(),
        }
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        let Self { serving, close, process, .. } = self;
        close.cancel();
        let _ = timeout(FAREWELL, serving).await;
        if let Some(process) = process {
            process.end().await;
        }
    }
}

/// What tools a server has, page by page, within limits.
pub(super) async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<model::Tool>, String> {
    let mut tools = Vec::new();
    let mut page = PaginatedRequestParams::default();
    loop {
        let listed = peer.list_tools(Some(page)).await;
        let listed = listed.map_err(|error| format!("it does not list its tools: {}", in_words(&error)))?;
        let came_none = listed.tools.is_empty();
        tools.extend(listed.tools);
        tools.truncate(MAX_TOOLS);
        match listed.next_cursor {
            // A page without tools that has a next one would have one for ever.
            Some(cursor) if !came_none && tools.len() < MAX_TOOLS => {
                page = PaginatedRequestParams::default().with_cursor(Some(cursor));
            }
            _ => return Ok(tools),
        }
    }
}

/// What went wrong, in the innermost words and without what may be secret in an address.
pub(super) fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = cause(innermost) {
        innermost = cause;
    }
    address::hidden_in(&innermost.to_string())
}

/// The SDK does not tell all of its errors' causes.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(ClientInitializeError::TransportError { error, .. }) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(ServiceError::TransportSend(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(StreamableHttpError::<reqwest::Error>::Client(error)) = error.downcast_ref() {
        return Some(error);
    }
    error.source()
}
