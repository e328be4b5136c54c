//! People's clients, as PROTOCOL.md wants them: they send again what is not acknowledged, see from `sotto.prev` that
//! something is missing and ask for it, and come back after having been away. What they get is judged as it comes.

use super::agent::{State, ToAgent};
use super::dice::Dice;
use super::schedule::{Event, Packet, Simulation};
use crate::engine::people::Audience;
use crate::engine::record::Stanza;
use crate::engine::settings::Visibility;
use crate::time::Time;
use crate::wire::Envelope;
use crate::wire::body::{Acknowledgement, Body, Configuration, ErrorMessage, Execution, UserMessage};
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// How often something that is missing is asked for before it is taken to be not for this client.
const TRIES: u32 = 3;
/// How long an answer to a question is waited for.
const PATIENCE: Duration = Duration::from_millis(3_500);

/// What a client's stanza was.
pub(super) enum Sent {
    Message(usize),
    Variation(String),
    /// What was to be stopped, by its name.
    Stop(Option<String>),
    /// Leave to run a tool, by the request that it is about.
    Leave(String),
    Other,
}

/// A message that was written, and sent until it is acknowledged.
pub(super) struct Written {
    pub(super) id: String,
    pub(super) content: String,
    pub(super) sent: Time,
    pub(super) acknowledged: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(super) struct Client {
    pub(super) name: &'static str,
    /// What its Configuration lists; none where it lists nothing.
    features: Option<Vec<&'static str>>,
    /// Whether it sends a Configuration at all.
    pub(super) asks: bool,
    /// Each of its sessions counts from 1, like a page that is loaded again.
    counts_anew: bool,
    pub(super) present: bool,
    pub(super) session: u32,
    pub(super) first_joined: Option<Time>,
    stanza: i32,
    sent: BTreeMap<i32, Sent>,
    pub(super) written: Vec<Written>,
    /// Stanzas that may be asked for again.
    pub(super) held: BTreeMap<i32, Rc<Packet>>,
    /// The agent that came last.
    pub(super) agent: Option<usize>,
    /// That agent knows its features and what it has seen.
    configured: bool,
    /// What it says it has seen, until it is configured.
    seen: i32,
    asked: Option<Time>,
    /// Under which number it asked last, and whether that is acknowledged: an earlier question's answer may still be on its way.
    asked_as: i32,
    heard: bool,
    /// The last that came in order since its Configuration was answered.
    in_order: Option<i32>,
    /// It has got everything since then, so whatever comes must be in order.
    undisturbed: bool,
    tries: BTreeMap<i32, u32>,
    /// The number under which it was told that something is no longer kept.
    pub(super) told_gone: i32,
    /// It has lost packets and does not know.
    pub(super) unaware: bool,
    /// Nothing reaches it, nor the agent from it.
    pub(super) deaf: bool,
    pub(super) answers: BTreeSet<String>,
    /// What it was asked to allow, and whether it does; and the leave that was acknowledged.
    pub(super) decided: BTreeMap<String, bool>,
    pub(super) given: Vec<String>,
    /// The tools that it has run, by their requests, and whether that went well.
    pub(super) ran: BTreeMap<String, bool>,
    /// Variations that were acknowledged, by their targets.
    pub(super) varied: Vec<String>,
    /// Messages of its own that it was told are over, stopped or failed, and when.
    pub(super) over: Vec<(String, Time)>,
}

impl Client {
    pub(super) fn new(name: &'static str, dice: &mut Dice) -> Self {
        let asks = dice.percent(90);
        let features = match dice.between(0, 7) {
            _ if !asks => None,
            0 => Some(vec!["streaming", "turn_meta"]),
            1 => Some(vec!["streaming", "reasoning_deltas"]),
            2 => Some(vec!["turn_meta"]),
            3 => Some(vec![]),
            4 => Some(vec!["streaming", "tool_consent", "turn_meta"]),
            5 => Some(vec!["tool_consent"]),
            _ => None,
        };
        Self {
            name,
            features,
            asks,
            counts_anew: dice.percent(30),
            present: false,
            session: 0,
            first_joined: None,
            stanza: 0,
            sent: BTreeMap::new(),
            written: Vec::new(),
            held: BTreeMap::new(),
            agent: None,
            configured: false,
            seen: 0,
            asked: None,
            asked_as: 0,
            heard: false,
            in_order: None,
            undisturbed: false,
            tries: BTreeMap::new(),
            told_gone: 0,
            unaware: false,
            deaf: false,
            answers: BTreeSet::new(),
            decided: BTreeMap::new(),
            given: Vec::new(),
            ran: BTreeMap::new(),
            varied: Vec::new(),
            over: Vec::new(),
        }
    }

