//! Data channels: their states, what waits to be sent, and the exact count of buffered bytes.
//!
//! The count is the contract: `livekit` adds a message's bytes before it sends and subtracts what
//! `on_buffered_amount_change` reports, so the sum of all reports must equal the sum of all accepted messages,
//! never more at any moment. Bytes are therefore counted *before* they are written and reports are derived only
//! from that count, all under the connection's one lock.

use std::collections::VecDeque;

use str0m::{
    Rtc,
    channel::{ChannelConfig, ChannelId, Reliability},
};

use super::Event;
use crate::{
    RtcError,
    data_channel::{DataChannelInit, DataChannelState},
};

/// Like libwebrtc's: beyond this `send` refuses.
pub(crate) const MAX_QUEUED_BYTES: u64 = 16 * 1024 * 1024;
/// How much may be inside SCTP at once, over all channels: bounds throughput to this much per round trip.
pub(crate) const SCTP_BUFFER_BYTES: usize = 1024 * 1024;

/// Channels of one connection, beyond which those of the peer are closed again. LiveKit uses three.
const MAX_CHANNELS: usize = 256;

/// A channel's number within its connection, from its creation on (the SCTP stream id comes later).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ChannelKey(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) key: ChannelKey,
    pub(crate) label: String,
    pub(crate) init: DataChannelInit,
    pub(crate) state: DataChannelState,
    /// Known once `str0m` has the channel.
    pub(crate) id: Option<ChannelId>,
    queue: VecDeque<Message>,
    /// Bytes accepted by `send` and not yet reported as sent.
    buffered: u64,
    /// Those of them that SCTP has not taken yet.
    queued: u64,
}

#[derive(Debug)]
struct Message {
    data: Vec<u8>,
    binary: bool,
}

impl Channel {
    /// What `str0m` needs to open it.
    pub(crate) fn config(&self) -> ChannelConfig {
        let clamp = |value: i32| u16::try_from(value).unwrap_or(u16::MAX);
        ChannelConfig {
            label: self.label.clone(),
            ordered: self.init.ordered,
            reliability: match (self.init.max_retransmits, self.init.max_retransmit_time) {
                (Some(retransmits), _) => Reliability::MaxRetransmits { retransmits: clamp(retransmits) },
                (None, Some(lifetime)) => Reliability::MaxPacketLifetime { lifetime: clamp(lifetime) },
                (None, None) => Reliability::Reliable,
            },
            negotiated: self.init.negotiated.then(|| clamp(self.init.id)),
            protocol: self.init.protocol.clone(),
        }
    }

    pub(crate) fn is_waiting_to_open(&self) -> bool {
        self.id.is_none() && self.state == DataChannelState::Connecting
    }
}

/// All channels of one connection.
#[derive(Debug)]
pub(crate) struct Channels {
    list: Vec<Channel>,
    next_key: usize,
    max_message: usize,
}

impl Default for Channels {
    fn default() -> Self {
        // What RFC 8841 assumes of a peer that says nothing.
        Self { list: Vec::new(), next_key: 0, max_message: 65_536 }
    }
}

impl Channels {
    pub(crate) fn create(&mut self, label: &str, init: DataChannelInit) -> Result<ChannelKey, RtcError> {
        if init.max_retransmits.is_some() && init.max_retransmit_time.is_some() {
            return Err(RtcError::invalid_state(
                "a data channel is limited by retransmits or by time, not both",
            ));
        }
        if init.negotiated {
            if !(0..=65_534).contains(&init.id) {
                return Err(RtcError::invalid_state("a negotiated data channel needs an id from 0 to 65534"));
            }
            let taken = |c: &Channel| c.init.negotiated && c.init.id == init.id;
            if self.list.iter().any(taken) {
                return Err(RtcError::invalid_state(format!("data channel id {} is taken", init.id)));
            }
        }
        Ok(self.insert(label.to_owned(), init, None, DataChannelState::Connecting))
    }

    fn insert(
        &mut self,
        label: String,
        init: DataChannelInit,
        id: Option<ChannelId>,
        state: DataChannelState,
    ) -> ChannelKey {
        let key = ChannelKey(self.next_key);
        self.next_key += 1;
        self.list.push(Channel {
            key,
            label,
            init,
            state,
            id,
            queue: VecDeque::new(),
            buffered: 0,
            queued: 0,
        });
        key
    }

