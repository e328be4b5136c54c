//! [`PeerConnection`]: the handle on one connection.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use str0m::media::MediaKind;

use crate::{
    MediaType, RtcError,
    data_channel::{ChannelHandle, DataChannel, DataChannelInit},
    driver::Shared,
    engine::{Connection, Settings},
    ice_candidate::{IceCandidate, Resolved},
    media_stream::MediaStream,
    media_stream_track::MediaStreamTrack,
    peer_connection_factory::{IceTransportsType, RtcConfiguration},
    rtp_receiver::RtpReceiver,
    rtp_sender::RtpSender,
    rtp_transceiver::{RtpTransceiver, RtpTransceiverDirection, RtpTransceiverInit, TransceiverHandle},
    session_description::SessionDescription,
    stats::RtcStats,
};

/// The state of the whole connection.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum PeerConnectionState {
    /// Nothing has been tried yet.
    New,
    /// Looking for a path, or making it secure.
    Connecting,
    /// Data can flow.
    Connected,
    /// Nothing has been heard for a while; it may come back.
    Disconnected,
    /// It will not come back without help.
    Failed,
    /// Closed by us.
    Closed,
}

/// The state of the search for a path.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum IceConnectionState {
    /// Not begun.
    New,
    /// Trying pairs of addresses.
    Checking,
    /// A pair works.
    Connected,
    /// A pair works and no other is left to try.
    Completed,
    /// No pair works.
    Failed,
    /// The pair in use is silent.
    Disconnected,
    /// Closed by us.
    Closed,
    /// Only counts the others, in the original; never reported.
    Max,
}

/// Whether our own addresses are known.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum IceGatheringState {
    /// Not asked for.
    New,
    /// Being announced.
    Gathering,
    /// All announced.
    Complete,
}

/// Where the exchange of descriptions stands.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum SignalingState {
    /// Nothing open.
    Stable,
    /// Our offer waits for its answer.
    HaveLocalOffer,
    /// Never reached: provisional answers are not supported.
    HaveLocalPrAnswer,
    /// Their offer waits for our answer.
    HaveRemoteOffer,
    /// Never reached: provisional answers are not supported.
    HaveRemotePrAnswer,
    /// Closed by us.
    Closed,
}

/// What an offer is to contain.
#[derive(Debug, Clone, Default)]
pub struct OfferOptions {
    /// Look for a path anew.
    pub ice_restart: bool,
    /// Accepted for compatibility: add a transceiver instead.
    pub offer_to_receive_audio: bool,
    /// Accepted for compatibility: add a transceiver instead.
    pub offer_to_receive_video: bool,
}

/// What an answer is to contain: nothing can be chosen.
#[derive(Debug, Clone, Default)]
pub struct AnswerOptions {}

/// Limits of the bandwidth estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BitrateSettings {
    /// Lower limit.
    pub min_bitrate_bps: Option<u64>,
    /// Where to begin.
    pub start_bitrate_bps: Option<u64>,
    /// Upper limit.
    pub max_bitrate_bps: Option<u64>,
}

/// Why an address of ours could not be found.
#[derive(Debug, Clone)]
pub struct IceCandidateError {
    /// Our own address.
    pub address: String,
    /// Its port.
    pub port: i32,
    /// The server that was asked.
    pub url: String,
    /// Its answer.
    pub error_code: i32,
    /// Its answer in words.
    pub error_text: String,
}

/// The peer has begun to send a track.
#[derive(Debug, Clone)]
pub struct TrackEvent {
    /// Where it arrives.
    pub receiver: RtpReceiver,
    /// The streams it belongs to.
    pub streams: Vec<MediaStream>,
    /// The track.
    pub track: MediaStreamTrack,
    /// Its transceiver.
    pub transceiver: RtpTransceiver,
}

