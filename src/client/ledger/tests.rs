use super::*;
use sotto_core::wire::body::{Acknowledgement, Commentary, ControlStop, ErrorMessage, StopType};

fn ledger() -> Ledger {
    Ledger::new("room".to_owned())
}

fn message(id: &str) -> Body {
    Body::UserMessage(UserMessage {
        id: id.to_owned(),
        previous_id: None,
        conversation_id: "room".to_owned(),
        content: format!("the text of {id}"),
        timestamp: None,
        attachments: None,
    })
}

fn stop() -> Body {
    let conversation_id = "room".to_owned();
    Body::ControlStop(ControlStop {
        conversation_id,
        target_id: None,
        reason: None,
        stop_type: StopType::default(),
    })
}

fn remark() -> Body {
    Body::Commentary(Commentary {
        id: "aucc_1".to_owned(),
        message_id: "m1".to_owned(),
        conversation_id: "room".to_owned(),
        content: "fine".to_owned(),
        commentary_type: None,
    })
}

fn from_agent(stanza: i32, body: Body) -> Envelope {
    Envelope { stanza, conversation: Some("room".to_owned()), meta: Map::new(), body }
}

/// A kept stanza that follows another.
fn after(previous: i32, stanza: i32) -> Envelope {
    let mut envelope = from_agent(stanza, remark());
    envelope.meta.insert(PREVIOUS.to_owned(), previous.into());
    envelope
}

fn acknowledgement(stanza: i32, of: i32, success: bool) -> Envelope {
    let conversation_id = "room".to_owned();
    from_agent(
        stanza,
        Body::Acknowledgement(Acknowledgement { conversation_id, acknowledged_stanza_id: of, success }),
    )
}

/// Numbers and ids of what would be sent again.
fn sent_again(ledger: &mut Ledger) -> Vec<(i32, String)> {
    let again = ledger.unacknowledged();
    again.into_iter().map(|e| (e.stanza, e.body.id().unwrap_or_default().to_owned())).collect()
}

#[test]
fn stanzas_are_counted_from_one_and_name_the_conversation() {
    let mut ledger = ledger();
    let sent = [message("m1"), stop(), message("m2")].map(|body| ledger.number(body));
    assert_eq!(sent.each_ref().map(|envelope| envelope.stanza), [1, 2, 3]);
    assert!(sent.iter().all(|envelope| envelope.conversation.as_deref() == Some("room")));
}