    /// The peer takes no larger messages; larger ones than SCTP's buffer could never be sent either.
    pub(crate) fn limit_messages(&mut self, bytes: usize) {
        self.max_message = bytes.min(SCTP_BUFFER_BYTES);
    }

    pub(crate) fn get(&self, key: ChannelKey) -> Option<&Channel> {
        self.list.iter().find(|c| c.key == key)
    }

    fn get_mut(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        self.list.iter_mut().find(|c| c.key == key)
    }

    fn by_id(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.list.iter_mut().find(|c| c.id == Some(id))
    }

    pub(crate) fn state(&self, key: ChannelKey) -> DataChannelState {
        self.get(key).map_or(DataChannelState::Closed, |c| c.state)
    }

    pub(crate) fn buffered(&self, key: ChannelKey) -> u64 {
        self.get(key).map_or(0, |c| c.buffered)
    }

    pub(crate) fn waiting_to_open(&self) -> impl Iterator<Item = &Channel> {
        self.list.iter().filter(|c| c.is_waiting_to_open())
    }

    /// `str0m` has allocated the channel (it opens once SCTP is up).
    pub(crate) fn assign(&mut self, key: ChannelKey, id: ChannelId, rtc: &mut Rtc) {
        let Some(channel) = self.get_mut(key) else { return };
        channel.id = Some(id);
        if channel.state != DataChannelState::Connecting {
            // Closed by the caller while its offer was under way.
            rtc.direct_api().close_data_channel(id);
        }
    }

    /// Once the SCTP association is negotiated, further channels need no offer. Those that an open offer names
    /// already have their number in it and open with its answer.
    pub(crate) fn open_waiting(&mut self, offered: &[ChannelKey], rtc: &mut Rtc) {
        for channel in self.list.iter_mut().filter(|c| c.is_waiting_to_open() && !offered.contains(&c.key)) {
            channel.id = Some(rtc.direct_api().create_data_channel(channel.config()));
        }
    }

