//! On what terms a tool of somebody else's is used: what the configuration says of it, because nobody else can be believed.

use serde_json::Value;
use sotto_core::model::ToolSpec;
use sotto_core::tool::{Effects, Execution, Rights, Tool};
use std::time::Duration;

/// What holds for one tool, or for all tools of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// What running it does to the world and to people's data.
    pub effects: Effects,
    /// Whether the asking user is asked each time.
    pub confirm: bool,
    /// Who may have it used.
    pub rights: Rights,
    /// The time that one call has, where it is another than for all tools.
    pub timeout: Option<Duration>,
    /// Where its results are cut.
    pub max_result_bytes: usize,
    /// Whether running it twice does no harm.
    pub repeatable: bool,
    /// Who runs it.
    pub execution: Execution,
}

impl Terms {
    pub(super) fn tool(&self, name: String, description: String, parameters: Value) -> Tool {
        Tool {
            spec: ToolSpec { name, description, parameters, repeatable: self.repeatable },
            execution: self.execution,
            effects: self.effects,
            confirm: self.confirm,
            rights: self.rights.clone(),
            timeout: self.timeout,
        }
    }
}
