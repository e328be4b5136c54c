//! From the endpoint writing the chunk that completes a sentence to the client holding its packet: with one room, and with
//! many busy ones. In the same seconds, to the same client, beside two others: a bare packet from another process, which
//! has one process less to go through, and one that goes the same path, from the endpoint through a [`relay`].

use crate::{
    beacon,
    crowd::{self, Busy},
    relay,
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{PACE, Script},
};
use std::time::Duration;

const LASTING: Duration = Duration::from_secs(30);
/// One room has few sentences.
const LASTING_ALONE: Duration = Duration::from_secs(90);
/// Tokens and bare packets must not keep step.
const BARE_EVERY: Duration = Duration::from_millis(71);
/// In so many of the busy rooms bare packets are measured, and in as many others relayed ones.
const ROOMS_WITH_BEACON: usize = 4;

pub(crate) async fn measure(report: &mut Report, rooms: usize) {
    let script = Script::of_sentences(8, PACE);
    progress("sentences in one room, with `sotto join`");
    let (scene, visitor) = Scene::in_one_room(&script, &[]).await;
    let beacon = beacon::start(&scene.server, &visitor.room(), BARE_EVERY);
    let relay = relay::start(&scene.server, &scene.endpoint, &visitor.room());
    let busy = crowd::keep_busy(&scene, &script, vec![visitor], LASTING_ALONE).await;
    drop((beacon, relay));
    tell(report, "1 room", &busy);
    drop(scene);

    progress(&format!("sentences in {rooms} busy rooms"));
    let mut scene = Scene::for_many_rooms(&script, &[]).await;
    let visitors = crowd::gather(&mut scene, rooms).await;
    let beacons: Vec<_> = visitors
        .iter()
        .take(ROOMS_WITH_BEACON)
        .map(|visitor| beacon::start(&scene.server, &visitor.room(), BARE_EVERY))
        .collect();
    let relays: Vec<_> = visitors
        .iter()
        .rev()
        .take(ROOMS_WITH_BEACON)
        .map(|visitor| relay::start(&scene.server, &scene.endpoint, &visitor.room()))
        .collect();
    let busy = crowd::keep_busy(&scene, &script, visitors, LASTING).await;
    drop((beacons, relays));
    tell(report, &format!("{rooms} busy rooms"), &busy);
}

fn tell(report: &mut Report, where_: &str, busy: &Busy) {
    let sentences = Samples::new(busy.sentences.iter().copied());
    let bare = Samples::new(busy.bare.iter().copied());
    let relayed = Samples::new(busy.relayed.iter().copied());
    let [agent, server, others] = busy.cores;
    let kept_up = busy.kept_up();
    if !kept_up {
        progress("the machine did not keep up: no verdict on what follows");
    }
    progress(&format!(
        "{} sentences, {} bare packets, {} relayed; {:.1} tokens a second and room; cores in use: agent {agent:.2}, server {server:.2}, clients and endpoint {others:.2}",
        sentences.count(),
        bare.count(),
        relayed.count(),
        busy.tokens_per_second
    ));
    let mut add = |what: &str, value, unit, target| {
        report.add(format!("sentence, {where_}: {what}"), value, unit, target);
    };
    for (which, at, limit) in
        [("median", Samples::median as fn(&Samples) -> f64, 1.5), ("p95", Samples::p95, 3.0)]
    {
        let (sentence, bare, relayed) = (at(&sentences), at(&bare), at(&relayed));
        let limit = Target::AtMost(limit).only_if(kept_up);
        add(&format!("complete → packet at the client, {which}"), sentence, "ms", Target::None);
        add(&format!("a bare packet, {which}"), bare, "ms", Target::None);
        add(&format!("a bare packet over the same path, {which}"), relayed, "ms", Target::None);
        add(&format!("{which} of sentences / of bare packets"), sentence / bare, "×", limit);
        add(
            &format!("{which} of sentences / of bare packets over the same path"),
            sentence / relayed,
            "×",
            limit,
        );
    }
}
