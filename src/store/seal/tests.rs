use super::*;

const HERE: Place<'_> = Place::Record { conversation: 1, seq: 2 };

fn masters(keys: &[&str]) -> MasterKeys {
    MasterKeys::parse(&keys.join("\n")).expect("good keys").expect("some")
}

fn new_key() -> String {
    MasterKeys::generate().expect("random numbers")
}

#[test]
fn what_is_sealed_opens_in_its_place_with_its_key_and_nowhere_else() {
    let (key, other) = (DataKey::generate().expect("a key"), DataKey::generate().expect("another"));
    let sealed = key.seal(HERE, b"three steps", b"the canary sings").expect("sealed");
    assert_eq!(key.open(HERE, &sealed).as_deref(), Some(&b"the canary sings"[..]));
    assert_eq!(clear(&sealed), Some(&b"three steps"[..]));
    assert!(!sealed.windows(6).any(|window| window == b"canary"));

    assert_eq!(other.open(HERE, &sealed), None);
    let elsewhere = [
        Place::Record { conversation: 1, seq: 3 },
        Place::Record { conversation: 2, seq: 2 },
        Place::Stanza { conversation: 1, number: 2, audience: "" },
    ];
    for place in elsewhere {
        assert_eq!(key.open(place, &sealed), None, "{place:?}");
    }
    let stanza = |audience| Place::Stanza { conversation: 1, number: -5, audience };
    let sealed = key.seal(stanza("reasoning"), b"", b"a thought").expect("sealed");
    assert_eq!(key.open(stanza("everyone"), &sealed), None);
}

#[test]
fn any_changed_or_missing_byte_is_noticed() {
    let key = DataKey::generate().expect("a key");
    let sealed = key.seal(HERE, b"clear", b"secret").expect("sealed");
    for index in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[index] ^= 1;
        assert_eq!(key.open(HERE, &changed), None, "byte {index}");
        assert_eq!(key.open(HERE, &sealed[..index]), None, "the first {index} bytes");
    }
}

#[test]
fn the_same_text_is_never_sealed_alike() {
    let key = DataKey::generate().expect("a key");
    assert_ne!(key.seal(HERE, b"", b"yes"), key.seal(HERE, b"", b"yes"));
}

#[test]
fn a_data_key_comes_back_from_any_master_key_that_is_still_listed() {
    let (old, new) = (new_key(), new_key());
    let data = DataKey::generate().expect("a key");
    let before = masters(&[&old]);
    let wrapped = before.wrap(&data, 7).expect("wrapped");

    let both = masters(&[&new, &old]);
    assert_ne!(both.id(), before.id());
    let unwrapped = both.unwrap(before.id(), &wrapped, 7).expect("unwrapped");
    assert_eq!(unwrapped.bytes, data.bytes);
    assert!(both.unwrap(before.id(), &wrapped, 8).is_err(), "of another conversation");
    assert!(both.unwrap(both.id(), &wrapped, 7).is_err(), "with another key");

    let missing = masters(&[&new]).unwrap(before.id(), &wrapped, 7).map(|_| ()).expect_err("no such key");
    assert!(missing.to_string().contains(before.id()), "{missing}");
}

#[test]
fn keys_are_read_from_lines_and_lists_and_mistakes_are_named_without_them() {
    let (one, two) = (new_key(), new_key());
    let file = format!("# our keys\n{two} # since May\n\n  {one}\n");
    assert_eq!(MasterKeys::parse(&file), MasterKeys::parse(&format!("{two},{one}")));
    assert_eq!(MasterKeys::parse(" \n# none yet\n"), Ok(None));

    let error = MasterKeys::parse(&format!("{one} tooshort")).expect_err("no key");
    assert!(error.to_string().starts_with("key 2 of 2 "), "{error}");
    assert!(!error.to_string().contains("tooshort"));
    let shown = format!("{:?}", masters(&[&one]));
    assert!(!shown.contains(&one) && shown.contains(masters(&[&one]).id()), "{shown}");
}
