//! One schedule: everything that exists, the time, and what is to happen when. Whatever happens in it follows from its
//! seed.

use super::agent::{Agent, Job, State, ToAgent};
use super::client::Client;
use super::dice::Dice;
use super::hooks::{self, HOOKED, Passed};
use super::model::{self, Model};
use super::store::{Fault, Store};
use super::weather::Weather;
use crate::engine::event::{Output, Recipients};
use crate::engine::settings::{Interruption, Settings, Visibility};
use crate::time::Time;
use crate::wire::body::Body;
use crate::wire::{self, Envelope};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const START: Time = Time(1_794_823_200_000);
/// When everything heals, at the latest, and how long it may take to settle then.
const STORMY: u64 = 40_000;
const SETTLING: Duration = Duration::from_secs(300);

/// Something that will happen.
pub(super) enum Event {
    /// To an agent; kept for it while it is paused.
    Agent(usize, ToAgent),
    /// The store gets to something that an agent asked of it.
    Commit(usize, Job),
    /// An agent tries to take the conversation.
    Open(usize),
    Unpause(usize),
    /// An agent finds out whether the conversation is still its own.
    Heartbeat(usize),
    /// An agent has its connection to the room back.
    Reconnect(usize),
    /// A packet reaches a client, in the session that it was sent to.
    Packet {
        client: usize,
        session: u32,
        agent: usize,
        packet: Rc<Packet>,
    },
    /// A client sees that an agent has come.
    AgentCame {
        client: usize,
        session: u32,
        agent: usize,
    },
    /// A client looks after what it owes and is owed, and may do something.
    Tick(usize),
    /// A client's connection works again; it may not have noticed that it did not.
    Resume {
        client: usize,
        noticed: bool,
    },
    Return(usize),
    /// A client says what it was asked; the call that it allows, if it does.
    Reply {
        client: usize,
        session: u32,
        body: Body,
        leave: Option<u64>,
    },
    Weather,
    Heal,
    /// Is everything settled?
    Look,
}

/// A packet of an agent.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) envelope: Envelope,
    /// The number that it names as the one before it, where it may be asked for again.
    pub(super) previous: Option<i32>,
}

/// What a number stands for: its bytes, which agent gave it, and when; and when that one first sent it.
struct Number {
    bytes: Vec<u8>,
    by: usize,
    given: Time,
    sent: Option<Time>,
}

pub(super) struct Simulation {
    pub(super) now: Time,
    pub(super) dice: Dice,
    queue: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    /// The latest that something arrives on each way, so that nothing overtakes.
    ways: BTreeMap<(usize, usize, bool), Time>,
    pub(super) store: Store,
    pub(super) agents: Vec<Agent>,
    pub(super) clients: Vec<Client>,
    pub(super) model: Model,
    pub(super) passed: Passed,
    pub(super) settings: Settings,
    pub(super) weather: Weather,
    numbers: BTreeMap<i32, Number>,
    /// When all was well again.
    pub(super) healed: Option<Time>,
    calm: u32,
    /// The first rule that was broken.
    broken: Option<String>,
    story: Option<Vec<String>>,
}

/// How a schedule went.
pub(super) struct Outcome {
    pub(super) broken: Option<String>,
    pub(super) story: Vec<String>,
    pub(super) figures: Figures,
}

/// What happened in schedules, to see that they are not empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) messages: usize,
    pub(super) agents: usize,
    pub(super) stanzas: usize,
    pub(super) broken_off: usize,
    pub(super) runs: usize,
    pub(super) runs_by_clients: usize,
    pub(super) allowed: usize,
    pub(super) lost_with_power: usize,
    pub(super) snapshots: usize,
}

impl std::ops::Add for Figures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            agents: self.agents + other.agents,
            stanzas: self.stanzas + other.stanzas,
            broken_off: self.broken_off + other.broken_off,
            runs: self.runs + other.runs,
            runs_by_clients: self.runs_by_clients + other.runs_by_clients,
            allowed: self.allowed + other.allowed,
            lost_with_power: self.lost_with_power + other.lost_with_power,
            snapshots: self.snapshots + other.snapshots,
        }
    }
}

