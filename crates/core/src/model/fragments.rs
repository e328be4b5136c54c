//! Tool calls that arrive in pieces become whole calls.
//!
//! Servers disagree on what ties the pieces together: an index, an id, both, or nothing but their order. The rule here
//! is that a piece goes on with a call unless something says that it begins another. Never decides whether a call makes
//! sense.

use super::{StreamError, ToolCall, arguments};
use std::collections::BTreeSet;

/// What a call costs in memory besides its texts, so that a flood of empty calls meets the limit too.
const OVERHEAD: usize = 64;

/// A piece of a call, as one event brings it. Empty texts count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Which call it belongs to, by the server's count.
    pub(super) index: Option<u64>,
    /// The call's id.
    pub(super) id: Option<String>,
    /// The tool.
    pub(super) name: Option<String>,
    /// The next piece of the arguments.
    pub(super) arguments: String,
}

/// The calls of one answer, as far as they have come.
#[derive(Debug)]
pub(super) struct Fragments {
    limit: usize,
    size: usize,
    calls: Vec<Unfinished>,
}

#[derive(Debug, Default)]
struct Unfinished {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Fragments {
    /// No calls yet, and never more than `limit` bytes of them.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, size: 0, calls: Vec::new() }
    }

    /// Whether nothing of any call has come.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: Fragment) -> Result<(), StreamError> {
        let at = self.continued_by(&piece).unwrap_or_else(|| {
            self.size += OVERHEAD;
            self.calls.push(Unfinished { index: piece.index, ..Unfinished::default() });
            self.calls.len() - 1
        });
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.size += text(&piece.id) + text(&piece.name) + piece.arguments.len();
        if self.size > self.limit {
            return Err(StreamError::TooLarge("the tool calls of one answer", self.limit));
        }
        let call = &mut self.calls[at];
        call.id = call.id.take().or(piece.id);
        if let Some(name) = piece.name
            && name != call.name
            && call.arguments.is_empty()
        {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&piece.arguments);
        Ok(())
    }

    /// The call that a piece goes on with; `None` where it begins another.
    fn continued_by(&self, piece: &Fragment) -> Option<usize> {
        let latest = self.calls.iter().rposition(|call| piece.index.is_none() || call.index == piece.index);
        let Some(id) = &piece.id else {
            let call = &self.calls[latest?];
            let begins_another = piece.name.as_ref().is_some_and(|name| {
                let other_name = !call.name.is_empty() && *name != call.name;
                other_name || (!piece.arguments.is_empty() && is_whole(&call.arguments))
            });
            return if begins_another { None } else { latest };
        };
        let same_id = self.calls.iter().rposition(|call| {
            let other_index = call.index.is_some() && piece.index.is_some() && call.index != piece.index;
            call.id.as_ref() == Some(id) && !other_index
        });
        // An id may come late, but not with a name once the arguments have begun. On a call that has another id it
        // begins a new call, whatever the index says.
        same_id.or_else(|| {
            latest.filter(|&at| {
                let call = &self.calls[at];
                let goes_on = piece.name.as_ref().is_none_or(|name| {
                    call.arguments.is_empty() && (call.name.is_empty() || *name == call.name)
                });
                call.id.is_none() && goes_on && !is_whole(&call.arguments)
            })
        })
    }

    /// The calls, in the order in which they began. `ended` says that the model came to its end by itself.
    pub(super) fn finish(&mut self, ended: bool, ids: &mut CallIds) -> Vec<ToolCall> {
        self.calls
            .drain(..)
            .filter(|call| !call.name.is_empty() || !call.arguments.trim().is_empty())
            .map(|call| ToolCall {
                id: ids.take(call.id),
                name: call.name,
                arguments: arguments::read(&call.arguments, ended),
            })
            .collect()
    }
}

fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && arguments::object(arguments, false).is_some()
}

/// Ids of calls, each given once. Made-up ones are counted, so that a replay makes the same.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    taken: BTreeSet<String>,
    made: u32,
}

