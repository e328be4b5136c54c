//! In the tables `¦` stands where one sentence ends and the next begins; it is not part of the text.

use super::*;
use proptest::prelude::*;

fn split_at_once(text: &str) -> Vec<String> {
    let mut splitter = Splitter::new();
    let mut sentences = splitter.push(text);
    sentences.extend(splitter.finish());
    sentences
}

fn split_by_char(text: &str) -> Vec<String> {
    let mut splitter = Splitter::new();
    let mut sentences: Vec<_> =
        text.chars().flat_map(|c| splitter.push(c.encode_utf8(&mut [0; 4]))).collect();
    sentences.extend(splitter.finish());
    sentences
}

fn check(cases: &[&str]) {
    for case in cases {
        let text = case.replace('¦', "");
        let expected: Vec<&str> = case.split('¦').filter(|sentence| !sentence.is_empty()).collect();
        assert_eq!(split_at_once(&text), expected, "{case:?}");
        assert_eq!(split_by_char(&text), expected, "{case:?} by character");
    }
}

#[test]
fn prose() {
    check(&[
        "",
        "Hello",
        "Hello.",
        "Hello there.¦ How are you?¦ Fine!",
        "One.¦  Two spaces.",
        "Really?!¦ Yes!!!¦ Good.",
        "No space.After the stop",
        "all small. letters go on until the end.",
        "He asked: why? and left.¦ Then he slept.",
        "It was 2020.¦ 15 people came.",
        "Is it 5?¦ 6 would be better.",
        "Yes — really.¦ — She left.",
        "Tabs.¦\tNext",
    ]);
}

#[test]
fn numbers_and_versions() {
    check(&[
        "Pi is 3.14 or so.¦ Really.",
        "It costs 1.299,00 Euro.¦ Gut.",
        "Use version 1.2.3.¦ It is new.",
        "Rust v1.90.0 came out.¦ Good.",
        "The answer is 42.¦ Next question.",
        "At 10.30 Uhr.¦ Dann.",
        "From .5 to 1.¦ Then stop.",
        "See No. 5 below.¦ No.¦ I will not.",
        "See Fig. 3 and Vol. 2.¦ Done.",
        "On Jan. 5 it rained.¦ Then not.",
        "Call Tel. 555.¦ Now.",
        "Art. 5 GG gilt.¦ I like art.¦ Do you?",
    ]);
}

#[test]
fn names_of_things() {
    check(&[
        "See https://example.com/a.b?c=d!e for it.¦ Good.",
        "Visit example.com.¦ Then stop.",
        "Write to jo.doe@mail.example.org.¦ She answers.",
        "Open main.rs or Cargo.toml.¦ Then build.",
        "Try node.js, Vue.js and .NET today.¦ OK.",
        "Is it foo.txt?¦ Yes.",
        "In src/a.b/c.d.¦ Then.",
        "Call foo.bar().¦ It works.",
        "Look at 127.0.0.1:8080.¦ It answers.",
        "Use a!=b here.¦ Good.",
    ]);
}

#[test]
fn abbreviations() {
    check(&[
        // English
        "Dr. Smith met Mrs. Jones.¦ They spoke.",
        "Use it, e.g. Rust or C.¦ Then test.",
        "That is, i.e. The Hague.¦ Good.",
        "Cats vs. Dogs is old.¦ Yes.",
        "Apples, pears, etc. are fruit.¦ Good.",
        "Apples, pears, etc.¦ The rest is not.",
        "Apple Inc. Shares fell.¦ Sad.",
        "At 5 p.m. Eastern time.¦ OK.",
        "At 5 p.m.¦ We left then.",
        "St. Louis is far.¦ Mt. Everest too.",
        "Smith et al. Found it.¦ Good.",
        "She lives in CA.¦ Paul does not.",
        // German
        "Das ist z.B. Berlin.¦ Oder z. B. Der Hof.¦ Gut.",
        "Das heißt d. h. Die Sache ist klar.¦ Ja.",
        "In der Regel, i. d. R. Montags.¦ Ja.",
        "Er hat ca. Fünf, bzw. Sechs.¦ Gut.",
        "Äpfel, Birnen usw. Peter aß alle.",
        "Äpfel, Birnen usw.¦ Dann kam nichts.",
        "Prof. Dr. Müller kommt.¦ Gut.",
        "Am 3. Oktober ist frei.¦ Gut.",
        "Es war 3. Mai.¦ Gut.",
        "Der 2. Weltkrieg war im 20. Jahrhundert.¦ Ja.",
        "Im Jahr 44 v. Chr. Starb Caesar.¦ Ja.",
        // French
        "M. Dupont et Mme. Durand.¦ Ils parlent.",
        "Voir Paris, p. ex. Lyon.¦ Oui.",
        "En 50 av. J.-C. Toute la Gaule.¦ Oui.",
        // Spanish
        "El Sr. García y la Sra. López.¦ Bien.",
        "Por ejemplo, p. ej. Madrid.¦ Bien.",
        "En EE.UU. Trabajan mucho.¦ Bien.",
        "¿Qué tal?¦ ¡Muy bien!¦ ¿Y tú?",
    ]);
}

