//! A server as a child process: an environment of its own, its words on stderr in our log, and an end for all of it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tracing::debug;

/// How long a server may take to end by itself once nobody talks to it any more.
const FAREWELL: Duration = Duration::from_secs(2);
/// How much of one line on stderr is looked at.
const MAX_LINE_BYTES: u64 = 4_096;

/// How to start a server.
#[derive(Clone)]
pub struct Program {
    /// The program: a path, or a name that is looked for on the agent's own `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// All of its environment; may hold secrets.
    pub environment: BTreeMap<String, String>,
    /// Where it runs; the agent's own directory if left out.
    pub directory: Option<PathBuf>,
}

/// A running server. Dropping it kills it, and whatever it started.
pub(super) struct Process {
    child: Child,
    /// Its process group, which is named after it.
    group: Option<rustix::process::Pid>,
}

impl Process {
    /// Starts it, and gives what it is talked to by.
    pub(super) fn start(server: &str, program: &Program) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(found(&program.program));
        command
            .args(&program.arguments)
            .env_clear()
            .envs(&program.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: it ends as a whole, and a Ctrl-C in our terminal is not for it.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        let piped = || io::Error::other("its input and output are not piped");
        let (stdin, stdout) = (child.stdin.take().ok_or_else(piped)?, child.stdout.take().ok_or_else(piped)?);
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log(server.to_owned(), stderr));
        }
        Ok((Self { child, group }, stdout, stdin))
    }

    /// Ready when it has ended.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("it ended ({status})"),
            Err(error) => format!("it cannot be watched: {error}"),
        }
    }

    /// Gives it the time to end by itself, once its input is closed.
    pub(super) async fn end(mut self) {
        let _ = timeout(FAREWELL, self.child.wait()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // An error says that nothing of it is left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The program's path: the child's own environment says nothing about where it is.
fn found(program: &str) -> PathBuf {
    let by_name = PathBuf::from(program);
    if program.contains('/') {
        return by_name;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
        .unwrap_or(by_name)
}

async fn log(server: String, stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(read) = (&mut stderr).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await {
        if read == 0 {
            return;
        }
        let said = String::from_utf8_lossy(&line);
        debug!(server, "says: {:?}", said.trim_end());
        line.clear();
    }
}
