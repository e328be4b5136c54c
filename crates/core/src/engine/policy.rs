//! When a tool may be used. What the model wants is never enough where strangers may have made it want that: the policy
//! looks at what is in the prompt and at what the tool does, and not at what the text says.
//!
//! - Rights: a call has those of the least privileged of all whose words are in the prompt ([`Speakers`]). A tool that one of
//!   them may not have used is not shown to the model, and a call of it is one of an unknown tool.
//! - [`Taint`]: once strangers' output is in the prompt, whatever changes or sends something needs the asking user's leave;
//!   once private data is, whatever sends something out does. It stays for as long as it, or an answer made of it, is in the
//!   prompt. What is called together with the tool that brings it in was decided before and does not count.
//! - Descriptions are text in the prompt too. Whoever puts a tool on the agent's list vouches for its description by declaring
//!   its effects; for what a client offers, and for what has all effects because nobody declared any, nobody has.

use super::Engine;
use super::conversation::Key;
use super::settings::{Gate, Policy, Speakers};
use super::toolbox::Available;
use super::turn::Turn;
use crate::tool::Effects;
use serde::{Deserialize, Serialize};
use std::ops::BitOr;

/// What tools have brought into a prompt, and so into what was made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Words of strangers.
    #[serde(default)]
    pub untrusted: bool,
    /// Private data.
    #[serde(default)]
    pub private: bool,
}

impl Taint {
    /// What a tool with these effects brings.
    pub(super) fn of(effects: Effects) -> Self {
        Self { untrusted: effects.untrusted_output, private: effects.reads_private }
    }
}

impl BitOr for Taint {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { untrusted: self.untrusted | other.untrusted, private: self.private | other.private }
    }
}

/// What is to be done about a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    /// The asking user is asked, with the reason.
    Ask(&'static str),
    /// It is not run, for this reason.
    Refuse(&'static str),
}

const CONFIRM: &str = "This tool is only used with your leave.";
const UNTRUSTED: &str = "This tool changes or sends something, and what others wrote is in the conversation: it may be them who want this.";
const PRIVATE: &str = "This tool sends something out, and private data is in the conversation.";
const DESCRIPTIONS: &str =
    "This tool changes or sends something, and there are tools whose descriptions nobody has checked.";

impl Policy {
    /// Judges a call by what the tool does and by what is in the prompt.
    fn verdict(self, called: &Available, taint: Taint, unvouched: bool) -> Verdict {
        let Effects { reads_private, sends_out, changes, .. } = called.tool.effects;
        let acts = sends_out || changes;
        let rules = [
            (called.tool.confirm, Gate::Ask, CONFIRM),
            (acts && taint.untrusted, self.untrusted, UNTRUSTED),
            (sends_out && (taint.private || reads_private), self.private, PRIVATE),
            // Whoever offers a tool also runs it: its own description needs no defence against it.
            (acts && unvouched && !called.is_offered(), self.descriptions, DESCRIPTIONS),
        ];
        let mut verdict = (Gate::Allow, "");
        for (_, gate, reason) in rules.into_iter().filter(|(applies, ..)| *applies) {
            if gate > verdict.0 {
                verdict = (gate, reason);
            }
        }
        match verdict {
            (Gate::Allow, _) => Verdict::Run,
            (Gate::Ask, reason) => Verdict::Ask(reason),
            (Gate::Deny, reason) => Verdict::Refuse(reason),
        }
    }
}

impl Engine {
    /// Notes whose words, and what of earlier turns, the model is told.
    pub(super) fn listen(&self, turn: &mut Turn, at: Key) {
        let told = self.memory.remembered(self.conversation.path(Some(at)));
        if self.settings.policy.past_turns {
            turn.inherited = self.conversation.taint(&told);
        }
        let speakers = told.iter().filter_map(|&key| self.conversation.user(key));
        turn.speakers = match self.settings.policy.speakers {
            Speakers::InThePrompt => speakers.map(|user| user.from.clone()).collect(),
            Speakers::TheAsker => std::iter::empty().collect(),
        };
        turn.speakers.insert(turn.work.by.clone());
    }

    /// What is to be done about a call in this turn, of what there is.
    pub(super) fn verdict(&self, turn: &Turn, called: &Available, available: &[Available]) -> Verdict {
        let unvouched = turn.unvouched || available.iter().any(Available::is_unvouched);
        self.settings.policy.verdict(called, turn.taint | turn.inherited, unvouched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolSpec;
    use crate::tool::Tool;
    use serde_json::Value;

    fn called(effects: Effects, confirm: bool) -> Available {
        let spec = ToolSpec {
            name: "t".to_owned(),
            description: String::new(),
            parameters: Value::Null,
            repeatable: true,
        };
        Available { tool: Tool { effects, confirm, ..Tool::harmless(spec) }, own_name: None }
    }

    /// Every combination of effects, prompt and policy.
    #[test]
    fn a_call_is_asked_for_exactly_when_a_rule_says_so() {
        for bits in 0_u32..1 << 8 {
            let bit = |nth: u32| bits & (1 << nth) != 0;
            let effects = Effects {
                reads_private: bit(0),
                sends_out: bit(1),
                changes: bit(2),
                untrusted_output: bit(3),
            };
            let (taint, unvouched) = (Taint { untrusted: bit(4), private: bit(5) }, bit(6));
            let called = called(effects, bit(7));
            let acts = effects.changes || effects.sends_out;
            let untrusted = acts && taint.untrusted;
            let private = effects.sends_out && (taint.private || effects.reads_private);
            let description = acts && unvouched;
            let asked = called.tool.confirm || untrusted || private || description;
            let verdict = Policy::default().verdict(&called, taint, unvouched);
            assert_eq!(verdict == Verdict::Run, !asked, "{effects:?} {taint:?} {unvouched}");
            assert!(!matches!(verdict, Verdict::Refuse(_)), "by default nothing is refused unasked");

            let strict = Policy { untrusted: Gate::Deny, private: Gate::Deny, ..Policy::default() };
            let refused = matches!(strict.verdict(&called, taint, unvouched), Verdict::Refuse(_));
            assert_eq!(refused, untrusted || private, "{effects:?} {taint:?}");

            let (untrusted, private, descriptions) = (Gate::Allow, Gate::Allow, Gate::Allow);
            let open = Policy { untrusted, private, descriptions, ..Policy::default() };
            let asked = open.verdict(&called, taint, unvouched) != Verdict::Run;
            assert_eq!(asked, called.tool.confirm, "what a tool says of itself holds under any policy");
        }
    }
}
