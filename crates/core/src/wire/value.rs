//! One value, read leniently as the type that is wanted.
//!
//! Each function answers with the value, or with what it should have been ("… must be ⟨this⟩"). Integers may have any
//! width and may be floats; nothing is wrapped or rounded into place.

use super::body::{Execution, StopType, VariationMode};
use super::token::{Broken, Item, Token, Tokens};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

/// A value, or what it should have been.
pub(super) type Wanted<T> = Result<T, &'static str>;

/// The extension type of `MessagePack`'s own timestamps.
const TIMESTAMP: i8 = -1;
/// Whole numbers up to here are exact as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn text(item: &Item<'_>) -> Wanted<String> {
    match item.token {
        Token::Text(bytes) => std::str::from_utf8(bytes).map(str::to_owned).or(Err("valid UTF-8")),
        _ => Err("text"),
    }
}

pub(super) fn flag(item: &Item<'_>) -> Wanted<bool> {
    match item.token {
        Token::Bool(value) => Ok(value),
        _ => Err("true or false"),
    }
}

pub(super) fn int32(item: &Item<'_>) -> Wanted<i32> {
    integer(item).ok_or("a 32-bit integer")
}

pub(super) fn int64(item: &Item<'_>) -> Wanted<i64> {
    integer(item).ok_or("a 64-bit integer")
}

pub(super) fn uint16(item: &Item<'_>) -> Wanted<u16> {
    integer(item).ok_or("an integer from 0 to 65535")
}

fn integer<T: TryFrom<i128>>(item: &Item<'_>) -> Option<T> {
    let value = match item.token {
        Token::Int(value) => value,
        // The cast is exact or, for what no integer type here holds, saturates; infinities and NaN have no whole part.
        Token::Float(value) if value.fract() == 0.0 => value as i128,
        _ => return None,
    };
    T::try_from(value).ok()
}

pub(super) fn float32(item: &Item<'_>) -> Wanted<f32> {
    match item.token {
        Token::Float(value) => Ok(value as f32),
        Token::Int(value) => Ok(value as f32),
        _ => Err("a number"),
    }
}

pub(super) fn binary(item: &Item<'_>) -> Wanted<Vec<u8>> {
    match item.token {
        Token::Binary(bytes) => Ok(bytes.to_vec()),
        _ => Err("binary data"),
    }
}

/// Milliseconds since the Unix epoch.
pub(super) fn timestamp(item: &Item<'_>) -> Wanted<i64> {
    let milliseconds = match item.token {
        Token::Int(value) => i64::try_from(value).ok(),
        // Clocks that count parts of a millisecond; beyond `EXACT` there is no such clock.
        Token::Float(value) if value.abs() <= EXACT => Some(value.floor() as i64),
        Token::Extension(TIMESTAMP, bytes) => timestamp_extension(bytes),
        _ => None,
    };
    milliseconds.ok_or("a time: milliseconds since 1970, or MessagePack's timestamp")
}

/// The three lengths of `MessagePack`'s timestamp.
fn timestamp_extension(bytes: &[u8]) -> Option<i64> {
    let (seconds, nanoseconds) = match bytes.len() {
        4 => (u32::from_be_bytes(bytes.try_into().ok()?).into(), 0),
        8 => {
            let both = u64::from_be_bytes(bytes.try_into().ok()?);
            ((both & 0x3_ffff_ffff) as i64, (both >> 34) as u32)
        }
        _ => {
            let (nanoseconds, seconds) = bytes.split_first_chunk()?;
            (i64::from_be_bytes(seconds.try_into().ok()?), u32::from_be_bytes(*nanoseconds))
        }
    };
    if nanoseconds > 999_999_999 {
        return None;
    }
    seconds.checked_mul(1_000)?.checked_add((nanoseconds / 1_000_000).into())
}

pub(super) fn execution(item: &Item<'_>) -> Wanted<Execution> {
    match item.token {
        Token::Text(b"server") => Ok(Execution::Server),
        Token::Text(b"client") => Ok(Execution::Client),
        Token::Text(b"either") => Ok(Execution::Either),
        _ => Err("\"server\", \"client\" or \"either\""),
    }
}

