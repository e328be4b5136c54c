//! From the configuration to the model's endpoints.

use crate::config;
use crate::model::{Endpoint, Key, Limits, OpenAi, SetupError};
use sotto_core::model::request::{RequestOptions, Sampling, Switch};

/// All of them, in the order in which they are asked.
pub(super) fn open_ai(model: &config::Model) -> Result<OpenAi, SetupError> {
    let endpoints = model.endpoints.iter().map(endpoint).collect();
    let limits = Limits {
        first_token: model.first_token_timeout,
        between_chunks: model.chunk_timeout,
        total: model.total_timeout,
        retries: model.retries,
        max_concurrent: model.max_concurrent,
        in_queue: model.queue_timeout,
        ..Limits::default()
    };
    OpenAi::new(endpoints, limits)
}

fn endpoint(endpoint: &config::Endpoint) -> Endpoint {
    Endpoint {
        url: endpoint.url.to_string(),
        shown_url: Some(endpoint.url.shown().to_owned()),
        thinks: endpoint.thinking != config::Thinking::Off,
        key: endpoint.key.as_ref().and_then(|key| Key::new(key.expose())),
        starts_inside: match endpoint.thinking {
            // Some models think whatever they are told.
            config::Thinking::Auto | config::Thinking::Off => None,
            config::Thinking::On => Some(false),
            config::Thinking::Inside => Some(true),
        },
        find_switch: endpoint.switch == config::Switch::Auto,
        request: RequestOptions {
            model: endpoint.name.to_string(),
            switch: match endpoint.switch {
                config::Switch::Auto | config::Switch::Template => Switch::TemplateKwargs,
                config::Switch::TopLevel => Switch::TopLevel,
                config::Switch::Effort => Switch::Effort,
                config::Switch::OpenRouter => Switch::OpenRouter,
                config::Switch::None => Switch::None,
            },
            effort: endpoint.effort.as_deref().map(str::to_owned),
            thinking_budget: endpoint.thinking_budget.map(u64::from),
            sampling: Sampling {
                temperature: endpoint.temperature,
                top_p: endpoint.top_p,
                top_k: endpoint.top_k.map(u64::from),
            },
            max_tokens: endpoint.max_tokens.map(u64::from),
            extra: (*endpoint.extra).clone(),
        },
    }
}
