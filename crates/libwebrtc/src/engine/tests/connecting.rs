//! Connecting, states and renegotiation.

use std::time::Duration;

use str0m::media::MediaKind;

use super::network::{A, B, Link, Network};
use crate::{
    data_channel::{DataChannelInit, DataChannelState},
    engine::Event,
    peer_connection::{PeerConnectionState as State, SignalingState},
    rtp_transceiver::RtpTransceiverDirection as Direction,
};

fn states(network: &Network, side: usize) -> Vec<State> {
    network.sides[side].states.iter().map(|(_, state)| *state).collect()
}

#[test]
fn both_sides_connect_in_order() {
    let (network, ..) = Network::connected(Link::default(), 1, &DataChannelInit::default());
    for side in [A, B] {
        assert_eq!(states(&network, side), [State::Connecting, State::Connected]);
    }
}

#[test]
fn it_connects_over_ipv6() {
    let mut network =
        Network::with_addresses(Link::default(), 2, ["[2001:db8::1]:1000", "[2001:db8::2]:2000"]);
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    network.negotiate(A, false);
    network
        .run_until(Duration::from_secs(5), |n| n.sides[A].connection.connection_state() == State::Connected);
    let route = network.sides[A].connection.route.expect("a route");
    assert!(route.remote.is_ipv6(), "{route:?}");
}

#[test]
fn it_connects_through_a_bad_network() {
    let link =
        Link { loss_percent: 10, jitter: Duration::from_millis(40), duplicate_percent: 5, ..Link::default() };
    let connects = |seed: u64| {
        let mut network = Network::new(link.clone(), seed);
        network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
        network.negotiate(A, false);
        network.run_for(Duration::from_secs(40));
        states(&network, A).contains(&State::Connected) && states(&network, B).contains(&State::Connected)
    };
    // DTLS gives up after about 30 s, and where its last flight is lost again and again it comes to that (seen
    // once in 100 tries); `livekit` then begins anew.
    let connected = (0..10).filter(|seed| connects(*seed)).count();
    assert!(connected >= 8, "only {connected} of 10 connected");
}

#[test]
fn a_peer_unknown_to_us_is_found_by_its_own_checks() {
    // A learns of no address of B but gets B's checks: a peer-reflexive candidate.
    let mut network = Network::new(Link::default(), 3);
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    for side in [A, B] {
        let address = network.sides[side].address;
        network.sides[side].connection.add_local_address(address).unwrap();
    }
    let offer = network.call(A, |c| c.create_offer(false)).unwrap();
    network.call(A, |c| c.set_local(offer.clone())).unwrap();
    network.call(B, |c| c.set_remote(offer)).unwrap();
    let mut answer = network.call(B, crate::engine::Connection::create_answer).unwrap();
    network.call(B, |c| c.set_local(answer.clone())).unwrap();
    answer.sdp =
        answer.sdp.lines().filter(|l| !l.starts_with("a=candidate")).fold(String::new(), |mut s, l| {
            s.push_str(l);
            s.push_str("\r\n");
            s
        });
    network.call(A, |c| c.set_remote(answer)).unwrap();
    network
        .run_until(Duration::from_secs(5), |n| n.sides[A].connection.connection_state() == State::Connected);
}

#[test]
fn nobody_there_fails_after_15_seconds() {
    let mut network = Network::new(Link { down: true, ..Link::default() }, 4);
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    network.negotiate(A, false);
    network.run_for(Duration::from_secs(30));
    assert_eq!(states(&network, A), [State::Connecting, State::Failed]);
    let seconds = network.sides[A].states.last().map(|(at, _)| at.as_secs());
    assert_eq!(seconds, Some(15));
}

#[test]
fn an_offer_that_is_never_answered_gives_way_to_the_next() {
    let mut network = Network::new(Link::default(), 5);
    let init = DataChannelInit { negotiated: true, id: 100, ..DataChannelInit::default() };
    let a = network.sides[A].connection.create_channel("x", init.clone()).unwrap();
    let b = network.sides[B].connection.create_channel("x", init).unwrap();
    let first = network.call(A, |c| c.create_offer(false)).unwrap();
    network.sides[A].connection.add_transceiver(MediaKind::Audio, Direction::RecvOnly, None, None);
    let second = network.call(A, |c| c.create_offer(false)).unwrap();
    assert_ne!(first, second);
    network.negotiate(A, false);
    network.run_until(Duration::from_secs(5), |n| {
        n.sides[A].connection.channel_state(a) == DataChannelState::Open
            && n.sides[B].connection.channel_state(b) == DataChannelState::Open
    });
}