#[test]
fn initials() {
    check(&[
        "J. R. R. Tolkien wrote it.¦ Good.",
        "J.R.R. Tolkien wrote it.¦ Good.",
        "George W. Bush spoke.¦ Then he left.",
        "He lives in the U.S. Army base.¦ Good.",
        "He lives in the U.S.¦ It is big.",
        "She has a Ph.D. Thesis done.¦ Good.",
        "Take vitamin C.¦ It helps.",
        "Take plan B.¦ Then wait.",
    ]);
}

#[test]
fn ellipses() {
    check(&[
        "Wait... what is that?¦ A cat.",
        "Well… I think so.¦ Good.",
        "Hmm... I'm not sure.¦ Good.",
        "He left...¦ Then she came.",
        "...and then it ended.¦ Good.",
        "... Then it ended.¦ Good.",
        "Well . . . maybe.¦ Good.",
        "1, 2, 3... 10.¦ Done.",
        "Wait...no.¦ Yes.",
    ]);
}

#[test]
fn quotes_and_brackets() {
    check(&[
        "He said \"Go.\"¦ She went.",
        "He said “Go!”¦ She went.",
        "\"Why?\" he asked.¦ Nobody knew.",
        "\"Go.\", he said.¦ She went.",
        "(He left.)¦ She came.",
        "It works (mostly).¦ Good.",
        "Er rief: „Halt!“¦ Sie hielt.",
        "Er rief: »Halt!«¦ Sie hielt.",
        "Il dit : « Bonjour. »¦ Elle part.",
        "Bravo !¦ C'est bien.",
        "First.¦ \"Second,\" he said.",
        "First.¦ (Second.)¦ Third.",
        "**Note.**¦ It works.",
        "It *works.*¦ _Really._¦ Yes.",
        "So it is said.[1]¦ And so.[^2][3]¦ Good.",
        "So it is.[link](x) and on.",
    ]);
}

#[test]
fn other_scripts() {
    check(&[
        "你好。¦今天天气很好！¦真的吗？¦是的。",
        "他说：「你好。」¦她笑了。",
        "他说：“你好。”¦她笑了。",
        "走吧。¦“好的。”¦他说。",
        "什么？！¦好。",
        "价格是3.5元。¦好。",
        "很好!¦真的?¦是。",
        "これはペンです。¦はい。",
        "（はい。）¦次。",
        "안녕하세요.¦ 반갑습니다.",
        "كيف حالك؟¦ أنا بخير.¦ شكرا.",
        "یہ کتاب ہے۔¦ وہ قلم ہے۔",
        "यह किताब है।¦ वह कलम है॥¦ ठीक।",
        "यह है।¦वह है।",
        "Привет.¦ Как дела?¦ Хорошо.",
        "Это т. е. Москва.¦ Да.",
        "Καλημέρα.¦ Τι κάνεις;",
    ]);
}

#[test]
fn emoji() {
    check(&[
        "Great! 🎉¦ Let's go.",
        "Great!🎉¦ Let's go.",
        "Hi! 👨‍👩‍👧‍👦¦ Family.",
        "Go! 🇩🇪🇫🇷¦ Flags.",
        "Nice. 👍🏽¦ Good.",
        "Fine ❤️.¦ Good.",
        "好！🎉¦下一个。",
        "Done.¦ 1️⃣ First.",
    ]);
}

