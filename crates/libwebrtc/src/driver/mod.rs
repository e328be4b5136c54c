//! The driver: joins one [`Connection`] to sockets, the clock and the caller's callbacks.
//!
//! One task per connection on the shared runtime reads its sockets, keeps its time and sends what the engine
//! wants sent. It never runs the caller's code: callbacks run in a second task, on the runtime that made the
//! connection (`callbacks.rs`). Calls from outside and the task meet at one lock, [`Shared::call`], which is also
//! where a panic inside a connection is caught: it ends that connection alone.

pub(crate) mod addresses;
mod callbacks;
pub(crate) mod runtime;
mod sockets;

use std::{
    collections::HashMap,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Instant, SystemTime},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use callbacks::Callbacks;
use callbacks::{Notice, Outbox};
use sockets::Sockets;

use crate::{
    RtcError,
    data_channel::ChannelHandle,
    engine::{AudioPacket, ChannelKey, Connection, Event, Settings, TransceiverKey},
    ice_candidate::IceCandidate,
    media_stream_track::MediaStreamTrack,
    peer_connection::IceGatheringState,
    rtp_parameters::RtpParameters,
    rtp_transceiver::TransceiverHandle,
    stats::RtcStats,
};

/// Datagrams handled in one turn before others get the lock and the thread.
const DATAGRAMS_PER_TURN: usize = 64;

/// What a connection's handles share: the engine behind its lock, and everything around it.
pub(crate) struct Shared {
    connection: Mutex<Connection>,
    sockets: Mutex<Arc<Sockets>>,
    gathering: Mutex<IceGatheringState>,
    channels: Mutex<Vec<Arc<ChannelHandle>>>,
    transceivers: Mutex<Vec<Arc<TransceiverHandle>>>,
    pub(crate) callbacks: Arc<Callbacks>,
    outbox: Outbox,
    /// Until when the connection's task sleeps if nothing happens; changed and read under the connection's lock.
    sleeps_until: Mutex<Instant>,
    wake: Notify,
    #[cfg(feature = "sender-identity")]
    pub(crate) senders: crate::sender_identity::Registration,
}

impl Shared {
    /// Makes a connection and starts its tasks.
    pub(crate) fn start(settings: Settings) -> Result<Arc<Self>, RtcError> {
        let runtime = runtime::handle().map_err(|e| RtcError::internal(format!("no runtime: {e}")))?;
        let callbacks = Arc::new(Callbacks::default());
        let (outbox, inbox) = callbacks::queue();
        let now = Instant::now();
        let shared = Arc::new(Self {
            connection: Mutex::new(Connection::new(settings, now)),
            sockets: Mutex::default(),
            gathering: Mutex::new(IceGatheringState::New),
            channels: Mutex::default(),
            transceivers: Mutex::default(),
            callbacks,
            outbox,
            sleeps_until: Mutex::new(now),
            wake: Notify::new(),
            #[cfg(feature = "sender-identity")]
            senders: crate::sender_identity::Record::register(),
        });
        let callers_runtime = tokio::runtime::Handle::try_current().unwrap_or_else(|_| runtime.clone());
        callers_runtime.spawn(callbacks::run(inbox, Arc::downgrade(&shared)));
        runtime.spawn(drive(shared.clone()));
        Ok(shared)
    }

