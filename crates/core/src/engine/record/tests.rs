use super::*;
use serde_json::{Value, json};

/// One of each kind, with a canary wherever somebody's words may be.
fn all() -> Vec<Record> {
    let canary = || "canary".to_owned();
    let id = || "m1".to_owned();
    let at = Time(1);
    let arguments = serde_json::Map::from_iter([("canary".to_owned(), "canary".into())]);
    let tool = |arguments| {
        let call = ToolCall { id: id(), name: canary(), arguments };
        Record::ToolBegun(ToolBegun {
            message: id(),
            call,
            request: id(),
            repeatable: true,
            handed: false,
            taint: Taint::default(),
            at,
        })
    };
    let (previous, name, text) = (Some(id()), canary(), canary());
    vec![
        Record::Joined(Joined { identity: id(), number: -1, at }),
        Record::Message(Message { id: id(), previous, from: id(), name, text, chat: true, at }),
        Record::Variation(Variation {
            from: id(),
            target: id(),
            mode: VariationMode::Edit,
            text: Some(canary()),
            at,
        }),
        Record::Stopped(Stopped { from: id(), target: Some(id()), all: true, coming: vec![id()], at }),
        Record::Begun(Begun { message: id(), answer: id(), number: -1, taint: Taint::default(), at }),
        Record::Reasoning(Reasoning { message: id(), answer: id(), steps: vec![canary(), canary()] }),
        Record::ToolAsked(ToolAsked {
            message: id(),
            call: ToolCall { id: id(), name: canary(), arguments: Ok(arguments.clone()) },
            request: id(),
            at,
        }),
        tool(Ok(arguments)),
        tool(Err(canary())),
        Record::ToolEnded(ToolEnded { call: id(), content: canary(), at }),
        Record::BrokenOff(BrokenOff { message: id(), answer: id(), text: canary(), at }),
        Record::Answer(Answer {
            message: Some(id()),
            answer: Some(id()),
            announced: true,
            text: canary(),
            taint: Taint::default(),
            end: TurnEnd::Stopped,
            steps: 2,
            thinking_ms: 3,
            total_ms: 4,
            usage: Usage { input: 5, ..Usage::default() },
            spent: Spent { tokens: 6, ..Spent::default() },
            at,
        }),
        Record::Reserved { number: -1 },
        Record::Stanza(Stanza { number: -1, audience: Audience::Everyone, bytes: b"canary".to_vec() }),
    ]
}

#[test]
fn without_content_nothing_is_left_of_what_was_said_and_all_that_is_counted_stays() {
    for record in all() {
        let bare = record.without_content();
        assert!(!format!("{bare:?}").contains("canary"), "{bare:?}");
        assert_eq!(std::mem::discriminant(&bare), std::mem::discriminant(&record));
        // All else is as it was: with the same words in both there is no difference any more.
        let again = |record: &Record| record.with_content(|| "same".to_owned());
        assert_eq!(again(&bare), again(&record));
        assert_eq!(Record::from_bytes(&bare.to_bytes()), Some(bare));
    }
}

#[test]
fn steps_are_counted_and_usage_stays() {
    let bare: Vec<_> = all().iter().map(Record::without_content).collect();
    let steps = bare.iter().find_map(|record| match record {
        Record::Reasoning(reasoning) => Some(reasoning.steps.len()),
        _ => None,
    });
    assert_eq!(steps, Some(2));
    let Some(Record::Answer(answer)) = bare.iter().find(|record| matches!(record, Record::Answer(_))) else {
        panic!("there is one")
    };
    assert_eq!((answer.usage.input, answer.spent.tokens, answer.end), (5, 6, TurnEnd::Stopped));
}

/// As an older version wrote it: without what was added since.
fn without_taint(record: &Record) -> Vec<u8> {
    let mut value: Value = rmp_serde::from_slice(&record.to_bytes()).expect("a record is a map");
    for fields in value.as_object_mut().expect("one kind").values_mut() {
        fields.as_object_mut().expect("its fields").remove("taint").expect("it is written");
    }
    rmp_serde::to_vec_named(&value).expect("it was read")
}

#[test]
fn records_of_older_versions_are_read() {
    let call = ToolCall {
        id: "call00001".to_owned(),
        name: "time".to_owned(),
        arguments: Ok(json!({"zone": "UTC"}).as_object().cloned().unwrap_or_default()),
    };
    let (message, request) = ("m1".to_owned(), "atu_1".to_owned());
    let begun = ToolBegun {
        message,
        call,
        request,
        repeatable: true,
        handed: false,
        taint: Taint::default(),
        at: Time(1),
    };
    let answer = Answer {
        message: Some("m1".to_owned()),
        answer: None,
        announced: false,
        text: String::new(),
        taint: Taint::default(),
        end: TurnEnd::Answered,
        steps: 0,
        thinking_ms: 0,
        total_ms: 0,
        usage: Usage::default(),
        spent: Spent::default(),
        at: Time(2),
    };
    for record in [Record::ToolBegun(begun), Record::Answer(answer)] {
        assert_eq!(Record::from_bytes(&without_taint(&record)), Some(record));
    }
}
