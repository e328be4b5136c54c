//! Floods: the same hostile input again and again, as fast as it can be sent, to one connection. Memory must level off.
//!
//! Each flood is played in two halves; the second must not need more memory than [`MAX_GROWTH_BYTES`]. What a
//! process needs is read from the system, so one flood at a time may run, and only where there is `/proc`.

use std::{net::SocketAddr, time::Duration};

use super::{
    datagrams::Credentials,
    rtp::announced_ssrcs,
    sctp::{Facts, detached, inject},
    srtp::Protector,
    victim::Victim,
    world::{World, peer_address, victim_address},
};
use crate::session_description::SdpType;

/// Between the middle and the end of a flood. The allocator's own habits need some of it.
const MAX_GROWTH_BYTES: i64 = 2 * 1024 * 1024;

/// A flood that panics if memory grows.
pub type Flood = fn();

/// Type, transaction, a priority and a tie breaker.
pub(super) const BINDING_REQUEST: &[u8] =
    b"\0\x01transaction!\0\x24\0\x04\x6e\0\x1e\xff\x80\x29\0\x08\0\0\0\0\0\0\0\0";

/// All floods by name.
pub const FLOODS: &[(&str, Flood)] = &[
    ("datagrams of strangers", strangers),
    ("STUN with the right password from ever new addresses", addresses),
    ("fragments of a message without end", fragments),
    ("messages with a gap before them", gaps),
    ("data channels without number", channels),
    ("RTP of ever new sources", sources),
    ("reports of ever new sources", reports),
    ("offers with ever new media lines", offers),
];

fn flood(world: &mut World, rounds: u32, mut round: impl FnMut(&mut World, u32)) {
    let mut middle = None;
    world.victim.echoes = false;
    for number in 0..rounds {
        if number == rounds / 2 {
            middle = resident_bytes();
        }
        round(world, number);
    }
    if let (Some(middle), Some(end)) = (middle, resident_bytes()) {
        let growth = end - middle;
        println!("    {rounds} rounds, second half: {} kB, state {:?}", growth / 1024, world.victim.state());
        assert!(growth < MAX_GROWTH_BYTES, "the second half took {} kB more", growth / 1024);
    }
}

/// What the process has in memory.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<i64>().ok().map(|kilobytes| kilobytes * 1024)
}

fn strangers() {
    let mut world = World::connected();
    flood(&mut world, 40_000, |world, number| {
        let from = SocketAddr::from(([198, 51, (number >> 8) as u8, number as u8], 7));
        let first = [0, 1, 22, 23, 128][number as usize % 5];
        let mut datagram = vec![first; 200];
        datagram[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
        world.send(from, &datagram);
    });
}

fn addresses() {
    let mut world = World::connected();
    let credentials = Credentials::of(&mut world);
    let message = credentials.stun(BINDING_REQUEST, true);
    flood(&mut world, 6_000, |world, number| {
        let from = SocketAddr::from(([198, 51, (number >> 8) as u8, number as u8], 7));
        world.send(from, &message);
        if number % 100 == 0 {
            world.run(Duration::from_millis(50));
        }
    });
}

/// One DATA chunk with a kilobyte: a fragment without end, or a whole message.
fn data(sequence: u32, stream: u16, flags: u8) -> Vec<u8> {
    let mut chunk = vec![0, flags];
    chunk.extend(1_016_u16.to_be_bytes());
    chunk.extend(sequence.to_be_bytes());
    chunk.extend(stream.to_be_bytes());
    chunk.extend([0, 0, 0, 0, 0, 53]);
    chunk.resize(1_016, b'x');
    chunk
}

fn fragments() {
    let mut world = detached();
    let facts = Facts::of(&world);
    flood(&mut world, 8_000, |world, number| {
        // The first begins a message, none ends it.
        let flags = if number == 0 { 2 } else { 0 };
        inject(world, facts.packet(&data(number, 100, flags)));
    });
}

fn gaps() {
    let mut world = detached();
    let facts = Facts::of(&world);
    flood(&mut world, 8_000, |world, number| inject(world, facts.packet(&data(number + 1, 101, 7))));
}

fn channels() {
    let mut world = detached();
    let facts = Facts::of(&world);
    flood(&mut world, 4_000, |world, number| {
        let mut chunk = vec![0, 3, 0, 0];
        chunk.extend(number.to_be_bytes());
        chunk.extend((1_000 + number as u16).to_be_bytes());
        chunk.extend([0, 0, 0, 0, 0, 50]);
        // DCEP: open, reliable, a label of 200 bytes.
        chunk.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0]);
        chunk.extend([b'l'; 200]);
        let length = (chunk.len() as u16).to_be_bytes();
        chunk[2..4].copy_from_slice(&length);
        inject(world, facts.packet(&chunk));
    });
}

fn protector(world: &World) -> Protector {
    let keys = world.inside.lock().keys.clone().expect("DTLS is finished");
    Protector::new(&keys).expect("two str0m agree on AES-256-GCM")
}

fn sources() {
    let mut world = World::connected();
    let mut protector = protector(&world);
    flood(&mut world, 30_000, |world, number| {
        let mut packet = vec![0x80, 111, 0, 1, 0, 0, 0, 0];
        packet.extend(number.to_be_bytes());
        packet.extend([0x48; 40]);
        world.send(peer_address(), &protector.rtp(&packet, 0));
        if number % 100 == 0 {
            world.run(Duration::from_millis(50));
        }
    });
}

fn reports() {
    let mut world = World::connected();
    let mut protector = protector(&world);
    let known = announced_ssrcs(&mut world).first().copied().unwrap_or_default();
    flood(&mut world, 30_000, |world, number| {
        // A sender report, alternately of the known source and of a new one.
        let mut packet = vec![0x80, 200, 0, 6];
        packet.extend(if number % 2 == 0 { known } else { number }.to_be_bytes());
        packet.extend([0; 20]);
        world.send(peer_address(), &protector.rtcp(&packet));
        if number % 100 == 0 {
            world.run(Duration::from_millis(50));
        }
    });
}

fn offers() {
    let mut world = fresh();
    flood(&mut world, 200, |world, number| super::description::apply(world, SdpType::Offer, offer(number)));
}

/// A world whose victim has nothing agreed.
pub(super) fn fresh() -> World {
    let mut world = World::new();
    world.victim = Victim::bare(world.now, victim_address());
    world
}

/// An offer with media lines that no other number's offer has.
pub(super) fn offer(number: u32) -> String {
    let mids: Vec<_> = (0..10).map(|line| format!("{number}x{line}")).collect();
    let session = format!(
        "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=group:BUNDLE {}\r\na=setup:actpass\r\n\
         a=ice-ufrag:abcd\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\na=fingerprint:sha-256 {}\r\n",
        mids.join(" "),
        ["AB"; 32].join(":")
    );
    let line = |mid: &String| {
        format!(
            "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=rtpmap:111 opus/48000/2\r\n\
             a=mid:{mid}\r\na=sendonly\r\na=rtcp-mux\r\na=msid:s {mid}\r\n"
        )
    };
    mids.iter().map(line).fold(session, |sdp, line| sdp + &line)
}
