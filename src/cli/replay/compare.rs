//! The first difference between what was sent and what is sent now.

use super::script::{Belonging, Script, Sent};
use crate::cli::json;
use crate::cli::terminal::{clean_line, escape_controls};
use serde_json::Value;
use sotto_core::engine::people::Audience;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display};

/// How many stanzas before a difference are shown.
const CONTEXT: usize = 5;

/// The keys whose values are ids.
const IDS: [&str; 6] = ["id", "previousId", "messageId", "answerId", "requestId", "originatingId"];
/// The keys whose values are never twice the same, or depend on what is not recorded.
const FIGURES: [&str; 8] = [
    "timestamp",
    "inputTokens",
    "outputTokens",
    "reasoningTokens",
    "exact",
    "effort",
    "thinkingMs",
    "totalMs",
];

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// All that can be compared is the same.
    Same {
        /// So much was.
        stanzas: usize,
        /// So many messages could not be compared.
        not_kept: usize,
    },
    /// This is the first that is not.
    Different(Box<Difference>),
}

/// A difference, in words.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// How many were the same before it.
    same: usize,
    /// The last of those.
    before: VecDeque<String>,
    recorded: Option<String>,
    now: Option<String>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} stanzas are the same; then they differ:", self.same)?;
        for line in &self.before {
            writeln!(f, "            {}", clean_line(line))?;
        }
        writeln!(f, "  recorded: {}", clean(self.recorded.as_ref()))?;
        write!(f, "  now:      {}", clean(self.now.as_ref()))
    }
}

/// What differs is shown whole, however long it is.
fn clean(line: Option<&String>) -> String {
    line.map_or_else(|| "(nothing more)".to_owned(), |line| escape_controls(line))
}

/// Compares what was recorded with what was `found`.
pub(super) fn compare(script: &Script, found: Vec<Sent>) -> Outcome {
    let is_kept = |belonging: &mut Belonging, sent: &Sent| {
        belonging.message(&sent.body).is_some_and(|message| !script.incomplete.contains(&message))
    };
    let (mut then, mut now) = (Belonging::default(), Belonging::default());
    let recorded = script.sent().filter(|sent| is_kept(&mut then, sent));
    let mut found = found.into_iter().filter(|sent| is_kept(&mut now, sent));
    let mut names = (Names::new(script), Names::new(script));
    let mut same = 0;
    let mut before = VecDeque::new();
    for expected in recorded {
        let expected = names.0.describe(expected);
        loop {
            let next = found.next();
            // Nobody may have asked for it then: it is passed over, and gives no names to its ids.
            if let Some(optional) = next.as_ref().filter(|sent| is_optional(sent)) {
                let mut tried = names.1.clone();
                if tried.describe(optional) == expected {
                    names.1 = tried;
                    break;
                }
                continue;
            }
            let now = next.map(|sent| names.1.describe(&sent));
            if now.as_ref() == Some(&expected) {
                break;
            }
            return Outcome::Different(Box::new(Difference { same, before, recorded: Some(expected), now }));
        }
        same += 1;
        before.push_back(expected);
        if before.len() > CONTEXT {
            before.pop_front();
        }
    }
    match found.find(|sent| !is_optional(sent)) {
        Some(more) => {
            let now = Some(names.1.describe(&more));
            Outcome::Different(Box::new(Difference { same, before, recorded: None, now }))
        }
        None => Outcome::Same { stanzas: same, not_kept: script.incomplete.len() },
    }
}

/// Whether it is kept only while somebody takes part who asked for such.
fn is_optional(sent: &Sent) -> bool {
    matches!(sent.audience, Audience::Whole | Audience::Feature(_) | Audience::ReasoningFeature(_))
}

/// Names for ids, by the order in which they first appear.
#[derive(Clone)]
struct Names<'a> {
    /// What people's clients named keeps its name.
    script: &'a Script,
    names: BTreeMap<String, String>,
}

impl<'a> Names<'a> {
    fn new(script: &'a Script) -> Self {
        Self { script, names: BTreeMap::new() }
    }

    /// A stanza in one line, which is the same for two that mean the same.
    fn describe(&mut self, sent: &Sent) -> String {
        // Bodies have text keys alone, so that nothing can fail.
        let mut body = serde_json::to_value(&sent.body).unwrap_or_default();
        if let Value::Object(fields) = &mut body {
            fields.retain(|key, _| !FIGURES.contains(&key.as_str()));
            for key in IDS {
                if let Some(Value::String(id)) = fields.get_mut(key) {
                    self.name(id);
                }
            }
        }
        format!("{} for {}: {body}", json::name(&sent.body), sent.audience)
    }

    fn name(&mut self, id: &mut String) {
        if id.is_empty() || self.script.messages.contains(id) {
            return;
        }
        let kind = id.split('_').next().unwrap_or_default().to_owned();
        let next = self.names.len() + 1;
        let name = self.names.entry(std::mem::take(id)).or_insert_with(|| format!("{kind}_{next}"));
        id.clone_from(name);
    }
}
