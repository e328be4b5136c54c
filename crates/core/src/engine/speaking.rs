//! The answer of one turn: sentences with their numbers, and the same text as it flows for LiveKit's transcripts.

use super::event::Transcript;
use super::sentence::Splitter;

/// Between what the model says before a tool and after it.
const BREAK: &str = "\n\n";

/// Something to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// The answer begins.
    Start,
    /// Its next sentence.
    Sentence { sequence: i32, text: String, last: bool },
    /// The same for LiveKit's own clients.
    Transcript(Transcript),
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
pub(super) struct Speaking {
    /// The answer's id.
    pub(super) id: String,
    splitter: Splitter,
    /// All sentences so far, joined.
    pub(super) text: String,
    /// Sentences so far.
    pub(super) count: i32,
    started: bool,
    /// What the model says next begins a new paragraph.
    paragraph: bool,
    /// Whether the transcript has begun, and whether anything of this paragraph is in it.
    transcribing: bool,
    transcribed: bool,
    /// White space that belongs to the answer only if something follows.
    white: String,
    /// Characters so far, white space included.
    pub(super) chars: usize,
}

impl Speaking {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            splitter: Splitter::new(),
            text: String::new(),
            count: 0,
            started: false,
            paragraph: false,
            transcribing: false,
            transcribed: false,
            white: String::new(),
            chars: 0,
        }
    }

    /// Whether anything was said.
    pub(super) fn is_silent(&self) -> bool {
        !self.transcribing
    }

    /// Whether the answer has been announced.
    pub(super) fn is_started(&self) -> bool {
        self.started
    }

    /// The model speaks on.
    pub(super) fn push(&mut self, delta: &str) -> Vec<Spoken> {
        self.chars += delta.chars().count();
        let mut spoken = self.transcribe(delta);
        for sentence in self.splitter.push(delta) {
            self.say(&sentence, false, &mut spoken);
        }
        spoken
    }

    /// The model pauses to use tools: what it has said so far is said.
    pub(super) fn pause(&mut self) -> Vec<Spoken> {
        let mut spoken = Vec::new();
        if let Some(rest) = self.splitter.finish() {
            self.say(&rest, false, &mut spoken);
        }
        self.splitter = Splitter::new();
        self.paragraph = !self.text.is_empty();
        self.transcribed = false;
        self.white.clear();
        spoken
    }

    /// The answer is over, with whatever there is of it.
    pub(super) fn finish(&mut self) -> Vec<Spoken> {
        let mut spoken = Vec::new();
        let rest = self.splitter.finish().unwrap_or_default();
        self.say(&rest, true, &mut spoken);
        if self.transcribing {
            spoken.push(Spoken::Transcript(Transcript::End { segment: self.id.clone() }));
        }
        spoken
    }

    /// The model speaks on, and what it says is judged before it is said: its sentences.
    pub(super) fn split(&mut self, delta: &str) -> Vec<String> {
        self.chars += delta.chars().count();
        self.splitter.push(delta)
    }

    /// The last sentence of what was to be judged so far.
    pub(super) fn split_rest(&mut self) -> Option<String> {
        std::mem::take(&mut self.splitter).finish()
    }

    /// A judged sentence is said. The transcript has judged text alone, so it goes by sentences too.
    pub(super) fn say_judged(&mut self, sentence: &str) -> Vec<Spoken> {
        let mut spoken = self.transcribe(sentence);
        self.say(sentence, false, &mut spoken);
        spoken
    }

    /// The answer is over, with this as its last judged sentence. What was not judged is not said.
    pub(super) fn finish_judged(&mut self, last: Option<String>) -> Vec<Spoken> {
        let last = last.unwrap_or_default();
        self.splitter = Splitter::new();
        let mut spoken = self.transcribe(&last);
        self.say(&last, true, &mut spoken);
        if self.transcribing {
            spoken.push(Spoken::Transcript(Transcript::End { segment: self.id.clone() }));
        }
        spoken
    }

    fn say(&mut self, sentence: &str, last: bool, spoken: &mut Vec<Spoken>) {
        if !self.started {
            self.started = true;
            spoken.push(Spoken::Start);
        }
        let mut text = String::new();
        if self.paragraph && !sentence.is_empty() {
            self.paragraph = false;
            text.push_str(BREAK);
        }
        text.push_str(sentence);
        self.text.push_str(&text);
        self.count += 1;
        spoken.push(Spoken::Sentence { sequence: self.count, text, last });
    }

    /// The transcript is the answer too: the same first and last character, the same breaks.
    fn transcribe(&mut self, delta: &str) -> Vec<Spoken> {
        let delta = if self.transcribed { delta } else { delta.trim_start() };
        let solid = delta.trim_end();
        if solid.is_empty() {
            self.white.push_str(delta);
            return Vec::new();
        }
        let mut spoken = Vec::new();
        let segment = self.id.clone();
        if !self.transcribing {
            self.transcribing = true;
            spoken.push(Spoken::Transcript(Transcript::Begin { segment: segment.clone() }));
        }
        let mut text = String::new();
        if !self.transcribed {
            self.transcribed = true;
            if self.paragraph {
                text.push_str(BREAK);
            }
        }
        text.push_str(&std::mem::take(&mut self.white));
        text.push_str(solid);
        self.white.push_str(&delta[solid.len()..]);
        spoken.push(Spoken::Transcript(Transcript::Delta { segment, text }));
        spoken
    }
}
