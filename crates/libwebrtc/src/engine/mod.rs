//! The engine: one WebRTC connection without a socket, a clock or a thread.
//!
//! [`Connection`] wraps one `str0m::Rtc` and adds what `livekit` expects of libwebrtc and `str0m` leaves to its
//! user: offers that may be withdrawn, transceivers, exact counts of buffered bytes, the connection states with
//! their timing. It takes inputs (a call, a datagram, the time) and queues outputs ([`Event`]s, datagrams to
//! send, the next time it wants to be woken). Everything that can go wrong on a network can therefore be
//! replayed by a test in virtual time; sockets and callbacks are the business of [`crate::driver`].

mod channels;
mod connection;
mod negotiation;
mod sdp;
mod state;
mod statistics;
mod transceivers;

#[cfg(test)]
mod tests;

pub(crate) use channels::ChannelKey;
pub(crate) use connection::{Connection, Settings};
pub(crate) use transceivers::{AudioPacket, Transceiver, TransceiverKey};

use crate::{
    data_channel::DataChannelState,
    peer_connection::{IceConnectionState, PeerConnectionState, SignalingState},
};

/// What has happened, in order.
#[derive(Debug)]
pub(crate) enum Event {
    Ice(IceConnectionState),
    Connection(PeerConnectionState),
    Signaling(SignalingState),
    /// The peer has begun to send on this transceiver.
    Track(TransceiverKey),
    /// A transceiver that a remote offer made.
    TransceiverFromPeer(TransceiverKey),
    /// A channel that the peer opened.
    ChannelFromPeer {
        key: ChannelKey,
    },
    ChannelState {
        key: ChannelKey,
        state: DataChannelState,
    },
    ChannelMessage {
        key: ChannelKey,
        data: Vec<u8>,
        binary: bool,
    },
    /// So many bytes of what was sent have left the buffer.
    ChannelDrained {
        key: ChannelKey,
        bytes: u64,
    },
    Audio {
        transceiver: TransceiverKey,
        packet: AudioPacket,
    },
}
