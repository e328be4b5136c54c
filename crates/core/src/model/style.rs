//! How a model thinks aloud: what its name says, and what a small answer of it shows.
//!
//! A template that opens the thinking itself leaves no sign of it in the stream until `</think>`, when it is too late to
//! take anything back; so it has to be known beforehand. Reads names and recorded bytes only; asking is the adapter's
//! part.

pub use super::chunk::Field;
use super::chunk::{Decoder, Delta};
use super::sse::Sse;
use super::stream::{Limits, Stream, StreamOptions};
use super::{Chunk, Finish};
use serde_json::Value;

/// Which models share their ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Qwen3, and what was made from it before 3.5.
    Qwen3,
    /// Qwen3.5 and later.
    Qwen35,
    /// Not Qwen3.
    Other,
}

impl Generation {
    /// What the name says.
    pub fn of(model: &str) -> Self {
        let name = model.to_ascii_lowercase();
        // The maker's name may come first: `Qwen/Qwen3-8B`.
        name.split("qwen")
            .skip(1)
            .map(Self::of_version)
            .find(|&found| found != Self::Other)
            .unwrap_or(Self::Other)
    }

    fn of_version(text: &str) -> Self {
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let version = text.trim_start_matches(['-', '_', ' ']);
        let major = digits(version);
        let behind = version[major.len()..].strip_prefix(['.', '_', 'p']).unwrap_or_default();
        let minor = digits(behind);
        // A number behind the version may also be a size (`qwen3_8b`), which is no version of anything.
        let is_size = behind[minor.len()..].starts_with('b');
        match (major.parse::<u32>(), minor.parse::<u32>()) {
            (Ok(3), Ok(minor)) if minor >= 5 && !is_size => Self::Qwen35,
            (Ok(3), _) => Self::Qwen3,
            (Ok(4..=9), _) => Self::Qwen35,
            _ => Self::Other,
        }
    }
}

/// Whether the content of an answer starts inside the thinking, by the model's name and by whether it is to think.
pub fn starts_inside(model: &str, thinking: bool) -> bool {
    let name = model.to_ascii_lowercase();
    // Models that always think, and whose templates always open it.
    let always = Generation::of(model) == Generation::Qwen3 && name.contains("thinking")
        || name.contains("qwq")
        || name.contains("deepseek-r1");
    always || (thinking && Generation::of(model) == Generation::Qwen35 && !name.contains("instruct"))
}

/// How thinking arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// In a field of its own.
    Field(Field),
    /// In the content, between tags.
    Inline,
    /// In the content, from its beginning on: only the closing tag is seen.
    Inside,
}

/// What an answer shows of the model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// There was none.
    Absent,
    /// It was there, in this way.
    Arrives(Style),
    /// The answer was cut at the limit of tokens without any sign of thinking: that may have been inside it. Ask again
    /// with a higher limit.
    Unclear,
}

/// What an answer shows of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// It came as events, not in one piece.
    pub streams: bool,
    /// It came to its end.
    pub finished: bool,
    /// Whether it thought, and how that arrived.
    pub thinking: Thinking,
    /// It called a tool, in whatever form.
    pub calls_tools: bool,
}

impl Observation {
    /// What [`StreamOptions::starts_inside`] has to be for answers like this one.
    pub fn starts_inside(&self) -> bool {
        self.thinking == Thinking::Arrives(Style::Inside)
    }
}

/// Looks at the whole body of an answer to a small request.
pub fn observe(body: &[u8]) -> Observation {
    let mut deltas = Vec::new();
    let streams = read_deltas(body, &mut deltas);
    let mut content = String::new();
    let mut field = None;
    for delta in deltas {
        match delta {
            Delta::Content(text) => content.push_str(&text),
            Delta::Reasoning(found, text) if field.is_none() && !text.trim().is_empty() => {
                field = Some(found);
            }
            _ => {}
        }
    }
    let style = field.map(Style::Field).or_else(|| inline_style(&content));

    // What the model said, read as it will be read from now on.
    let starts_inside = style == Some(Style::Inside);
    let mut stream = Stream::new(StreamOptions { starts_inside, ..StreamOptions::default() });
    let mut chunks = stream.push(body);
    chunks.extend(stream.finish());
    let finish = chunks.iter().find_map(|chunk| match chunk {
        Ok(Chunk::Finish(finish)) => Some(*finish),
        _ => None,
    });
    Observation {
        streams,
        finished: finish.is_some(),
        thinking: match (style, finish) {
            (Some(style), _) => Thinking::Arrives(style),
            (None, Some(Finish::Length)) => Thinking::Unclear,
            (None, _) => Thinking::Absent,
        },
        calls_tools: chunks.iter().any(|chunk| matches!(chunk, Ok(Chunk::ToolCall(_)))),
    }
}

/// Collects what the body says, as far as it can be read; whether it came as events.
fn read_deltas(body: &[u8], deltas: &mut Vec<Delta>) -> bool {
    let mut decoder = Decoder::default();
    if let Ok(whole) = serde_json::from_slice::<Value>(body) {
        // An error in it shows in that nothing was finished.
        let _ = decoder.value(&whole, deltas);
        return false;
    }
    let mut events = Vec::new();
    let mut sse = Sse::new(Limits::default().event);
    let _ = sse.push(body, &mut events).and_then(|()| sse.finish(&mut events));
    for event in &events {
        let _ = decoder.decode(event, deltas);
    }
    !events.is_empty()
}

