//! All tools, as configured, and what one conversation has of them.
//!
//! What keeps state is kept apart by conversation: each has connections of its own to MCP servers, made when it begins and
//! closed when it ends, so that nothing one room said to a server can come out in another. That costs a child process, or a
//! session at the server, per room and server. A server that keeps no state may be `shared` instead. All other tools have
//! nothing to keep.

use super::builtin::BuiltIn;
use super::client::ClientTools;
use super::http::HttpTools;
use super::lock::{Approval, Lock};
use super::mcp::{self, Server};
use super::registry::Registry;
use crate::ports::{Progress, Tools};
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::Tool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// All tools, as configured.
pub struct Toolbox {
    own: Arc<BuiltIn>,
    http: Arc<HttpTools>,
    client: Arc<ClientTools>,
    mcp: Vec<Arc<mcp::Settings>>,
    lock: Arc<Lock>,
    /// Started with the first conversation.
    shared: OnceLock<Vec<Arc<Server>>>,
}

impl Toolbox {
    /// Connects to nothing yet.
    pub fn new(
        own: BuiltIn,
        http: HttpTools,
        client: ClientTools,
        mcp: Vec<mcp::Settings>,
        lock: Lock,
    ) -> Self {
        let (own, http, client) = (Arc::new(own), Arc::new(http), Arc::new(client));
        let mcp = mcp.into_iter().map(Arc::new).collect();
        Self { own, http, client, mcp, lock: Arc::new(lock), shared: OnceLock::new() }
    }

    /// What a new conversation has. Begins to connect to its servers.
    pub fn open(&self) -> RoomTools {
        let start = |settings: &&Arc<mcp::Settings>| {
            Arc::new(Server::start(Arc::clone(settings), Arc::clone(&self.lock)))
        };
        let (shared, own): (Vec<_>, Vec<_>) = self.mcp.iter().partition(|settings| settings.shared);
        let shared = self.shared.get_or_init(|| shared.iter().map(start).collect());
        let servers: Vec<_> = shared.iter().cloned().chain(own.iter().map(start)).collect();
        let mut sources: Vec<Arc<dyn Tools>> =
            vec![Arc::clone(&self.own) as _, Arc::clone(&self.http) as _, Arc::clone(&self.client) as _];
        sources.extend(servers.iter().map(|server| Arc::clone(server) as _));
        RoomTools {
            own: Arc::clone(&self.own),
            http: Arc::clone(&self.http),
            client: Arc::clone(&self.client),
            servers,
            registry: Registry::new(sources),
        }
    }

    /// Where approvals are kept.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }
}

/// The tools of one conversation. Dropping them closes its connections.
pub struct RoomTools {
    own: Arc<BuiltIn>,
    http: Arc<HttpTools>,
    client: Arc<ClientTools>,
    servers: Vec<Arc<Server>>,
    registry: Registry,
}

/// A tool as it is shown to whoever runs this.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The tool.
    pub tool: Tool,
    /// Where it comes from.
    pub from: From,
    /// Whether it may be offered.
    pub approval: Approval,
}

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Sotto itself.
    BuiltIn,
    /// A request to a service.
    Http,
    /// The client of whoever asks, as the configuration declares it.
    Client,
    /// The MCP server of this name.
    Mcp(String),
}

impl RoomTools {
    /// Ready when every server is there or known to be away, or the time is over.
    pub async fn settled(&self, within: Duration) {
        let _ = timeout(within, join_all(self.servers.iter().map(|server| server.settled()))).await;
    }

    /// Its MCP servers.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// All tools, those that are not offered included.
    pub fn all(&self) -> Vec<Listed> {
        let approved = |tools: Vec<Tool>, from: From| {
            tools.into_iter().map(move |tool| Listed {
                tool,
                from: from.clone(),
                approval: Approval::Approved,
            })
        };
        let of_servers = self.servers.iter().flat_map(|server| {
            let from = From::Mcp(server.name().to_owned());
            let offers = server.offers();
            let listed = |offer: &mcp::Offer| Listed {
                tool: offer.tool.clone(),
                from: from.clone(),
                approval: offer.approval,
            };
            offers.iter().map(listed).collect::<Vec<_>>()
        });
        let own = approved(self.own.offered(), From::BuiltIn);
        let http = approved(self.http.offered(), From::Http);
        let client = approved(self.client.offered(), From::Client);
        own.chain(http).chain(client).chain(of_servers).collect()
    }
}

impl Tools for RoomTools {
    fn offered(&self) -> Vec<Tool> {
        self.registry.offered()
    }

    fn has(&self, name: &str) -> bool {
        self.registry.has(name)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.registry.changes()
    }

    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        self.registry.run(name, arguments, timeout, progress)
    }
}
