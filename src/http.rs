//! Health and metrics over HTTP: `GET /` for whoever watches the process, `GET /metrics` for Prometheus.
//!
//! Plain and without secrets; it listens on loopback unless the configuration says otherwise.

use crate::telemetry::metrics::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Whether the agent can do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is connected.
    Good,
    /// It is not, or not yet.
    Connecting,
    /// It finishes what is running and then ends.
    Leaving,
}

#[derive(Clone)]
struct Shown {
    health: watch::Receiver<Health>,
    metrics: Arc<Metrics>,
}

/// Answers in the background until dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one.
    pub async fn start(
        address: SocketAddr,
        health: watch::Receiver<Health>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let app = Router::new()
            .route("/", get(show_health))
            .route("/metrics", get(show_metrics))
            .with_state(Shown { health, metrics });
        let task = tokio::spawn(async move {
            // It only ends when it is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn show_health(State(shown): State<Shown>) -> impl IntoResponse {
    let (status, word) = match *shown.health.borrow() {
        Health::Good => (StatusCode::OK, "ok"),
        Health::Connecting => (StatusCode::SERVICE_UNAVAILABLE, "connecting"),
        Health::Leaving => (StatusCode::SERVICE_UNAVAILABLE, "leaving"),
    };
    let body = json!({ "status": word, "version": env!("CARGO_PKG_VERSION"), "conversations": shown.metrics.conversations.get() });
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

async fn show_metrics(State(shown): State<Shown>) -> impl IntoResponse {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, form)], shown.metrics.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(url: String) -> (u16, String) {
        crate::tls::choose_provider();
        let answer = reqwest::get(url).await.expect("it listens");
        (answer.status().as_u16(), answer.text().await.expect("it answers"))
    }

    #[tokio::test]
    async fn health_follows_the_agent_and_metrics_are_there() {
        let (health, watched) = watch::channel(Health::Connecting);
        let metrics = Arc::new(Metrics::default());
        let server = Server::start(([127, 0, 0, 1], 0).into(), watched, Arc::clone(&metrics))
            .await
            .expect("a free port");
        let base = format!("http://{}", server.address());

        let (status, body) = get(format!("{base}/")).await;
        assert_eq!((status, body.contains("connecting")), (503, true));
        health.send_replace(Health::Good);
        metrics.conversations.inc();
        let (status, body) = get(format!("{base}/")).await;
        assert_eq!((status, body.contains("\"conversations\":1")), (200, true), "{body}");
        let (status, body) = get(format!("{base}/metrics")).await;
        assert_eq!((status, body.contains("sotto_conversations 1")), (200, true));
        assert_eq!(get(format!("{base}/elsewhere")).await.0, 404);
    }
}
