//! Names that every endpoint takes (letters, digits, `_` and `-`, at most 64), and that never meet.
//!
//! A tool of an MCP server is called `server__tool`. Server names have no `__` and neither begin nor end with `_`, so
//! the first `__` always ends the server's name, and no two servers can have a tool of the same name. A tool whose name
//! had to be changed gets a piece of the hash of its real name, which depends on nothing else: it is called the same whatever
//! other tools come and go. Names that begin with `client_` belong to tools of people's clients.

use crate::hash::sha256;

/// What stands between a server's name and the tool's.
const BETWEEN: &str = "__";
/// What all endpoints take.
const MAX_CHARS: usize = 64;
/// How tools of clients begin.
const OF_CLIENTS: &str = "client_";

/// What a name that somebody chose for a server or a tool must be, if it is not that.
pub fn problem(name: &str) -> Option<&'static str> {
    if name.is_empty() || !name.chars().all(is_safe) {
        Some("a name of letters, digits, - and _ only")
    } else if name.len() > MAX_CHARS / 2 {
        Some("a name of at most 32 characters")
    } else if name.contains(BETWEEN) || name.starts_with('_') || name.ends_with('_') {
        Some("a name that neither begins nor ends with _ nor has two of them in a row")
    } else if name == "client" || name.starts_with(OF_CLIENTS) {
        Some("a name other than client and client_…, which tools of people's clients have")
    } else {
        None
    }
}

/// How the model knows a server's tool.
pub(super) fn of_server(server: &str, tool: &str) -> String {
    let prefix = format!("{server}{BETWEEN}");
    let room = MAX_CHARS.saturating_sub(prefix.len());
    let safe: String = tool.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    if safe == tool && !safe.is_empty() && safe.len() <= room {
        return prefix + &safe;
    }
    let hash = short_hash(tool);
    // Safe characters are one byte each, so this cuts between characters.
    let kept = &safe[..safe.len().min(room.saturating_sub(hash.len() + 1))];
    format!("{prefix}{kept}_{hash}")
}

fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn short_hash(text: &str) -> String {
    sha256(text)[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_that_is_safe_stays_as_it_is_behind_its_servers() {
        assert_eq!(of_server("files", "read_file"), "files__read_file");
        assert_eq!(of_server("a", "_b"), "a___b");
        assert_eq!(of_server("a", "b__c"), "a__b__c");
    }

    #[test]
    fn one_that_is_not_is_made_safe_and_stays_itself() {
        let names: BTreeSet<_> =
            ["a.b", "a/b", "a b", "a_b", "ä", "ö", "", "🦀"].map(|name| of_server("s", name)).into();
        assert_eq!(names.len(), 8, "{names:?}");
        assert!(names.iter().all(|name| name.chars().all(is_safe) && name.starts_with("s__")), "{names:?}");
        assert_eq!(of_server("s", "a.b"), of_server("s", "a.b"));
    }

    #[test]
    fn a_long_one_is_cut_to_what_endpoints_take_and_stays_itself() {
        let long = |end: &str| of_server(&"s".repeat(32), &format!("{}{end}", "t".repeat(100)));
        assert_eq!(long("a").len(), 64);
        assert_ne!(long("a"), long("b"));
        let multibyte = of_server("s", &"é".repeat(100));
        assert!(multibyte.len() <= 64, "{multibyte}");
    }

    #[test]
    fn names_that_could_meet_others_cannot_be_chosen() {
        for good in ["files", "a-b", "a_b", "X1", "clients"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in ["", "a__b", "_a", "a_", "client", "client_x", "a.b", "ä", &"a".repeat(33)] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