/// Called when the connection's state changes.
pub type OnConnectionChange = Box<dyn FnMut(PeerConnectionState) + Send + Sync>;
/// Called when the peer opens a data channel.
pub type OnDataChannel = Box<dyn FnMut(DataChannel) + Send + Sync>;
/// Called with each of our own addresses.
pub type OnIceCandidate = Box<dyn FnMut(IceCandidate) + Send + Sync>;
/// Called when an address could not be found. Never, as no server is asked for one.
pub type OnIceCandidateError = Box<dyn FnMut(IceCandidateError) + Send + Sync>;
/// Called when the search for a path changes its state.
pub type OnIceConnectionChange = Box<dyn FnMut(IceConnectionState) + Send + Sync>;
/// Called when the announcing of our addresses begins and ends.
pub type OnIceGatheringChange = Box<dyn FnMut(IceGatheringState) + Send + Sync>;
/// Called when a new offer would be needed.
pub type OnNegotiationNeeded = Box<dyn FnMut(u32) + Send + Sync>;
/// Called when the exchange of descriptions moves on.
pub type OnSignalingChange = Box<dyn FnMut(SignalingState) + Send + Sync>;
/// Called when the peer begins to send a track.
pub type OnTrack = Box<dyn FnMut(TrackEvent) + Send + Sync>;

/// One connection. Clones are handles on the same one; when the last is dropped it is closed.
#[derive(Clone)]
pub struct PeerConnection {
    owner: Arc<Owner>,
}