#[test]
fn what_nobody_acknowledged_is_sent_again_under_its_id_and_a_new_number() {
    let mut ledger = ledger();
    ledger.number(message("m1"));
    ledger.number(stop());
    ledger.number(message("m2"));
    let again = ledger.unacknowledged();
    assert_eq!(again.iter().map(|envelope| envelope.stanza).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(again[0].body, message("m1"));
    assert_eq!(again[1].body, message("m2"));
    assert_eq!(ledger.number(stop()).stanza, 6);
}

#[test]
fn an_acknowledgement_of_any_of_its_numbers_settles_a_message() {
    let mut ledger = ledger();
    ledger.number(message("m1"));
    ledger.number(message("m2"));
    assert_eq!(sent_again(&mut ledger), [(3, "m1".to_owned()), (4, "m2".to_owned())]);
    ledger.receive(&acknowledgement(-1, 1, true));
    assert_eq!(sent_again(&mut ledger), [(5, "m2".to_owned())]);
    ledger.receive(&acknowledgement(-2, 5, true));
    assert_eq!(sent_again(&mut ledger), []);
}

#[test]
fn what_was_refused_or_failed_is_not_sent_again_by_itself() {
    let mut ledger = ledger();
    ledger.number(message("m1"));
    ledger.number(message("m2"));
    ledger.receive(&acknowledgement(-1, 1, false));
    ledger.receive(&from_agent(
        -2,
        Body::ErrorMessage(ErrorMessage {
            id: "err_1".to_owned(),
            conversation_id: "room".to_owned(),
            code: 429,
            message: "Too much.".to_owned(),
            severity: 2,
            recoverable: true,
            originating_id: Some("m2".to_owned()),
        }),
    ));
    assert_eq!(sent_again(&mut ledger), []);
}

#[test]
fn a_message_can_be_taken_back_until_it_is_acknowledged() {
    let mut ledger = ledger();
    ledger.number(message("m1"));
    ledger.number(message("m2"));
    ledger.receive(&acknowledgement(-1, 1, true));
    assert!(!ledger.withdraw("m1"));
    assert!(ledger.withdraw("m2"));
    assert_eq!(sent_again(&mut ledger), []);
}

#[test]
fn a_replay_is_not_news() {
    let mut ledger = ledger();
    assert_eq!(ledger.receive(&from_agent(-1, remark())), Receipt::New);
    assert_eq!(ledger.receive(&from_agent(-2, remark())), Receipt::New);
    assert_eq!(ledger.receive(&from_agent(-1, remark())), Receipt::Known);
    assert_eq!(ledger.last_sequence_seen(), Some(2));
}

#[test]
fn an_agent_counts_down() {
    let mut ledger = ledger();
    assert_eq!(ledger.receive(&from_agent(1, remark())), Receipt::Known);
    assert_eq!(ledger.receive(&from_agent(0, remark())), Receipt::Known);
    assert_eq!(ledger.last_sequence_seen(), None);
}

#[test]
fn a_gap_is_seen_asked_for_once_and_closed() {
    let mut ledger = ledger();
    assert_eq!(ledger.receive(&after(0, -1)), Receipt::New);
    assert_eq!(ledger.receive(&after(-3, -5)), Receipt::NewButOneIsMissing);
    // What came before the missing one is complete.
    assert_eq!(ledger.last_sequence_seen(), Some(2));
    assert_eq!(ledger.receive(&after(-3, -6)), Receipt::New, "it was asked for");
    assert_eq!(ledger.receive(&after(-1, -3)), Receipt::New);
    assert_eq!(ledger.last_sequence_seen(), Some(6));
}

#[test]
fn what_was_sent_before_we_came_is_not_missing() {
    let mut ledger = ledger();
    assert_eq!(ledger.receive(&after(-40, -50)), Receipt::New);
    assert_eq!(ledger.receive(&after(-49, -51)), Receipt::New);
}

#[test]
fn a_nonsensical_predecessor_is_ignored() {
    let mut ledger = ledger();
    ledger.receive(&from_agent(-1, remark()));
    for previous in [i64::MIN, -9, 7, i64::MAX] {
        let mut envelope = from_agent(ledger.latest - 1, remark());
        envelope.meta.insert(PREVIOUS.to_owned(), previous.into());
        assert_eq!(ledger.receive(&envelope), Receipt::New, "{previous}");
    }
}

#[test]
fn another_agent_may_count_anew() {
    let mut ledger = ledger();
    for stanza in [-1, -2, -3] {
        ledger.receive(&from_agent(stanza, remark()));
    }
    ledger.agent_changed();
    // It may as well go on from there, and is told how far we are.
    assert_eq!(ledger.last_sequence_seen(), Some(3));
    assert_eq!(ledger.receive(&from_agent(-1, remark())), Receipt::New);
    assert_eq!(ledger.last_sequence_seen(), Some(1));
}

#[test]
fn what_is_remembered_has_an_end() {
    let mut ledger = ledger();
    for stanza in 1..=3 * REMEMBERED as i32 {
        assert_eq!(ledger.receive(&after(1 - stanza, -stanza)), Receipt::New);
    }
    assert_eq!(ledger.seen.len(), REMEMBERED);
    // Too long ago to know; not missing for all that.
    assert_eq!(ledger.receive(&after(-1, -3 * REMEMBERED as i32 - 1)), Receipt::New);
}