    /// Runs one call against the engine: brings the time up to date, and afterwards hands out what came of it.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&mut Connection) -> R) -> Result<R, RtcError> {
        let result = self.turn(|connection| {
            connection.advance(Instant::now());
            call(connection)
        });
        self.wake_if_needed();
        result
    }

    /// Most calls send something and are done: nobody need be woken for a moment that is later than the next one anyway.
    fn wake_if_needed(&self) {
        let connection = self.connection.lock();
        let is_needed = connection.is_closed()
            || connection.peek_transmit().is_some()
            || connection.next_timeout() < *self.sleeps_until.lock();
        if is_needed {
            self.wake.notify_one();
        }
    }

    /// Reads without changing anything.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Connection) -> R) -> R {
        read(&self.connection.lock())
    }

    fn turn<R>(&self, work: impl FnOnce(&mut Connection) -> R) -> Result<R, RtcError> {
        let sockets = self.sockets.lock().clone();
        let mut audio = Vec::new();
        let result = {
            let mut connection = self.connection.lock();
            let result = contained("a connection", || work(&mut connection));
            if result.is_none() {
                // The engine is not used again, except to be closed.
                connection.abandon();
            }
            sockets.send(&mut connection);
            // Under the lock, so that events keep their order whoever drains them.
            while let Some(event) = connection.poll_event() {
                self.hand_out(event, &connection, &mut audio);
            }
            result
        };
        for (key, packet) in audio {
            contained("playing a packet", || self.play(key, &packet));
        }
        result.ok_or_else(|| RtcError::internal("the connection panicked and is over"))
    }

    fn hand_out(
        &self,
        event: Event,
        connection: &Connection,
        audio: &mut Vec<(TransceiverKey, AudioPacket)>,
    ) {
        match event {
            Event::Audio { transceiver, packet } => audio.push((transceiver, packet)),
            // Handles exist before anyone can ask for them.
            Event::TransceiverFromPeer(key) => {
                let video = connection.transceiver(key).is_some_and(|t| t.kind.is_video());
                self.transceivers.lock().push(TransceiverHandle::new(key, video));
            }
            Event::ChannelFromPeer { key } => {
                let label = connection.channel_label(key).unwrap_or_default();
                self.channels.lock().push(ChannelHandle::new(key, label));
                self.outbox.push(Notice::Engine(Event::ChannelFromPeer { key }));
            }
            event => self.outbox.push(Notice::Engine(event)),
        }
    }

    fn play(&self, key: TransceiverKey, packet: &AudioPacket) {
        if let Some(handle) = self.transceiver(key)
            && let MediaStreamTrack::Audio(track) = &handle.remote_track
        {
            track.receive(packet);
        }
    }

    // ---- handles ------------------------------------------------------------------------------------------

    pub(crate) fn channel(&self, key: ChannelKey) -> Option<Arc<ChannelHandle>> {
        self.channels.lock().iter().find(|c| c.key == key).cloned()
    }

    pub(crate) fn add_channel(&self, handle: Arc<ChannelHandle>) {
        self.channels.lock().push(handle);
    }

    pub(crate) fn forget_channel(&self, key: ChannelKey) {
        self.channels.lock().retain(|c| c.key != key);
    }

    pub(crate) fn transceiver(&self, key: TransceiverKey) -> Option<Arc<TransceiverHandle>> {
        self.transceivers.lock().iter().find(|t| t.key == key).cloned()
    }

    pub(crate) fn transceivers(&self) -> Vec<Arc<TransceiverHandle>> {
        self.transceivers.lock().clone()
    }

    pub(crate) fn add_transceiver(&self, handle: Arc<TransceiverHandle>) {
        self.transceivers.lock().push(handle);
    }

    /// The reports behind `get_stats`: all, or those of one transceiver.
    pub(crate) fn statistics(&self, only: Option<TransceiverKey>) -> Vec<RtcStats> {
        let heard: HashMap<_, _> = self
            .transceivers()
            .iter()
            .filter_map(|handle| match &handle.remote_track {
                MediaStreamTrack::Audio(track) => track.receiver_stats().map(|stats| (handle.key, stats)),
                MediaStreamTrack::Video(_) => None,
            })
            .collect();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let reports = self.call(|connection| {
            #[cfg(feature = "sender-identity")]
            self.senders.is_known_as(&connection.local_username());
            connection.statistics(since_epoch.as_micros() as i64, only, &heard)
        });
        reports.unwrap_or_default()
    }

    /// What is agreed for one transceiver.
    pub(crate) fn rtp_parameters(&self, key: TransceiverKey) -> RtpParameters {
        self.read(|connection| connection.rtp_parameters(key))
    }

    // ---- candidates ---------------------------------------------------------------------------------------

    pub(crate) fn gathering_state(&self) -> IceGatheringState {
        *self.gathering.lock()
    }

    /// Opens a socket on each local address that has none yet. Cheap, so it is done before the first
    /// description is made: the candidates then travel in it and save a round trip.
    pub(crate) fn open_sockets(&self) -> Result<(), RtcError> {
        if self.read(Connection::is_closed) {
            return Err(RtcError::invalid_state("the connection is closed"));
        }
        let mut list = self.sockets.lock();
        let (sockets, opened) = list.with_new_addresses(&addresses::local_addresses());
        *list = Arc::new(sockets);
        drop(list);
        // Whoever sleeps does not listen to the new ones yet.
        self.wake.notify_one();
        for address in opened {
            self.call(|connection| connection.add_local_address(address))??;
        }
        Ok(())
    }

    /// Announces the candidates: after the local description is set, as libwebrtc does.
    pub(crate) fn announce_candidates(&self) {
        let mut gathering = self.gathering.lock();
        let sockets = self.sockets.lock().clone();
        let mid = self.read(Connection::first_mid);
        for address in sockets.unannounced() {
            if *gathering != IceGatheringState::Gathering {
                *gathering = IceGatheringState::Gathering;
                self.outbox.push(Notice::Gathering(IceGatheringState::Gathering));
            }
            if let Some(candidate) = local_candidate(&mid, address) {
                self.outbox.push(Notice::Candidate(candidate));
            }
        }
        if *gathering != IceGatheringState::Complete {
            *gathering = IceGatheringState::Complete;
            self.outbox.push(Notice::Gathering(IceGatheringState::Complete));
        }
    }

    pub(crate) fn negotiation_needed(&self) {
        self.outbox.push(Notice::NegotiationNeeded);
    }

    /// Ends the connection and lets go of everything: sockets, tasks, callbacks, tracks.
    pub(crate) fn close(&self) {
        // A panic while closing leaves nothing to do but to let go.
        let _ = self.call(Connection::close);
        *self.sockets.lock() = Arc::default();
        self.outbox.close();
        for transceiver in self.transceivers.lock().iter() {
            transceiver.end();
        }
    }
}

