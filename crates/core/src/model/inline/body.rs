//! The body of an inline `<tool_call>`: where it ends, and what it says.
//!
//! Two forms are known: a JSON object (Hermes style) and Qwen3.5's `<function=…><parameter=…>`. A closing tag inside a
//! value is part of the value, unless nothing ever closes the value. Never repairs what could be read in two ways.

use super::super::{ToolSpec, arguments};
use serde_json::{Map, Value};

/// What opens a call.
pub(super) const OPEN: &str = "<tool_call>";
/// What closes it.
pub(super) const CLOSE: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// Models write a few spaces behind the tag, never more.
const MOST_WHITE_SPACE: usize = 64;
/// How many closing tags inside one value are believed.
const MOST_QUOTED_CLOSES: usize = 16;

/// The tool's name, and its arguments or what could not be read as such.
pub(super) type Call = (String, Result<Map<String, Value>, String>);

/// Whether a call begins behind the opening tag.
#[derive(Debug)]
pub(super) enum Beginning {
    /// It does.
    Call(Body),
    /// It does not; the tag is a mere word.
    Prose,
    /// That depends on what follows.
    Unclear,
}

/// Looks at what stands behind the opening tag.
pub(super) fn begins(text: &str) -> Beginning {
    let start = text.trim_start();
    if text.len() - start.len() > MOST_WHITE_SPACE {
        Beginning::Prose
    } else if start.starts_with('{') {
        Beginning::Call(Body::Json(Json::default()))
    } else if start.starts_with(FUNCTION) {
        Beginning::Call(Body::Xml(Xml::default()))
    } else if FUNCTION.starts_with(start) {
        Beginning::Unclear
    } else {
        Beginning::Prose
    }
}

/// A body that is being read; remembers how far, so that no byte is looked at twice.
#[derive(Debug)]
pub(super) enum Body {
    /// Hermes style.
    Json(Json),
    /// Qwen3.5 style.
    Xml(Xml),
}

/// See [`Body::Json`].
#[derive(Debug, Default)]
pub(super) struct Json {
    read: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Behind the object's last brace.
    whole: Option<usize>,
    /// The first closing tag inside a string that is still open.
    quoted_close: Option<usize>,
}

/// See [`Body::Xml`].
#[derive(Debug, Default)]
pub(super) struct Xml {
    read: usize,
    quoted_closes: usize,
    quoted_close: Option<usize>,
}

/// How far a body reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The body itself.
    pub(super) body: usize,
    /// The body and what goes with it.
    pub(super) consumed: usize,
    /// Whether it was closed, by its own form or by the tag.
    pub(super) closed: bool,
}

impl Extent {
    fn closed_by_tag(body: usize) -> Self {
        Self { body, consumed: body + CLOSE.len(), closed: true }
    }
}

/// Whether `tag` stands at the beginning of `text`; `None` where that depends on what follows.
fn stands(tag: &str, text: &[u8], over: bool) -> Option<bool> {
    if text.starts_with(tag.as_bytes()) {
        return Some(true);
    }
    let cut = text.len() < tag.len() && tag.as_bytes().starts_with(text);
    if cut && !over { None } else { Some(false) }
}

impl Body {
    /// Reads on in `text`, which is all that stands behind the opening tag. `over` says that nothing more will come;
    /// then there always is an extent.
    pub(super) fn extent(&mut self, text: &str, over: bool) -> Option<Extent> {
        match self {
            Self::Json(json) => json.extent(text.as_bytes(), over),
            Self::Xml(xml) => xml.extent(text, over),
        }
    }

    /// What the body says. `closed` is the extent's; `finished` says that the model stopped by itself, so that a body
    /// without an end is at least not cut off.
    pub(super) fn read(&self, body: &str, closed: bool, finished: bool, tools: &[ToolSpec]) -> Call {
        match self {
            Self::Json(_) => read_json(body, closed || finished),
            Self::Xml(_) => read_xml(body, closed || (finished && !ends_inside_value(body)), tools),
        }
    }
}

impl Json {
    fn extent(&mut self, text: &[u8], over: bool) -> Option<Extent> {
        while let Some(&byte) = text.get(self.read) {
            if let Some(whole) = self.whole {
                // Behind the object, white space, a brace too many and the closing tag still belong to the call.
                let closes = stands(CLOSE, &text[self.read..], over)?;
                if closes {
                    return Some(Extent { body: whole, ..Extent::closed_by_tag(self.read) });
                }
                if !byte.is_ascii_whitespace() && byte != b'}' {
                    return Some(Extent { body: whole, consumed: whole, closed: true });
                }
            } else if byte == b'<' && !self.escaped && stands(CLOSE, &text[self.read..], over)? {
                if !self.in_string {
                    return Some(Extent::closed_by_tag(self.read));
                }
                self.quoted_close.get_or_insert(self.read);
            } else {
                self.step(byte);
            }
            self.read += 1;
        }
        if !over {
            return None;
        }
        Some(match (self.whole, self.quoted_close) {
            (Some(whole), _) => Extent { body: whole, consumed: text.len(), closed: true },
            // The string never ended, so the tag in it was meant.
            (None, Some(close)) => Extent::closed_by_tag(close),
            (None, None) => Extent { body: text.len(), consumed: text.len(), closed: false },
        })
    }

    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.whole = Some(self.read + 1);
                }
            }
            _ => {}
        }
    }
}

