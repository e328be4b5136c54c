//! The tool `time`: the date and the time of day, anywhere on earth.
//!
//! Time zones come from the system's database or, where there is none (a small container), from the one compiled in.

use super::refuse_others;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde_json::{Map, Value, json};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::model::ToolSpec;

pub(super) const NAME: &str = "time";
const TIMEZONE: &str = "timezone";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Tells the current date, day of the week and time of day.".to_owned(),
        repeatable: true,
        parameters: json!({
            "type": "object",
            "properties": {
                TIMEZONE: {
                    "type": "string",
                    "description": "IANA time zone such as Europe/Berlin, or an offset from UTC such as +05:30. \
                                    UTC if left out."
                }
            },
            "required": [],
            "additionalProperties": false
        }),
    }
}

pub(super) fn run(now: Timestamp, arguments: &Map<String, Value>) -> ToolOutcome {
    match refuse_others(arguments, TIMEZONE).and_then(|()| zone(arguments.get(TIMEZONE))) {
        Ok((zone, name)) => {
            let local = now.to_zoned(zone);
            ToolOutcome::Done(json!({
                "date": local.strftime("%Y-%m-%d").to_string(),
                "time": local.strftime("%H:%M:%S").to_string(),
                "weekday": local.strftime("%A").to_string(),
                "timezone": name,
                "utc_offset": local.strftime("%:z").to_string(),
            }))
        }
        Err(reason) => ToolOutcome::InvalidParameters(reason),
    }
}

/// The zone, and how to call it.
fn zone(argument: Option<&Value>) -> Result<(TimeZone, String), String> {
    let name = match argument {
        None | Some(Value::Null) => "UTC",
        Some(Value::String(name)) if name.trim().is_empty() => "UTC",
        Some(Value::String(name)) => name.trim(),
        Some(_) => {
            return Err(format!("{TIMEZONE:?} must be a text such as \"Europe/Berlin\" or \"+05:30\""));
        }
    };
    if name == "Z" || ["UTC", "GMT"].iter().any(|utc| name.eq_ignore_ascii_case(utc)) {
        return Ok((TimeZone::UTC, "UTC".to_owned()));
    }
    if let Some(offset) = offset(name) {
        return Ok((TimeZone::fixed(offset), name.to_owned()));
    }
    // The database answers to any spelling of upper and lower case, and knows the right one.
    let zone = TimeZone::get(name).map_err(|_| {
        let shown: String = name.chars().take(64).collect();
        format!("{shown:?} is no time zone; use an IANA name such as \"Europe/Berlin\", or an offset such as \"+05:30\"")
    })?;
    let name = zone.iana_name().unwrap_or(name).to_owned();
    Ok((zone, name))
}

/// `+5`, `+05`, `+0530`, `+05:30`, each also after `UTC` or `GMT`. Where the earth is, offsets stay within 14 hours.
fn offset(text: &str) -> Option<Offset> {
    let after_utc =
        text.get(..3).filter(|start| ["UTC", "GMT"].iter().any(|utc| start.eq_ignore_ascii_case(utc)));
    let text = after_utc.map_or(text, |_| &text[3..]).trim();
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(parts), _) => parts,
        (None, 1 | 2) => (digits, "0"),
        (None, 4) => digits.split_at_checked(2)?,
        (None, _) => return None,
    };
    let number =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i32>().ok()).flatten();
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let in_range = hours <= 14 && minutes < 60 && hours * 60 + minutes <= 14 * 60;
    in_range.then(|| Offset::from_seconds(sign * (hours * 60 + minutes) * 60).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(instant: &str, timezone: &str) -> ToolOutcome {
        let now = instant.parse().expect("a timestamp");
        run(now, &Map::from_iter([(TIMEZONE.to_owned(), json!(timezone))]))
    }

    fn done(date: &str, time: &str, weekday: &str, timezone: &str, offset: &str) -> ToolOutcome {
        ToolOutcome::Done(json!({
            "date": date, "time": time, "weekday": weekday, "timezone": timezone, "utc_offset": offset
        }))
    }

    #[test]
    fn without_a_zone_it_is_utc() {
        let now = "2026-11-16T10:12:03Z".parse().expect("a timestamp");
        let expected = done("2026-11-16", "10:12:03", "Monday", "UTC", "+00:00");
        assert_eq!(run(now, &Map::new()), expected);
        for utc in ["UTC", "utc", "Z", "", " GMT "] {
            assert_eq!(at("2026-11-16T10:12:03Z", utc), expected, "{utc:?}");
        }
    }

    #[test]
    fn a_zone_knows_its_summer() {
        let winter = at("2026-01-10T12:00:00Z", "Europe/Berlin");
        assert_eq!(winter, done("2026-01-10", "13:00:00", "Saturday", "Europe/Berlin", "+01:00"));
        let summer = at("2026-07-10T12:00:00Z", "europe/berlin");
        assert_eq!(summer, done("2026-07-10", "14:00:00", "Friday", "Europe/Berlin", "+02:00"));
    }

    #[test]
    fn the_date_is_that_of_the_zone() {
        let tokyo = at("2026-12-31T20:00:00Z", "Asia/Tokyo");
        assert_eq!(tokyo, done("2027-01-01", "05:00:00", "Friday", "Asia/Tokyo", "+09:00"));
    }

    #[test]
    fn offsets_are_read_in_every_common_form() {
        for text in ["+5", "+05", "+0500", "+05:00", "UTC+5", "gmt+05:00", "UTC +5"] {
            assert_eq!(
                at("2026-01-01T00:00:00Z", text),
                done("2026-01-01", "05:00:00", "Thursday", text, "+05:00"),
                "{text:?}"
            );
        }
        let behind = at("2026-01-01T00:00:00Z", "-03:30");
        assert_eq!(behind, done("2025-12-31", "20:30:00", "Wednesday", "-03:30", "-03:30"));
    }

    #[test]
    fn what_is_no_zone_is_told_with_an_example() {
        for text in
            ["Atlantis/Centre", "+15", "+14:30", "+5:60", "+-5", "+", "+123456789", "é+5", "../../etc/passwd"]
        {
            let ToolOutcome::InvalidParameters(reason) = at("2026-01-01T00:00:00Z", text) else {
                panic!("{text:?} was taken")
            };
            assert!(reason.contains("Europe/Berlin"), "{reason}");
        }
        let number = run(Timestamp::UNIX_EPOCH, &Map::from_iter([(TIMEZONE.to_owned(), json!(5))]));
        assert!(matches!(number, ToolOutcome::InvalidParameters(_)), "{number:?}");
    }
}
