//! Whether the arguments of a call fit what its tool says of them: JSON Schema, as far as tools use it.
//!
//! Schemas come from strangers (MCP servers, people's clients) and arguments from a model that strangers may have talked to.
//! So a schema is bounded in size and depth and refers to nothing outside of itself, and judging by one takes a bounded
//! number of steps. Written by hand rather than taken from the crate `jsonschema`: that one brings two engines for regular
//! expressions, one of which runs away, random hash seeds and two dozen crates, for words that tools hardly use.
//!
//! Known: `type`, `enum`, `const`, `nullable`; `properties`, `required`, `additionalProperties`, `propertyNames`,
//! `minProperties`, `maxProperties`; `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems`; `minLength`, `maxLength`;
//! `minimum`, `maximum`, both exclusive ones, `multipleOf`; `allOf`, `anyOf`, `oneOf`, `not`, `if`, `then`, `else`; `$ref`
//! to a place in the same schema.
//!
//! Not known, and so not judged (the tool does): `pattern` and `patternProperties` (where the latter stands,
//! `additionalProperties` is not judged either), `format`, `contains`, `dependent…`, `unevaluated…`, anchors and dynamic
//! references.

mod value;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use value::{is_type, number, same};

/// How large a schema may be, written out, in bytes.
pub const MAX_BYTES: usize = 32 << 10;
/// How deep it may nest.
pub const MAX_DEPTH: usize = 32;
/// How deep judging may go, references included.
const MAX_RECURSION: usize = 64;
/// How many steps judging may take in all.
const MAX_STEPS: usize = 20_000;
/// How many faults are told at once.
const MAX_FAULTS: usize = 5;

/// Why a schema cannot be used; `None` if it can. `null` is a schema that says nothing.
pub fn unusable(schema: &Value) -> Option<String> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_) | Value::Null) {
        return Some("it is not an object".to_owned());
    }
    // Before it is written out, which recurses.
    if deeper_than(schema, MAX_DEPTH) {
        return Some(format!("it nests deeper than {MAX_DEPTH}"));
    }
    if schema.to_string().len() > MAX_BYTES {
        return Some(format!("it is longer than {MAX_BYTES} bytes"));
    }
    bad_reference(schema, schema)
}

/// What is wrong with a value, in words for the model; empty if nothing is.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut judge = Judge { root: schema, steps: MAX_STEPS, depth: 0, exhausted: false };
    let mut faults = Vec::new();
    judge.judge(schema, value, "", &mut faults);
    faults.truncate(MAX_FAULTS);
    if judge.exhausted {
        faults = vec!["the arguments are too complicated to be checked; make them simpler".to_owned()];
    }
    faults
}

fn deeper_than(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) if depth == 0 => true,
        Value::Object(fields) => fields.values().any(|value| deeper_than(value, depth - 1)),
        Value::Array(items) => items.iter().any(|value| deeper_than(value, depth - 1)),
        _ => false,
    }
}

/// A reference that leads out of the schema, or nowhere.
fn bad_reference(root: &Value, schema: &Value) -> Option<String> {
    match schema {
        Value::Object(fields) => {
            // A property may be called so too; its value is a schema then, and no text.
            if let Some(Value::String(reference)) = fields.get("$ref")
                && referred(root, reference).is_none()
            {
                return Some("it refers to something that is not in it".to_owned());
            }
            fields.values().find_map(|value| bad_reference(root, value))
        }
        Value::Array(items) => items.iter().find_map(|value| bad_reference(root, value)),
        _ => None,
    }
}

fn referred<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

struct Judge<'a> {
    root: &'a Value,
    steps: usize,
    depth: usize,
    /// It took too long: nothing that was found counts.
    exhausted: bool,
}

impl<'a> Judge<'a> {
    /// Whether there are so many steps left; they are taken.
    fn step(&mut self, count: usize) -> bool {
        self.exhausted |= count > self.steps;
        self.steps = self.steps.saturating_sub(count);
        !self.exhausted
    }

