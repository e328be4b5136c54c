//! Configuration: what was written in a file and in the environment, checked once and typed.
//!
//! Defaults, then the file, then the environment: each goes before the one before it. The file is the one named by
//! `--config`, else by `SOTTO_CONFIG`, else `sotto.toml`, else `config/sotto.toml` of the current directory, if there
//! is one; `config/sotto.toml` of the project lists every key. Key `key` of `[section]` is `SOTTO_SECTION_KEY` in the
//! environment (`LIVEKIT_URL`, `LIVEKIT_API_KEY` and `LIVEKIT_API_SECRET` have their own names too); `${NAME}` in a
//! string of the file is the value of that variable, and a secret. Something blank counts as not given.
//!
//! This module reads the file, the files that it names and the environment, once. Whatever is wrong is told in one
//! [`ConfigError`] that names key, origin and remedy. It never prints and never shows a secret, in errors and debug
//! output included. Fields are called as the keys.

mod error;
mod reader;
mod sections;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use error::ConfigError;
pub use sections::{
    Agent, Budget, BuiltinTool, ClientTool, Endpoint, Hook, Hooks, Http, HttpTool, Interruption,
    KeptReasoning, Limits, LiveKit, LogFormat, McpReach, McpServer, Model, Reasoning, Room, Store, StoreUrl,
    Switch, Telemetry, Thinking, ToolTerms, Tools, Visibility,
};
pub use source::Environment;
pub use text::{Extra, Secret, Text};

use reader::Reader;
use std::path::{Path, PathBuf};

/// The variable that names the file where `--config` does not.
const FILE_VARIABLE: &str = "SOTTO_CONFIG";
/// Where a file is looked for when nobody names one. One's own goes before the one that a checkout brings.
const USUAL_FILES: [&str; 2] = ["sotto.toml", "config/sotto.toml"];

/// Everything that can be configured, valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The LiveKit server.
    pub livekit: LiveKit,
    /// Rooms and their packets.
    pub room: Room,
    /// Who the agent is.
    pub agent: Agent,
    /// The language model.
    pub model: Model,
    /// What is done with the model's thinking.
    pub reasoning: Reasoning,
    /// The tools.
    pub tools: Tools,
    /// The developer's own logic.
    pub hooks: Hooks,
    /// What one participant may send.
    pub limits: Limits,
    /// What a turn and a conversation may cost.
    pub budget: Budget,
    /// Where conversations are kept.
    pub store: Store,
    /// Health and metrics.
    pub http: Http,
    /// The log.
    pub telemetry: Telemetry,
    /// Values of `${NAME}`, and secrets of keys that are not in use.
    hidden: Vec<Secret>,
}

impl Config {
    /// Reads the configuration of this process; `file` is what `--config` says.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_from(file, Path::new(""), &Environment::of_this_process())
    }

    /// Reads a configuration that depends on nothing but the arguments: the usual files are looked for in
    /// `directory`.
    pub fn load_from(
        file: Option<&Path>,
        directory: &Path,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let file = find_file(file, directory, environment)?;
        let source = file.as_deref().map(source::File::read).transpose()?;
        let mut reader = Reader::new(source, environment);
        let config = Self::read(&mut reader);
        reader.finish()?;
        Ok(config)
    }

    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            livekit: reader.section("livekit", LiveKit::read),
            room: reader.section("room", Room::read),
            agent: reader.section("agent", Agent::read),
            model: reader.section("model", Model::read),
            reasoning: reader.section("reasoning", Reasoning::read),
            tools: reader.section("tools", Tools::read),
            hooks: reader.section("hooks", Hooks::read),
            limits: reader.section("limits", Limits::read),
            budget: reader.section("budget", Budget::read),
            store: reader.section("store", Store::read),
            http: reader.section("http", Http::read),
            telemetry: reader.section("telemetry", Telemetry::read),
            hidden: reader.take_secrets(),
        }
    }

    /// The values of all secrets, to be masked wherever text leaves; a value may come more than once.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = self.model.endpoints.iter().filter_map(|endpoint| endpoint.key.as_ref());
        keys.chain(&self.livekit.api_secret).chain(&self.hidden).map(Secret::expose)
    }
}

impl Default for Config {
    /// What holds where nothing is configured.
    fn default() -> Self {
        Self::read(&mut Reader::new(None, &Environment::default()))
    }
}

/// The file to read, if any. One that somebody named must be there, the usual ones need not.
fn find_file(
    argument: Option<&Path>,
    directory: &Path,
    environment: &Environment,
) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(path) = argument {
        return Ok(Some(path.to_owned()));
    }
    if let Some(path) = environment.text(FILE_VARIABLE)? {
        return Ok(Some(path.into()));
    }
    Ok(USUAL_FILES.iter().map(|name| directory.join(name)).find(|path| path.exists()))
}