/// Plays the schedule of a seed.
pub(super) fn play(seed: u64, fault: Fault, telling: bool) -> Outcome {
    let mut simulation = Simulation::new(seed, fault, telling);
    simulation.run();
    if simulation.broken.is_none() {
        simulation.broken = simulation.check().err();
    }
    let figures = simulation.figures();
    Outcome { broken: simulation.broken, story: simulation.story.unwrap_or_default(), figures }
}

impl Simulation {
    fn new(seed: u64, fault: Fault, telling: bool) -> Self {
        let mut dice = Dice::new(seed);
        let mut settings = settings(&mut dice);
        if seed >= HOOKED {
            settings.hooks = hooks::hooks(&mut dice);
        }
        let weather = Weather::new(&mut dice);
        let mut simulation = Self {
            now: START,
            queue: BTreeMap::new(),
            scheduled: 0,
            ways: BTreeMap::new(),
            store: Store::new(fault),
            agents: Vec::new(),
            clients: Vec::new(),
            model: Model::default(),
            passed: Passed::default(),
            settings,
            weather,
            numbers: BTreeMap::new(),
            healed: None,
            calm: 0,
            broken: None,
            story: telling.then(Vec::new),
            dice,
        };
        for name in ["anna", "bob", "carl", "dora"].into_iter().take(simulation.dice.between(1, 4) as usize) {
            let place = simulation.clients.len();
            simulation.clients.push(Client::new(name, &mut simulation.dice));
            let coming = simulation.dice.between(0, 12_000);
            simulation.after(if place == 0 { 0 } else { coming }, Event::Return(place));
            simulation.after(coming, Event::Tick(place));
        }
        simulation.start_agent(0, false);
        simulation.after(500, Event::Weather);
        let storm = simulation.dice.between(STORMY / 4, STORMY);
        simulation.after(storm, Event::Heal);
        simulation
    }

    fn run(&mut self) {
        while self.broken.is_none()
            && let Some(((at, _), event)) = self.queue.pop_first()
        {
            self.now = at;
            match event {
                Event::Agent(agent, what) => self.arrives(agent, what),
                Event::Commit(agent, job) => self.commit(agent, job),
                Event::Open(agent) => self.open(agent),
                Event::Unpause(agent) => self.unpause(agent),
                Event::Heartbeat(agent) => self.heartbeat(agent),
                Event::Reconnect(agent) => self.reconnect(agent),
                Event::Packet { client, session, agent, packet } => {
                    self.packet(client, session, agent, &packet);
                }
                Event::AgentCame { client, session, agent } => self.agent_came(client, session, agent),
                Event::Tick(client) => self.tick(client),
                Event::Resume { client, noticed } => self.resume(client, noticed),
                Event::Return(client) => self.come(client),
                Event::Reply { client, session, body, leave } => self.replies(client, session, body, leave),
                Event::Weather => self.change_weather(),
                Event::Heal => self.heal(),
                Event::Look => {
                    if self.is_over() {
                        return;
                    }
                }
            }
        }
    }

    /// Whether nothing is under way any more, and has not been for a while.
    fn is_over(&mut self) -> bool {
        let unsettled = self.unsettled();
        self.calm = if unsettled.is_none() { self.calm + 1 } else { 0 };
        if self.calm > 3 {
            return true;
        }
        if let Some(why) = unsettled
            && self.healed.is_some_and(|healed| self.now > healed + SETTLING)
        {
            self.breaks(format!("does not settle: {why}"));
        }
        self.after(2_000, Event::Look);
        false
    }