fn inline_style(content: &str) -> Option<Style> {
    let first = |tags: [&str; 2]| tags.iter().filter_map(|tag| content.find(tag)).min();
    match (first(["<think>", "<thinking>"]), first(["</think>", "</thinking>"])) {
        (Some(open), Some(close)) if open < close => {
            // An empty block is how models say that they do not think.
            let block = &content[open..close];
            let thought = block.split_once('>').map_or("", |(_, thought)| thought);
            (!thought.trim().is_empty()).then_some(Style::Inline)
        }
        (_, Some(_)) => Some(Style::Inside),
        (Some(_), None) => Some(Style::Inline),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_say_the_generation() {
        use Generation::{Other, Qwen3, Qwen35};
        let cases = [
            ("qwen3", Qwen3),
            ("Qwen/Qwen3-30B-A3B", Qwen3),
            ("qwen3:8b", Qwen3),
            ("qwen3_8b", Qwen3),
            ("Qwen3-Next-80B-A3B-Thinking", Qwen3),
            ("Qwen3-Coder-30B", Qwen3),
            ("Qwen/Qwen3.5-397B-A17B", Qwen35),
            ("qwen3.6-plus", Qwen35),
            ("qwen-3.5-9b", Qwen35),
            ("Qwen4-8B", Qwen35),
            ("qwen2.5-7b", Other),
            ("Qwen2-72B", Other),
            ("qwen-max", Other),
            ("llama-3.5", Other),
            ("", Other),
        ];
        for (name, generation) in cases {
            assert_eq!(Generation::of(name), generation, "{name}");
        }
    }

    #[test]
    fn names_say_whether_the_template_opens_the_thinking() {
        let cases = [
            ("Qwen/Qwen3-235B-A22B-Thinking-2507", true, true),
            ("qwen3-next-80b-a3b-thinking", true, true),
            ("Qwen/Qwen3.5-9B", true, false),
            ("qwen3.6-27b", true, false),
            ("QwQ-32B", true, true),
            ("deepseek-ai/DeepSeek-R1", true, true),
            ("Qwen/Qwen3-8B", false, false),
            ("Qwen3-30B-A3B-Instruct-2507", false, false),
            ("smollm2", false, false),
        ];
        for (name, thinking, not_thinking) in cases {
            assert_eq!(starts_inside(name, true), thinking, "{name}, thinking");
            assert_eq!(starts_inside(name, false), not_thinking, "{name}, not thinking");
        }
    }

    fn answer(deltas: &[Value], finish: &str) -> Vec<u8> {
        let deltas =
            deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}).to_string());
        let finish = json!({"choices": [{"delta": {}, "finish_reason": finish}]}).to_string();
        let events: Vec<String> = deltas.chain([finish, "[DONE]".to_owned()]).collect();
        format!("data: {}\n\n", events.join("\n\ndata: ")).into_bytes()
    }

    #[test]
    fn an_answer_shows_how_thinking_arrives() {
        for field in [Field::Reasoning, Field::ReasoningContent, Field::Thinking] {
            let body = answer(&[json!({field.as_str(): "Hm."}), json!({"content": "Yes."})], "stop");
            assert_eq!(observe(&body).thinking, Thinking::Arrives(Style::Field(field)));
        }
        let thinking = |content: &str| observe(&answer(&[json!({"content": content})], "stop")).thinking;
        assert_eq!(thinking("<think>\nHm.\n</think>\n\nYes."), Thinking::Arrives(Style::Inline));
        assert_eq!(thinking("<think>\nHm."), Thinking::Arrives(Style::Inline));
        assert_eq!(thinking("Hm.\n</think>\n\nYes."), Thinking::Arrives(Style::Inside));
        assert_eq!(thinking("<think>\n\n</think>\n\nYes."), Thinking::Absent);
        assert_eq!(thinking("Yes."), Thinking::Absent);
    }

    #[test]
    fn an_answer_cut_short_without_a_sign_says_nothing() {
        let cut = observe(&answer(&[json!({"content": "Okay, the user"})], "length"));
        assert_eq!(cut.thinking, Thinking::Unclear);
        let whole = observe(&answer(&[json!({"content": "Yes."})], "stop"));
        assert_eq!(whole.thinking, Thinking::Absent);
        assert!(whole.finished && whole.streams);
    }

    #[test]
    fn an_answer_shows_calls_in_every_form() {
        let call =
            json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]});
        assert!(observe(&answer(&[call], "tool_calls")).calls_tools);
        let inline = json!({"content": "Hm.</think><tool_call>\n{\"name\": \"f\"}\n</tool_call>"});
        let inline = observe(&answer(&[inline], "stop"));
        assert!(inline.calls_tools && inline.starts_inside());
        assert!(!observe(&answer(&[json!({"content": "No."})], "stop")).calls_tools);
    }

    #[test]
    fn an_answer_in_one_piece_or_none_at_all_is_seen_as_such() {
        let whole =
            json!({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}).to_string();
        let whole = observe(whole.as_bytes());
        assert!(!whole.streams && whole.finished);
        let error = observe(br#"{"error": {"message": "no"}}"#);
        assert!(!error.streams && !error.finished);
        let nothing = observe(b"<html>");
        assert!(!nothing.streams && !nothing.finished);
    }
}
