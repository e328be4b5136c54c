//! `[tools]`, `[[tools.mcp]]`, `[[tools.http]]` and `[[tools.client]]`: what the model may call, and on what terms.

use super::MANY;
use crate::config::reader::Section;
use crate::config::source::{Given, Raw};
use crate::config::value::{self, Mismatch, boolean, integer, line, list, one_of, seconds, table, text};
use crate::config::{Secret, Text};
use crate::tools::problem_of_name;
use serde_json::Value;
use sotto_core::engine::settings::{Gate, Policy, Speakers};
use sotto_core::tool::{Effects, Execution, Rights};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A tool that comes with Sotto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinTool {
    /// Date and time.
    Time,
    /// Arithmetic.
    Calculator,
}

const BUILT_IN: [(&str, BuiltinTool); 2] =
    [("time", BuiltinTool::Time), ("calculator", BuiltinTool::Calculator)];

/// `[tools]`: what the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tools {
    /// How often in one turn the model may call tools and go on with their results.
    pub max_rounds: u32,
    /// The time that one call has.
    pub timeout: Duration,
    /// Which of our own it is offered.
    pub builtin: Vec<BuiltinTool>,
    /// Whether clients may bring tools of their own.
    pub client_tools: bool,
    /// How long someone has to allow the use of a tool.
    pub consent_timeout: Duration,
    /// When a tool may be used without asking.
    pub policy: Policy,
    /// Hosts that tools may reach although they are not public.
    pub allow_hosts: Vec<Text>,
    /// Where the approvals of MCP tools are kept.
    pub lock: PathBuf,
    /// MCP servers.
    pub mcp: Vec<McpServer>,
    /// HTTP tools.
    pub http: Vec<HttpTool>,
    /// Tools that people's clients run.
    pub client: Vec<ClientTool>,
}

/// On what terms a tool of somebody else's is used.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolTerms {
    /// What it does to the world and to people's data.
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

/// `[[tools.mcp]]`: an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    /// How its tools' names begin.
    pub name: Text,
    /// How it is reached.
    pub reach: McpReach,
    /// Which of its tools are taken; none: all.
    pub only: Option<Vec<Text>>,
    /// Whether its tools are approved as they are when it is seen for the first time.
    pub trust_first_use: bool,
    /// Whether all conversations share one connection.
    pub shared: bool,
    /// What holds for its tools.
    pub terms: ToolTerms,
    /// What holds for single ones instead, by the names that the server gives them.
    pub own_terms: BTreeMap<String, ToolTerms>,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpReach {
    /// As a child process.
    Command {
        /// The program and its arguments; there is at least the program.
        command: Vec<Text>,
        /// All of its environment.
        env: BTreeMap<String, Secret>,
        /// Where it runs; none: where the agent does.
        directory: Option<PathBuf>,
    },
    /// Over streamable HTTP.
    Url {
        /// Where it is.
        url: Text,
        /// What is sent with each request.
        headers: BTreeMap<String, Secret>,
    },
}

/// `[[tools.http]]`: a tool that is an HTTP request.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpTool {
    /// How the model calls it.
    pub name: Text,
    /// What it does, for the model.
    pub description: Text,
    /// Where it is.
    pub url: Text,
    /// How it is asked: `GET`, `POST`, ….
    pub method: &'static str,
    /// What is sent with each request.
    pub headers: BTreeMap<String, Secret>,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// What holds for it.
    pub terms: ToolTerms,
}

/// `[[tools.client]]`: a tool that the client of whoever asks runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTool {
    /// How the model and the client call it.
    pub name: Text,
    /// What it does, for the model.
    pub description: Text,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// What holds for it.
    pub terms: ToolTerms,
}

