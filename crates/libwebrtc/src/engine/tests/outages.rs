//! Silence, recovery and ICE restarts.

use std::time::Duration;

use super::network::{A, B, Link, Network};
use crate::{data_channel::DataChannelInit, peer_connection::PeerConnectionState as State};

#[test]
fn a_short_outage_is_not_noticed_and_loses_nothing() {
    let (mut network, a, _) = Network::connected(Link::default(), 1, &DataChannelInit::default());
    network.link.down = true;
    network.call(A, |c| c.send(a, b"through the outage", true)).unwrap();
    network.run_for(Duration::from_secs(2));
    network.link.down = false;
    network.run_until(Duration::from_secs(10), |n| !n.sides[B].received.is_empty());
    assert_eq!(network.sides[A].states.last().map(|(_, s)| *s), Some(State::Connected));
}

#[test]
fn a_long_outage_disconnects_then_fails_and_comes_back_by_a_restart() {
    let (mut network, a, _) = Network::connected(Link::default(), 2, &DataChannelInit::default());
    let down_at = network.now.duration_since(network.start);
    network.link.down = true;
    network.call(A, |c| c.send(a, b"kept", true)).unwrap();
    network.run_for(Duration::from_secs(18));
    let seen: Vec<_> = network.sides[A].states.iter().skip(2).map(|(_, s)| *s).collect();
    assert_eq!(seen, [State::Disconnected, State::Failed]);
    let disconnected_after = network.sides[A].states[2].0.checked_sub(down_at).unwrap().as_secs();
    assert!((2..=5).contains(&disconnected_after), "{disconnected_after} s");

    network.link.down = false;
    network.negotiate(A, true);
    network
        .run_until(Duration::from_secs(10), |n| n.sides[A].connection.connection_state() == State::Connected);
    network.run_until(Duration::from_secs(30), |n| n.sides[B].received.iter().any(|(_, m)| m == b"kept"));
}

#[test]
fn a_restart_of_a_healthy_connection_ends_connected() {
    let (mut network, a, _) = Network::connected(Link::default(), 3, &DataChannelInit::default());
    let before = network.sides[A].connection.local_username();
    network.negotiate(A, true);
    network.call(A, |c| c.send(a, b"during", true)).unwrap();
    network.run_until(Duration::from_secs(10), |n| !n.sides[B].received.is_empty());
    network
        .run_until(Duration::from_secs(10), |n| n.sides[A].connection.connection_state() == State::Connected);
    assert_ne!(network.sides[A].connection.local_username(), before);
    network.run_for(Duration::from_secs(40));
    assert_eq!(network.sides[A].connection.connection_state(), State::Connected, "and stays so");
}

#[test]
fn an_idle_connection_stays_connected_for_an_hour() {
    let (mut network, ..) = Network::connected(Link::default(), 4, &DataChannelInit::default());
    network.run_for(Duration::from_secs(3600));
    for side in [A, B] {
        let seen: Vec<_> = network.sides[side].states.iter().map(|(_, s)| *s).collect();
        assert_eq!(seen, [State::Connecting, State::Connected]);
    }
}

#[test]
fn a_restart_that_the_answer_does_not_grant_changes_nothing() {
    let (mut network, ..) = Network::connected(Link::default(), 5, &DataChannelInit::default());
    let (offer, answer) = {
        let connection = &network.sides[A].connection;
        (connection.current_local_description().unwrap(), connection.current_remote_description().unwrap())
    };
    let restart = network.call(A, |c| c.create_offer(true)).unwrap();
    assert_ne!(restart, offer);
    network.call(A, |c| c.set_local(restart)).unwrap();
    // Not the very same text, which would withdraw the offer; the same credentials, though.
    let mut ungranted = answer;
    ungranted.sdp.push_str("a=x-nothing\r\n");
    network.call(A, |c| c.set_remote(ungranted)).unwrap();
    network.run_for(Duration::from_secs(60));
    let seen: Vec<_> = network.sides[A].states.iter().map(|(_, s)| *s).collect();
    assert_eq!(seen, [State::Connecting, State::Connected]);
}

#[test]
fn restarts_never_run_out() {
    let (mut network, a, _) = Network::connected(Link::default(), 6, &DataChannelInit::default());
    for round in 0..100u32 {
        network.negotiate(A, true);
        let address = network.sides[B].address;
        let candidate = str0m::Candidate::host(address, "udp").unwrap();
        network.call(A, |c| c.add_remote_candidate(candidate)).unwrap();
        network.run_for(Duration::from_secs(2));
        assert_eq!(network.sides[A].connection.connection_state(), State::Connected, "after restart {round}");
    }
    network.call(A, |c| c.send(a, b"still here", true)).unwrap();
    network.run_until(Duration::from_secs(5), |n| !n.sides[B].received.is_empty());
}
