use super::*;
use sotto_core::wire::body::{
    Acknowledgement, AssistantSentence, Configuration, ErrorMessage, StartAnswer, TurnMeta,
};

fn start(answer: &str, message: &str) -> Body {
    Body::StartAnswer(StartAnswer {
        id: answer.to_owned(),
        previous_id: message.to_owned(),
        conversation_id: "room".to_owned(),
        answer_type: None,
        planned_sentence_count: None,
    })
}

fn sentence(answer: &str, is_final: bool) -> Body {
    Body::AssistantSentence(AssistantSentence {
        id: None,
        previous_id: answer.to_owned(),
        conversation_id: "room".to_owned(),
        sequence: 1,
        text: "Yes.".to_owned(),
        is_final: Some(is_final),
        audio: None,
    })
}

fn error(about: Option<&str>, severity: i32) -> Body {
    Body::ErrorMessage(ErrorMessage {
        id: "err_1".to_owned(),
        conversation_id: "room".to_owned(),
        code: 503,
        message: "The model is gone.".to_owned(),
        severity,
        recoverable: true,
        originating_id: about.map(str::to_owned),
    })
}

fn figures(message: &str, answer: Option<&str>, interrupted: bool) -> Body {
    Body::TurnMeta(TurnMeta {
        message_id: message.to_owned(),
        conversation_id: "room".to_owned(),
        answer_id: answer.map(str::to_owned),
        input_tokens: None,
        output_tokens: None,
        reasoning_tokens: None,
        exact: false,
        effort: None,
        thinking_ms: 0,
        total_ms: 0,
        interrupted,
    })
}

fn acknowledgement(success: bool) -> Body {
    let conversation_id = "room".to_owned();
    Body::Acknowledgement(Acknowledgement { conversation_id, acknowledged_stanza_id: 1, success })
}

fn configuration(features: &[&str]) -> Body {
    let features = features.iter().map(|&feature| feature.to_owned()).collect();
    Body::Configuration(Configuration { features: Some(features), ..Configuration::default() })
}

fn asked() -> Dialogue {
    let mut dialogue = Dialogue::default();
    dialogue.said("m1".to_owned());
    dialogue
}

/// Answered once, and asked again.
fn asked_again() -> Dialogue {
    let mut dialogue = asked();
    dialogue.hear(&start("a1", "m1"));
    dialogue.hear(&sentence("a1", true));
    dialogue.hear(&figures("m1", Some("a1"), false));
    dialogue.varied("a1");
    dialogue
}

#[test]
fn a_turn_ends_with_its_figures() {
    let mut dialogue = asked();
    for body in [acknowledgement(true), start("a1", "m1"), sentence("a1", false)] {
        assert_eq!(dialogue.hear(&body), None);
    }
    assert!(!dialogue.is_as_good_as_over());
    assert_eq!(dialogue.hear(&sentence("a1", true)), None);
    assert!(dialogue.is_as_good_as_over());
    assert_eq!(dialogue.hear(&figures("m1", Some("a1"), false)), Some(Ending::Answered));
    assert_eq!(dialogue.running(), None);
    assert_eq!((dialogue.message(), dialogue.answer()), (Some("m1"), Some("a1")));
}

#[test]
fn an_agent_without_figures_ends_it_with_the_last_sentence() {
    let mut dialogue = asked();
    dialogue.hear(&configuration(&["streaming"]));
    dialogue.hear(&start("a1", "m1"));
    assert_eq!(dialogue.hear(&sentence("a1", true)), Some(Ending::Answered));
}

#[test]
fn an_answer_that_breaks_off_with_an_error_has_failed() {
    let mut dialogue = asked();
    dialogue.hear(&configuration(&["turn_meta"]));
    dialogue.hear(&start("a1", "m1"));
    dialogue.hear(&sentence("a1", true));
    assert_eq!(dialogue.hear(&error(Some("m1"), 2)), None);
    assert_eq!(dialogue.hear(&figures("m1", Some("a1"), false)), Some(Ending::Failed));
}

