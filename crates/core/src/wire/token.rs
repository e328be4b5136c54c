//! `MessagePack` as a flat sequence of tokens: the only place that knows the format's bytes.
//!
//! Nothing is allocated, nothing recurses, and no length is believed before the bytes are there. What a token means
//! is for others to say.

use rmp::Marker;
use thiserror::Error;

/// One scalar, or the head of a map or array whose contents follow as further tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Nil,
    Bool(bool),
    /// Any width, signed or not: wide enough for all of them.
    Int(i128),
    Float(f64),
    /// Should be UTF-8, which is looked at only where the text is wanted.
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Extension(i8, &'a [u8]),
    /// With so many elements.
    Array(u32),
    /// With so many pairs.
    Map(u32),
}

impl Token<'_> {
    /// How many values follow that belong to this one.
    pub(super) fn children(&self) -> u64 {
        match *self {
            Token::Array(elements) => elements.into(),
            Token::Map(pairs) => 2 * u64::from(pairs),
            _ => 0,
        }
    }

    /// `nil`, or `undefined` as msgpackr writes it: the same as not being there.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Token::Nil | Token::Extension(0, _))
    }
}

/// The bytes are not `MessagePack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Broken {
    #[error("the packet ends in the middle of a value")]
    Truncated,
    #[error("the packet is not MessagePack: it holds the byte 0xc1, which has no meaning")]
    Reserved,
}

/// A value: its token, and for a map or an array where its contents begin.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub(super) token: Token<'a>,
    pub(super) contents: Tokens<'a>,
}

/// What is still to be read.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next token.
    pub(super) fn token(&mut self) -> Result<Token<'a>, Broken> {
        let [marker] = self.array()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Token::Nil,
            Marker::Reserved => return Err(Broken::Reserved),
            Marker::False => Token::Bool(false),
            Marker::True => Token::Bool(true),
            Marker::FixPos(value) => Token::Int(value.into()),
            Marker::FixNeg(value) => Token::Int(value.into()),
            Marker::U8 => Token::Int(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Token::Int(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Token::Int(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Token::Int(u64::from_be_bytes(self.array()?).into()),
            Marker::I8 => Token::Int(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Token::Int(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Token::Int(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Token::Int(i64::from_be_bytes(self.array()?).into()),
            Marker::F32 => Token::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Token::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(length) => Token::Text(self.bytes(length.into())?),
            Marker::Str8 => Token::Text(self.bytes8()?),
            Marker::Str16 => Token::Text(self.bytes16()?),
            Marker::Str32 => Token::Text(self.bytes32()?),
            Marker::Bin8 => Token::Binary(self.bytes8()?),
            Marker::Bin16 => Token::Binary(self.bytes16()?),
            Marker::Bin32 => Token::Binary(self.bytes32()?),
            Marker::FixArray(elements) => Token::Array(elements.into()),
            Marker::Array16 => Token::Array(u16::from_be_bytes(self.array()?).into()),
            Marker::Array32 => Token::Array(u32::from_be_bytes(self.array()?)),
            Marker::FixMap(pairs) => Token::Map(pairs.into()),
            Marker::Map16 => Token::Map(u16::from_be_bytes(self.array()?).into()),
            Marker::Map32 => Token::Map(u32::from_be_bytes(self.array()?)),
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => {
                let length = u8::from_be_bytes(self.array()?);
                self.extension(length.into())?
            }
            Marker::Ext16 => {
                let length = u16::from_be_bytes(self.array()?);
                self.extension(length.into())?
            }
            Marker::Ext32 => {
                let length = u32::from_be_bytes(self.array()?);
                self.extension(length as usize)?
            }
        })
    }

    /// The next value; what it contains is stepped over.
    pub(super) fn item(&mut self) -> Result<Item<'a>, Broken> {
        let token = self.token()?;
        let contents = self.clone();
        self.skip(token.children())?;
        Ok(Item { token, contents })
    }

    /// Steps over so many values, and over all that they contain.
    pub(super) fn skip(&mut self, values: u64) -> Result<(), Broken> {
        let mut left = values;
        while left > 0 {
            left = left - 1 + self.token()?.children();
        }
        Ok(())
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Broken::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn bytes8(&mut self) -> Result<&'a [u8], Broken> {
        let length = u8::from_be_bytes(self.array()?);
        self.bytes(length.into())
    }

    fn bytes16(&mut self) -> Result<&'a [u8], Broken> {
        let length = u16::from_be_bytes(self.array()?);
        self.bytes(length.into())
    }

    fn bytes32(&mut self) -> Result<&'a [u8], Broken> {
        let length = u32::from_be_bytes(self.array()?);
        self.bytes(length as usize)
    }

    fn extension(&mut self, length: usize) -> Result<Token<'a>, Broken> {
        let kind = i8::from_be_bytes(self.array()?);
        Ok(Token::Extension(kind, self.bytes(length)?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Broken::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }
}
