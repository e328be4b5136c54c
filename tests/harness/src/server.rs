//! A real `livekit-server` on free ports with a key of its own.
//!
//! It is ready when [`Server::start`] returns, keeps its log in the test's directory, and is ended on drop. A
//! failing test shows the log's tail. It listens on loopback and the private network only.

use std::{
    fs::{self, File},
    io::Write,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use livekit_api::access_token::{AccessToken, VideoGrants};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::OnceCell,
    time::sleep,
};

use crate::{PATIENCE, children, isolation, tools};

const START_ATTEMPTS: u32 = 5;
const SHOWN_LINES: usize = 30;
/// Its lines carry whole session descriptions; the file has them all.
const SHOWN_WIDTH: usize = 300;

static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();

/// Which addresses the server offers for media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaAddress {
    /// IPv4: what most machines have.
    #[default]
    V4,
    /// Only IPv6 (needs the private network).
    V6,
}

/// What a test may want different from the shared server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// The addresses for media.
    pub media: MediaAddress,
    /// Without ICE over TCP.
    pub without_tcp: bool,
    /// More lines for the end of its configuration.
    pub extra_yaml: String,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    signal: u16,
    tcp: u16,
    udp: u16,
}

/// A running server.
pub struct Server {
    options: ServerOptions,
    ports: Ports,
    key: String,
    secret: String,
    directory: PathBuf,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// A server of the test's own.
    pub async fn start() -> Self {
        Self::start_with(ServerOptions::default()).await
    }

