//! Secrets: listed for masking, shown nowhere.

use super::*;

const CANARY: &str = "canary-7f3a";

#[test]
fn are_listed_for_masking() {
    let file = "[model]\nurl = 'http://a/v1'\nkey = 'main-key'\nextra = { user = '${USER_TOKEN}' }\n\
                [[model.fallback]]\nurl = 'http://b/v1'\nname = 'b'\nkey = '${OTHER}'\n";
    let variables =
        [("LIVEKIT_API_SECRET", "lk"), ("USER_TOKEN", "token"), ("OTHER", "other"), ("UNUSED", "no")];
    let config = good(file, &variables);
    let secrets: BTreeSet<_> = config.secrets().collect();
    assert_eq!(secrets, BTreeSet::from(["lk", "main-key", "other", "token"]));
    let url = "postgres://sotto:pass@host/db";
    let database = good("", &[("SOTTO_STORE_URL", url)]);
    assert_eq!(database.secrets().collect::<Vec<_>>(), [url, "pass"]);
    let keys = [0, 1].map(|_| crate::store::MasterKeys::generate().expect("random numbers"));
    let sealed = good("", &[("SOTTO_STORE_KEY", &keys.join(", "))]);
    assert_eq!(sealed.secrets().collect::<Vec<_>>(), keys.each_ref());
    // Also the key of a model that is not asked.
    let idle = good("", &[("SOTTO_MODEL_KEY", "idle")]);
    assert_eq!(idle.secrets().collect::<Vec<_>>(), ["idle"]);
}

#[test]
fn are_not_shown_by_debug_output() {
    let file = "[agent]\nname = 'a ${C}'\ngreeting = '${C}'\n\
                [model]\nurl = 'http://a/${C}/v1'\nkey = '${C}'\nextra = { a = ['${C}'] }\n\
                [[model.fallback]]\nurl = 'http://b/v1'\nname = '${C}'\nkey = 'canary-7f3a'\n\
                [store]\nurl = 'postgres://sotto:canary-7f3a@host/db'\n";
    let variables = [("C", CANARY), ("LIVEKIT_API_SECRET", CANARY)];
    let config = good(file, &variables);
    let shown = format!("{config:?} {config:#?} {:?}", variables.into_iter().collect::<Environment>());
    assert!(!shown.contains(CANARY), "{shown}");
    assert!(shown.contains("http://a/${C}/v1"), "{shown}");
    assert_eq!(config.model.endpoints[0].url.as_str(), "http://a/canary-7f3a/v1");
    assert_eq!(Secret::new(CANARY).to_string(), "[hidden]");
}

#[test]
fn are_not_shown_by_problems() {
    let files = [
        "[model]\nkey = 'canary-7f3a and more'\n",
        "[model]\nkey = canary-7f3a\n",
        "[model]\nkey = 'canary-7f3a\n",
        "[model]\nkey = { a = 'canary-7f3a' }\n",
        "[model]\nkye = 'canary-7f3a'\n",
        "[model]\nextra = 'canary-7f3a'\n",
        "[model]\nurl = 'https://user:canary-7f3a@host/v1'\n",
        "[model]\nurl = 'https://host/v1?key=canary-7f3a'\n",
        "[model]\nretries = '${C}'\n",
        "[tools]\nbuiltin = ['${C}']\n",
        "[agent]\ninstructions_file = '${C}'\n",
        "[store]\nurl = 'mysql://user:canary-7f3a@host/db'\n",
        "[livekit]\nurl = 'wss://canary-7f3a@host'\n",
        "[store]\nkey = 'canary-7f3a'\n",
        "[store]\nkey = ['canary-7f3a']\n",
        "[store]\nkey = 'canary-7f3a'\nkey_file = '${C}'\n",
    ];
    for file in files {
        let problems = problems(file, &[("C", CANARY)]);
        assert!(!problems.concat().contains(CANARY), "{problems:?}");
    }
    for variable in [
        "SOTTO_MODEL_URL",
        "SOTTO_STORE_URL",
        "SOTTO_STORE_KEY",
        "LIVEKIT_URL",
        "SOTTO_MODEL_KYE",
        "SOTTO_MODEL_EXTRA",
    ] {
        let problems = problems("", &[(variable, CANARY)]);
        assert!(!problems.concat().contains(CANARY), "{problems:?}");
    }
}
