//! What someone gets who has missed something: as stanzas are not sent again yet, the conversation itself, as far as that
//! one may know it.
//!
//! It goes to the one who asked, in its place among everything else, and is not kept. Never shown: what was said before
//! that identity first joined, and what belongs to other branches.

use super::conversation::{Key, Node, Said};
use super::{Complaint, Engine};
use crate::wire::body::{AssistantMessage, Body, UserMessage};
use std::collections::VecDeque;

/// How much is shown, the newest first to be chosen: messages and answers, and bytes of them.
const MAX_MESSAGES: usize = 50;
const MAX_BYTES: usize = 100_000;

impl Engine {
    /// A client has seen everything up to this number.
    pub(super) fn catch_up(&mut self, identity: &str, seen: i32) {
        let Some(since) = self.people.since(identity) else { return };
        let newest = self.outbox.newest_kept(|audience| self.people.takes(identity, audience));
        // Numbers count down. Clients may say them without their sign.
        let missed =
            newest.is_some_and(|newest| newest < since.number && newest.unsigned_abs() > seen.unsigned_abs());
        // Little is asked for much: that is not to be had any number of times.
        if !missed || !self.people.get(identity, self.now).errors.take(self.now) {
            return;
        }
        let complaint = Complaint::later(
            202,
            "What you missed cannot be sent again: conversations are kept in memory. Here is what was said.",
        );
        self.complain(identity, false, None, complaint);
        for body in self.snapshot(since.said) {
            self.outbox.send_unkept(identity.to_owned(), body, &mut self.outputs);
        }
    }

    /// What was said since then on the branch that is being spoken in, newest last.
    fn snapshot(&self, since: Key) -> VecDeque<Body> {
        let branch = self.conversation.branch().into_iter().filter(|&key| key >= since);
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
