//! Servers of the Model Context Protocol, through its official SDK.
//!
//! | module | what it is for |
//! |---|---|
//! | `mod.rs` | a server that is kept running, and the calls to it |
//! | `connection` | one connection, from the handshake to its end |
//! | `child` | a server as a child process |
//! | `http` | what is sent to a server elsewhere, and what is read of its answers |
//! | `listener` | what a server tells and asks by itself |
//! | `content` | what its tools answer, as text |
//!
//! A task per server connects, reads the list of tools, and then waits for one of three things, without ever asking by itself
//! whether all is well: the list changes, the connection ends, or nobody needs the server any more. When the connection ends
//! it connects again, with pauses that grow. The last known list is offered meanwhile, and calls wait for a moment.

mod child;
mod connection;
mod content;
mod http;
mod listener;

pub use child::Program;
pub use connection::{Reach, Remote};

use super::lock::{self, Approval, Lock, Looks};
use super::names;
use super::results::cut;
use super::terms::Terms;
use crate::ports::{Progress, Tools};
use connection::{Connection, in_words};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use listener::Listener;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ProgressToken,
    RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions};
use rmcp::{RoleClient, ServiceError, model};
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::Tool;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

/// How long a server may take to start and to list its tools: some are downloaded first.
const START: Duration = Duration::from_secs(60);
/// The first pause before it is connected to again; doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A server that was there for so long begins with the first pause again.
const LASTING: Duration = Duration::from_secs(60);
/// How long a call waits for a server that is away.
const AWAY: Duration = Duration::from_secs(10);
/// What one tool may say of itself; a model's context has to hold it.
const MAX_DESCRIPTION_BYTES: usize = 32 << 10;

/// A server, as configured.
#[derive(Clone)]
pub struct Settings {
    /// Its name here, which begins the names of its tools; see `names`.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// Which of its tools are taken, by the names it gives them; none: all.
    pub only: Option<Vec<String>>,
    /// Whether its tools are approved as they are when it is seen for the first time.
    pub trust_first_use: bool,
    /// Whether all conversations share one connection.
    pub shared: bool,
    /// What holds for its tools.
    pub terms: Terms,
    /// What holds for single ones instead, by the names it gives them.
    pub own_terms: BTreeMap<String, Terms>,
}

impl Settings {
    /// What holds for one of its tools.
    fn terms_of(&self, original: &str) -> &Terms {
        self.own_terms.get(original).unwrap_or(&self.terms)
    }

    /// Tools that have terms of their own and are not among these: most likely their names are misspelt.
    fn missing_from(&self, tools: &[model::Tool]) -> Vec<&str> {
        let is_missing = |name: &&str| tools.iter().all(|tool| tool.name != **name);
        self.own_terms.keys().map(String::as_str).filter(is_missing).collect()
    }
}

/// A tool of a server, approved or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// As the model would know it.
    pub tool: Tool,
    /// As the server calls it.
    pub original: String,
    /// Whether it is as somebody approved it.
    pub approval: Approval,
    /// What it looks like now.
    look: String,
}

impl Offer {
    fn is_offered_as(&self, name: &str) -> bool {
        self.tool.spec.name == name && self.approval == Approval::Approved
    }
}

/// Whether a server can be talked to.
#[derive(Clone)]
enum Link {
    Starting,
    Up(Peer<RoleClient>),
    Down(String),
}

/// A server that is kept running until this is dropped.
pub struct Server {
    settings: Arc<Settings>,
    lock: Arc<Lock>,
    listener: Arc<Listener>,
    offers: watch::Receiver<Arc<[Offer]>>,
    link: watch::Receiver<Link>,
    /// Dropped with this, which ends the task.
    _needed: oneshot::Sender<()>,
}

impl Server {
    /// Begins to connect.
    pub fn start(settings: Arc<Settings>, lock: Arc<Lock>) -> Self {
        let listener = Arc::new(Listener::new(&settings.name));
        let (offered, offers) = watch::channel(Arc::default());
        let (up, link) = watch::channel(Link::Starting);
        let (needed, not_needed) = oneshot::channel();
        let keeper = Keeper {
            settings: Arc::clone(&settings),
            lock: Arc::clone(&lock),
            listener: Arc::clone(&listener),
            offered,
            link: up,
            warned: Once::new(),
        };
        tokio::spawn(keeper.keep(not_needed));
        Self { settings, lock, listener, offers, link, _needed: needed }
    }

