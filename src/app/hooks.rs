//! From the configuration to the hooks.

use super::tools::{headers, url};
use crate::config;
use crate::hooks::{Definition, HttpHooks, Unusable};
use crate::tls;
use crate::tools::Targets;
use sotto_core::engine::hook::{Hook, Hooks, Terms};

/// All of them, none of them connected to yet.
pub(super) fn http(hooks: &config::Hooks) -> Result<HttpHooks, Unusable> {
    let hosts = hooks.allow_hosts.iter().map(|host| host.as_str().to_owned());
    let targets = Targets::new(hosts, tls::client_config()).listed_in("hooks.allow_hosts");
    let configured = Hook::ALL.into_iter().filter_map(|hook| Some((hook, of(hooks, hook)?)));
    let definition = |(hook, configured): (Hook, &config::Hook)| Definition {
        hook,
        url: url(&configured.url),
        secret: configured.secret.expose().as_bytes().to_vec(),
        headers: headers(&configured.headers),
    };
    HttpHooks::new(configured.map(definition).collect(), &targets)
}

/// What the engine is told of them.
pub(super) fn terms(hooks: &config::Hooks) -> Hooks {
    let terms = |hook| {
        let config::Hook { timeout, when_away, brings, .. } = of(hooks, hook)?;
        Some(Terms { timeout: *timeout, when_away: *when_away, brings: *brings })
    };
    Hooks {
        before_model: terms(Hook::BeforeModel),
        before_tool: terms(Hook::BeforeTool),
        before_say: terms(Hook::BeforeSay),
    }
}

fn of(hooks: &config::Hooks, hook: Hook) -> Option<&config::Hook> {
    match hook {
        Hook::BeforeModel => hooks.before_model.as_ref(),
        Hook::BeforeTool => hooks.before_tool.as_ref(),
        Hook::BeforeSay => hooks.before_say.as_ref(),
    }
}
