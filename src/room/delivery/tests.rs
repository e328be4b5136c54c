//! A session that does not keep up.

use super::*;
use sotto_core::engine::event::Participant;

const PLACES: usize = 16;
const SHARE: usize = PLACES / 4;

fn delivery(budget: usize) -> (Delivery, mpsc::Receiver<RoomEvent>) {
    let (tell, events) = mpsc::channel(PLACES);
    (Delivery::new(tell, ByteBudget::new(budget), Arc::default()), events)
}

fn packet(from: &str, number: u8) -> RoomEvent {
    RoomEvent::Packet { from: from.to_owned(), bytes: vec![number] }
}

fn overflowed(from: &str, packets: u32) -> RoomEvent {
    RoomEvent::Overflowed { from: from.to_owned(), packets }
}

fn joined(identity: &str) -> RoomEvent {
    RoomEvent::Joined(Participant { identity: identity.to_owned(), name: String::new() })
}

fn left(identity: &str) -> RoomEvent {
    RoomEvent::Left { identity: identity.to_owned() }
}

/// As the order of a sender's words does it.
fn hand_over(delivery: &mut Delivery, from: &str, bytes: usize, event: RoomEvent) {
    match delivery.budget.reserve(bytes) {
        Some(reserved) => delivery.hand_over_reserved(from, reserved, event),
        None => delivery.drop_one(from),
    }
}

fn send(delivery: &mut Delivery, from: &str, numbers: std::ops::Range<u8>) {
    for number in numbers {
        hand_over(delivery, from, 1, packet(from, number));
    }
}

#[tokio::test]
async fn a_flood_takes_only_its_share_and_is_told_once() {
    let (mut delivery, mut events) = delivery(1_000);
    send(&mut delivery, "flood", 0..100);
    send(&mut delivery, "quiet", 0..2);
    for number in 0..SHARE as u8 {
        assert_eq!(events.recv().await, Some(packet("flood", number)));
    }
    for number in 0..2 {
        assert_eq!(events.recv().await, Some(packet("quiet", number)));
    }
    delivery.catch_up().await;
    assert_eq!(events.recv().await, Some(overflowed("flood", 100 - SHARE as u32)));
    assert!(!delivery.is_behind());
    send(&mut delivery, "flood", 7..8);
    assert_eq!(events.recv().await, Some(packet("flood", 7)));
    assert_eq!(delivery.counts.overflowed.get(), 100 - SHARE as u64);
}

#[tokio::test]
async fn news_are_never_lost_and_stay_in_order() {
    let (mut delivery, mut events) = delivery(1_000);
    for number in 0..PLACES {
        delivery.tell(joined(&number.to_string()));
    }
    delivery.tell(joined("late"));
    send(&mut delivery, "late", 0..3);
    delivery.tell(joined("unseen"));
    delivery.tell(left("unseen"));
    delivery.tell(left("0"));
    for number in 0..PLACES {
        assert_eq!(events.recv().await, Some(joined(&number.to_string())));
    }
    let (rest, ()) = tokio::join!(
        async { [events.recv().await, events.recv().await, events.recv().await, events.recv().await] },
        delivery.close("done".to_owned())
    );
    let closed = RoomEvent::Closed { reason: "done".to_owned() };
    assert_eq!(rest, [Some(joined("late")), Some(left("0")), Some(overflowed("late", 3)), Some(closed)]);
}

/// Someone spoke before it was announced, its name found no room, and then it left.
#[tokio::test]
async fn who_was_told_of_is_seen_to_leave() {
    let (mut delivery, mut events) = delivery(1_000);
    delivery.tell(joined("anna"));
    for number in 1..PLACES {
        delivery.tell(joined(&number.to_string()));
    }
    let named = Participant { identity: "anna".to_owned(), name: "Anna".to_owned() };
    delivery.tell(RoomEvent::Joined(named));
    delivery.tell(left("anna"));
    // Back and gone again while nobody looked.
    delivery.tell(joined("anna"));
    delivery.tell(left("anna"));
    assert_eq!(events.recv().await, Some(joined("anna")));
    for number in 1..PLACES {
        assert_eq!(events.recv().await, Some(joined(&number.to_string())));
    }
    delivery.catch_up().await;
    assert_eq!(events.recv().await, Some(left("anna")));
    assert!(!delivery.is_behind() && events.is_empty());
}

#[tokio::test]
async fn waiting_bytes_are_part_of_the_budget_until_they_are_taken() {
    let (mut delivery, mut events) = delivery(10);
    let large = || RoomEvent::Packet { from: "anna".to_owned(), bytes: vec![0; 6] };
    hand_over(&mut delivery, "anna", 6, large());
    hand_over(&mut delivery, "anna", 6, large());
    assert_eq!(events.recv().await, Some(large()));
    delivery.catch_up().await;
    assert_eq!(events.recv().await, Some(overflowed("anna", 1)));
    hand_over(&mut delivery, "anna", 6, large());
    assert_eq!(events.recv().await, Some(large()));
}

#[tokio::test]
async fn nothing_is_kept_for_a_session_that_is_gone() {
    let (mut delivery, events) = delivery(1_000);
    send(&mut delivery, "flood", 0..100);
    drop(events);
    delivery.close("done".to_owned()).await;
}

#[tokio::test]
async fn why_something_was_refused_is_told_even_when_the_budget_is_used_up() {
    let (mut delivery, mut events) = delivery(0);
    delivery.refuse("anna", "too much at once".to_owned(), true);
    let refused =
        RoomEvent::Refused { from: "anna".to_owned(), reason: "too much at once".to_owned(), for_now: true };
    assert_eq!(events.recv().await, Some(refused));
    // But not without end.
    for _ in 0..2 * SHARE {
        delivery.refuse("anna", "too much at once".to_owned(), true);
    }
    assert!(delivery.is_behind());
}
