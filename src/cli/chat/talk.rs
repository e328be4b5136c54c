//! The conversation itself: lines in, messages out and in, text out. The only part of the chat that waits and writes.

use super::command::{Command, HELP};
use super::dialogue::{Dialogue, Ending};
use super::screen::{Screen, Style};
use crate::cli::terminal::clean_line;
use crate::client::{Client, Event};
use anyhow::{Context, bail};
use futures_util::FutureExt;
use sotto_core::wire::Envelope;
use sotto_core::wire::body::{Body, ToolConsentRequest, VariationMode};
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a turn's figures may come after its last words.
const FIGURES_PATIENCE: Duration = Duration::from_secs(2);

/// Whether and how the conversation goes on.
type Flow = anyhow::Result<ControlFlow<()>>;

/// How to talk.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// Somebody types and reads at once: prompts, and lines taken while an answer is under way.
    pub(super) interactive: bool,
    pub(super) style: Style,
    /// Whether thoughts are shown.
    pub(super) reasoning: bool,
    /// Tools that may be used without asking.
    pub(super) allow: Vec<String>,
    /// How long the agent may be silent before we give up. People decide that themselves.
    pub(super) patience: Duration,
}

/// Where questions come from.
pub(super) enum Input {
    /// Lines; commands among them.
    Lines(mpsc::Receiver<io::Result<String>>),
    /// One question, said as it is.
    Message(String),
}

impl Input {
    pub(super) fn one_message(message: String) -> Self {
        Self::Message(message)
    }

    /// Read by a thread that ends with the process: the runtime would wait for a read that nobody ends.
    pub(super) fn lines_of_stdin() -> io::Result<Self> {
        let (lines, received) = mpsc::channel(1);
        thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let line = match stdin.read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                    Err(error) => Err(error),
                };
                let failed = line.is_err();
                if lines.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self::Lines(received))
    }
}

pub(super) struct Talk {
    client: Client,
    manner: Manner,
    screen: Screen,
    dialogue: Dialogue,
    start: Instant,
    /// When something last happened in the turn.
    last_sign: Instant,
    /// The answer was asked to stop: the next time we leave.
    stopping: bool,
    /// Nothing more will be asked.
    input_is_over: bool,
    failures: u32,
    /// Uses of tools that wait for a word from here, oldest first.
    waiting_for_leave: VecDeque<Question>,
}

/// A question for leave.
struct Question {
    request: String,
    tool: String,
    /// When the agent stops waiting.
    until: Instant,
}

impl Talk {
    pub(super) fn new(client: Client, manner: Manner) -> Self {
        let now = Instant::now();
        Self {
            client,
            screen: Screen::new(manner.style, manner.reasoning),
            manner,
            waiting_for_leave: VecDeque::new(),
            dialogue: Dialogue::default(),
            start: now,
            last_sign: now,
            stopping: false,
            input_is_over: false,
            failures: 0,
        }
    }

    /// Talks to the end, and leaves. An error if an answer failed that nobody saw fail.
    pub(super) async fn run(mut self, input: Input) -> anyhow::Result<()> {
        let outcome = self.talk(input).await;
        let failures = self.failures;
        self.client.leave().await;
        outcome?;
        match failures {
            0 => Ok(()),
            1 => bail!("a question was not answered"),
            failures => bail!("{failures} questions were not answered"),
        }
    }

