//! `sotto token`: prints a token that lets someone join a room.
//!
//! It signs with the configured key and asks no server, so it works before there is one. [`JoinToken`] is also how the
//! other commands come by theirs.

use crate::config::{Config, LiveKit};
use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use livekit_api::access_token::{AccessToken, Claims, VideoGrants};
use std::io::Write;
use std::time::Duration;

/// Print a token that lets someone join a room.
///
/// It is signed with `LIVEKIT_API_KEY` and `LIVEKIT_API_SECRET` (or what the configuration file says under `[livekit]`), and
/// no server is asked. Whoever has it can join the room as IDENTITY until it expires: treat it like a password.
#[derive(clap::Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  sotto token my-room alice
  sotto token my-room alice --name \"Alice Liddell\" --ttl 10m
  sotto token my-room alice --json | jq -r .token"
)]
pub struct Arguments {
    /// The room.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    room: String,
    /// Who joins; two with one identity cannot be in a room at once.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    identity: String,
    /// What others see in place of the identity.
    #[arg(long)]
    name: Option<String>,
    /// Join as an agent: Sotto answers people only, and front ends show agents as such.
    #[arg(long)]
    agent: bool,
    /// How long one can join with it: 90s, 15m, 1h or 7d. Whoever is in the room by then stays.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_time)]
    ttl: Duration,
    /// Print an object with token, url, room, identity and expires (in seconds since 1970).
    #[arg(long)]
    json: bool,
}

/// Prints the token, alone or with what belongs to it.
pub fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", output(arguments, &config.livekit)?)?)
}

fn output(arguments: &Arguments, livekit: &LiveKit) -> anyhow::Result<String> {
    let Arguments { room, identity, name, agent, ttl, json } = arguments;
    let token =
        JoinToken { room, identity, name: name.as_deref(), agent: *agent, ttl: *ttl }.sign(livekit)?;
    if !json {
        return Ok(token);
    }
    let expires = Claims::from_unverified(&token)?.exp;
    let url = livekit.url.as_str();
    let output = serde_json::json!({"token": token, "url": url, "room": room, "identity": identity, "expires": expires});
    Ok(output.to_string())
}

/// What lets a participant join a room.
#[derive(Clone, Copy, Debug)]
pub struct JoinToken<'a> {
    /// The room; not empty.
    pub room: &'a str,
    /// Who joins; not empty.
    pub identity: &'a str,
    /// What others see in place of the identity.
    pub name: Option<&'a str>,
    /// Whether this is a participant of kind agent.
    pub agent: bool,
    /// How long one can join with it.
    pub ttl: Duration,
}

impl JoinToken<'_> {
    /// The token, signed with the configured key; a `ConfigError` if there is none.
    pub fn sign(&self, livekit: &LiveKit) -> anyhow::Result<String> {
        let (api_key, api_secret) = livekit.credentials()?;
        let grants = VideoGrants {
            room_join: true,
            room: self.room.to_owned(),
            // Without it nobody may set their own attributes, and an agent's state is one.
            can_update_own_metadata: Some(true),
            ..VideoGrants::default()
        };
        let token = AccessToken::with_api_key(api_key, api_secret.expose())
            .with_identity(self.identity)
            .with_name(self.name.unwrap_or_default())
            .with_ttl(self.ttl)
            .with_grants(grants);
        // The kind alone: the grant `agent` would also allow to register as a worker of the server.
        let token = if self.agent { token.with_kind("agent") } else { token };
        token.to_jwt().context("cannot sign a token")
    }
}

/// A whole number and a unit; at least a second, at most ten years.
fn parse_time(text: &str) -> Result<Duration, String> {
    const LONGEST: u64 = 10 * 365 * 86_400;
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .filter(|seconds| (1..=LONGEST).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "write a number and a unit, such as 90s, 15m, 1h or 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;
    use livekit_api::access_token::TokenVerifier;
    use std::path::Path;

    const ALICE: JoinToken<'_> = JoinToken {
        room: "my-room",
        identity: "alice",
        name: Some("Alice"),
        agent: false,
        ttl: Duration::from_secs(600),
    };

    fn livekit() -> LiveKit {
        let variables = [("LIVEKIT_API_KEY", "key"), ("LIVEKIT_API_SECRET", "secret")];
        let environment = variables.into_iter().collect();
        Config::load_from(None, Path::new("/nonexistent"), &environment).expect("good").livekit
    }

    #[test]
    fn lets_one_person_into_one_room() {
        let token = ALICE.sign(&livekit()).expect("a token");
        let claims = TokenVerifier::with_api_key("key", "secret").verify(&token).expect("a good signature");
        assert_eq!((claims.sub.as_str(), claims.name.as_str(), claims.kind.as_str()), ("alice", "Alice", ""));
        // A little more if the clock went on in between, far less than what LiveKit would give by itself.
        assert!((600..3_600).contains(&(claims.exp - claims.nbf)), "{claims:?}");
        let grants = VideoGrants {
            room_join: true,
            room: "my-room".to_owned(),
            can_update_own_metadata: Some(true),
            ..VideoGrants::default()
        };
        assert_eq!(claims.video, grants);
        TokenVerifier::with_api_key("key", "other").verify(&token).expect_err("another secret");
    }

    #[test]
    fn makes_an_agent_of_those_who_ask() {
        let token = JoinToken { agent: true, ..ALICE }.sign(&livekit()).expect("a token");
        let claims = TokenVerifier::with_api_key("key", "secret").verify(&token).expect("a good signature");
        assert_eq!(claims.kind, "agent");
        assert!(!claims.video.agent, "it could register as a worker");
    }

    #[test]
    fn says_what_is_missing() {
        let error = ALICE.sign(&Config::default().livekit).expect_err("no key");
        assert!(error.to_string().contains("set LIVEKIT_API_KEY"), "{error}");
        assert!(error.is::<ConfigError>(), "the exit code depends on it");
    }

    #[test]
    fn for_scripts_comes_with_what_belongs_to_it() {
        let mut arguments = Arguments {
            room: "my-room".to_owned(),
            identity: "alice".to_owned(),
            name: None,
            agent: false,
            ttl: Duration::from_secs(60),
            json: true,
        };
        let json: serde_json::Value =
            serde_json::from_str(&output(&arguments, &livekit()).expect("output")).expect("JSON");
        let token = json["token"].as_str().expect("a token");
        let claims = Claims::from_unverified(token).expect("claims");
        assert_eq!(json["expires"], claims.exp);
        assert_eq!(
            [&json["url"], &json["room"], &json["identity"]],
            ["ws://localhost:7880", "my-room", "alice"]
        );
        arguments.json = false;
        let alone = output(&arguments, &livekit()).expect("output");
        assert_eq!(Claims::from_unverified(&alone).expect("claims").sub, "alice");
    }

    #[test]
    fn times_have_a_unit() {
        let times = ["90s", "15m", "1h", "7d"].map(|text| parse_time(text).map(|time| time.as_secs()));
        assert_eq!(times, [90, 900, 3_600, 604_800].map(Ok));
        for text in [
            "",
            "1",
            "h",
            "0s",
            "-1h",
            "1.5h",
            "1 h",
            "1w",
            "99999999999999999999s",
            "9999999999999d",
            "4000d",
            "1é",
        ] {
            parse_time(text).expect_err(text);
        }
    }
}
