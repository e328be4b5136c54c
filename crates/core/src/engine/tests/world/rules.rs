//! The rules: every output is looked at when it comes.

use super::super::sotto_core::engine::event::{Output, Recipients, Ticket, Transcript};
use super::super::sotto_core::engine::record::{self, Record, Stanza};
use super::super::sotto_core::model::Message;
use super::super::sotto_core::wire::body::{Body, Execution};
use super::super::sotto_core::wire::{self, Envelope};
use super::{PEOPLE, THOUGHT, World};
use serde_json::Value;
use std::collections::BTreeSet;

impl World {
    pub(super) fn look_at(&mut self, output: &Output) {
        match output {
            Output::Save { ticket, record, .. } => {
                self.unconfirmed.push_back((*ticket, record.clone()));
                self.look_at_record(*ticket, record);
            }
            Output::Replay { .. } => {
                self.asked.push_back((self.stored + self.unconfirmed.len(), output.clone()));
            }
            Output::Send { to, bytes } => {
                let envelope = wire::decode(bytes, &wire::Limits::default()).expect("readable");
                let first = match to {
                    Recipients::Everyone => None,
                    Recipients::Only(identities) => {
                        Some(identities.first().expect("a packet goes to someone"))
                    }
                };
                if self.look_at_number(&envelope, to, bytes) {
                    self.look_at_packet(&envelope, first);
                }
            }
            Output::Transcript(transcript) => self.look_at_transcript(transcript),
            Output::Generate { request, prompt } => {
                self.look_at_prompt(prompt);
                let calls = prompt.messages.iter().flat_map(|message| match message {
                    Message::Assistant { calls, .. } => calls.as_slice(),
                    _ => &[],
                });
                let mut ids = BTreeSet::new();
                assert!(calls.map(|call| &call.id).all(|id| ids.insert(id)), "calls are told apart");
                assert_eq!(self.request, None, "one request at a time");
                self.request = Some(*request);
            }
            Output::CancelGenerate(request) => {
                assert_eq!(self.request.take(), Some(*request), "what is cancelled was running");
            }
            Output::RunTool { run, name, arguments, callee, .. } => {
                assert_eq!(callee.is_some(), name == "horn", "{name} is run by whom it is for");
                assert!(self.runs.insert(*run), "each run is a new one");
                self.look_at_use(name, arguments);
                self.look_at_judged_use(name, arguments);
            }
            Output::CancelTool(run) => assert!(self.runs.remove(run), "what is cancelled was running"),
            Output::TurnEnded(report) => {
                self.ended += 1;
                assert!(self.ended <= self.accepted, "only what was accepted ends");
                *self.ends_of.entry(report.message.clone()).or_default() += 1;
                self.steps.remove(&report.message);
            }
            Output::State(_) | Output::Count { .. } => {}
            Output::AskHook { question, about } => self.look_at_asked(*question, about),
            Output::CancelHook(question) => self.look_at_cancelled_question(*question),
        }
    }

    fn look_at_record(&mut self, ticket: Option<Ticket>, record: &Record) {
        match record {
            Record::Stanza(Stanza { number, audience, bytes }) => {
                let envelope = wire::decode(bytes, &wire::Limits::default()).expect("readable");
                assert_eq!(envelope.stanza, *number);
                let previous = envelope.meta.get("sotto.prev").and_then(Value::as_i64);
                let expected = self.last_kept.insert(audience.clone(), *number).unwrap_or(0);
                assert_eq!(previous, Some(expected.into()), "no hole in what {audience:?} gets");
                self.tickets_of_stanzas.insert(*number, ticket.expect("a stanza is waited for"));
                self.look_at_kept(&envelope.body);
            }
            Record::Answer(record::Answer { message, answer, announced, text, .. }) => {
                self.ends_stored += usize::from(message.is_some());
                if let Some(answer) = answer.as_ref().filter(|_| *announced) {
                    let stored = &mut self.answers.entry(answer.clone()).or_default().stored;
                    assert_eq!(stored.replace(text.clone()), None, "an answer is stored once");
                }
            }
            _ => {}
        }
    }

