//! `[hooks]`: the developer's own logic, asked over HTTP before something is done.

use crate::config::reader::Section;
use crate::config::source::Given;
use crate::config::value::{self, Mismatch, list, one_of, seconds};
use crate::config::{Secret, Text};
use sotto_core::engine::hook::WhenAway;
use sotto_core::engine::policy::Taint;
use std::collections::BTreeMap;
use std::time::Duration;

/// The shortest secret that requests are signed with: what can be guessed signs nothing.
const SECRET_CHARS: usize = 16;

/// `[hooks]`: who is asked before something is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Hooks {
    /// Before the model is asked.
    pub before_model: Option<Hook>,
    /// Before a tool is used.
    pub before_tool: Option<Hook>,
    /// Before a sentence is said.
    pub before_say: Option<Hook>,
    /// Hosts that hooks may be on although they are not public.
    pub allow_hosts: Vec<Text>,
}

/// One hook.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// Where it is.
    pub url: Text,
    /// What requests are signed with.
    pub secret: Secret,
    /// How long it may take.
    pub timeout: Duration,
    /// What happens where it cannot be asked, makes no sense or takes too long.
    pub when_away: WhenAway,
    /// What is sent with each request.
    pub headers: BTreeMap<String, Secret>,
    /// What it may bring into the prompt.
    pub brings: Taint,
}

impl Hooks {
    pub(in crate::config) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            before_model: section.table("before_model", |hook| Hook::read(hook, true)).flatten(),
            before_tool: section.table("before_tool", |hook| Hook::read(hook, false)).flatten(),
            before_say: section.table("before_say", |hook| Hook::read(hook, false)).flatten(),
            allow_hosts: section.in_file("allow_hosts", list(value::host)).unwrap_or_default(),
        }
    }
}

impl Hook {
    /// Only what is asked before the model can bring something into the prompt.
    fn read(section: &mut Section<'_, '_>, brings: bool) -> Option<Self> {
        const WHEN_AWAY: [(&str, WhenAway); 2] = [("open", WhenAway::Open), ("closed", WhenAway::Closed)];
        let url = section.required("url", value::tool_url);
        let secret = section.required("secret", secret);
        section.hide(secret.clone());
        let timeout = section.or("timeout", Duration::from_secs(2), seconds(0.05..=60.0));
        let when_away = section.required("when_away", one_of(&WHEN_AWAY));
        let headers = super::tools::headers(section);
        let has_ours = |name: &String| name.to_ascii_lowercase().starts_with("sotto-");
        if headers.keys().any(has_ours) {
            section.refuse("has a header that begins with Sotto-, which are ours; call it otherwise");
        }
        let brings = if brings { section.in_file("effects", effects) } else { None };
        Some(Self {
            url: url?,
            secret: secret?,
            timeout,
            when_away: when_away?,
            headers,
            brings: brings.unwrap_or(Taint { untrusted: true, private: true }),
        })
    }
}

fn secret(given: &Given) -> Result<Secret, Mismatch> {
    let secret = value::secret(given)?;
    if secret.expose().len() >= SECRET_CHARS {
        return Ok(secret);
    }
    Err(Mismatch::Hidden(format!(
        "at least {SECRET_CHARS} characters that nobody can guess, as `openssl rand -hex 32` makes them"
    )))
}

fn effects(given: &Given) -> Result<Taint, Mismatch> {
    const UNTRUSTED: Taint = Taint { untrusted: true, private: false };
    const PRIVATE: Taint = Taint { untrusted: false, private: true };
    let effects = list(one_of(&[("untrusted_output", UNTRUSTED), ("reads_private", PRIVATE)]))(given)?;
    Ok(effects.into_iter().fold(Taint::default(), |sum, effect| sum | effect))
}
