use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn what_fits_and_what_is_said_of_what_does_not() {
    let order = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2, "maxLength": 5},
            "days": {"type": "integer", "minimum": 1, "exclusiveMaximum": 8},
            "unit": {"enum": ["C", "F"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": true},
            "at": {"$ref": "#/$defs/point"},
            "when": {"anyOf": [{"type": "integer"}, {"const": "now"}]},
            "note": {"type": ["string", "null"]},
            "old": {"type": "string", "nullable": true},
            "step": {"multipleOf": 0.1},
        },
        "required": ["city"],
        "additionalProperties": false,
        "$defs": {"point": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}}},
    });
    let cases = [
        (json!({"city": "Oslo"}), ""),
        (
            json!({"city": "Oslo", "days": 7.0, "unit": "C", "tags": ["a"], "at": {"x": 1.5}, "when": "now", "note": null, "old": null}),
            "",
        ),
        (json!({"city": "Oslo", "step": 0.3}), ""),
        (json!({}), "city is missing"),
        (json!({"city": 1}), "city must be text"),
        (json!({"city": "O"}), "city must have at least 2 characters"),
        (json!({"city": "Großes"}), "city must have at most 5 characters"),
        (json!({"city": "Oslo", "days": 1.5}), "days must be a whole number"),
        (json!({"city": "Oslo", "days": 0}), "days must be at least 1"),
        (json!({"city": "Oslo", "days": 8}), "days must be less than 8"),
        (json!({"city": "Oslo", "unit": "K"}), "unit must be one of \"C\", \"F\""),
        (json!({"city": "Oslo", "tags": ["a", 2]}), "tags[1] must be text"),
        (json!({"city": "Oslo", "tags": ["a", "b", "c"]}), "tags must have at most 2 elements"),
        (json!({"city": "Oslo", "tags": ["a", "a"]}), "tags must not hold the same twice"),
        (json!({"city": "Oslo", "at": {}}), "at.x is missing"),
        (json!({"city": "Oslo", "when": "then"}), "when fits none of the forms that it may have"),
        (json!({"city": "Oslo", "note": 1}), "note must be text or null"),
        (json!({"city": "Oslo", "more": 1}), "more must not be there"),
        (json!({"city": "Oslo", "step": 0.25}), "step must be a multiple of 0.1"),
        (json!({"city": 1, "days": "x"}), "city must be text; days must be a whole number"),
        (json!([]), "the whole of the arguments must be an object"),
    ];
    for (value, expected) in cases {
        assert_eq!(faults(&order, &value).join("; "), expected, "{value}");
    }
}

#[test]
fn combinations() {
    let cases = [
        (json!({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"a": 1}), false),
        (json!({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"a": 1, "b": 2}), true),
        (json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"a": 1, "b": 2}), false),
        (json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"b": 2}), true),
        (json!({"not": {"required": ["a"]}}), json!({"a": 1}), false),
        (json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}), json!({"a": 1}), false),
        (json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}), json!({}), true),
        (json!({"if": {"required": ["a"]}, "else": {"required": ["b"]}}), json!({}), false),
        (json!({"propertyNames": {"maxLength": 1}}), json!({"ab": 1}), false),
        (json!({"minProperties": 1}), json!({}), false),
        (json!({"additionalProperties": {"type": "integer"}}), json!({"x": "1"}), false),
        (
            json!({"properties": {"l": {"prefixItems": [{"type": "string"}], "items": false}}}),
            json!({"l": ["a", 1]}),
            false,
        ),
        (
            json!({"properties": {"l": {"items": [{"type": "string"}], "additionalItems": false}}}),
            json!({"l": ["a"]}),
            true,
        ),
        (json!({"properties": {"n": {"minimum": 1, "exclusiveMinimum": true}}}), json!({"n": 1}), false),
        (json!({"const": {"a": 1}}), json!({"a": 1.0}), true),
        (
            json!({"properties": {"n": {"enum": [9_007_199_254_740_993_u64]}}}),
            json!({"n": 9_007_199_254_740_992_u64}),
            false,
        ),
        (json!(true), json!({"a": 1}), true),
        (json!(null), json!({"a": 1}), true),
        (json!({}), json!({"a": 1}), true),
        (json!(false), json!({}), false),
        // What is not known is not judged.
        (json!({"properties": {"a": {"pattern": "^(a+)+$", "format": "email"}}}), json!({"a": "?"}), true),
        (json!({"patternProperties": {"^x": {}}, "additionalProperties": false}), json!({"x": 1}), true),
    ];
    for (schema, value, fits) in cases {
        assert_eq!(unusable(&schema), None, "{schema}");
        assert_eq!(faults(&schema, &value).is_empty(), fits, "{value} by {schema}");
    }
}

#[test]
fn schemas_that_are_too_much_or_lead_elsewhere_cannot_be_used() {
    let mut deep = json!({});
    for _ in 0..MAX_DEPTH {
        deep = json!({ "not": deep });
    }
    let cases = [
        (json!([]), "not an object"),
        (json!("string"), "not an object"),
        (deep, "deeper than 32"),
        (json!({"description": "x".repeat(MAX_BYTES)}), "longer than"),
        (json!({"$ref": "https://evil.example/schema"}), "refers"),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "refers"),
        (json!({"properties": {"a": {"$ref": "other.json#/a"}}}), "refers"),
        (json!({"anyOf": [{"$ref": "#/$defs/nothing"}]}), "refers"),
    ];
    for (schema, expected) in cases {
        let why = unusable(&schema).unwrap_or_default();
        assert!(why.contains(expected), "{why:?} is not {expected:?}");
    }
    let called_so = json!({"properties": {"$ref": {"type": "string"}}});
    assert_eq!(unusable(&called_so), None);
}

#[test]
fn schemas_made_to_take_for_ever_end_soon_and_let_nothing_through() {
    let circle = json!({"$ref": "#"});
    let tree = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
    let mut fan = json!({"type": "string"});
    for _ in 0..12 {
        fan = json!({"allOf": [fan.clone(), fan]});
        if fan.to_string().len() > MAX_BYTES / 3 {
            break;
        }
    }
    let wide = json!({"$defs": {"f": fan}, "properties": {"l": {"items": {"$ref": "#/$defs/f"}}}});
    let long: Vec<String> = (0..5_000).map(|index| index.to_string()).collect();
    for (schema, value) in [
        (circle, json!({})),
        (tree, json!({})),
        (wide, json!({"l": long})),
        (json!({"properties": {"l": {"uniqueItems": true}}}), json!({"l": long})),
    ] {
        assert_eq!(unusable(&schema), None);
        assert!(faults(&schema, &value).concat().contains("too complicated"), "{schema}");
    }
}

/// Any JSON, small.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&["object", "array", "string", "#", "#/a", "a", ""][..]).prop_map(Value::from),
    ];
    let key = prop::sample::select(
        &[
            "type",
            "enum",
            "const",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "prefixItems",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "then",
            "$ref",
            "minimum",
            "maxLength",
            "uniqueItems",
            "multipleOf",
            "propertyNames",
            "a",
            "b",
        ][..],
    );
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_judges_any_value_without_a_panic(schema in any_json(), value in any_json()) {
        let _ = unusable(&schema);
        let found = faults(&schema, &value);
        prop_assert!(found.len() <= MAX_FAULTS, "{}", found.len());
    }
}
