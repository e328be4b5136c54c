//! Bytes → [`Envelope`], leniently and within limits.
//!
//! First a scan without allocation, then the envelope, then the body by its type. When any of it fails, a second and
//! tolerant look picks up what the sender needs in order to know which of its packets is meant.

use super::body::Body;
use super::fault::Fault;
use super::fields::Fields;
use super::read_body::reader_of;
use super::scan::scan;
use super::token::{Broken, Item, Token, Tokens};
use super::value::{int32, object, text, uint16};
use super::{Envelope, Limits, Malformed};

/// Ids longer than this are not repeated to the sender of a malformed packet.
const LONGEST_ID_REPEATED: usize = 128;

/// Reads one envelope.
///
/// A type that nobody here knows is [`Body::Unknown`], whatever its body is. Nesting beyond 128 is malformed whatever
/// the limits say.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Envelope, Malformed> {
    read(bytes, limits).map_err(|fault| {
        let mut malformed = Malformed { reason: fault.to_string(), stanza: None, kind: None, id: None };
        // What ends the look early is what made the packet malformed, and is told already.
        let _ = pick_up(&bytes[..bytes.len().min(limits.bytes)], &mut malformed);
        malformed
    })
}

fn read(bytes: &[u8], limits: &Limits) -> Result<Envelope, Fault> {
    scan(bytes, limits)?;
    let fields = Fields::of(&Tokens::new(bytes).item()?, "").ok_or(Fault::NotAnEnvelope)?;
    let stanza = fields.required("stanzaId", int32)?;
    let kind = fields.required("type", uint16)?;
    let conversation = fields.optional("conversationId", text)?.filter(|id| !id.trim().is_empty());
    let meta = fields.optional("meta", object)?.unwrap_or_default();
    let body = match reader_of(kind) {
        Some(read) => {
            read(&fields.required("body", |item| Fields::of(item, "body.").ok_or("a map"))?, limits)?
        }
        None => Body::Unknown(kind),
    };
    Ok(Envelope { stanza, conversation, meta, body })
}

/// Collects stanza, type and id from as much as there is of a packet that may be cut off, or wrong anywhere.
fn pick_up(bytes: &[u8], malformed: &mut Malformed) -> Result<(), Broken> {
    let mut tokens = Tokens::new(bytes);
    let envelope = tokens.token()?;
    for_each_entry(envelope, tokens, |key, value| match key {
        b"stanzaId" => malformed.stanza = int32(value).ok(),
        b"type" => malformed.kind = uint16(value).ok(),
        b"body" => malformed.id = pick_up_id(value),
        _ => {}
    })
}

/// The first of `id`, `targetId` and `requestId` that can be read.
fn pick_up_id(body: &Item<'_>) -> Option<String> {
    let mut found = [None, None, None];
    let _ = for_each_entry(body.token, body.contents.clone(), |key, value| {
        let place = match key {
            b"id" => 0,
            b"targetId" => 1,
            b"requestId" => 2,
            _ => return,
        };
        found[place] = text(value).ok().filter(|id| id.len() <= LONGEST_ID_REPEATED);
    });
    found.into_iter().flatten().next()
}

/// Shows each entry before stepping over what it contains, so that an entry that is cut off is seen as well.
fn for_each_entry<'a>(
    map: Token<'a>,
    mut contents: Tokens<'a>,
    mut see: impl FnMut(&'a [u8], &Item<'a>),
) -> Result<(), Broken> {
    let Token::Map(pairs) = map else { return Ok(()) };
    for _ in 0..pairs {
        let key = contents.item()?.token;
        let token = contents.token()?;
        if let Token::Text(name) = key
            && !token.is_absent()
        {
            see(name, &Item { token, contents: contents.clone() });
        }
        contents.skip(token.children())?;
    }
    Ok(())
}
