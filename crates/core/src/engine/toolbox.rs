//! Which tools there are in a turn: the agent's own list, as far as everyone who speaks may use it, and what the asking
//! user's client offers.
//!
//! Names and descriptions may come from strangers. What has no safe name, the name of another tool or a schema that cannot
//! be used is not on the list; descriptions are made harmless like any other text of others.

use super::people::Hint;
use super::turn::Turn;
use super::{Complaint, Engine};
use crate::model::ToolSpec;
use crate::model::untrusted::neutralise;
use crate::schema;
use crate::tool::{Effects, Execution, Rights, Tool};
use crate::wire::body::OfferedTool;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Before the names of tools that clients offer, as the model knows them.
pub const CLIENT_PREFIX: &str = "client_";
/// How long a name may be: what every server takes.
const NAME_CHARS: usize = 64;

/// What one client may offer: so many tools, each with a description of so many bytes, and so much in all.
const MAX_OFFERS: usize = 32;
const MAX_DESCRIPTION: usize = 2 << 10;
const MAX_OFFERED_BYTES: usize = 64 << 10;

/// What running a client's tool does. Nobody but its app knows: it may read what is private and change something, and says
/// what strangers wrote. It sends nothing out: whoever runs it hears the whole conversation anyway.
const OFFERED: Effects =
    Effects { reads_private: true, sends_out: false, changes: true, untrusted_output: true };

/// Why a tool cannot be on the agent's list; `None` if it can.
pub fn unusable(tool: &Tool) -> Option<String> {
    let name = &tool.spec.name;
    if !is_safe(name) || name.len() > NAME_CHARS {
        return Some(format!(
            "the name {name:?} must be 1 to {NAME_CHARS} of the letters a to z, digits, _ and -"
        ));
    }
    schema::unusable(&tool.spec.parameters).map(|why| format!("the schema of {name} cannot be used: {why}"))
}

/// Those of the tools that can be used, each name once, with descriptions that cannot forge a prompt.
pub(super) fn admitted(tools: Vec<Tool>) -> Vec<Tool> {
    let mut names = BTreeSet::new();
    let mut admitted = tools;
    // The first of a name counts.
    admitted.retain(|tool| unusable(tool).is_none() && names.insert(tool.spec.name.clone()));
    for tool in &mut admitted {
        make_harmless(&mut tool.spec);
    }
    admitted
}

fn is_safe(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn make_harmless(spec: &mut ToolSpec) {
    spec.description = neutralise(&spec.description).into_owned();
    let written = spec.parameters.to_string();
    // Only brackets within strings and keys are others then, so it is still JSON.
    if let Cow::Owned(safe) = neutralise(&written) {
        spec.parameters = serde_json::from_str(&safe).unwrap_or(Value::Null);
    }
}

/// A tool that may be called in a turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Available {
    pub(super) tool: Tool,
    /// What its client calls it, for one that a client offers.
    pub(super) own_name: Option<String>,
}

impl Available {
    pub(super) fn is_offered(&self) -> bool {
        self.own_name.is_some()
    }

    /// Whether nobody has vouched for its description.
    pub(super) fn is_unvouched(&self) -> bool {
        self.is_offered() || self.tool.effects == Effects::ALL
    }

    /// Its name on the wire.
    pub(super) fn wire_name(&self) -> &str {
        self.own_name.as_deref().unwrap_or(&self.tool.spec.name)
    }
}

impl Engine {
    /// What may be called in this turn.
    pub(super) fn available(&self, turn: &Turn) -> Vec<Available> {
        let permitted =
            |rights: &Rights| turn.speakers.iter().all(|speaker| self.people.has_rights(speaker, rights));
        let listed = self.settings.tools.iter().filter(|tool| permitted(&tool.rights));
        let listed = listed.map(|tool| Available { tool: tool.clone(), own_name: None });
        let offers = if self.settings.client_tools { self.people.offers(&turn.work.by) } else { &[] };
        let offered = offers.iter().filter(|offer| !self.is_declared_for_clients(&offer.name));
        listed.chain(offered.filter_map(|offer| self.as_available(offer))).collect()
    }

    /// What the model is told of them.
    pub(super) fn tool_specs(&self, turn: &Turn) -> Vec<ToolSpec> {
        self.available(turn).into_iter().map(|available| available.tool.spec).collect()
    }

    /// A client's tool as the model knows it; `None` where that is the name of another one.
    fn as_available(&self, offer: &ToolSpec) -> Option<Available> {
        let name = format!("{CLIENT_PREFIX}{}", offer.name);
        if self.settings.tools.iter().any(|tool| tool.spec.name == name) {
            return None;
        }
        let spec = ToolSpec { name, ..offer.clone() };
        let tool = Tool { execution: Execution::Client, effects: OFFERED, ..Tool::harmless(spec) };
        Some(Available { tool, own_name: Some(offer.name.clone()) })
    }

    /// Whether the agent's list has a tool of this name for clients to run: then an offer says no more than that one can.
    fn is_declared_for_clients(&self, name: &str) -> bool {
        let for_clients = |tool: &&Tool| tool.execution != Execution::Server;
        self.settings.tools.iter().filter(for_clients).any(|tool| tool.spec.name == name)
    }

    /// A client says which tools it can run.
    pub(super) fn offered(&mut self, from: &str, stanza: i32, tools: Vec<OfferedTool>) {
        let mut left_out = Vec::new();
        let (mut offers, mut bytes) = (Vec::<ToolSpec>::new(), 0);
        let mut unwanted = false;
        for tool in tools {
            // Nothing of it is used: not worth a word about what is wrong with it.
            if !self.settings.client_tools && !self.is_declared_for_clients(&tool.name) {
                unwanted = true;
                continue;
            }
            bytes += tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
            let fault = if !is_safe(&tool.name) || tool.name.len() > NAME_CHARS - CLIENT_PREFIX.len() {
                Some("a name must be 1 to 57 of the letters a to z, digits, _ and -".to_owned())
            } else if offers.iter().any(|offer| offer.name == tool.name) {
                Some("there are two of the same name".to_owned())
            } else if tool.description.len() > MAX_DESCRIPTION {
                Some(format!("a description is longer than {MAX_DESCRIPTION} bytes"))
            } else if offers.len() >= MAX_OFFERS || bytes > MAX_OFFERED_BYTES {
                Some(format!(
                    "they are more than {MAX_OFFERS}, or longer than {MAX_OFFERED_BYTES} bytes in all"
                ))
            } else {
                schema::unusable(&tool.parameters).map(|why| format!("a schema cannot be used: {why}"))
            };
            if let Some(fault) = fault {
                left_out.push(fault);
                continue;
            }
            let OfferedTool { name, description, parameters } = tool;
            // Nobody knows whether running it twice does harm.
            let mut spec = ToolSpec { name, description, parameters, repeatable: false };
            make_harmless(&mut spec);
            offers.push(spec);
        }
        self.people.get(from, self.now).offers = offers;
        if let Some(first) = left_out.first() {
            let message = format!("{} of your tools cannot be used: {first}.", left_out.len());
            self.complain(from, false, Some(stanza.to_string()), Complaint::notice(&message));
        }
        if unwanted {
            let message = "This agent takes no tools from clients, and yours were ignored.";
            self.hint(from, Hint::ClientTools, stanza.to_string(), message);
        }
    }
}
