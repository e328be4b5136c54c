//! The real `sotto chat`, piped and at a terminal, with a real server and the real `sotto join` with the demo model.

use std::process::{Output, Stdio};

use serde_json::Value;
use sotto_harness::{
    PATIENCE, isolation,
    participant::Participant,
    server::{Server, new_room},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");

/// A program with nothing of our environment but what every program needs, and what it must know.
fn program(name: &str, server: &Server, settings: &[(&str, &str)]) -> Command {
    let (api_key, api_secret) = server.api_key();
    let mut command = Command::new(name);
    command
        .env_clear()
        .envs(["PATH", "SSL_CERT_FILE"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .env("LIVEKIT_URL", server.url())
        .env("LIVEKIT_API_KEY", api_key)
        .env("LIVEKIT_API_SECRET", api_secret)
        .env("SOTTO_HTTP_ADDR", "off")
        .env("TERM", "xterm")
        .envs(settings.iter().copied())
        .current_dir(isolation::directory())
        .kill_on_drop(true);
    command
}

/// The agent, on its way to the room; ends when it is dropped.
fn agent(server: &Server, room: &str, settings: &[(&str, &str)]) -> Child {
    let mut command = program(SOTTO, server, settings);
    command.args(["join", room]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program is there")
}

fn chat(server: &Server, room: &str, arguments: &[&str]) -> Child {
    let mut command = program(SOTTO, server, &[]);
    command.args(["chat", room]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program is there")
}

/// Types all of it, and waits for the end.
async fn finish(mut chat: Child, typed: &str) -> (Option<i32>, String, String) {
    let mut stdin = chat.stdin.take().expect("asked for a pipe");
    stdin.write_all(typed.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = timeout(PATIENCE * 2, chat.wait_with_output()).await.expect("the chat ends");
    let Output { status, stdout, stderr } = output.expect("its output can be read");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

pub(crate) async fn pipes_get_plain_text_and_each_answer_is_awaited() {
    let server = Server::shared().await;
    let room = new_room();
    let _agent = agent(&server, &room, &[]);
    let typed = "What is 12*7?\n\n/again\n/edit What is 5+5?\n";
    let (code, shown, told) = finish(chat(&server, &room, &[]), typed).await;
    assert_eq!(code, Some(0), "{shown}\n{told}");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");

    let turns: Vec<&str> = shown.split_inclusive('\n').fold(Vec::new(), |mut turns, line| {
        if line.starts_with("> ") {
            turns.push(line);
        }
        turns
    });
    assert_eq!(turns, ["> What is 12*7?\n", "> /again\n", "> /edit What is 5+5?\n"]);
    let answers: Vec<&str> = shown.split("> ").skip(1).collect();
    for (answer, (expression, result)) in answers.iter().zip([("12*7", "84"), ("12*7", "84"), ("5+5", "10")])
    {
        let tool =
            format!("\ntool: calculator {{\"expression\":\"{expression}\"}} → {{\"result\":{result}}}\n");
        let said = format!("\n{expression} is {result}. ");
        let place = |part: &str| answer.find(part).unwrap_or_else(|| panic!("no {part:?} in {answer}"));
        assert!(place("\nthinking: ") < place(&tool) && place(&tool) < place(&said), "{answer}");
        assert!(answer.ends_with(".\n"), "{answer:?}");
    }
}

pub(crate) async fn scripts_get_json() {
    let server = Server::shared().await;
    let room = new_room();
    let _agent = agent(&server, &room, &[]);
    let (code, shown, told) =
        finish(chat(&server, &room, &["--json", "--message", "What is 12*7?"]), "").await;
    assert_eq!(code, Some(0), "{shown}\n{told}");
    let envelopes: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let of = |name: &str| envelopes.iter().filter(|e| e["type"] == name).collect::<Vec<_>>();
    for name in ["Acknowledgement", "Configuration", "ReasoningDelta", "ReasoningStep", "ToolUseResult"] {
        assert!(!of(name).is_empty(), "no {name} in {shown}");
    }
    let answer: String = of("AssistantSentence").iter().filter_map(|e| e["body"]["text"].as_str()).collect();
    assert!(answer.starts_with("12*7 is 84. "), "{answer}");
    let last = envelopes.last().expect("something came");
    assert_eq!((&last["type"], &last["conversationId"]), (&"TurnMeta".into(), &room.as_str().into()));
    let stanzas: Vec<i64> = envelopes.iter().filter_map(|e| e["stanzaId"].as_i64()).collect();
    assert!(stanzas.is_sorted_by(|a, b| a > b), "{stanzas:?}");
}

pub(crate) async fn a_question_waits_for_the_agent() {
    let server = Server::shared().await;
    let room = new_room();
    let mut watcher = Participant::join(&server, &room, "watcher").await;
    let chat = chat(&server, &room, &["--identity", "anna", "--no-reasoning", "--message", "What is 2+3?"]);
    watcher.meets("anna").await;
    // It is said by now, and nobody was there to hear it.
    watcher.data().await;
    let _agent = agent(&server, &room, &[]);
    let (code, shown, told) = finish(chat, "").await;
    assert_eq!(code, Some(0), "{shown}\n{told}");
    assert!(shown.starts_with("> What is 2+3?\ntool: calculator "), "{shown}");
    assert!(shown.contains("\n2+3 is 5. "), "{shown}");
}

pub(crate) async fn without_an_agent_it_gives_up() {
    let server = Server::shared().await;
    let room = new_room();
    let (code, shown, told) =
        finish(chat(&server, &room, &["--timeout", "1"]), "Hello?\nNever asked.\n").await;
    assert_eq!((code, shown.as_str()), (Some(1), "> Hello?\n"));
    assert!(told.contains("no agent came") && told.contains(&format!("sotto join {room}")), "{told}");
}

pub(crate) async fn a_failed_answer_is_told_and_shows_in_the_exit_code() {
    let server = Server::shared().await;
    let room = new_room();
    // Nobody listens there.
    let nowhere = [
        ("SOTTO_MODEL_URL", "http://127.0.0.1:9/v1"),
        ("SOTTO_MODEL_NAME", "none"),
        ("SOTTO_MODEL_RETRIES", "0"),
    ];
    let _agent = agent(&server, &room, &nowhere);
    let (code, shown, told) = finish(chat(&server, &room, &[]), "One?\nTwo?\n").await;
    assert_eq!(code, Some(1), "{shown}\n{told}");
    assert_eq!(shown.matches("\nerror: ").count(), 2, "{shown}");
    assert_eq!(shown.matches("(503)").count(), 2, "{shown}");
    assert!(told.contains("2 questions were not answered"), "{told}");
}

pub(crate) async fn what_cannot_be_done_shows_in_the_exit_code() {
    let server = Server::shared().await;
    let room = new_room();
    let (code, shown, told) =
        finish(chat(&server, &room, &[]), "/again\n/bogus\n/quit\nNever asked.\n").await;
    assert_eq!((code, shown.as_str()), (Some(1), ""));
    assert!(told.contains("nothing yet") && told.contains("no command /bogus"), "{told}");
}

/// `sotto chat` at a terminal, which is closed when it is dropped.
pub(crate) struct Terminal {
    process: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    /// What was shown since the last time.
    seen: String,
}

impl Terminal {
    pub(crate) fn open(server: &Server, room: &str) -> Self {
        // The program of util-linux that runs another at a terminal of its own.
        let mut command = program("script", server, &[]);
        command.args(["--quiet", "--return", "--command", &format!("exec {SOTTO} chat {room}"), "/dev/null"]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux is there");
        let keys = process.stdin.take().expect("asked for a pipe");
        let screen = process.stdout.take().expect("asked for a pipe");
        Self { process, keys, screen, seen: String::new() }
    }

    pub(crate) async fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("it reads");
    }

    /// Reads until something is shown; gives all that was shown since the last time.
    pub(crate) async fn shows(&mut self, what: &str) -> String {
        let Self { screen, seen, .. } = self;
        let reading = async {
            let mut bytes = Vec::new();
            loop {
                if let Some(at) = seen.find(what) {
                    let rest = seen.split_off(at + what.len());
                    return std::mem::replace(seen, rest);
                }
                let read = screen.read_buf(&mut bytes).await.expect("the terminal can be read");
                assert!(read > 0, "the chat ended; it showed {seen:?}");
                // A character may be cut in two; the rest of it comes.
                let whole = match std::str::from_utf8(&bytes) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                seen.push_str(&String::from_utf8_lossy(&bytes[..whole]));
                bytes.drain(..whole);
            }
        };
        let found = timeout(PATIENCE, reading).await;
        found.unwrap_or_else(|_| panic!("{what:?} was never shown"))
    }
}

pub(crate) async fn at_a_terminal_ctrl_c_stops_the_answer_and_then_leaves() {
    let server = Server::shared().await;
    let room = new_room();
    let _agent = agent(&server, &room, &[]);
    let mut terminal = Terminal::open(&server, &room);
    terminal.shows("the agent is here").await;
    terminal.shows("> ").await;
    terminal.types("What is 12*7?\n").await;
    terminal.shows("\x1b[2mI").await;
    terminal.types("\x03").await;
    let stopped = terminal.shows("stopped, ").await;
    assert!(!stopped.contains("12*7 is 84"), "{stopped}");
    assert!(!stopped.contains("error"), "{stopped}");
    terminal.shows("\n> ").await;

    terminal.types("/again\n").await;
    terminal.shows("\x1b[2mthought for ").await;
    terminal.shows("12*7 is 84. ").await;
    terminal.shows(" tokens in").await;
    terminal.shows("\n> ").await;
    terminal.types("\x03").await;
    let ended = timeout(PATIENCE, terminal.process.wait()).await;
    assert_eq!(ended.expect("the chat ends").expect("it is our child").code(), Some(0));
}
