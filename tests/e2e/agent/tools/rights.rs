//! A tool that only those with an attribute may have used. Who may change their own attributes could give themselves any.
//!
//! The server announces a newcomer, with its attributes, up to 3 s after it has joined, and until then it has none. All are
//! told of everything in the same order; so what was before something that the agent knows, it knows, too.

use super::{Door, PATIENT_WITH_MANY, calls, configured, offered, result_told};
use crate::agent::{Scene, durable::new_store, start_agent, unfinished, user::User};
use livekit::prelude::RoomEvent;
use livekit_api::{
    access_token::{AccessToken, VideoGrants},
    services::room::{RoomClient, UpdateParticipantOptions},
};
use serde_json::json;
use sotto_core::wire::body::{Body, Configuration};
use sotto_harness::{PATIENCE, endpoint::Reply, participant::Participant};
use std::collections::{BTreeMap, HashMap};
use tempfile::TempDir;
use tokio::time::timeout;

/// A room whose agent opens a door for admins.
struct House {
    scene: Scene,
    door: Door,
    people: BTreeMap<&'static str, User>,
    store: String,
    directory: TempDir,
}

fn admin() -> HashMap<String, String> {
    HashMap::from([("role".to_owned(), "admin".to_owned())])
}

impl House {
    async fn build(speakers: &str) -> Self {
        let door = Door::build().await;
        let tool = door.tool("rights = { attributes = { role = \"admin\" } }");
        let config =
            format!("[tools]\nallow_hosts = [\"127.0.0.1\"]\npolicy_speakers = \"{speakers}\"\n{tool}");
        let store = new_store();
        let settings = [PATIENT_WITH_MANY, ("SOTTO_STORE_URL", store.as_str())];
        let (scene, directory) = configured(&config, &settings).await;
        Self { scene, door, people: BTreeMap::new(), store, directory }
    }

    /// The agent is killed, and another one with the same configuration takes its place.
    async fn replaces_agent(&mut self) {
        self.scene.agent.kill();
        let config = self.directory.path().join("sotto.toml").to_string_lossy().into_owned();
        let settings = [("SOTTO_CONFIG", config.as_str()), ("SOTTO_STORE_URL", &self.store)];
        let Scene { server, room, model, .. } = &self.scene;
        self.scene.agent = start_agent(server, room, model, &settings).await;
    }

    /// Someone joins whose token says this. Whether one may change it the token says too; by default not.
    async fn joins(
        &mut self,
        identity: &'static str,
        attributes: HashMap<String, String>,
        may_change: Option<bool>,
    ) {
        let Scene { server, room, agent, .. } = &self.scene;
        let (key, secret) = server.api_key();
        let grants = VideoGrants {
            room_join: true,
            room: room.clone(),
            can_update_own_metadata: may_change,
            ..VideoGrants::default()
        };
        let token = AccessToken::with_api_key(key, secret).with_identity(identity);
        let token = token.with_attributes(attributes).with_grants(grants).to_jwt();
        let token = token.expect("key and secret are set");
        let mut user = User::of(Participant::join_with_token(server, room, identity, &token).await);
        user.participant.meets(agent.identity()).await;
        self.people.insert(identity, user);
    }

    /// Asks for the door to be opened. The model wants that in any case; true if it was offered, and opened.
    async fn gets_in(&mut self, who: &str) -> bool {
        let (opened, asked) = (self.door.asked().len(), self.scene.asked_so_far());
        self.scene.model.reply(calls("open_door", json!({"door": "front"})));
        self.people.get_mut(who).expect("someone who joined").says("Open the door.").await;
        // All hear the answer.
        for user in self.people.values_mut() {
            user.exchange().await;
        }
        let is_offered = offered(&self.scene.asked(asked).await).contains(&"open_door".to_owned());
        assert_eq!(
            self.door.asked().len() - opened,
            usize::from(is_offered),
            "what is not offered does not run"
        );
        let told = result_told(&self.scene.asked(asked + 1).await);
        assert!(told.contains(if is_offered { "open" } else { "unknown_tool" }), "{told}");
        is_offered
    }

