//! What a client can take in, as its Configuration says.

use super::ClientOptions;

const ALWAYS: [&str; 4] = ["streaming", "tool_use", "partial_responses", "turn_meta"];
/// How the model thinks.
const REASONING: [&str; 2] = ["reasoning_steps", "reasoning_deltas"];
/// Somebody can be asked for leave.
const CONSENT: [&str; 1] = ["tool_consent"];

pub(super) fn wanted(options: &ClientOptions) -> Vec<String> {
    let only_if = |wanted: bool, features: &'static [&'static str]| if wanted { features } else { &[] };
    let groups = [&ALWAYS[..], only_if(options.reasoning, &REASONING), only_if(options.consent, &CONSENT)];
    groups.concat().into_iter().map(str::to_owned).collect()
}
