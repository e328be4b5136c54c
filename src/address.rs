//! Addresses as they may be shown: in logs, messages and errors. An address may hold a user, a password or a token, and
//! what others say about a failed connection may quote it.

use reqwest::Url;

/// The address without the user, password, query and fragment that it may hold.
pub(crate) fn shown(address: &str) -> String {
    Url::parse(address.trim()).map_or_else(|_| HIDDEN.to_owned(), without_secrets)
}

/// As [`shown`], of an address that was read already.
pub(crate) fn without_secrets(mut url: Url) -> String {
    // Both only fail for addresses that cannot have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// What somebody else says, on one line and with every address in it hidden.
pub(crate) fn hidden_in(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words = words.map(|word| if word.contains("://") { HIDDEN } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Stands for what is not shown.
pub(crate) const HIDDEN: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let shown_as = [
            ("wss://me:s3cret@host:7880/path?token=s3cret#s3cret", "wss://host:7880/path"),
            ("ws://s3cret@host", "ws://host/"),
            ("https://[::1]:7880/", "https://[::1]:7880/"),
            (" ws://host/?s3cret ", "ws://host/"),
            ("s3cret", "***"),
            ("", "***"),
        ];
        for (address, expected) in shown_as {
            assert_eq!(shown(address), expected, "{address}");
        }
    }

    #[test]
    fn addresses_in_what_others_say_are_hidden() {
        let said = "error sending request\nfor url (wss://host/s3cret?a=b): refused";
        assert_eq!(hidden_in(said), "error sending request for url *** refused");
    }
}
