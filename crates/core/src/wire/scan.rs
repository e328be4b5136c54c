//! The look at a packet before anything is made of it: is it one value, whole, and within the limits?
//!
//! It walks over the tokens with a stack of fixed size, so that neither a deep nor a large packet costs memory. What
//! passes may be read by code that recurses and reserves space by announced lengths.

use super::Limits;
use super::fault::Fault;
use super::token::{Broken, Token, Tokens};

/// No configuration allows more nesting than this: readers behind the scan recurse.
pub(super) const DEEPEST: usize = 128;

/// How msgpackr writes an object as a "record": an extension whose fields follow outside of it.
const RECORD: i8 = 0x72;

/// Checks the whole packet.
pub(super) fn scan(bytes: &[u8], limits: &Limits) -> Result<(), Fault> {
    if bytes.is_empty() {
        return Err(Fault::Empty);
    }
    if bytes.len() > limits.bytes {
        return Err(Fault::TooLarge(limits.bytes));
    }

    let deepest = limits.depth.min(DEEPEST);
    let mut tokens = Tokens::new(bytes);
    // For each open map or array, how many of its values are still to come.
    let mut open = [0_u64; DEEPEST];
    let mut depth = 0;
    let mut keys = 0;
    loop {
        let token = tokens.token()?;
        match token {
            Token::Map(size) | Token::Array(size) => {
                keys += u64::from(size);
                if keys > limits.keys as u64 {
                    return Err(Fault::TooManyKeys(limits.keys));
                }
                // The shortest value is one byte.
                if token.children() > tokens.left() as u64 {
                    return Err(Broken::Truncated.into());
                }
                if depth == deepest {
                    return Err(Fault::TooDeep(deepest));
                }
                open[depth] = token.children();
                depth += 1;
            }
            Token::Extension(RECORD, [_] | [_, _]) => return Err(Fault::Records),
            // JSON, plain text, a record that msgpackr has described before: what follows would only mislead.
            _ if depth == 0 => return Err(Fault::NotAnEnvelope),
            _ => {}
        }
        while depth > 0 && open[depth - 1] == 0 {
            depth -= 1;
        }
        if depth == 0 {
            break;
        }
        open[depth - 1] -= 1;
    }
    if tokens.left() > 0 { Err(Fault::Trailing) } else { Ok(()) }
}
