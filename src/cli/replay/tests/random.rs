//! Whatever people do, at random.

use super::{replayed, talk};
use crate::cli::replay::compare::Outcome;
use serde_json::json;
use sotto_core::engine::event::ToolOutcome;
use sotto_core::engine::record::Record;
use sotto_core::wire;
use sotto_core::wire::body::{StopType, VariationMode};

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const THOUGHTS: [&str; 8] = [
    "Let me see. ",
    "First, ",
    "this is hard.\n\n",
    "1. One\n2. Two\n",
    "\n```\nlet a = 1;\n\nlet b = 2;\n```\n",
    " ",
    "So be it",
    "A thought that goes on and on, with commas, and more commas, and never seems to find an end, for it is the kind of thought \
     that one has late at night, when all others sleep; then it ends. ",
];
const WORDS: [&str; 10] = [
    "Hello",
    " world.",
    " Dr. Smith",
    " said 3.14.",
    "\n\n- an item\n- another\n",
    "```rust\nfn main() {}\n```\n",
    " Really? Yes! ",
    "日本語。はい。",
    " ",
    "\n",
];

#[test]
fn whatever_people_do_at_random_comes_out_the_same_again() {
    let mut compared = 0;
    let mut different = Vec::new();
    for seed in 1..=400 {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut it = talk();
        let mut messages = 0;
        for _ in 0..120 {
            let who = dice.one_of(&["anna", "bob"]);
            match dice.below(40) {
                0..=3 => {
                    messages += 1;
                    it.writes(who, &format!("m{messages}"));
                }
                4..=13 => it.confirms(1 + seed as usize % 3),
                14..=17 => it.thinks(dice.one_of(&THOUGHTS)),
                18..=25 => it.speaks(dice.one_of(&WORDS)),
                26 => it.calls(dice.one_of(&["time", "mail", "unknown"])),
                27..=29 => it.finishes(),
                30 => it.fails(),
                31 | 32 => {
                    let outcome = [
                        ToolOutcome::Done(json!("fine")),
                        ToolOutcome::InvalidParameters("no".to_owned()),
                        ToolOutcome::Failed("broken".to_owned()),
                    ];
                    it.tool_gives(outcome[dice.below(3)].clone());
                }
                33 => it.stops(who, None, dice.one_of(&[StopType::Generation, StopType::All])),
                34 if messages > 0 => {
                    it.settles();
                    let target = format!("m{}", 1 + dice.below(messages));
                    it.stops(who, Some(&target), StopType::Generation);
                }
                35 => {
                    let mode = dice.one_of(&[VariationMode::Regenerate, VariationMode::Continue]);
                    let target = it.last_answer();
                    it.varies(who, &target, mode);
                    it.settles();
                }
                36 if messages > 0 => {
                    let target = format!("m{}", 1 + dice.below(messages));
                    it.varies(who, &target, dice.one_of(&[VariationMode::Regenerate, VariationMode::Edit]));
                    it.settles();
                }
                37 => it.can(
                    who,
                    dice.one_of(&[&["streaming"][..], &["turn_meta"], &["streaming", "turn_meta"]]),
                ),
                38 => it.waits(dice.one_of(&[1, 40])),
                39 if seed % 2 == 0 => {
                    it.restarts();
                }
                _ => it.settles(),
            }
        }
        match replayed(it.exported()) {
            Outcome::Same { stanzas, .. } => compared += stanzas,
            Outcome::Different(difference) => {
                let recorded: Vec<_> = it.saved.iter().map(brief).collect();
                different.push(format!("seed {seed}: {difference}\n{}", recorded.join("\n")));
            }
        }
    }
    assert!(compared > 10_000, "only {compared} stanzas were compared");
    // Pauses of the model that nobody was shown are not recorded: where they coincide with other things, the order of what came of
    // them is not known any more. That was so for 3 of these when this was written.
    assert!(different.len() <= 4, "{} of 400 differ, the first:\n{}", different.len(), different[0]);
}

/// A record in one line, for whoever has to find out what went wrong.
fn brief(record: &Record) -> String {
    match record {
        Record::Stanza(stanza) => {
            let envelope = wire::decode(&stanza.bytes, &wire::Limits::default()).expect("it was encoded");
            format!("    {} {}", stanza.number, serde_json::to_string(&envelope.body).expect("text keys"))
        }
        other => format!("{other:?}"),
    }
}
