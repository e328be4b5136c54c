//! `sotto tools`: what the model can call, where it comes from, and what of it is approved.

use super::UsageError;
use super::terminal::{clean, escape_controls};
use crate::app::App;
use crate::config::Config;
use crate::ports::Tools;
use crate::tools::{Approval, From, Listed, RoomTools};
use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::{Map, Value, json};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::{Effects, Execution, Rights};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// How long MCP servers may take to start: some are downloaded first.
const PATIENCE: Duration = Duration::from_secs(90);

/// Said below the list where `tools.client_tools` is on.
const MORE_OF_CLIENTS: &str =
    "and whatever the clients in a room offer to run themselves (client_…), each in its owner's turns";

/// List tools, try one, approve those of MCP servers.
///
/// Starts the MCP servers of the configuration for as long as it takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  sotto tools list                            every tool, with what the model is told of it
  sotto tools call calculator '{\"expression\": \"6*7\"}'
  sotto tools approve                         all tools of all MCP servers, as they are now
  sotto tools approve files wiki__search      those of one server, and one of another")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List all tools: where each comes from, what it may do, whether it is approved, and what the model is told of it.
    ///
    /// The exit code is 1 if an MCP server cannot be reached.
    List {
        /// Print one JSON object a line: name, from, execution, effects, confirm, rights, approval, description, parameters
        #[arg(long)]
        json: bool,
    },
    /// Run one tool and print its result. Nobody is asked, and nobody in a room sees it.
    Call {
        /// Its name, as `sotto tools list` shows it
        name: String,
        /// Its arguments: a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
    },
    /// Approve tools of MCP servers as they are now, so that the model is offered them.
    ///
    /// Look at them first, with `sotto tools list`: what a server says of its tools goes to the model as it is. Agents that are
    /// running hear of it with their next conversation.
    Approve {
        /// Tools or servers; all of them if left out
        names: Vec<String>,
    },
}

/// Does one of them.
pub async fn run(arguments: Arguments, config: Config) -> anyhow::Result<()> {
    let app = App::new(config)?;
    let tools = app.toolbox().open();
    tools.settled(PATIENCE).await;
    match arguments.what {
        What::List { json } => {
            list(&tools, json)?;
            if app.config().tools.client_tools && !json {
                writeln!(std::io::stdout(), "{MORE_OF_CLIENTS}")?;
            }
            complain_of_those_away(&tools).await
        }
        What::Call { name, arguments } => call(&app, &tools, &name, &arguments).await,
        What::Approve { names } => {
            approve(&tools, &names)?;
            writeln!(std::io::stdout(), "written to {}", app.toolbox().lock().path().display())?;
            complain_of_those_away(&tools).await
        }
    }
}

fn list(tools: &RoomTools, json: bool) -> std::io::Result<()> {
    let shown = if json { for_scripts } else { for_people };
    let text: String = tools.all().iter().map(shown).collect();
    write!(std::io::stdout(), "{text}")
}

async fn complain_of_those_away(tools: &RoomTools) -> anyhow::Result<()> {
    let mut away = Vec::new();
    for server in tools.servers() {
        // All that could settle has.
        let settled = tokio::time::timeout(Duration::ZERO, server.settled()).await;
        if let Err(reason) = settled.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
            away.push(format!("{}: {}", server.name(), clean(&reason)));
        }
    }
    if !away.is_empty() {
        bail!("these MCP servers cannot be reached: {}", away.join("; "));
    }
    Ok(())
}

fn from(listed: &Listed) -> String {
    match &listed.from {
        From::BuiltIn => "built in".to_owned(),
        From::Http => "HTTP".to_owned(),
        From::Client => "the client of whoever asks".to_owned(),
        From::Mcp(server) => format!("MCP server {server}"),
    }
}

fn execution(execution: Execution) -> &'static str {
    match execution {
        Execution::Server => "server",
        Execution::Client => "client",
        Execution::Rpc => "rpc",
        Execution::Either => "either",
    }
}

fn effects(effects: Effects) -> Vec<&'static str> {
    let Effects { reads_private, sends_out, changes, untrusted_output } = effects;
    let all = [
        (reads_private, "reads_private"),
        (sends_out, "sends_out"),
        (changes, "changes"),
        (untrusted_output, "untrusted_output"),
    ];
    all.into_iter().filter_map(|(has, word)| has.then_some(word)).collect()
}

fn approval(approval: Approval) -> &'static str {
    match approval {
        Approval::Approved => "approved",
        Approval::New => "new",
        Approval::Changed => "changed",
    }
}

fn for_scripts(listed: &Listed) -> String {
    let Listed { tool, approval: state, .. } = listed;
    let rights = match &tool.rights {
        Rights::Everyone => Value::Null,
        Rights::Only { identities, attributes } => {
            let attributes: Map<_, _> =
                attributes.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            json!({ "identities": identities, "attributes": attributes })
        }
    };
    let line = json!({
        "name": tool.spec.name, "from": from(listed), "execution": execution(tool.execution), "effects": effects(tool.effects), "confirm": tool.confirm,
        "rights": rights, "approval": approval(*state), "description": tool.spec.description,
        "parameters": tool.spec.parameters,
    });
    escape_controls(&line.to_string()) + "\n"
}

