//! Data channels: completeness, order, the exact count of buffered bytes, back-pressure.

use std::time::Duration;

use super::network::{A, B, Link, Network};
use crate::{
    data_channel::{DataChannelInit, DataChannelState},
    engine::{ChannelKey, Event},
};

fn bad_network() -> Link {
    Link { loss_percent: 10, jitter: Duration::from_millis(30), duplicate_percent: 3, ..Link::default() }
}

fn reported(network: &Network, side: usize, key: ChannelKey) -> u64 {
    network.sides[side].drained.iter().filter(|(k, _)| *k == key).map(|(_, bytes)| bytes).sum()
}

#[test]
fn a_reliable_channel_is_complete_and_in_order_whatever_the_network_does() {
    for seed in 0..5 {
        let (mut network, a, _) = Network::connected(bad_network(), seed, &DataChannelInit::default());
        let messages: Vec<Vec<u8>> = (0..50u32).map(|i| vec![i as u8; 1 + (i * 280) as usize]).collect();
        for message in &messages {
            network.call(A, |c| c.send(a, message, true)).unwrap();
        }
        network.run_until(Duration::from_secs(120), |n| n.sides[B].received.len() >= messages.len());
        network.run_for(Duration::from_secs(5));
        let got: Vec<Vec<u8>> = network.sides[B].received.iter().map(|(_, m)| m.clone()).collect();
        assert_eq!(got, messages, "seed {seed}");
        let total: u64 = messages.iter().map(|m| m.len() as u64).sum();
        assert_eq!(reported(&network, A, a), total, "seed {seed}");
        assert_eq!(network.sides[A].connection.buffered_amount(a), 0);
    }
}

#[test]
fn a_partial_channel_may_lose_but_counts_every_byte() {
    let init = DataChannelInit { ordered: false, max_retransmits: Some(0), ..DataChannelInit::default() };
    let (mut network, a, _) = Network::connected(bad_network(), 3, &init);
    let mut total = 0;
    for i in 0..400u32 {
        let message = vec![i as u8; 100 + (i % 7) as usize * 500];
        total += message.len() as u64;
        network.call(A, |c| c.send(a, &message, true)).unwrap();
        network.run_for(Duration::from_millis(20));
    }
    network.run_for(Duration::from_secs(20));
    let arrived = network.sides[B].received.len();
    assert!((200..400).contains(&arrived), "{arrived} of 400 arrived");
    assert_eq!(reported(&network, A, a), total);
    assert_eq!(network.sides[A].connection.buffered_amount(a), 0);
}

#[test]
fn at_no_moment_are_more_bytes_reported_than_were_sent() {
    let (mut network, a, _) = Network::connected(bad_network(), 4, &DataChannelInit::default());
    let mut sent = 0;
    for i in 0..200usize {
        let message = vec![0; 1 + i * 37 % 5000];
        network.call(A, |c| c.send(a, &message, true)).unwrap();
        sent += message.len() as u64;
        network.run_for(Duration::from_millis(3));
        let back = reported(&network, A, a);
        assert!(back <= sent);
        assert_eq!(sent - back, network.sides[A].connection.buffered_amount(a));
    }
}

#[test]
fn a_channel_opened_in_band_arrives_with_its_settings() {
    let (mut network, ..) = Network::connected(Link::default(), 5, &DataChannelInit::default());
    let init = DataChannelInit {
        ordered: false,
        max_retransmits: Some(3),
        protocol: "chat".into(),
        ..DataChannelInit::default()
    };
    let a = network.call(A, |c| c.create_channel("in band", init)).unwrap();
    network.run_until(Duration::from_secs(5), |n| {
        n.sides[A].connection.channel_state(a) == DataChannelState::Open
    });
    let opened = network.sides[B].events.iter().find_map(|e| match e {
        Event::ChannelFromPeer { key } => Some(*key),
        _ => None,
    });
    let b = opened.expect("the other side sees it");
    let channel = network.sides[B].connection.channels.get(b).unwrap();
    assert_eq!(channel.label, "in band");
    assert_eq!((channel.init.ordered, channel.init.max_retransmits), (false, Some(3)));
    assert_eq!(channel.init.protocol, "chat");
    // And it can be answered on.
    network.call(B, |c| c.send(b, b"hello", false)).unwrap();
    network.run_until(Duration::from_secs(5), |n| {
        n.sides[A].received.iter().any(|(k, m)| *k == a && m == b"hello")
    });
}

