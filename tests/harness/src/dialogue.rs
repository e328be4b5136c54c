//! A program of ours in another language, in a process of its own, driven by JSON lines.
//!
//! We write `{"id": 1, "do": …}`, it answers `{"id": 1, "ok": …}` or `{"id": 1, "error": …}`, and says `{"event": …}`
//! whenever something happened. A test judges by what it says, never by how the process ends. Its stderr is kept in the
//! tests' directory.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{error::Elapsed, timeout},
};

use crate::{PATIENCE, children, isolation};

/// Such a program, until it is dropped.
pub(crate) struct Dialogue {
    name: String,
    process: Child,
    commands: ChildStdin,
    said: UnboundedReceiver<Value>,
    unclaimed: VecDeque<Value>,
    next_id: u64,
}

impl Dialogue {
    /// Starts a command of [`children::mortal`]. `name` is how failures and its log speak of it.
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = isolation::directory().join(format!("peer-{number}-{name}.log"));
        let log = File::create(log).expect("the tests' directory is writable");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = children::spawn(command).expect("util-linux and the interpreter are there");
        let commands = process.stdin.take().expect("asked for a pipe");
        let output = process.stdout.take().expect("asked for a pipe");
        let (heard, said) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Libraries print lines of their own now and then.
                if let Ok(value) = serde_json::from_str(&line) {
                    let _ = heard.send(value);
                }
            }
        });
        Self { name: name.to_owned(), process, commands, said, unclaimed: VecDeque::new(), next_id: 0 }
    }

    /// How failures speak of it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Tells it to do something and gives its answer.
    pub(crate) async fn call(&mut self, what: &str, arguments: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut command = json!({"id": id, "do": what});
        merge(&mut command, arguments);
        writeln!(self.commands, "{command}").unwrap_or_else(|error| panic!("{} is gone: {error}", self.name));
        let answer = self.claim(what, |said| said["id"] == id).await;
        assert!(answer.get("error").is_none(), "{} cannot {what}: {}", self.name, answer["error"]);
        answer["ok"].clone()
    }

    /// The first event of that name, past or to come, that fits.
    pub(crate) async fn event(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.claim(name, |said| said["event"] == name && fits(said)).await
    }

    /// What it said so far that nobody has asked for.
    pub(crate) fn unclaimed(&mut self) -> &VecDeque<Value> {
        while let Ok(said) = self.said.try_recv() {
            self.unclaimed.push_back(said);
        }
        &self.unclaimed
    }

    async fn claim(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unclaimed.iter().position(&is_it) {
            return self.unclaimed.remove(index).expect("just found there");
        }
        let waiting = async {
            while let Some(said) = self.said.recv().await {
                if is_it(&said) {
                    return Some(said);
                }
                self.unclaimed.push_back(said);
            }
            None
        };
        match timeout(PATIENCE, waiting).await {
            Ok(Some(said)) => said,
            Ok(None) => panic!("{} ended, awaiting: {what}; see its log", self.name),
            Err(Elapsed { .. }) => {
                panic!("{} awaited in vain: {what}; it said {:?}", self.name, self.unclaimed)
            }
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        // Both fail only when it is dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Adds the keys of one object to another.
pub(crate) fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