    pub(super) fn lists(&self, feature: &str) -> bool {
        self.features.as_ref().is_some_and(|features| features.contains(&feature))
    }

    pub(super) fn streams(&self) -> bool {
        self.features.is_none() || self.lists("streaming")
    }

    /// Whether it takes such a stanza, once the agent knows its features.
    fn takes(&self, body: &Body) -> bool {
        match body {
            Body::StartAnswer(_) | Body::AssistantSentence(_) => self.streams(),
            Body::AssistantMessage(_) => !self.streams(),
            Body::TurnMeta(_) => self.lists("turn_meta"),
            _ => true,
        }
    }

    /// The stanzas that others name as the ones before them, and that are not there.
    fn missing(&self) -> Vec<i32> {
        let mine = self.held.values().filter(|packet| self.takes(&packet.envelope.body));
        mine.filter_map(|packet| packet.previous)
            .filter(|previous| *previous != 0 && !self.held.contains_key(previous))
            .filter(|previous| self.told_gone == 0 || *previous < self.told_gone)
            .filter(|previous| self.tries.get(previous).is_none_or(|&tries| tries < TRIES))
            .collect()
    }

    /// The last number up to which nothing is missing. What came before its Configuration was answered does not count:
    /// something that only its features let it have may have been left out in between.
    fn complete_to(&self) -> i32 {
        let last = self.in_order.filter(|&last| last != 0 && self.configured).unwrap_or(self.seen);
        let oldest_missing = self.missing().into_iter().max().unwrap_or(i32::MIN);
        let complete = |number: &i32| *number > oldest_missing && *number >= last;
        self.held.keys().copied().find(complete).unwrap_or(0)
    }

    /// Something may be missed from here on that it cannot see: it remembers what it had.
    pub(super) fn begin_anew(&mut self) {
        self.seen = self.complete_to();
        self.configured = false;
        self.asked = None;
        self.in_order = None;
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        if !self.present {
            return Some("is not there".to_owned());
        }
        if let Some(message) = self.written.iter().find(|message| !message.acknowledged) {
            return Some(format!("waits for {} to be acknowledged", message.id));
        }
        if self.asks && !self.configured {
            return Some("waits for its Configuration to be answered".to_owned());
        }
        let missing = self.missing();
        (self.asks && !missing.is_empty()).then(|| format!("misses {missing:?}"))
    }
}

impl Simulation {
    pub(super) fn tell_of(&mut self, client: usize, what: &str) {
        let name = self.clients[client].name;
        self.tell(|| format!("{name} {what}"));
    }

    pub(super) fn come(&mut self, client: usize) {
        let now = self.now;
        let one = &mut self.clients[client];
        if one.present {
            return;
        }
        one.present = true;
        one.deaf = false;
        one.session += 1;
        one.first_joined.get_or_insert(now);
        one.begin_anew();
        one.sent.clear();
        if one.counts_anew {
            one.stanza = 0;
        }
        self.tell_of(client, "comes");
        let live = |agent: &&super::agent::Agent| agent.state == State::Live && !agent.away_from_room;
        let agents: Vec<usize> = self.agents.iter().filter(live).map(|agent| agent.number).collect();
        self.clients[client].agent = agents.iter().copied().max_by_key(|&agent| self.agents[agent].fence);
        for agent in agents {
            self.tell_agent_of(agent, client);
        }
    }

    pub(super) fn go(&mut self, client: usize) {
        let one = &mut self.clients[client];
        if !std::mem::take(&mut one.present) {
            return;
        }
        one.begin_anew();
        self.tell_of(client, "goes");
        for agent in 0..self.agents.len() {
            if self.agents[agent].state == State::Live {
                self.along(agent, client, true, Event::Agent(agent, ToAgent::Left { client }));
            }
        }
        let away = self.dice.between(10, 8_000);
        self.after(away, Event::Return(client));
    }