    fn look_at_kept(&mut self, body: &Body) {
        match body {
            Body::StartAnswer(start) => {
                if start.previous_id.is_empty() {
                    self.greetings.insert(start.id.clone());
                }
                let answer = self.answers.entry(start.id.clone()).or_default();
                assert_eq!(answer.sentences, 0, "an answer starts once, before its sentences");
            }
            Body::AssistantSentence(sentence) => {
                assert!(!sentence.text.contains(THOUGHT), "reasoning is never said");
                if !self.greetings.contains(&sentence.previous_id) {
                    self.look_at_judged(&sentence.text);
                }
                let answer = self.answers.get_mut(&sentence.previous_id).expect("a sentence has a start");
                assert!(!answer.last, "nothing follows the last sentence");
                answer.sentences += 1;
                assert_eq!(sentence.sequence, answer.sentences);
                answer.text.push_str(&sentence.text);
                answer.last = sentence.is_final == Some(true);
            }
            Body::ReasoningStep(step) => {
                let index = self.steps.entry(step.previous_id.clone()).or_default();
                *index += 1;
                assert_eq!(step.step_index, *index, "steps are counted from 1 for each answer");
            }
            Body::ToolUseResult(result) => self.look_at_result(&result.request_id),
            _ => {}
        }
    }

    /// True if it goes out for the first time.
    fn look_at_number(&mut self, envelope: &Envelope, to: &Recipients, bytes: &[u8]) -> bool {
        let number = envelope.stanza;
        let kept = envelope.meta.contains_key("sotto.prev");
        if kept {
            let ticket = self.tickets_of_stanzas.get(&number).expect("what is kept was handed to the store");
            assert!(self.confirmed.contains(ticket), "nothing goes out before the store has answered");
            let to: Vec<String> = match to {
                Recipients::Everyone => PEOPLE.map(str::to_owned).to_vec(),
                Recipients::Only(identities) => identities.clone(),
            };
            for one in to {
                let last = self.last_got.insert(one.clone(), number).unwrap_or(0);
                if number >= last {
                    let asked = self.may_go_back.get_mut(&one).filter(|asked| **asked > 0);
                    *asked.unwrap_or_else(|| panic!("{one}: {number} after {last}")) -= 1;
                }
            }
        }
        // What failed in the store is told past everything that waits for the store.
        let at_once = |message: &str| message.starts_with("It could not be stored");
        if !matches!(&envelope.body, Body::ErrorMessage(error) if at_once(&error.message)) {
            assert!(number < self.last_number || self.anyone_asked, "numbers only go down");
            self.last_number = number;
        }
        match self.numbers.insert(number, bytes.to_vec()) {
            None => true,
            Some(before) => {
                assert!(kept && before == bytes, "a number stands for one stanza");
                false
            }
        }
    }

    fn look_at_packet(&mut self, envelope: &Envelope, to: Option<&String>) {
        match &envelope.body {
            Body::Acknowledgement(acknowledgement) => {
                let key = (to.expect("to one").clone(), acknowledgement.acknowledged_stanza_id);
                if acknowledgement.success {
                    self.look_at_taken(&key);
                }
                if acknowledgement.success
                    && let Some(id) = self.sent_as.get(&key)
                {
                    self.acknowledged.insert(id.clone());
                }
                assert!(self.acknowledgements.insert(key), "a stanza is acknowledged once");
            }
            Body::ToolUseRequest(request) if request.execution != Execution::Server => {
                let to = to.expect("to one");
                if !self.knows_request(&request.id) {
                    let offered = request.tool_name == "torch";
                    let name = if offered { "client_torch" } else { &request.tool_name };
                    self.look_at_use(name, &request.parameters);
                    self.look_at_judged_use(name, &request.parameters);
                }
                self.look_at_request(request, to);
            }
            Body::ToolConsentRequest(request) => self.look_at_question(request, to.expect("to one")),
            Body::StartAnswer(start) => self.answers_what_was_acknowledged(&start.previous_id),
            Body::ReasoningStep(step) => self.answers_what_was_acknowledged(&step.previous_id),
            _ => {}
        }
    }

    fn answers_what_was_acknowledged(&self, message: &str) {
        let by_packet = message.starts_with('m');
        assert!(
            !by_packet || self.acknowledged.contains(message),
            "{message} is acknowledged before it is answered"
        );
    }

    fn look_at_transcript(&mut self, transcript: &Transcript) {
        let segment = match transcript {
            Transcript::Begin { segment }
            | Transcript::Delta { segment, .. }
            | Transcript::End { segment } => segment,
        };
        // Errors are told so too; they are no answers.
        if segment.starts_with("err_") {
            return;
        }
        let answer = self.answers.entry(segment.clone()).or_default();
        match transcript {
            Transcript::Begin { .. } => assert_eq!(answer.transcribing.replace(true), None, "it begins once"),
            Transcript::Delta { text, .. } => {
                assert!(!text.contains(THOUGHT), "reasoning is never transcribed");
                assert_eq!(answer.transcribing, Some(true), "it has begun and not ended");
                answer.transcript.push_str(text);
            }
            Transcript::End { .. } => {
                assert_eq!(answer.transcribing.replace(false), Some(true), "it ends once");
            }
        }
    }
}
