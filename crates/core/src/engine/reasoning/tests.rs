use super::*;
use proptest::prelude::*;

/// The steps that pieces make, and whether the pieces are in order.
fn steps_of(pieces: &[Piece]) -> Vec<String> {
    let mut steps = Vec::new();
    let mut under_way = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                assert!(!text.is_empty(), "an empty piece says nothing");
                under_way.push_str(text);
            }
            Piece::End => steps.push(std::mem::take(&mut under_way)),
        }
    }
    assert_eq!(under_way, "", "the last step was ended");
    steps
}

fn think<'a>(max_chars: usize, chunks: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut steps = Steps::new(max_chars);
    let mut pieces: Vec<_> = chunks.into_iter().flat_map(|chunk| steps.push(chunk)).collect();
    pieces.extend(steps.finish());
    steps_of(&pieces)
}

fn by_char(max_chars: usize, text: &str) -> Vec<String> {
    think(max_chars, text.split_inclusive(|_| true))
}

#[test]
fn steps_are_paragraphs_and_points() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        (" \n\n ", &[]),
        ("One thought.", &["One thought."]),
        ("\n\nOne thought. Goes on.\n", &["One thought. Goes on."]),
        ("Okay.\n\nSo the user asks. I see.", &["Okay.", "So the user asks. I see."]),
        ("One\n \n\n\nTwo\r\n\r\nThree", &["One", "Two", "Three"]),
        ("A line\nand another.\nAnd one more.", &["A line\nand another.\nAnd one more."]),
        ("Plan:\n1. Look\n2. Tell", &["Plan:", "1. Look", "2. Tell"]),
        ("- a. B.\n  - nested\n  goes on\n- b", &["- a. B.\n  - nested\n  goes on", "- b"]),
        ("Pi is\n3.14 and\n-5 is less.", &["Pi is\n3.14 and\n-5 is less."]),
        ("Code:\n```\na\n\n- b\n\n1. c\n```\n\nDone.", &["Code:\n```\na\n\n- b\n\n1. c\n```", "Done."]),
        ("# Head\nText", &["# Head\nText"]),
        ("好的。用户问。\n\n下一步。", &["好的。用户问。", "下一步。"]),
    ];
    for (text, steps) in cases {
        assert_eq!(think(600, [*text]), *steps, "{text:?}");
        assert_eq!(by_char(600, text), *steps, "{text:?} by character");
    }
}

#[test]
fn a_long_paragraph_ends_with_a_sentence() {
    let text = "The user wants to know it. I should look it up first, then tell. ".repeat(30);
    let steps = think(600, [text.as_str()]);
    assert!(steps.len() >= 3);
    assert!(steps.iter().all(|step| step.ends_with('.') && step.len() <= 600), "{steps:?}");
    assert!(steps[..steps.len() - 1].iter().all(|step| step.len() >= 300), "{steps:?}");
    assert_eq!(steps.join(" "), text.trim());
}

#[test]
fn without_sentences_it_ends_with_a_clause_else_a_word_else_anywhere() {
    let clauses = think(120, ["some words and so on, ".repeat(30).as_str()]);
    assert!(clauses.iter().all(|step| step.ends_with("on,")), "{clauses:?}");

    let words = think(120, ["word ".repeat(100).as_str()]);
    assert!(words.iter().all(|step| step.ends_with("word")), "{words:?}");

    let families = "👨‍👩‍👧".repeat(100);
    let clusters = think(120, [families.as_str()]);
    assert!(clusters.iter().all(|step| step.starts_with('👨') && step.ends_with('👧')), "{clusters:?}");
    assert_eq!(clusters.concat(), families);
}

#[test]
fn long_code_ends_with_a_line() {
    let code = format!("```\n{}```", "    call(a, b);\n\n".repeat(60));
    let steps = think(600, [code.as_str()]);
    assert!(steps.len() > 1);
    assert!(steps.iter().all(|step| step.ends_with([';', '`']) && step.len() <= 600), "{steps:?}");
}

#[test]
fn text_is_passed_on_while_it_comes() {
    let text = |text: &str| Piece::Text(text.into());
    let mut steps = Steps::new(600);
    assert_eq!(steps.push("The user"), [text("The user")]);
    assert_eq!(steps.push(" asks "), [text(" asks")]);
    assert_eq!(steps.push("this."), [text(" this")]);
    assert_eq!(steps.push(" "), []);
    assert_eq!(steps.push("So"), [text(". So")]);
    assert_eq!(steps.push("\n\n"), []);
    assert_eq!(steps.push("Next"), [Piece::End, text("Next")]);
    assert_eq!(steps.push("."), []);
    assert_eq!(steps.finish(), [text("."), Piece::End]);
    assert_eq!(steps.finish(), []);
}

#[test]
fn long_thinking_costs_no_more_per_character_than_short() {
    // What would take hours if each character looked at all before it.
    for part in
        ["a", " ", "\n", ".", "!! ", "(", "`", "\u{301}", "😀", "- ", "\n- ", "://a", "Dr. ", "« a. » "]
    {
        let text = format!("A{}Z", part.repeat(20_000));
        let steps = by_char(600, &text);
        let without_white = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(without_white(&steps.concat()), without_white(&text));
    }
    for mark in ["-", "#", "*", "+", "_", "~", "=", "1", ">", "|"] {
        let text = mark.repeat(200_000);
        assert_eq!(by_char(600, &text).concat(), text);
    }
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => proptest::sample::select(vec![
            ". ", ".", "! ", "。", "\n", "\n\n", "\r\n", " ", "\n- ", "\n  - ", "\n1. ", "\n# ", "\n```\n", "`", ", ", "，", "1",
            "Dr. ", "The ", "word ", "Word", "https://a.b/c", "👨‍👩‍👧", "\u{301}", "你好", "x",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
        1 => "[a-z]{20,90}",
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_split_into_chunks_gives_the_same_steps(text in text(), max in 0_usize..200, size in 1_usize..40) {
        let chars: Vec<char> = text.chars().collect();
        let chunks: Vec<String> = chars.chunks(size).map(|chunk| chunk.iter().collect()).collect();
        let steps = think(max, chunks.iter().map(String::as_str));
        prop_assert_eq!(&steps, &think(max, [text.as_str()]));
        prop_assert_eq!(&steps, &by_char(max, &text));
    }

    #[test]
    fn steps_are_all_of_the_text_and_none_is_blank_or_too_long(text in text(), max in 1_usize..200) {
        let steps = think(max, [text.as_str()]);
        let mut rest = text.trim();
        for step in &steps {
            prop_assert!(!step.is_empty());
            prop_assert_eq!(step.trim(), step);
            prop_assert!(step.chars().count() <= max + MAX_MARKS);
            let after = rest.strip_prefix(step.as_str());
            prop_assert!(after.is_some(), "{:?} is not the beginning of {:?}", step, rest);
            rest = after.unwrap_or_default().trim_start();
        }
        prop_assert_eq!(rest, "");
    }
}
