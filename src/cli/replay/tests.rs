//! Conversations of real engines, recorded as a store would have them, must come out the same again: written by hand for
//! each thing that people do, and at random.

mod random;
mod recorder;

use super::compare::{Outcome, compare};
use super::rerun::rerun;
use super::script::Script;
use crate::cli::exported::Exported;
use recorder::Recorder;
use serde_json::json;
use sotto_core::engine::event::ToolOutcome;
use sotto_core::engine::record::Record;
use sotto_core::engine::settings::{Interruption, Settings, Visibility};
use sotto_core::wire;
use sotto_core::wire::body::{Body, StopType, VariationMode};

fn replayed(exported: Exported) -> Outcome {
    let script = Script::of(exported);
    let found = rerun(&script, Settings::default().step_chars);
    compare(&script, found)
}

/// How many stanzas were the same.
fn same(recorder: &Recorder) -> usize {
    match replayed(recorder.exported()) {
        Outcome::Same { stanzas, not_kept: 0 } => stanzas,
        Outcome::Same { not_kept, .. } => panic!("{not_kept} messages were not compared"),
        Outcome::Different(difference) => panic!("{difference}"),
    }
}

/// How many can happen again: what tools say on their way is not recorded as something that came.
fn stanzas(recorder: &Recorder) -> usize {
    let is_remark = |bytes: &[u8]| {
        let envelope = wire::decode(bytes, &wire::Limits::default());
        matches!(envelope, Ok(envelope) if matches!(envelope.body, Body::Commentary(_)))
    };
    let counts = |record: &&Record| matches!(record, Record::Stanza(stanza) if !is_remark(&stanza.bytes));
    recorder.saved.iter().filter(counts).count()
}

fn talk() -> Recorder {
    let greeting = Some("Welcome. I am here.".to_owned());
    let mut recorder = Recorder::new(Settings { greeting, ..Settings::default() });
    recorder.joins("anna");
    recorder.settles();
    recorder
}

#[test]
fn an_exchange_with_thoughts_tools_and_figures() {
    let mut it = talk();
    it.can("anna", &["streaming", "turn_meta"]);
    it.can("bob", &[]);
    it.writes("anna", "m1");
    it.settles();
    for text in ["Let me", " see.\n\n1. Look", " it up\n2. Tell\n", "the", " truth"] {
        it.thinks(text);
    }
    it.speaks("I will look");
    it.calls("time");
    it.calls("nothing_like_it");
    it.calls("mail");
    it.finishes();
    it.settles();
    it.tool_gives(ToolOutcome::Done(json!({"now": "12:00", "zone": ["UTC"]})));
    it.tool_gives(ToolOutcome::Failed("no such address".to_owned()));
    it.settles();
    it.thinks("Good.");
    it.speaks("It is 3.14 o'clock. Mr. ");
    it.settles();
    it.speaks("Smith knows.\n");
    it.finishes();
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
    assert!(stanzas(&it) > 15, "{}", stanzas(&it));
}

#[test]
fn interruptions_stops_failures_and_waiting() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("Once upon a time. There");
    it.writes("bob", "m2");
    it.writes("anna", "m3");
    it.speaks(" was one more word before the store had it");
    it.settles();
    // Now bob is answered; anna waits, and changes her mind.
    it.thinks("Bob asks");
    it.writes("anna", "m4");
    it.settles();
    it.stops("anna", None, StopType::Generation);
    it.settles();
    it.speaks("Well. I ");
    it.fails();
    it.settles();
    it.writes("anna", "m5");
    it.stops("anna", Some("m5"), StopType::Generation);
    it.settles();
    it.writes("anna", "m6");
    it.settles();
    it.thinks("Only thoughts.");
    it.finishes();
    it.finishes();
    it.settles();
    it.writes("anna", "m7");
    it.settles();
    it.calls("time");
    it.finishes();
    it.settles();
    it.waits(31);
    it.settles();
    it.speaks("Too late.\n\n");
    it.stops("bob", None, StopType::All);
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn variations_of_all_kinds() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("Blue.");
    it.finishes();
    it.settles();
    let blue = it.last_answer();
    for (target, mode) in [
        (blue.as_str(), VariationMode::Regenerate),
        ("m1", VariationMode::Edit),
        (blue.as_str(), VariationMode::Continue),
    ] {
        it.varies("anna", target, mode);
        it.settles();
        it.speaks("And another");
        it.finishes();
        it.settles();
    }
    it.varies("bob", "m1", VariationMode::Regenerate);
    it.settles();
    it.speaks("Half of");
    it.varies("anna", "m1", VariationMode::Regenerate);
    it.settles();
    it.finishes();
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn an_agent_that_was_killed_at_any_moment() {
    for moment in 0..7 {
        let mut it = talk();
        it.writes("anna", "m1");
        for step in 0..7 {
            if step == moment {
                it.restarts();
                it.settles();
            }
            match step {
                0 | 5 => it.settles(),
                1 => it.thinks("First.\n\nSecond"),
                2 => it.calls("mail"),
                3 => it.finishes(),
                4 => it.speaks("I am here. And"),
                _ => it.writes("anna", "m2"),
            }
        }
        it.settles();
        it.speaks("Here I am again.");
        it.finishes();
        it.settles();
        it.finishes();
        it.settles();
        assert_eq!(same(&it), stanzas(&it), "killed before step {moment}");
    }
}

