//! What keeping conversations costs: the way of a sentence with SQLite beside the same without a database, in turns.

use crate::{
    crowd,
    report::{Report, Target, progress},
    samples::Samples,
    scene::Scene,
    script::{PACE, Script},
};
use std::time::Duration;

const LASTING: Duration = Duration::from_secs(40);
const ROUNDS: usize = 2;

pub(crate) async fn measure(report: &mut Report) {
    let script = Script::of_sentences(8, PACE);
    let (mut in_memory, mut in_sqlite) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        for (url, samples) in [("memory:", &mut in_memory), ("sqlite:sotto.db", &mut in_sqlite)] {
            progress(&format!("sentences with store.url = {url}, round {round} of {ROUNDS}"));
            let (scene, visitor) = Scene::in_one_room(&script, &[("SOTTO_STORE_URL", url)]).await;
            samples.extend(crowd::keep_busy(&scene, &script, vec![visitor], LASTING).await.sentences);
        }
    }
    let (in_memory, in_sqlite) = (Samples::new(in_memory), Samples::new(in_sqlite));
    let mut add = |what: &str, value, unit, target| {
        report.add(format!("store: sentence complete → packet at the client, {what}"), value, unit, target);
    };
    add("in memory, median", in_memory.median(), "ms", Target::None);
    add("in SQLite, median", in_sqlite.median(), "ms", Target::None);
    add("SQLite / memory", in_sqlite.median() / in_memory.median(), "×", Target::AtMost(1.1));
}
