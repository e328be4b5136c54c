//! The agent itself: the real `sotto join` in a process of its own, with an environment of its own.
//!
//! It is in the room when [`Agent::join`] returns. Its log is kept in the tests' directory and here, so that a test can
//! await a line of it; whoever lets go of an agent that panicked fails, and a failing test shows how its log ends.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    task::spawn_blocking,
    time::{error::Elapsed, sleep, timeout},
};

use crate::{PATIENCE, children, isolation, server::Server};

/// Its identity in every room, unless a test says otherwise.
pub const AGENT: &str = "agent-sotto";

const SHOWN_LINES: usize = 30;
const SHOWN_WIDTH: usize = 400;

/// An agent in a room, or on its way there.
pub struct Agent {
    process: Option<Child>,
    log: watch::Receiver<String>,
}

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    WithCode(i32),
    /// By a signal.
    BySignal,
}

impl Agent {
    /// Starts the program and waits until it is in the room. `settings` are `SOTTO_…` variables.
    pub async fn join(program: &str, server: &Server, room: &str, settings: &[(&str, &str)]) -> Self {
        let agent = Self::launch(program, server, room, settings);
        agent.logs("that it joined", |line| line.contains("\"joined\"")).await;
        agent
    }

    /// Starts the program and waits for nothing.
    pub fn launch(program: &str, server: &Server, room: &str, settings: &[(&str, &str)]) -> Self {
        Self::start(program, server, &["join", room], settings)
    }

    /// Starts the program with other arguments, for example one that holds many agents; see [`Agent::tell`].
    pub fn start(program: &str, server: &Server, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = command(program, server, settings);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = children::spawn(command).expect("util-linux and the program are there");
        let output = process.stderr.take().expect("asked for a pipe");
        let mut file = File::create(new_directory().join("agent.log")).expect("just made this directory");
        let (write, log) = watch::channel(String::new());
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // A full disk loses the copy for people; the test has its own.
                let _ = writeln!(file, "{line}");
                write.send_modify(|log| {
                    log.push_str(&line);
                    log.push('\n');
                });
            }
        });
        Self { process: Some(process), log }
    }

    /// Its identity in the room.
    pub fn identity(&self) -> &'static str {
        AGENT
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().expect("it has not ended yet").id()
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) {
        let process = self.process.as_mut().expect("it has not ended yet");
        let input = process.stdin.as_mut().expect("asked for a pipe");
        writeln!(input, "{line}").expect("it reads what it is told");
    }

    /// All it logged so far.
    pub fn log(&self) -> String {
        self.log.borrow().clone()
    }

    /// Waits for a line of its log.
    pub async fn logs(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        self.logs_within(PATIENCE, what, is_it).await
    }

    /// The same for what takes long.
    pub async fn logs_within(&self, patience: Duration, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let find = |log: &String| log.lines().find(|line| is_it(line)).map(str::to_owned);
        let mut log = self.log.clone();
        match timeout(patience, log.wait_for(|log| find(log).is_some())).await {
            Ok(Ok(log)) => find(&log).expect("just found there"),
            Ok(Err(_)) => panic!("the agent ended and never logged {what}"),
            Err(Elapsed { .. }) => panic!("the agent never logged {what}"),
        }
    }

    /// Asks its HTTP server: the status and the body.
    pub async fn get(&self, path: &str) -> (u16, String) {
        const BEFORE: &str = "health and metrics on http://";
        let line = self.logs("where it serves health", |line| line.contains(BEFORE)).await;
        let address = line.split(BEFORE).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let address: SocketAddr = address.parse().expect("an address follows");
        let asking = async {
            let mut connection = TcpStream::connect(address).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = timeout(PATIENCE, asking).await.expect("it answers").expect("it listens");
        let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP has a head and a body");
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("HTTP has a status");
        (status, body.to_owned())
    }

    /// One figure of its metrics, by its name with labels; 0 where it is not there.
    pub async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = self.get("/metrics").await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or(0)
    }

    /// Waits until these figures of its metrics are at least so much together.
    pub async fn metric_reaches(&self, names: &[&str], least: u64) {
        let reached = async {
            loop {
                let mut sum = 0;
                for name in names {
                    sum += self.metric(name).await;
                }
                if sum >= least {
                    return;
                }
                // Metrics tell nobody that they have changed.
                sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "{names:?} never reached {least}:\n{}", self.get("/metrics").await.1);
    }

    /// Asks it to leave (SIGTERM).
    pub fn terminate(&self) {
        if let Some(process) = &self.process {
            children::terminate(process);
        }
    }

    /// Stops it where it is, as a machine that sleeps would.
    pub fn freeze(&self) {
        if let Some(process) = &self.process {
            children::signal(process, "STOP");
        }
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        if let Some(process) = &self.process {
            children::signal(process, "CONT");
        }
    }

    /// Ends it without a word, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only when it is dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until it has ended, and says how. Once.
    pub async fn ended(&mut self) -> Ended {
        let mut process = self.process.take().expect("it has not ended yet");
        let ended = spawn_blocking(move || process.wait());
        let status = timeout(PATIENCE, ended).await.expect("the agent ends").expect("no panic there");
        status.expect("it is our child").code().map_or(Ended::BySignal, Ended::WithCode)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        let log = self.log();
        if thread::panicking() {
            let short = |line: &str| line.chars().take(SHOWN_WIDTH).collect::<String>();
            let lines: Vec<_> = log.lines().map(short).collect();
            let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
            // One write, so that tests that fail together do not mix their lines.
            let _ = std::io::stderr()
                .write_all(format!("--- the agent's log ends with ---\n{tail}\n").as_bytes());
        } else {
            // Where a test asked for it, it was to panic.
            let unwanted = |line: &str| line.contains("panicked at") && !line.contains("failpoint");
            let panicked = log.lines().position(unwanted);
            let shown = |at: usize| log.lines().skip(at).take(3).collect::<Vec<_>>().join("\n");
            assert!(panicked.is_none(), "the agent panicked:\n{}", panicked.map(shown).unwrap_or_default());
        }
    }
}

/// Runs another command of the program to its end, in the same environment.
pub async fn run(program: &str, server: &Server, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = command(program, server, settings);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = children::spawn(command).expect("util-linux and the program are there");
    let output = spawn_blocking(move || child.wait_with_output());
    let output = timeout(PATIENCE, output).await.expect("the command ends").expect("no panic there");
    output.expect("its output can be read")
}

/// Nothing of our environment but what every program needs; what it must know is in variables, as the caller wants it.
fn command(program: &str, server: &Server, settings: &[(&str, &str)]) -> Command {
    let (key, secret) = server.api_key();
    let mut command = children::mortal(program);
    command.env_clear().current_dir(new_directory());
    for kept in ["PATH", "SSL_CERT_FILE"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    command
        .env("LIVEKIT_URL", server.url())
        .env("LIVEKIT_API_KEY", key)
        .env("LIVEKIT_API_SECRET", secret)
        .env("SOTTO_AGENT_IDENTITY", AGENT)
        .env("SOTTO_HTTP_ADDR", "127.0.0.1:0")
        .envs(settings.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    command
}

/// A directory for one agent: where it runs, with nothing in it to read.
fn new_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = isolation::directory().join(format!("agent-{number}"));
    fs::create_dir_all(&directory).expect("the tests' directory is writable");
    directory
}