    /// Its connection works again.
    pub(super) fn resume(&mut self, client: usize, noticed: bool) {
        let one = &mut self.clients[client];
        if !std::mem::take(&mut one.deaf) {
            return;
        }
        if noticed {
            one.begin_anew();
        } else {
            one.unaware = true;
            one.undisturbed = false;
        }
        self.tell_of(
            client,
            if noticed { "is connected again" } else { "is connected again and has not noticed" },
        );
    }

    pub(super) fn agent_came(&mut self, client: usize, session: u32, agent: usize) {
        let one = &mut self.clients[client];
        let fence = |agent: usize| self.agents[agent].fence;
        // Also one that lost packets learns of it, late.
        if one.present && one.session == session && one.agent.is_none_or(|known| fence(known) <= fence(agent))
        {
            one.begin_anew();
            one.agent = Some(agent);
        }
    }

    pub(super) fn client_sends(&mut self, client: usize, body: Body, as_what: Sent) {
        let one = &mut self.clients[client];
        one.stanza += 1;
        let (stanza, session) = (one.stanza, one.session);
        one.sent.insert(stanza, as_what);
        if one.deaf {
            return;
        }
        let envelope = Envelope { stanza, conversation: None, meta: Map::new(), body };
        for agent in 0..self.agents.len() {
            if self.agents[agent].state == State::Live {
                let envelope = envelope.clone();
                self.along(
                    agent,
                    client,
                    true,
                    Event::Agent(agent, ToAgent::Packet { client, session, envelope }),
                );
            }
        }
    }

    /// Sends its Configuration, with what it has seen.
    pub(super) fn ask(&mut self, client: usize) {
        let now = self.now;
        let one = &mut self.clients[client];
        let missing = one.missing();
        one.seen = one.complete_to();
        // What is still missing although it was answered may be from before its time, or lost with the power.
        if std::mem::take(&mut one.configured) {
            for number in missing {
                *one.tries.entry(number).or_default() += 1;
            }
        }
        one.asked = Some(now);
        let features =
            one.features.as_ref().map(|list| list.iter().map(|&feature| feature.to_owned()).collect());
        let wants =
            Configuration { last_sequence_seen: Some(one.seen), features, ..Configuration::default() };
        self.client_sends(client, Body::Configuration(wants), Sent::Other);
        let one = &mut self.clients[client];
        (one.asked_as, one.heard) = (one.stanza, false);
    }

    pub(super) fn tick(&mut self, client: usize) {
        let next = self.dice.between(300, 2_000);
        self.after(next, Event::Tick(client));
        let now = self.now;
        let one = &self.clients[client];
        if !one.present {
            return;
        }
        let may_ask = one.asked.is_none_or(|asked| now > asked + PATIENCE);
        if one.asks && one.agent.is_some() && may_ask && (!one.configured || !one.missing().is_empty()) {
            self.ask(client);
        }
        for place in 0..self.clients[client].written.len() {
            let written = &self.clients[client].written[place];
            if !written.acknowledged && now > written.sent + PATIENCE {
                self.send_message(client, place);
            }
        }
        if self.healed.is_none() {
            self.act(client);
        }
    }

    pub(super) fn send_message(&mut self, client: usize, place: usize) {
        let written = &mut self.clients[client].written[place];
        written.sent = self.now;
        let message = UserMessage {
            id: written.id.clone(),
            previous_id: None,
            conversation_id: String::new(),
            content: written.content.clone(),
            timestamp: None,
            attachments: None,
        };
        self.tell_of(client, &format!("sends {}", message.id));
        self.client_sends(client, Body::UserMessage(message), Sent::Message(place));
    }

