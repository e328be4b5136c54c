//! Descriptions: what a hostile server answers to our offer, and what it offers itself.
//!
//! The first byte says who is addressed: an engine with an open offer, a fresh one, a connected one, or a connected
//! one with an open offer. Then come texts, one after another, separated by a zero byte. `{0}`, `{1}` and so on stand
//! for the media ids of the engine's own lines: those are chosen at random, and without them no answer would fit.

use std::time::{Duration, Instant};

use super::{
    input::Input,
    victim::Victim,
    world::{World, victim_address},
};
use crate::session_description::{SdpType, SessionDescription};

/// Texts of one input that are looked at.
const MAX_TEXTS: usize = 4;

/// See the module.
pub fn description(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let stage = input.byte() % 4;
    let mut world = match stage {
        0 | 1 => World::new(),
        _ => World::connected_by_descriptions(),
    };
    if stage == 1 {
        world.victim = Victim::bare(Instant::now(), victim_address());
        world.now = Instant::now();
    }
    for text in input.rest().split(|byte| *byte == 0).take(MAX_TEXTS) {
        let answering = stage == 0 || stage == 3;
        let offered = if answering { world.victim.offer(false) } else { None };
        let text = with_media_ids(&String::from_utf8_lossy(text), offered.as_ref());
        apply(&mut world, if answering { SdpType::Answer } else { SdpType::Offer }, text);
        world.run(Duration::from_millis(30));
    }
    world.call(crate::engine::Connection::close);
}

/// Applies a remote description as the façade does, and goes on as `livekit` would.
pub(super) fn apply(world: &mut World, ty: SdpType, sdp: String) {
    let description = SessionDescription { ty, sdp };
    let applied = world.call(|c| c.set_remote(description));
    if ty == SdpType::Offer && matches!(applied, Some(Ok(()))) {
        world.call(|c| {
            let answer = c.create_answer()?;
            c.set_local(answer)
        });
    }
}

/// Puts the media ids of `offer` into `text`.
pub(super) fn with_media_ids(text: &str, offer: Option<&SessionDescription>) -> String {
    let offer = offer.map_or("", |offer| &offer.sdp);
    let ids = offer.lines().filter_map(|line| line.strip_prefix("a=mid:"));
    let numbered = (0..10).zip(ids);
    numbered.fold(text.to_owned(), |text, (number, id)| text.replace(&format!("{{{number}}}"), id))
}
