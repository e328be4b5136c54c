//! What tools say, cut to a size: a model's context is small, and a tool may say as much as it likes.

use serde_json::Value;
use sotto_core::engine::event::ToolOutcome;

/// How much of a failure is told; whatever is wrong can be said shortly.
const MAX_REASON_BYTES: usize = 2_000;

/// The outcome, with no more than about `most` bytes in it.
pub(super) fn cut(outcome: ToolOutcome, most: usize) -> ToolOutcome {
    match outcome {
        ToolOutcome::Done(Value::String(text)) => ToolOutcome::Done(cut_text(text, most).into()),
        ToolOutcome::Done(value) => {
            let text = value.to_string();
            // What is cut is no JSON any more, so that it becomes text.
            ToolOutcome::Done(if text.len() <= most { value } else { cut_text(text, most).into() })
        }
        ToolOutcome::InvalidParameters(reason) => {
            ToolOutcome::InvalidParameters(cut_text(reason, MAX_REASON_BYTES))
        }
        ToolOutcome::Failed(reason) => ToolOutcome::Failed(cut_text(reason, MAX_REASON_BYTES)),
    }
}

fn cut_text(mut text: String, most: usize) -> String {
    if text.len() > most {
        let all = text.len();
        text.truncate(text.floor_char_boundary(most));
        text += &notice(most, Some(all));
    }
    text
}

/// What stands where a result was cut; `all` is its whole size, where that is known.
pub(super) fn notice(most: usize, all: Option<usize>) -> String {
    let of_all = all.map(|all| format!(" (it has {all})")).unwrap_or_default();
    format!("\n[Cut here: the result was longer than {most} bytes{of_all}. Ask for less to see the rest.]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_stays_as_it_is() {
        for value in [json!("text"), json!({"a": [1, 2]}), json!(null)] {
            assert_eq!(cut(ToolOutcome::Done(value.clone()), 100), ToolOutcome::Done(value));
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_with_a_notice_between_characters() {
        let ToolOutcome::Done(Value::String(text)) = cut(ToolOutcome::Done(json!("äöü")), 3) else {
            panic!("text")
        };
        assert_eq!(text, format!("ä{}", notice(3, Some(6))));
    }

    #[test]
    fn json_that_is_cut_becomes_text() {
        let value = json!({"numbers": (0..100).collect::<Vec<_>>()});
        let ToolOutcome::Done(Value::String(text)) = cut(ToolOutcome::Done(value), 20) else {
            panic!("text")
        };
        assert!(text.starts_with("{\"numbers\":[0,1,2,3,\n[Cut here: "), "{text}");
    }

    #[test]
    fn failures_are_told_shortly() {
        let ToolOutcome::Failed(reason) = cut(ToolOutcome::Failed("x".repeat(10_000)), 1 << 20) else {
            panic!("a failure")
        };
        assert!(reason.len() < 2_200, "{}", reason.len());
    }
}
