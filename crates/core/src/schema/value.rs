//! JSON values as a schema sees them: 1 and 1.0 are the same number, and a whole one.

use serde_json::Value;

pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// Whether a value is of a type, or of one of several.
pub(super) fn is_type(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::String(word) => match word.as_str() {
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => false,
        },
        Value::Array(words) => words.iter().any(|word| word.is_string() && is_type(word, value)),
        // No type at all.
        _ => true,
    }
}

/// Whether two values are equal.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // Whole numbers first: as floats, large ones would be taken for their neighbours.
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(one, other)| same(one, other))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, one)| b.get(key).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}