/// A few lines, with all that the model would be told: it is what is approved.
fn for_people(listed: &Listed) -> String {
    let Listed { tool, approval: state, .. } = listed;
    let state = match state {
        Approval::Approved => "",
        Approval::New => ", NEW: not offered until it is approved",
        Approval::Changed => ", CHANGED since it was approved: not offered until it is approved again",
    };
    let how = match tool.execution {
        Execution::Server | Execution::Client => "",
        Execution::Rpc => ", by a remote call",
        Execution::Either => ", or the client of whoever asks if it offers this",
    };
    let mut text = format!("{}\n  {}{how}{state}\n", clean(&tool.spec.name), from(listed));
    let effects = effects(tool.effects);
    let effects = if effects.is_empty() { "none".to_owned() } else { effects.join(", ") };
    let confirm = if tool.confirm { "; the user is asked each time" } else { "" };
    let rights = if tool.rights == Rights::Everyone { "" } else { "; not for everyone" };
    // A string takes all that is written to it.
    let _ = writeln!(text, "  effects: {effects}{confirm}{rights}");
    for line in clean(&tool.spec.description).lines().filter(|line| !line.trim().is_empty()) {
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    let _ = writeln!(text, "  {}", clean(&escape_controls(&tool.spec.parameters.to_string())));
    text
}

async fn call(app: &App, tools: &RoomTools, name: &str, arguments: &str) -> anyhow::Result<()> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments)
        .map_err(|error| UsageError(format!("the arguments are not a JSON object: {error}")))?;
    let all = tools.all();
    let Some(listed) = all.iter().find(|listed| listed.tool.spec.name == name) else {
        complain_of_those_away(tools).await?;
        let names: Vec<_> = all.iter().map(|listed| listed.tool.spec.name.as_str()).collect();
        return Err(UsageError(format!("there is no tool {name:?}; there are: {}", names.join(", "))).into());
    };
    if listed.approval != Approval::Approved {
        bail!(
            "{name} is not approved; look at it with `sotto tools list`, then `sotto tools approve {name}`"
        );
    }
    if listed.from == From::Client {
        bail!("{name} is run by the client of whoever asks for it in a room; it cannot be tried from here");
    }
    let limit = listed.tool.timeout.unwrap_or(app.config().tools.timeout);
    let progress = Arc::new(|how_far: String| eprintln!("{}", clean(&how_far)));
    let outcome = tokio::time::timeout(limit, tools.run(name, arguments, limit, progress)).await;
    match outcome.with_context(|| format!("{name} did not answer within {} s", limit.as_secs_f64()))? {
        ToolOutcome::Done(Value::String(text)) => writeln!(std::io::stdout(), "{}", clean(&text))?,
        ToolOutcome::Done(value) => writeln!(std::io::stdout(), "{}", escape_controls(&value.to_string()))?,
        ToolOutcome::InvalidParameters(reason) => bail!("the arguments are wrong: {}", clean(&reason)),
        ToolOutcome::Failed(reason) => bail!("{}", clean(&reason)),
    }
    Ok(())
}

fn approve(tools: &RoomTools, names: &[String]) -> anyhow::Result<()> {
    let all = tools.all();
    for name in names {
        let is_server = tools.servers().iter().any(|server| server.name() == name);
        let is_tool =
            all.iter().any(|listed| listed.tool.spec.name == *name && matches!(listed.from, From::Mcp(_)));
        if !is_server && !is_tool {
            let problem =
                format!("there is no MCP server and no tool of one called {name:?}; see `sotto tools list`");
            return Err(UsageError(problem).into());
        }
    }
    for server in tools.servers() {
        let offers = server.offers();
        let as_a_whole = names.is_empty() || names.iter().any(|name| name == server.name());
        let some: Vec<String> = offers
            .iter()
            .map(|offer| offer.tool.spec.name.clone())
            .filter(|name| names.contains(name))
            .collect();
        if offers.is_empty() || (!as_a_whole && some.is_empty()) {
            continue;
        }
        server.approve((!as_a_whole).then_some(&some[..]))?;
        for offer in offers.iter().filter(|offer| as_a_whole || some.contains(&offer.tool.spec.name)) {
            if offer.approval != Approval::Approved {
                let was = approval(offer.approval);
                writeln!(std::io::stdout(), "approved: {} (was {was})", clean(&offer.tool.spec.name))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Listed;
    use sotto_core::model::ToolSpec;
    use sotto_core::tool::Tool;

    fn listed(approval: Approval) -> Listed {
        let tool = Tool {
            spec: ToolSpec {
                name: "files__read".to_owned(),
                description: "Reads \x1b[31ma file.\n\n  Ignores nothing.".to_owned(),
                parameters: json!({"type": "object"}),
                repeatable: false,
            },
            execution: Execution::Server,
            effects: Effects { reads_private: true, ..Effects::NONE },
            confirm: true,
            rights: Rights::Only {
                identities: vec!["alice".to_owned()],
                attributes: vec![("role".to_owned(), "admin".to_owned())],
            },
            timeout: None,
        };
        Listed { tool, from: From::Mcp("files".to_owned()), approval }
    }

    #[test]
    fn people_see_all_that_the_model_would_be_told() {
        assert_eq!(
            for_people(&listed(Approval::Changed)),
            "files__read\n  MCP server files, CHANGED since it was approved: not offered until it is approved again\n  \
             effects: reads_private; the user is asked each time; not for everyone\n  Reads [31ma file.\n    \
             Ignores nothing.\n  {\"type\":\"object\"}\n"
        );
    }

    #[test]
    fn scripts_get_it_exactly() {
        let line = for_scripts(&listed(Approval::New));
        assert!(!line.contains('\x1b') && line.ends_with('\n'), "{line}");
        let value: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["approval"], "new");
        assert_eq!(value["description"], "Reads \x1b[31ma file.\n\n  Ignores nothing.");
        assert_eq!(value["rights"], json!({"identities": ["alice"], "attributes": {"role": "admin"}}));
    }
}
