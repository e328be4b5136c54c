//! A prefix cache as vLLM keeps it: blocks of a prompt, each known by everything up to its end.

use serde_json::Value;
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// vLLM's blocks are 16 tokens; a token is about 4 bytes.
const BLOCK: usize = 64;

#[derive(Default)]
pub(super) struct PrefixCache {
    blocks: HashSet<u64>,
}

impl PrefixCache {
    /// How many bytes of the prompt were there; all of it is from now on.
    pub(super) fn take_in(&mut self, prompt: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        let mut hits = 0;
        let mut unbroken = true;
        for block in prompt.as_bytes().chunks_exact(BLOCK) {
            block.hash(&mut hasher);
            let new = self.blocks.insert(hasher.finish());
            unbroken &= !new;
            hits += usize::from(unbroken);
        }
        hits * BLOCK
    }
}

/// The prompt as a chat template would order it: tools, then the messages.
pub(super) fn rendered(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rendered = match &body["tools"] {
        Value::Null => String::new(),
        tools => format!("{tools}\n"),
    };
    for message in messages {
        rendered.push_str(&message.to_string());
        rendered.push('\n');
    }
    rendered
}
