//! Candidates: lines that a hostile server trickles, one per line of the input, to an engine that is connecting.

use std::time::Duration;

use super::world::World;
use crate::ice_candidate::{IceCandidate, Resolved};

/// See the module.
pub fn candidate(bytes: &[u8]) {
    let mut world = World::negotiated();
    for line in String::from_utf8_lossy(bytes).lines() {
        add(&mut world, line);
    }
    world.run(Duration::from_millis(60));
}

/// Adds a candidate as the façade does.
pub(super) fn add(world: &mut World, line: &str) {
    let candidate = IceCandidate::parse("0", 0, line).expect("parse accepts every text");
    if let Ok(Resolved::Usable(address)) = candidate.resolve() {
        world.call(|c| c.add_remote_candidate(address));
    }
}