#[test]
fn what_is_refused_for_good_has_no_figures() {
    let mut dialogue = asked();
    assert_eq!(dialogue.hear(&error(Some("m1"), 2)), None);
    assert_eq!(dialogue.hear(&acknowledgement(false)), Some(Ending::Failed));
}

#[test]
fn an_error_about_nothing_in_particular_is_ours_and_a_notice_is_no_error() {
    let mut dialogue = asked();
    dialogue.hear(&error(Some("m1"), 1));
    dialogue.hear(&error(Some("7"), 2));
    assert!(!dialogue.is_as_good_as_over());
    dialogue.hear(&error(None, 2));
    assert!(dialogue.is_as_good_as_over());
    assert_eq!(dialogue.over(), Some(Ending::Failed));
}

#[test]
fn what_concerns_others_is_not_our_end() {
    let mut dialogue = asked();
    for body in [
        start("a9", "m9"),
        sentence("a9", true),
        error(Some("m9"), 2),
        figures("m9", Some("a9"), false),
        acknowledgement(false),
    ] {
        assert_eq!(dialogue.hear(&body), None, "{body:?}");
    }
    assert_eq!(dialogue.running(), Some("m1"));
    assert!(!dialogue.is_as_good_as_over());
    assert_eq!(dialogue.answer(), None);
}

#[test]
fn what_is_said_to_others_does_not_concern_us() {
    let mut dialogue = asked();
    for body in [start("a9", "m9"), sentence("a9", false), figures("m9", Some("a9"), false)] {
        dialogue.hear(&body);
        assert!(!dialogue.concerns_us(&body), "{body:?}");
    }
    for body in [start("a1", "m1"), sentence("a1", true), error(None, 2), figures("m1", Some("a1"), false)] {
        dialogue.hear(&body);
        assert!(dialogue.concerns_us(&body), "{body:?}");
    }
}

#[test]
fn another_answer_to_the_same_message_takes_the_place_of_the_first() {
    let mut dialogue = asked_again();
    assert_eq!(dialogue.running(), Some("m1"));
    dialogue.hear(&start("a2", "m1"));
    dialogue.hear(&sentence("a2", true));
    assert_eq!(dialogue.hear(&figures("m1", Some("a2"), false)), Some(Ending::Answered));
    assert_eq!(dialogue.answer(), Some("a2"));
}

#[test]
fn the_end_of_an_old_answer_is_not_that_of_the_new_one() {
    let mut dialogue = asked();
    dialogue.hear(&start("a1", "m1"));
    dialogue.varied("a1");
    assert_eq!(dialogue.hear(&sentence("a1", true)), None);
    assert_eq!(dialogue.hear(&figures("m1", Some("a1"), true)), None);
    assert!(!dialogue.is_as_good_as_over());
    dialogue.hear(&start("a2", "m1"));
    assert_eq!(dialogue.hear(&figures("m1", Some("a2"), false)), Some(Ending::Answered));
}

#[test]
fn nor_is_the_end_of_an_old_turn_that_had_not_said_anything() {
    let mut dialogue = asked();
    dialogue.varied("m1");
    assert_eq!(dialogue.hear(&figures("m1", None, true)), None);
    assert_eq!(dialogue.hear(&error(Some("m1"), 2)), None);
    assert_eq!(dialogue.hear(&figures("m1", None, false)), Some(Ending::Failed));
}

#[test]
fn an_error_may_name_what_was_to_be_varied() {
    let mut dialogue = asked_again();
    dialogue.hear(&error(Some("a1"), 2));
    assert_eq!(dialogue.hear(&acknowledgement(false)), Some(Ending::Failed));
}

#[test]
fn a_new_message_forgets_the_old_one() {
    let mut dialogue = asked();
    dialogue.hear(&start("a1", "m1"));
    dialogue.said("m2".to_owned());
    assert_eq!((dialogue.message(), dialogue.answer()), (Some("m2"), None));
    assert_eq!(dialogue.hear(&sentence("a1", true)), None);
    assert_eq!(dialogue.hear(&figures("m1", Some("a1"), true)), None);
    assert_eq!(dialogue.running(), Some("m2"));
}
