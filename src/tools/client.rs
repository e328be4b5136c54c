//! Tools that the configuration declares for people's clients to run: on the agent's list, and never run here. Who is asked to
//! run one, and how, is the engine's part.

use super::terms::Terms;
use crate::ports::{Progress, Tools};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::Tool;
use std::time::Duration;

/// One tool, as configured.
#[derive(Clone, Debug)]
pub struct Definition {
    /// How the model and the client call it; see `names`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// What holds for it.
    pub terms: Terms,
}

/// The tools that are declared for clients.
#[derive(Debug, Default)]
pub struct ClientTools {
    tools: Vec<Tool>,
}

impl ClientTools {
    /// These.
    pub fn new(definitions: Vec<Definition>) -> Self {
        let tool = |definition: Definition| {
            let Definition { name, description, parameters, terms } = definition;
            terms.tool(name, description, parameters)
        };
        Self { tools: definitions.into_iter().map(tool).collect() }
    }
}

impl Tools for ClientTools {
    fn offered(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::empty().boxed()
    }

    fn run(
        &self,
        name: &str,
        _: Map<String, Value>,
        _: Duration,
        _: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        let reason = format!("{name} is run by the client of whoever asks for it in a room, and not here");
        std::future::ready(ToolOutcome::Failed(reason)).boxed()
    }
}
