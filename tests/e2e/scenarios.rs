//! Every `SimulateScenario` of the SDK: what it promises happens, and nothing hangs.

use std::time::Duration;

use livekit::{SimulateScenario, prelude::*};
use sotto_harness::{
    PATIENCE,
    participant::{Participant, PeerConnections},
    server::{Server, new_room},
    tone::{Ear, LEVEL, Tone, Voice},
};
use tokio::time::timeout;

use crate::counting::{Counting, count_until, next_number};

/// The SDK makes ten attempts with growing pauses, and gives each up to 15 s.
const UNTIL_GIVEN_UP: Duration = Duration::from_secs(150);

/// Two participants, both counting, the first one speaking.
struct Scene {
    /// The one whose connection suffers.
    anna: Participant,
    boris: Participant,
    ear: Ear,
    _voice: Voice,
    annas_count: Counting,
    boriss_count: Counting,
}

impl Scene {
    async fn new(connections: PeerConnections) -> Self {
        let server = Server::shared().await;
        let room = new_room();
        let mut anna = Participant::join_with(&server, &room, "anna", connections.options()).await;
        let mut boris = Participant::join_with(&server, &room, "boris", connections.options()).await;
        anna.meets("boris").await;
        boris.meets("anna").await;
        let voice = Voice::publish(&anna, "voice", Tone::mono(440.0)).await;
        let mut ear = Ear::new(&boris.audio_of("anna").await, 48_000, 1);
        ear.expect_tone(&[440.0], LEVEL).await;
        let (annas_count, boriss_count) = (Counting::start(&anna), Counting::start(&boris));
        // Both ways work before anything happens.
        next_number(&mut boris).await;
        next_number(&mut anna).await;
        Self { anna, boris, ear, _voice: voice, annas_count, boriss_count }
    }

    async fn simulate(&self, scenario: SimulateScenario) {
        let simulated = timeout(PATIENCE, self.anna.room.simulate_scenario(scenario)).await;
        simulated.expect("the call returns").expect("the scenario starts");
    }

    async fn reconnects(&mut self) {
        self.anna.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
        self.anna.happens("reconnected", |event| matches!(event, RoomEvent::Reconnected)).await;
        assert_eq!(self.anna.room.connection_state(), ConnectionState::Connected);
    }

    /// After a resume nobody else has noticed anything: every packet once, in order, and the sound goes on.
    async fn nothing_was_lost(mut self) {
        self.ear.expect_tone(&[440.0], LEVEL).await;
        let sent = self.annas_count.stop().await;
        let heard = count_until(&mut self.boris, *sent.last().expect("it counted")).await;
        assert_eq!(heard, sent[1..], "anna's packets, without the first, which was heard before");
        let sent = self.boriss_count.stop().await;
        let heard = count_until(&mut self.anna, *sent.last().expect("it counted")).await;
        assert_eq!(heard, sent[1..], "boris's packets, without the first, which was heard before");
        self.anna.assert_udp().await;
    }

    /// After a new session the SDK promises no lost packet back, but order, no packet twice, and that all goes on.
    async fn all_goes_on(mut self) {
        let mut ear = Ear::new(&self.boris.audio_of("anna").await, 48_000, 1);
        ear.expect_tone(&[440.0], LEVEL).await;
        self.anna.meets("boris").await;
        self.boris.meets("anna").await;
        for (count, listener) in [(self.annas_count, &mut self.boris), (self.boriss_count, &mut self.anna)] {
            let last = count.stop().await.last().copied().expect("it counted");
            let heard = count_until(listener, last).await;
            assert!(heard.is_sorted_by(|before, after| before < after), "out of order or twice: {heard:?}");
        }
        self.anna.assert_udp().await;
    }
}

pub(crate) async fn speaker() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::Speaker).await;
    scene
        .boris
        .happens("anna is a speaker", |event| {
            matches!(event, RoomEvent::ActiveSpeakersChanged { speakers }
                if speakers.iter().any(|speaker| speaker.identity().as_str() == "anna"))
        })
        .await;
    scene.nothing_was_lost().await;
}

pub(crate) async fn signal_reconnect() {
    resume(PeerConnections::One).await;
}

pub(crate) async fn signal_reconnect_with_two_peer_connections() {
    resume(PeerConnections::Two).await;
}

async fn resume(connections: PeerConnections) {
    let mut scene = Scene::new(connections).await;
    scene.simulate(SimulateScenario::SignalReconnect).await;
    scene.reconnects().await;
    assert!(!scene.boris.has_seen(|event| matches!(event, RoomEvent::ParticipantDisconnected(_))));
    scene.nothing_was_lost().await;
}

pub(crate) async fn full_reconnect() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::FullReconnect).await;
    scene.reconnects().await;
    scene.anna.happens("republished", |event| matches!(event, RoomEvent::LocalTrackRepublished { .. })).await;
    scene.all_goes_on().await;
}

pub(crate) async fn migration() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::Migration).await;
    scene.reconnects().await;
    scene.all_goes_on().await;
}

pub(crate) async fn node_failure() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::NodeFailure).await;
    scene.reconnects().await;
    scene.all_goes_on().await;
}

pub(crate) async fn disconnect_signal_on_resume() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::DisconnectSignalOnResume).await;
    scene.reconnects().await;
    scene.all_goes_on().await;
}

pub(crate) async fn server_leave() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::ServerLeave).await;
    scene.anna.happens("disconnected", |event| matches!(event, RoomEvent::Disconnected { .. })).await;
    scene
        .boris
        .happens("anna is gone", |event| {
            matches!(event, RoomEvent::ParticipantDisconnected(other) if other.identity().as_str() == "anna")
        })
        .await;
    assert_eq!(scene.anna.room.connection_state(), ConnectionState::Disconnected);
}

/// We have no ICE over TCP yet: the server waits five seconds for it, allows UDP again, and the SDK's next attempt
/// comes back over UDP. The later issue that adds TURN and TCP changes this to a TCP pair.
pub(crate) async fn force_tcp() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::ForceTcp).await;
    scene.anna.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
    let reconnected = |event: &RoomEvent| matches!(event, RoomEvent::Reconnected).then_some(());
    scene.anna.event_within(UNTIL_GIVEN_UP, "reconnected", reconnected).await;
    scene.all_goes_on().await;
}

/// The server now allows nothing but relays, there is none, and TURN does not exist yet: after its ten attempts the
/// SDK says that it is over. The later issue that adds TURN and TCP changes this to a relayed pair.
pub(crate) async fn force_tls() {
    let mut scene = Scene::new(PeerConnections::One).await;
    scene.simulate(SimulateScenario::ForceTls).await;
    scene.anna.happens("reconnecting", |event| matches!(event, RoomEvent::Reconnecting)).await;
    let disconnected = |event: &RoomEvent| matches!(event, RoomEvent::Disconnected { .. }).then_some(());
    scene.anna.event_within(UNTIL_GIVEN_UP, "disconnected", disconnected).await;
    assert_eq!(scene.anna.room.connection_state(), ConnectionState::Disconnected);
}
