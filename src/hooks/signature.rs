//! By what a hook knows that it is asked by us, and now: `Sotto-Signature: t=SECONDS,v1=HEX`, where `HEX` is the HMAC-SHA256 of
//! `SECONDS.BODY` with the shared secret. The time is part of it, so that what was overheard once cannot be sent again for ever.

use aws_lc_rs::hmac;
use std::fmt::Write;

pub(super) const HEADER: &str = "Sotto-Signature";

pub(super) fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

/// The header's value, for a body that is sent so many seconds after 1970 began.
pub(super) fn sign(key: &hmac::Key, seconds: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{seconds}.").as_bytes());
    context.update(body);
    let mut value = format!("t={seconds},v1=");
    for byte in context.sign().as_ref() {
        // Writing to a string never fails.
        let _ = write!(value, "{byte:02x}");
    }
    value
}
