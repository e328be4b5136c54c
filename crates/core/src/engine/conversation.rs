//! What was said: an append-only tree of messages and answers, the only source of prompts.
//!
//! A regenerated answer is a sibling of the first, an edited message gets a new text in its place, a continuation
//! follows the answer it continues; nothing is overwritten for the store, which has every record. Here only what a
//! prompt may still need is held: old messages leave memory.

use super::policy::Taint;
use crate::model::ToolCall;
use crate::wire::body::VariationMode;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Messages and answers held in memory.
const MAX_NODES: usize = 400;
/// Text held in memory, in bytes; the newest message is held whatever its size, and so is what is still to be answered.
const MAX_BYTES: usize = 512 << 10;
/// Ids remembered, so that the same message is not answered twice.
const MAX_IDS: usize = 2_048;

/// The place of a message or an answer in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// One thing said.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) parent: Option<Key>,
    pub(super) said: Said,
}

/// By whom, and what.
#[derive(Clone, Debug)]
pub(super) enum Said {
    User(UserMessage),
    Agent(Answer),
}

/// What a person said.
#[derive(Clone, Debug)]
pub(super) struct UserMessage {
    pub(super) from: String,
    pub(super) name: String,
    pub(super) text: String,
    /// It came through LiveKit's chat, whose senders read transcripts and no packets.
    pub(super) chat: bool,
}

/// What the agent said.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The user message it answers; a greeting answers none.
    pub(super) message: Option<Key>,
    pub(super) text: String,
    /// The tools that were called on the way, with what they gave.
    pub(super) calls: Vec<(ToolCall, String)>,
    /// What was in the prompt it was made of, and may be in it.
    pub(super) taint: Taint,
}

impl Node {
    fn bytes(&self) -> usize {
        let said = match &self.said {
            Said::User(message) => message.from.len() + message.name.len() + message.text.len(),
            Said::Agent(answer) => {
                let called = |call: &ToolCall| call.arguments.as_ref().map_or(0, arguments_bytes);
                let calls = answer.calls.iter().map(|(call, result)| called(call) + result.len() + 100);
                answer.text.len() + calls.sum::<usize>()
            }
        };
        self.id.len() + said
    }
}

fn arguments_bytes(arguments: &Map<String, Value>) -> usize {
    arguments.iter().map(|(key, value)| key.len() + value.to_string().len()).sum()
}

/// Whether an id is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Familiar {
    /// Nobody has used it.
    New,
    /// The same sender sent the same.
    Same,
    /// Someone else, or something else.
    Different,
}

/// The tree.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    nodes: BTreeMap<Key, Node>,
    by_id: BTreeMap<String, Key>,
    next: u64,
    bytes: usize,
    /// Where the conversation goes on.
    leaf: Option<Key>,
    /// What a turn still needs, and how many turns do: it stays, however old.
    held: BTreeMap<Key, usize>,
    /// Ids of user messages, with a digest of sender and text.
    ids: BTreeMap<String, u64>,
    ids_by_age: VecDeque<String>,
}

impl Conversation {
    /// Whether this message was taken in before.
    pub(super) fn familiar(&self, id: &str, from: &str, text: &str) -> Familiar {
        match self.ids.get(id) {
            Some(&known) if known == digest(from, text) => Familiar::Same,
            Some(_) => Familiar::Different,
            None if self.by_id.contains_key(id) => Familiar::Different,
            None => Familiar::New,
        }
    }

