use super::*;
use proptest::prelude::*;

/// What comes of content that arrives in these pieces: `(kind, text)`, neighbours of one kind joined.
fn read(starts_inside: bool, pieces: &[&str], ending: Ending) -> Vec<(char, String)> {
    let mut inline = Inline::new(starts_inside, Vec::new(), 10_000);
    let mut found = Vec::new();
    for piece in pieces {
        inline.push(piece, &mut found).expect("no call is too large");
    }
    inline.finish(ending, &mut found).expect("no call is too large");
    let mut joined: Vec<(char, String)> = Vec::new();
    for piece in found {
        let (kind, text) = match piece {
            Piece::Reasoning(text) => ('r', text),
            Piece::Text(text) => ('t', text),
            Piece::Call((name, arguments)) => ('c', format!("{name} {arguments:?}")),
        };
        match joined.last_mut() {
            Some((last, before)) if *last == kind && kind != 'c' => before.push_str(&text),
            _ => joined.push((kind, text)),
        }
    }
    joined
}

fn kinds(content: &str, ending: Ending) -> String {
    let found = read(false, &[content], ending);
    found.iter().map(|(kind, text)| format!("{kind}:{text} ")).collect::<Vec<_>>().concat()
}

#[test]
fn white_space_behind_a_hidden_block_belongs_to_nobody_unless_words_would_meet() {
    assert_eq!(kinds("<think>a</think>\n\nb", Ending::Finished), "r:a t:b ");
    assert_eq!(kinds("a <think>b</think> c", Ending::Finished), "t:a  r:b t:c ");
    assert_eq!(kinds("a<think>b</think> c", Ending::Finished), "t:a r:b t: c ");
}

#[test]
fn an_unclear_quotation_is_never_spoken() {
    // The span around the tag never closed.
    assert_eq!(kinds("a `<think> b", Ending::Cut), "t:a ` r: b ");
    assert_eq!(kinds("<think>a `</think> b", Ending::Cut), "r:a `</think> b ");
    // A model that came to its end meant the tag, or there would be no answer.
    assert_eq!(kinds("<think>a ` b</think> c", Ending::Finished), "r:a ` b t:c ");
}

#[test]
fn a_tag_cut_short_by_the_end_is_a_word() {
    assert_eq!(kinds("a </thin", Ending::Finished), "t:a </thin ");
    assert_eq!(kinds("<think>a </thin", Ending::Cut), "r:a </thin ");
}

fn pieces_of_content() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(
        prop::sample::select(
            &[
                "<think>",
                "</think>",
                "<thinking>",
                "<tool_call>",
                "</tool_call>",
                "{\"name\":\"f\",",
                "\"arguments\":{}}",
                "{",
                "}",
                "\"",
                "\\",
                "<function=f>",
                "</function>",
                "<parameter=a>",
                "</parameter>",
                "`",
                "``",
                "```",
                "~~~",
                "\n",
                "\n\n",
                " ",
                "a",
                "é",
                "<",
                "</",
                "- ",
            ][..],
        ),
        0..30,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn how_content_is_cut_says_nothing(
        starts_inside: bool,
        finished: bool,
        pieces in pieces_of_content(),
    ) {
        let ending = if finished { Ending::Finished } else { Ending::Cut };
        let content = pieces.concat();
        let whole = read(starts_inside, &[&content], ending);
        let characters: Vec<String> = content.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        prop_assert_eq!(&read(starts_inside, &pieces, ending), &whole);
        prop_assert_eq!(&read(starts_inside, &characters, ending), &whole);
    }

    #[test]
    fn words_without_tags_come_out_as_they_went_in(pieces in pieces_of_content()) {
        let content: String = pieces.into_iter().filter(|piece| !piece.contains(['k', '_'])).collect();
        let whole: String = read(false, &[&content], Ending::Finished).into_iter().map(|(_, text)| text).collect();
        prop_assert_eq!(whole, content);
    }
}
