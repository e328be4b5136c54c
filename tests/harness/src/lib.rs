//! Real servers, real peers and real networks for Sotto's end-to-end tests.
//!
//! A test binary has no libtest of its own but calls [`run`]: the process first moves into a private network
//! ([`isolation`]), then runs its tests there on one shared runtime, as an application would. Everything a test
//! starts (a `livekit-server`, Python peers) ends with it. Nothing here ever talks to the outside.
//!
//! A test is an `async fn` without arguments that panics when it fails. It also fails when `livekit` logged
//! something that must never be logged, or when a task panicked unseen ([`watch`]).

pub mod agent;
pub mod authority;
pub mod browser;
mod children;
mod dialogue;
pub mod endpoint;
pub mod footprint;
pub mod isolation;
pub mod llama;
pub mod mcp;
pub mod network;
pub mod participant;
pub mod peer;
pub mod postgres;
pub mod server;
pub mod service;
pub mod stall;
pub mod tone;
mod tools;
pub mod watch;

use std::{
    any::Any,
    future::Future,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    sync::OnceLock,
    time::Duration,
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::{runtime::Runtime, time::timeout};

/// How long anything that is awaited may take: far above what it needs, so that only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long one test may take in all before it counts as hanging.
const TEST_LIMIT: Duration = Duration::from_secs(180);

/// Lists tests by their path: `tests![data::packets_arrive, audio::tone_is_heard]`.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => { vec![$($crate::trial(stringify!($test), $test)),*] };
}

/// One test; use [`tests!`].
pub fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    limited_trial(name, TEST_LIMIT, test)
}

/// A test that may take longer than others.
pub fn limited_trial<F>(name: &str, limit: Duration, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    let title = name.to_owned();
    Trial::ignorable_test(name, move || judge(&title, limit, test))
}

/// A reason why a test cannot run on this machine.
struct Skipped(String);

/// Ends the running test as skipped; where everything must run (CI) it fails.
pub fn skip(reason: &str) -> ! {
    assert!(!isolation::must_run(), "cannot run here, but must: {reason}");
    eprintln!("\n*** SKIPPED: {reason} ***\n");
    panic::panic_any(Skipped(reason.to_owned()));
}

/// The `main` of a test binary. `threads` is how many tests run at once unless the command line says otherwise.
pub fn run(threads: usize, tests: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        return libtest_mimic::run(&arguments, tests).exit_code();
    }
    prepare(&tools::ALL);
    arguments.test_threads.get_or_insert(threads);

    let conclusion = libtest_mimic::run(&arguments, tests);
    server::stop_shared();
    postgres::stop_shared();
    tidy_up(!conclusion.has_failed());
    conclusion.exit_code()
}

/// Runs a benchmark as the `main` of its binary: in the same private network and on the same runtime as tests, with a
/// LiveKit server to start and nothing else of others' programs.
pub fn run_benchmark(benchmark: impl Future<Output = ()>) -> ExitCode {
    prepare(&[&tools::SERVER]);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| runtime().block_on(benchmark)));
    let faults = watch::take_faults();
    for fault in &faults {
        eprintln!("seen while it ran: {fault}");
    }
    let good = outcome.is_ok() && faults.is_empty();
    tidy_up(good);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns in a process that is isolated and watched.
fn prepare(tools: &[&tools::Tool]) {
    isolation::enter(tools);
    watch::install();
    // Two are compiled in (ring by way of `livekit`, aws-lc-rs by way of str0m) and rustls refuses to guess.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn tidy_up(all_was_good: bool) {
    if all_was_good {
        // Only a file somebody else put there could keep it from going.
        let _ = std::fs::remove_dir_all(isolation::directory());
    } else {
        eprintln!("logs are kept in {}", isolation::directory().display());
    }
}

/// The `main` of a test binary that needs no network: it stays where it is.
pub fn run_here(threads: usize, tests: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(threads);
    let conclusion = libtest_mimic::run(&arguments, tests);
    postgres::stop_shared();
    conclusion.exit_code()
}

/// The runtime of all tests: one for the process, as in an application.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name(watch::WORKER)
            .build()
            .expect("the system can start threads")
    })
}

fn judge<F>(name: &str, limit: Duration, test: fn() -> F) -> Result<Completion, Failed>
where
    F: Future<Output = ()> + 'static,
{
    let outcome =
        panic::catch_unwind(AssertUnwindSafe(|| runtime().block_on(async { timeout(limit, test()).await })));
    let faults = watch::take_faults();
    let failure = match outcome {
        Ok(Ok(())) if faults.is_empty() => return Ok(Completion::Completed),
        Ok(Ok(())) => format!("seen while it ran:\n{}", faults.join("\n")),
        Ok(Err(_)) => format!("still not done after {limit:?}"),
        Err(reason) => match reason.downcast::<Skipped>() {
            Ok(skipped) => return Ok(Completion::ignored_with(skipped.0)),
            Err(reason) => panic_message(reason.as_ref()),
        },
    };
    eprintln!("\n--- {name} failed: what livekit logged last ---\n{}", watch::recent().join("\n"));
    server::show_shared_log();
    Err(failure.into())
}

fn panic_message(reason: &(dyn Any + Send)) -> String {
    if let Some(message) = reason.downcast_ref::<String>() {
        message.clone()
    } else if let Some(message) = reason.downcast_ref::<&str>() {
        (*message).to_owned()
    } else {
        "panicked".to_owned()
    }
}