#[test]
fn with_hidden_reasoning_and_a_queue() {
    let settings =
        Settings { visibility: Visibility::Hidden, interruption: Interruption::Queue, ..Settings::default() };
    let mut it = Recorder::new(settings);
    for id in ["m1", "m2", "m3"] {
        it.writes("anna", id);
    }
    for _ in 0..3 {
        it.settles();
        it.thinks("Secretly.");
        it.calls("time");
        it.finishes();
        it.settles();
        it.tool_gives(ToolOutcome::Done(json!(1)));
        it.settles();
        it.speaks("One. Two.");
        it.finishes();
    }
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn an_answer_that_is_still_under_way() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("I am here. And I");
    it.settles();
    let Outcome::Same { stanzas, not_kept: 0 } = replayed(it.exported()) else { panic!("different") };
    assert_eq!(stanzas, super::tests::stanzas(&it));
}

/// Changes the text of the sentence at this place among the sentences.
fn forged(mut exported: Exported, place: usize, forge: impl Fn(&mut String)) -> Exported {
    let mut seen = 0;
    for entry in &mut exported.entries {
        let Record::Stanza(stanza) = &mut entry.record else { continue };
        let mut envelope = wire::decode(&stanza.bytes, &wire::Limits::default()).expect("it was encoded");
        if let Body::AssistantSentence(sentence) = &mut envelope.body {
            if seen == place {
                forge(&mut sentence.text);
            }
            seen += 1;
        }
        stanza.bytes = wire::encode(&envelope);
    }
    exported
}

#[test]
fn the_first_difference_is_shown_with_what_was_before() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("One. Two. Three. ");
    it.finishes();
    it.settles();
    // Two sentences are one: no engine of ours would have sent that.
    let joined = forged(it.exported(), 3, |text| text.push_str(" And more, too. Really."));
    let Outcome::Different(difference) = replayed(joined) else { panic!("the same") };
    let shown = difference.to_string();
    assert!(shown.starts_with("5 stanzas are the same; then they differ:\n"), "{shown}");
    assert!(shown.contains("            StartAnswer for streaming: "), "{shown}");
    assert!(shown.contains("\n  recorded: AssistantSentence for streaming: "), "{shown}");
    assert!(shown.contains("Two. And more, too. Really."), "{shown}");
    assert!(shown.contains("\n  now:      AssistantSentence for streaming: "), "{shown}");

    let mut lost = it.exported();
    lost.entries.retain(|entry| !matches!(&entry.record, Record::Stanza(stanza) if stanza.number == -6));
    assert!(matches!(replayed(lost), Outcome::Different(_)), "a sentence in the middle is missing");
}

#[test]
fn what_is_no_longer_kept_is_not_compared() {
    let mut it = talk();
    for id in ["m1", "m2"] {
        it.writes("anna", id);
        it.settles();
        it.thinks("Well.\n\nWell.");
        it.speaks("One. Two. Three. ");
        it.finishes();
        it.settles();
    }
    let all = stanzas(&it);
    for dropped in 1..=all {
        let mut exported = it.exported();
        let mut seen = 0;
        exported.entries.retain(|entry| {
            let is_stanza = matches!(entry.record, Record::Stanza(_));
            seen += usize::from(is_stanza);
            !(is_stanza && seen <= dropped)
        });
        match replayed(exported) {
            Outcome::Same { stanzas, not_kept } => {
                assert!(stanzas < all && not_kept >= 1, "{dropped}: {stanzas}, {not_kept}");
            }
            Outcome::Different(difference) => panic!("{dropped} dropped: {difference}"),
        }
    }
}
