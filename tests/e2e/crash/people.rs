//! Someone who asks, keeps every stanza, and judges what came of it.

use sotto::client::{Client, ClientOptions, Event};
use sotto_core::wire::{Envelope, body::Body};
use sotto_harness::{PATIENCE, server::Server};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::timeout;

use super::{A_MOMENT, House};

/// What the model says to a question.
pub(super) fn answer_to(question: &str) -> String {
    format!("You asked {question}. Here is what I know. And that is all.")
}

/// A message, and how it ended.
#[derive(Debug, Default)]
struct Asked {
    text: String,
    answered: bool,
    given_up: bool,
}

/// An answer, as far as it came.
#[derive(Debug, Default)]
struct Heard {
    to: String,
    text: String,
    sentences: i32,
    last: bool,
}

pub(super) struct Person {
    name: String,
    client: Client,
    asked: BTreeMap<String, Asked>,
    /// All that ever came, by number.
    stanzas: BTreeMap<i32, Envelope>,
    count: usize,
}

impl Person {
    pub(super) async fn join(server: &Server, room: &str, name: &str) -> Self {
        let token = server.token(room, name);
        let url = server.url();
        let client = timeout(PATIENCE, Client::join(&url, &token, ClientOptions::default()));
        let client = client.await.expect("joining ends").expect("the room can be joined");
        Self { name: name.to_owned(), client, asked: BTreeMap::new(), stanzas: BTreeMap::new(), count: 0 }
    }

    /// Asks something new.
    pub(super) fn asks(&mut self) {
        self.count += 1;
        let text = format!("question {} {}", self.name, self.count);
        let id = self.client.say(&text);
        self.asked.insert(id, Asked { text, ..Asked::default() });
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn answered(&self) -> usize {
        self.asked.values().filter(|asked| asked.answered).count()
    }

    pub(super) fn given_up(&self) -> usize {
        self.asked.values().filter(|asked| asked.given_up).count()
    }

    /// Whether everything it asked has ended.
    pub(super) fn is_served(&self) -> bool {
        self.asked.values().all(|asked| asked.answered || asked.given_up)
    }

    /// Waits until everything it asked has ended.
    pub(super) async fn is_answered(&mut self) {
        while !self.is_served() {
            self.hear().await;
        }
    }

    /// Takes in whatever comes, for ever.
    pub(super) async fn listens(&mut self) {
        loop {
            self.hear().await;
        }
    }

    async fn hear(&mut self) {
        match self.client.next().await {
            Event::Received(envelope) => self.take(*envelope),
            Event::Closed(reason) => panic!("{} is out of the room: {reason}", self.name),
            _ => {}
        }
    }

    fn take(&mut self, envelope: Envelope) {
        if let Body::ErrorMessage(error) = &envelope.body
            && error.code == 501
            && !error.recoverable
            && let Some(asked) = error.originating_id.as_ref().and_then(|id| self.asked.get_mut(id))
        {
            assert!(!asked.answered, "a message ends once");
            asked.given_up = true;
        }
        let known = self.stanzas.insert(envelope.stanza, envelope.clone());
        assert!(known.is_none_or(|known| known == envelope), "a number stands for one stanza");
        let Body::AssistantSentence(sentence) = envelope.body else { return };
        if sentence.is_final == Some(true)
            && let Some(heard) = self.answers().remove(&sentence.previous_id)
            && let Some(asked) = self.asked.get_mut(&heard.to)
            && heard.text == answer_to(&asked.text)
        {
            assert!(!asked.answered && !asked.given_up, "{} is answered once", asked.text);
            asked.answered = true;
        }
    }

    /// All answers, from the stanzas in their order.
    fn answers(&self) -> BTreeMap<String, Heard> {
        let mut answers = BTreeMap::<String, Heard>::new();
        for envelope in self.stanzas.values().rev() {
            match &envelope.body {
                Body::StartAnswer(start) => {
                    let heard = Heard { to: start.previous_id.clone(), ..Heard::default() };
                    assert!(answers.insert(start.id.clone(), heard).is_none(), "an answer starts once");
                }
                Body::AssistantSentence(sentence) => {
                    let Some(heard) = answers.get_mut(&sentence.previous_id) else { continue };
                    assert!(!heard.last, "nothing follows the last sentence");
                    heard.sentences += 1;
                    heard.text.push_str(&sentence.text);
                    heard.last = sentence.is_final == Some(true);
                }
                _ => {}
            }
        }
        answers
    }

    /// Holds everything there was since it came, once an agent is there that is at rest.
    pub(super) async fn has_everything(&mut self, house: &House) {
        let agent = if self.client.agent_is_here() { None } else { Some(house.agent(&[]).await) };
        // What is still on its way, be it sent again, arrives; what must not come has a moment to do so.
        let _ = timeout(PATIENCE, async {
            while !self.client.agent_is_here() || self.lacks().is_some() {
                self.hear().await;
            }
        })
        .await;
        let _ = timeout(A_MOMENT, self.listens()).await;
        drop(agent);
        assert_eq!(self.lacks(), None, "{} has everything", self.name);
    }

    /// What there was and did not come, if anything.
    fn lacks(&self) -> Option<String> {
        let first = self.stanzas.keys().next_back().copied().unwrap_or(0);
        let previous = |envelope: &Envelope| {
            let previous = envelope.meta.get("sotto.prev").and_then(serde_json::Value::as_i64).unwrap_or(0);
            i32::try_from(previous).expect("numbers are small")
        };
        let missing: BTreeSet<_> = self.stanzas.values().map(previous).collect();
        let missing = missing.into_iter().filter(|number| *number != 0 && *number < first);
        let missing: Vec<_> = missing.filter(|number| !self.stanzas.contains_key(number)).collect();
        if !missing.is_empty() {
            return Some(format!("the stanzas {missing:?}"));
        }
        let open = self.answers().into_iter().find(|(_, heard)| !heard.last);
        open.map(|(id, heard)| format!("the end of {id}: {heard:?}"))
    }
}
