//! What people do with their clients: write, stop, ask for other answers, go and come back.

use super::client::{Sent, Written};
use super::model::LASTING;
use super::schedule::{Event, Simulation};
use crate::wire::body::{Body, ControlStop, ControlVariation, StopType, VariationMode};

impl Simulation {
    /// Does something, or nothing.
    pub(super) fn act(&mut self, client: usize) {
        match self.dice.between(0, 99) {
            0..=34 => self.write(client),
            35..=42 => {
                let target_id = self.dice.percent(40).then(|| self.some_id(client)).flatten();
                let stop_type = self.dice.pick(&[StopType::Generation, StopType::All]);
                let written = &self.clients[client].written;
                let done =
                    |target: &&String| written.iter().any(|one| one.id == **target && one.acknowledged);
                let sent = Sent::Stop(target_id.as_ref().filter(done).cloned());
                let stop = ControlStop { conversation_id: String::new(), target_id, reason: None, stop_type };
                self.client_sends(client, Body::ControlStop(stop), sent);
            }
            43..=54 => {
                let Some(target_id) = self.some_id(client) else { return };
                let mode = self.dice.pick(&[
                    VariationMode::Regenerate,
                    VariationMode::Edit,
                    VariationMode::Continue,
                ]);
                let new_content = (mode == VariationMode::Edit).then(|| self.question("edited"));
                let target = target_id.clone();
                let variation =
                    ControlVariation { conversation_id: String::new(), target_id, mode, new_content };
                self.client_sends(client, Body::ControlVariation(variation), Sent::Variation(target));
            }
            55..=58 if self.weather.clients_go => self.go(client),
            59..=62 if self.weather.clients_go => {
                self.clients[client].deaf = true;
                self.tell_of(client, "loses its connection");
                let (millis, noticed) = (self.dice.between(10, 5_000), self.dice.percent(70));
                self.after(millis, Event::Resume { client, noticed });
            }
            // Asks although nothing is missing, as far as it knows.
            63..=64 if self.clients[client].asks && self.clients[client].agent.is_some() => self.ask(client),
            _ => {}
        }
    }

    /// A message or answer that the client may know of.
    fn some_id(&mut self, client: usize) -> Option<String> {
        let one = &self.clients[client];
        let mut ids: Vec<String> = one.written.iter().map(|written| written.id.clone()).collect();
        ids.extend(one.answers.iter().cloned());
        (!ids.is_empty()).then(|| self.dice.pick(&ids))
    }

    fn question(&mut self, what: &str) -> String {
        let tool = self.dice.pick(&LASTING);
        if self.dice.percent(45) { format!("{what}: {tool} it") } else { format!("{what}?") }
    }

    fn write(&mut self, client: usize) {
        let (name, count) = (&self.clients[client].name, self.clients[client].written.len());
        let id = format!("{name}{count}");
        let content = self.question(&id);
        let place = self.clients[client].written.len();
        self.clients[client].written.push(Written { id, content, sent: self.now, acknowledged: false });
        self.send_message(client, place);
    }
}