    /// The message is taken in: from now on its id is familiar.
    pub(super) fn remember(&mut self, id: &str, from: &str, text: &str) {
        self.ids.insert(id.to_owned(), digest(from, text));
        self.ids_by_age.push_back(id.to_owned());
        if self.ids_by_age.len() > MAX_IDS
            && let Some(oldest) = self.ids_by_age.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    /// Takes back [`remember`](Self::remember): the message could not be stored and may come again.
    pub(super) fn forget(&mut self, id: &str) {
        self.ids.remove(id);
        self.ids_by_age.retain(|known| known != id);
    }

    pub(super) fn find(&self, id: &str) -> Option<Key> {
        self.by_id.get(id).copied()
    }

    pub(super) fn node(&self, key: Key) -> Option<&Node> {
        self.nodes.get(&key)
    }

    pub(super) fn user(&self, key: Key) -> Option<&UserMessage> {
        match &self.nodes.get(&key)?.said {
            Said::User(message) => Some(message),
            Said::Agent(_) => None,
        }
    }

    /// What the answers among these may hold.
    pub(super) fn taint(&self, keys: &[Key]) -> Taint {
        let said = keys.iter().filter_map(|key| self.nodes.get(key)).map(|node| &node.said);
        said.fold(Taint::default(), |sum, said| match said {
            Said::Agent(answer) => sum | answer.taint,
            Said::User(_) => sum,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The place of what is said next.
    pub(super) fn next_key(&self) -> Key {
        Key(self.next)
    }

    /// The branch that is being spoken in, from the first message still held.
    pub(super) fn branch(&self) -> Vec<Key> {
        self.path(self.leaf)
    }

    /// The user message that something is about: itself, or the one that it answers.
    pub(super) fn message_of(&self, key: Key) -> Option<Key> {
        match &self.nodes.get(&key)?.said {
            Said::User(_) => Some(key),
            Said::Agent(answer) => answer.message,
        }
    }

    /// What a variation of `target` answers: the user message, and the answer that is continued.
    pub(super) fn varied(&self, target: Key, mode: VariationMode) -> Option<(Key, Option<Key>)> {
        let (message, go_on_from) = match (&self.nodes.get(&target)?.said, mode) {
            (Said::Agent(answer), VariationMode::Continue) => (answer.message?, Some(target)),
            (Said::Agent(answer), _) => (answer.message?, None),
            (Said::User(_), _) => (target, None),
        };
        self.nodes.contains_key(&message).then_some((message, go_on_from))
    }

    /// Adds a user message. What it names as its predecessor chooses the branch: within the one that is being spoken
    /// in, it follows the newest message (the sender may not have seen that one yet), on another one it goes on there.
    pub(super) fn add_message(&mut self, id: String, previous: Option<&str>, message: UserMessage) -> Key {
        let named = previous.and_then(|previous| self.find(previous));
        let parent = match named {
            Some(named) if !self.path(self.leaf).contains(&named) => Some(named),
            _ => self.leaf,
        };
        self.add(id, parent, Said::User(message))
    }

    /// Adds an answer behind `parent`: the user message, or the answer that it continues.
    pub(super) fn add_answer(&mut self, id: String, parent: Option<Key>, answer: Answer) -> Key {
        let branch = self.path(self.leaf);
        let key = self.insert(id, parent, Said::Agent(answer));
        if self.leaf == parent {
            self.leaf = Some(key);
        } else if parent.is_none_or(|parent| branch.contains(&parent)) {
            // A message was added while this one was being answered: that one stays the newest.
            self.adopt(parent, key);
        }
        // Else the conversation has gone on along another branch meanwhile, and stays there.
        key
    }

    /// A turn needs this: it stays until [`release`](Self::release).
    pub(super) fn hold(&mut self, key: Key) {
        *self.held.entry(key).or_default() += 1;
    }

    /// Takes back one [`hold`](Self::hold).
    pub(super) fn release(&mut self, key: Key) {
        if let Some(turns) = self.held.get_mut(&key) {
            *turns -= 1;
            if *turns == 0 {
                self.held.remove(&key);
            }
        }
    }

    /// Whether the conversation would go on from here.
    pub(super) fn is_newest(&self, key: Key) -> bool {
        self.leaf == Some(key)
    }

    /// The conversation goes on from here: what came after belongs to another branch now.
    pub(super) fn return_to(&mut self, key: Key) {
        self.leaf = Some(key);
    }

    /// Replaces the text of a user message; what followed it belongs to another branch now.
    pub(super) fn edit(&mut self, key: Key, text: String) {
        if let Some(Node { said: Said::User(message), .. }) = self.nodes.get_mut(&key) {
            self.bytes = self.bytes - message.text.len() + text.len();
            message.text = text;
        }
        self.leaf = Some(key);
    }

    /// From the first message still held to `key`.
    pub(super) fn path(&self, key: Option<Key>) -> Vec<Key> {
        let mut path = Vec::new();
        let mut next = key;
        while let Some(key) = next
            && let Some(node) = self.nodes.get(&key)
        {
            path.push(key);
            next = node.parent;
        }
        path.reverse();
        path
    }

    fn add(&mut self, id: String, parent: Option<Key>, said: Said) -> Key {
        let key = self.insert(id, parent, said);
        self.leaf = Some(key);
        key
    }

    fn insert(&mut self, id: String, parent: Option<Key>, said: Said) -> Key {
        let key = Key(self.next);
        self.next += 1;
        let node = Node { id: id.clone(), parent, said };
        self.bytes += node.bytes();
        self.by_id.insert(id, key);
        self.nodes.insert(key, node);
        if self.nodes.len() > MAX_NODES || self.bytes > MAX_BYTES {
            self.forget_a_quarter(key);
        }
        key
    }

    /// Forgets what is oldest, a quarter at once: each time, the beginning of prompts changes, which endpoints cache.
    fn forget_a_quarter(&mut self, newest: Key) {
        let old = |key: &&Key| **key != newest && !self.held.contains_key(key);
        let old: Vec<Key> = self.nodes.keys().filter(old).copied().collect();
        for key in old {
            let enough = self.nodes.len() <= MAX_NODES / 4 * 3 && self.bytes <= MAX_BYTES / 4 * 3;
            // The answer to something forgotten would hang in the air.
            let dangling = matches!(
                self.nodes.get(&key).map(|node| &node.said),
                Some(Said::Agent(Answer { message: Some(message), .. })) if !self.nodes.contains_key(message)
            );
            if enough && !dangling {
                return;
            }
            if let Some(node) = self.nodes.remove(&key) {
                self.bytes -= node.bytes();
                self.by_id.remove(&node.id);
            }
        }
    }

    /// Puts an answer between a message and the one that was added after it, so that the branch reads in the order of
    /// turns. Where another answer follows already, this one is a sibling of that: a prompt has one answer to a message.
    fn adopt(&mut self, parent: Option<Key>, answer: Key) {
        let branch = self.path(self.leaf);
        let child = branch
            .iter()
            .copied()
            .find(|&key| self.nodes.get(&key).is_some_and(|node| node.parent == parent));
        if let Some(child) = child
            && let Some(Node { parent, said: Said::User(_), .. }) = self.nodes.get_mut(&child)
        {
            *parent = Some(answer);
        }
    }
}

fn digest(from: &str, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (from, text).hash(&mut hasher);
    hasher.finish()
}
