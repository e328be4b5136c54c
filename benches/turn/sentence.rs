//! From the endpoint writing the chunk that completes a sentence to the client holding its packet, beside a bare packet
//! from another process to the same client in the same seconds: with one room, and with many busy ones.

use crate::{
    beacon,
    crowd::{self, Busy},
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{PACE, Script},
    visitor::VISITOR,
};
use std::time::Duration;

const LASTING: Duration = Duration::from_secs(30);
/// One room has few sentences.
const LASTING_ALONE: Duration = Duration::from_secs(90);
/// Tokens and bare packets must not keep step.
const BARE_EVERY: Duration = Duration::from_millis(71);
/// In so many of the busy rooms bare packets are measured.
const ROOMS_WITH_BEACON: usize = 4;

pub(crate) async fn measure(report: &mut Report, rooms: usize) {
    let script = Script::of_sentences(8, PACE);
    progress("sentences in one room, with `sotto join`");
    let (scene, visitor) = Scene::in_one_room(&script, &[]).await;
    let beacon = beacon::start(&scene.server, &visitor.room(), VISITOR, BARE_EVERY);
    let busy = crowd::keep_busy(&scene, &script, vec![visitor], LASTING_ALONE).await;
    drop(beacon);
    tell(report, "1 room", &busy);
    drop(scene);

    progress(&format!("sentences in {rooms} busy rooms"));
    let mut scene = Scene::for_many_rooms(&script, &[]).await;
    let visitors = crowd::gather(&mut scene, rooms).await;
    let beacons: Vec<_> = visitors
        .iter()
        .take(ROOMS_WITH_BEACON)
        .map(|visitor| beacon::start(&scene.server, &visitor.room(), VISITOR, BARE_EVERY))
        .collect();
    let busy = crowd::keep_busy(&scene, &script, visitors, LASTING).await;
    drop(beacons);
    tell(report, &format!("{rooms} busy rooms"), &busy);
}

fn tell(report: &mut Report, where_: &str, busy: &Busy) {
    let sentences = Samples::new(busy.sentences.iter().copied());
    let bare = Samples::new(busy.bare.iter().copied());
    let [agent, server, others] = busy.cores;
    let kept_up = busy.kept_up();
    if !kept_up {
        progress("the machine did not keep up: no verdict on what follows");
    }
    progress(&format!(
        "{} sentences, {} bare packets; {:.1} tokens a second and room; cores in use: agent {agent:.2}, server {server:.2}, clients and endpoint {others:.2}",
        sentences.count(),
        bare.count(),
        busy.tokens_per_second
    ));
    let mut add = |what: &str, value, unit, target| {
        report.add(format!("sentence, {where_}: {what}"), value, unit, target);
    };
    add("complete → packet at the client, median", sentences.median(), "ms", Target::None);
    add("a bare packet, median", bare.median(), "ms", Target::None);
    add(
        "median of sentences / median of bare packets",
        sentences.median() / bare.median(),
        "×",
        Target::AtMost(1.5).only_if(kept_up),
    );
    add("complete → packet at the client, p95", sentences.p95(), "ms", Target::None);
    add("a bare packet, p95", bare.p95(), "ms", Target::None);
    add(
        "p95 of sentences / p95 of bare packets",
        sentences.p95() / bare.p95(),
        "×",
        Target::AtMost(3.0).only_if(kept_up),
    );
}
