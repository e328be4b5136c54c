//! Tools as the engine knows them: what the model is told of one, what it may do, and who may have it used.

use crate::model::ToolSpec;
use core::time::Duration;

/// A tool that the agent, or somebody's client, can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What the model is told.
    pub spec: ToolSpec,
    /// Who runs it.
    pub execution: Execution,
    /// What running it does to the world and to people's data.
    pub effects: Effects,
    /// Whether the asking user is asked each time.
    pub confirm: bool,
    /// Who may have it used.
    pub rights: Rights,
    /// The time that one call has, where it is another than for all tools.
    pub timeout: Option<Duration>,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// The agent.
    #[default]
    Server,
    /// A participant's client.
    Client,
    /// A participant's client, by a remote call of LiveKit's own (RPC) instead of an envelope.
    Rpc,
    /// A client if one offers it, else the agent.
    Either,
}

/// What running a tool does. Unknown is unsafe: what nobody declared has all effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four questions, each of its own")]
pub struct Effects {
    /// It reads what is private.
    pub reads_private: bool,
    /// It sends something out of the house.
    pub sends_out: bool,
    /// It changes something.
    pub changes: bool,
    /// Its output was written by strangers.
    pub untrusted_output: bool,
}

impl Effects {
    /// Reads nothing private, sends nothing, changes nothing, and says only what we would say ourselves.
    pub const NONE: Self =
        Self { reads_private: false, sends_out: false, changes: false, untrusted_output: false };
    /// Whatever a tool can do.
    pub const ALL: Self =
        Self { reads_private: true, sends_out: true, changes: true, untrusted_output: true };
}

/// Who may have a tool used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Everybody in the room.
    #[default]
    Everyone,
    /// Those with one of these identities, or with one of these attributes (name and value).
    Only {
        /// Identities, on the server's word.
        identities: Vec<String>,
        /// Attributes, which count only where their owner cannot change them.
        attributes: Vec<(String, String)>,
    },
}

impl Tool {
    /// A tool of the agent's own that does nothing but compute.
    pub fn harmless(spec: ToolSpec) -> Self {
        Self {
            spec,
            execution: Execution::Server,
            effects: Effects::NONE,
            confirm: false,
            rights: Rights::Everyone,
            timeout: None,
        }
    }
}
