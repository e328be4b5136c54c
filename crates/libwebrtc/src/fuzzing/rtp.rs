//! RTP and RTCP of a peer that has finished DTLS with us: every packet is authentic, whatever is in it. Reaches the
//! jitter buffer and the decoder; between packets 10 ms frames are pulled as a listener would.
//!
//! The first byte fills in what an attacker knows: the real SSRC of the line, a payload type that was agreed.

use std::time::Duration;

use super::{
    containment::contained,
    input::Input,
    srtp::Protector,
    world::{World, peer_address},
};

/// Packets of one input that are sent.
const MAX_PACKETS: usize = 64;

const OPUS: u8 = 111;
const RED: u8 = 63;

/// See the module.
pub fn rtp(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::connected();
    let keys = world.inside.lock().keys.clone().expect("DTLS is finished");
    let mut protector = Protector::new(&keys).expect("two str0m agree on AES-256-GCM");
    let ssrcs = announced_ssrcs(&mut world);
    let mut pcm = Vec::new();
    for _ in 0..MAX_PACKETS {
        if input.is_empty() {
            break;
        }
        let control = input.byte();
        let mut packet = input.chunk().to_vec();
        let protected = if control & 1 == 0 {
            packet.resize(packet.len().max(12), 0);
            patch_rtp(&mut packet, control, &ssrcs);
            protector.rtp(&packet, u32::from(control & 0x80 != 0))
        } else {
            packet.resize(packet.len().max(8), 0);
            patch_rtcp(&mut packet, control, &ssrcs);
            protector.rtcp(&packet)
        };
        world.send(peer_address(), &protected);
        if control & 0x40 != 0 {
            world.run(Duration::from_millis(if control & 0x20 != 0 { 1_100 } else { 20 }));
            // Not contained in production either.
            let now = world.now;
            world.victim.receiver.pull_10ms(now, &mut pcm);
            world.victim.receiver.pull_10ms(now + Duration::from_millis(10), &mut pcm);
        }
    }
    world.run(Duration::from_millis(100));
    world.statistics();
}

/// The peer's SSRCs as it announced them, audio first.
pub(super) fn announced_ssrcs(world: &mut World) -> Vec<u32> {
    let description = world.victim.call(|c| c.current_remote_description()).flatten();
    let sdp = description.map(|description| description.sdp).unwrap_or_default();
    let lines = sdp.lines().filter_map(|line| line.strip_prefix("a=ssrc:"));
    let mut ssrcs: Vec<u32> =
        lines.filter_map(|line| line.split(' ').next().and_then(|ssrc| ssrc.parse().ok())).collect();
    ssrcs.dedup();
    ssrcs
}

fn patch_rtp(packet: &mut [u8], control: u8, ssrcs: &[u32]) {
    packet[0] = packet[0] & 0x3f | 0x80;
    if control & 2 != 0
        && let Some(ssrc) = ssrcs.get(usize::from(packet[8]) % ssrcs.len().max(1))
    {
        packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
    }
    match control >> 2 & 3 {
        1 => packet[1] = packet[1] & 0x80 | OPUS,
        2 => packet[1] = packet[1] & 0x80 | RED,
        _ => {}
    }
}

fn patch_rtcp(packet: &mut [u8], control: u8, ssrcs: &[u32]) {
    packet[0] = packet[0] & 0x3f | 0x80;
    if !(192..=223).contains(&packet[1]) {
        // Sender report to extended report.
        packet[1] = 200 + packet[1] % 8;
    }
    if control & 2 != 0
        && let Some(ssrc) = ssrcs.first()
    {
        packet[4..8].copy_from_slice(&ssrc.to_be_bytes());
    }
    if control & 4 != 0 {
        let words = u16::try_from(packet.len() / 4 - 1).unwrap_or(u16::MAX);
        packet[2..4].copy_from_slice(&words.to_be_bytes());
    }
}

impl World {
    /// As `get_stats` does.
    pub(super) fn statistics(&mut self) {
        let heard = std::collections::HashMap::new();
        self.victim.call(|c| c.statistics(0, None, &heard).len());
        let receiver = &self.victim.receiver;
        contained("statistics", || receiver.stats());
    }
}
