//! What goes wrong, how often; and how all is well again at the end.

use super::agent::{State, ToAgent};
use super::dice::Dice;
use super::schedule::{Event, Simulation};
use crate::time::Time;
use std::time::Duration;

/// What can go wrong at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Kill,
    PowerLoss,
    Panic,
    Pause,
    StoreFull,
    StoreAway,
    CutOffFromStore,
    AwayFromRoom,
    SecondAgent,
    Retention,
    Leave,
}

const TROUBLES: [Trouble; 11] = [
    Trouble::Kill,
    Trouble::PowerLoss,
    Trouble::Panic,
    Trouble::Pause,
    Trouble::StoreFull,
    Trouble::StoreAway,
    Trouble::CutOffFromStore,
    Trouble::AwayFromRoom,
    Trouble::SecondAgent,
    Trouble::Retention,
    Trouble::Leave,
];

/// What goes wrong in one schedule. Each has a few kinds of trouble, so that none drowns the others.
pub(super) struct Weather {
    troubles: Vec<Trouble>,
    /// The longest time between two.
    pause: u64,
    /// An agent is killed within what it does, once in so many outputs; never, if 0.
    pub(super) kills_within: u64,
    /// The store fails now and then.
    pub(super) hiccups: bool,
    pub(super) clients_go: bool,
}

impl Weather {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let common = dice.between(15, 60);
        Self {
            troubles: TROUBLES.into_iter().filter(|_| dice.percent(common)).collect(),
            pause: dice.pick(&[1_000, 3_000, 8_000]),
            kills_within: dice.pick(&[0, 0, 60, 400]),
            hiccups: dice.percent(30),
            clients_go: dice.percent(70),
        }
    }
}

impl Simulation {
    pub(super) fn change_weather(&mut self) {
        if self.healed.is_some() {
            return;
        }
        let next = self.dice.between(50, self.weather.pause);
        self.after(next, Event::Weather);
        if self.dice.percent(20) {
            self.store.sync();
        }
        if self.weather.troubles.is_empty() {
            return;
        }
        let trouble = self.dice.pick(&self.weather.troubles);
        let live: Vec<usize> = self
            .agents
            .iter()
            .filter(|agent| agent.state == State::Live && agent.paused.is_none())
            .map(|agent| agent.number)
            .collect();
        if !live.is_empty() {
            let agent = self.dice.pick(&live);
            self.strike(trouble, agent);
        }
    }

    fn strike(&mut self, trouble: Trouble, agent: usize) {
        let millis = Duration::from_millis(self.dice.between(100, 9_000));
        match trouble {
            Trouble::Kill => self.kill(agent, "from outside"),
            Trouble::PowerLoss => self.lose_power(),
            Trouble::Panic => self.panic(agent),
            Trouble::Pause => self.pause(agent),
            Trouble::StoreFull => {
                self.tell(|| format!("the store is full for {millis:?}"));
                self.store.full_until = self.now + millis;
            }
            Trouble::StoreAway => {
                self.tell(|| format!("the store is away for {millis:?}"));
                self.store.away_until = self.now + millis;
            }
            Trouble::CutOffFromStore => self.cut_off_from_store(agent),
            Trouble::AwayFromRoom => self.leave_room(agent),
            Trouble::SecondAgent => {
                if !self.agents.iter().any(|agent| agent.state == State::Waiting) {
                    self.start_agent(0, false);
                }
            }
            Trouble::Retention => {
                let count = self.dice.between(0, 20) as usize;
                self.store.forget_but(count);
                self.tell(|| format!("the store forgets all but {count}"));
            }
            Trouble::Leave => {
                self.tell(|| format!("agent {agent} is asked to leave"));
                self.after(0, Event::Agent(agent, ToAgent::Drain));
                let later = self.dice.between(0, 3_000);
                self.after(later, Event::Agent(agent, ToAgent::Leave));
            }
        }
    }

    /// The machine is off: whoever runs on it is gone, and so may be what the disk had not taken in.
    fn lose_power(&mut self) {
        for agent in 0..self.agents.len() {
            self.kill(agent, "by a loss of power");
            self.agents[agent].commits_late = false;
        }
        let dice = &mut self.dice;
        let gone = self.store.lose_power(|most| dice.index(most + 1));
        self.tell(|| format!("{gone} records are lost with the power"));
    }

    /// All is well from now on: one agent, everyone there, everything works.
    pub(super) fn heal(&mut self) {
        self.tell(|| "all is well from here on".to_owned());
        self.healed = Some(self.now);
        self.store.full_until = Time(0);
        self.store.away_until = Time(0);
        for agent in 0..self.agents.len() {
            self.agents[agent].cut_off_until = Time(0);
            self.unpause(agent);
            self.reconnect(agent);
            self.heartbeat(agent);
        }
        if self.agents.iter().all(|agent| agent.state == State::Gone) {
            self.start_agent(0, false);
        }
        for client in 0..self.clients.len() {
            self.resume(client, true);
            self.come(client);
            self.clients[client].begin_anew();
        }
        self.after(1_000, Event::Look);
    }
}