    pub(crate) fn send(
        &mut self,
        key: ChannelKey,
        data: &[u8],
        binary: bool,
        rtc: &mut Rtc,
    ) -> Result<(), RtcError> {
        if data.len() > self.max_message {
            return Err(RtcError::invalid_state(format!(
                "a message of {} bytes is too large, the peer takes {}",
                data.len(),
                self.max_message
            )));
        }
        let channel = self.get_mut(key).ok_or_else(|| RtcError::invalid_state("the data channel is gone"))?;
        let (DataChannelState::Open, Some(id)) = (channel.state, channel.id) else {
            return Err(RtcError::invalid_state("the data channel is not open"));
        };
        if data.is_empty() {
            // `str0m` would take it and send nothing; better said than lost.
            return Err(RtcError::invalid_state("an empty message cannot be sent on a data channel"));
        }
        let len = data.len() as u64;
        if channel.buffered + len > MAX_QUEUED_BYTES {
            return Err(RtcError::invalid_state("the data channel's send buffer is full"));
        }
        let direct = channel.queue.is_empty() && write(rtc, id, data, binary)?;
        channel.buffered += len;
        if !direct {
            channel.queued += len;
            channel.queue.push_back(Message { data: data.to_vec(), binary });
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, key: ChannelKey, rtc: &mut Rtc, events: &mut VecDeque<Event>) {
        let Some(channel) = self.get_mut(key) else { return };
        if matches!(channel.state, DataChannelState::Closed | DataChannelState::Closing) {
            return;
        }
        match channel.id {
            Some(id) if rtc.channel(id).is_some() => {
                channel.state = DataChannelState::Closing;
                rtc.direct_api().close_data_channel(id);
            }
            _ => channel.state = DataChannelState::Closed,
        }
        events.push_back(Event::ChannelState { key, state: channel.state });
    }

    pub(crate) fn opened(
        &mut self,
        id: ChannelId,
        label: String,
        rtc: &mut Rtc,
        events: &mut VecDeque<Event>,
    ) {
        let stream_id = rtc.direct_api().sctp_stream_id_by_channel_id(id).map_or(-1, i32::from);
        if let Some(channel) = self.by_id(id) {
            if channel.state == DataChannelState::Connecting {
                channel.state = DataChannelState::Open;
                channel.init.id = stream_id;
                events.push_back(Event::ChannelState { key: channel.key, state: DataChannelState::Open });
            }
            return;
        }
        if self.list.len() >= MAX_CHANNELS {
            log::warn!("closed a data channel of the peer: it has opened more than {MAX_CHANNELS}");
            rtc.direct_api().close_data_channel(id);
            return;
        }
        let config = rtc.channel(id).and_then(|c| c.config().cloned());
        let mut init = DataChannelInit { id: stream_id, ..DataChannelInit::default() };
        if let Some(config) = config {
            init.ordered = config.ordered;
            init.protocol = config.protocol;
            match config.reliability {
                Reliability::Reliable => {}
                Reliability::MaxRetransmits { retransmits } => {
                    init.max_retransmits = Some(retransmits.into());
                }
                Reliability::MaxPacketLifetime { lifetime } => {
                    init.max_retransmit_time = Some(lifetime.into());
                }
            }
        }
        let key = self.insert(label, init, Some(id), DataChannelState::Open);
        events.push_back(Event::ChannelFromPeer { key });
    }

    pub(crate) fn closed(&mut self, id: ChannelId, events: &mut VecDeque<Event>) {
        if let Some(channel) = self.by_id(id)
            && channel.state != DataChannelState::Closed
        {
            channel.state = DataChannelState::Closed;
            events.push_back(Event::ChannelState { key: channel.key, state: DataChannelState::Closed });
        }
        self.forget_closed();
    }

    /// The connection is over: every channel is closed and what it held is dropped.
    pub(crate) fn close_all(&mut self, events: &mut VecDeque<Event>) {
        for channel in self.list.iter_mut().filter(|c| c.state != DataChannelState::Closed) {
            channel.state = DataChannelState::Closed;
            events.push_back(Event::ChannelState { key: channel.key, state: DataChannelState::Closed });
        }
        self.list.clear();
    }

    fn forget_closed(&mut self) {
        self.list.retain(|c| c.state != DataChannelState::Closed);
    }

    pub(crate) fn received(
        &mut self,
        id: ChannelId,
        data: Vec<u8>,
        binary: bool,
        events: &mut VecDeque<Event>,
    ) {
        if let Some(channel) = self.by_id(id) {
            events.push_back(Event::ChannelMessage { key: channel.key, data, binary });
        }
    }

    /// Hands SCTP what it has room for. Returns whether anything was written (then it must be polled again).
    pub(crate) fn flush(&mut self, rtc: &mut Rtc) -> bool {
        let mut wrote = false;
        for channel in self.list.iter_mut().filter(|c| !c.queue.is_empty()) {
            let Some(id) = channel.id else { continue };
            while let Some(message) = channel.queue.front() {
                match write(rtc, id, &message.data, message.binary) {
                    Ok(true) => wrote = true,
                    Ok(false) => break,
                    // It will never be taken: what waits behind it must not wait for ever. It leaves the buffer
                    // like any other, so that the sender's count stays right.
                    Err(error) => log::warn!("data channel {:?}: a message is lost: {error}", channel.label),
                }
                channel.queued -= message.data.len() as u64;
                channel.queue.pop_front();
            }
        }
        wrote
    }

    /// Reports what the peer has acknowledged since the last time.
    pub(crate) fn report_drained(&mut self, rtc: &mut Rtc, events: &mut VecDeque<Event>) {
        for channel in self.list.iter_mut().filter(|c| c.buffered > 0) {
            let Some(mut open) = channel.id.and_then(|id| rtc.channel(id)) else { continue };
            let held = open.buffered_amount() as u64 + channel.queued;
            if held < channel.buffered {
                let bytes = channel.buffered - held;
                channel.buffered = held;
                events.push_back(Event::ChannelDrained { key: channel.key, bytes });
            }
        }
    }
}

/// Whether SCTP took the message; `false` means "no room now".
fn write(rtc: &mut Rtc, id: ChannelId, data: &[u8], binary: bool) -> Result<bool, RtcError> {
    let mut channel =
        rtc.channel(id).ok_or_else(|| RtcError::invalid_state("the data channel is not open"))?;
    channel.write(binary, data).map_err(|e| RtcError::internal(e.to_string()))
}
