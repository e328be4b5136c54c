//! Resident memory of `sotto join` over very many messages in one room: once its conversation is as long as the model can
//! take in, it must not grow.

use crate::{
    report::{Report, Target},
    scene::Scene,
    script::Script,
};
use std::time::Duration;

pub(crate) async fn measure(report: &mut Report, messages: usize) {
    let script = Script::of_sentences(6, Duration::ZERO);
    let (scene, mut visitor) = Scene::in_one_room(&script, &[]).await;
    let looks = [messages / 10, messages / 2, messages];
    let mut sizes = Vec::new();
    for number in 1..=messages {
        visitor.ask_and_wait().await;
        if number % 100 == 0 {
            scene.endpoint.forget_bodies();
        }
        if looks.contains(&number) {
            sizes.push(scene.agent_kb() / 1e3);
            report.add(
                format!("flat: memory after {number} messages"),
                scene.agent_kb() / 1e3,
                "MB",
                Target::None,
            );
        }
    }
    if let (Some(first), Some(last)) = (sizes.first(), sizes.last()) {
        report.add("flat: memory at the end / after a tenth", last / first, "×", Target::AtMost(1.1));
    }
}