    fn unsettled(&self) -> Option<String> {
        let on_its_way = |event: &Event| matches!(event, Event::Packet { .. } | Event::Commit(..));
        if self.queue.values().any(on_its_way) {
            return Some("something is on its way".to_owned());
        }
        let live: Vec<&Agent> = self.agents.iter().filter(|agent| agent.state == State::Live).collect();
        match live.as_slice() {
            [agent] => {
                if let Some(why) = agent.busy_with() {
                    return Some(format!("agent {} {why}", agent.number));
                }
            }
            live => return Some(format!("{} agents", live.len())),
        }
        self.clients.iter().find_map(|client| Some(format!("{} {}", client.name, client.waits_for()?)))
    }

    /// Something happens so many milliseconds from now.
    pub(super) fn after(&mut self, millis: u64, event: Event) {
        self.at(self.now + Duration::from_millis(millis), event);
    }

    pub(super) fn at(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.queue.insert((at, self.scheduled), event);
    }

    /// The same over a way on which nothing overtakes: between an agent and a client, to the agent or to the client.
    pub(super) fn along(&mut self, agent: usize, client: usize, to_agent: bool, event: Event) {
        let delay =
            if self.dice.percent(2) { self.dice.between(100, 1_500) } else { self.dice.between(1, 40) };
        let arrival = self.ways.entry((agent, client, to_agent)).or_default();
        *arrival = (*arrival).max(self.now + Duration::from_millis(delay));
        let arrival = *arrival;
        self.at(arrival, event);
    }

    /// An agent sends something.
    pub(super) fn send(&mut self, agent: usize, to: &Recipients, bytes: Vec<u8>) {
        let envelope = match wire::decode(&bytes, &wire::Limits::default()) {
            Ok(envelope) => envelope,
            Err(malformed) => {
                return self.breaks(format!("an agent sends what is no message: {malformed:?}"));
            }
        };
        let number = envelope.stanza;
        let previous =
            envelope.meta.get("sotto.prev").and_then(|previous| previous.as_i64()?.try_into().ok());
        self.look_at_number(agent, number, &bytes, true);
        if previous.is_some() && !self.store.has(number) {
            self.breaks(format!("{number} is sent and the store does not have it"));
        }
        self.tell(|| format!("agent {agent} sends {to:?} {}", brief(&envelope)));
        let packet = Rc::new(Packet { bytes, envelope, previous });
        for client in 0..self.clients.len() {
            let Client { present, session, name, .. } = &self.clients[client];
            let session = *session;
            let me = &self.agents[agent];
            // What an agent owes to a session that it does not know to be over reaches no other: clients that count from 1
            // again could not tell whose acknowledgement it is.
            let meant = match to {
                Recipients::Everyone => true,
                Recipients::Only(identities) => {
                    identities.iter().any(|identity| identity == name)
                        && me.sessions.get(&client) == Some(&session)
                }
            };
            if *present && meant && !me.away_from_room {
                let (asked, sent) = self.agents[agent].sent.entry(client).or_default();
                // Whoever has asked twice may be told twice.
                if previous.is_some() && !sent.insert(number) && *asked == 1 {
                    let name = self.clients[client].name;
                    self.breaks(format!("agent {agent} sends {number} to {name} twice"));
                }
                let packet = Rc::clone(&packet);
                self.along(agent, client, false, Event::Packet { client, session, agent, packet });
            }
        }
    }

    /// Whatever is sent or stored under a number is the same each time.
    pub(super) fn look_at_number(&mut self, agent: usize, number: i32, bytes: &[u8], sent: bool) {
        let now = self.now;
        let given = || Number { bytes: bytes.to_vec(), by: agent, given: now, sent: None };
        let known = self.numbers.entry(number).or_insert_with(given);
        if sent && known.by == agent {
            known.sent.get_or_insert(now);
        }
        if known.bytes != bytes {
            self.breaks(format!("number {number} stands for two different stanzas"));
        }
    }