impl Tools {
    pub(in crate::config) fn read(section: &mut Section<'_, '_>) -> Self {
        let max_result_bytes = section.or("max_result_bytes", 32_768, result_bytes());
        let mut names = BTreeSet::from(BUILT_IN.map(|(name, _)| name.to_owned()));
        // Only a file can have servers, and their approvals are kept beside it.
        let mut beside = None;
        let mcp = section.tables("mcp", |server| {
            beside.get_or_insert_with(|| server.directory().join("tools.lock"));
            McpServer::read(server, &mut names, max_result_bytes)
        });
        let http = section.tables("http", |tool| HttpTool::read(tool, &mut names, max_result_bytes));
        let client = section.tables("client", |tool| ClientTool::read(tool, &mut names));
        Self {
            max_rounds: section.or("max_rounds", 8, integer(0..=100)),
            timeout: section.or("timeout", Duration::from_secs(30), seconds(0.1..=3_600.0)),
            builtin: section
                .in_file("builtin", list(one_of(&BUILT_IN)))
                .unwrap_or_else(|| BUILT_IN.map(|(_, tool)| tool).to_vec()),
            client_tools: section.or("client_tools", false, boolean),
            consent_timeout: section.or("consent_timeout", Duration::from_secs(60), seconds(1.0..=3_600.0)),
            policy: policy(section),
            allow_hosts: section.in_file("allow_hosts", list(value::host)).unwrap_or_default(),
            lock: section.get("lock", path).or(beside).unwrap_or_else(|| "tools.lock".into()),
            mcp: mcp.into_iter().flatten().collect(),
            http: http.into_iter().flatten().collect(),
            client: client.into_iter().flatten().collect(),
        }
    }
}

fn policy(section: &mut Section<'_, '_>) -> Policy {
    const GATES: [(&str, Gate); 3] = [("allow", Gate::Allow), ("ask", Gate::Ask), ("deny", Gate::Deny)];
    const SPEAKERS: [(&str, Speakers); 2] = [("all", Speakers::InThePrompt), ("asker", Speakers::TheAsker)];
    let usual = Policy::default();
    Policy {
        untrusted: section.or("policy_untrusted", usual.untrusted, one_of(&GATES)),
        private: section.or("policy_private", usual.private, one_of(&GATES)),
        descriptions: section.or("policy_descriptions", usual.descriptions, one_of(&GATES)),
        past_turns: section.or("policy_past_turns", usual.past_turns, boolean),
        speakers: section.or("policy_speakers", usual.speakers, one_of(&SPEAKERS)),
    }
}

impl ToolTerms {
    /// Of a tool that the agent can run.
    fn read(section: &mut Section<'_, '_>, max_result_bytes: usize) -> Self {
        let max_result_bytes = section.or("max_result_bytes", max_result_bytes, result_bytes());
        let execution = section.or("execution", Execution::Server, one_of(&EXECUTIONS));
        Self::read_for(section, execution, max_result_bytes)
    }

    fn read_for(section: &mut Section<'_, '_>, execution: Execution, max_result_bytes: usize) -> Self {
        Self {
            effects: section.in_file("effects", effects).unwrap_or(Effects::ALL),
            confirm: section.or("confirm", false, boolean),
            rights: section.in_file("rights", rights).unwrap_or_default(),
            timeout: section.get("timeout", call_seconds()),
            max_result_bytes,
            repeatable: section.or("repeatable", false, boolean),
            execution,
        }
    }

    /// Of single tools, where they are others than those of their server.
    fn by_tool(&self) -> impl Fn(&Given) -> Result<BTreeMap<String, Self>, Mismatch> {
        move |given| {
            let expected =
                "a table of tools, each with terms of its own, as { read_file = { confirm = true } }";
            let expected = || Mismatch::Expected(expected.to_owned());
            let Raw::Table(tools) = &given.raw else { return Err(expected()) };
            let terms = |(name, given): (&String, &Given)| {
                let Raw::Table(keys) = &given.raw else { return Err(expected()) };
                let mut terms = self.clone();
                for (key, given) in keys {
                    terms.set(key, given)?;
                }
                Ok((name.clone(), terms))
            };
            tools.iter().map(terms).collect()
        }
    }