    /// How it is called.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Ready when it is known whether the server can be reached; why, if it cannot.
    pub async fn settled(&self) -> Result<(), String> {
        let mut link = self.link.clone();
        let settled = link.wait_for(|link| !matches!(link, Link::Starting)).await;
        match settled.as_deref() {
            Ok(Link::Down(reason)) => Err(reason.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err("its task has ended".to_owned()),
        }
    }

    /// All its tools, approved or not.
    pub fn offers(&self) -> Arc<[Offer]> {
        Arc::clone(&self.offers.borrow())
    }

    /// Approves its tools as they are, those named or all.
    pub fn approve(&self, only: Option<&[String]>) -> Result<(), lock::LockError> {
        let is_meant = |offer: &&Offer| only.is_none_or(|names| names.contains(&offer.tool.spec.name));
        let looks = looks(self.offers().iter().filter(is_meant));
        self.lock.approve(&self.settings.name, looks, only.is_none())?;
        self.listener.list_again.notify_one();
        Ok(())
    }
}

fn looks<'a>(offers: impl Iterator<Item = &'a Offer>) -> Looks {
    offers.map(|offer| (offer.original.clone(), offer.look.clone())).collect()
}

impl Tools for Server {
    fn offered(&self) -> Vec<Tool> {
        let offers = self.offers.borrow();
        offers
            .iter()
            .filter(|offer| offer.approval == Approval::Approved)
            .map(|offer| offer.tool.clone())
            .collect()
    }

    fn has(&self, name: &str) -> bool {
        self.offers.borrow().iter().any(|offer| offer.is_offered_as(name))
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let next = |mut offers: watch::Receiver<_>| async move {
            offers.changed().await.ok().map(|()| ((), offers))
        };
        let mut offers = self.offers.clone();
        offers.mark_unchanged();
        stream::unfold(offers, next).boxed()
    }

    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        let offers = self.offers();
        let Some(offer) = offers.iter().find(|offer| offer.is_offered_as(name)) else {
            return std::future::ready(ToolOutcome::Failed(format!("there is no tool {name:?}"))).boxed();
        };
        let most = self.settings.terms_of(&offer.original).max_result_bytes;
        let (link, listener) = (self.link.clone(), Arc::clone(&self.listener));
        let params = CallToolRequestParams::new(offer.original.clone()).with_arguments(arguments);
        async move {
            match reached(link, timeout).await {
                Ok(peer) => cut(call(peer, listener, params, progress).await, most),
                Err(reason) => ToolOutcome::Failed(reason),
            }
        }
        .boxed()
    }
}

/// The server, if it is there or comes back soon.
async fn reached(mut link: watch::Receiver<Link>, within: Duration) -> Result<Peer<RoleClient>, String> {
    // One that has just ended may not be known to be away yet.
    let is_up = |link: &Link| matches!(link, Link::Up(peer) if !peer.is_transport_closed());
    // Whether it came or the time is over: what it is now is what counts.
    let _ = timeout(within.min(AWAY), link.wait_for(is_up)).await;
    let reason = match &*link.borrow() {
        Link::Up(peer) => return Ok(peer.clone()),
        Link::Down(reason) => format!(" ({reason})"),
        Link::Starting => String::new(),
    };
    Err(format!("the server of this tool is away{reason}; it is being started again"))
}

async fn call(
    peer: Peer<RoleClient>,
    listener: Arc<Listener>,
    params: CallToolRequestParams,
    progress: Progress,
) -> ToolOutcome {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let handle = match sent {
        Ok(handle) => handle,
        Err(error) => return failure(&error, &listener),
    };
    listener.follow(handle.progress_token.clone(), progress);
    let mut running = Running { peer, listener, token: handle.progress_token, id: Some(handle.id) };
    let answer = handle.rx.await.unwrap_or(Err(ServiceError::TransportClosed));
    running.id = None;
    match answer {
        Ok(ServerResult::CallToolResult(result)) => content::outcome(&result),
        Ok(ServerResult::InputRequiredResult(_)) => ToolOutcome::Failed(
            "the tool wants to ask the user something, which is not possible here".to_owned(),
        ),
        Ok(_) => ToolOutcome::Failed("the server answered something that is no result".to_owned()),
        Err(error) => failure(&error, &running.listener),
    }
}

fn failure(error: &ServiceError, listener: &Listener) -> ToolOutcome {
    match error {
        ServiceError::McpError(refused) => content::refusal(refused),
        ServiceError::TransportClosed => ToolOutcome::Failed(
            "the server of this tool ended while it ran; whether it did something is not known".to_owned(),
        ),
        other => {
            // Is it only this call? Whoever keeps the connection finds out.
            listener.list_again.notify_one();
            ToolOutcome::Failed(format!("the server of this tool cannot be reached: {}", in_words(other)))
        }
    }
}

/// A call that was sent. Dropped before it is answered, it tells the server that nobody waits any more.
struct Running {
    peer: Peer<RoleClient>,
    listener: Arc<Listener>,
    token: ProgressToken,
    /// None once it is answered.
    id: Option<RequestId>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.listener.forget(&self.token);
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        // Where no runtime is left, no connection is either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let told = CancelledNotificationParam::new(
                    Some(id),
                    Some("nobody waits for it any more".to_owned()),
                );
                if let Err(error) = peer.notify_cancelled(told).await {
                    debug!("a call could not be cancelled: {}", in_words(&error));
                }
            });
        }
    }
}

