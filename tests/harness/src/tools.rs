//! The programs of others that the tests run: found (or built, or installed) by the project's scripts.
//!
//! That happens before the process enters its private network, which has no way out to any registry.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program, the script that prints its path last, and the variable that overrides the script.
pub(crate) struct Tool {
    script: &'static str,
    variable: &'static str,
}

/// `livekit-server`.
pub(crate) const SERVER: Tool = Tool { script: "livekit-server", variable: "SOTTO_LIVEKIT_SERVER" };
/// A Python with LiveKit's SDK.
pub(crate) const PYTHON: Tool = Tool { script: "python-env", variable: "SOTTO_PYTHON" };
/// A Python with llama.cpp's server.
pub(crate) const LLAMA_PYTHON: Tool = Tool { script: "llama-env", variable: "SOTTO_LLAMA_PYTHON" };
/// The model that says what a script tells it to: not a program, but found in the same way.
pub(crate) const SCRIPTED_QWEN3: Tool = Tool { script: "scripted-qwen3", variable: "SOTTO_SCRIPTED_QWEN3" };
/// The directory of PostgreSQL's programs, which only some tests need.
pub(crate) const POSTGRES: Tool = Tool { script: "postgres", variable: "SOTTO_POSTGRES" };
/// What all tests in a private network may need.
pub(crate) const ALL: [&Tool; 4] = [&SERVER, &PYTHON, &LLAMA_PYTHON, &SCRIPTED_QWEN3];

impl Tool {
    /// Its path, for a process that is past [`Tool::find`].
    pub(crate) fn path(&self) -> PathBuf {
        env::var_os(self.variable).expect("found before the tests began").into()
    }

    /// The variable and the path it shall have.
    pub(crate) fn find(&self) -> (&'static str, OsString) {
        (self.variable, self.try_find().unwrap_or_else(|| panic!("scripts/{} failed", self.script)))
    }

    /// Its path; nothing if it cannot be had, which the script has said.
    pub(crate) fn try_find(&self) -> Option<OsString> {
        env::var_os(self.variable).or_else(|| self.ask_script())
    }

    fn ask_script(&self) -> Option<OsString> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(self.script);
        let output = Command::new(&path).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", path.display()));
        let printed = String::from_utf8_lossy(&output.stdout);
        printed.lines().last().filter(|_| output.status.success()).map(|line| line.trim().into())
    }
}
