//! A model endpoint that does what a test tells it: OpenAI-compatible chat completions, streamed over HTTP on loopback.
//!
//! A test gives one [`Reply`] for each request (or one rule for all) and then awaits what it wants to see: a request,
//! a connection that the client closed. Nothing needs a sleep: a [`Gate`] lets a stream go on piece by piece. HTTP is
//! written by hand, because half of what is to be shown here are faults no server library would commit.
//!
//! It keeps a prefix cache as vLLM does and notes how much of each prompt was in it, and when each piece was written,
//! for benchmarks. It answers from nothing but its script and never talks to anybody else.

mod cache;
mod http;
mod reply;

pub use reply::{Answer, Gate, Reply, Style};

use cache::PrefixCache;
use serde_json::Value;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

/// Makes replies from requests.
type Rule = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A running endpoint; it ends when dropped.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What has happened at an endpoint so far.
#[derive(Debug, Default)]
pub struct Log {
    /// All requests, in order of arrival.
    pub requests: Vec<Request>,
    /// How many connections were accepted.
    pub connections: usize,
    /// How many of them are closed, by whichever side.
    pub closed: usize,
}

/// A request, and what became of it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection it came over, counted from 0.
    pub connection: usize,
    /// Method and path.
    pub target: String,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, null if it was no JSON.
    pub body: Value,
    /// How large the prompt is, in bytes.
    pub prompt: usize,
    /// How many bytes of the prompt were a prefix of earlier prompts, in whole blocks.
    pub cached: usize,
    /// When the last byte of it had arrived.
    pub arrived: Instant,
    /// When each piece of the reply was about to be written.
    pub written: Vec<Instant>,
    /// How the reply ended, once it has.
    pub end: Option<End>,
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As scripted.
    Scripted,
    /// The client closed the connection before the script was over.
    ClosedByClient,
}

impl Request {
    /// A header field, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The share of the prompt that was cached.
    pub fn cached_share(&self) -> f64 {
        if self.prompt == 0 { 0.0 } else { self.cached as f64 / self.prompt as f64 }
    }
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    rule: Mutex<Option<Rule>>,
    cache: Mutex<PrefixCache>,
    log: watch::Sender<Log>,
}

impl Endpoint {
    /// Listens on a free port of loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            replies: Mutex::default(),
            rule: Mutex::default(),
            cache: Mutex::default(),
            log: watch::Sender::new(Log::default()),
        });
        let accepting = tokio::spawn(http::accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// The base that clients are configured with.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers the next request that has no reply yet with this one.
    pub fn reply(&self, reply: Reply) {
        lock(&self.shared.replies).push_back(reply);
    }

    /// Answers every request for which no [`reply`](Self::reply) is left by this rule.
    pub fn reply_by(&self, rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Some(Arc::new(rule));
    }

    /// What has happened so far.
    pub fn log(&self) -> watch::Ref<'_, Log> {
        // A receiver is not needed to look at what was sent last.
        self.shared.log.borrow()
    }

    /// Lets go of what was said so far, which in long benchmarks would be gigabytes; all else stays in the log.
    pub fn forget_bodies(&self) {
        self.shared.log.send_modify(|log| {
            for request in &mut log.requests {
                request.body = Value::Null;
            }
        });
    }

    /// Waits until the log fulfils this, and gives what the last look made of it.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&Log) -> Option<T>) -> T {
        let mut watching = self.shared.log.subscribe();
        let found = timeout(crate::PATIENCE, async {
            let mut found = None;
            watching
                .wait_for(|log| {
                    found = look(log);
                    found.is_some()
                })
                .await
                .expect("the endpoint outlives this call");
            found
        });
        found.await.ok().flatten().unwrap_or_else(|| panic!("never saw {what} at the model endpoint"))
    }

    /// Waits for the request of this number, counted from 0.
    pub async fn request(&self, number: usize) -> Request {
        self.until(&format!("request {number}"), |log| log.requests.get(number).cloned()).await
    }

    /// Waits until the reply to the request of this number is over, and says how.
    pub async fn end(&self, number: usize) -> End {
        self.until(&format!("the end of reply {number}"), |log| log.requests.get(number)?.end).await
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// Notes a request and finds its reply.
    fn receive(&self, mut request: Request) -> (usize, Reply) {
        let prompt = cache::rendered(&request.body);
        request.prompt = prompt.len();
        request.cached = lock(&self.cache).take_in(&prompt);
        let scripted = lock(&self.replies).pop_front();
        let rule = lock(&self.rule).clone();
        let reply = scripted.or_else(|| rule.map(|rule| rule(&request))).unwrap_or_else(|| {
            Reply::status(500, r#"{"error":{"message":"no reply is scripted for this request"}}"#)
        });
        let mut number = 0;
        self.log.send_modify(|log| {
            number = log.requests.len();
            log.requests.push(request);
        });
        (number, reply)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
