//! What clients really send, what they expect, and what they must not be able to do.

mod golden;
mod javascript;
mod leniency;
mod limits;
mod malformed;
mod properties;
mod samples;

use super::{Envelope, Limits, Malformed, decode};

/// Decodes within the default limits.
fn read(bytes: &[u8]) -> Result<Envelope, Malformed> {
    decode(bytes, &Limits::default())
}

/// The reason why this is no message.
fn reason(bytes: &[u8]) -> String {
    read(bytes).expect_err("should be malformed").reason
}

/// Bytes from hexadecimal digits.
fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "odd number of digits");
    let digit_pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    digit_pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

/// Name and bytes of each line of a fixture: the last word is the bytes.
fn fixture(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    text.lines().map(|line| {
        let (name, hex) = line.rsplit_once(' ').expect("a name and bytes");
        (name, bytes(hex))
    })
}

/// `MessagePack` written piece by piece, so that a test can write what no encoder would.
#[derive(Clone, Default)]
struct Pack(Vec<u8>);

impl Pack {
    fn new() -> Self {
        Self::default()
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn map(self, pairs: u32) -> Self {
        self.raw(&[0xdf]).raw(&pairs.to_be_bytes())
    }

    fn array(self, elements: u32) -> Self {
        self.raw(&[0xdd]).raw(&elements.to_be_bytes())
    }

    fn text(self, text: &str) -> Self {
        self.raw(&[0xdb]).raw(&(text.len() as u32).to_be_bytes()).raw(text.as_bytes())
    }

    fn int(self, value: i64) -> Self {
        self.raw(&[0xd3]).raw(&value.to_be_bytes())
    }

    fn float(self, value: f64) -> Self {
        self.raw(&[0xcb]).raw(&value.to_be_bytes())
    }

    fn nil(self) -> Self {
        self.raw(&[0xc0])
    }

    fn undefined(self) -> Self {
        self.raw(&[0xd4, 0, 0])
    }

    /// An envelope whose body's pairs come next.
    fn envelope(kind: i64, pairs: u32) -> Self {
        Self::new().map(3).text("stanzaId").int(7).text("type").int(kind).text("body").map(pairs)
    }

    /// A `UserMessage` with further pairs in its body.
    fn user(further: u32) -> Self {
        Self::envelope(2, 2 + further).text("id").text("m1").text("content").text("Hello")
    }
}