#[test]
fn lists_headings_paragraphs() {
    check(&[
        "1. Mix it.¦\n2. Bake it.¦\n3. Eat it.",
        "1. Mix¦\n2. Bake",
        "Steps:¦\n1. Mix¦\n2. Bake¦\n\nDone.",
        "Steps: 1. Mix it.¦ 2. Bake it.",
        "1) Mix¦\n2) Bake",
        "**1. Mix it.**¦\nBake.",
        "Step 1. Mix it.¦ Step 2. Bake it.",
        "- one¦\n- two¦\n  - three¦\n\nEnd",
        "* one¦\n* two",
        "• one¦\n• two",
        "- one\n  goes on¦\n- two",
        "- one¦\nThen text.",
        "# Title¦\nText here.",
        "## 1. Title. More¦\nText here.",
        "**Title**¦\nText here.",
        "#hashtag is\nText.",
        "One paragraph¦\n\nAnother",
        "One paragraph¦\r\n\r\nAnother",
        "A line\nthat goes on.¦ Good.",
        "A line.¦\nAnother line.",
        "Dr.\nSmith came.¦ Good.",
        "Above¦\n\n---¦\n\nBelow",
        "Title\n---¦\nBelow",
        "> quoted\n> on¦\n\nBelow",
        "It is\n2024 now.¦ Yes.",
        "It was\n-5 degrees.",
    ]);
}

#[test]
fn code_and_tables() {
    check(&[
        "Look:¦\n```rust¦\nlet a = 1. + 2.; // Yes. No.¦\n\n    b();¦\n```¦\nDone.",
        "~~~¦\na. B¦\n```¦\n~~~¦\nText.¦ More",
        "````¦\n```¦\n````¦\nT",
        "```¦\nnot closed. At all",
        "Use `a. B` here.¦ Good.",
        "Use ``a ` b. C`` here.¦ Good.",
        "```a. B``` is code.¦\nGood.¦ Yes",
        "Open `tick. Goes on¦\n\nHere.¦ It ends",
        "| a. B | c |¦\n|---|---|¦\n| 1. | 2 |¦\n\nDone.",
        "See this.¦ `foo` is it.",
    ]);
}

#[test]
fn sentences_go_out_as_soon_as_they_are_certain() {
    // (what came before, nothing sent by it), (what makes it certain), what is sent
    let cases = [
        ("Hello there. ", "H", "Hello there."),
        ("Is it? ", "Y", "Is it?"),
        ("你好。", "今", "你好。"),
        ("In the U.S. It", " ", "In the U.S."),
        ("# Title", "\n", "# Title"),
        ("| a |", "\n", "| a |"),
        ("Text\n", "\n", "Text"),
        ("- item\n", "\n", "- item"),
        ("- item\n-", " ", "- item"),
        ("- item\n", "N", "- item"),
        ("Text\n", "#", ""),
    ];
    for (before, then, sent) in cases {
        let mut splitter = Splitter::new();
        assert_eq!(splitter.push(before), Vec::<String>::new(), "{before:?}");
        assert_eq!(splitter.push(then).concat(), sent, "{before:?} and {then:?}");
    }
}

#[test]
fn white_space_around_the_answer_is_no_part_of_it() {
    assert_eq!(split_at_once(" \n\t "), Vec::<String>::new());
    assert_eq!(split_at_once(" \n Hi.\n\n  You. \n "), ["Hi.", "\n\n  You."]);
}

#[test]
fn an_answer_may_go_on_after_it_was_finished() {
    let mut splitter = Splitter::new();
    assert_eq!(splitter.push("Let me look.\n\n"), ["Let me look."]);
    assert_eq!(splitter.finish(), None);
    assert_eq!(splitter.push("Found it. "), Vec::<String>::new());
    assert_eq!(splitter.finish().as_deref(), Some("\n\nFound it."));
    assert_eq!(splitter.push("Bye"), Vec::<String>::new());
    assert_eq!(splitter.finish().as_deref(), Some(" Bye"));
}

#[test]
fn too_long_is_cut_at_a_clause_else_between_words_else_between_characters() {
    let words = |n: usize| "word ".repeat(n);
    let clause = format!("{}then, {}end.", words(25), words(25));
    assert_eq!(split_at_once(&clause)[0], format!("{}then,", words(25)));

    let no_clause = words(60);
    assert_eq!(split_at_once(&no_clause)[0], words(40).trim_end());

    let family = "👨‍👩‍👧";
    let crowd = family.repeat(100);
    let sentences = split_at_once(&crowd);
    assert!(sentences.len() > 1);
    assert!(sentences.iter().all(|sentence| sentence.len() % family.len() == 0), "{sentences:?}");

    let small = "it goes on. ".repeat(30);
    assert!(split_at_once(&small).iter().all(|sentence| sentence.ends_with('.')));
}

