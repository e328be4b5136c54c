//! [`Envelope`] → bytes, in the one form that strict clients take: five keys in order, absent options left out.

use super::Envelope;
use super::body::Body;
use serde::Serialize;
use serde_json::{Map, Value};

/// The envelope as it is written: the order of the fields is the wire's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    stanza_id: i32,
    conversation_id: &'a str,
    r#type: u16,
    meta: &'a Map<String, Value>,
    body: &'a Body,
}

/// Writes one envelope.
///
/// # Panics
///
/// On a JSON value nested deeper than about a thousand: what `serde_json` reads ends at 128, what
/// [`decode`](super::decode) reads too.
pub fn encode(envelope: &Envelope) -> Vec<u8> {
    let written = Written {
        stanza_id: envelope.stanza,
        conversation_id: envelope.conversation.as_deref().unwrap_or_default(),
        r#type: envelope.body.kind(),
        meta: &envelope.meta,
        body: &envelope.body,
    };
    rmp_serde::to_vec_named(&written)
        .expect("a vector takes all bytes, and no value comes in nested that deep")
}