impl Xml {
    fn extent(&mut self, text: &str, over: bool) -> Option<Extent> {
        let bytes = text.as_bytes();
        while let Some(next) = bytes[self.read..].iter().position(|&byte| byte == b'<') {
            self.read += next;
            let before = &text[..self.read];
            if stands(CLOSE, &bytes[self.read..], over)? {
                if is_complete(before) || !ends_inside_value(before) {
                    return Some(Extent::closed_by_tag(self.read));
                }
                self.quoted_closes += 1;
                let first = *self.quoted_close.get_or_insert(self.read);
                if self.quoted_closes > MOST_QUOTED_CLOSES {
                    return Some(Extent::closed_by_tag(first));
                }
            } else if stands(OPEN, &bytes[self.read..], over)? && is_complete(before) {
                return Some(Extent { body: self.read, consumed: self.read, closed: true });
            }
            self.read += 1;
        }
        if !over {
            self.read = bytes.len();
            return None;
        }
        if let Some(close) = self.quoted_close {
            return Some(Extent::closed_by_tag(close));
        }
        // Without a closing tag the function's own end counts, and what follows it is the answer.
        Some(match text.rfind(FUNCTION_END) {
            Some(end) => {
                let behind = end + FUNCTION_END.len();
                Extent { body: behind, consumed: behind, closed: true }
            }
            None => Extent { body: text.len(), consumed: text.len(), closed: false },
        })
    }
}

fn is_complete(body: &str) -> bool {
    body.trim_end().ends_with(FUNCTION_END)
}

fn ends_inside_value(body: &str) -> bool {
    body.rfind(PARAMETER).is_some_and(|opened| !body[opened..].contains(PARAMETER_END))
}

fn read_json(body: &str, ended: bool) -> Call {
    let raw = || body.trim().to_owned();
    let Some(mut call) = arguments::object(body, ended) else {
        return (name_in(body).unwrap_or_default(), Err(raw()));
    };
    // Some write the call as the interface has it, inside `function`.
    if let Some(Value::Object(inner)) = call.get_mut("function") {
        call = std::mem::take(inner);
    }
    let name = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = call.remove("arguments").or_else(|| call.remove("parameters")).unwrap_or(Value::Null);
    (name, arguments::from_value(arguments).ok_or_else(raw))
}

/// The name in an object that cannot be read as a whole, so that the model can be told which call was wrong.
fn name_in(body: &str) -> Option<String> {
    let (_, behind) = body.split_once("\"name\"")?;
    let value = behind.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (name, _) = value.split_once('"')?;
    Some(name.to_owned())
}

fn read_xml(body: &str, ended: bool, tools: &[ToolSpec]) -> Call {
    let raw = || body.trim().to_owned();
    let function = body.trim().strip_prefix(FUNCTION).unwrap_or(body);
    let Some((name, rest)) = function.split_once('>') else {
        return (String::new(), Err(raw()));
    };
    let name = name.trim().trim_matches(['"', '\'']).to_owned();
    if !ended {
        return (name, Err(raw()));
    }
    let mut rest = rest.trim_end().strip_suffix(FUNCTION_END).unwrap_or(rest);
    let mut parameters = Map::new();
    while let Some((_, behind)) = rest.split_once(PARAMETER) {
        let Some((key, behind)) = behind.split_once('>') else {
            return (name, Err(raw()));
        };
        let (value, behind) = split_value(behind);
        let key = key.trim().trim_matches(['"', '\'']);
        parameters.insert(key.to_owned(), arguments::coerce(tools, &name, key, without_line_ends(value)));
        rest = behind;
    }
    (name, Ok(parameters))
}

/// Splits behind a value. The next parameter ends it, even where the closing tag is missing; inside a line, or where it
/// closes nothing, a tag is quoted by the value.
fn split_value(text: &str) -> (&str, &str) {
    let ends_value = |before: &str| before.ends_with('\n') || before.trim_end().ends_with(PARAMETER_END);
    let mut parameters = text.match_indices(PARAMETER).map(|(at, _)| at);
    let next = parameters.find(|&at| ends_value(&text[..at])).unwrap_or(text.len());
    let (value, behind) = text.split_at(next);
    (value.rfind(PARAMETER_END).map_or(value, |end| &value[..end]), behind)
}

/// Exactly one line end on each side is the form's, further ones are the value's.
fn without_line_ends(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or_else(|| value.strip_suffix('\n')).unwrap_or(value)
}
