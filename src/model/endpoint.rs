//! An endpoint: where it is, how it is asked, and what is known of it.

use super::breaker::Breaker;
use super::probe::Probe;
use crate::address;
use reqwest::Url;
use reqwest::header::HeaderValue;
use sotto_core::model::request::{RequestOptions, Switch};
use sotto_core::model::style;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;
use tokio::sync::OnceCell;

/// Where Ollama listens, unless told otherwise.
const OLLAMA_PORT: u16 = 11434;

/// An OpenAI-compatible endpoint, as configured.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The base of its addresses, ending in `/v1`.
    pub url: String,
    /// The address as it may be shown, if it holds a secret.
    pub shown_url: Option<String>,
    /// What it wants to see; sent to this endpoint and to no other.
    pub key: Option<Key>,
    /// Whether it is to think where thinking is asked for.
    pub thinks: bool,
    /// Whether its answers begin inside the thinking; unknown: by the model's name, else found out by asking.
    pub starts_inside: Option<bool>,
    /// How its thinking is switched is to be found out; `request.switch` does not count.
    pub find_switch: bool,
    /// The model's name, the switch for its thinking, its sampling and whatever else goes into each request.
    pub request: RequestOptions,
}

/// A secret key; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key without the white space around it, which comes with files; none where nothing is left.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// Why an endpoint cannot even be asked.
#[derive(Debug, Error)]
pub enum SetupError {
    /// There is none.
    #[error("no model endpoint is configured; set SOTTO_MODEL_URL")]
    NoEndpoint,
    /// Not an address.
    #[error("{setting} is not an address ({reason}); it should look like http://localhost:8000/v1")]
    BadUrl {
        /// Which setting.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that cannot be sent.
    #[error("{0} holds characters that no key has; is it complete and on one line?")]
    BadKey(&'static str),
    /// The HTTP client could not be made.
    #[error("no HTTP client could be made: {0}")]
    Client(#[source] reqwest::Error),
}

/// An endpoint, ready to be asked.
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    /// Where answers come from.
    pub(super) completions: Url,
    pub(super) authorization: Option<HeaderValue>,
    /// What asking it has shown, once that was done.
    pub(super) probe: OnceCell<Probe>,
    breaker: Mutex<Breaker>,
    is_main: bool,
}

impl Target {
    pub(super) fn new(endpoint: Endpoint, is_main: bool) -> Result<Self, SetupError> {
        let [url_setting, _, key_setting] = setting_names(is_main);
        let bad_url = |reason: &str| SetupError::BadUrl { setting: url_setting, reason: reason.to_owned() };
        let mut completions: Url = endpoint.url.trim().parse().map_err(|_| bad_url("it cannot be read"))?;
        if !matches!(completions.scheme(), "http" | "https") {
            return Err(bad_url("it begins with neither http:// nor https://"));
        }
        completions
            .path_segments_mut()
            .map_err(|()| bad_url("it has no path"))?
            .pop_if_empty()
            .extend(["chat", "completions"]);
        let authorization = endpoint.key.as_ref().map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))
                .map_err(|_| SetupError::BadKey(key_setting))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            completions,
            authorization: authorization.transpose()?,
            probe: OnceCell::new(),
            breaker: Mutex::default(),
            is_main,
            endpoint,
        })
    }

    /// How it has answered lately.
    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes into each request, with what was found out.
    pub(super) fn request_options(&self) -> RequestOptions {
        let mut options = self.endpoint.request.clone();
        options.switch = self.probe.get().map_or_else(|| self.switches().0, |probe| probe.switch);
        options
    }

    /// How its thinking is switched, as far as can be told from outside, and how else it may be.
    pub(super) fn switches(&self) -> (Switch, Vec<Switch>) {
        if !self.endpoint.find_switch {
            return (self.endpoint.request.switch, Vec::new());
        }
        let host = self.completions.host_str().unwrap_or_default();
        let likely = if host.ends_with("openrouter.ai") {
            Switch::OpenRouter
        } else if host.ends_with("aliyuncs.com") {
            Switch::TopLevel
        } else if self.completions.port() == Some(OLLAMA_PORT) || host.ends_with("openai.com") {
            Switch::Effort
        } else {
            Switch::TemplateKwargs
        };
        let all =
            [Switch::TemplateKwargs, Switch::Effort, Switch::TopLevel, Switch::OpenRouter, Switch::None];
        (likely, all.into_iter().filter(|switch| *switch != likely).collect())
    }

    /// Whether answers begin inside the thinking, if that is known by now.
    pub(super) fn starts_inside(&self, thinking: bool) -> Option<bool> {
        match self.endpoint.starts_inside {
            Some(false) => Some(false),
            // Without thinking there is nothing to begin inside of, except where nothing switches it off.
            Some(true) => {
                let fixed = !self.endpoint.find_switch && self.endpoint.request.switch == Switch::None;
                Some(thinking || fixed || self.starts_inside_by_name(false))
            }
            None => {
                let found = self.probe.get().map(|probe| probe.starts_inside(thinking));
                found.or_else(|| self.starts_inside_by_name(thinking).then_some(true))
            }
        }
    }

    pub(super) fn starts_inside_by_name(&self, thinking: bool) -> bool {
        style::starts_inside(&self.endpoint.request.model, thinking)
    }

    /// The address as it may be shown: without the user, password and query that it may hold.
    pub(super) fn shown_url(&self) -> String {
        if let Some(shown) = &self.endpoint.shown_url {
            return shown.clone();
        }
        let mut url = self.completions.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop().pop();
        }
        address::without_secrets(url)
    }

    /// What people in the room may know it by.
    pub(super) fn name_for_users(&self) -> &'static str {
        if self.is_main { "the model endpoint" } else { "the fallback endpoint" }
    }

    /// What the settings for address, name and key are called.
    pub(super) fn setting_names(&self) -> [&'static str; 3] {
        setting_names(self.is_main)
    }
}

fn setting_names(is_main: bool) -> [&'static str; 3] {
    if is_main {
        ["SOTTO_MODEL_URL", "SOTTO_MODEL_NAME", "SOTTO_MODEL_KEY"]
    } else {
        ["`url` in [[model.fallback]]", "`name` in [[model.fallback]]", "`key` in [[model.fallback]]"]
    }
}
