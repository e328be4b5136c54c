use super::*;
use serde_json::Map;
use sotto_core::engine::policy::Taint;
use sotto_core::engine::record::{
    Begun, BrokenOff, Joined, Reasoning, Spent, ToolAsked, ToolBegun, ToolEnded,
};
use sotto_core::model::Usage;

const NOON: u64 = 1_794_830_400_000;

fn told_in(colour: bool, records: Vec<Record>) -> String {
    let mut telling = Telling::new(TimeZone::UTC, colour);
    let told: String = records
        .into_iter()
        .map(|record| telling.tell(&Entry { at: Time(0), record, sealed: None }))
        .collect();
    // Less to read: the margin and the day.
    (told + &telling.finish()).replace(MARGIN, "  ").replace("2026-11-16 ", "")
}

fn told(records: Vec<Record>) -> String {
    told_in(false, records)
}

fn message(id: &str, previous: Option<&str>, text: &str) -> Record {
    Record::Message(Message {
        id: id.to_owned(),
        previous: previous.map(str::to_owned),
        from: "anna".to_owned(),
        name: "Anna".to_owned(),
        text: text.to_owned(),
        chat: false,
        at: Time(NOON + 1_000),
    })
}

fn begun(message: &str, answer: &str) -> Record {
    Record::Begun(Begun {
        message: message.to_owned(),
        answer: answer.to_owned(),
        number: 0,
        taint: Taint::default(),
        at: Time(NOON),
    })
}

fn thoughts(steps: &[&str]) -> Record {
    Record::Reasoning(Reasoning {
        message: String::new(),
        answer: String::new(),
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
    })
}

fn answer(message: &str, id: &str, text: &str, end: TurnEnd) -> Record {
    Record::Answer(Answer {
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
        answer: Some(id.to_owned()).filter(|id| !id.is_empty()),
        announced: !id.is_empty(),
        text: text.to_owned(),
        taint: Taint::default(),
        end,
        steps: 2,
        thinking_ms: 1_100,
        total_ms: 2_345,
        usage: Usage { input: 100, output: 20, ..Usage::default() },
        spent: Spent::default(),
        at: Time(NOON + 4_000),
    })
}

fn vary(target: &str, mode: VariationMode, text: Option<&str>) -> Record {
    Record::Variation(Variation {
        from: "anna".to_owned(),
        target: target.to_owned(),
        mode,
        text: text.map(str::to_owned),
        at: Time(NOON + 5_000),
    })
}

#[test]
fn one_exchange_with_thoughts_and_tools() {
    let call = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "calculator".to_owned(),
        arguments: Ok([("expression".to_owned(), "12*7".into())].into_iter().collect()),
    };
    let tool = |id: &str| {
        Record::ToolBegun(ToolBegun {
            message: "m1".to_owned(),
            call: call(id),
            request: String::new(),
            repeatable: true,
            handed: false,
            taint: Taint::default(),
            at: Time(NOON),
        })
    };
    let ended = ToolEnded { call: "c1".to_owned(), content: "84".to_owned(), at: Time(NOON) };
    let records = vec![
        Record::Joined(Joined { identity: "anna".to_owned(), number: 0, at: Time(NOON) }),
        answer("", "am_0", "Welcome.", TurnEnd::Answered),
        message("m1", None, "What is 12*7?\nPlease."),
        begun("m1", "am_1"),
        tool("c1"),
        tool("c2"),
        Record::ToolEnded(ended),
        thoughts(&["I can work it out.", "Or not:\na tool is surer."]),
        answer("m1", "am_1", "It is 84.", TurnEnd::Answered),
    ];
    let expected = "\
12:00:00  anna joined
12:00:04  agent: Welcome.
  (a greeting)
12:00:01  Anna (anna): What is 12*7?
  Please.
  thinking: I can work it out.
  thinking: Or not:
  a tool is surer.
  tool: calculator {\"expression\":\"12*7\"} → 84
  tool: calculator {\"expression\":\"12*7\"} → (no result)
12:00:04  agent: It is 84.
  (answered after 2.3 s; thought for 1.1 s in 2 steps; 100 tokens in, 20 out)
";
    assert_eq!(told(records), expected);
}

#[test]
fn what_is_sealed_is_said_to_be() {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "calculator".to_owned(),
        arguments: Ok(serde_json::Map::new()),
    };
    let tool = ToolBegun {
        message: "m1".to_owned(),
        call,
        request: String::new(),
        repeatable: true,
        handed: false,
        taint: Taint::default(),
        at: Time(NOON),
    };
    let records = [
        message("m1", None, "canary"),
        begun("m1", "am_1"),
        Record::ToolBegun(tool),
        Record::ToolEnded(ToolEnded { call: "c1".to_owned(), content: "canary".to_owned(), at: Time(NOON) }),
        thoughts(&["canary", "canary"]),
        answer("m1", "am_1", "canary", TurnEnd::Answered),
        vary("m1", VariationMode::Edit, Some("canary")),
    ];
    let mut telling = Telling::new(TimeZone::UTC, false);
    let sealed = |record: &Record| Entry {
        at: Time(0),
        record: record.without_content(),
        sealed: Some("its key is missing".to_owned()),
    };
    let told: String = records.iter().map(|record| telling.tell(&sealed(record))).collect();
    let expected = "\
12:00:01  anna: (sealed)
  thinking: (sealed)
  thinking: (sealed)
  tool: (sealed) → (sealed)
12:00:04  agent: (sealed)
  (answered after 2.3 s; thought for 1.1 s in 2 steps; 100 tokens in, 20 out)
12:00:05  ── branch 2: anna changes “(sealed)” to: (sealed)
";
    assert_eq!(told.replace(MARGIN, "  ").replace("2026-11-16 ", ""), expected);
}