impl CallIds {
    /// The given id, or one made up where there is none or it is taken.
    pub(super) fn take(&mut self, given: Option<String>) -> String {
        let mut id = given.unwrap_or_default();
        while id.is_empty() || !self.taken.insert(id.clone()) {
            self.made += 1;
            id = format!("call_{}", self.made);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces as `index id name arguments`, `-` for what is absent; calls as `id name arguments`.
    fn calls(pieces: &[&str]) -> Vec<String> {
        let mut fragments = Fragments::new(10_000);
        for piece in pieces {
            let fields: Vec<&str> = piece.splitn(4, ' ').collect();
            let given = |field: &str| (field != "-").then(|| field.to_owned());
            let piece = Fragment {
                index: fields[0].parse().ok(),
                id: given(fields[1]),
                name: given(fields[2]),
                arguments: given(fields[3]).unwrap_or_default(),
            };
            fragments.push(piece).expect("below the limit");
        }
        let show = |call: ToolCall| match call.arguments {
            Ok(arguments) => format!("{} {} {}", call.id, call.name, serde_json::Value::Object(arguments)),
            Err(raw) => format!("{} {} unreadable {raw}", call.id, call.name),
        };
        fragments.finish(true, &mut CallIds::default()).into_iter().map(show).collect()
    }

    #[test]
    fn id_and_name_once_then_pieces_of_arguments() {
        let pieces = ["0 x f -", "0 - - {\"a\":", "0 - - 1}", "1 y g -", "1 - - {}"];
        assert_eq!(calls(&pieces), ["x f {\"a\":1}", "y g {}"]);
    }

    #[test]
    fn interleaved_pieces_find_their_call_by_index() {
        assert_eq!(calls(&["0 x f {", "1 y g {", "0 - - }", "1 - - }"]), ["x f {}", "y g {}"]);
    }

    #[test]
    fn a_new_id_on_an_occupied_index_is_a_new_call() {
        assert_eq!(calls(&["0 x f {}", "0 y f {}", "0 z g {", "0 - - }"]), ["x f {}", "y f {}", "z g {}"]);
    }

    #[test]
    fn without_an_index_ids_and_order_decide() {
        let pieces = ["- x f {", "- - - }", "- y f {", "- y - }"];
        assert_eq!(calls(&pieces), ["x f {}", "y f {}"]);
    }

    #[test]
    fn without_anything_a_name_begins_a_call() {
        let pieces = ["- - f {\"a\":1}", "- - f {\"a\":2}", "- - g {", "- - - }"];
        assert_eq!(calls(&pieces), ["call_1 f {\"a\":1}", "call_2 f {\"a\":2}", "call_3 g {}"]);
    }

    #[test]
    fn repeated_names_and_ids_change_nothing() {
        let pieces = ["0 x f {\"a\"", "0 x f :1", "0 - f }", "0 - f -"];
        assert_eq!(calls(&pieces), ["x f {\"a\":1}"]);
    }

    #[test]
    fn a_late_id_belongs_to_the_call_that_waits_for_it() {
        assert_eq!(calls(&["0 - f -", "0 x - {}"]), ["x f {}"]);
        assert_eq!(calls(&["0 - f {\"a\":\"b\"", "0 x f {}"]), ["call_1 f {\"a\":\"b\"}", "x f {}"]);
    }

    #[test]
    fn one_id_for_two_calls_is_given_once() {
        assert_eq!(calls(&["0 x f {}", "1 x g {}"]), ["x f {}", "call_1 g {}"]);
    }

    #[test]
    fn a_made_up_id_avoids_a_given_one() {
        assert_eq!(calls(&["0 call_1 f {}", "1 - g {}"]), ["call_1 f {}", "call_2 g {}"]);
    }

    #[test]
    fn endless_calls_meet_the_limit() {
        let mut fragments = Fragments::new(1000);
        let error = (0..)
            .find_map(|index| fragments.push(Fragment { index: Some(index), ..Fragment::default() }).err());
        assert_eq!(error, Some(StreamError::TooLarge("the tool calls of one answer", 1000)));
    }
}