    fn set(&mut self, key: &str, given: &Given) -> Result<(), Mismatch> {
        match key {
            "effects" => self.effects = effects(given)?,
            "confirm" => self.confirm = boolean(given)?,
            "rights" => self.rights = rights(given)?,
            "timeout" => self.timeout = Some(call_seconds()(given)?),
            "max_result_bytes" => self.max_result_bytes = result_bytes()(given)?,
            "repeatable" => self.repeatable = boolean(given)?,
            "execution" => self.execution = one_of(&EXECUTIONS)(given)?,
            _ => {
                let keys = "effects, confirm, rights, timeout, max_result_bytes, repeatable or execution";
                return Err(Mismatch::Expected(format!("a table of tools whose terms are of {keys}")));
            }
        }
        Ok(())
    }
}

/// Who runs what the agent can run.
const EXECUTIONS: [(&str, Execution); 2] = [("server", Execution::Server), ("either", Execution::Either)];

fn call_seconds() -> impl Fn(&Given) -> Result<Duration, Mismatch> {
    seconds(0.1..=3_600.0)
}

impl McpServer {
    fn read(
        section: &mut Section<'_, '_>,
        names: &mut BTreeSet<String>,
        max_result_bytes: usize,
    ) -> Option<Self> {
        let name = name(section, names);
        let command = section.in_file("command", list(text));
        let url = section.get("url", value::tool_url);
        let mut env = section.in_file("env", table(value::hidden)).unwrap_or_default();
        let passed = section.in_file("pass_env", list(text)).unwrap_or_default();
        for variable in passed {
            if let Some(value) = section.variable(&variable) {
                env.entry(variable.as_str().to_owned()).or_insert_with(|| Secret::new(value));
            }
        }
        let directory = section.get("directory", path);
        let headers = headers(section);
        let terms = ToolTerms::read(section, max_result_bytes);
        let own_terms = section.in_file("tools", terms.by_tool()).unwrap_or_default();
        let only = section.in_file("only", list(text));
        if let Some(only) = &only {
            for name in own_terms.keys().filter(|own| only.iter().all(|name| name.as_str() != own.as_str())) {
                section.refuse(&format!(
                    "has terms of the tool {name:?}, which is not in only; correct its name or add it there"
                ));
            }
        }
        let server = Self {
            name: name.clone().unwrap_or_else(|| "".into()),
            reach: McpReach::Url { url: "".into(), headers: BTreeMap::new() },
            only,
            trust_first_use: section.or("trust_first_use", false, boolean),
            shared: section.or("shared", false, boolean),
            terms,
            own_terms,
        };
        let reach = match (command, url) {
            (Some(command), None) if command.is_empty() => {
                section.refuse("has a command without a program; write it first");
                None
            }
            (Some(_), None) if !headers.is_empty() => {
                section.refuse("has headers, which only a url can have; leave them out");
                None
            }
            (None, Some(_)) if !env.is_empty() || directory.is_some() => {
                section
                    .refuse("has env, pass_env or directory, which only a command can have; leave them out");
                None
            }
            (Some(command), None) => Some(McpReach::Command { command, env, directory }),
            (None, Some(url)) => Some(McpReach::Url { url, headers }),
            (Some(_), Some(_)) => {
                section.refuse("has a command and a url, of which it can have one; leave the other out");
                None
            }
            (None, None) => {
                section.refuse("needs a command or a url; add one of them");
                None
            }
        };
        name.and(Some(Self { reach: reach?, ..server }))
    }
}

