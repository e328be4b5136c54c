//! [`DataChannel`]: a handle on one data channel of a connection.

use std::{
    collections::VecDeque,
    fmt,
    str::Utf8Error,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use serde::Deserialize;
use thiserror::Error;

use crate::{callback::Callback, driver::Shared, engine::ChannelKey, rtp_parameters::Priority};

/// Messages kept for a channel that nobody listens to yet. libwebrtc's limit.
const MAX_UNHEARD_BYTES: usize = 16 * 1024 * 1024;

/// How a channel is to be opened.
#[derive(Clone, Debug)]
pub struct DataChannelInit {
    /// Messages arrive in the order they were sent.
    pub ordered: bool,
    /// Give up on a message after so many milliseconds.
    pub max_retransmit_time: Option<i32>,
    /// Give up on a message after so many repetitions.
    pub max_retransmits: Option<i32>,
    /// The application's name for what travels here.
    pub protocol: String,
    /// Both sides open the channel by themselves, under the same `id`.
    pub negotiated: bool,
    /// The SCTP stream, when negotiated.
    pub id: i32,
    /// Accepted for compatibility; all channels are served alike.
    pub priority: Option<Priority>,
}

impl Default for DataChannelInit {
    fn default() -> Self {
        Self {
            ordered: true,
            max_retransmit_time: None,
            max_retransmits: None,
            protocol: String::new(),
            negotiated: false,
            id: -1,
            priority: None,
        }
    }
}

/// Why a message was not taken.
#[derive(Debug, Error)]
pub enum DataChannelError {
    /// The channel is not open, its buffer is full, or the message is larger than the peer accepts.
    #[error("failed to send data: the channel is not open, its buffer is full, or the message is too large")]
    Send,
    /// A text message must be UTF-8.
    #[error("only utf8 strings can be sent")]
    Utf8(#[from] Utf8Error),
}

/// Where a channel is in its life.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataChannelState {
    /// Not open yet.
    Connecting,
    /// Messages can be sent.
    Open,
    /// Being closed.
    Closing,
    /// Gone.
    Closed,
}

/// One received message.
#[derive(Debug)]
pub struct DataBuffer<'a> {
    /// Its bytes.
    pub data: &'a [u8],
    /// Sent as bytes, not as text.
    pub binary: bool,
}

/// Called when the channel's state changes.
pub type OnStateChange = Box<dyn FnMut(DataChannelState) + Send + Sync>;
/// Called for each received message.
pub type OnMessage = Box<dyn FnMut(DataBuffer) + Send + Sync>;
/// Called with the number of bytes that have left the send buffer since the last call.
pub type OnBufferedAmountChange = Box<dyn FnMut(u64) + Send + Sync>;

/// What all clones of a [`DataChannel`] share.
pub(crate) struct ChannelHandle {
    pub(crate) key: ChannelKey,
    label: String,
    on_state: Callback<OnStateChange>,
    on_message: Callback<OnMessage>,
    on_buffered_amount: Callback<OnBufferedAmountChange>,
    /// Messages that came before anyone listened. Also the lock that keeps messages in order.
    unheard: Mutex<Unheard>,
}

#[derive(Default)]
struct Unheard {
    messages: VecDeque<(Vec<u8>, bool)>,
    bytes: usize,
    delivering: bool,
}

/// Ends one delivery, also when the callback panics.
struct Delivered<'a>(&'a Mutex<Unheard>);

impl Drop for Delivered<'_> {
    fn drop(&mut self) {
        self.0.lock().delivering = false;
    }
}

impl ChannelHandle {
    pub(crate) fn new(key: ChannelKey, label: String) -> Arc<Self> {
        Arc::new(Self {
            key,
            label,
            on_state: Callback::default(),
            on_message: Callback::default(),
            on_buffered_amount: Callback::default(),
            unheard: Mutex::default(),
        })
    }

    pub(crate) fn state_changed(&self, state: DataChannelState) {
        self.on_state.run(|callback| callback(state));
    }

    pub(crate) fn drained(&self, bytes: u64) {
        self.on_buffered_amount.run(|callback| callback(bytes));
    }