/// Closes the connection when no handle is left.
struct Owner {
    shared: Arc<Shared>,
    /// The next offer restarts ICE.
    restart_ice: AtomicBool,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl PeerConnection {
    pub(crate) fn new(config: &RtcConfiguration) -> Result<Self, RtcError> {
        check_configuration(config)?;
        let shared = Shared::start(Settings { sctp_snap: config.enable_sctp_snap })?;
        Ok(Self { owner: Arc::new(Owner { shared, restart_ice: AtomicBool::new(false) }) })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Takes new ICE servers. They are not used yet: only direct UDP paths are tried.
    pub fn set_configuration(&self, config: RtcConfiguration) -> Result<(), RtcError> {
        check_configuration(&config)
    }

    /// Accepted without effect: audio needs no bandwidth estimate, and video is not sent.
    pub fn set_bitrate(&self, _settings: BitrateSettings) -> Result<(), RtcError> {
        Ok(())
    }

    /// Makes an offer of everything that was added so far.
    pub async fn create_offer(&self, options: OfferOptions) -> Result<SessionDescription, RtcError> {
        let restart = options.ice_restart || self.owner.restart_ice.swap(false, Ordering::Relaxed);
        self.shared().open_sockets()?;
        self.shared().call(|connection| connection.create_offer(restart))?
    }

    /// Answers the remote offer that was set last.
    pub async fn create_answer(&self, _options: AnswerOptions) -> Result<SessionDescription, RtcError> {
        self.shared().call(Connection::create_answer)?
    }

    /// Puts a description of ours into force and announces our addresses.
    pub async fn set_local_description(&self, desc: SessionDescription) -> Result<(), RtcError> {
        self.shared().call(|connection| connection.set_local(desc))??;
        self.shared().announce_candidates();
        Ok(())
    }

    /// Puts a description of the peer into force.
    pub async fn set_remote_description(&self, desc: SessionDescription) -> Result<(), RtcError> {
        // An answer that is made of it shall name our addresses.
        self.shared().open_sockets()?;
        self.shared().call(|connection| connection.set_remote(desc))?
    }

    /// Tries one more address of the peer. Those that cannot be used here are skipped without an error.
    pub async fn add_ice_candidate(&self, candidate: IceCandidate) -> Result<(), RtcError> {
        match candidate.resolve()? {
            Resolved::Usable(address) => self.shared().call(|c| c.add_remote_candidate(address))?,
            Resolved::Ignored(why) => {
                log::debug!("skipped a candidate: {why}");
                Ok(())
            }
        }
    }

    /// Adds a data channel. It opens when the connection stands.
    pub fn create_data_channel(&self, label: &str, init: DataChannelInit) -> Result<DataChannel, RtcError> {
        let shared = self.shared();
        // The handle is there before the first event of the channel can be.
        let handle = shared.call(|connection| {
            let handle = ChannelHandle::new(connection.create_channel(label, init)?, label.to_owned());
            shared.add_channel(handle.clone());
            Ok::<_, RtcError>(handle)
        })??;
        Ok(DataChannel::of(shared, handle))
    }

    /// Adds a track to be sent, on a transceiver of its own.
    pub fn add_track<T: AsRef<str>>(
        &self,
        track: MediaStreamTrack,
        streams_ids: &[T],
    ) -> Result<RtpSender, RtcError> {
        let init = RtpTransceiverInit {
            direction: RtpTransceiverDirection::SendRecv,
            stream_ids: streams_ids.iter().map(|id| id.as_ref().to_owned()).collect(),
            send_encodings: Vec::new(),
        };
        Ok(self.add_transceiver(track, init)?.sender())
    }

    /// Stops sending a track. The peer learns of it with the next offer.
    pub fn remove_track(&self, sender: RtpSender) -> Result<(), RtcError> {
        if self.shared().read(Connection::is_closed) {
            return Err(RtcError::invalid_state("the connection is closed"));
        }
        sender.detach(self.shared())
    }

    /// What is known of the connection's work so far.
    pub async fn get_stats(&self) -> Result<Vec<RtcStats>, RtcError> {
        Ok(self.shared().statistics(None))
    }

    /// Adds a line for a track to be sent.
    pub fn add_transceiver(
        &self,
        track: MediaStreamTrack,
        init: RtpTransceiverInit,
    ) -> Result<RtpTransceiver, RtcError> {
        let video = matches!(track, MediaStreamTrack::Video(_));
        let transceiver = self.new_transceiver(video, init, Some(track.id()))?;
        transceiver.sender().set_track(Some(track))?;
        Ok(transceiver)
    }

    /// Adds a line for a track that the peer may send.
    pub fn add_transceiver_for_media(
        &self,
        media_type: MediaType,
        init: RtpTransceiverInit,
    ) -> Result<RtpTransceiver, RtcError> {
        match media_type {
            MediaType::Audio | MediaType::Video => {
                self.new_transceiver(media_type == MediaType::Video, init, None)
            }
            other => {
                Err(RtcError::invalid_state(format!("a transceiver is for audio or video, not {other:?}")))
            }
        }
    }

    fn new_transceiver(
        &self,
        video: bool,
        init: RtpTransceiverInit,
        track_id: Option<String>,
    ) -> Result<RtpTransceiver, RtcError> {
        let kind = if video { MediaKind::Video } else { MediaKind::Audio };
        let stream_id = init.stream_ids.into_iter().next();
        let max_bitrate = init.send_encodings.first().and_then(|encoding| encoding.max_bitrate);
        let shared = self.shared();
        let handle = shared.call(|connection| {
            if connection.is_closed() {
                return Err(RtcError::invalid_state("the connection is closed"));
            }
            let key = connection.add_transceiver(kind, init.direction, stream_id, track_id);
            if let Some(transceiver) = connection.transceiver_mut(key) {
                transceiver.max_bitrate = max_bitrate.map(|bits| u32::try_from(bits).unwrap_or(u32::MAX));
            }
            let handle = TransceiverHandle::new(key, video);
            shared.add_transceiver(handle.clone());
            Ok(handle)
        })??;
        shared.negotiation_needed();
        Ok(RtpTransceiver::of(shared, handle))
    }

    /// Closes the connection for good.
    pub fn close(&self) {
        self.shared().close();
    }

    /// The next offer will look for a path anew.
    pub fn restart_ice(&self) {
        self.owner.restart_ice.store(true, Ordering::Relaxed);
        self.shared().negotiation_needed();
    }

    /// The state of the whole connection.
    pub fn connection_state(&self) -> PeerConnectionState {
        self.shared().read(Connection::connection_state)
    }

    /// The state of the search for a path.
    pub fn ice_connection_state(&self) -> IceConnectionState {
        self.shared().read(Connection::ice_state)
    }

    /// Whether our own addresses are known.
    pub fn ice_gathering_state(&self) -> IceGatheringState {
        self.shared().gathering_state()
    }

    /// Where the exchange of descriptions stands.
    pub fn signaling_state(&self) -> SignalingState {
        self.shared().read(Connection::signaling_state)
    }

    /// Our description of the last completed exchange.
    pub fn current_local_description(&self) -> Option<SessionDescription> {
        self.shared().read(Connection::current_local_description)
    }

    /// The peer's description of the last exchange.
    pub fn current_remote_description(&self) -> Option<SessionDescription> {
        self.shared().read(Connection::current_remote_description)
    }

    /// The sending half of every transceiver.
    pub fn senders(&self) -> Vec<RtpSender> {
        self.transceivers().iter().map(RtpTransceiver::sender).collect()
    }

    /// The receiving half of every transceiver.
    pub fn receivers(&self) -> Vec<RtpReceiver> {
        self.transceivers().iter().map(RtpTransceiver::receiver).collect()
    }

    /// Every transceiver, in the order of creation.
    pub fn transceivers(&self) -> Vec<RtpTransceiver> {
        self.shared().transceivers().into_iter().map(|t| RtpTransceiver::of(self.shared(), t)).collect()
    }

    /// Sets what is called when the connection's state changes.
    pub fn on_connection_state_change(&self, f: Option<OnConnectionChange>) {
        self.shared().callbacks.connection.set(f);
    }

    /// Sets what is called when the peer opens a data channel.
    pub fn on_data_channel(&self, f: Option<OnDataChannel>) {
        self.shared().callbacks.data_channel.set(f);
    }

    /// Sets what is called with each of our addresses.
    pub fn on_ice_candidate(&self, f: Option<OnIceCandidate>) {
        self.shared().callbacks.ice_candidate.set(f);
    }

    /// Sets what would be called when an address cannot be found.
    pub fn on_ice_candidate_error(&self, f: Option<OnIceCandidateError>) {
        self.shared().callbacks.ice_candidate_error.set(f);
    }

    /// Sets what is called when the search for a path changes its state.
    pub fn on_ice_connection_state_change(&self, f: Option<OnIceConnectionChange>) {
        self.shared().callbacks.ice_connection.set(f);
    }

    /// Sets what is called when the announcing of our addresses begins and ends.
    pub fn on_ice_gathering_state_change(&self, f: Option<OnIceGatheringChange>) {
        self.shared().callbacks.ice_gathering.set(f);
    }

    /// Sets what is called when a new offer is needed.
    pub fn on_negotiation_needed(&self, f: Option<OnNegotiationNeeded>) {
        self.shared().callbacks.negotiation_needed.set(f);
    }

    /// Sets what is called when the exchange of descriptions moves on.
    pub fn on_signaling_state_change(&self, f: Option<OnSignalingChange>) {
        self.shared().callbacks.signaling.set(f);
    }

    /// Sets what is called when the peer begins to send a track.
    pub fn on_track(&self, f: Option<OnTrack>) {
        self.shared().callbacks.track.set(f);
    }
}

/// Only direct paths exist here: whoever forbids them would wait for nothing.
fn check_configuration(config: &RtcConfiguration) -> Result<(), RtcError> {
    if config.ice_transport_type == IceTransportsType::All {
        return Ok(());
    }
    Err(RtcError::invalid_state(
        "this build of libwebrtc (pure Rust) has no TURN yet: ice_transport_type must be All",
    ))
}

impl fmt::Debug for PeerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerConnection").field("state", &self.connection_state()).finish_non_exhaustive()
    }
}
