//! How far a tool is, as it says itself: shown to those who see the use of tools, as `Commentary`, and never told to the
//! model.
//!
//! A tool may say so as often as it likes. The room gets the newest word at most once a second, and the less often the longer
//! it takes, so that what is kept of one call stays little.

use super::Engine;
use super::event::{Count, RunId};
use super::people::Audience;
use super::tool_loop::{Run, Stage};
use super::turn::Turn;
use crate::ids::Kind;
use crate::time::Time;
use crate::wire::body::{Body, Commentary};
use std::time::Duration;

/// What such a `Commentary` is called.
const TOOL_PROGRESS: &str = "tool_progress";
/// How much of what a tool says is shown, in characters.
const SHOWN_CHARS: usize = 300;
/// The shortest pause between two remarks about one call, and which part of the time since the first one it is later.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const PART: u32 = 10;

/// What a running tool has said of how far it is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Its newest words that nobody was shown.
    news: Option<String>,
    /// When it was first shown, and when it may be shown again.
    first: Option<Time>,
    next: Time,
}

impl Progress {
    /// Its words, if it is time to show them.
    fn take(&mut self, now: Time) -> Option<String> {
        let news = self.news.take_if(|_| self.next <= now)?;
        let first = *self.first.get_or_insert(now);
        self.next = now + SHORTEST_PAUSE.max((now - first) / PART);
        Some(news)
    }
}

impl Run {
    /// When there is something to be shown of it.
    pub(super) fn progress_due(&self) -> Option<Time> {
        let waits = self.progress.news.is_some() && self.stage == Stage::Server;
        waits.then_some(self.progress.next)
    }
}

impl Engine {
    /// A tool says how far it is.
    pub(super) fn tool_progressed(&mut self, id: RunId, text: String) {
        let is_it = |run: &&mut Run| run.id == id && run.stage == Stage::Server;
        let run = self.turn.as_mut().and_then(|turn| turn.runs.iter_mut().find(is_it));
        let Some(run) = run else { return self.count(Count::Stale) };
        if text.trim().is_empty() {
            return;
        }
        run.progress.news = Some(text);
        if let Some(mut turn) = self.turn.take() {
            self.show_progress(&mut turn);
            self.turn = Some(turn);
        }
    }

    /// Shows what it is time for.
    pub(super) fn show_progress(&mut self, turn: &mut Turn) {
        for run in turn.runs.iter_mut().filter(|run| run.stage == Stage::Server) {
            let Some(words) = run.progress.take(self.now) else { continue };
            let words = self.settings.secrets.hide(&words);
            let words: String = words.trim().chars().take(SHOWN_CHARS).collect();
            let commentary = Commentary {
                id: self.ids.next(Kind::Commentary),
                message_id: turn.work.message_id.clone(),
                conversation_id: self.settings.conversation.clone(),
                content: format!("{}: {words}", run.call.name),
                commentary_type: Some(TOOL_PROGRESS.to_owned()),
            };
            self.send(Audience::Tools, Body::Commentary(commentary));
        }
    }
}
