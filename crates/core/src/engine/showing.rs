//! What people see of a turn: thoughts and sentences, each sent to those who take them.

use super::Engine;
use super::event::Output;
use super::people::{Audience, REASONING_DELTAS};
use super::speaking::Spoken;
use super::thinking::Thought;
use super::turn::Turn;
use crate::ids::Kind;
use crate::wire::body::{
    AssistantMessage, AssistantSentence, Body, ReasoningDelta, ReasoningStep, StartAnswer,
};

/// Those who want to see a thought before it is finished.
pub(super) const LIVE_REASONING: Audience = Audience::ReasoningFeature(REASONING_DELTAS);

impl Engine {
    pub(super) fn pause_thinking(&mut self, turn: &mut Turn) {
        let live = self.people.has(&LIVE_REASONING);
        let thoughts = turn.thinking.pause(live, &self.settings.secrets, &mut self.ids, self.now);
        self.show_thoughts(turn, thoughts);
    }

    pub(super) fn show_thoughts(&mut self, turn: &mut Turn, thoughts: Vec<Thought>) {
        let previous_id = &turn.work.message_id;
        for thought in thoughts {
            let conversation_id = self.settings.conversation.clone();
            match thought {
                Thought::Delta { id, index: step_index, text: delta } => {
                    let previous_id = previous_id.clone();
                    let body = ReasoningDelta { id, previous_id, conversation_id, step_index, delta };
                    self.send(LIVE_REASONING, Body::ReasoningDelta(body));
                }
                Thought::Step { id, index: step_index, text: content } => {
                    turn.figures.first_step.get_or_insert(self.now);
                    if self.settings.keep_reasoning {
                        turn.steps.push(content.clone());
                    }
                    let previous_id = previous_id.clone();
                    let body = ReasoningStep {
                        id,
                        conversation_id,
                        previous_id,
                        content,
                        step_index,
                        total_steps: None,
                    };
                    self.send(Audience::Reasoning, Body::ReasoningStep(body));
                }
            }
        }
    }

    pub(super) fn say(&mut self, turn: &mut Turn, spoken: Vec<Spoken>) {
        if spoken.iter().any(|spoken| matches!(spoken, Spoken::Sentence { .. })) {
            turn.figures.first_sentence.get_or_insert(self.now);
        }
        let answer = turn.speaking.id.clone();
        self.speak(&answer, &turn.work.message_id, spoken);
    }

    /// Sends what is said, under the answer's id.
    pub(super) fn speak(&mut self, answer: &str, message: &str, spoken: Vec<Spoken>) {
        for spoken in spoken {
            let conversation_id = self.settings.conversation.clone();
            let body = match spoken {
                Spoken::Transcript(transcript) => {
                    // In its turn, like everything that is said: never before the message it answers is acknowledged.
                    self.outbox.follow(Output::Transcript(transcript), &mut self.outputs);
                    continue;
                }
                Spoken::Start => Body::StartAnswer(StartAnswer {
                    id: answer.to_owned(),
                    previous_id: message.to_owned(),
                    conversation_id,
                    answer_type: Some("text".to_owned()),
                    planned_sentence_count: None,
                }),
                Spoken::Sentence { sequence, text, last } => Body::AssistantSentence(AssistantSentence {
                    id: Some(self.ids.next(Kind::Sentence)),
                    previous_id: answer.to_owned(),
                    conversation_id,
                    sequence,
                    text,
                    is_final: last.then_some(true),
                    audio: None,
                }),
            };
            self.send(Audience::Streaming, body);
        }
    }

    /// The same for those who take an answer whole.
    pub(super) fn send_whole(&mut self, answer: &str, message: &str, text: &str) {
        let whole = AssistantMessage {
            id: answer.to_owned(),
            previous_id: message.to_owned(),
            conversation_id: self.settings.conversation.clone(),
            content: text.to_owned(),
            timestamp: Some(self.now.as_millis()),
        };
        self.send(Audience::Whole, Body::AssistantMessage(whole));
    }
}
