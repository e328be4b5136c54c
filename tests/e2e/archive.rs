//! People's data: what a real agent has kept, as whoever runs it lists, shows, exports, replays and deletes it.

use serde_json::{Value, json};
use sotto_core::wire::body::{Body, VariationMode};
use sotto_harness::{
    agent::{self, Agent, Ended},
    endpoint::{Answer, Endpoint, Reply, Style},
    isolation,
    postgres::Postgres,
    server::{Server, new_room},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::agent::user::User;

const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");
const KEY: &str = "canary-key-77f2";

/// A room, its store, and what an agent needs to talk there.
struct Office {
    server: Arc<Server>,
    room: String,
    model: Endpoint,
    store: String,
}

/// How a command ended, and what it said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Office {
    async fn new(store: String) -> Self {
        let model = Endpoint::start().await;
        model.reply_by(|_| Reply::text("Yes."));
        Self { server: Server::shared().await, room: new_room(), model, store }
    }

    /// On a file of its own.
    async fn on_sqlite(file: &Path) -> Self {
        Self::new(format!("sqlite:{}", file.display())).await
    }

    fn settings<'a>(&'a self, url: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("SOTTO_MODEL_URL", url),
            ("SOTTO_MODEL_KEY", KEY),
            ("SOTTO_STORE_URL", &self.store),
            ("SOTTO_AGENT_GREETING", "Welcome to the office."),
        ]
    }

    async fn agent(&self) -> Agent {
        let url = self.model.url();
        Agent::join(SOTTO, &self.server, &self.room, &self.settings(&url)).await
    }

    /// Runs a command of the program beside the agent, or after it.
    async fn sotto(&self, arguments: &[&str]) -> Said {
        let url = self.model.url();
        let output = agent::run(SOTTO, &self.server, &self.settings(&url), arguments).await;
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let said = Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        let (_, secret) = self.server.api_key();
        for secret in [KEY, secret] {
            assert!(!said.out.contains(secret) && !said.err.contains(secret), "{}{}", said.out, said.err);
        }
        said
    }

    /// The same, where it must go well.
    async fn good(&self, arguments: &[&str]) -> String {
        let said = self.sotto(arguments).await;
        assert_eq!(said.code, Some(0), "{arguments:?}: {}{}", said.out, said.err);
        said.out
    }

    /// A conversation with a thought, a tool, another answer, a stop and an interruption, and an agent that left.
    async fn talk(&self) {
        let mut agent = self.agent().await;
        let mut anna = User::join(&self.server, &self.room, "anna").await;
        anna.participant.meets(agent.identity()).await;
        let thinks = Answer::default()
            .reasoning("They ask for canary-sums.\n\nA tool is surer.")
            .call("calculator", json!({"expression": "12*7"}));
        self.model.reply(Reply::answer(Style::Vllm, &thinks));
        self.model.reply(Reply::text("It is 84. That is canary-answer."));
        anna.says("What is 12*7, canary-question?").await;
        let (answer, text) = loop {
            // The greeting may come first.
            let (id, text) = anna.answer().await;
            if !text.starts_with("Welcome") {
                break (id, text);
            }
        };
        assert_eq!(text, "It is 84. That is canary-answer.");
        self.model.reply(Reply::text("Eighty-four. Again."));
        anna.varies(&answer, VariationMode::Regenerate, None).await;
        assert_eq!(anna.answer().await.1, "Eighty-four. Again.");
        let piece = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        let endless = || Reply::stream().event(&piece("Once upon a time. There")).stall();
        self.model.reply(endless());
        anna.says("Tell me a story.").await;
        anna.until(|body| matches!(body, Body::AssistantSentence(_))).await;
        anna.stops().await;
        assert_eq!(anna.answer().await.1, " There");
        self.model.reply(endless());
        anna.says("Another one.").await;
        anna.until(|body| matches!(body, Body::AssistantSentence(_))).await;
        self.model.reply(Reply::text("Never mind."));
        anna.says("No, thanks.").await;
        assert_eq!(anna.answer().await.1, " There");
        assert_eq!(anna.answer().await.1, "Never mind.");
        anna.participant.leave().await;
        agent.terminate();
        assert_eq!(agent.ended().await, Ended::WithCode(0));
    }
}

