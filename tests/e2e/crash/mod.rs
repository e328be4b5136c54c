//! Whatever an agent is killed at, nothing said is lost: every message that someone sent ends, exactly once, and whoever
//! was there holds every stanza there ever was, each number standing for one.
//!
//! The real `sotto join`, killed without a word (`kill -9`, or at a numbered point inside), and started again on the same
//! store; people on our own client, which sends again what was not acknowledged and asks for what it missed.

mod people;

use people::{Person, answer_to};
use serde_json::Value;
use sotto_harness::{
    PATIENCE,
    agent::{self, Agent, Ended},
    endpoint::{Answer, Endpoint, Reply, Request, Style},
    isolation,
    server::{Server, new_room},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// The program under test, built by cargo for this very run.
const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");

/// The most points there may be in one turn; there are far fewer.
const MOST_POINTS: usize = 400;

/// For what must not come.
const A_MOMENT: Duration = Duration::from_millis(300);

/// A room, a store and a model that outlive the agents.
pub(crate) struct House {
    server: Arc<Server>,
    room: String,
    model: Endpoint,
    store: String,
    /// With which it is sealed, if it is.
    key: Option<String>,
}

impl House {
    pub(crate) async fn new(store: String) -> Self {
        let model = Endpoint::start().await;
        model.reply_by(reply);
        Self { server: Server::shared().await, room: new_room(), model, store, key: None }
    }

    /// All that is kept is sealed.
    pub(crate) async fn sealed(store: String) -> Self {
        let house = Self::new(store).await;
        let output = agent::run(SOTTO, &house.server, &[], &["store", "key"]).await;
        let key = String::from_utf8(output.stdout).expect("it is text").trim().to_owned();
        Self { key: Some(key), ..house }
    }

    async fn agent(&self, more: &[(&str, &str)]) -> Agent {
        let agent = self.launch(more);
        agent.logs("that it joined", |line| line.contains("\"joined\"")).await;
        agent
    }

    fn launch(&self, more: &[(&str, &str)]) -> Agent {
        let url = self.model.url();
        let settings = [
            ("SOTTO_MODEL_URL", url.as_str()),
            ("SOTTO_MODEL_THINKING", "on"),
            ("SOTTO_STORE_URL", &self.store),
            ("SOTTO_AGENT_INTERRUPTION", "queue"),
        ];
        let key = self.key.as_deref().map(|key| ("SOTTO_STORE_KEY", key));
        let settings: Vec<_> = settings.into_iter().chain(key).chain(more.iter().copied()).collect();
        Agent::launch(SOTTO, &self.server, &self.room, &settings)
    }
}

/// Thinks, uses a tool for every third question, and says the same to the same question each time.
fn reply(request: &Request) -> Reply {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    let question = messages.iter().rfind(|message| role(message) == "user");
    let question = question.and_then(|message| message["content"].as_str()).unwrap_or_default();
    // With several users each message begins with its speaker's name.
    let question = question.rsplit(": ").next().unwrap_or_default();
    let number: usize = question.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let used = messages.last().is_some_and(|message| role(message) == "tool");
    let answer = Answer::default().reasoning("Let me see.\n\n").reasoning("I know.\n\n");
    let answer = if number % 3 == 2 && !used {
        answer.call("calculator", serde_json::json!({"expression": format!("{number} + 1")}))
    } else {
        answer_to(question).split_inclusive(' ').fold(answer, Answer::text)
    };
    Reply::answer(Style::Vllm, &answer).paced(Duration::from_millis(3))
}

/// A file of its own.
pub(crate) fn new_file() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sqlite:{}", isolation::directory().join(format!("crash-{number}.db")).display())
}

/// The process ends at each point of a turn at which it stores or does something, one after the other.
pub(crate) async fn at_every_point_of_a_turn(store: String) {
    let house = House::new(store).await;
    let mut anna = Person::join(&house.server, &house.room, "anna").await;
    let mut survived = 0;
    for point in 1.. {
        assert!(point < MOST_POINTS, "a turn has an end");
        let at = point.to_string();
        let mut agent = house.launch(&[("SOTTO_CRASH_AT", &at)]);
        anna.asks();
        let crashed = tokio::select! {
            ended = agent.ended() => {
                assert_eq!(ended, Ended::BySignal, "it was to crash at {point}");
                true
            }
            () = anna.is_answered() => false,
        };
        // It was answered before the point was reached: there are no more.
        if !crashed {
            agent.kill();
            break;
        }
        survived += 1;
        let mut next = house.agent(&[]).await;
        anna.is_answered().await;
        next.kill();
    }
    println!("crashed at each of {survived} points of a turn: nothing lost");
    assert!(survived > 20, "the points are compiled in: {survived}");
    anna.has_everything(&house).await;
}

/// Killed so many times at random moments while three people ask one thing after the other.
pub(crate) async fn killed_at_random(kills: usize, seed: u64, house: House) {
    let mut people = Vec::new();
    for name in ["anna", "bob", "carl"] {
        people.push(Person::join(&house.server, &house.room, name).await);
    }
    let mut chance = Chance(seed);
    for kill in 0..kills {
        let mut agent = house.launch(&[]);
        for person in &mut people {
            if person.is_served() {
                person.asks();
            }
        }
        let moment = Duration::from_millis(chance.below(900));
        let listening = async {
            let [anna, bob, carl] = people.as_mut_slice() else { return };
            tokio::join!(anna.listens(), bob.listens(), carl.listens());
        };
        // Whenever it comes: also before it has joined.
        let _ = timeout(moment, listening).await;
        agent.kill();
        if (kill + 1) % 50 == 0 {
            println!("{} of {kills} kills", kill + 1);
        }
    }
    let agent = house.agent(&[]).await;
    let (mut answered, mut given_up, mut asked) = (0, 0, 0);
    for person in &mut people {
        timeout(6 * PATIENCE, person.is_answered()).await.expect("everything is answered in the end");
    }
    // Only now: everyone hears the others' answers too, and those have an end by now.
    for person in &mut people {
        person.has_everything(&house).await;
        asked += person.asked();
        answered += person.answered();
        given_up += person.given_up();
    }
    println!(
        "killed {kills} times at random (seed {seed}): {asked} messages, {answered} answered in full, \
         {given_up} given up and told so, {} lost",
        asked - answered - given_up
    );
    assert_eq!(asked, answered + given_up, "nothing is lost");
    drop(agent);
}

/// A generator that is good enough for moments.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}