    /// Waits until the server tells of this one, who joined last.
    async fn meets(&mut self, who: &str) {
        for (_, user) in self.people.iter_mut().filter(|(identity, _)| **identity != who) {
            user.participant.meets(who).await;
        }
    }

    /// Asks until the agent has heard that this one may, which others have heard.
    async fn comes_to_get_in(&mut self, who: &str) {
        let asking = async { while !self.gets_in(who).await {} };
        timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{who} never got in"));
    }
}

pub(crate) async fn attributes_give_rights_to_those_who_cannot_change_them() {
    let mut house = House::build("asker").await;
    house.joins("boris", HashMap::new(), None).await;
    house.joins("mallory", HashMap::new(), Some(true)).await;
    house.joins("trudy", admin(), Some(true)).await;
    house.joins("anna", admin(), None).await;
    house.meets("anna").await;
    house.comes_to_get_in("anna").await;
    assert!(!house.gets_in("boris").await);
    assert!(!house.gets_in("mallory").await);
    assert!(!house.gets_in("trudy").await, "she could have set it herself, for all we know");

    // The SDK may miss the server's answer and wait for it in vain, so another one tells when it is done.
    let room = house.people["mallory"].participant.room.clone();
    let setting = tokio::spawn(async move { room.local_participant().set_attributes(admin()).await });
    let is_set = |event: &RoomEvent| {
        let RoomEvent::ParticipantAttributesChanged { participant, .. } = event else { return false };
        participant.identity().as_str() == "mallory"
    };
    let anna = house.people.get_mut("anna").expect("she joined");
    anna.participant.happens("mallory calls himself an admin", is_set).await;
    setting.abort();

    // What the server's owner says counts at once; and what was said before it has reached the agent by then.
    let (key, secret) = house.scene.server.api_key();
    let url = format!("http://{}", house.scene.server.signal_address());
    let options = UpdateParticipantOptions { attributes: admin(), ..UpdateParticipantOptions::default() };
    let api = RoomClient::with_api_key(&url, key, secret);
    api.update_participant(&house.scene.room, "boris", options).await.expect("the server does it");
    house.comes_to_get_in("boris").await;
    assert!(!house.gets_in("mallory").await, "he has set it himself");
}

/// A model cannot tell whose wish it follows.
pub(crate) async fn a_call_has_the_rights_of_all_whose_words_are_in_the_prompt() {
    let mut house = House::build("all").await;
    house.joins("boris", HashMap::new(), None).await;
    house.joins("carla", admin(), None).await;
    house.joins("anna", admin(), None).await;
    house.meets("anna").await;
    house.comes_to_get_in("anna").await;
    assert!(house.gets_in("carla").await, "both may");
    assert!(!house.gets_in("boris").await);
    assert!(!house.gets_in("anna").await, "it may be his words that the model follows");
}

/// The agent is killed in the middle of an answer. The next one asks the model again once it knows who asked.
pub(crate) async fn what_was_asked_before_a_restart_has_the_rights_of_its_asker() {
    let mut house = House::build("asker").await;
    house.joins("boris", HashMap::new(), None).await;
    house.joins("anna", admin(), None).await;
    house.meets("anna").await;
    house.comes_to_get_in("anna").await;
    house.scene.model.reply(unfinished(&["I am thinking. And"]));
    let anna = house.people.get_mut("anna").expect("she joined");
    anna.says("Open it once more.").await;
    anna.until(|body| matches!(body, Body::StartAnswer(_))).await;
    let asked = house.scene.model.log().requests.len();
    house.scene.model.reply_by(|_| Reply::text("Yes."));
    house.replaces_agent().await;
    let anna = house.people.get_mut("anna").expect("she joined");
    anna.participant.meets(house.scene.agent.identity()).await;
    anna.sends(Body::Configuration(Configuration::default())).await;
    // The first ones only get to know the model.
    let mut number = asked;
    let again = loop {
        let request = house.scene.model.request(number).await;
        if request.body["messages"].to_string().contains("Open it once more.") {
            break request;
        }
        number += 1;
    };
    assert!(offered(&again).contains(&"open_door".to_owned()), "{:?}", again.body["tools"]);
}