fn new_file(name: &str) -> PathBuf {
    isolation::directory().join(name)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(crate) async fn a_conversation_is_listed_shown_exported_and_replayed() {
    let office = Office::on_sqlite(&new_file("office.db")).await;
    // Nothing is made by looking.
    let before = office.sotto(&["conversations", "list"]).await;
    assert_eq!((before.code, new_file("office.db").exists()), (Some(1), false), "{}", before.err);
    assert!(before.err.contains("no agent has kept anything"), "{}", before.err);
    office.talk().await;
    let room = office.room.as_str();

    let list = office.good(&["conversations", "list"]).await;
    assert!(
        list.starts_with("NAME ") && list.lines().nth(1).is_some_and(|line| line.starts_with(room)),
        "{list}"
    );
    let listed = lines(&office.good(&["conversations", "list", "--json"]).await);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["messages"], &listed[0]["open"]),
        (&json!(room), &json!(4), &json!(0))
    );

    let shown = office.good(&["conversations", "show", room]).await;
    for part in [
        "anna joined",
        "agent: Welcome to the office.",
        "anna: What is 12*7, canary-question?",
        "thinking: They ask for canary-sums.",
        "tool: calculator {\"expression\":\"12*7\"} → ",
        "agent: It is 84. That is canary-answer.",
        "branch 2: anna asks for another answer to “It is 84.",
        "agent (answer 2): Eighty-four. Again.",
        "(stopped after ",
        "(broken off: the same user went on after ",
        "agent: Never mind.",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "no colours in a pipe");

    let file = new_file("office.jsonl").display().to_string();
    office.good(&["conversations", "export", room, "--output", &file]).await;
    let printed = office.good(&["conversations", "export", room]).await;
    let exported = lines(&fs::read_to_string(&file).expect("just written"));
    assert_eq!(exported[1..], lines(&printed)[1..]);
    assert_eq!(exported[0]["conversation"], room);
    let stanzas = exported.iter().filter(|line| line["stanza"]["bytes"].is_string()).count();
    assert!(stanzas >= 12, "{stanzas}");
    assert_eq!(office.sotto(&["conversations", "export", room, "--output", &file]).await.code, Some(1));

    let replayed = office.good(&["replay", &file]).await;
    assert_eq!(replayed, format!("the same: {stanzas} stanzas\n"));
    // Somebody changed a sentence.
    let forged = fs::read_to_string(&file).expect("just written");
    let line = forged.lines().find(|line| line.contains("AssistantSentence")).expect("there are some");
    fs::write(&file, forged.replace(&format!("{line}\n"), "")).expect("it is ours");
    let different = office.sotto(&["replay", &file]).await;
    assert_eq!(different.code, Some(1), "{}", different.err);
    assert!(
        different.out.contains("  recorded: ") && different.out.contains("  now:      "),
        "{}",
        different.out
    );
    fs::write(&file, "{}\n").expect("it is ours");
    let no_export = office.sotto(&["replay", &file]).await;
    assert_eq!(no_export.code, Some(2));
    assert!(no_export.err.contains("line 1"), "{}", no_export.err);

    for command in ["show", "export", "delete"] {
        let said = office.sotto(&["conversations", command, "no-such-room"]).await;
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("sotto conversations list"), "{}", said.err);
    }
    assert_eq!(office.sotto(&["conversations", "show"]).await.code, Some(2));
}