#[test]
fn variations_are_branches() {
    let records = vec![
        message("m1", None, "What colour is it?"),
        begun("m1", "am_1"),
        answer("m1", "am_1", "Blue.", TurnEnd::Answered),
        vary("am_1", VariationMode::Regenerate, None),
        begun("m1", "am_2"),
        answer("m1", "am_2", "Green.", TurnEnd::Answered),
        vary("am_2", VariationMode::Continue, None),
        begun("m1", "am_3"),
        answer("m1", "am_3", "And round.", TurnEnd::Stopped),
        message("m2", Some("am_3"), "I see."),
        message("m3", Some("am_1"), "Blue, you said?"),
        vary("m1", VariationMode::Edit, Some("What colour is the ball?")),
        vary("gone", VariationMode::Regenerate, None),
    ];
    let how = "after 2.3 s; thought for 1.1 s in 2 steps; 100 tokens in, 20 out)";
    let expected = format!(
        "\
12:00:01  Anna (anna): What colour is it?
12:00:04  agent: Blue.
  (answered {how}
12:00:05  ── branch 2: anna asks for another answer to “Blue.”
12:00:04  agent (answer 2): Green.
  (answered {how}
12:00:05  anna asks to go on from “Green.”
12:00:04  agent (answer 3): And round.
  (stopped {how}
12:00:01  Anna (anna): I see.
12:00:01  ── branch 3: it goes on from “Blue.”
12:00:01  Anna (anna): Blue, you said?
12:00:05  ── branch 4: anna changes “What colour is it?” to: What colour is the ball?
12:00:05  ── branch 5: anna asks for another answer to something that is not kept any more
"
    );
    assert_eq!(told(records), expected);
}

#[test]
fn what_did_not_end_well_is_said() {
    let broken = |text: &str| {
        Record::BrokenOff(BrokenOff {
            message: "m1".to_owned(),
            answer: "am_1".to_owned(),
            text: text.to_owned(),
            at: Time(NOON),
        })
    };
    let records = vec![
        message("m1", None, "Well?"),
        begun("m1", "am_1"),
        broken("I am"),
        begun("m1", "am_2"),
        begun("m1", "am_3"),
        answer("m1", "", "", TurnEnd::Failed),
        message("m2", None, "And now?"),
        begun("m2", "am_4"),
    ];
    let expected = "\
12:00:01  Anna (anna): Well?
12:00:00  agent: I am
  (the agent ended here; it answers again)
  (the agent ended here; it answers again)
12:00:04  no answer to “Well?”
  (failed after 2.3 s; thought for 1.1 s in 2 steps; 100 tokens in, 20 out)
12:00:01  Anna (anna): And now?
  (not answered to the end yet)
";
    assert_eq!(told(records), expected);
}

#[test]
fn thoughts_are_dimmed_and_nothing_steers_the_terminal() {
    let records = vec![
        message("m1", None, "\x1b[31mRed?"),
        begun("m1", "am_1"),
        thoughts(&["Hm\x1b[0m."]),
        answer("m1", "am_1", "No\x07.", TurnEnd::Answered),
    ];
    let shown = told_in(true, records);
    assert!(shown.contains("\x1b[2mthinking: Hm[0m.\x1b[0m\n"), "{shown:?}");
    assert!(shown.contains("anna): [31mRed?\n") && shown.contains("agent: No.\n"), "{shown:?}");
}

#[test]
fn what_someone_was_asked_for_is_shown_whether_it_was_allowed_or_not() {
    let call = |id: &str| ToolCall { id: id.to_owned(), name: "mail".to_owned(), arguments: Ok(Map::new()) };
    let asked = |id: &str| {
        let (message, request) = ("m1".to_owned(), String::new());
        Record::ToolAsked(ToolAsked { message, call: call(id), request, at: Time(NOON) })
    };
    let ended = |id: &str, content: &str| {
        Record::ToolEnded(ToolEnded { call: id.to_owned(), content: content.to_owned(), at: Time(NOON) })
    };
    let allowed = ToolBegun {
        message: "m1".to_owned(),
        call: call("c2"),
        request: String::new(),
        repeatable: false,
        handed: false,
        taint: Taint::default(),
        at: Time(NOON),
    };
    let records = vec![
        message("m1", None, "Write."),
        begun("m1", "am_1"),
        asked("c1"),
        asked("c2"),
        ended("c1", "The user did not allow this call."),
        Record::ToolBegun(allowed),
        ended("c2", "sent"),
        answer("m1", "am_1", "Done.", TurnEnd::Answered),
    ];
    let told = told(records);
    let tools: Vec<&str> = told.lines().filter(|line| line.contains("tool:")).collect();
    assert_eq!(
        tools,
        [
            "  tool: mail {} (asked for, not run) → The user did not allow this call.",
            "  tool: mail {} → sent"
        ]
    );
}