impl HttpTool {
    fn read(
        section: &mut Section<'_, '_>,
        names: &mut BTreeSet<String>,
        max_result_bytes: usize,
    ) -> Option<Self> {
        const METHODS: [(&str, &str); 5] =
            [("GET", "GET"), ("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")];
        let name = name(section, names);
        let description = section.required("description", text);
        let url = section.required("url", value::tool_url);
        let method = section.or("method", "POST", one_of(&METHODS));
        let headers = headers(section);
        let parameters = parameters(section);
        let terms = ToolTerms::read(section, max_result_bytes);
        Some(Self { name: name?, description: description?, url: url?, method, headers, parameters, terms })
    }
}

impl ClientTool {
    fn read(section: &mut Section<'_, '_>, names: &mut BTreeSet<String>) -> Option<Self> {
        let name = name(section, names);
        let description = section.required("description", text);
        let by_call = section.or("rpc", false, boolean);
        let execution = if by_call { Execution::Rpc } else { Execution::Client };
        let parameters = parameters(section);
        // Clients send no more than an envelope holds.
        let terms = ToolTerms::read_for(section, execution, usize::MAX);
        Some(Self { name: name?, description: description?, parameters, terms })
    }
}

fn parameters(section: &mut Section<'_, '_>) -> Value {
    let none = || serde_json::json!({"type": "object", "properties": {}});
    section.in_file("parameters", value::schema).unwrap_or_else(none)
}

/// A name that is safe, and nobody else's.
fn name(section: &mut Section<'_, '_>, names: &mut BTreeSet<String>) -> Option<Text> {
    let name = section.required("name", |given| {
        let name = line(given)?;
        problem_of_name(&name).map_or(Ok(name), |problem| Err(Mismatch::Expected(problem.to_owned())))
    })?;
    if !names.insert(name.as_str().to_owned()) {
        section.refuse(&format!(
            "is called {:?} as another tool or server is; give it another name",
            name.shown()
        ));
        return None;
    }
    Some(name)
}

pub(super) fn headers(section: &mut Section<'_, '_>) -> BTreeMap<String, Secret> {
    let headers = section.in_file("headers", value::headers).unwrap_or_default();
    // What looks like a key in them is masked wherever the model repeats it.
    let words = headers.values().flat_map(|value| value.expose().split_whitespace());
    let secrets: Vec<_> = words.filter(|word| word.len() >= 8).map(Secret::new).collect();
    section.hide(secrets);
    headers
}

fn result_bytes() -> impl Fn(&Given) -> Result<usize, Mismatch> {
    integer(256..=MANY)
}

/// A path, relative to the file that has it.
fn path(given: &Given) -> Result<PathBuf, Mismatch> {
    Ok(given.origin.directory().join(Path::new(line(given)?.as_str())))
}

fn effects(given: &Given) -> Result<Effects, Mismatch> {
    type Set = fn(&mut Effects);
    const WORDS: [(&str, Set); 4] = [
        ("reads_private", |effects| effects.reads_private = true),
        ("sends_out", |effects| effects.sends_out = true),
        ("changes", |effects| effects.changes = true),
        ("untrusted_output", |effects| effects.untrusted_output = true),
    ];
    let mut effects = Effects::NONE;
    for set in list(one_of(&WORDS))(given)? {
        set(&mut effects);
    }
    Ok(effects)
}

fn rights(given: &Given) -> Result<Rights, Mismatch> {
    let expected = || {
        Mismatch::Expected(
            "a table with identities, attributes or both, as { identities = [\"alice\"], attributes = { role = \"admin\" } }"
                .to_owned(),
        )
    };
    let Raw::Table(entries) = &given.raw else { return Err(expected()) };
    let (mut identities, mut attributes) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        match key.as_str() {
            "identities" => {
                let list = list(text)(value).map_err(|_| expected())?;
                identities = list.iter().map(|identity| identity.as_str().to_owned()).collect();
            }
            "attributes" => {
                let table = table(text)(value).map_err(|_| expected())?;
                attributes =
                    table.into_iter().map(|(name, value)| (name, value.as_str().to_owned())).collect();
            }
            _ => return Err(expected()),
        }
    }
    Ok(Rights::Only { identities, attributes })
}
