//! Reads structure out of fuzz input. Whatever is missing at the end is zero, so that every input means something.

/// The bytes not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Up to `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// Bytes with their length, two bytes, in front; more than there are means all of them.
    pub(super) fn chunk(&mut self) -> &'a [u8] {
        let length = self.u16();
        self.take(length.into())
    }

    /// A chunk as text. What is not UTF-8 comes as the replacement character, as from a decoder of signalling.
    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.chunk()).into_owned()
    }
}
