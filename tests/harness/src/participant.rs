//! A Rust participant as the tests need it: joins a room, waits for events with a deadline, never sleeps.

use std::{collections::VecDeque, fmt::Write, sync::Arc, time::Duration};

use livekit::{
    prelude::*,
    webrtc::stats::{RtcStats, dictionaries::IceCandidateStats},
};
use tokio::{
    runtime::Handle,
    sync::mpsc::UnboundedReceiver,
    time::{error::Elapsed, timeout},
};

use crate::{PATIENCE, server::Server};

/// How many peer connections a participant uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerConnections {
    /// One for both directions, the default.
    One,
    /// One to publish and one to subscribe.
    Two,
}

impl PeerConnections {
    /// The SDK's defaults with this number of peer connections.
    pub fn options(self) -> RoomOptions {
        let mut options = RoomOptions::default();
        options.single_peer_connection = self == Self::One;
        options
    }
}

/// A data packet as it arrived.
#[derive(Clone, Debug)]
pub struct Data {
    /// What was sent.
    pub payload: Arc<Vec<u8>>,
    /// Under which topic.
    pub topic: Option<String>,
    /// By whom, if the SDK knew.
    pub sender: Option<String>,
}

/// The two ends of a connection.
#[derive(Clone, Debug)]
pub struct CandidatePair {
    /// Ours.
    pub local: IceCandidateStats,
    /// The server's.
    pub remote: IceCandidateStats,
}

/// Somebody in a room.
pub struct Participant {
    /// The SDK's own room.
    pub room: Arc<Room>,
    identity: String,
    has_left: bool,
    events: UnboundedReceiver<RoomEvent>,
    /// Events that arrived while another one was awaited.
    unclaimed: VecDeque<RoomEvent>,
}

impl Participant {
    /// Joins with the SDK's defaults.
    pub async fn join(server: &Server, room: &str, identity: &str) -> Self {
        Self::join_with(server, room, identity, RoomOptions::default()).await
    }

    /// Joins with other options.
    pub async fn join_with(server: &Server, room: &str, identity: &str, options: RoomOptions) -> Self {
        let token = server.token(room, identity);
        Self::join_by(server, room, identity, &token, options).await
    }

    /// Joins with a token of the test's own, whose room and identity are given again.
    pub async fn join_with_token(server: &Server, room: &str, identity: &str, token: &str) -> Self {
        Self::join_by(server, room, identity, token, RoomOptions::default()).await
    }

    async fn join_by(server: &Server, room: &str, identity: &str, token: &str, options: RoomOptions) -> Self {
        let joined = timeout(PATIENCE, Room::connect(&server.url(), token, options)).await;
        let joined = joined.unwrap_or_else(|_| panic!("{identity} still joins {room} after {PATIENCE:?}"));
        let (room, events) = joined.unwrap_or_else(|error| panic!("{identity} cannot join {room}: {error}"));
        let room = Arc::new(room);
        Self { room, identity: identity.to_owned(), has_left: false, events, unclaimed: VecDeque::new() }
    }

    /// Its name in the room.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The first event, past or to come, from which `claim` takes something; no other call gets it again.
    pub async fn event<T>(&mut self, what: &str, claim: impl FnMut(&RoomEvent) -> Option<T>) -> T {
        self.event_within(PATIENCE, what, claim).await
    }

