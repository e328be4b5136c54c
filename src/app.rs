//! The composition root: from a validated configuration to an agent in a room. The only file that names concrete
//! adapters (with those in `app/`); it decides nothing about conversations.

mod hooks;
mod model;
mod tools;

use crate::config::{self, Config, ConfigError};
use crate::hooks::HttpHooks;
use crate::http::{self, Health};
use crate::model::{Demo, OpenAi, SetupError};
use crate::ports::{Hooks, Journal, Model, StoreError, Tools};
use crate::room::{self, Access, ByteBudget, Counts, JoinError, JoinOptions, Pace, StreamLimits};
use crate::session::{self, End, Options, Ports};
use crate::store::{self, Archive};
use crate::telemetry::metrics::Metrics;
use crate::tools::{RoomTools, Toolbox, Unusable};
use sotto_core::engine::mask::Secrets;
use sotto_core::engine::settings::{self, Settings};
use sotto_core::ids::{Ids, Kind};
use sotto_core::wire;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OnceCell, watch};
use tokio::time::sleep;
use tracing::{info, warn};

/// What of incoming packets and streams may wait in this process, over all its rooms.
const INCOMING_BYTES: usize = 256 << 20;

/// How long to wait before asking again whether a conversation is free.
const HELD: Duration = Duration::from_millis(500);

/// How long a conversation waits for its MCP servers before it begins without those that are not there yet.
const TOOLS_START: Duration = Duration::from_secs(5);

/// The parts of an agent, put together.
pub struct App {
    config: Config,
    model: Arc<dyn Model>,
    toolbox: Toolbox,
    hooks: Arc<HttpHooks>,
    metrics: Arc<Metrics>,
    /// Opened when it is first needed.
    store: OnceCell<Arc<dyn Archive>>,
    /// `None` for the built-in demo.
    endpoints: Option<OpenAi>,
    budget: ByteBudget,
    counts: Arc<Counts>,
    pace: Pace,
    health: watch::Sender<Health>,
}

