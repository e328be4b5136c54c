//! Watches what no test asks about: log lines that must never appear, and panics in background tasks.
//!
//! It keeps the last log lines for the report of a failing test, and prints nothing by itself unless
//! `SOTTO_TEST_LOG` names a level. Tests that run at the same time share what is seen: each of them fails.

use std::{
    collections::VecDeque,
    env, panic,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use log::{LevelFilter, Log, Metadata, Record};

/// The name of the runtime's threads: a panic there belongs to no test, so nobody else would notice it.
pub(crate) const WORKER: &str = "room-worker";
/// `livekit` logs these when `libwebrtc` reports bytes that were never sent.
const FORBIDDEN: [&str; 2] = ["unexpected buffer size", "unexpected buffer amount"];
const KEPT_LINES: usize = 120;

static SEEN: Mutex<Seen> = Mutex::new(Seen { recent: VecDeque::new(), faults: Vec::new() });

struct Seen {
    recent: VecDeque<String>,
    faults: Vec<String>,
}

struct Watcher {
    start: Instant,
    print: bool,
}

impl Log for Watcher {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let time = self.start.elapsed().as_secs_f64();
        let line = format!("{time:8.3} {:5} {}: {}", record.level(), record.target(), record.args());
        if self.print {
            eprintln!("{line}");
        }
        let mut seen = seen();
        if is_forbidden(&line) {
            seen.faults.push(line.clone());
        }
        if seen.recent.len() == KEPT_LINES {
            seen.recent.pop_front();
        }
        seen.recent.push_back(line);
    }

    fn flush(&self) {}
}

/// What went wrong since the last call, though no test noticed.
pub fn take_faults() -> Vec<String> {
    std::mem::take(&mut seen().faults)
}

/// Lets go of the log lines kept so far: to whoever measures memory they would look like something left behind.
pub fn forget_recent() {
    seen().recent = VecDeque::new();
}

pub(crate) fn recent() -> Vec<String> {
    seen().recent.iter().cloned().collect()
}

pub(crate) fn install() {
    let asked = env::var("SOTTO_TEST_LOG").ok().and_then(|level| level.parse::<LevelFilter>().ok());
    log::set_max_level(asked.unwrap_or(LevelFilter::Info));
    log::set_boxed_logger(Box::new(Watcher { start: Instant::now(), print: asked.is_some() }))
        .expect("no other logger in a test");

    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(WORKER) {
            seen().faults.push(format!("a task panicked: {info}"));
        }
        if info.payload().is::<crate::Skipped>() {
            return;
        }
        usual(info);
    }));
}

fn is_forbidden(line: &str) -> bool {
    let line = line.to_lowercase();
    FORBIDDEN.iter().any(|forbidden| line.contains(forbidden))
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}
