//! A LiveKit server of one's own: on loopback, on free ports, with a new key, for as long as the command runs.

use anyhow::{Context, bail};
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Everything but ports and keys.
const CONFIGURATION: &str = include_str!("../../../config/livekit.yaml");
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end before it is killed.
const FAREWELL: Duration = Duration::from_secs(2);

/// A server that ends when it is dropped.
#[derive(Debug)]
pub(super) struct LocalServer {
    child: Child,
    log: PathBuf,
    /// Where it is.
    pub(super) url: String,
    /// What signs tokens for it.
    pub(super) api_key: String,
    /// The key's secret.
    pub(super) api_secret: String,
}

impl LocalServer {
    /// Starts one, and returns when it answers.
    pub(super) async fn start(binary: &Path) -> anyhow::Result<Self> {
        // Another program may take a port between our finding it free and the server's taking it.
        let mut failure = None;
        for _ in 0..3 {
            match Self::try_start(binary).await {
                Ok(server) => return Ok(server),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("the server did not start")))
    }

    async fn try_start(binary: &Path) -> anyhow::Result<Self> {
        let (port, media_port) = free_ports()?;
        let api_secret = random_secret()?;
        let api_key = "dev".to_owned();
        let log = std::env::temp_dir().join(format!("sotto-dev-{}-livekit-server.log", std::process::id()));
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--udp-port", &media_port.to_string()])
            .env("LIVEKIT_CONFIG", CONFIGURATION)
            .env("LIVEKIT_KEYS", format!("{api_key}: {api_secret}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C is for us: the server ends after those who are in its rooms.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let url = format!("ws://127.0.0.1:{port}");
        let mut server = Self { child, log, url, api_key, api_secret };
        match timeout(PATIENCE, server.answers(port)).await {
            Ok(Ok(())) => Ok(server),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!(
                "livekit-server did not answer within {} s; it said:\n{}",
                PATIENCE.as_secs(),
                server.last_lines()
            ),
        }
    }

    async fn answers(&mut self, port: u16) -> anyhow::Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("livekit-server ended at once ({status}); it said:\n{}", self.last_lines());
            }
            if healthy(port).await.unwrap_or(false) {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The end of the server's log.
    pub(super) fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Ends the server.
    pub(super) async fn stop(mut self) {
        // The first signal waits for participants to leave; they have.
        if let Some(id) = self.child.id() {
            let _ = Command::new("kill").arg(id.to_string()).status().await;
        }
        if timeout(FAREWELL, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Finds a `livekit-server`: what the caller named, else what `SOTTO_LIVEKIT_SERVER` names, else one on PATH.
pub(super) fn find(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) =
        named.map(Path::to_owned).or_else(|| std::env::var_os("SOTTO_LIVEKIT_SERVER").map(PathBuf::from))
    {
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("livekit-server"))
        .find(|file| file.is_file());
    found.context(
        "there is no livekit-server on PATH; start through scripts/dev, which builds one, or name yours with --server",
    )
}

fn random_secret() -> anyhow::Result<String> {
    let mut halves = [0_u8; 32];
    getrandom::fill(&mut halves).context("the system has no randomness")?;
    let (first, second) = halves.split_at(16);
    let number = |half: &[u8]| half.iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
    Ok(format!("{:032x}{:032x}", number(first), number(second)))
}

fn free_ports() -> anyhow::Result<(u16, u16)> {
    let signal = TcpListener::bind("127.0.0.1:0").context("no free port on loopback")?;
    let media = UdpSocket::bind("127.0.0.1:0").context("no free port on loopback")?;
    Ok((signal.local_addr()?.port(), media.local_addr()?.port()))
}

async fn healthy(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    Ok(answer.ends_with(b" 200"))
}
