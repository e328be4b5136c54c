//! The caller's callbacks, run in order by a task of their own, never under a lock of the connection.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Shared, contained};
use crate::{
    callback::Callback,
    data_channel::{DataChannel, DataChannelState},
    engine::{Event, TransceiverKey},
    ice_candidate::IceCandidate,
    peer_connection::{
        IceGatheringState, OnConnectionChange, OnDataChannel, OnIceCandidate, OnIceCandidateError,
        OnIceConnectionChange, OnIceGatheringChange, OnNegotiationNeeded, OnSignalingChange, OnTrack,
        TrackEvent,
    },
    rtp_transceiver::RtpTransceiver,
};

/// Messages the caller has not taken yet; beyond this the connection stops reading from the network.
const MAX_UNDELIVERED_BYTES: usize = 32 * 1024 * 1024;

/// What the caller has registered.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) connection: Callback<OnConnectionChange>,
    pub(crate) ice_connection: Callback<OnIceConnectionChange>,
    pub(crate) ice_gathering: Callback<OnIceGatheringChange>,
    pub(crate) ice_candidate: Callback<OnIceCandidate>,
    pub(crate) ice_candidate_error: Callback<OnIceCandidateError>,
    pub(crate) signaling: Callback<OnSignalingChange>,
    pub(crate) negotiation_needed: Callback<OnNegotiationNeeded>,
    pub(crate) data_channel: Callback<OnDataChannel>,
    pub(crate) track: Callback<OnTrack>,
}

impl Callbacks {
    /// Lets go of everything the closures hold.
    fn clear(&self) {
        self.connection.set(None);
        self.ice_connection.set(None);
        self.ice_gathering.set(None);
        self.ice_candidate.set(None);
        self.ice_candidate_error.set(None);
        self.signaling.set(None);
        self.negotiation_needed.set(None);
        self.data_channel.set(None);
        self.track.set(None);
    }
}

#[derive(Debug)]
pub(crate) enum Notice {
    Engine(Event),
    Candidate(IceCandidate),
    Gathering(IceGatheringState),
    /// The peer connection needs a new offer.
    NegotiationNeeded,
}

impl Notice {
    fn bytes(&self) -> usize {
        match self {
            Self::Engine(Event::ChannelMessage { data, .. }) => data.len(),
            _ => 0,
        }
    }
}

/// The connection's end of the queue to its callbacks.
pub(crate) struct Outbox(Arc<Queue>);

struct Queue {
    state: Mutex<QueueState>,
    arrived: Notify,
    taken: Notify,
}

#[derive(Default)]
struct QueueState {
    notices: VecDeque<Notice>,
    bytes: usize,
    closed: bool,
}

pub(crate) struct Inbox(Arc<Queue>);

pub(crate) fn queue() -> (Outbox, Inbox) {
    let queue = Arc::new(Queue { state: Mutex::default(), arrived: Notify::new(), taken: Notify::new() });
    (Outbox(queue.clone()), Inbox(queue))
}

impl Outbox {
    pub(crate) fn push(&self, notice: Notice) {
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.bytes += notice.bytes();
        state.notices.push_back(notice);
        drop(state);
        self.0.arrived.notify_one();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.state.lock().bytes > MAX_UNDELIVERED_BYTES
    }

    /// Waits until the caller has taken something.
    pub(crate) async fn room(&self) {
        self.0.taken.notified().await;
    }

    /// What is queued is still delivered, then the callbacks are dropped.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.arrived.notify_one();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inbox {
    async fn next(&self) -> Option<Notice> {
        loop {
            let arrived = self.0.arrived.notified();
            {
                let mut state = self.0.state.lock();
                if let Some(notice) = state.notices.pop_front() {
                    let was_full = state.bytes > MAX_UNDELIVERED_BYTES;
                    state.bytes -= notice.bytes();
                    if was_full && state.bytes <= MAX_UNDELIVERED_BYTES {
                        self.0.taken.notify_one();
                    }
                    return Some(notice);
                }
                if state.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

pub(crate) async fn run(inbox: Inbox, shared: Weak<Shared>) {
    let callbacks = match shared.upgrade() {
        Some(shared) => shared.callbacks.clone(),
        None => return,
    };
    while let Some(notice) = inbox.next().await {
        let Some(shared) = shared.upgrade() else { break };
        // The caller's panic is the caller's bug: it must neither stop later callbacks nor kill this task.
        contained("a callback of a peer connection", || deliver(notice, &shared));
    }
    callbacks.clear();
}

fn deliver(notice: Notice, shared: &Arc<Shared>) {
    let callbacks = &shared.callbacks;
    match notice {
        Notice::Candidate(candidate) => {
            callbacks.ice_candidate.run(|callback| callback(candidate));
        }
        Notice::Gathering(state) => {
            callbacks.ice_gathering.run(|callback| callback(state));
        }
        Notice::NegotiationNeeded => {
            callbacks.negotiation_needed.run(|callback| callback(0));
        }
        Notice::Engine(event) => deliver_event(event, shared),
    }
}

fn deliver_event(event: Event, shared: &Arc<Shared>) {
    let callbacks = &shared.callbacks;
    match event {
        Event::Ice(state) => {
            callbacks.ice_connection.run(|callback| callback(state));
        }
        Event::Connection(state) => {
            callbacks.connection.run(|callback| callback(state));
        }
        Event::Signaling(state) => {
            callbacks.signaling.run(|callback| callback(state));
        }
        Event::Track(key) => deliver_track(key, shared),
        Event::ChannelFromPeer { key } => {
            if let Some(channel) = shared.channel(key) {
                callbacks.data_channel.run(|callback| callback(DataChannel::of(shared, channel)));
            }
        }
        Event::ChannelState { key, state } => {
            if let Some(channel) = shared.channel(key) {
                channel.state_changed(state);
                if state == DataChannelState::Closed {
                    channel.release();
                    shared.forget_channel(key);
                }
            }
        }
        Event::ChannelMessage { key, data, binary } => {
            #[cfg(feature = "sender-identity")]
            if !shared.senders.admit(&data) {
                return;
            }
            if let Some(channel) = shared.channel(key) {
                channel.message(data, binary);
            }
        }
        Event::ChannelDrained { key, bytes } => {
            if let Some(channel) = shared.channel(key) {
                channel.drained(bytes);
            }
        }
        // Handed out before they get here (see `Shared::hand_out`).
        Event::Audio { .. } | Event::TransceiverFromPeer(_) => {}
    }
}

fn deliver_track(key: TransceiverKey, shared: &Arc<Shared>) {
    let Some(handle) = shared.transceiver(key) else { return };
    let transceiver = RtpTransceiver::of(shared, handle);
    let receiver = transceiver.receiver();
    let Some(track) = receiver.track() else { return };
    let event = TrackEvent { streams: receiver.streams(), receiver, track, transceiver };
    shared.callbacks.track.run(|callback| callback(event));
}
