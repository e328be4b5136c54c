//! The signal connection: any sequence of what a hostile server can say there and what `livekit` does in between.
//!
//! Each step is a byte and what belongs to it: descriptions of every type, honest or not, candidates, our own offers
//! and answers, rollbacks, the passing of time; and bytes of a data channel as the record of senders sees them.

use std::time::Duration;

use str0m::media::MediaKind;

use super::{candidate, description, input::Input, world::World};
use crate::{
    engine::Connection,
    rtp_transceiver::RtpTransceiverDirection,
    session_description::{SdpType, SessionDescription},
};

/// Steps of one input that are taken.
const MAX_STEPS: usize = 32;

/// See the module.
pub fn signal(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = if input.byte() & 1 == 0 { World::new() } else { World::connected_by_descriptions() };
    #[cfg(feature = "sender-identity")]
    let record = crate::sender_identity::Record::default();
    let mut offer = None;
    let mut honest = None;
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        match step % 12 {
            0 => offer = world.victim.offer(step & 0x10 != 0).or(offer),
            1 => honest = offer.as_ref().and_then(|offer| world.answer(offer)).or(honest),
            2 => {
                if let Some(SessionDescription { ty, sdp }) = honest.clone() {
                    description::apply(&mut world, ty, sdp);
                }
            }
            3 => {
                // The honest answer with something of it replaced.
                let (from, to) = (input.text(), input.text());
                if let Some(SessionDescription { ty, sdp }) = honest.clone().filter(|_| !from.is_empty()) {
                    description::apply(&mut world, ty, sdp.replacen(&from, &to, 1 + usize::from(step >> 4)));
                }
            }
            4 | 5 => {
                let ty = [SdpType::Offer, SdpType::Answer, SdpType::PrAnswer, SdpType::Rollback]
                    [usize::from(step >> 4 & 3)];
                let text = description::with_media_ids(&input.text(), offer.as_ref());
                description::apply(&mut world, ty, text);
            }
            6 => candidate::add(&mut world, &input.text()),
            7 => {
                world.call(|c| c.set_local(SessionDescription { ty: SdpType::Rollback, sdp: String::new() }));
            }
            8 => {
                let kind = if step & 0x10 == 0 { MediaKind::Audio } else { MediaKind::Video };
                world.call(|c| c.add_transceiver(kind, RtpTransceiverDirection::SendRecv, None, None));
            }
            9 => {
                let label = input.text();
                world.call(|c| c.create_channel(&label, crate::data_channel::DataChannelInit::default()));
            }
            10 => {
                #[cfg(feature = "sender-identity")]
                record.admit(input.chunk());
            }
            _ => world.run(Duration::from_millis(u64::from(input.byte()) * 8)),
        }
    }
    world.statistics();
    world.call(Connection::close);
}