    async fn talk(&mut self, input: Input) -> anyhow::Result<()> {
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        // Kept open where nobody writes to it: the end of the input is told otherwise.
        let (_silent, mut lines) = mpsc::channel(1);
        match input {
            Input::Lines(received) => lines = received,
            Input::Message(message) => {
                self.say(&message)?;
                self.input_is_over = true;
            }
        }
        if self.manner.interactive {
            self.look_around()?;
        }
        loop {
            let running = self.dialogue.running().is_some();
            if self.input_is_over && !running {
                return Ok(());
            }
            let takes_lines = !self.input_is_over && (self.manner.interactive || !running);
            let deadline = self.deadline();
            let flow = tokio::select! {
                event = self.client.next() => self.handle(event)?,
                line = lines.recv(), if takes_lines => {
                    if let Some(line) = line {
                        self.line(&line.context("cannot read the standard input")?)?
                    } else {
                        self.input_is_over = true;
                        // At a terminal that is Ctrl-D.
                        if self.manner.interactive { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    }
                }
                _ = interrupts.recv() => self.interrupt()?,
                () = sleep_until(deadline.unwrap_or(self.start)), if deadline.is_some() => self.give_up()?,
            };
            if flow.is_break() {
                if self.manner.interactive {
                    self.screen.typed();
                    write("\n")?;
                }
                return Ok(());
            }
        }
    }

    /// Says where we are and who is there, and asks for the first line.
    fn look_around(&mut self) -> anyhow::Result<()> {
        // What was known on joining is waiting already.
        while let Some(event) = self.client.next().now_or_never() {
            if !matches!(event, Event::AgentHere { .. }) {
                let _ = self.handle(event)?;
            }
        }
        let agent = if self.client.agent_is_here() { "the agent is here" } else { "no agent is here yet" };
        self.tell(&format!("room {:?}; {agent}; /help lists the commands", self.client.room()))?;
        self.prompt()
    }

    /// When to stop waiting for the agent.
    fn deadline(&self) -> Option<Instant> {
        self.dialogue.running()?;
        if self.dialogue.is_as_good_as_over() {
            Some(self.last_sign + FIGURES_PATIENCE)
        } else {
            (!self.manner.interactive).then(|| self.last_sign + self.manner.patience)
        }
    }

    fn give_up(&mut self) -> Flow {
        if self.dialogue.is_as_good_as_over() {
            let ending = self.dialogue.over().unwrap_or(Ending::Answered);
            return self.ended(ending);
        }
        let seconds = self.manner.patience.as_secs();
        if self.client.agent_is_here() {
            bail!("the agent was silent for {seconds} s");
        }
        bail!(
            "no agent came to the room within {seconds} s; start one with: sotto join {}",
            self.client.room()
        );
    }

    fn handle(&mut self, event: Event) -> Flow {
        match event {
            Event::Received(envelope) => return self.receive(&envelope),
            Event::Overheard { who, text } => self.overhear(&who, &text)?,
            Event::AgentHere { .. } => {
                self.last_sign = Instant::now();
                self.tell_between("the agent is here")?;
            }
            Event::AgentGone { .. } => self.tell_between("the agent has left")?,
            Event::Reconnecting => self.tell_between("the connection is lost; trying to restore it")?,
            Event::Reconnected => self.tell_between("the connection is back")?,
            Event::Closed(reason) => bail!("the conversation is over: {reason}"),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// People see all that is said in the room; scripts want answers alone.
    fn overhear(&mut self, who: &str, text: &str) -> anyhow::Result<()> {
        if !self.manner.interactive {
            return Ok(());
        }
        write(&self.screen.overhear(who, text))?;
        self.prompt_if_idle().map(drop)
    }

    fn receive(&mut self, envelope: &Envelope) -> Flow {
        let was_running = self.dialogue.running().is_some();
        let ending = self.dialogue.hear(&envelope.body);
        if was_running {
            self.last_sign = Instant::now();
        }
        // Scripts want answers to what they asked; people see all that is said in the room.
        let is_an_answer = was_running && self.dialogue.concerns_us(&envelope.body);
        if is_an_answer || self.manner.interactive || self.manner.style == Style::Json {
            let shown = self.screen.receive(envelope, self.start.elapsed());
            write(&shown)?;
            if self.manner.interactive && !was_running && !shown.is_empty() {
                self.prompt()?;
            }
        }
        if let Body::ToolConsentRequest(request) = &envelope.body {
            self.asked_for_leave(request);
        }
        match ending {
            Some(ending) => self.ended(ending),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn asked_for_leave(&mut self, request: &ToolConsentRequest) {
        if self.manner.allow.contains(&request.tool_name) {
            self.client.consent(&request.request_id, true);
        } else if self.manner.interactive {
            // It comes again after a break in the connection.
            self.waiting_for_leave.retain(|question| question.request != request.request_id);
            let time = Duration::from_millis(u64::from(request.timeout_ms.unsigned_abs()));
            self.waiting_for_leave.push_back(Question {
                request: request.request_id.clone(),
                tool: request.tool_name.clone(),
                until: Instant::now() + time,
            });
        } else {
            self.client.consent(&request.request_id, false);
        }
    }

    /// Answers the oldest question for leave.
    fn give_leave(&mut self, allow: bool) -> Flow {
        let now = Instant::now();
        self.waiting_for_leave.retain(|question| question.until > now);
        match self.waiting_for_leave.pop_front() {
            Some(Question { request, tool, .. }) => {
                self.client.consent(&request, allow);
                let word = if allow { "allowed" } else { "denied" };
                self.tell(&format!("{word}: {}", clean_line(&tool)))?;
            }
            None => self.cannot("the agent asks for nothing")?,
        }
        self.prompt_if_idle()
    }

    fn ended(&mut self, ending: Ending) -> Flow {
        self.stopping = false;
        self.waiting_for_leave.clear();
        if self.manner.interactive {
            // Whoever is there has seen it.
            self.prompt()?;
        } else if ending == Ending::Failed {
            self.failures += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn line(&mut self, line: &str) -> Flow {
        if self.manner.interactive {
            self.screen.typed();
        }
        match Command::parse(line) {
            Command::Nothing => {}
            Command::Say(text) => {
                self.say(&text)?;
                return Ok(ControlFlow::Continue(()));
            }
            Command::Again => {
                // Not the answer: one that was stopped before its first word is none that could be varied.
                let target = self.dialogue.message().map(str::to_owned);
                return self.vary("/again", target, VariationMode::Regenerate, None);
            }
            Command::Edit(text) => {
                let target = self.dialogue.message().map(str::to_owned);
                return self.vary(&format!("/edit {text}"), target, VariationMode::Edit, Some(&text));
            }
            Command::Continue => {
                let target = self.dialogue.answer().map(str::to_owned);
                return self.vary("/continue", target, VariationMode::Continue, None);
            }
            Command::Allow => return self.give_leave(true),
            Command::Deny => return self.give_leave(false),
            Command::Stop => return self.stop(),
            Command::Help => self.tell(HELP)?,
            Command::Quit => return Ok(ControlFlow::Break(())),
            Command::Unclear(why) => self.cannot(&why)?,
        }
        self.prompt_if_idle()
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        write(&self.screen.ask(text, self.manner.interactive, self.start.elapsed()))?;
        let id = self.client.say(text);
        self.dialogue.said(id);
        self.asked();
        if self.manner.interactive && !self.client.agent_is_here() {
            self.tell("no agent is here yet; it will be answered when one comes")?;
        }
        Ok(())
    }

    fn vary(&mut self, typed: &str, target: Option<String>, mode: VariationMode, text: Option<&str>) -> Flow {
        let Some(target) = target else {
            self.cannot("there is nothing yet that this could be done to")?;
            return self.prompt_if_idle();
        };
        if !self.client.agent_is_here() {
            self.cannot("no agent is here to do that")?;
            return self.prompt_if_idle();
        }
        write(&self.screen.ask(typed, self.manner.interactive, self.start.elapsed()))?;
        self.client.vary(&target, mode, text);
        self.dialogue.varied(&target);
        self.asked();
        Ok(ControlFlow::Continue(()))
    }

    fn asked(&mut self) {
        self.last_sign = Instant::now();
        self.stopping = false;
    }

    fn stop(&mut self) -> Flow {
        let Some(message) = self.dialogue.running().map(str::to_owned) else {
            self.cannot("nothing is running")?;
            return self.prompt_if_idle();
        };
        if !self.client.agent_is_here() && self.client.withdraw(&message) {
            self.dialogue.over();
            self.tell("taken back: no agent has seen it")?;
            return self.prompt_if_idle();
        }
        self.client.stop(Some(&message));
        self.stopping = true;
        Ok(ControlFlow::Continue(()))
    }

    /// Ctrl-C: stops an answer; leaves when there is none, or when it does not stop.
    fn interrupt(&mut self) -> Flow {
        if self.dialogue.running().is_none() || self.stopping {
            return Ok(ControlFlow::Break(()));
        }
        // A script that is interrupted asks nothing more.
        self.input_is_over |= !self.manner.interactive;
        self.stop()
    }

    /// Tells why something was not done; to a script that is a failure.
    fn cannot(&mut self, why: &str) -> anyhow::Result<()> {
        if !self.manner.interactive {
            self.failures += 1;
        }
        self.tell(why)
    }

    /// Tells something of our own. Scripts get it beside their output.
    fn tell(&mut self, text: &str) -> anyhow::Result<()> {
        if self.manner.interactive {
            write(&self.screen.note(text))
        } else {
            // Nobody may be reading that; it is no part of what was asked for.
            let _ = writeln!(io::stderr(), "sotto: {text}");
            Ok(())
        }
    }

    /// Tells what happened meanwhile, and asks for the next line again.
    fn tell_between(&mut self, text: &str) -> anyhow::Result<()> {
        if !self.manner.interactive {
            return Ok(());
        }
        self.tell(text)?;
        self.prompt_if_idle().map(drop)
    }

    fn prompt_if_idle(&mut self) -> Flow {
        if self.manner.interactive && self.dialogue.running().is_none() {
            self.prompt()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn prompt(&mut self) -> anyhow::Result<()> {
        write(&self.screen.prompt())
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot write the output")
}
