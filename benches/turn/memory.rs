//! Resident memory of the agent's process for each conversation: idle (one question asked and answered), and after many
//! turns.

use crate::{
    crowd,
    report::{Report, Target, progress},
    scene::Scene,
    script::Script,
    visitor::Visitor,
};
use std::time::Duration;
use tokio::task::JoinSet;

const FEW: usize = 20;
const MANY: usize = 120;
const TURNS: usize = 50;
/// So many ask at once.
const AT_ONCE: usize = 8;

pub(crate) async fn measure(report: &mut Report) {
    progress(&format!("memory of {FEW} and of {MANY} conversations"));
    let script = Script::of_sentences(6, Duration::ZERO);
    let mut scene = Scene::for_many_rooms(&script, &[]).await;
    let few = crowd::gather(&mut scene, FEW).await;
    let mut visitors = take_turns(few, 1).await;
    let small = scene.agent_kb();
    let more = crowd::gather(&mut scene, MANY - FEW).await;
    visitors.extend(take_turns(more, 1).await);
    let large = scene.agent_kb();
    let idle = (large - small) / (MANY - FEW) as f64 / 1e3;
    progress(&format!("{FEW}: {small} kB, {MANY}: {large} kB; {TURNS} turns in each of them"));
    let _visitors = take_turns(visitors, TURNS).await;
    let after = scene.agent_kb();
    // All the growth is put to the conversations' account.
    let grown = idle + (after - large) / MANY as f64 / 1e3;
    report.add("memory: each further idle conversation", idle, "MB", Target::AtMost(0.6));
    report.add(format!("memory: the same after {TURNS} turns"), grown, "MB", Target::AtMost(1.2));
}

/// Lets each ask so often, and gives them back.
async fn take_turns(visitors: Vec<Visitor>, turns: usize) -> Vec<Visitor> {
    let (mut waiting, mut done, mut asking) = (visitors, Vec::new(), JoinSet::new());
    loop {
        while asking.len() < AT_ONCE
            && let Some(mut visitor) = waiting.pop()
        {
            asking.spawn(async move {
                for _ in 0..turns {
                    visitor.ask_and_wait().await;
                }
                visitor
            });
        }
        match asking.join_next().await {
            Some(visitor) => done.push(visitor.expect("no visitor fails")),
            None => return done,
        }
    }
}