    fn judge(&mut self, schema: &'a Value, value: &Value, place: &str, faults: &mut Vec<String>) {
        self.exhausted |= self.depth >= MAX_RECURSION;
        if !self.step(1) || faults.len() >= MAX_FAULTS {
            return;
        }
        self.depth += 1;
        match schema {
            Value::Object(schema) => self.judge_by(schema, value, place, faults),
            Value::Bool(false) => faults.push(format!("{} must not be there", named(place))),
            _ => {}
        }
        self.depth -= 1;
    }

    fn fits(&mut self, schema: &'a Value, value: &Value) -> bool {
        let mut faults = Vec::new();
        self.judge(schema, value, "", &mut faults);
        faults.is_empty()
    }

    fn judge_by(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        place: &str,
        faults: &mut Vec<String>,
    ) {
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return;
        }
        if let Some(Value::String(reference)) = schema.get("$ref")
            && let Some(referred) = referred(self.root, reference)
        {
            self.judge(referred, value, place, faults);
        }
        if let Some(wanted) = schema.get("type")
            && !is_type(wanted, value)
        {
            // What else there is to say would only be about another type.
            return faults.push(format!("{} must be {}", named(place), type_in_words(wanted)));
        }
        self.judge_choices(schema, value, place, faults);
        match value {
            Value::Object(fields) => self.judge_object(schema, fields, place, faults),
            Value::Array(items) => self.judge_array(schema, items, place, faults),
            Value::String(text) => {
                let length = text.chars().count() as f64;
                within(schema, ["minLength", "maxLength"], length, place, "characters", faults);
            }
            Value::Number(_) => judge_number(schema, value, place, faults),
            Value::Null | Value::Bool(_) => {}
        }
        self.judge_combinations(schema, value, place, faults);
    }

    fn judge_choices(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        place: &str,
        faults: &mut Vec<String>,
    ) {
        if let Some(Value::Array(choices)) = schema.get("enum")
            && self.step(choices.len())
            && !choices.iter().any(|choice| same(choice, value))
        {
            let shown: Vec<String> = choices.iter().take(20).map(short).collect();
            faults.push(format!("{} must be one of {}", named(place), shown.join(", ")));
        }
        if let Some(only) = schema.get("const")
            && !same(only, value)
        {
            faults.push(format!("{} must be {}", named(place), short(only)));
        }
    }

    fn judge_object(
        &mut self,
        schema: &'a Map<String, Value>,
        fields: &Map<String, Value>,
        place: &str,
        faults: &mut Vec<String>,
    ) {
        if let Some(Value::Array(required)) = schema.get("required") {
            for key in required.iter().filter_map(Value::as_str).filter(|key| !fields.contains_key(*key)) {
                faults.push(format!("{} is missing", inside(place, key)));
            }
        }
        let count = fields.len() as f64;
        within(schema, ["minProperties", "maxProperties"], count, place, "fields", faults);
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
        for (key, value) in fields {
            let place = inside(place, key);
            if let Some(names) = schema.get("propertyNames")
                && !self.fits(names, &Value::String(key.clone()))
            {
                faults.push(format!("{place} is not a name that may stand there"));
            }
            match (properties.and_then(|properties| properties.get(key)), others) {
                (Some(property), _) => self.judge(property, value, &place, faults),
                (None, Some(others)) => self.judge(others, value, &place, faults),
                (None, None) => {}
            }
        }
    }

    fn judge_array(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &[Value],
        place: &str,
        faults: &mut Vec<String>,
    ) {
        within(schema, ["minItems", "maxItems"], items.len() as f64, place, "elements", faults);
        // Older schemas have the list of the first ones in `items`.
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), rest) => (first.as_slice(), rest),
            (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or(rest) {
                self.judge(schema, item, &format!("{place}[{index}]"), faults);
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let twice = (1..items.len()).any(|index| {
                self.step(index) && items[..index].iter().any(|earlier| same(earlier, &items[index]))
            });
            if twice {
                faults.push(format!("{} must not hold the same twice", named(place)));
            }
        }
    }

    fn judge_combinations(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        place: &str,
        faults: &mut Vec<String>,
    ) {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            self.judge(part, value, place, faults);
        }
        if let Some(choices) = list("anyOf")
            && !choices.iter().any(|choice| self.fits(choice, value))
        {
            faults.push(format!("{} fits none of the forms that it may have", named(place)));
        }
        if let Some(choices) = list("oneOf") {
            let fitting = choices.iter().filter(|choice| self.fits(choice, value)).count();
            if fitting != 1 {
                faults
                    .push(format!("{} must fit exactly one of its forms, and fits {fitting}", named(place)));
            }
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value)
        {
            faults.push(format!("{} has a form that it must not have", named(place)));
        }
        if let Some(condition) = schema.get("if") {
            let branch = if self.fits(condition, value) { "then" } else { "else" };
            if let Some(branch) = schema.get(branch) {
                self.judge(branch, value, place, faults);
            }
        }
    }
}

