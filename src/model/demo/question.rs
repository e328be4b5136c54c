//! What a question to the demo model is about, by the words in it.

/// What someone wants, as far as the demo can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Something to work out.
    Sum(String),
    /// The time or the date, in a zone where one was named.
    Time(Option<&'static str>),
    /// Counting up to a number.
    Count(u32),
    /// Something long to listen to.
    Story,
    /// A greeting.
    Greeting,
    /// Thanks, or a farewell.
    Thanks,
    /// Who or what is speaking.
    Introduction,
    /// Anything else.
    Other,
}

/// Further than anybody listens.
const MAX_COUNT: u32 = 1_000;

const PLACES: &[(&str, &str)] = &[
    ("amsterdam", "Europe/Amsterdam"),
    ("beijing", "Asia/Shanghai"),
    ("berlin", "Europe/Berlin"),
    ("cairo", "Africa/Cairo"),
    ("chicago", "America/Chicago"),
    ("delhi", "Asia/Kolkata"),
    ("dubai", "Asia/Dubai"),
    ("india", "Asia/Kolkata"),
    ("istanbul", "Europe/Istanbul"),
    ("japan", "Asia/Tokyo"),
    ("johannesburg", "Africa/Johannesburg"),
    ("lagos", "Africa/Lagos"),
    ("london", "Europe/London"),
    ("los angeles", "America/Los_Angeles"),
    ("madrid", "Europe/Madrid"),
    ("mexico city", "America/Mexico_City"),
    ("mumbai", "Asia/Kolkata"),
    ("nairobi", "Africa/Nairobi"),
    ("new york", "America/New_York"),
    ("paris", "Europe/Paris"),
    ("rome", "Europe/Rome"),
    ("san francisco", "America/Los_Angeles"),
    ("sao paulo", "America/Sao_Paulo"),
    ("seoul", "Asia/Seoul"),
    ("shanghai", "Asia/Shanghai"),
    ("singapore", "Asia/Singapore"),
    ("sydney", "Australia/Sydney"),
    ("tokyo", "Asia/Tokyo"),
    ("vienna", "Europe/Vienna"),
    ("zurich", "Europe/Zurich"),
];

/// All that is wished for, in the order in which it is to be done; never empty.
pub(super) fn wishes(question: &str) -> Vec<Wish> {
    let words = Words::of(question);
    let mut wishes = Vec::new();
    if let Some(sum) = sum(question) {
        wishes.push(Wish::Sum(sum));
    }
    if words.any(&["time is it", "what time", "the time", "what day", "which day", "what date", "the date"])
        || words.any(&["today s date", "current time", "current date"])
    {
        let zone = PLACES.iter().find(|(place, _)| words.has(place)).map(|(_, zone)| *zone);
        wishes.push(Wish::Time(zone));
    }
    if !wishes.is_empty() {
        return wishes;
    }
    vec![if let Some(end) =
        words.number_after(&["count to", "count up to", "count from 1 to", "count from one to"])
    {
        Wish::Count(end.clamp(1, MAX_COUNT))
    } else if words.any(&["story", "long answer", "at length", "long text"]) {
        Wish::Story
    } else if words.any(&[
        "who are you",
        "what are you",
        "your name",
        "which model",
        "what model",
        "what can you do",
    ]) {
        Wish::Introduction
    } else if words.any(&["hello", "hi", "hey", "good morning", "good evening", "good afternoon"]) {
        Wish::Greeting
    } else if words.any(&["thanks", "thank you", "bye", "goodbye"]) {
        Wish::Thanks
    } else {
        Wish::Other
    }]
}

/// The words of a text in lower case, with one space around each.
struct Words(String);

impl Words {
    fn of(text: &str) -> Self {
        let mut words = String::from(" ");
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            words.extend(word.chars().flat_map(char::to_lowercase));
            words.push(' ');
        }
        Self(words)
    }

    fn has(&self, phrase: &str) -> bool {
        self.0.contains(&format!(" {phrase} "))
    }

    fn any(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.has(phrase))
    }

    fn number_after(&self, phrases: &[&str]) -> Option<u32> {
        phrases.iter().find_map(|phrase| {
            let (_, after) = self.0.split_once(&format!(" {phrase} "))?;
            match after.split(' ').next()? {
                "ten" => Some(10),
                "twenty" => Some(20),
                "fifty" => Some(50),
                "hundred" | "a" | "one" => Some(100),
                number => number.parse().ok(),
            }
        })
    }
}

