//! How many conversations that stream 30 tokens a second one core carries: the processor time of the agent's process, user
//! and system, while so many stream, and from that how many would fill a core. The server and the clients need cores of
//! their own; how much of them is told too, because where none is idle the figure is of a machine that is too small.

use crate::{
    crowd,
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{PACE, Script, TOKENS_PER_SECOND},
};
use std::time::Duration;

const LASTING: Duration = Duration::from_secs(30);

pub(crate) async fn measure(report: &mut Report, rooms: usize) {
    progress(&format!("processor time of {rooms} streaming conversations"));
    let script = Script::of_sentences(16, PACE);
    let mut scene = Scene::for_many_rooms(&script, &[]).await;
    let visitors = crowd::gather(&mut scene, rooms).await;
    let idle = scene.processor_times();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = scene.processor_times()[0].saturating_sub(idle[0]).as_secs_f64() / 5.0;
    let busy = crowd::keep_busy(&scene, &script, visitors, LASTING).await;
    let [agent, server, others] = busy.cores;
    let kept_up = busy.kept_up();
    // As if all had been as fast as they should.
    let conversations = rooms as f64 * busy.tokens_per_second / TOKENS_PER_SECOND;
    let mut add = |what: &str, value, unit, target| {
        report.add(format!("capacity, {rooms} rooms: {what}"), value, unit, target);
    };
    add("tokens a second and conversation", busy.tokens_per_second, "", Target::None);
    add("sentence complete → packet, median", Samples::new(busy.sentences).median(), "ms", Target::None);
    add("the agent while nobody asks", idle, "cores", Target::None);
    add("the agent", agent, "cores", Target::None);
    add("the server", server, "cores", Target::None);
    add("clients and endpoint", others, "cores", Target::None);
    let what = if kept_up {
        "conversations a core carries"
    } else {
        "conversations a core carries (the machine did not keep up)"
    };
    add(what, conversations / agent, "", Target::AtLeast(300.0).only_if(kept_up));
}
