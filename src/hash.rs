//! SHA-256 as text, for what is to be recognised again: tools that were approved, names that were shortened, keys.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write;

/// In lower-case hexadecimal, 64 digits.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    digest(&SHA256, bytes.as_ref()).as_ref().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string never fails.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_hash_that_everybody_else_has() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256(""), empty);
    }
}
