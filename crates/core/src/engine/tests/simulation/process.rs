//! How agents come and go: they take the conversation, are killed, pause and wake up, lose the store or the room from
//! sight, and find out that another has the conversation.

use super::agent::{Agent, Run, State, ToAgent};
use super::schedule::{Event, Simulation};
use super::store::Fault;
use crate::engine::Engine;
use crate::engine::event::Input;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How long the conversation stays with an agent that is not heard of.
const LEASE: Duration = Duration::from_secs(3);

impl Simulation {
    /// Another process begins, and wants the conversation.
    pub(super) fn start_agent(&mut self, in_millis: u64, after_panic: bool) {
        let number = self.agents.len();
        self.agents.push(Agent::new(number, after_panic));
        self.after(in_millis, Event::Open(number));
    }

    /// Whether nobody has the conversation, as far as the store can know.
    fn is_free(&self) -> bool {
        let holder = self.agents.iter().find(|agent| agent.fence == self.store.fence && agent.fence > 0);
        holder.is_none_or(|holder| holder.unheard_since.is_some_and(|since| self.now > since + LEASE))
    }

    pub(super) fn open(&mut self, agent: usize) {
        if self.agents[agent].state != State::Waiting {
            return;
        }
        let away = self.store.away_until > self.now || self.store.full_until > self.now;
        if away || !self.is_free() {
            let again = self.dice.between(200, 800);
            return self.after(again, Event::Open(agent));
        }
        let block = if self.dice.percent(15) { self.dice.between(2, 40) as i32 } else { 1_024 };
        let (fence, history) = self.store.open(block);
        self.tell(|| format!("agent {agent} has the conversation, from {} on", history.number));
        let mut engine = Engine::restore(self.settings.clone(), self.dice.seed(), self.now, history);
        if self.agents[agent].after_panic {
            engine.give_up("The agent has met a fault of its own.");
        }
        if self.store.fault == Fault::ToolsRunAgain {
            let cut_short: Vec<Run> = self
                .agents
                .iter_mut()
                .flat_map(|agent| std::mem::take(&mut agent.runs).into_values())
                .collect();
            for run in cut_short {
                self.model.run(&run.name, &run.arguments, &run.message);
            }
        }
        let me = &mut self.agents[agent];
        me.engine = Some(engine);
        me.fence = fence;
        me.state = State::Live;
        self.announce_agent(agent);
        self.handle(agent, Input::Wake);
        for client in 0..self.clients.len() {
            if self.clients[client].present {
                self.tell_agent_of(agent, client);
            }
        }
    }

    /// Those in the room see that an agent has come.
    fn announce_agent(&mut self, agent: usize) {
        for client in 0..self.clients.len() {
            let session = self.clients[client].session;
            if self.clients[client].present {
                self.along(agent, client, false, Event::AgentCame { client, session, agent });
            }
        }
    }

    /// An agent is told that someone is there.
    pub(super) fn tell_agent_of(&mut self, agent: usize, client: usize) {
        let session = self.clients[client].session;
        let joined = Event::Agent(agent, ToAgent::Joined { client, session });
        if self.dice.percent(20) {
            // Announced late, after it may have spoken.
            let late = self.dice.between(100, 3_000);
            self.after(late, joined);
        } else {
            self.along(agent, client, true, joined);
        }
    }

    /// The process is gone at once, with all that was on its way. Another one begins after a while.
    pub(super) fn kill(&mut self, agent: usize, how: &str) {
        if self.agents[agent].state == State::Gone {
            return;
        }
        self.tell(|| format!("agent {agent} is killed {how}"));
        self.end(agent);
        let (commits_late, same_host) = (self.dice.percent(50), self.dice.percent(50));
        self.agents[agent].commits_late = commits_late;
        if same_host {
            // That it is gone is seen at once.
            self.agents[agent].unheard_since = Some(Time(0));
        }
        self.start_another();
    }

    fn end(&mut self, agent: usize) {
        let still_on_its_way = Duration::from_millis(self.dice.between(0, 30));
        let now = self.now;
        let me = &mut self.agents[agent];
        me.state = State::Gone;
        me.engine = None;
        me.unheard_since.get_or_insert(now);
        me.silent_from = Some(now + still_on_its_way);
        me.requests.clear();
        me.questions.clear();
        if self.store.fault != Fault::ToolsRunAgain {
            me.runs.clear();
        }
    }

