//! SCTP packets of a peer that has finished DTLS with us.
//!
//! The first byte says whether the association is up or is still to be made. Then come packets, each with a byte that
//! says how it is made: raw, or chunks in a correct packet (ports, verification tag, checksum) whose sequence numbers
//! count from where the association stands, or one that was really sent with some bytes changed.

use std::time::Duration;

use super::{
    crc32::{CASTAGNOLI, crc32},
    input::Input,
    world::World,
};
use crate::{data_channel::DataChannelInit, engine::ChannelKey};

/// Packets of one input that are sent.
const MAX_PACKETS: usize = 64;

const HEADER: usize = 12;

/// See the module.
pub fn sctp(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = if input.byte() & 1 == 0 { detached() } else { without_association() };
    for _ in 0..MAX_PACKETS {
        if input.is_empty() {
            break;
        }
        let control = input.byte();
        let packet = match control & 3 {
            0 => input.chunk().to_vec(),
            1 | 2 => Facts::of(&world).packet(input.chunk()),
            _ => changed(&world, &mut input),
        };
        inject(&mut world, packet);
        if control & 4 != 0 {
            world.call(|c| c.close_channel(ChannelKey(usize::from(control >> 6))));
        }
        if control & 8 != 0 {
            world.call(|c| c.create_channel("ours", DataChannelInit::default()));
        }
        if control & 0x10 != 0 {
            world.run(Duration::from_millis(if control & 0x20 == 0 { 10 } else { 1_500 }));
        }
    }
    world.run(Duration::from_millis(300));
}

/// A connected world whose SCTP is in the attacker's hands from now on.
pub(super) fn detached() -> World {
    let world = World::connected();
    world.inside.lock().detached = true;
    world
}

/// DTLS is up and the peer has not said a word of SCTP.
fn without_association() -> World {
    let mut world = World::negotiated();
    world.inside.lock().detached = true;
    world.run(Duration::from_millis(400));
    world
}

/// Sends one packet through the DTLS session.
pub(super) fn inject(world: &mut World, packet: Vec<u8>) {
    world.inside.lock().inject.push_back(packet);
    world.run(Duration::from_millis(1));
    // A session that is over takes nothing any more.
    world.inside.lock().inject.clear();
}

/// What an attacker knows of the association.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Facts {
    /// What packets to the victim must carry.
    tag: u32,
    peer_sequence: u32,
    victim_sequence: u32,
}

impl Facts {
    pub(super) fn of(world: &World) -> Self {
        let inside = world.inside.lock();
        let init = |packets: &[Vec<u8>]| {
            // The INIT or INIT ACK of one side: its tag and its first sequence number.
            let packet = packets.iter().find(|packet| matches!(packet.get(HEADER), Some(1 | 2)))?;
            Some((word(packet, HEADER + 4)?, word(packet, HEADER + 16)?))
        };
        let (tag, victim_sequence) = init(&inside.received).unwrap_or_default();
        let peer_sequence = init(&inside.sent).map_or(0, |(_, sequence)| sequence);
        Self { tag, peer_sequence, victim_sequence }
    }

    /// A correct packet around `chunks`.
    pub(super) fn packet(&self, chunks: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x13, 0x88, 0x13, 0x88]; // Port 5000 on both ends.
        // An INIT comes before there is a tag.
        let tag = if chunks.first() == Some(&1) { 0 } else { self.tag };
        packet.extend(tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunks);
        let mut at = HEADER;
        while let Some(&[kind, _, high, low]) = packet.get(at..at + 4) {
            self.count_from_here(&mut packet, at, kind);
            at += usize::from(u16::from_be_bytes([high, low])).max(4).next_multiple_of(4);
        }
        with_checksum(packet)
    }

    /// Makes the sequence numbers of the chunk at `at` relative to where the association began.
    fn count_from_here(&self, packet: &mut [u8], at: usize, kind: u8) {
        let (place, from) = match kind {
            // DATA, I-DATA, FORWARD TSN, I-FORWARD TSN.
            0 | 64 | 192 | 194 => (at + 4, self.peer_sequence),
            // SACK.
            3 => (at + 4, self.victim_sequence.wrapping_sub(1)),
            // RE-CONFIG: requests count the peer's way, responses the victim's.
            130 if packet.get(at + 5) == Some(&16) => (at + 8, self.victim_sequence),
            130 => (at + 8, self.peer_sequence),
            _ => return,
        };
        if let Some(number) = word(packet, place) {
            packet[place..place + 4].copy_from_slice(&from.wrapping_add(number).to_be_bytes());
        }
    }
}

/// A packet that one side really sent, with some bytes changed.
fn changed(world: &World, input: &mut Input<'_>) -> Vec<u8> {
    let which = input.byte();
    let mut packet = {
        let inside = world.inside.lock();
        let packets = if which & 0x80 == 0 { &inside.sent } else { &inside.received };
        packets.get(usize::from(which & 0x7f) % packets.len().max(1)).cloned().unwrap_or_default()
    };
    for change in input.chunk().chunks_exact(2) {
        let at = HEADER + usize::from(change[0]);
        if let Some(byte) = packet.get_mut(at) {
            *byte ^= change[1];
        }
    }
    with_checksum(packet)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Puts the checksum where it belongs (CRC-32C, little end first).
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    if packet.len() >= HEADER {
        packet[8..12].fill(0);
        let checksum = crc32(&packet, CASTAGNOLI);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
    packet
}
