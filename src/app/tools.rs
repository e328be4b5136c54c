//! From the configuration to the tools.

use crate::config::{self, McpReach, Secret, Text, ToolTerms};
use crate::tls;
use crate::tools::mcp::{self, Program, Reach, Remote};
use crate::tools::{
    BuiltIn, ClientTool, ClientTools, HttpTool, HttpTools, Lock, Targets, Terms, Toolbox, Unusable,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use std::collections::BTreeMap;

/// All the tools, none of them connected to yet.
pub(super) fn toolbox(tools: &config::Tools) -> Result<Toolbox, Unusable> {
    let hosts = tools.allow_hosts.iter().map(|host| host.as_str().to_owned());
    let targets = Targets::new(hosts, tls::client_config());
    let http = HttpTools::new(tools.http.iter().map(http_tool).collect(), &targets)?;
    let servers = tools.mcp.iter().map(|server| mcp_server(server, &targets));
    let servers = servers.collect::<Result<_, _>>()?;
    let client = ClientTools::new(tools.client.iter().map(client_tool).collect());
    Ok(Toolbox::new(built_in(tools), http, client, servers, Lock::new(tools.lock.clone())))
}

fn built_in(tools: &config::Tools) -> BuiltIn {
    let names: Vec<&str> = tools
        .builtin
        .iter()
        .map(|tool| match tool {
            config::BuiltinTool::Time => "time",
            config::BuiltinTool::Calculator => "calculator",
        })
        .collect();
    BuiltIn::only(&names).expect("the configuration knows no other names")
}

fn http_tool(tool: &config::HttpTool) -> HttpTool {
    HttpTool {
        name: tool.name.as_str().to_owned(),
        description: tool.description.as_str().to_owned(),
        url: url(&tool.url),
        method: Method::from_bytes(tool.method.as_bytes()).expect("the configuration knows no other methods"),
        headers: headers(&tool.headers),
        parameters: tool.parameters.clone(),
        terms: terms(&tool.terms),
    }
}

fn mcp_server(server: &config::McpServer, targets: &Targets) -> Result<mcp::Settings, Unusable> {
    let strings = |texts: &[Text]| texts.iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>();
    let reach = match &server.reach {
        McpReach::Command { command, env, directory } => {
            let (program, arguments) = command.split_first().expect("the configuration has checked it");
            let environment = env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
            Reach::Program(Program {
                program: program.as_str().to_owned(),
                arguments: strings(arguments),
                environment: environment.collect(),
                directory: directory.clone(),
            })
        }
        McpReach::Url { url: place, headers: sent } => Reach::Http(
            Remote::new(url(place), headers(sent), targets)
                .map_err(|reason| Unusable::new(server.name.shown(), reason))?,
        ),
    };
    Ok(mcp::Settings {
        name: server.name.as_str().to_owned(),
        reach,
        only: server.only.as_deref().map(strings),
        trust_first_use: server.trust_first_use,
        shared: server.shared,
        terms: terms(&server.terms),
        own_terms: server.own_terms.iter().map(|(tool, own)| (tool.clone(), terms(own))).collect(),
    })
}

fn client_tool(tool: &config::ClientTool) -> ClientTool {
    ClientTool {
        name: tool.name.as_str().to_owned(),
        description: tool.description.as_str().to_owned(),
        parameters: tool.parameters.clone(),
        terms: terms(&tool.terms),
    }
}

fn terms(terms: &ToolTerms) -> Terms {
    Terms {
        effects: terms.effects,
        confirm: terms.confirm,
        rights: terms.rights.clone(),
        timeout: terms.timeout,
        max_result_bytes: terms.max_result_bytes,
        repeatable: terms.repeatable,
        execution: terms.execution,
    }
}

pub(super) fn url(text: &Text) -> Url {
    Url::parse(text.trim()).expect("the configuration has checked it")
}

pub(super) fn headers(headers: &BTreeMap<String, Secret>) -> HeaderMap {
    let header = |(name, value): (&String, &Secret)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("the configuration has checked it");
        let mut value = HeaderValue::from_str(value.expose()).expect("the configuration has checked it");
        value.set_sensitive(true);
        (name, value)
    };
    headers.iter().map(header).collect()
}
