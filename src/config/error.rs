//! What is wrong with a configuration, in words for whoever wrote it.

use std::fmt;

/// Everything that is wrong, each with its key, where it comes from and what to do. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    /// At least one problem, in the order in which they are to be read.
    pub(super) fn new(first: String, others: impl IntoIterator<Item = String>) -> Self {
        Self { problems: std::iter::once(first).chain(others).collect() }
    }

    /// The problems, one line each; at least one.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl From<String> for ConfigError {
    fn from(problem: String) -> Self {
        Self::new(problem, [])
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = &self.problems[..] {
            return write!(f, "{problem}");
        }
        write!(f, "the configuration has {} problems:", self.problems.len())?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// The one of `candidates` that `word` is probably a slip of.
pub(super) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let tolerated = (word.len() / 4).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}