    pub(crate) fn message(&self, data: Vec<u8>, binary: bool) {
        let mut unheard = self.unheard.lock();
        if unheard.bytes + data.len() > MAX_UNHEARD_BYTES {
            log::warn!(
                "data channel {:?}: nobody listens and its buffer is full; a message is lost",
                self.label
            );
            return;
        }
        unheard.bytes += data.len();
        unheard.messages.push_back((data, binary));
        drop(unheard);
        self.deliver();
    }

    /// Hands out what has come, as long as someone listens. One delivery runs at a time: whoever comes while it
    /// runs (a callback that sets another callback, say) leaves the rest to it.
    fn deliver(&self) {
        loop {
            let (data, binary) = {
                let mut unheard = self.unheard.lock();
                if unheard.delivering || !self.on_message.is_set() {
                    return;
                }
                let Some(message) = unheard.messages.pop_front() else { return };
                unheard.bytes -= message.0.len();
                unheard.delivering = true;
                message
            };
            // However the callback ends, later messages find the way free.
            let _delivered = Delivered(&self.unheard);
            self.on_message.run(|callback| callback(DataBuffer { data: &data, binary }));
        }
    }

    /// Lets go of the callbacks and whatever they hold.
    pub(crate) fn release(&self) {
        self.on_state.set(None);
        self.on_message.set(None);
        self.on_buffered_amount.set(None);
    }
}

/// A data channel.
#[derive(Clone)]
pub struct DataChannel {
    shared: Weak<Shared>,
    handle: Arc<ChannelHandle>,
}

impl DataChannel {
    pub(crate) fn of(shared: &Arc<Shared>, handle: Arc<ChannelHandle>) -> Self {
        Self { shared: Arc::downgrade(shared), handle }
    }

    /// Sends one message. It is taken whole or refused; see [`Self::buffered_amount`] for what waits.
    pub fn send(&self, data: &[u8], binary: bool) -> Result<(), DataChannelError> {
        if !binary {
            std::str::from_utf8(data)?;
        }
        let shared = self.shared.upgrade().ok_or(DataChannelError::Send)?;
        let sent = shared.call(|connection| connection.send(self.handle.key, data, binary));
        sent.and_then(|sent| sent).map_err(|error| {
            log::debug!("data channel {:?}: {}", self.handle.label, error.message);
            DataChannelError::Send
        })
    }

    /// The SCTP stream id, or -1 while it is not known.
    pub fn id(&self) -> i32 {
        self.read(-1, |connection| connection.channel_stream_id(self.handle.key))
    }

    /// The name it was opened with.
    pub fn label(&self) -> String {
        self.handle.label.clone()
    }

    /// Where it is in its life.
    pub fn state(&self) -> DataChannelState {
        self.read(DataChannelState::Closed, |connection| connection.channel_state(self.handle.key))
    }

    /// Closes it. What is buffered may be lost.
    pub fn close(&self) {
        if let Some(shared) = self.shared.upgrade() {
            // A connection that is over has closed its channels already.
            let _ = shared.call(|connection| connection.close_channel(self.handle.key));
        }
    }

    /// Bytes accepted by [`Self::send`] that the peer has not acknowledged yet.
    pub fn buffered_amount(&self) -> u64 {
        self.read(0, |connection| connection.buffered_amount(self.handle.key))
    }

    /// Sets what is called when the state changes.
    pub fn on_state_change(&self, callback: Option<OnStateChange>) {
        self.handle.on_state.set(callback);
    }

    /// Sets what is called for each message. Messages that came before are handed over at once.
    pub fn on_message(&self, callback: Option<OnMessage>) {
        self.handle.on_message.set(callback);
        self.handle.deliver();
    }

    /// Sets what is called when bytes have left the buffer.
    pub fn on_buffered_amount_change(&self, callback: Option<OnBufferedAmountChange>) {
        self.handle.on_buffered_amount.set(callback);
    }

    fn read<R>(&self, gone: R, read: impl FnOnce(&crate::engine::Connection) -> R) -> R {
        self.shared.upgrade().map_or(gone, |shared| shared.read(read))
    }
}

impl fmt::Debug for DataChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataChannel").field("label", &self.handle.label).finish_non_exhaustive()
    }
}