/// Runs something that must not take others with it when it panics.
pub(crate) fn contained<R>(what: &str, work: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(work));
    if result.is_err() {
        log::error!("{what} panicked; it ends, everything else goes on");
    }
    result.ok()
}

/// The same text that the description carries.
fn local_candidate(mid: &str, address: SocketAddr) -> Option<IceCandidate> {
    let candidate = str0m::Candidate::host(address, str0m::net::Protocol::Udp).ok()?;
    IceCandidate::parse(mid, 0, &candidate.to_sdp_string()).ok()
}

/// The connection's task: sockets and time in, datagrams out.
async fn drive(shared: Arc<Shared>) {
    let mut buffer = vec![0; sockets::MAX_DATAGRAM];
    loop {
        let sockets = shared.sockets.lock().clone();
        let (deadline, waiting) = {
            let connection = shared.connection.lock();
            if connection.is_closed() {
                return;
            }
            let deadline = connection.next_timeout();
            *shared.sleeps_until.lock() = deadline;
            (deadline, connection.peek_transmit().map(|transmit| transmit.source))
        };
        let full = shared.outbox.is_full();
        let writable = async {
            match waiting {
                Some(address) => sockets.writable(address).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.wake.notified() => {}
            () = tokio::time::sleep_until(deadline.into()) => {}
            // A caller that does not take its messages slows its own peer down, nobody else.
            () = sockets.readable(), if !full => {}
            () = shared.outbox.room(), if full => {}
            () = writable => {}
        }
        let turned = shared.turn(|connection| {
            let now = Instant::now();
            if shared.outbox.is_full() {
                connection.not_listening(now);
            } else {
                sockets.receive(connection, now, &mut buffer, DATAGRAMS_PER_TURN);
            }
            if connection.next_timeout() <= now {
                connection.handle_time(now);
            }
        });
        if turned.is_err() {
            return;
        }
    }
}
