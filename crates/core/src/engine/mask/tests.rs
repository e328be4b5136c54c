use super::*;
use proptest::prelude::*;
use serde_json::json;

fn secrets(values: &[&str]) -> Secrets {
    Secrets::new(values.iter().map(|value| (*value).to_owned()))
}

#[test]
fn values_are_hidden_wherever_they_stand() {
    let secrets = secrets(&["sk-12345", "gehe1müß"]);
    let cases = [
        ("", ""),
        ("nothing here", "nothing here"),
        ("sk-12345", "[hidden]"),
        ("key=sk-12345!", "key=[hidden]!"),
        ("sk-12345sk-12345", "[hidden][hidden]"),
        ("sk-sk-12345", "sk-[hidden]"),
        ("sk-1234", "sk-1234"),
        ("ü gehe1müß ß", "ü [hidden] ß"),
    ];
    for (text, shown) in cases {
        assert_eq!(secrets.hide(text), shown);
    }
}

#[test]
fn of_two_values_the_first_and_then_the_longest_is_hidden() {
    let secrets = secrets(&["abcdef", "abcdefgh", "cdefghij"]);
    assert_eq!(secrets.hide("abcdef."), "[hidden].");
    assert_eq!(secrets.hide("abcdefgh."), "[hidden].");
    assert_eq!(secrets.hide("abcdefghij"), "[hidden]ij");
    assert_eq!(secrets.hide("cdefghij"), "[hidden]");
}

#[test]
fn short_values_and_the_replacement_itself_are_no_secrets() {
    assert_eq!(secrets(&["", "a", "12345", "hidden"]).hide("a 12345 hidden"), "a 12345 hidden");
}

#[test]
fn text_without_secrets_is_not_copied() {
    assert!(matches!(secrets(&["abcdef"]).hide("abcde"), Cow::Borrowed("abcde")));
}

#[test]
fn json_is_hidden_in_depth() {
    let mut value = json!({
        "plain": [1, true, null, "text"],
        "my abcdef": {"deep": ["an abcdef", 1_234_567]},
        "abcdef": 1,
        "1234567": 2.5,
    });
    secrets(&["abcdef", "1234567"]).hide_json(&mut value);
    let expected = json!({
        "plain": [1, true, null, "text"],
        "my [hidden]": {"deep": ["an [hidden]", "[hidden]"]},
        "[hidden]": 1,
        "[hidden]_": 2.5,
    });
    assert_eq!(value.to_string(), expected.to_string(), "the order of keys counts too");
}

#[test]
fn debug_output_shows_no_value() {
    let secrets = secrets(&["abcdef"]);
    let mut stream = Stream::default();
    stream.push(&secrets, "abcde");
    assert_eq!(format!("{secrets:?} {stream:?}"), "Secrets(1 values) Stream(5 bytes held)");
}

#[test]
fn a_stream_holds_back_only_what_may_be_a_secret() {
    let secrets = secrets(&["abcdef"]);
    let mut stream = Stream::default();
    assert_eq!(stream.push(&secrets, "so abc"), "so ");
    assert_eq!(stream.push(&secrets, "abc"), "abc");
    assert_eq!(stream.push(&secrets, "def and a"), "[hidden] and ");
    assert_eq!(stream.finish(&secrets), "a");
    assert_eq!(stream.finish(&secrets), "");
}

proptest! {
    #[test]
    fn any_split_hides_the_same(
        values in proptest::collection::vec("[abß]{3,9}", 0..5),
        pieces in proptest::collection::vec("[abß]{0,6}", 0..20),
    ) {
        let secrets = Secrets::new(values.clone());
        let mut stream = Stream::default();
        let mut shown: String = pieces.iter().map(|piece| stream.push(&secrets, piece)).collect();
        shown.push_str(&stream.finish(&secrets));
        prop_assert_eq!(&shown, &secrets.hide(&pieces.concat()).into_owned());
        for value in values.iter().filter(|value| value.len() > 5) {
            prop_assert!(!shown.contains(value.as_str()));
        }
    }

    #[test]
    fn all_else_stays_byte_for_byte(parts in proptest::collection::vec("[^#]{0,9}", 1..8)) {
        let secrets = secrets(&["#secret#"]);
        prop_assert_eq!(secrets.hide(&parts.join("#secret#")).into_owned(), parts.join(HIDDEN));
    }
}