/// Every word means something here: one who says "stop" in other words wants the answer to stop.
pub(super) fn stop_type(item: &Item<'_>) -> Wanted<StopType> {
    match item.token {
        Token::Text(b"speech") => Ok(StopType::Speech),
        Token::Text(b"all") => Ok(StopType::All),
        Token::Text(_) => Ok(StopType::Generation),
        _ => Err("text"),
    }
}

pub(super) fn variation_mode(item: &Item<'_>) -> Wanted<VariationMode> {
    match item.token {
        Token::Text(b"regenerate") => Ok(VariationMode::Regenerate),
        Token::Text(b"edit") => Ok(VariationMode::Edit),
        Token::Text(b"continue") => Ok(VariationMode::Continue),
        _ => Err("\"regenerate\", \"edit\" or \"continue\""),
    }
}

pub(super) fn texts(item: &Item<'_>) -> Wanted<Vec<String>> {
    let elements = elements(item).ok_or("a list of texts")?;
    elements.iter().map(text).collect::<Result<_, _>>().or(Err("a list of texts"))
}

/// The elements of an array that are there at all.
pub(super) fn elements<'a>(item: &Item<'a>) -> Option<Vec<Item<'a>>> {
    let Token::Array(length) = item.token else { return None };
    let mut contents = item.contents.clone();
    let items: Vec<_> = (0..length).map(|_| contents.item()).collect::<Result<_, _>>().ok()?;
    Some(items.into_iter().filter(|element| !element.token.is_absent()).collect())
}

/// A map as JSON.
pub(super) fn object(item: &Item<'_>) -> Wanted<Map<String, Value>> {
    match (item.token, any(item)) {
        (Token::Map(_), Ok(Value::Object(map))) => Ok(map),
        _ => Err("a map"),
    }
}

/// Anything as JSON: binary data as base64, what JSON has no word for as `null`, keys as their text.
pub(super) fn any(item: &Item<'_>) -> Wanted<Value> {
    json(item.token, &mut item.contents.clone()).or(Err("a whole value"))
}

/// Recurses as deep as the value does, which [`scan`](super::scan) has limited.
fn json(token: Token<'_>, contents: &mut Tokens<'_>) -> Result<Value, Broken> {
    Ok(match token {
        Token::Nil | Token::Extension(..) => Value::Null,
        Token::Bool(value) => value.into(),
        Token::Int(value) => match u64::try_from(value) {
            Ok(value) => value.into(),
            // What is not a u64 is negative and came from an i64.
            Err(_) => (value as i64).into(),
        },
        // So does msgpackr write integers of more than 32 bits; what models and tools read must not say "….0".
        Token::Float(value) if value.fract() == 0.0 && (u32::MAX.into()..=EXACT).contains(&value.abs()) => {
            (value as i64).into()
        }
        // Not a number, or infinite: `null`.
        Token::Float(value) => value.into(),
        Token::Text(bytes) => String::from_utf8_lossy(bytes).into(),
        Token::Binary(bytes) => BASE64.encode(bytes).into(),
        Token::Array(elements) => {
            let mut array = Vec::with_capacity(elements as usize);
            for _ in 0..elements {
                let element = contents.token()?;
                array.push(json(element, contents)?);
            }
            array.into()
        }
        Token::Map(pairs) => {
            let mut map = Map::with_capacity(pairs as usize);
            for _ in 0..pairs {
                let key = key_text(contents.item()?.token);
                let token = contents.token()?;
                let value = json(token, contents)?;
                // `undefined` in a map is no entry, as in JSON; a key that is itself a map or an array has no text.
                if let Some(key) = key
                    && !matches!(token, Token::Extension(0, _))
                {
                    map.insert(key, value);
                }
            }
            map.into()
        }
    })
}

fn key_text(key: Token<'_>) -> Option<String> {
    match key {
        Token::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Token::Binary(bytes) => Some(BASE64.encode(bytes)),
        Token::Int(value) => Some(value.to_string()),
        Token::Float(value) => Some(value.to_string()),
        Token::Bool(value) => Some(value.to_string()),
        Token::Nil => Some("null".to_owned()),
        Token::Extension(..) | Token::Array(_) | Token::Map(_) => None,
    }
}