/// Keeps a server running.
struct Keeper {
    settings: Arc<Settings>,
    lock: Arc<Lock>,
    listener: Arc<Listener>,
    offered: watch::Sender<Arc<[Offer]>>,
    link: watch::Sender<Link>,
    /// That terms have no effect is said once.
    warned: Once,
}

impl Keeper {
    async fn keep(self, mut not_needed: oneshot::Receiver<()>) {
        let server = &self.settings.name;
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let Some(reason) = self.live(&mut not_needed).await else { return };
            if began.elapsed() >= LASTING {
                pause = FIRST_PAUSE;
            }
            warn!(server, "an MCP server is away: {reason}; it is tried again in {} ms", pause.as_millis());
            self.link.send_replace(Link::Down(reason));
            tokio::select! {
                () = sleep(pause) => {}
                _ = &mut not_needed => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One life of the server; why it ended, or nothing if nobody needs it any more.
    async fn live(&self, not_needed: &mut oneshot::Receiver<()>) -> Option<String> {
        let started = async {
            let connection =
                Connection::open(&self.settings.name, &self.settings.reach, Arc::clone(&self.listener))
                    .await?;
            self.list(&connection.peer).await?;
            Ok(connection)
        };
        let started = tokio::select! {
            started = timeout(START, started) => started,
            _ = &mut *not_needed => return None,
        };
        let mut connection = match started {
            Ok(Ok(connection)) => connection,
            Ok(Err(reason)) => return Some(reason),
            Err(_) => return Some(format!("it did not start within {} s", START.as_secs())),
        };
        info!(server = self.settings.name, tools = self.offered.borrow().len(), "an MCP server is there");
        self.link.send_replace(Link::Up(connection.peer.clone()));
        loop {
            tokio::select! {
                reason = connection.ended() => return Some(reason),
                () = self.listener.list_again.notified() => {
                    match timeout(START, self.list(&connection.peer)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(reason)) => return Some(reason),
                        Err(_) => return Some("it does not answer any more".to_owned()),
                    }
                }
                _ = &mut *not_needed => {
                    connection.close().await;
                    return None;
                }
            }
        }
    }

    /// Reads the list, and compares it with what was approved.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<(), String> {
        let Settings { name: server, only, trust_first_use, .. } = &*self.settings;
        let tools = connection::tools(peer).await?;
        self.warned.call_once(|| {
            for tool in self.settings.missing_from(&tools) {
                warn!(
                    server,
                    tool, "a tool with terms of its own is not offered by its server: is its name right?"
                );
            }
        });
        let is_taken =
            |tool: &model::Tool| only.as_ref().is_none_or(|only| only.iter().any(|name| *name == tool.name));
        let mut offers: Vec<_> =
            tools.iter().filter(|tool| is_taken(tool)).filter_map(|tool| self.offer(tool)).collect();
        // A small file beside the configuration: reading it keeps nobody waiting.
        let mut approved = self.lock.approved(server).unwrap_or_else(|error| {
            error!(server, "none of its tools is offered: {error}");
            None
        });
        if approved.is_none() && *trust_first_use {
            approved = Some(looks(offers.iter()));
            warn!(
                server,
                tools = offers.len(),
                "its tools are approved as they are, for it is seen for the first time"
            );
            if let Err(error) = self.lock.approve(server, looks(offers.iter()), true) {
                error!(server, "none of its tools is offered: {error}");
                approved = None;
            }
        }
        for offer in &mut offers {
            offer.approval = lock::compare(approved.as_ref(), &offer.original, &offer.look);
        }
        self.tell(&offers);
        self.offered.send_if_modified(|known| {
            let is_other = **known != *offers;
            if is_other {
                *known = offers.into();
            }
            is_other
        });
        Ok(())
    }

    fn offer(&self, tool: &model::Tool) -> Option<Offer> {
        let server = &self.settings.name;
        let description = tool.description.as_deref().unwrap_or_default().to_owned();
        let parameters = Value::Object((*tool.input_schema).clone());
        if description.len() + parameters.to_string().len() > MAX_DESCRIPTION_BYTES {
            warn!(server, tool = %tool.name, "says more of itself than a model can be told; it is left out");
            return None;
        }
        Some(Offer {
            original: tool.name.to_string(),
            approval: Approval::New,
            look: lock::look(&tool.name, &description, &parameters),
            tool: self.settings.terms_of(&tool.name).tool(
                names::of_server(server, &tool.name),
                description,
                parameters,
            ),
        })
    }

    /// What is not offered is no secret.
    fn tell(&self, offers: &[Offer]) {
        let of = |approval| {
            let tools = offers.iter().filter(|offer| offer.approval == approval);
            tools.map(|offer| offer.tool.spec.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        for (what, tools) in [("new", of(Approval::New)), ("changed", of(Approval::Changed))] {
            if !tools.is_empty() {
                warn!(
                    server = self.settings.name,
                    tools,
                    "{what} tools are not offered: look at them with `sotto tools list`, then `sotto tools approve`"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