/// The longest piece of the question that looks like arithmetic, written for the calculator.
fn sum(question: &str) -> Option<String> {
    let mut written = question.to_lowercase();
    for (words, sign) in [
        ("square root of", " sqrt "),
        ("to the power of", "^"),
        ("multiplied by", "*"),
        ("divided by", "/"),
        ("times", "*"),
        ("plus", "+"),
        ("minus", "-"),
        ("×", "*"),
        ("÷", "/"),
        ("−", "-"),
    ] {
        written = written.replace(words, sign);
    }
    // "12 x 7" is a product too.
    let written = written.replace(" x ", " * ");
    let root = written.split_once("sqrt ").and_then(|(_, after)| {
        let number: String =
            after.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let number = number.trim_end_matches('.');
        (!number.is_empty()).then(|| format!("sqrt({number})"))
    });
    root.or_else(|| {
        written
            .split(|c: char| !(c.is_ascii_digit() || c.is_ascii_whitespace() || "+-*/%^().".contains(c)))
            .map(|piece| piece.trim().trim_end_matches('.').trim_end())
            .filter(|piece| is_arithmetic(piece))
            .max_by_key(|piece| piece.len())
            .map(str::to_owned)
    })
}

/// A number, a sign, a number, and every bracket closed. A date such as 2026-11-16 is none.
fn is_arithmetic(piece: &str) -> bool {
    let dense: String = piece.split_ascii_whitespace().collect();
    let Some(sign) = dense.find(|c| "+-*/%^".contains(c)).filter(|sign| *sign > 0) else { return false };
    let digits = |text: &str| text.bytes().any(|b| b.is_ascii_digit());
    let ends_well = dense.ends_with(|c: char| c.is_ascii_digit() || c == ')');
    let mut parts = dense.split('-');
    let lengths = (parts.next().map(str::len), parts.next().map(str::len), parts.next().map(str::len));
    let is_date = lengths == (Some(4), Some(2), Some(2)) && dense.len() == 10;
    let mut open = 0_i32;
    let balanced = dense.chars().all(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open >= 0
    });
    digits(&dense[..sign]) && digits(&dense[sign..]) && ends_well && !is_date && balanced && open == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(text: &str) -> Option<String> {
        sum(text)
    }

    #[test]
    fn arithmetic_is_found_among_words() {
        for (question, expression) in [
            ("what is 12*(3+4)?", "12*(3+4)"),
            ("What's 2 + 2.", "2 + 2"),
            ("Please tell me: 7 times 8!", "7 * 8"),
            ("3 x 4 = ?", "3 * 4"),
            ("how much is 100 divided by 8", "100 / 8"),
            ("the square root of 144, please", "sqrt(144)"),
            ("2 to the power of 10?", "2 ^ 10"),
        ] {
            assert_eq!(sum_of(question).as_deref(), Some(expression), "{question}");
        }
    }

    #[test]
    fn numbers_alone_are_no_arithmetic() {
        for question in [
            "I am 42",
            "call 555-",
            "it was 2026-11-16",
            "version 1.2.3",
            "(1",
            "what? - nothing",
            "1+(2",
            "-5",
        ] {
            assert_eq!(sum_of(question), None, "{question}");
        }
    }

    #[test]
    fn several_wishes_are_all_seen() {
        let seen = wishes("What is 6*7, and what time is it in Tokyo?");
        assert_eq!(seen, [Wish::Sum("6*7".to_owned()), Wish::Time(Some("Asia/Tokyo"))]);
    }

    #[test]
    fn words_decide_what_is_wished_for() {
        for (question, wish) in [
            ("Count to 100.", Wish::Count(100)),
            ("count to 99999999", Wish::Count(MAX_COUNT)),
            ("please count up to twenty", Wish::Count(20)),
            ("Tell me a long story", Wish::Story),
            ("Hi!", Wish::Greeting),
            ("Which is the highest mountain?", Wish::Other),
            ("What's today's date?", Wish::Time(None)),
            ("Who are you?", Wish::Introduction),
            ("", Wish::Other),
        ] {
            assert_eq!(wishes(question), [wish], "{question}");
        }
    }
}