    /// Like [`Participant::event`], for what may take longer.
    pub async fn event_within<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut claim: impl FnMut(&RoomEvent) -> Option<T>,
    ) -> T {
        if let Some((index, claimed)) =
            self.unclaimed.iter().enumerate().find_map(|(index, event)| Some((index, claim(event)?)))
        {
            self.unclaimed.remove(index);
            return claimed;
        }
        let waiting = async {
            while let Some(event) = self.events.recv().await {
                if let Some(claimed) = claim(&event) {
                    return Some(claimed);
                }
                self.unclaimed.push_back(event);
            }
            None
        };
        match timeout(limit, waiting).await {
            Ok(Some(claimed)) => claimed,
            Ok(None) => {
                panic!("{} has no more events, awaiting: {what}; {}", self.identity, self.what_came())
            }
            Err(Elapsed { .. }) => panic!("{} awaited in vain: {what}; {}", self.identity, self.what_came()),
        }
    }

    /// Like [`Participant::event`] for an event that carries nothing of interest.
    pub async fn happens(&mut self, what: &str, is_it: impl Fn(&RoomEvent) -> bool) {
        self.event(what, |event| is_it(event).then_some(())).await;
    }

    /// Whether an event that nobody claimed has arrived by now.
    pub fn has_seen(&mut self, is_it: impl Fn(&RoomEvent) -> bool) -> bool {
        while let Ok(event) = self.events.try_recv() {
            self.unclaimed.push_back(event);
        }
        self.unclaimed.iter().any(is_it)
    }

    /// Waits until the other is in the room and can receive data.
    pub async fn meets(&mut self, identity: &str) {
        let there = self.room.remote_participants().into_values().any(|participant| {
            participant.identity().as_str() == identity
                && participant.state() == livekit::ParticipantState::Active
        });
        if !there {
            let what = format!("{identity} is active");
            self.happens(&what, |event| {
                matches!(event, RoomEvent::ParticipantActive(other) if other.identity().as_str() == identity)
            })
            .await;
        }
    }

    /// Sends one packet to everybody.
    pub async fn send(&self, payload: Vec<u8>, topic: &str, reliable: bool) {
        let packet = DataPacket { payload, topic: Some(topic.to_owned()), reliable, ..DataPacket::default() };
        let sent = self.room.local_participant().publish_data(packet).await;
        sent.unwrap_or_else(|error| panic!("{} cannot send: {error}", self.identity));
    }

    /// The next data packet.
    pub async fn data(&mut self) -> Data {
        self.event("a data packet", |event| match event {
            RoomEvent::DataReceived { payload, topic, participant, .. } => Some(Data {
                payload: payload.clone(),
                topic: topic.clone(),
                sender: participant.as_ref().map(|sender| sender.identity().to_string()),
            }),
            _ => None,
        })
        .await
    }

    /// The next audio track of that participant that it is subscribed to.
    pub async fn audio_of(&mut self, identity: &str) -> RemoteAudioTrack {
        let what = format!("the audio of {identity}");
        self.event(&what, |event| match event {
            RoomEvent::TrackSubscribed { track: RemoteTrack::Audio(track), participant, .. }
                if participant.identity().as_str() == identity =>
            {
                Some(track.clone())
            }
            _ => None,
        })
        .await
    }

    /// The candidate pairs in use, one for each peer connection that is connected.
    pub async fn candidate_pairs(&self) -> Vec<CandidatePair> {
        let stats = self.room.get_stats().await.expect("a connected room has statistics");
        [stats.publisher_stats, stats.subscriber_stats]
            .iter()
            .filter_map(|stats| selected_pair(stats))
            .collect()
    }

    /// Asserts that every connection runs over UDP: ICE over TCP would hide that UDP is broken.
    pub async fn assert_udp(&self) {
        let pairs = self.candidate_pairs().await;
        assert!(!pairs.is_empty(), "{} has no selected candidate pair", self.identity);
        for pair in pairs {
            assert_eq!(pair.local.protocol, "udp", "{}: {pair:?}", self.identity);
            assert_eq!(pair.remote.protocol, "udp", "{}: {pair:?}", self.identity);
        }
    }

    /// Leaves, with a deadline.
    pub async fn leave(mut self) {
        self.has_left = true;
        let left = timeout(PATIENCE, self.room.close()).await;
        let left = left.unwrap_or_else(|_| panic!("{} still leaves after {PATIENCE:?}", self.identity));
        left.unwrap_or_else(|error| panic!("{} cannot leave: {error}", self.identity));
    }

    fn what_came(&self) -> String {
        let mut came = String::from("what came instead:");
        for event in &self.unclaimed {
            let text = format!("{event:?}");
            let name = text.split([' ', '(', '{']).next().unwrap_or_default();
            let _ = write!(came, " {name}");
        }
        came
    }
}

impl Drop for Participant {
    /// A room whose handle is dropped lives on; it would disturb the tests that follow.
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.has_left, Handle::try_current()) {
            let room = self.room.clone();
            runtime.spawn(async move { room.close().await });
        }
    }
}

fn selected_pair(stats: &[RtcStats]) -> Option<CandidatePair> {
    let selected = stats.iter().find_map(|stat| match stat {
        RtcStats::Transport(transport) => Some(&transport.transport.selected_candidate_pair_id),
        _ => None,
    })?;
    let pair = stats.iter().find_map(|stat| match stat {
        RtcStats::CandidatePair(pair) if pair.rtc.id == *selected => Some(&pair.candidate_pair),
        _ => None,
    })?;
    let candidate = |id: &str| {
        stats.iter().find_map(|stat| match stat {
            RtcStats::LocalCandidate(local) if local.rtc.id == id => Some(local.local_candidate.clone()),
            RtcStats::RemoteCandidate(remote) if remote.rtc.id == id => Some(remote.remote_candidate.clone()),
            _ => None,
        })
    };
    Some(CandidatePair {
        local: candidate(&pair.local_candidate_id)?,
        remote: candidate(&pair.remote_candidate_id)?,
    })
}