#[test]
fn closing_a_channel_closes_it_on_both_sides() {
    let (mut network, a, b) = Network::connected(Link::default(), 6, &DataChannelInit::default());
    network.call(A, |c| c.close_channel(a));
    network.run_until(Duration::from_secs(5), |n| {
        n.sides[B].connection.channel_state(b) == DataChannelState::Closed
    });
    assert!(network.call(B, |c| c.send(b, b"too late", true)).is_err());
}

#[test]
fn a_channel_number_is_given_once() {
    let mut network = Network::new(Link::default(), 7);
    let init = DataChannelInit { negotiated: true, id: 100, ..DataChannelInit::default() };
    network.call(A, |c| c.create_channel("x", init.clone())).unwrap();
    assert!(network.call(A, |c| c.create_channel("y", init)).is_err());
}

#[test]
fn messages_of_all_sizes_arrive_whole_and_impossible_ones_are_refused() {
    let (mut network, a, _) = Network::connected(Link::default(), 8, &DataChannelInit::default());
    assert!(network.call(A, |c| c.send(a, b"", true)).is_err());
    assert!(network.call(A, |c| c.send(a, &vec![0; 300_000], true)).is_err(), "larger than the peer takes");
    let sizes = [1, 1_199, 1_200, 16_000, 65_000];
    for size in sizes {
        network.call(A, |c| c.send(a, &vec![7; size], true)).unwrap();
    }
    network.run_until(Duration::from_secs(10), |n| n.sides[B].received.len() == sizes.len());
    let got: Vec<usize> = network.sides[B].received.iter().map(|(_, m)| m.len()).collect();
    assert_eq!(got, sizes);
}

/// As `livekit` does it: send while less than a threshold is buffered.
fn send_with_back_pressure(megabytes: u64, bandwidth: u64) {
    const CHUNK: usize = 15_000;
    const THRESHOLD: u64 = 2 * 1024 * 1024;
    let link = Link { bandwidth: Some(bandwidth), ..Link::default() };
    let (mut network, a, _) = Network::connected(link, 9, &DataChannelInit::default());
    let total = megabytes * 1_000_000;
    let (mut sent, mut received, mut most) = (0u64, 0u64, 0u64);
    while received < total {
        while sent < total && network.sides[A].connection.buffered_amount(a) <= THRESHOLD {
            let size = CHUNK.min((total - sent) as usize);
            let chunk: Vec<u8> = (0..size).map(|i| ((sent + i as u64) % 251) as u8).collect();
            network.call(A, |c| c.send(a, &chunk, true)).unwrap();
            sent += size as u64;
        }
        most = most.max(network.sides[A].connection.buffered_amount(a));
        network.run_for(Duration::from_millis(20));
        for (_, message) in network.sides[B].received.drain(..) {
            let expected = |i: usize| ((received + i as u64) % 251) as u8;
            assert!(message.iter().enumerate().all(|(i, byte)| *byte == expected(i)), "at byte {received}");
            received += message.len() as u64;
        }
        assert!(
            network.now.duration_since(network.start) < Duration::from_secs(3600),
            "{received} of {total}"
        );
    }
    network.run_for(Duration::from_secs(2));
    assert!(most <= THRESHOLD + CHUNK as u64, "{most} bytes were buffered at once");
    assert_eq!(reported(&network, A, a), total);
}

#[test]
fn back_pressure_keeps_memory_flat_and_loses_nothing() {
    send_with_back_pressure(100, 10_000_000);
}

#[test]
fn a_sender_that_ignores_back_pressure_is_refused() {
    let link = Link { bandwidth: Some(100_000), ..Link::default() };
    let (mut network, a, _) = Network::connected(link, 10, &DataChannelInit::default());
    let mut accepted = 0u64;
    let message = vec![0; 60_000];
    while network.call(A, |c| c.send(a, &message, true)).is_ok() {
        accepted += 60_000;
        assert!(accepted < 64 * 1024 * 1024, "nothing stops it");
    }
    assert_eq!(network.sides[A].connection.buffered_amount(a), accepted);
}
