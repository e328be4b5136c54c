//! Our own attributes, as others in the room see them.
//!
//! `livekit` begins to wait for the server's answer only after it has sent the request, so a quick answer is missed and
//! the call takes five seconds to fail. Therefore the server's news that our attributes have changed counts as an answer,
//! too.

use livekit::Room;
use livekit::RoomError;
use livekit::prelude::{Participant, RoomEvent};
use std::collections::HashMap;
use std::future::pending;

/// Sets attributes and waits until the server has announced them. Not for values that they already have: then any news
/// of us would count.
pub(super) async fn set(room: &Room, attributes: HashMap<String, String>) -> Result<(), RoomError> {
    let mut events = room.subscribe();
    let ourselves = room.local_participant();
    // As a task, so that the request is sent whichever answer comes first.
    let asking = tokio::spawn({
        let (ourselves, attributes) = (ourselves.clone(), attributes.clone());
        async move { ourselves.set_attributes(attributes).await }
    });
    let announced = async {
        while let Some(event) = events.recv().await {
            if concerns_us(&event) {
                let now = ourselves.attributes();
                if attributes.iter().all(|(key, value)| now.get(key) == Some(value)) {
                    return;
                }
            }
        }
        // The room is over; the request says so.
        pending::<()>().await;
    };
    tokio::select! {
        answer = asking => answer.unwrap_or_else(|panic| Err(RoomError::Internal(panic.to_string()))),
        () = announced => Ok(()),
    }
}

fn concerns_us(event: &RoomEvent) -> bool {
    let is_us = |participant: &Participant| matches!(participant, Participant::Local(_));
    matches!(event, RoomEvent::ParticipantsUpdated { participants } if participants.iter().any(is_us))
}
