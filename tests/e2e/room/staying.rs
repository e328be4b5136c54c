//! Leaving, being sent away, and coming back.

use livekit::{DisconnectReason, prelude::*};
use livekit_api::services::room::RoomClient;
use serde_json::json;
use sotto::ports::RoomCommand;
use sotto_core::engine::event::AgentState;
use sotto_harness::{
    PATIENCE,
    participant::Participant,
    peer::Peer,
    server::{Server, new_room},
};
use std::time::Duration;
use tokio::time::timeout;

use super::{AGENT, Agent, joined, packet};

/// The SDK makes ten attempts with growing pauses.
const UNTIL_BACK: Duration = Duration::from_secs(120);

/// Everything that was said before the farewell arrives, and the server knows that it was one.
pub(crate) async fn leaving_says_all_that_was_to_be_said() {
    const PACKETS: u32 = 300;
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut agent = Agent::join(&server, &room).await;
    for number in 0..PACKETS {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(10_000, 1);
        agent.sends(bytes).await;
    }
    agent.does(RoomCommand::Leave).await;
    for number in 0..PACKETS {
        assert_eq!(anna.data().await.payload[..4], number.to_be_bytes());
    }
    assert_eq!(agent.closed().await, "we left");
    assert_gone(&mut anna).await;
    assert!(server.log().contains("CLIENT_REQUEST_LEAVE"), "{}", server.log());
    assert_eq!(server.complaints(), Vec::<String>::new());
}

pub(crate) async fn letting_go_is_leaving() {
    let server = Server::shared().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let agent = Agent::join(&server, &room).await;
    anna.meets(AGENT).await;
    agent.sends("last words").await;
    drop(agent);
    assert_eq!(anna.data().await.payload.as_slice(), b"last words");
    assert_gone(&mut anna).await;
}

async fn assert_gone(witness: &mut Participant) {
    let gone = witness.event("the agent leaves", |event| match event {
        RoomEvent::ParticipantDisconnected(participant) => Some(participant.clone()),
        _ => None,
    });
    let gone = gone.await;
    assert_eq!(gone.identity().as_str(), AGENT);
    assert_eq!(gone.disconnect_reason(), livekit::participant::DisconnectReason::ClientInitiated);
}

pub(crate) async fn being_sent_away_closes_the_room() {
    let server = Server::shared().await;
    let (key, secret) = server.api_key();
    let api = RoomClient::with_api_key(&format!("http://{}", server.signal_address()), key, secret);

    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    api.remove_participant(&room, AGENT).await.expect("the agent is there");
    assert_eq!(agent.closed().await, "we were removed from the room");
    let refused = timeout(PATIENCE, async {
        while agent.room.commands.send(RoomCommand::State(AgentState::Idle)).await.is_ok() {}
    });
    refused.await.expect("a room that is over takes no commands");

    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    api.delete_room(&room).await.expect("the room is there");
    assert_eq!(agent.closed().await, "the room was closed");

    let room = new_room();
    let mut agent = Agent::join(&server, &room).await;
    let second = Agent::join(&server, &room).await;
    assert!(agent.closed().await.contains("our identity"), "{:?}", DisconnectReason::DuplicateIdentity);
    drop(second);
}

/// A full reconnect: another connection, and a server that knows only what the token says.
pub(crate) async fn after_a_full_reconnect_all_is_as_before() {
    let server = Server::start().await;
    let room = new_room();
    let mut anna = Participant::join(&server, &room, "anna").await;
    let mut agent = Agent::join(&server, &room).await;
    assert_eq!(agent.next().await, joined("anna"));
    agent.does(RoomCommand::State(AgentState::Listening)).await;
    agent.sends("before").await;
    assert_eq!(anna.data().await.payload.as_slice(), b"before");

    assert!(*agent.room.connected.borrow());
    server.kill();
    anna.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
    let lost = timeout(PATIENCE, agent.room.connected.wait_for(|connected| !connected)).await;
    lost.expect("the agent notices").expect("the room is not over");
    server.restart().await;
    let back = |event: &RoomEvent| matches!(event, RoomEvent::Reconnected).then_some(());
    anna.event_within(UNTIL_BACK, "reconnected", back).await;
    let there = |event: &RoomEvent| {
        matches!(event, RoomEvent::ParticipantActive(other) if other.identity().as_str() == AGENT)
            .then_some(())
    };
    let met = anna.room.remote_participants().keys().any(|identity| identity.as_str() == AGENT);
    if !met {
        anna.event_within(UNTIL_BACK, "the agent is back", there).await;
    }
    let back = timeout(UNTIL_BACK, agent.room.connected.wait_for(|connected| *connected)).await;
    back.expect("the agent notices").expect("the room is not over");

    // The state is what it was, as a newcomer sees it, and the newcomer is heard at once as itself.
    let mut python = Peer::join(&server, &room, "python").await;
    python.send(&[b"I am new here".to_vec()], "").await;
    agent.happens(packet("python", "I am new here")).await;
    loop {
        let seen = python.call("look", json!({"who": AGENT})).await;
        if seen["attributes"]["lk.agent.state"] == "listening" {
            break;
        }
        python.event("attributes", |event| event["from"] == AGENT).await;
    }
    agent.sends("after").await;
    assert_eq!(python.data().await.payload.as_slice(), b"after");
    anna.send(b"so am I".to_vec(), "", true).await;
    agent.happens(packet("anna", "so am I")).await;
}