    /// A server of the test's own that differs from the usual.
    pub async fn start_with(options: ServerOptions) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = isolation::directory().join(format!("server-{number}"));
        fs::create_dir_all(&directory).expect("the tests' directory is writable");
        let mut server = Self {
            options,
            ports: free_ports(),
            key: format!("key{number}"),
            secret: new_secret(),
            directory,
            process: Mutex::new(None),
        };
        for _ in 0..START_ATTEMPTS {
            if server.launch().await {
                return server;
            }
            // Somebody else took one of the ports between our look and the server's.
            server.ports = free_ports();
        }
        panic!("livekit-server does not start; its log:\n{}", server.log());
    }

    /// The server that tests share when they do it no harm.
    pub async fn shared() -> Arc<Self> {
        SHARED.get_or_init(|| async { Arc::new(Self::start().await) }).await.clone()
    }

    /// Ends it without a word, as a crash would.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            // Both fail only when it is dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again on the same ports with the same key.
    pub async fn restart(&self) {
        self.kill();
        let deadline = Instant::now() + PATIENCE;
        // Its old sockets may need a moment to go.
        while !self.launch().await {
            assert!(Instant::now() < deadline, "livekit-server does not come back; its log:\n{}", self.log());
        }
    }

    /// Where participants connect.
    pub fn url(&self) -> String {
        format!("ws://{}", self.signal_address())
    }

    /// The address of its WebSocket and HTTP port.
    pub fn signal_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.signal))
    }

    /// The port of all media and data.
    pub fn udp_port(&self) -> u16 {
        self.ports.udp
    }

    /// Its API key and the secret that belongs to it.
    pub fn api_key(&self) -> (&str, &str) {
        (&self.key, &self.secret)
    }

    /// Its process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(Child::id)
    }

    /// A token with which `identity` may do everything an ordinary participant may.
    pub fn token(&self, room: &str, identity: &str) -> String {
        AccessToken::with_api_key(&self.key, &self.secret)
            .with_identity(identity)
            .with_grants(VideoGrants {
                room_join: true,
                room: room.to_owned(),
                can_update_own_metadata: Some(true),
                ..VideoGrants::default()
            })
            .to_jwt()
            .expect("key and secret are set")
    }

    /// All it logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Log lines in which it complains, but for those that the SDK's hasty farewell provokes now and then: it closes
    /// its WebSocket without waiting for the answer to its Leave, which the server then cannot write; and it offers
    /// to take its tracks back just before, which the server then cannot answer.
    pub fn complaints(&self) -> Vec<String> {
        let complains = |line: &&str| {
            (line.contains("\tWARN\t") || line.contains("\tERROR\t"))
                && !line.contains("websocket: close sent")
                && !line.contains("trying to create answer on closed peer connection")
        };
        self.log().lines().filter(complains).map(str::to_owned).collect()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("livekit-server.log")
    }

    /// Whether it came up; false when it ended by itself.
    async fn launch(&self) -> bool {
        let config = self.directory.join("config.yaml");
        fs::write(&config, self.config()).expect("the directory was created at the start");
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.expect("the directory was created at the start");
        let also_log = log.try_clone().expect("an open file can be shared");

        let mut command = children::mortal(tools::SERVER.path());
        command.arg("--config").arg(&config).stdin(Stdio::null()).stdout(log).stderr(also_log);
        *self.process() =
            Some(children::spawn(command).expect("util-linux and the server's binary are there"));

        let deadline = Instant::now() + PATIENCE;
        while !self.answers().await {
            let ended = self.process().as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                self.kill();
                return false;
            }
            sleep(Duration::from_millis(30)).await;
        }
        true
    }

    async fn answers(&self) -> bool {
        let ask = async {
            let mut connection = TcpStream::connect(self.signal_address()).await.ok()?;
            connection.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").await.ok()?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.ok()?;
            answer.contains("200 OK").then_some(())
        };
        ask.await.is_some()
    }

    fn config(&self) -> String {
        let Ports { signal, tcp, udp } = self.ports;
        let tcp = if self.options.without_tcp { 0 } else { tcp };
        let place = match (isolation::isolated(), self.options.media) {
            (true, MediaAddress::V4) => {
                "node_ip: 10.80.0.1\n  interfaces: {includes: [v0]}\n  ips: {includes: [10.80.0.0/24]}"
            }
            (true, MediaAddress::V6) => {
                "node_ip: \"fd80::1\"\n  interfaces: {includes: [v0]}\n  ips: {includes: [\"fd80::/64\"]}"
            }
            (false, MediaAddress::V4) => {
                "node_ip: 127.0.0.1\n  interfaces: {includes: [lo]}\n  ips: {includes: [127.0.0.0/8]}\n  enable_loopback_candidate: true"
            }
            (false, MediaAddress::V6) => crate::skip("IPv6 media needs the private network"),
        };
        // The STUN server is one that does not exist: the default ones are public.
        format!(
            "port: {signal}\nbind_addresses: [\"127.0.0.1\"]\nrtc:\n  tcp_port: {tcp}\n  udp_port: {udp}\n  \
             use_external_ip: false\n  stun_servers: [\"127.0.0.1:9\"]\n  {place}\n\
             keys: {{{}: \"{}\"}}\nroom: {{auto_create: true, empty_timeout: 30, departure_timeout: 5}}\n\
             logging: {{level: info, json: false}}\n{}\n",
            self.key, self.secret, self.options.extra_yaml
        )
    }

    fn stop(&self) {
        let Some(mut process) = self.process().take() else { return };
        // The first signal makes it wait for its participants, the second does not.
        for _ in 0..2 {
            children::terminate(&process);
            let deadline = Instant::now() + Duration::from_millis(700);
            while Instant::now() < deadline {
                if !matches!(process.try_wait(), Ok(None)) {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        // Both fail only when it is dead already.
        let _ = process.kill();
        let _ = process.wait();
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show_log(&self) {
        let log = self.log();
        let short = |line: &str| line.chars().take(SHOWN_WIDTH).collect::<String>();
        let lines: Vec<_> = log.lines().map(short).collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        // One write, so that tests that fail together do not mix their lines.
        let report = format!("--- {} ends with ---\n{tail}\n", self.log_path().display());
        let _ = std::io::stderr().write_all(report.as_bytes());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            self.show_log();
        }
        self.stop();
    }
}

pub(crate) fn show_shared_log() {
    if let Some(server) = SHARED.get() {
        server.show_log();
    }
}

pub(crate) fn stop_shared() {
    if let Some(server) = SHARED.get() {
        server.stop();
    }
}

/// A room name nobody else uses.
pub fn new_room() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("room-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn free_ports() -> Ports {
    let tcp = || TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    // All three are held until all are chosen, so that they differ.
    let (signal, ice) = (tcp(), tcp());
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = |address: std::io::Result<SocketAddr>| address.expect("a bound socket has an address").port();
    Ports { signal: port(signal.local_addr()), tcp: port(ice.local_addr()), udp: port(udp.local_addr()) }
}

fn new_secret() -> String {
    let mut bytes = [0; 24];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut bytes).expect("the system has randomness");
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
