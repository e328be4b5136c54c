//! Does the attack reach what it is aimed at? A harness that everything bounces off would find nothing, quietly.

use std::time::Duration;

use super::{
    containment::{contained, contained_panics},
    datagrams::Credentials,
    floods,
    rtp::announced_ssrcs,
    sctp::{Facts, detached, inject},
    srtp::Protector,
    world::{World, peer_address, victim_address},
};
use crate::session_description::{SdpType, SessionDescription};

fn protector(world: &World) -> Protector {
    let keys = world.inside.lock().keys.clone().unwrap();
    Protector::new(&keys).unwrap()
}

#[test]
fn injected_sctp_arrives_as_a_message() {
    let mut world = detached();
    let facts = Facts::of(&world);
    // DATA, the first of its side, stream 100, binary: "hello".
    let chunk = [&[0, 3, 0, 21, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 53][..], b"hello\0\0\0"].concat();
    inject(&mut world, facts.packet(&chunk));
    world.run(Duration::from_millis(50));
    assert_eq!(world.victim.messages, 1);
    assert!(world.victim.is_connected());
}

#[test]
fn injected_rtp_is_heard_and_injected_reports_are_read() {
    let mut world = World::connected();
    let mut protector = protector(&world);
    let ssrc = announced_ssrcs(&mut world)[0];
    let packet = [&[0x80, 111, 0, 1, 0, 0, 0, 0][..], &ssrc.to_be_bytes(), &[0x48; 40]].concat();
    world.send(peer_address(), &protector.rtp(&packet, 0));
    assert_eq!(world.victim.receiver.stats().packets, 1);

    // A nack of everything we never sent does nothing; a goodbye ends nothing either, but both are authentic.
    let report = [&[0x81, 203, 0, 1][..], &ssrc.to_be_bytes()].concat();
    world.send(peer_address(), &protector.rtcp(&report));
    assert!(world.victim.is_connected());
}

#[test]
fn authentic_stun_of_a_stranger_is_answered() {
    let mut world = World::connected();
    let credentials = Credentials::of(&mut world);
    let from = "198.51.100.7:7".parse().unwrap();
    let answers = |world: &mut World, authentic| {
        let now = world.now;
        let message = credentials.stun(floods::BINDING_REQUEST, authentic);
        world.victim.call(|c| c.handle_datagram(now, from, victim_address(), &message));
        world.victim.take_output().iter().filter(|datagram| datagram.to == from).count()
    };
    assert_eq!(answers(&mut world, false), 0);
    assert_ne!(answers(&mut world, true), 0);
}

#[test]
fn the_floods_offers_are_understood() {
    let mut world = floods::fresh();
    let offer = SessionDescription { ty: SdpType::Offer, sdp: floods::offer(0) };
    let accepted = world.call(|c| c.set_remote(offer));
    assert!(matches!(accepted, Some(Ok(()))), "{accepted:?}");
}

#[test]
fn a_panic_of_a_dependency_is_contained_and_one_of_ours_is_not() {
    let foreign = contained("test", || str0m::media::Mid::from("a media id that is much too long for one"));
    let listed = contained_panics().iter().any(|(place, _)| place.starts_with("test: str0m"));
    assert_eq!(foreign.is_none(), listed);
    let ours = std::panic::catch_unwind(|| contained("test", || panic!("ours")));
    assert!(ours.is_err());
    // The standard library panics on our behalf.
    let far = Duration::MAX;
    let ours = std::panic::catch_unwind(|| contained("test", || std::time::Instant::now() + far));
    assert!(ours.is_err());
}