fn judge_number(schema: &Map<String, Value>, value: &Value, place: &str, faults: &mut Vec<String>) {
    let Some(found) = number(value) else { return };
    let limit = |key: &str| schema.get(key).and_then(number);
    // In the oldest schemas "exclusive" is a word beside the limit.
    let excluded = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let mut fault = |holds: bool, what: String| {
        if !holds {
            faults.push(format!("{} must be {what}", named(place)));
        }
    };
    if let Some(least) = limit("minimum") {
        let holds = if excluded("exclusiveMinimum") { found > least } else { found >= least };
        fault(holds, format!("at least {least}"));
    }
    if let Some(most) = limit("maximum") {
        let holds = if excluded("exclusiveMaximum") { found < most } else { found <= most };
        fault(holds, format!("at most {most}"));
    }
    if let Some(below) = limit("exclusiveMinimum") {
        fault(found > below, format!("more than {below}"));
    }
    if let Some(above) = limit("exclusiveMaximum") {
        fault(found < above, format!("less than {above}"));
    }
    if let Some(step) = limit("multipleOf").filter(|step| *step > 0.0) {
        let times = found / step;
        fault((times - times.round()).abs() < 1e-9 * times.abs().max(1.0), format!("a multiple of {step}"));
    }
}

/// A count between two limits.
fn within(
    schema: &Map<String, Value>,
    [least, most]: [&str; 2],
    count: f64,
    place: &str,
    of: &str,
    faults: &mut Vec<String>,
) {
    if let Some(least) = schema.get(least).and_then(number).filter(|least| count < *least) {
        faults.push(format!("{} must have at least {least} {of}", named(place)));
    }
    if let Some(most) = schema.get(most).and_then(number).filter(|most| count > *most) {
        faults.push(format!("{} must have at most {most} {of}", named(place)));
    }
}

fn inside(place: &str, key: &str) -> String {
    let key: String = key.chars().take(80).collect();
    if place.is_empty() { key } else { format!("{place}.{key}") }
}

fn named(place: &str) -> &str {
    if place.is_empty() { "the whole of the arguments" } else { place }
}

/// A value as it may stand in a sentence.
fn short(value: &Value) -> String {
    let written = value.to_string();
    let cut: String = written.chars().take(80).collect();
    if cut.len() < written.len() { format!("{cut}…") } else { cut }
}

fn type_in_words(wanted: &Value) -> String {
    let word = |word: &Value| match word.as_str() {
        Some("string") => "text",
        Some("number") => "a number",
        Some("integer") => "a whole number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "an object",
        Some("null") => "null",
        _ => "of a type that nothing has",
    };
    match wanted {
        Value::Array(words) => words.iter().map(word).collect::<Vec<_>>().join(" or "),
        one => word(one).to_owned(),
    }
}
