//! `[model]` and `[[model.fallback]]`: the language model, and who answers when it does not.

use super::{DAY, MANY};
use crate::config::reader::Section;
use crate::config::value::{self, integer, line, number, one_of, seconds};
use crate::config::{Extra, Secret, Text};
use std::time::Duration;

/// Whether a model thinks before it answers, and how its stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// It thinks; how the stream begins is found out by its name and one tiny request.
    Auto,
    /// It thinks; the stream says where thinking begins.
    On,
    /// It does not.
    Off,
    /// It thinks, and the stream begins inside the thinking.
    Inside,
}

/// How thinking is switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Found out.
    Auto,
    /// `chat_template_kwargs.enable_thinking` (vLLM, `SGLang`, llama.cpp).
    Template,
    /// `enable_thinking` (`DashScope`).
    TopLevel,
    /// `reasoning_effort` (Ollama, `OpenAI`).
    Effort,
    /// `reasoning` (`OpenRouter`).
    OpenRouter,
    /// Not at all.
    None,
}

/// A model behind an OpenAI-compatible endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// The base of the API, usually ending in `/v1`; no slash at the end.
    pub url: Text,
    /// The model's name there.
    pub name: Text,
    /// The key; never sent to another endpoint.
    pub key: Option<Secret>,
    /// Whether it thinks.
    pub thinking: Thinking,
    /// How it is told to.
    pub switch: Switch,
    /// How hard it is to think, in the endpoint's words.
    pub effort: Option<Text>,
    /// How many tokens it may think.
    pub thinking_budget: Option<u32>,
    /// Sampling; none: what Qwen3 recommends.
    pub temperature: Option<f64>,
    /// Sampling; none: what Qwen3 recommends.
    pub top_p: Option<f64>,
    /// Sampling; none: what Qwen3 recommends.
    pub top_k: Option<u32>,
    /// How many tokens it may write; none: the endpoint decides.
    pub max_tokens: Option<u32>,
    /// What else goes into each request.
    pub extra: Extra,
}

impl Endpoint {
    fn read(section: &mut Section<'_, '_>, url: Text, name: Text) -> Self {
        Self {
            url,
            name,
            key: section.secret("key"),
            thinking: section.or(
                "thinking",
                Thinking::Auto,
                one_of(&[
                    ("auto", Thinking::Auto),
                    ("on", Thinking::On),
                    ("off", Thinking::Off),
                    ("inside", Thinking::Inside),
                ]),
            ),
            switch: section.or(
                "switch",
                Switch::Auto,
                one_of(&[
                    ("auto", Switch::Auto),
                    ("template", Switch::Template),
                    ("top_level", Switch::TopLevel),
                    ("effort", Switch::Effort),
                    ("openrouter", Switch::OpenRouter),
                    ("none", Switch::None),
                ]),
            ),
            effort: section.get("effort", value::tag),
            thinking_budget: section.get("thinking_budget", integer(1..=MANY)),
            temperature: section.get("temperature", number(0.0..=2.0)),
            top_p: section.get("top_p", number(0.01..=1.0)),
            top_k: section.get("top_k", integer(1..=1_000_000)),
            max_tokens: section.get("max_tokens", integer(1..=MANY)),
            extra: section.in_file("extra", value::extra).unwrap_or_default(),
        }
    }

    /// A fallback takes nothing from `[model]`, the key least of all; so it must say where and what it is.
    fn read_fallback(section: &mut Section<'_, '_>) -> Option<Self> {
        let url = section.required("url", value::model_url);
        let name = section.required("name", line);
        let unknown = || Text::from("");
        let is_complete = url.is_some() && name.is_some();
        // Read in any case, so that all its keys are known and checked.
        let endpoint = Self::read(section, url.unwrap_or_else(unknown), name.unwrap_or_else(unknown));
        is_complete.then_some(endpoint)
    }
}

/// `[model]`: the language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Who is asked, in order: the next one when one fails before its first token. None at all: the built-in demo
    /// model answers.
    pub endpoints: Vec<Endpoint>,
    /// What the model can take in, prompt and answer together.
    pub context_tokens: usize,
    /// How long the first token may take.
    pub first_token_timeout: Duration,
    /// How long the stream may pause.
    pub chunk_timeout: Duration,
    /// How long the whole answer may take.
    pub total_timeout: Duration,
    /// How often an endpoint is asked again, before the first token.
    pub retries: u32,
    /// Requests at once, of all conversations; others wait their turn.
    pub max_concurrent: usize,
    /// How long they may wait.
    pub queue_timeout: Duration,
}

impl Model {
    pub(in crate::config) fn read(section: &mut Section<'_, '_>) -> Self {
        let given = section.take("url");
        let is_demo = given.is_none();
        let url = given.and_then(|given| section.interpret("url", &given, value::model_url));
        let name = section.or("name", "qwen3".into(), line);
        let main = Endpoint::read(section, url.clone().unwrap_or_else(|| "".into()), name);
        let mut endpoints: Vec<_> = url.map(|_| main).into_iter().collect();
        let fallbacks = section.tables("fallback", |fallback| {
            if is_demo {
                fallback.refuse("needs a model to stand in for; set model.url");
            }
            Endpoint::read_fallback(fallback)
        });
        endpoints.extend(fallbacks.into_iter().flatten());
        Self {
            endpoints,
            context_tokens: section.or("context_tokens", 32_768, integer(1_024..=MANY)),
            first_token_timeout: section.or(
                "first_token_timeout",
                Duration::from_secs(60),
                seconds(0.1..=DAY),
            ),
            chunk_timeout: section.or("chunk_timeout", Duration::from_secs(20), seconds(0.1..=DAY)),
            total_timeout: section.or("total_timeout", Duration::from_secs(600), seconds(0.1..=DAY)),
            retries: section.or("retries", 3, integer(0..=100)),
            max_concurrent: section.or("max_concurrent", 64, integer(1..=1_000_000)),
            queue_timeout: section.or("queue_timeout", Duration::from_secs(60), seconds(0.1..=DAY)),
        }
    }
}
