//! [`RtcAudioTrack`]: sound on its way in or out, and the path of an outgoing track to its connection.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;

use crate::{
    RtcError,
    audio::{codec::OpusParams, receiver::ReceiverStats, sender::AudioSender},
    audio_source::native::NativeAudioSource,
    audio_stream::Listener,
    driver::Shared,
    engine::AudioPacket,
    media_stream_track::RtcTrackState,
    rtp_transceiver::TransceiverHandle,
};

/// An audio track: a local one is fed by a source, a remote one by the peer.
#[derive(Clone)]
pub struct RtcAudioTrack {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    enabled: AtomicBool,
    ended: AtomicBool,
    /// What arrives cannot be understood (encrypted end to end): it is not even decoded.
    refused: AtomicBool,
    source: Option<NativeAudioSource>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl RtcAudioTrack {
    pub(crate) fn local(id: &str, source: Option<NativeAudioSource>) -> Self {
        Self::new(id, source)
    }

    pub(crate) fn remote(id: &str) -> Self {
        Self::new(id, None)
    }

    fn new(id: &str, source: Option<NativeAudioSource>) -> Self {
        Self {
            inner: Arc::new(Inner {
                id: id.to_owned(),
                enabled: AtomicBool::new(true),
                ended: AtomicBool::new(false),
                refused: AtomicBool::new(false),
                source,
                listeners: Mutex::default(),
            }),
        }
    }

    /// The track's id.
    pub fn id(&self) -> String {
        self.inner.id.clone()
    }

    /// Whether it is enabled; a disabled track carries silence.
    pub fn enabled(&self) -> bool {
        self.inner.enabled.load(Ordering::Relaxed)
    }

    /// Enables or disables it. Returns whether that changed anything.
    pub fn set_enabled(&self, enabled: bool) -> bool {
        self.inner.enabled.swap(enabled, Ordering::Relaxed) != enabled
    }

    /// Whether it is live.
    pub fn state(&self) -> RtcTrackState {
        if self.inner.ended.load(Ordering::Relaxed) { RtcTrackState::Ended } else { RtcTrackState::Live }
    }

    pub(crate) fn listen(&self, listener: &Arc<Listener>) {
        let mut listeners = self.inner.listeners.lock();
        if self.state() == RtcTrackState::Ended {
            listener.end();
        } else {
            listeners.push(Arc::downgrade(listener));
        }
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        let mut listeners = self.inner.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }

    /// One packet of the peer, for everyone who listens.
    pub(crate) fn receive(&self, packet: &AudioPacket) {
        if !self.inner.refused.load(Ordering::Relaxed) {
            for listener in self.listeners() {
                listener.receive(packet);
            }
        }
    }

    pub(crate) fn refuse(&self) {
        self.inner.refused.store(true, Ordering::Relaxed);
    }

    /// The connection is closed: who listens is told.
    pub(crate) fn end(&self) {
        self.inner.ended.store(true, Ordering::Relaxed);
        for listener in self.listeners() {
            listener.end();
        }
    }

    /// What the first listener has made of the track so far; nobody decodes what nobody hears.
    pub(crate) fn receiver_stats(&self) -> Option<ReceiverStats> {
        self.listeners().first().map(|listener| listener.stats())
    }
}

impl fmt::Debug for RtcAudioTrack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtcAudioTrack")
            .field("id", &self.inner.id)
            .field("enabled", &self.enabled())
            .field("state", &self.state())
            .finish()
    }
}

/// The path of a local track to one connection: encodes what its source delivers.
pub(crate) struct AudioFeed {
    shared: Weak<Shared>,
    transceiver: Weak<TransceiverHandle>,
    track: RtcAudioTrack,
    /// The moment that the sender's time counts from.
    origin: Instant,
    sender: Mutex<AudioSender>,
}

/// One tick of a source: what there is to send for these 10 ms.
#[derive(Clone, Copy)]
pub(crate) enum Tick<'a> {
    /// Sound.
    Block(&'a [i16]),
    /// Nothing.
    Idle,
}

impl AudioFeed {
    /// Connects the track's source, if it has one. The feed ends when the returned value is dropped.
    pub(crate) fn connect(
        shared: &Arc<Shared>,
        transceiver: &Arc<TransceiverHandle>,
        track: &RtcAudioTrack,
    ) -> Result<Option<Arc<Self>>, RtcError> {
        let Some(source) = track.inner.source.as_ref() else { return Ok(None) };
        let sender =
            AudioSender::new(source.sample_rate(), source.num_channels() as u16, OpusParams::default())
                .map_err(|e| RtcError::invalid_state(e.to_string()))?;
        let feed = Arc::new(Self {
            shared: Arc::downgrade(shared),
            transceiver: Arc::downgrade(transceiver),
            track: track.clone(),
            origin: Instant::now(),
            sender: Mutex::new(sender),
        });
        source.feed(&feed);
        Ok(Some(feed))
    }

    /// Time passed in which nothing was or could be sent.
    pub(crate) fn skip(&self, ticks: u64) {
        self.sender.lock().advance(ticks);
    }

    /// Nothing is being sent, and silence need not be sent either.
    pub(crate) fn is_resting(&self) -> bool {
        self.sender.lock().is_resting() || !self.is_live()
    }

    fn is_live(&self) -> bool {
        let (Some(shared), Some(transceiver)) = (self.shared.upgrade(), self.transceiver.upgrade()) else {
            return false;
        };
        shared.read(|connection| connection.sending_params(transceiver.key).is_some())
    }

    /// Takes 10 ms of the source's time.
    pub(crate) fn tick(&self, tick: Tick<'_>) {
        let (Some(shared), Some(transceiver)) = (self.shared.upgrade(), self.transceiver.upgrade()) else {
            return;
        };
        let params = shared.read(|connection| connection.sending_params(transceiver.key));
        // While nothing would be sent nothing is encoded.
        let Some(params) = params.filter(|_| !transceiver.refuses_to_send()) else {
            self.skip(1);
            return;
        };
        let mut packets = Vec::new();
        let encoded = {
            let mut sender = self.sender.lock();
            let configured = if *sender.params() == params { Ok(()) } else { sender.set_params(params) };
            configured.and_then(|()| match tick {
                Tick::Block(pcm) => sender.push(pcm, !self.track.enabled(), &mut packets),
                Tick::Idle => sender.idle(&mut packets),
            })
        };
        if let Err(error) = encoded {
            log::error!("cannot encode the sound of track {}: {error}", self.track.inner.id);
        }
        if !packets.is_empty() {
            // A connection that is over drops its sound.
            let _ = shared.call(|connection| connection.send_audio(transceiver.key, self.origin, &packets));
        }
    }
}
