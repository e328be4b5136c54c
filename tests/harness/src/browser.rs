//! A page in a real Chromium: `tests/browser/driver.mjs` in a process of its own. It meets the others in the private
//! network; the test that lets go of a page in which something went wrong unseen fails.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::{children, dialogue::Dialogue, isolation};

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../browser/driver.mjs");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/browser-env");

/// A browser with one page.
pub struct Browser {
    dialogue: Dialogue,
}

impl Browser {
    /// Starts a browser; skips the test where there is none.
    pub fn start() -> Self {
        let directory = directory().unwrap_or_else(|| {
            let reason = "no browser; scripts/browser-env installs one";
            let must_run = env::var("SOTTO_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
            assert!(!must_run, "cannot run here, but must: {reason}");
            crate::skip(reason)
        });
        assert!(Path::new(DRIVER).exists(), "{DRIVER} is missing");
        let mut command = children::mortal("node");
        // Chromium's own files (profile, caches, crash reports) belong to the test.
        let home = isolation::directory();
        command.arg(DRIVER).arg(directory).env("HOME", &home).env("TMPDIR", &home);
        Self { dialogue: Dialogue::start("browser", command) }
    }

    /// Opens a page of tests/browser/pages.
    pub async fn open(&mut self, page: &str) {
        self.dialogue.call("open", json!({"page": page})).await;
    }

    /// Opens a file of the project as it is, with this in its address.
    pub async fn show(&mut self, file: &str, query: Value) {
        self.dialogue.call("show", json!({"file": file, "query": query})).await;
    }

    /// Has the page do something and gives its answer.
    pub async fn call(&mut self, what: &str, arguments: Value) -> Value {
        self.dialogue.call(what, arguments).await
    }

    /// The first thing of that name that the page told, or will tell, and that fits.
    pub async fn event(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.dialogue.event(name, fits).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let errors: Vec<_> =
            self.dialogue.unclaimed().iter().filter(|said| said["event"] == "error").cloned().collect();
        if thread::panicking() {
            eprintln!("errors in the page: {errors:?}");
        } else {
            assert!(errors.is_empty(), "errors in the page: {errors:?}");
        }
    }
}

/// Where browser and packages are, if they are installed: asking installs nothing, as there is no way out from here.
fn directory() -> Option<PathBuf> {
    let asked =
        Command::new(SCRIPT).arg("--find").stdin(Stdio::null()).stderr(Stdio::inherit()).output().ok()?;
    let printed = String::from_utf8_lossy(&asked.stdout);
    asked.status.success().then(|| printed.lines().last().map(PathBuf::from)).flatten()
}
