//! Hooks: what is read, and what is told of mistakes.

use super::*;
use sotto_core::engine::hook::WhenAway;
use sotto_core::engine::policy::Taint;

const GOOD: &str = "url = 'https://a.example/hook'\nsecret = 'of-all-the-hooks'\nwhen_away = 'closed'\n";

#[test]
fn there_are_none_unless_they_are_configured() {
    let hooks = good("", &[]).hooks;
    assert_eq!((hooks.before_model, hooks.before_tool, hooks.before_say), (None, None, None));
    assert_eq!(good("[hooks]\nbefore_say = ''\n", &[]).hooks.before_say, None);
}

#[test]
fn a_hook_is_read_and_its_secrets_are_hidden() {
    let file = "[hooks]\nallow_hosts = ['localhost']\n[hooks.before_model]\nurl = 'https://a.example/hook'\n\
                secret = '${SIGN}'\nwhen_away = 'open'\ntimeout = 0.5\neffects = ['untrusted_output']\n\
                headers = { Authorization = 'Bearer abcdefgh' }\n";
    let config = good(file, &[("SIGN", "s3cret-s3cret-s3cret")]);
    let hook = config.hooks.before_model.as_ref().expect("it is configured");
    assert_eq!((hook.url.as_str(), hook.when_away), ("https://a.example/hook", WhenAway::Open));
    assert_eq!(hook.timeout, Duration::from_millis(500));
    assert_eq!(hook.brings, Taint { untrusted: true, private: false });
    assert_eq!(hook.secret.expose(), "s3cret-s3cret-s3cret");
    for hidden in ["s3cret-s3cret-s3cret", "abcdefgh"] {
        assert!(
            config.secrets().any(|secret| secret == hidden),
            "{hidden} is masked where the model says it"
        );
        assert!(!format!("{config:?}").contains(hidden), "{hidden} is never shown");
    }
    let usual = good(&format!("[hooks.before_say]\n{GOOD}"), &[]).hooks.before_say.expect("it is configured");
    assert_eq!((usual.timeout, usual.when_away), (Duration::from_secs(2), WhenAway::Closed));
    let undeclared = good(&format!("[hooks.before_model]\n{GOOD}"), &[]).hooks.before_model;
    let all = Taint { untrusted: true, private: true };
    assert_eq!(undeclared.map(|hook| hook.brings), Some(all), "what nobody declared brings everything");
}

#[test]
fn mistakes_are_told_with_their_place_and_remedy() {
    let cases = [
        (
            "[hooks.before_say]\nsecret = 'of-all-the-hooks'\nwhen_away = 'open'\n".to_owned(),
            "sotto.toml:1: hooks.before_say has no url; add it",
        ),
        (
            "[hooks.before_say]\nurl = 'https://a.example/'\nwhen_away = 'open'\n".to_owned(),
            "sotto.toml:1: hooks.before_say has no secret; add it",
        ),
        (
            "[hooks.before_say]\nurl = 'https://a.example/'\nsecret = 'of-all-the-hooks'\n".to_owned(),
            "sotto.toml:1: hooks.before_say has no when_away; add it",
        ),
        (
            "[hooks.before_say]\nurl = 'https://a.example/'\nsecret = 'short'\nwhen_away = 'open'\n".to_owned(),
            "sotto.toml:3: hooks.before_say.secret must be at least 16 characters that nobody can guess, as `openssl rand \
             -hex 32` makes them",
        ),
        (
            "[hooks.before_tool]\nurl = 'ftp://a.example/'\nsecret = 'of-all-the-hooks'\nwhen_away = 'open'\n".to_owned(),
            "sotto.toml:2: hooks.before_tool.url must be a URL that begins with http:// or https://, without user, \
             password and #; keys belong in headers",
        ),
        (
            "[hooks.before_tool]\nurl = 'https://a.example/'\nsecret = 'of-all-the-hooks'\nwhen_away = 'ajar'\n".to_owned(),
            "sotto.toml:4: hooks.before_tool.when_away is \"ajar\" but must be one of \"open\", \"closed\"",
        ),
        (
            format!("[hooks.before_tool]\n{GOOD}timeout = 0\n"),
            "sotto.toml:5: hooks.before_tool.timeout is 0 but must be a number of seconds from 0.05 to 60",
        ),
        (
            format!("[hooks.before_tool]\n{GOOD}timeuot = 1\n"),
            "sotto.toml:5: hooks.before_tool.timeuot is unknown; did you mean timeout?",
        ),
        (
            format!("[hooks.before_tool]\n{GOOD}effects = []\n"),
            "sotto.toml:5: hooks.before_tool.effects is unknown; the keys there are url, secret, timeout, when_away, headers",
        ),
        (
            format!("[hooks.before_say]\n{GOOD}headers = {{ sotto-signature = 'x' }}\n"),
            "sotto.toml:1: hooks.before_say has a header that begins with Sotto-, which are ours; call it otherwise",
        ),
        (
            format!("[hooks.before_speak]\n{GOOD}"),
            "sotto.toml:1: hooks.before_speak is unknown; did you mean before_say?",
        ),
        (
            "[hooks]\nbefore_say = 'https://a.example/'\n".to_owned(),
            "sotto.toml:2: hooks.before_say must be a table; write [hooks.before_say] and its keys in the lines below",
        ),
    ];
    for (file, problem) in cases {
        assert_eq!(problems(&file, &[]), [problem], "{file}");
    }
    let variable = [("SOTTO_HOOKS_BEFORE_SAY", "https://a.example/")];
    assert_eq!(
        problems("", &variable),
        ["SOTTO_HOOKS_BEFORE_SAY: hooks.before_say can only be set in the file; unset the variable"]
    );
}