#[test]
fn links_and_code_are_not_cut_where_prose_would_be() {
    let link = format!("https://example.com/{}", "a,b;c".repeat(100));
    assert_eq!(
        split_at_once(&format!("See {link} for it. Good.")),
        [format!("See {link}"), " for it.".into(), " Good.".into()]
    );

    let code = "call(a, b); ".repeat(50).trim_end().to_owned();
    assert_eq!(
        split_at_once(&format!("```\n{code}\n```")),
        ["```".into(), format!("\n{code}"), "\n```".into()]
    );
}

#[test]
fn a_long_answer_costs_no_more_per_character_than_a_short_one() {
    // What would take hours if each character looked at all before it.
    for part in [
        "a",
        " ",
        "\n",
        ".",
        "! ",
        "(",
        "1",
        "`",
        "「",
        "\u{301}",
        "😀",
        "- ",
        "| x ",
        "://a",
        "Dr. ",
        "« a. » ",
    ] {
        let text = format!("A{}Z", part.repeat(20_000));
        assert_eq!(split_by_char(&text).concat(), text);
    }
    for mark in ["-", "#", "*", "+", "_", "~", "=", "1", ">", "|"] {
        let text = mark.repeat(200_000);
        assert_eq!(split_by_char(&text).concat(), text);
        let text = format!("So:\n{text}");
        assert_eq!(split_by_char(&text).concat(), text);
    }
}

#[test]
fn a_row_of_marks_is_decided_before_it_ends() {
    for mark in ["-", "#", "*", "+", "_"] {
        let mut flow = Flow::default();
        assert_eq!(mark.repeat(63).chars().find_map(|c| flow.take(c)), None);
        assert_eq!(flow.certain(), 0, "{mark}: it may still be anything");
        assert_eq!(mark.chars().find_map(|c| flow.take(c)), None);
        assert_eq!(flow.certain(), 64, "{mark}: it is not looked at again");
    }
}

/// Text made of what decides about sentences, and of anything else.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => proptest::sample::select(vec![
            ". ", ".", "! ", "?", "…", "。", "！", "؟ ", "।", "\n", "\n\n", "\r\n", " ", "  ", "\n- ", "\n1. ", "\n# ", "\n| ",
            "\n```\n", "```", "`", "\"", "“", "”", "»", "« ", "(", ")", "**", "[1]", "[", ", ", "，", "1", "3.14", "Dr. ", "z. B. ",
            "U.S. ", "e.g. ", "The ", "I ", "word", "Word ", "https://a.b/c", "🎉", "👨‍👩‍👧", "🇩🇪", "\u{301}", "\u{200D}", "\u{600}", "你好", "x",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
        1 => "[a-z]{150,260}",
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_split_into_deltas_gives_the_same_sentences(text in text(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut places: Vec<usize> = cuts.iter().map(|cut| *cut.get(&borders)).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        let mut splitter = Splitter::new();
        let mut sentences = Vec::new();
        for pair in places.windows(2) {
            sentences.extend(splitter.push(&text[pair[0]..pair[1]]));
        }
        sentences.extend(splitter.finish());
        prop_assert_eq!(&sentences, &split_at_once(&text));
        prop_assert_eq!(&sentences, &split_by_char(&text));
    }

    #[test]
    fn joined_they_are_the_answer_and_none_is_blank_or_too_long(text in text()) {
        let sentences = split_at_once(&text);
        prop_assert_eq!(sentences.concat(), text.trim());
        for sentence in &sentences {
            prop_assert!(!sentence.trim().is_empty());
            prop_assert_eq!(sentence.trim_end(), sentence);
            let long = text.contains("://") || text.contains("```") || text.contains('|');
            let limit = if long { MAX_UNBROKEN_CHARS } else { MAX_CHARS };
            prop_assert!(sentence.trim_start().chars().count() <= limit);
        }
    }

    #[test]
    fn no_visible_character_is_cut(text in text()) {
        let text = text.trim();
        let mut at = 0;
        for sentence in split_at_once(text) {
            at += sentence.len();
            prop_assert!(flow::is_border(text, at), "{:?} | {:?}", &text[..at], &text[at..]);
        }
    }
}
