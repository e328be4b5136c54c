//! Datagrams from the network: STUN, DTLS, SRTP and SRTCP as anybody on the way could make them.
//!
//! The first byte says how far the connection is: without any description, agreed, in the midst of connecting, or
//! connected. Then come datagrams, each with a byte: from the peer's address or a stranger's, what it looks like, and
//! whether STUN carries the connection's real credentials (a hostile server knows them).

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use str0m::crypto::from_feature_flags;

use super::{
    crc32::{ETHERNET, crc32},
    input::Input,
    victim::Victim,
    world::{World, peer_address, value, victim_address},
};

/// Datagrams of one input that are sent.
const MAX_DATAGRAMS: usize = 64;

/// See the module.
pub fn datagrams(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let stage = input.byte();
    let mut world = match stage & 3 {
        0 => World::new(),
        1 | 2 => World::negotiated(),
        _ => World::connected(),
    };
    match stage & 3 {
        0 => world.victim = Victim::bare(Instant::now(), victim_address()),
        2 => world.run(Duration::from_millis(u64::from(stage >> 2))),
        _ => {}
    }
    let credentials = Credentials::of(&mut world);
    for _ in 0..MAX_DATAGRAMS {
        if input.is_empty() {
            break;
        }
        let control = input.byte();
        let from = match control & 3 {
            0 => SocketAddr::from(([198, 51, 100, input.byte()], 1 + u16::from(input.byte()))),
            _ => peer_address(),
        };
        let mut datagram = input.chunk().to_vec();
        match control >> 2 & 7 {
            0 => datagram = credentials.stun(&datagram, control & 0x40 != 0),
            // Looks like STUN, DTLS of some type, RTP or RTCP to whoever sorts datagrams.
            kind @ 1..=5 => {
                if let Some(first) = datagram.first_mut() {
                    *first = [0, 20, 22, 23, 128][usize::from(kind) - 1];
                }
            }
            _ => {}
        }
        world.send(from, &datagram);
        if control & 0x80 != 0 {
            world.run(Duration::from_millis(20));
        }
    }
    world.run(Duration::from_millis(100));
}

/// What STUN of the real peer carries.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    username: String,
    password: String,
}

impl Credentials {
    pub(super) fn of(world: &mut World) -> Self {
        let descriptions =
            world.victim.call(|c| (c.current_local_description(), c.current_remote_description()));
        let Some((Some(local), Some(remote))) = descriptions else { return Self::default() };
        let ours = value(&local.sdp, "a=ice-ufrag:");
        let theirs = value(&remote.sdp, "a=ice-ufrag:");
        Self { username: format!("{ours}:{theirs}"), password: value(&local.sdp, "a=ice-pwd:") }
    }

    /// A STUN message: two bytes of `bytes` are its type, twelve its transaction, the rest its attributes. If
    /// `authentic`, a user name goes in front and a correct integrity and fingerprint behind.
    pub(super) fn stun(&self, bytes: &[u8], authentic: bool) -> Vec<u8> {
        let mut input = Input::new(bytes);
        let kind = input.u16() & 0x3fff;
        let mut message = kind.to_be_bytes().to_vec();
        message.extend([0, 0, 0x21, 0x12, 0xa4, 0x42]);
        message.extend(input.take(12));
        message.resize(20, 0);
        if authentic {
            attribute(&mut message, 0x0006, self.username.as_bytes());
        }
        message.extend(input.rest());
        if authentic {
            message.resize(message.len().next_multiple_of(4), 0);
            // Integrity covers a length that counts its own attribute, and so does the fingerprint.
            set_length(&mut message, 24);
            let hmac = from_feature_flags().sha1_hmac_provider;
            let integrity = hmac.sha1_hmac(self.password.as_bytes(), &[&message]);
            attribute(&mut message, 0x0008, &integrity);
            set_length(&mut message, 8);
            let fingerprint = crc32(&message, ETHERNET) ^ 0x5354_554e;
            attribute(&mut message, 0x8028, &fingerprint.to_be_bytes());
        }
        set_length(&mut message, 0);
        message
    }
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(kind.to_be_bytes());
    message.extend((value.len() as u16).to_be_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn set_length(message: &mut [u8], to_come: usize) {
    let length = (message.len() - 20 + to_come) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
}
