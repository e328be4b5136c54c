//! The arguments of a tool call: from what a model wrote to a JSON object.
//!
//! Repairs only what can be read in one way alone, and only where the model had ended by itself; whatever else is wrong
//! stays as the raw text, so that the model can be told. Never looks at whether the arguments suit the tool.

use super::ToolSpec;
use serde_json::{Map, Value};

/// How many closing braces may be missing: `}}` is one token in most vocabularies, and one token is what gets lost.
const MOST_LOST_BRACES: usize = 2;

/// Reads arguments. `ended` says that the model came to its end by itself, rather than being cut off.
pub(super) fn read(raw: &str, ended: bool) -> Result<Map<String, Value>, String> {
    if raw.trim().is_empty() && ended {
        return Ok(Map::new());
    }
    object(raw, ended).ok_or_else(|| raw.to_owned())
}

/// Arguments that are already JSON: an object, none, or an object written into a string.
pub(super) fn from_value(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        Value::Null => Some(Map::new()),
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

/// Reads an object, mended if it is plain how.
pub(super) fn object(raw: &str, ended: bool) -> Option<Map<String, Value>> {
    match serde_json::from_str(raw) {
        Ok(value) => from_value(value),
        Err(_) if ended => without_surplus_braces(raw).or_else(|| with_lost_braces(raw)),
        Err(_) => None,
    }
}

/// `{"a":1}}`: some models close once too often.
fn without_surplus_braces(raw: &str) -> Option<Map<String, Value>> {
    let mut values = serde_json::Deserializer::from_str(raw).into_iter();
    let first: Map<String, Value> = values.next()?.ok()?;
    let rest = raw.get(values.byte_offset()..)?;
    rest.chars().all(|c| c == '}' || c.is_whitespace()).then_some(first)
}

/// `{"a":"x"`: some servers lose the last token. A number at the end could have gone on, and anything else that is
/// open could hold more, so only objects are closed, and only behind a value that is surely whole.
fn with_lost_braces(raw: &str) -> Option<Map<String, Value>> {
    let mut objects = 0_usize;
    let mut arrays = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in raw.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => objects += 1,
            b'}' => objects = objects.checked_sub(1)?,
            b'[' => arrays += 1,
            b']' => arrays = arrays.checked_sub(1)?,
            _ => {}
        }
    }
    let whole = ["\"", "}", "]", "true", "false", "null"].iter().any(|end| raw.trim_end().ends_with(end));
    if in_string || arrays > 0 || objects > MOST_LOST_BRACES || !whole {
        return None;
    }
    serde_json::from_str(&format!("{raw}{}", "}".repeat(objects))).ok()
}

/// A value that came as text, in the type that the tool's schema names. What does not fit stays text: the tool says
/// best what is wrong with it.
pub(super) fn coerce(tools: &[ToolSpec], tool: &str, key: &str, text: &str) -> Value {
    let schema = tools
        .iter()
        .find(|spec| spec.name == tool)
        .and_then(|spec| spec.parameters.get("properties")?.get(key));
    let mut types = Vec::new();
    if let Some(schema) = schema {
        collect_types(schema, &mut types);
    }
    let coerced = types.iter().filter(|&&kind| kind != "string").find_map(|kind| as_type(kind, text.trim()));
    // Where text is allowed too, only a plain null is meant as something else.
    match coerced {
        Some(value) if !types.contains(&"string") || value.is_null() => value,
        _ => Value::String(text.to_owned()),
    }
}

fn collect_types<'a>(schema: &'a Value, types: &mut Vec<&'a str>) {
    match schema.get("type") {
        Some(Value::String(kind)) => types.push(kind),
        Some(Value::Array(kinds)) => types.extend(kinds.iter().filter_map(Value::as_str)),
        _ => {}
    }
    for alternatives in ["anyOf", "oneOf"] {
        for schema in schema.get(alternatives).and_then(Value::as_array).into_iter().flatten() {
            // One level: schemas of parameters are flat, and a loop of references has no end.
            types.extend(schema.get("type").and_then(Value::as_str));
        }
    }
}

