//! Encryption at rest as whoever runs an agent meets it: the key is in the environment, and everything else is as ever.

use sotto_core::wire::body::Body;
use sotto_harness::{agent, endpoint::Reply};
use std::path::Path;

use super::durable::new_store;
use super::{SOTTO, Scene, dialogue, start_agent, unfinished};

const CANARY: &str = "canary-7f3a";

/// What a command says and whether it did it.
async fn run(scene: &Scene, settings: &[(&str, &str)], arguments: &[&str]) -> (String, bool) {
    let output = agent::run(SOTTO, &scene.server, settings, arguments).await;
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.success())
}

/// The files of a store that hold a canary.
fn readable(store: &Path) -> Vec<String> {
    let name = store.file_name().expect("it is a file").to_string_lossy().into_owned();
    let files = std::fs::read_dir(store.parent().expect("it is in a directory")).expect("it is there");
    let files = files.map(|file| file.expect("it can be read"));
    let of_store = files.filter(|file| file.file_name().to_string_lossy().starts_with(&name));
    let has_canary = |path: &Path| {
        let bytes = std::fs::read(path).expect("it can be read");
        bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    };
    let found = of_store.filter(|file| has_canary(&file.path()));
    found.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

pub(crate) async fn killed_with_a_sealed_store_it_goes_on_with_the_key_alone() {
    let store = new_store();
    let file = store.strip_prefix("sqlite:").expect("it is a file").to_owned();
    let clear = [("SOTTO_STORE_URL", store.as_str())];
    let key = {
        let server = sotto_harness::server::Server::shared().await;
        // Needs nothing to be configured, not even well.
        let output = agent::run(SOTTO, &server, &[("SOTTO_STORE_KEY", "none yet")], &["store", "key"]).await;
        String::from_utf8(output.stdout).expect("it is text").trim().to_owned()
    };
    let sealed = [("SOTTO_STORE_URL", store.as_str()), ("SOTTO_STORE_KEY", key.as_str())];
    let mut scene = Scene::begin_with(&sealed).await;
    let room = scene.room.clone();
    let mut anna = scene.user("anna").await;
    scene.model.reply(unfinished(&["Say canary-7f3a. And"]));
    let question = anna.says("What is canary-7f3a?").await;
    assert_eq!(anna.hears(3).await, ["ack 1", "start", "1: Say canary-7f3a."]);
    scene.agent.kill();
    assert_eq!(readable(Path::new(&file)), [""; 0]);

    // Whoever has no key, or another one, sees that there is something, and touches nothing.
    let (list, _) = run(&scene, &clear, &["conversations", "list"]).await;
    assert!(list.contains(&room), "{list}");
    let (shown, good) = run(&scene, &clear, &["conversations", "show", &room]).await;
    assert!(good && shown.contains("anna: (sealed)") && !shown.contains(CANARY), "{shown}");
    let (refused, good) = run(&scene, &clear, &["conversations", "export", &room]).await;
    assert!(
        !good && refused.contains("is not exported: the conversation is sealed with the key "),
        "{refused}"
    );
    let (refused, good) = run(&scene, &clear, &["join", &room]).await;
    assert!(!good && refused.contains("sealed with the key ") && !refused.contains(&key), "{refused}");
    let (wrong, good) = run(&scene, &clear, &["store", "check"]).await;
    assert!(!good && wrong.contains("1 conversations are sealed"), "{wrong}");

    // With the key it answers what was asked, and remembers.
    scene.model.reply_by(|request| match request.body["max_tokens"].as_i64() {
        // What gets to know the model is short.
        Some(..=100) => Reply::text("Yes."),
        _ => Reply::text("A bird."),
    });
    scene.agent = start_agent(&scene.server, &room, &scene.model, &sealed).await;
    scene.probes = scene.model.log().requests.len();
    let heard = anna.until(|body| matches!(body, Body::StartAnswer(_))).await;
    let Some(Body::StartAnswer(start)) = heard.last().map(|envelope| &envelope.body) else {
        panic!("awaited it just now")
    };
    assert_eq!(start.previous_id, question);
    assert_eq!(anna.hears_to_the_end().await, ["1: A bird. (final)"]);
    anna.participant.meets(scene.agent.identity()).await;
    anna.asks("And now?").await;
    let asked = dialogue(&scene.asked(1).await);
    assert_eq!(asked, ["user: What is canary-7f3a?", "assistant: A bird.", "user: And now?"]);
    assert_eq!(readable(Path::new(&file)), [""; 0]);

    // Another key in its place, beside the agent that is running.
    let (new, _) = run(&scene, &clear, &["store", "key"]).await;
    let both = format!("{} {key}", new.trim());
    let rotated = [("SOTTO_STORE_URL", store.as_str()), ("SOTTO_STORE_KEY", both.as_str())];
    let (told, good) = run(&scene, &rotated, &["store", "rekey"]).await;
    assert!(good && told.starts_with("the keys of 1 conversations are wrapped"), "{told}");
    anna.asks("Still there?").await;
    let new = [("SOTTO_STORE_URL", store.as_str()), ("SOTTO_STORE_KEY", new.trim())];
    let (shown, good) = run(&scene, &new, &["conversations", "show", &room]).await;
    assert!(
        good && shown.contains("anna: What is canary-7f3a?") && shown.contains("Still there?"),
        "{shown}"
    );
    let (checked, good) = run(&scene, &new, &["store", "check"]).await;
    assert!(good && checked.contains("1 conversations are sealed"), "{checked}");
}
