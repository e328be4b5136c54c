//! Moves the whole test process into a private network namespace, so that server, Rust participants and Python
//! peers meet there and nowhere else.
//!
//! It replaces the process by itself (`exec`) before any thread exists: arguments, output and exit code stay what
//! the caller expects. Where the system forbids namespaces without root it says so and stays on loopback; with
//! `SOTTO_REQUIRE_NETNS=1` that is a failure. It never touches the machine's own network.

use std::{
    env,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio, exit},
};

use crate::{authority, tools};

const SCRIPT: &str = include_str!("isolated.sh");
const NETWORK: &str = "SOTTO_TEST_NETWORK";
const DIRECTORY: &str = "SOTTO_TEST_DIRECTORY";
/// `livekit` obeys these and knows no exceptions: with one of them set it would not even find loopback.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Whether this process has a network of its own.
pub fn isolated() -> bool {
    env::var(NETWORK).is_ok_and(|network| network == "private")
}

/// Whether everything that depends on the machine must run: set in CI.
pub fn must_run() -> bool {
    env::var("SOTTO_REQUIRE_NETNS").is_ok_and(|value| value == "1")
}

/// This process's own directory for logs and keys; kept when a test fails.
pub fn directory() -> PathBuf {
    PathBuf::from(env::var(DIRECTORY).expect("enter() set it before any test ran"))
}

/// Returns in the process that runs the tests: isolated if the system allows it, with these programs found before.
pub(crate) fn enter(needed: &[&tools::Tool]) {
    if env::var(NETWORK).is_ok() {
        return;
    }
    let private = namespaces_work();
    if !private {
        eprintln!("\n*** NO PRIVATE NETWORK: this system forbids `unshare -rn` or lacks `ip`. ***");
        eprintln!(
            "*** The tests run on this machine's loopback; those that need loss or IPv6 are skipped. ***\n"
        );
        if must_run() {
            eprintln!("SOTTO_REQUIRE_NETNS=1 makes this a failure.");
            exit(1);
        }
    }
    let directory = env::temp_dir().join(format!("sotto-tests-{}", std::process::id()));
    authority::create(&directory);

    let executable = env::current_exe().expect("a running test knows its own file");
    let mut command = if private { in_namespace(&executable) } else { Command::new(&executable) };
    command
        .args(env::args_os().skip(1))
        .envs(needed.iter().map(|tool| tool.find()))
        .env(NETWORK, if private { "private" } else { "loopback" })
        .env(DIRECTORY, &directory)
        .env("SSL_CERT_FILE", authority::certificate(&directory));
    for proxy in PROXIES {
        command.env_remove(proxy);
    }
    let error = command.exec();
    eprintln!("cannot start the tests again in their network: {error}");
    exit(1);
}

fn in_namespace(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", SCRIPT, "sh"]).arg(program);
    command
}

fn namespaces_work() -> bool {
    in_namespace(Path::new("true"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
