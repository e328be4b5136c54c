//! The tools that are built in: what an agent can do without any service behind it.
//!
//! Each tool is one file with its description for the model, the check of its arguments and its work, which is done at
//! once and needs nothing but the clock. Arguments come from a model: whatever is wrong with them is told in words
//! from which the model can do better. Nothing here ever opens a connection or a file, and nothing here can be made to
//! work for long.

mod calculator;
mod time;

use crate::ports::{Progress, Tools};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::model::ToolSpec;
use sotto_core::tool::Tool;
use std::time::Duration;

/// One built-in tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Calculator,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Time, Self::Calculator];

    fn name(self) -> &'static str {
        match self {
            Self::Time => time::NAME,
            Self::Calculator => calculator::NAME,
        }
    }

    fn spec(self) -> ToolSpec {
        match self {
            Self::Time => time::spec(),
            Self::Calculator => calculator::spec(),
        }
    }

    fn run(self, arguments: &Map<String, Value>) -> ToolOutcome {
        match self {
            Self::Time => time::run(Timestamp::now(), arguments),
            Self::Calculator => calculator::run(arguments),
        }
    }
}

/// The built-in tools that are switched on.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    tools: Vec<Kind>,
}

/// A name that no built-in tool has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no built-in tool {0:?}; there are: {names}", names = BuiltIn::NAMES.join(", "))]
pub struct UnknownTool(pub String);

impl BuiltIn {
    /// What there is to choose from.
    pub const NAMES: [&'static str; 2] = [time::NAME, calculator::NAME];

    /// All of them.
    pub fn all() -> Self {
        Self { tools: Kind::ALL.to_vec() }
    }

    /// Those of these names, in this order.
    pub fn only<Name: AsRef<str>>(names: &[Name]) -> Result<Self, UnknownTool> {
        let tools = names.iter().map(|name| {
            let name = name.as_ref();
            find(&Kind::ALL, name).ok_or_else(|| UnknownTool(name.to_owned()))
        });
        Ok(Self { tools: tools.collect::<Result<_, _>>()? })
    }

    /// What the model is told of them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec()).collect()
    }
}

impl Tools for BuiltIn {
    fn offered(&self) -> Vec<Tool> {
        self.specs().into_iter().map(Tool::harmless).collect()
    }

    fn has(&self, name: &str) -> bool {
        find(&self.tools, name).is_some()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::empty().boxed()
    }

    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        _timeout: Duration,
        _progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        let Some(tool) = find(&self.tools, name) else {
            let names: Vec<_> = self.tools.iter().map(|tool| tool.name()).collect();
            let reason = format!("there is no tool {name:?}; there are: {}", names.join(", "));
            return std::future::ready(ToolOutcome::Failed(reason)).boxed();
        };
        async move { tool.run(&arguments) }.boxed()
    }
}

fn find(tools: &[Kind], name: &str) -> Option<Kind> {
    tools.iter().copied().find(|tool| tool.name() == name)
}

/// Refuses arguments that the tool does not have: a misspelt one, passed over, would give a wrong result in silence.
fn refuse_others(arguments: &Map<String, Value>, known: &str) -> Result<(), String> {
    match arguments.keys().find(|key| *key != known) {
        Some(other) => Err(format!("there is no parameter {other:?}; the only one is {known:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    async fn run(tools: &BuiltIn, name: &str, arguments: Value) -> ToolOutcome {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        tools.run(name, arguments, Duration::from_secs(1), Arc::new(|_| {})).await
    }

    #[test]
    fn names_choose_and_order_the_tools() {
        let tools = BuiltIn::only(&["calculator", "time"]).expect("both are there");
        let names: Vec<_> = tools.specs().into_iter().map(|spec| spec.name).collect();
        assert_eq!(names, ["calculator", "time"]);
        assert!(BuiltIn::only::<&str>(&[]).expect("none is a choice").specs().is_empty());
    }

    #[test]
    fn an_unknown_name_is_refused_with_what_there_is() {
        let error = BuiltIn::only(&["weather"]).expect_err("there is none");
        assert_eq!(error.to_string(), "there is no built-in tool \"weather\"; there are: time, calculator");
    }

    #[test]
    fn every_spec_describes_an_object_and_names_what_it_requires() {
        for spec in BuiltIn::all().specs() {
            assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
            for required in spec.parameters["required"].as_array().expect("a list") {
                let name = required.as_str().expect("a name");
                assert!(spec.parameters["properties"][name].is_object(), "{}: {name}", spec.name);
            }
        }
    }

    #[tokio::test]
    async fn a_tool_runs_by_its_name() {
        let outcome = run(&BuiltIn::all(), "calculator", serde_json::json!({"expression": "12*(3+4)"})).await;
        assert_eq!(outcome, ToolOutcome::Done(serde_json::json!({"result": 84})));
    }

    #[tokio::test]
    async fn a_tool_that_is_switched_off_is_not_there() {
        let tools = BuiltIn::only(&["time"]).expect("it is there");
        let outcome = run(&tools, "calculator", serde_json::json!({"expression": "1+1"})).await;
        assert_eq!(
            outcome,
            ToolOutcome::Failed("there is no tool \"calculator\"; there are: time".to_owned())
        );
    }

    #[tokio::test]
    async fn a_misspelt_parameter_is_told_and_not_passed_over() {
        let outcome = run(&BuiltIn::all(), "time", serde_json::json!({"zone": "Asia/Tokyo"})).await;
        assert_eq!(
            outcome,
            ToolOutcome::InvalidParameters(
                "there is no parameter \"zone\"; the only one is \"timezone\"".to_owned()
            )
        );
    }
}
