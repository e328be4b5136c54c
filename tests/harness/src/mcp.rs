//! MCP servers of others, as programs to be started: from the registries of npm and Python, and our own on
//! Python's SDK (`tests/mcp/`).

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tokio::{net::TcpStream, time::sleep};

use crate::{PATIENCE, children};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-env");
const TRIALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/server.py");

/// npm's `server-everything`, over its input and output.
pub fn everything() -> Vec<String> {
    npm("server-everything", &["stdio"])
}

/// npm's `server-filesystem`, for this directory.
pub fn filesystem(directory: &Path) -> Vec<String> {
    npm("server-filesystem", &[&directory.to_string_lossy()])
}

/// Python's `mcp-server-time`.
pub fn time() -> Vec<String> {
    vec![python(), "-m".to_owned(), "mcp_server_time".to_owned(), "--local-timezone=UTC".to_owned()]
}

/// Our own, on Python's `mcp`.
pub fn trials() -> Vec<String> {
    vec![python(), TRIALS.to_owned()]
}

/// A server over streamable HTTP, on this machine. It ends when dropped.
pub struct Remote {
    port: u16,
    process: Child,
}

/// Which one.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// npm's `server-everything`.
    Everything,
    /// Our own.
    Trials,
}

impl Remote {
    /// Starts it and waits until it listens.
    pub async fn start(kind: Kind) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        Self::start_at(kind, port).await
    }

    /// The same at a port where one was before.
    pub async fn start_at(kind: Kind, port: u16) -> Self {
        let command = match kind {
            Kind::Everything => npm("server-everything", &["streamableHttp"]),
            Kind::Trials => trials(),
        };
        let mut process = children::mortal(&command[0]);
        process.args(&command[1..]).env("PORT", port.to_string());
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process =
            children::spawn(process).unwrap_or_else(|error| panic!("cannot start {}: {error}", command[0]));
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listens).await.expect("the server listens");
        Self { port, process }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn npm(package: &str, arguments: &[&str]) -> Vec<String> {
    let program = directory().join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    let own = ["node".to_owned(), program.to_string_lossy().into_owned()];
    own.into_iter().chain(arguments.iter().map(|argument| (*argument).to_owned())).collect()
}

fn python() -> String {
    directory().join("python/bin/python").to_string_lossy().into_owned()
}

/// Where they were installed; skips the test where they were not. The private network has no way to any registry.
fn directory() -> PathBuf {
    if let Some(directory) = env::var_os("SOTTO_MCP") {
        return directory.into();
    }
    let found = Command::new(SCRIPT).arg("--find").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let found = found.unwrap_or_else(|error| panic!("cannot run {SCRIPT}: {error}"));
    let printed = String::from_utf8_lossy(&found.stdout);
    if let Some(line) = printed.lines().last().filter(|_| found.status.success()) {
        return line.trim().into();
    }
    let reason = "no MCP servers; scripts/mcp-env installs them";
    let must_run = env::var("SOTTO_REQUIRE_MCP").is_ok_and(|value| value == "1");
    assert!(!must_run, "cannot run here, but must: {reason}");
    crate::skip(reason)
}