#[test]
fn applying_the_last_answer_again_withdraws_the_offer() {
    let (mut network, ..) = Network::connected(Link::default(), 6, &DataChannelInit::default());
    let answer = network.sides[A].connection.current_remote_description().unwrap();
    let key = network.sides[A].connection.add_transceiver(MediaKind::Audio, Direction::RecvOnly, None, None);
    let offer = network.call(A, |c| c.create_offer(false)).unwrap();
    network.call(A, |c| c.set_local(offer)).unwrap();
    assert_eq!(network.sides[A].connection.signaling_state(), SignalingState::HaveLocalOffer);
    network.call(A, |c| c.set_remote(answer)).unwrap();
    assert_eq!(network.sides[A].connection.signaling_state(), SignalingState::Stable);
    // What the withdrawn offer had asked for comes with the next.
    network.negotiate(A, true);
    assert!(network.sides[A].connection.transceiver(key).unwrap().mid.is_some());
}

#[test]
fn an_offer_without_any_change_can_be_made() {
    let mut network = Network::new(Link::default(), 7);
    network.sides[A].connection.add_transceiver(MediaKind::Audio, Direction::RecvOnly, None, None);
    network.negotiate(A, false);
    network.negotiate(A, false);
    assert_eq!(network.sides[A].connection.signaling_state(), SignalingState::Stable);
}

#[test]
fn calls_that_do_not_fit_the_state_are_refused() {
    let mut network = Network::new(Link::default(), 8);
    assert!(network.call(A, |c| c.create_offer(false)).is_err(), "nothing to offer");
    assert!(network.call(A, crate::engine::Connection::create_answer).is_err(), "nothing to answer");
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    let offer = network.call(A, |c| c.create_offer(false)).unwrap();
    let mut answer = offer.clone();
    answer.ty = crate::session_description::SdpType::Answer;
    assert!(network.call(A, |c| c.set_remote(answer)).is_err(), "an answer before the offer is set");
    network.call(A, crate::engine::Connection::close);
    assert!(network.call(A, |c| c.create_offer(false)).is_err(), "closed");
    assert!(network.call(A, |c| c.create_channel("y", DataChannelInit::default())).is_err(), "closed");
}

#[test]
fn closing_says_goodbye_and_closes_the_channels() {
    let (mut network, a, _) = Network::connected(Link::default(), 9, &DataChannelInit::default());
    network.call(A, crate::engine::Connection::close);
    assert_eq!(network.sides[A].connection.connection_state(), State::Closed);
    assert_eq!(network.sides[A].connection.channel_state(a), DataChannelState::Closed);
    let closed = |e: &Event| matches!(e, Event::ChannelState { state: DataChannelState::Closed, .. });
    assert!(network.sides[A].events.iter().any(closed));
    // The other side sees its channels close at once and the connection fall silent.
    network.run_until(Duration::from_secs(1), |n| n.sides[B].events.iter().any(closed));
    assert_eq!(network.sides[B].connection.connection_state(), State::Connected);
    network.run_for(Duration::from_secs(20));
    assert_eq!(states(&network, B)[2..], [State::Disconnected, State::Failed]);
}

#[test]
fn a_line_that_the_offers_text_lets_receive_does_receive() {
    // `livekit` rewrites `inactive` to `recvonly` in the offer; the peer may then send on a line we had given up.
    let mut network = Network::new(Link::default(), 10);
    let ours = network.sides[A].connection.add_transceiver(MediaKind::Audio, Direction::SendOnly, None, None);
    network.negotiate(A, false);
    network.call(A, |c| c.transceiver_mut(ours).unwrap().stop_sending());
    network.sides[B].events.clear();
    let mut offer = network.call(A, |c| c.create_offer(false)).unwrap();
    offer.sdp = offer.sdp.replace("a=inactive", "a=recvonly");
    network.call(A, |c| c.set_local(offer.clone())).unwrap();
    network.call(B, |c| c.set_remote(offer)).unwrap();
    let mut answer = network.call(B, crate::engine::Connection::create_answer).unwrap();
    network.call(B, |c| c.set_local(answer.clone())).unwrap();
    answer.sdp = answer.sdp.replace("a=inactive", "a=sendonly").replace("a=recvonly", "a=sendonly");
    answer.sdp = answer.sdp.replace("a=rtcp-mux", "a=msid:PA_x|TR_y TR_y\r\na=rtcp-mux");
    network.call(A, |c| c.set_remote(answer)).unwrap();
    assert!(network.sides[A].events.iter().any(|e| matches!(e, Event::Track(key) if *key == ours)));
    assert!(network.sides[A].connection.transceiver(ours).unwrap().remote_stream_id().is_some());
}

#[test]
fn a_connection_that_begins_anew_before_its_first_offer_connects_like_any_other() {
    let mut network = Network::new(Link::default(), 11);
    let address = network.sides[A].address;
    network.sides[A].connection.add_local_address(address).unwrap();
    network.sides[A].connection.create_channel("x", DataChannelInit::default()).unwrap();
    network.sides[A].connection.begin_anew();
    network.negotiate(A, false);
    network
        .run_until(Duration::from_secs(5), |n| n.sides[A].connection.connection_state() == State::Connected);
}
