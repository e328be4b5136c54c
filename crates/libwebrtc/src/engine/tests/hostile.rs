//! Whatever a stranger sends: no panic, no unbounded growth, and honest traffic goes on.

use std::time::Duration;

use proptest::prelude::*;

use super::network::{A, B, Link, Network};
use crate::{
    data_channel::DataChannelInit,
    session_description::{SdpType, SessionDescription},
};

fn real_answer() -> String {
    let mut network = Network::new(Link::default(), 1);
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    network.sides[A].connection.add_transceiver(
        str0m::media::MediaKind::Audio,
        crate::rtp_transceiver::RtpTransceiverDirection::RecvOnly,
        None,
        None,
    );
    let offer = network.call(A, |c| c.create_offer(false)).unwrap();
    network.call(B, |c| c.set_remote(offer)).unwrap();
    network.call(B, crate::engine::Connection::create_answer).unwrap().sdp
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn garbage_datagrams_do_no_harm(
        seed in 0u64..1000,
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1500), 1..40),
    ) {
        let (mut network, a, _) = Network::connected(Link::default(), seed, &DataChannelInit::default());
        let (from, to) = (network.sides[A].address, network.sides[B].address);
        for mut datagram in datagrams {
            for first in [None, Some(0), Some(20), Some(22), Some(23), Some(128), Some(200)] {
                // Looks like STUN, DTLS or RTP to the demultiplexer.
                if let (Some(first), Some(byte)) = (first, datagram.first_mut()) {
                    *byte = first;
                }
                let now = network.now;
                network.sides[B].connection.handle_datagram(now, from, to, &datagram);
            }
        }
        network.call(A, |c| c.send(a, b"still here", true)).unwrap();
        network.run_until(Duration::from_secs(10), |n| !n.sides[B].received.is_empty());
    }

    #[test]
    fn mangled_descriptions_are_refused_or_used_without_panic(
        cut in 0usize..2000, insert in ".{0,40}", remove in 0usize..400,
    ) {
        let mut sdp = real_answer();
        let at = sdp.char_indices().map(|(i, _)| i).nth(cut % sdp.len()).unwrap_or(0);
        let end = (at + remove).min(sdp.len());
        sdp.replace_range(at..end, &insert);
        for ty in [SdpType::Offer, SdpType::Answer] {
            let mut network = Network::new(Link::default(), 2);
            network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
            let offer = network.call(A, |c| c.create_offer(false)).unwrap();
            if ty == SdpType::Answer {
                network.call(A, |c| c.set_local(offer)).unwrap();
            }
            let description = SessionDescription { ty, sdp: sdp.clone() };
            let _ = network.call(A, |c| c.set_remote(description));
            network.run_for(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_flood_of_candidates_is_bounded() {
    let (mut network, ..) = Network::connected(Link::default(), 3, &DataChannelInit::default());
    for i in 0..5_000u32 {
        let address = format!("10.{}.{}.{}:{}", i >> 16 & 255, i >> 8 & 255, i & 255, 1 + i % 60_000);
        let candidate = str0m::Candidate::host(address.parse().unwrap(), "udp").unwrap();
        network.call(A, |c| c.add_remote_candidate(candidate)).unwrap();
    }
    network.run_for(Duration::from_secs(5));
}