/// Why an agent could not be put together, or not get to work.
#[derive(Debug, Error)]
pub enum AppError {
    /// The configuration lacks something.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model cannot even be asked.
    #[error(transparent)]
    Model(#[from] SetupError),
    /// A tool cannot be used.
    #[error(transparent)]
    Tool(#[from] Unusable),
    /// A hook cannot be used.
    #[error(transparent)]
    Hook(#[from] crate::hooks::Unusable),
    /// The room could not be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Conversations cannot be kept.
    #[error("cannot open the store: {0}")]
    Store(#[from] StoreError),
    /// There is no store that another process could have filled.
    #[error("{0}")]
    NoArchive(String),
    /// Health and metrics cannot be served.
    #[error(
        "cannot listen on {0} for health and metrics: {1}; set SOTTO_HTTP_ADDR to another address, or to off"
    )]
    Http(SocketAddr, #[source] io::Error),
}

impl App {
    /// Puts the parts together. Opens no connection yet.
    pub fn new(config: Config) -> Result<Self, AppError> {
        let endpoints =
            (!config.model.endpoints.is_empty()).then(|| model::open_ai(&config.model)).transpose()?;
        let model: Arc<dyn Model> = match &endpoints {
            Some(endpoints) => Arc::new(endpoints.clone()),
            None => Arc::new(Demo::default()),
        };
        let counts = Arc::new(Counts::default());
        let mut metrics = Metrics::default();
        let of_rooms = Arc::clone(&counts);
        metrics.also_show("room_events", "What rooms dropped, refused or failed to do, by kind", move || {
            of_rooms.all()
        });
        let toolbox = tools::toolbox(&config.tools)?;
        let hooks = Arc::new(hooks::http(&config.hooks)?);
        let metrics = Arc::new(metrics);
        let budget = ByteBudget::new(INCOMING_BYTES);
        let health = watch::channel(Health::Connecting).0;
        Ok(Self {
            config,
            model,
            toolbox,
            hooks,
            metrics,
            store: OnceCell::new(),
            endpoints,
            budget,
            counts,
            pace: Pace::default(),
            health,
        })
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The endpoints, unless the demo answers.
    pub fn endpoints(&self) -> Option<&OpenAi> {
        self.endpoints.as_ref()
    }

    /// The model, whichever it is.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The tools, as configured.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// The hooks, as configured.
    pub fn hooks(&self) -> &HttpHooks {
        &self.hooks
    }

    /// Serves health and metrics, if the configuration wants it, until the server is dropped.
    pub async fn serve_http(&self) -> Result<Option<http::Server>, AppError> {
        let Some(address) = self.config.http.addr else { return Ok(None) };
        let metrics = Arc::clone(&self.metrics);
        let started = http::Server::start(address, self.health.subscribe(), metrics).await;
        Ok(Some(started.map_err(|error| AppError::Http(address, error))?))
    }

    /// Asks the endpoints how they behave, before anyone can hear it; what fails now may work later.
    pub async fn get_to_know_the_model(&self) {
        let Some(endpoints) = &self.endpoints else {
            info!("no SOTTO_MODEL_URL: the built-in demo model answers");
            return;
        };
        for (endpoint, probe) in self.config.model.endpoints.iter().zip(endpoints.probe().await) {
            let url = endpoint.url.shown();
            match probe {
                Ok(probe) => {
                    info!(url, model = endpoint.name.shown(), thinks = probe.thinks(), "the model answers");
                }
                Err(failure) => warn!(url, "the model does not answer yet: {failure}"),
            }
        }
    }

    /// Where conversations are kept.
    pub async fn store(&self) -> Result<&Arc<dyn Archive>, AppError> {
        let (place, settings) = (place(&self.config.store), kept(&self.config));
        Ok(self.store.get_or_try_init(|| store::open(&place, settings)).await?)
    }

    /// What agents have kept, for a process that is none: nothing is made where nothing is.
    pub async fn archive(&self) -> Result<&Arc<dyn Archive>, AppError> {
        match &self.config.store.url {
            config::StoreUrl::Memory => Err(AppError::NoArchive(
                "store.url is memory: and so each agent has its conversations in its own process, where nobody else can \
                 see them"
                    .to_owned(),
            )),
            config::StoreUrl::Sqlite(path) if !path.exists() => Err(AppError::NoArchive(format!(
                "there is no store at {}: no agent has kept anything there; store.url (SOTTO_STORE_URL) says where it is",
                path.display()
            ))),
            _ => self.store().await,
        }
    }

    /// Whose conversations the store is asked for.
    pub fn namespace(&self) -> String {
        kept(&self.config).namespace
    }

    /// Joins a room and stays until it is over or `shutdown` becomes true. Where another agent has the conversation, it
    /// waits until that one is gone.
    pub async fn join(&self, room: &str, shutdown: watch::Receiver<bool>) -> Result<End, AppError> {
        loop {
            let Some(journal) = self.take(room, shutdown.clone()).await? else { return Ok(End::Left) };
            match self.join_with(room, journal, shutdown.clone()).await {
                // It waits in line again, in case that one ends.
                Ok(End::Lost) => {}
                end => return end,
            }
        }
    }

    /// To be called when the last room is over: others may have its conversations at once.
    pub async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }

    /// Takes a conversation, as soon as nobody else has it; `None` if a shutdown came first.
    async fn take(
        &self,
        room: &str,
        mut shutdown: watch::Receiver<bool>,
    ) -> Result<Option<Box<dyn Journal>>, AppError> {
        let store = self.store().await?;
        let mut told = false;
        loop {
            let opened = tokio::select! {
                opened = store.open(room) => opened,
                Ok(_) = shutdown.wait_for(|leave| *leave) => return Ok(None),
            };
            match opened {
                Ok(journal) => return Ok(Some(journal)),
                Err(StoreError::Held(by)) => {
                    if !std::mem::replace(&mut told, true) {
                        info!(room, by, "another agent has this conversation; waiting until it is gone");
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                () = sleep(HELD) => {}
                Ok(_) = shutdown.wait_for(|leave| *leave) => return Ok(None),
            }
        }
    }

    async fn join_with(
        &self,
        room: &str,
        journal: Box<dyn Journal>,
        shutdown: watch::Receiver<bool>,
    ) -> Result<End, AppError> {
        let (api_key, api_secret) = self.config.livekit.credentials()?;
        let access = Access::Key { api_key: api_key.to_owned(), api_secret: api_secret.expose().to_owned() };
        let identity = self.config.agent.identity.as_deref().map_or_else(random_identity, str::to_owned);
        let limits = &self.config.limits;
        let options = JoinOptions {
            shown_url: Some(self.config.livekit.url.shown().to_owned()),
            name: self.config.agent.name.to_string(),
            topic: self.config.room.topic.as_deref().map(str::to_owned),
            limits: StreamLimits {
                bytes: limits.stream_bytes,
                open_per_participant: limits.streams,
                ..StreamLimits::default()
            },
            budget: self.budget.clone(),
            allow_anonymous: self.config.room.allow_anonymous,
            counts: Arc::clone(&self.counts),
            pace: self.pace.clone(),
            ..JoinOptions::new(self.config.livekit.url.as_str(), access, room, &identity)
        };
        // Its servers start while it joins.
        let tools = Arc::new(self.toolbox.open());
        room::keep_out_what_agents_do_not_use();
        let mut leaving = shutdown.clone();
        let joined = tokio::select! {
            joined = room::join(options) => joined?,
            Ok(_) = leaving.wait_for(|leave| *leave) => return Ok(End::Left),
        };
        info!(room = joined.name, identity, "joined");
        let watching = tokio::spawn(follow(self.health.clone(), joined.connected.clone(), shutdown.clone()));
        tools.settled(TOOLS_START).await;
        let options = self.session(room, &tools);
        let (model, metrics) = (Arc::clone(&self.model), Arc::clone(&self.metrics));
        let hooks: Arc<dyn Hooks> = Arc::clone(&self.hooks) as _;
        let ports = Ports { model, tools, hooks, metrics };
        let session = session::run(joined, journal, options, ports, shutdown);
        let end = Box::pin(session).await;
        watching.abort();
        self.health.send_replace(Health::Connecting);
        Ok(end)
    }

    fn session(&self, room: &str, tools: &RoomTools) -> Options {
        let limits = &self.config.limits;
        Options {
            settings: self.settings(room, tools),
            limits: wire::Limits {
                bytes: limits.stream_bytes,
                depth: limits.depth,
                keys: limits.keys,
                content_bytes: limits.content_bytes,
            },
            drain: self.config.agent.drain_seconds,
            rest_after: self.config.store.rest_after,
            log_content: self.config.telemetry.content,
        }
    }

    fn settings(&self, room: &str, offered: &RoomTools) -> Settings {
        let Config { agent, model, reasoning, tools, limits, budget, .. } = &self.config;
        let main = model.endpoints.first();
        let context_tokens = model.context_tokens as u64;
        Settings {
            conversation: room.to_owned(),
            agent_name: agent.name.to_string(),
            instructions: agent.instructions.to_string(),
            greeting: agent.greeting.as_deref().map(str::to_owned),
            language: agent.language.as_deref().map(str::to_owned),
            interruption: match agent.interruption {
                config::Interruption::Interrupt => settings::Interruption::Interrupt,
                config::Interruption::Queue => settings::Interruption::Queue,
            },
            visibility: match reasoning.visibility {
                config::Visibility::Full => settings::Visibility::Full,
                config::Visibility::Hidden => settings::Visibility::Hidden,
            },
            keep_reasoning: self.config.store.reasoning != config::KeptReasoning::None,
            share_history: self.config.store.share_history,
            thinking: model.endpoints.is_empty()
                || model.endpoints.iter().any(|endpoint| endpoint.thinking != config::Thinking::Off),
            effort: main.and_then(|endpoint| endpoint.effort.as_deref()).map(str::to_owned),
            step_chars: reasoning.step_chars,
            max_thinking: reasoning.max_seconds,
            max_thinking_chars: reasoning.max_chars,
            tools: offered.offered(),
            client_tools: tools.client_tools,
            consent_timeout: tools.consent_timeout,
            policy: tools.policy,
            hooks: hooks::terms(&self.config.hooks),
            max_tool_rounds: tools.max_rounds,
            tool_timeout: tools.timeout,
            limits: settings::Limits {
                messages_burst: limits.messages_burst,
                messages_per_second: limits.messages_per_second,
                others_burst: limits.others_burst,
                others_per_second: limits.others_per_second,
                waiting: limits.waiting,
                content_bytes: limits.content_bytes,
            },
            budget: settings::Budget {
                turn: settings::Spending {
                    tokens: budget.turn_tokens,
                    seconds: budget.turn_seconds.map(|limit| limit.as_secs()),
                    tool_calls: budget.turn_tool_calls.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
                },
                conversation: settings::Spending {
                    tokens: budget.conversation_tokens,
                    seconds: budget.conversation_seconds.map(|limit| limit.as_secs()),
                    tool_calls: budget
                        .conversation_tool_calls
                        .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
                },
            },
            context_tokens,
            answer_tokens: main
                .and_then(|endpoint| endpoint.max_tokens)
                .map_or(4_096, u64::from)
                .min(context_tokens / 2),
            secrets: Secrets::new(self.config.secrets().map(str::to_owned)),
            ..Settings::default()
        }
    }
}

/// Shows how it goes, for as long as someone can tell.
async fn follow(
    health: watch::Sender<Health>,
    mut connected: watch::Receiver<bool>,
    mut shutdown: watch::Receiver<bool>,
) {
    let leaving = async {
        if shutdown.wait_for(|leave| *leave).await.is_err() {
            // Whoever could ask is gone: nobody will.
            pending::<()>().await;
        }
    };
    let connecting = async {
        loop {
            let good = *connected.borrow_and_update();
            health.send_replace(if good { Health::Good } else { Health::Connecting });
            if connected.changed().await.is_err() {
                return pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = connecting => {}
        () = leaving => drop(health.send_replace(Health::Leaving)),
    }
}

/// `agent-` and something that nobody else in the room is called.
fn random_identity() -> String {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the system has randomness");
    let id = Ids::from_seed(seed).next(Kind::Message);
    format!("agent-{}", &id[id.len() - 12..])
}

/// Where conversations are kept.
fn place(store: &config::Store) -> store::Place {
    match &store.url {
        config::StoreUrl::Memory => store::Place::Memory,
        config::StoreUrl::Sqlite(path) => store::Place::Sqlite(path.clone()),
        config::StoreUrl::Postgres(url) => store::Place::Postgres(url.expose().to_owned()),
    }
}

/// Whose they are, how long and how much is kept.
fn kept(config: &Config) -> store::Settings {
    const HOUR: u64 = 3_600;
    let Config { livekit, store, .. } = config;
    let namespace = store.namespace.as_deref().map_or_else(|| host(livekit.url.as_str()), str::to_owned);
    store::Settings {
        namespace,
        replay_count: store.replay_count,
        replay_window: Duration::from_secs(store.replay_hours * HOUR),
        retention: (store.retention_days > 0).then(|| Duration::from_secs(store.retention_days * 24 * HOUR)),
        reasoning: match store.reasoning {
            config::KeptReasoning::Keep => store::KeptReasoning::Keep,
            config::KeptReasoning::Replay => store::KeptReasoning::Replay,
            config::KeptReasoning::None => store::KeptReasoning::Nothing,
        },
        keys: store.key.clone(),
    }
}

/// Host and port of an address, which say whose rooms these are; its scheme and path do not.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn health_follows_the_connection_until_we_leave() {
        let (health, mut shown) = watch::channel(Health::Connecting);
        let (connection, connected) = watch::channel(true);
        let (leave, shutdown) = watch::channel(false);
        let following = tokio::spawn(follow(health, connected, shutdown));
        let mut becomes = async |expected| {
            shown.wait_for(|health| *health == expected).await.expect("someone tells");
        };
        becomes(Health::Good).await;
        connection.send_replace(false);
        becomes(Health::Connecting).await;
        connection.send_replace(true);
        becomes(Health::Good).await;
        leave.send_replace(true);
        following.await.expect("it ends by itself");
        assert_eq!(*shown.borrow(), Health::Leaving);
    }
}