    /// Whether what an agent sends was said before this time. What waits for the store is said once it is sent, by the one who
    /// says it; others may have found it in the store meanwhile.
    pub(super) fn was_said_before(&self, number: i32, agent: usize, time: Option<Time>) -> bool {
        let Some(known) = self.numbers.get(&number) else { return false };
        if known.by == agent { known.sent < time } else { Some(known.given) < time }
    }

    /// A rule is broken; the first one counts.
    pub(super) fn breaks(&mut self, rule: String) {
        self.tell(|| format!("BROKEN: {rule}"));
        self.broken.get_or_insert(rule);
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>7} {}", self.now.0 - START.0, line()));
        }
    }
}

/// One of the many ways in which a conversation may be held.
fn settings(dice: &mut Dice) -> Settings {
    let mut settings = Settings {
        conversation: "room".to_owned(),
        tools: model::tools(),
        tool_timeout: Duration::from_secs(2),
        consent_timeout: Duration::from_secs(5),
        step_chars: 20,
        share_history: dice.percent(10),
        keep_reasoning: !dice.percent(10),
        return_timeout: Duration::from_secs(if dice.percent(20) { 0 } else { 3 }),
        greeting: dice.percent(30).then(|| "Welcome. Ask.".to_owned()),
        ..Settings::default()
    };
    if dice.percent(40) {
        settings.interruption = Interruption::Queue;
    }
    if dice.percent(20) {
        settings.visibility = Visibility::Hidden;
    }
    if dice.percent(20) {
        settings.limits.waiting = 2;
    }
    settings
}

/// A message in a few words.
pub(super) fn brief(envelope: &Envelope) -> String {
    let number = envelope.stanza;
    let previous = envelope.meta.get("sotto.prev").map(|previous| format!("<{previous}")).unwrap_or_default();
    let body = match &envelope.body {
        Body::Acknowledgement(ack) => format!("ack {} {}", ack.acknowledged_stanza_id, ack.success),
        Body::StartAnswer(start) => format!("start {} to {:?}", start.id, start.previous_id),
        Body::AssistantSentence(sentence) => {
            let last = if sentence.is_final == Some(true) { " final" } else { "" };
            format!("sentence {}{last} of {}: {:?}", sentence.sequence, sentence.previous_id, sentence.text)
        }
        Body::AssistantMessage(whole) => {
            format!("whole {} to {}: {:?}", whole.id, whole.previous_id, whole.content)
        }
        Body::ErrorMessage(error) => {
            format!("error {} about {:?}: {}", error.code, error.originating_id, error.message)
        }
        Body::ReasoningStep(step) => {
            format!("step {} of {}: {:?}", step.step_index, step.previous_id, step.content)
        }
        Body::UserMessage(message) => format!("message {}: {:?}", message.id, message.content),
        Body::Configuration(wants) => {
            format!("configuration {:?}, seen {:?}", wants.features, wants.last_sequence_seen)
        }
        Body::ToolUseRequest(request) => {
            format!("tool {} {} {:?}", request.id, request.tool_name, request.parameters)
        }
        Body::ToolUseResult(result) => format!("result of {}: {}", result.request_id, result.success),
        Body::TurnMeta(meta) => format!("figures of {}", meta.message_id),
        other => format!("{other:?}"),
    };
    format!("{number}{previous}: {body}")
}

/// An output in a few words, where it says something.
pub(super) fn brief_output(output: &Output) -> Option<String> {
    Some(match output {
        Output::Generate { request, .. } => format!("asks {}", request.0),
        Output::CancelGenerate(request) => format!("cancels {}", request.0),
        Output::RunTool { run, name, arguments, .. } => format!("runs {} {name} {arguments:?}", run.0),
        Output::CancelTool(run) => format!("cancels run {}", run.0),
        Output::Replay { ticket, after, until, .. } => {
            format!("reads {} after {after} until {until}", ticket.0)
        }
        Output::TurnEnded(report) => format!("ends {}: {:?}", report.message, report.end),
        _ => return None,
    })
}