fn as_type(kind: &str, text: &str) -> Option<Value> {
    match kind {
        "boolean" if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        "boolean" if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        "null" if text.eq_ignore_ascii_case("null") || text == "None" => Some(Value::Null),
        "integer" => text.parse::<i64>().map(Value::from).ok().or_else(|| {
            let number = text.parse::<f64>().ok()?;
            // 2^53: beyond it a float no longer tells neighbouring integers apart.
            (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0)
                .then(|| Value::from(number as i64))
        }),
        "number" => serde_json::from_str(text).ok().filter(Value::is_number),
        "object" => serde_json::from_str(text).ok().filter(Value::is_object),
        "array" => serde_json::from_str(text).ok().filter(Value::is_array),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        from_value(value).expect("an object")
    }

    #[test]
    fn whole_arguments_are_read_in_every_form() {
        assert_eq!(read(r#"{"a":1}"#, false), Ok(map(json!({"a": 1}))));
        assert_eq!(read(r#""{\"a\":1}""#, false), Ok(map(json!({"a": 1}))));
        assert_eq!(read("null", false), Ok(Map::new()));
        assert_eq!(read(" ", true), Ok(Map::new()));
    }

    #[test]
    fn a_lost_or_surplus_brace_is_mended_where_nothing_else_can_be_meant() {
        for raw in [r#"{"a":"x""#, r#"{"a":"x"}}"#, r#"{"a":"x"} }"#] {
            assert_eq!(read(raw, true), Ok(map(json!({"a": "x"}))), "{raw}");
        }
        assert_eq!(read(r#"{"a":{"b":true"#, true), Ok(map(json!({"a": {"b": true}}))));
        assert_eq!(read(r#"{"a":[1,2]"#, true), Ok(map(json!({"a": [1, 2]}))));
        assert_eq!(read(r#"{"a":"\"}""#, true), Ok(map(json!({"a": "\"}"}))));
    }

    #[test]
    fn what_could_have_gone_on_stays_as_it_is() {
        for raw in [
            r#"{"a":1"#,
            r#"{"a":"x"#,
            r#"{"a":"x","#,
            r#"{"a""#,
            r#"{"a":[1,2"#,
            r#"{"a":{"b":{"c":"x""#,
            "[1]",
            "7",
            "x",
        ] {
            assert_eq!(read(raw, true), Err(raw.to_owned()), "{raw}");
        }
    }

    #[test]
    fn nothing_is_mended_when_the_model_was_cut_off() {
        for raw in [r#"{"a":"x""#, ""] {
            assert_eq!(read(raw, false), Err(raw.to_owned()), "{raw}");
        }
    }

    #[test]
    fn text_takes_the_type_that_the_schema_names() {
        let tools = [ToolSpec {
            name: "f".to_owned(),
            description: String::new(),
            repeatable: true,
            parameters: json!({"type": "object", "properties": {
                "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
                "o": {"type": "object"}, "l": {"type": "array"}, "maybe": {"type": ["string", "null"]},
                "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            }}),
        }];
        let cases = [
            ("s", "12", json!("12")),
            ("s", " x\n", json!(" x\n")),
            ("i", "12", json!(12)),
            ("i", "12.0", json!(12)),
            ("i", "12.5", json!("12.5")),
            ("i", "many", json!("many")),
            ("n", "-1.5e3", json!(-1500.0)),
            ("b", "True", json!(true)),
            ("b", "yes", json!("yes")),
            ("o", "{\"x\": [1]}", json!({"x": [1]})),
            ("l", "[1, \"a\"]", json!([1, "a"])),
            ("maybe", "null", json!(null)),
            ("maybe", "nil", json!("nil")),
            ("any", "3", json!(3)),
            ("unknown", "3", json!("3")),
        ];
        for (key, text, value) in cases {
            assert_eq!(coerce(&tools, "f", key, text), value, "{key} {text}");
        }
        assert_eq!(coerce(&tools, "other", "i", "3"), json!("3"));
    }
}
