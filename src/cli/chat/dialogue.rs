//! What of the conversation is ours: the last message and answer, and whether an answer is still under way.
//!
//! Pure. A turn is over when its figures have come, which are its last stanza. Agents that send none, or whose figures
//! got lost, end it with the last sentence or the error; then [`Dialogue::is_as_good_as_over`] and the caller's patience
//! decides.

use sotto_core::wire::body::Body;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With an answer, be it stopped.
    Answered,
    /// With an error.
    Failed,
}

/// The feature of agents that send figures.
const FIGURES: &str = "turn_meta";
/// From here on an `ErrorMessage` is an error; below it is a notice.
const ERROR: i32 = 2;

#[derive(Debug, Default)]
pub(super) struct Dialogue {
    message: Option<String>,
    answer: Option<String>,
    turn: Option<Turn>,
    /// Whether the agent sends figures; `None` until it has said.
    figures: Option<bool>,
}

#[derive(Debug)]
struct Turn {
    message: String,
    /// What was asked to be varied: errors may name it.
    target: Option<String>,
    /// The answer that is being given.
    answer: Option<String>,
    /// An answer to the same message that this one takes the place of.
    old_answer: Option<String>,
    /// The old answer was under way, and its end is still to come.
    old_is_open: bool,
    ending: Option<Ending>,
}

impl Dialogue {
    /// The last message of ours.
    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The last answer to it.
    pub(super) fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// The message whose answer is under way.
    pub(super) fn running(&self) -> Option<&str> {
        self.turn.as_ref().map(|turn| turn.message.as_str())
    }

    /// Whether all but the figures are there.
    pub(super) fn is_as_good_as_over(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.ending.is_some())
    }

    /// Whether this is part of what was said to our last message. Others in the room are answered too.
    pub(super) fn concerns_us(&self, body: &Body) -> bool {
        let about = match body {
            Body::ReasoningStep(step) => &step.previous_id,
            Body::ReasoningDelta(delta) => &delta.previous_id,
            Body::ToolUseRequest(request) => &request.message_id,
            Body::StartAnswer(start) => &start.previous_id,
            Body::AssistantSentence(sentence) => return self.answer() == Some(&sentence.previous_id),
            Body::AssistantMessage(whole) => &whole.previous_id,
            Body::MemoryTrace(memory) => &memory.message_id,
            Body::Commentary(commentary) => &commentary.message_id,
            Body::TurnMeta(meta) => &meta.message_id,
            Body::UserMessage(_) | Body::Transcription(_) => return false,
            // Sent to us alone, or shown only where the request was.
            _ => return true,
        };
        self.message() == Some(about)
    }

    /// A new message was sent.
    pub(super) fn said(&mut self, message: String) {
        self.message = Some(message.clone());
        self.answer = None;
        self.turn = Some(Turn {
            message,
            target: None,
            answer: None,
            old_answer: None,
            old_is_open: false,
            ending: None,
        });
    }

    /// Another answer to the last message was asked for.
    pub(super) fn varied(&mut self, target: &str) {
        let Some(message) = self.message.clone() else { return };
        let old_is_open = self.turn.as_ref().is_some_and(|turn| turn.ending.is_none());
        self.turn = Some(Turn {
            message,
            target: Some(target.to_owned()),
            answer: None,
            old_answer: self.answer.clone(),
            old_is_open,
            ending: None,
        });
    }

    /// Nothing is awaited any more.
    pub(super) fn over(&mut self) -> Option<Ending> {
        self.turn.take().and_then(|turn| turn.ending)
    }

    /// Takes note of what the agent sent; how the turn ended, if that was its end.
    pub(super) fn hear(&mut self, body: &Body) -> Option<Ending> {
        if let Body::Configuration(configuration) = body {
            let features = configuration.features.as_deref().unwrap_or_default();
            self.figures = Some(features.iter().any(|feature| feature == FIGURES));
        }
        let turn = self.turn.as_mut()?;
        let is_over = match body {
            Body::StartAnswer(start)
                if start.previous_id == turn.message && Some(&start.id) != turn.old_answer.as_ref() =>
            {
                turn.answer = Some(start.id.clone());
                self.answer = turn.answer.clone();
                false
            }
            Body::AssistantSentence(sentence)
                if turn.answer.as_ref() == Some(&sentence.previous_id) && sentence.is_final == Some(true) =>
            {
                turn.ending.get_or_insert(Ending::Answered);
                self.figures == Some(false)
            }
            Body::AssistantMessage(whole) if whole.previous_id == turn.message => {
                turn.answer = Some(whole.id.clone());
                self.answer = turn.answer.clone();
                turn.ending.get_or_insert(Ending::Answered);
                self.figures == Some(false)
            }
            Body::ErrorMessage(error) if error.severity >= ERROR => {
                // One about nothing in particular says that something of ours was not even read.
                let about = error.originating_id.as_ref();
                let ours =
                    about.is_none_or(|about| *about == turn.message || Some(about) == turn.target.as_ref());
                if ours {
                    turn.ending = Some(Ending::Failed);
                }
                ours && self.figures == Some(false)
            }
            // Refused for good: no turn, and no figures.
            Body::Acknowledgement(acknowledgement) => {
                !acknowledgement.success && turn.ending == Some(Ending::Failed)
            }
            Body::TurnMeta(meta) if meta.message_id == turn.message => {
                let of_the_old = meta.answer_id == turn.old_answer
                    && (meta.answer_id.is_some() || (turn.old_is_open && meta.interrupted));
                if of_the_old {
                    turn.old_is_open = false;
                }
                !of_the_old
            }
            _ => false,
        };
        is_over.then(|| self.over().unwrap_or(Ending::Answered))
    }
}

#[cfg(test)]
mod tests;
