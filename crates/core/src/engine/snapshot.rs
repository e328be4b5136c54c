//! The conversation itself, as far as someone may know it: for those who missed more than is kept (`replay`).
//!
//! It goes to the one who asked, in its place among everything else, and is not kept. Never shown: what was said before
//! that identity first joined, and what belongs to other branches.

use super::Engine;
use super::conversation::{Node, Said};
use crate::wire::body::{AssistantMessage, Body, UserMessage};
use std::collections::VecDeque;

/// How much is shown, the newest first to be chosen: messages and answers, and bytes of them.
const MAX_MESSAGES: usize = 50;
const MAX_BYTES: usize = 100_000;

impl Engine {
    /// What was said on the branch that is being spoken in since someone joined, newest last.
    pub(super) fn snapshot(&self, identity: &str) -> VecDeque<Body> {
        let since = self.people.since(identity).map(|since| since.said);
        let may_know = |key| self.settings.share_history || since.is_some_and(|since| key >= since);
        let branch = self.conversation.branch().into_iter().filter(|&key| may_know(key));
        // A turn that only used tools said nothing.
        let said: Vec<&Node> = branch
            .filter_map(|key| self.conversation.node(key))
            .filter(|node| !text(&node.said).is_empty())
            .collect();
        let mut bodies = VecDeque::new();
        let mut bytes = 0;
        for (place, node) in said.iter().enumerate().rev().take(MAX_MESSAGES) {
            let content = text(&node.said).to_owned();
            bytes += content.len();
            if bytes > MAX_BYTES {
                break;
            }
            let (id, conversation_id) = (node.id.clone(), self.settings.conversation.clone());
            bodies.push_front(match &node.said {
                Said::Agent(answer) => {
                    let message = answer.message.and_then(|key| self.conversation.node(key));
                    let previous_id = message.map(|node| node.id.clone()).unwrap_or_default();
                    Body::AssistantMessage(AssistantMessage {
                        id,
                        previous_id,
                        conversation_id,
                        content,
                        timestamp: None,
                    })
                }
                Said::User(_) => Body::UserMessage(UserMessage {
                    id,
                    previous_id: place.checked_sub(1).map(|before| said[before].id.clone()),
                    conversation_id,
                    content,
                    timestamp: None,
                    attachments: None,
                }),
            });
        }
        bodies
    }
}

fn text(said: &Said) -> &str {
    match said {
        Said::User(message) => &message.text,
        Said::Agent(answer) => &answer.text,
    }
}