pub(crate) async fn a_killed_agent_is_replayed_as_it_was() {
    let office = Office::on_sqlite(&new_file("killed.db")).await;
    let mut agent = office.agent().await;
    let mut anna = User::join(&office.server, &office.room, "anna").await;
    anna.participant.meets(agent.identity()).await;
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "I am here. And"}}]});
    office.model.reply(Reply::stream().event(&piece).stall());
    anna.says("Are you there?").await;
    anna.until(|body| matches!(body, Body::AssistantSentence(it) if it.text == "I am here.")).await;
    agent.kill();
    let mut agent = office.agent().await;
    anna.until(|body| matches!(body, Body::AssistantSentence(it) if it.text == "Yes.")).await;
    agent.terminate();
    assert_eq!(agent.ended().await, Ended::WithCode(0));
    let file = new_file("killed.jsonl").display().to_string();
    office.good(&["conversations", "export", &office.room, "--output", &file]).await;
    let shown = office.good(&["conversations", "show", &office.room]).await;
    assert!(shown.contains("(the agent ended here; it answers again)"), "{shown}");
    let replayed = office.good(&["replay", &file]).await;
    assert!(replayed.starts_with("the same: "), "{replayed}");
}

pub(crate) async fn what_is_deleted_is_in_no_file_any_more() {
    let file = new_file("deleted.db");
    let office = Office::on_sqlite(&file).await;
    office.talk().await;
    let room = office.room.as_str();
    assert!(holds(&file, "canary-question") && holds(&file, "canary-sums"), "it was there before");
    // Another conversation of the same store stays.
    let other = Office { room: new_room(), store: office.store.clone(), ..Office::on_sqlite(&file).await };
    let agent = other.agent().await;
    let mut bob = User::join(&other.server, &other.room, "bob").await;
    bob.participant.meets(agent.identity()).await;
    bob.asks("canary-of-bob").await;

    let held = office.sotto(&["conversations", "delete", &other.room, "--yes"]).await;
    assert_eq!(held.code, Some(1));
    assert!(held.err.contains("held by process") && held.err.contains("Stop that agent"), "{}", held.err);
    let unconfirmed = office.sotto(&["conversations", "delete", room]).await;
    assert_eq!(unconfirmed.code, Some(2));
    assert!(unconfirmed.err.contains("--yes"), "{}", unconfirmed.err);

    let deleted = office.good(&["conversations", "delete", room, "--yes"]).await;
    assert!(deleted.contains("backups") && deleted.contains("what clients have kept"), "{deleted}");
    for word in ["canary-question", "canary-sums", "canary-answer", "Once upon a time", room] {
        assert!(!holds(&file, word), "{word} is still there");
    }
    assert!(holds(&file, "canary-of-bob"));
    assert_eq!(office.sotto(&["conversations", "show", room]).await.code, Some(1));
    let listed = lines(&office.good(&["conversations", "list", "--json"]).await);
    assert_eq!(listed.iter().map(|line| &line["name"]).collect::<Vec<_>>(), [&json!(other.room)]);

    let checked: Value =
        serde_json::from_str(&office.good(&["store", "check", "--json"]).await).expect("JSON");
    assert_eq!((&checked["ok"], &checked["conversations"]), (&json!(true), &json!(1)));
    assert!(office.good(&["store", "check"]).await.contains("✓"));
    office.good(&["store", "tidy"]).await;
    // The agent was not disturbed.
    assert_eq!(bob.asks("Still there?").await, "Yes.");
}

/// Whether a word is in a store's file or one of those beside it.
fn holds(file: &Path, word: &str) -> bool {
    ["", "-wal", "-shm"].iter().any(|suffix| {
        let bytes = fs::read(format!("{}{suffix}", file.display())).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

pub(crate) async fn the_same_on_postgresql() {
    let database = Postgres::shared().await.database();
    let office = Office::new(database.url().to_owned()).await;
    office.talk().await;
    let room = office.room.as_str();
    let file = new_file("postgres.jsonl").display().to_string();
    office.good(&["conversations", "export", room, "--output", &file]).await;
    assert!(office.good(&["replay", &file]).await.starts_with("the same: "));
    assert!(office.good(&["store", "check"]).await.contains("✓"));
    let deleted = office.good(&["conversations", "delete", room, "--yes"]).await;
    assert!(deleted.contains("write-ahead log"), "{deleted}");
    assert_eq!(office.sotto(&["conversations", "show", room]).await.code, Some(1));
}