    pub(super) fn packet(&mut self, client: usize, session: u32, agent: usize, packet: &Rc<Packet>) {
        let one = &self.clients[client];
        if !one.present || one.session != session || one.deaf || !self.agents[agent].is_heard(self.now) {
            return;
        }
        let from_the_newest = one.agent == Some(agent);
        self.look_at_packet(client, agent, packet);
        let one = &mut self.clients[client];
        let number = packet.envelope.stanza;
        if packet.previous.is_some() {
            one.held.insert(number, Rc::clone(packet));
        }
        match &packet.envelope.body {
            Body::Acknowledgement(ack) => {
                one.heard |= from_the_newest && ack.acknowledged_stanza_id == one.asked_as;
                self.acknowledged(client, ack);
            }
            Body::Configuration(_) if from_the_newest && one.asked.is_some() => {
                one.configured = one.heard;
                one.in_order = Some(0);
                one.undisturbed = true;
            }
            Body::ErrorMessage(error) => self.was_told(client, number, agent, error),
            Body::ToolConsentRequest(request) => self.asked_for_leave(client, request),
            Body::ToolUseRequest(request) if request.execution != Execution::Server => {
                self.asked_to_run(client, request);
            }
            Body::StartAnswer(start) => _ = one.answers.insert(start.id.clone()),
            Body::AssistantMessage(whole) => _ = one.answers.insert(whole.id.clone()),
            _ => {}
        }
    }

    fn acknowledged(&mut self, client: usize, ack: &Acknowledgement) {
        let one = &mut self.clients[client];
        match (one.sent.get(&ack.acknowledged_stanza_id), ack.success) {
            (Some(&Sent::Message(place)), true) => one.written[place].acknowledged = true,
            (Some(&Sent::Message(place)), false) => {
                let id = one.written[place].id.clone();
                self.breaks(format!("{id} is refused for good"));
            }
            (Some(Sent::Leave(request)), true) => one.given.push(request.clone()),
            (Some(Sent::Variation(target)), true) => one.varied.push(target.clone()),
            (Some(Sent::Stop(Some(target))), true) => one.over.push((target.clone(), self.now)),
            _ => {}
        }
    }

    fn was_told(&mut self, client: usize, number: i32, agent: usize, error: &ErrorMessage) {
        let (now, counts) = (self.now, self.agents[agent].fence == self.store.fence);
        let forgetful = self.store.dropped < 0;
        let one = &mut self.clients[client];
        if let Some(message) = &error.originating_id {
            if error.code == 503 && counts {
                one.over.push((message.clone(), now));
            }
            return;
        }
        // What an agent says that has lost the conversation and does not know it yet does not count.
        if one.agent != Some(agent) || !counts {
            return;
        }
        match error.code {
            202 => {
                one.told_gone = number;
                if !forgetful {
                    self.breaks(format!("202 ({number}), and everything is kept"));
                }
            }
            // What it asked for it has not got: it asks for the same again.
            429 | 501 => one.configured = false,
            _ => {}
        }
    }

    /// What a client may get, and in which order.
    fn look_at_packet(&mut self, client: usize, agent: usize, packet: &Packet) {
        let one = &mut self.clients[client];
        let from_the_newest = one.agent == Some(agent);
        let number = packet.envelope.stanza;
        let name = one.name;
        if packet.previous.is_none() {
            return;
        }
        // Once its features are known, only what it takes, and each thing after what was before it.
        if from_the_newest && let Some(last) = one.in_order {
            let takes = one.takes(&packet.envelope.body);
            one.in_order = Some(number);
            if number >= last && last != 0 && one.undisturbed {
                return self.breaks(format!("{name} gets {number} after {last}"));
            }
            if !takes && one.configured {
                return self.breaks(format!("{name} gets {number}, which is not what its features want"));
            }
        }
        let hidden = self.settings.visibility == Visibility::Hidden;
        let reasoning = matches!(
            packet.envelope.body,
            Body::ReasoningStep(_)
                | Body::ReasoningDelta(_)
                | Body::ToolUseRequest(_)
                | Body::ToolUseResult(_)
        );
        // Whoever is to run a tool is told when that is over.
        let own = |stanza: &Stanza| {
            stanza.number == number && matches!(&stanza.audience, Audience::One(one) if one == name)
        };
        if hidden && reasoning && !self.store.stanzas().any(own) {
            return self.breaks(format!("{name} gets {number}, which is hidden"));
        }
        let first_joined = self.clients[client].first_joined;
        if !self.settings.share_history && self.was_said_before(number, agent, first_joined) {
            self.breaks(format!("{name} gets {number}, from before it first joined"));
        }
    }
}
