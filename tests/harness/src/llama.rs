//! llama.cpp's own HTTP server, unmodified, with the scripted Qwen3 (docs/models.md): real template, real tokenizer, real
//! parser. `tests/python/llama_server.py` in a process of its own, on loopback; it ends with this one.
//!
//! A test talks to it through Sotto; what is here beside that asks the server how it saw things.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::OnceCell,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{PATIENCE, children, isolation, tools};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/llama_server.py");
/// Qwen3's special tokens begin here; all before them are ordinary words.
const FIRST_SPECIAL: u64 = 151_643;
/// The one ordinary word that llama.cpp takes for the end of a text.
const END_OF_TEXT: &str = "</s>";

static SHARED: OnceCell<Arc<Llama>> = OnceCell::const_new();
static WITHOUT_PARSING: OnceCell<Arc<Llama>> = OnceCell::const_new();

/// A running server.
pub struct Llama {
    process: Child,
    url: String,
    http: reqwest::Client,
}

impl Llama {
    /// The server that tests share: thinking and tool calls told apart, as it does by default.
    pub async fn shared() -> Arc<Self> {
        SHARED.get_or_init(|| async { Arc::new(Self::start(&[]).await) }).await.clone()
    }

    /// The same, but with everything in the content as the model wrote it.
    pub async fn shared_without_parsing() -> Arc<Self> {
        WITHOUT_PARSING.get_or_init(|| async { Arc::new(Self::start(&["--no-parsing"]).await) }).await.clone()
    }

    /// A server of the test's own, with more of the options of `scripts/llama-server`.
    pub async fn start(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = isolation::directory().join(format!("llama-{number}.log"));
        let mut command = children::mortal(tools::LLAMA_PYTHON.path());
        command
            .arg(SCRIPT)
            .arg(tools::SCRIPTED_QWEN3.path())
            .args(["--caller", &std::process::id().to_string(), "--context", "8192"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the tests' directory is writable"));
        let mut process = children::spawn(command).expect("util-linux and Python are there");
        let output = process.stdout.take().expect("asked for a pipe");
        let first_line = spawn_blocking(|| BufReader::new(output).lines().next());
        let first_line = timeout(PATIENCE, first_line).await.expect("llama.cpp's server starts in time");
        let Ok(Some(Ok(url))) = first_line else {
            panic!("llama.cpp's server does not start; see {}", log.display())
        };
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        Self { process, url, http }
    }

    /// The base that clients are configured with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The prompt that the server's template makes of a request.
    pub async fn prompt_of(&self, request: &Value) -> String {
        let prompt = self.post("/apply-template", request).await;
        prompt["prompt"].as_str().expect("the server applies its template").to_owned()
    }

    /// How many tokens the server counts in the prompt when it really answers that request.
    pub async fn prompt_tokens_of(&self, request: &Value) -> usize {
        let mut request = request.clone();
        request["stream"] = false.into();
        request["max_tokens"] = 1.into();
        request.as_object_mut().expect("a request is an object").remove("stream_options");
        let answer = self.post("/v1/chat/completions", &request).await;
        answer["usage"]["prompt_tokens"].as_u64().expect("the server counts tokens") as usize
    }

    /// The tokens of a prompt, as the server reads it.
    pub async fn tokens(&self, prompt: &str) -> Vec<Token> {
        let request = json!({"content": prompt, "parse_special": true, "with_pieces": true});
        let answer = self.post("/tokenize", &request).await;
        let tokens = answer["tokens"].as_array().expect("the server tokenises");
        let token = |token: &Value| {
            // A piece of a character comes as bytes; it is nothing special.
            let text = token["piece"].as_str().unwrap_or_default().to_owned();
            let is_special = token["id"].as_u64() >= Some(FIRST_SPECIAL) || text == END_OF_TEXT;
            Token { text, is_special }
        };
        tokens.iter().map(token).collect()
    }

    /// How many answers it is working on.
    pub async fn busy(&self) -> usize {
        let slots = self.text(self.http.get(self.address("/slots"))).await;
        let slots: Value = serde_json::from_str(&slots).expect("the server shows its slots");
        let slots = slots.as_array().expect("the server shows its slots");
        slots.iter().filter(|slot| slot["is_processing"] == true).count()
    }

    /// How many tokens it has written in its life.
    pub async fn tokens_written(&self) -> usize {
        let metrics = self.text(self.http.get(self.address("/metrics"))).await;
        let written = metrics.lines().find_map(|line| line.strip_prefix("llamacpp:tokens_predicted_total "));
        written.and_then(|written| written.trim().parse().ok()).expect("the server counts what it writes")
    }

    /// Waits until it works on nothing. The server tells nobody when that is, so it is asked.
    pub async fn becomes_idle(&self) {
        let idle = async {
            while self.busy().await > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, idle).await.expect("llama.cpp's server still works on an answer");
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.text(self.http.post(self.address(path)).body(body.to_string())).await;
        serde_json::from_str(&answer).expect("llama.cpp's server answers in JSON")
    }

    async fn text(&self, request: reqwest::RequestBuilder) -> String {
        let answer = async { request.send().await?.error_for_status()?.text().await };
        let answer = timeout(PATIENCE, answer).await.expect("llama.cpp's server answers in time");
        answer.unwrap_or_else(|error| panic!("llama.cpp's server does not want to: {error}"))
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url.trim_end_matches("/v1"))
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        // Both fail only when it is dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A token of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it says; empty where that is only a part of a character.
    pub text: String,
    /// Whether it means something to the model beyond what it says.
    pub is_special: bool,
}