    fn start_another(&mut self) {
        if !self.agents.iter().any(|agent| agent.state == State::Waiting) {
            let later = self.dice.between(10, 4_000);
            self.start_agent(later, false);
        }
    }

    /// The engine has a fault: the same process goes on with another one.
    pub(super) fn panic(&mut self, agent: usize) {
        self.tell(|| format!("agent {agent} panics"));
        self.end(agent);
        // Its conversation is free at once, and what was on its way to the store comes in before or never.
        self.agents[agent].unheard_since = Some(Time(0));
        self.agents[agent].commits_late = true;
        let later = self.dice.between(0, 20);
        self.start_agent(later, true);
    }

    /// Another agent has the conversation: nothing more is said from here.
    pub(super) fn lose(&mut self, agent: usize) {
        self.tell(|| format!("agent {agent} has lost the conversation"));
        self.end(agent);
        self.start_another();
    }

    pub(super) fn pause(&mut self, agent: usize) {
        let millis = self.dice.between(100, 9_000);
        self.tell(|| format!("agent {agent} pauses for {millis} ms"));
        let now = self.now;
        let me = &mut self.agents[agent];
        me.paused = Some(VecDeque::new());
        me.unheard_since = Some(now);
        self.after(millis, Event::Unpause(agent));
    }

    /// It goes on as if nothing had been.
    pub(super) fn unpause(&mut self, agent: usize) {
        let me = &mut self.agents[agent];
        let Some(happened) = me.paused.take() else { return };
        if me.state == State::Gone {
            return;
        }
        self.tell(|| format!("agent {agent} wakes up"));
        for what in happened {
            if self.agents[agent].state == State::Live {
                self.happens(agent, what);
            }
        }
        let beat = self.dice.between(1, 1_000);
        self.after(beat, Event::Heartbeat(agent));
    }

    pub(super) fn cut_off_from_store(&mut self, agent: usize) {
        let millis = self.dice.between(100, 9_000);
        self.tell(|| format!("agent {agent} cannot reach the store for {millis} ms"));
        let now = self.now;
        let me = &mut self.agents[agent];
        me.cut_off_until = now + Duration::from_millis(millis);
        me.unheard_since.get_or_insert(now);
        let beat = self.dice.between(1, 1_000);
        self.after(millis + beat, Event::Heartbeat(agent));
    }

    /// It is heard of again, if the conversation is still its own; one that was asked to leave is gone.
    pub(super) fn heartbeat(&mut self, agent: usize) {
        let (now, fence) = (self.now, self.store.fence);
        let me = &mut self.agents[agent];
        if me.state != State::Live || me.paused.is_some() || me.cut_off_until > now {
            return;
        }
        if me.fence != fence && self.store.fault != Fault::NoFence {
            return self.lose(agent);
        }
        if me.leaving {
            self.tell(|| format!("agent {agent} has left"));
            self.end(agent);
            self.agents[agent].unheard_since = Some(Time(0));
            return self.start_another();
        }
        me.unheard_since = None;
    }

    pub(super) fn leave_room(&mut self, agent: usize) {
        let millis = self.dice.between(100, 6_000);
        self.tell(|| format!("agent {agent} is away from the room for {millis} ms"));
        self.agents[agent].away_from_room = true;
        self.after(millis, Event::Reconnect(agent));
    }

    /// The room is there again: it says who is in it, and those in it see the agent come.
    pub(super) fn reconnect(&mut self, agent: usize) {
        let me = &mut self.agents[agent];
        if !std::mem::take(&mut me.away_from_room) || me.state != State::Live {
            return;
        }
        self.tell(|| format!("agent {agent} is in the room again"));
        self.announce_agent(agent);
        for client in 0..self.clients.len() {
            self.along(agent, client, true, Event::Agent(agent, ToAgent::Left { client }));
            if self.clients[client].present {
                self.tell_agent_of(agent, client);
            }
        }
    }
}
