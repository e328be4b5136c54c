//! Ids of messages: a prefix that says what is named, and 21 characters that nobody else will draw.
//!
//! The characters are those of a NanoID (`A-Za-z0-9_-`, 126 bits). They come from a generator that is seeded from
//! outside, so a recorded conversation replays with the same ids; a fresh 32-byte seed at each start keeps ids from
//! ever repeating. This module never looks for randomness itself.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How many characters follow the prefix and its underscore.
pub const LENGTH: usize = 21;

/// What an id names. Readers treat ids as opaque; the prefix is for people who read logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message of the conversation.
    Message,
    /// One sentence of an answer.
    Sentence,
    /// One step of the model's reasoning.
    ReasoningStep,
    /// A request to use a tool.
    ToolUse,
    /// What a tool answered.
    ToolResult,
    /// The question whether a tool may be used.
    Consent,
    /// A memory that was recalled.
    Memory,
    /// A comment on a message.
    Commentary,
    /// An error told to a client.
    Error,
}

impl Kind {
    /// The letters before the underscore.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Message => "am",
            Self::Sentence => "ams",
            Self::ReasoningStep => "ar",
            Self::ToolUse => "atu",
            Self::ToolResult => "atr",
            Self::Consent => "atc",
            Self::Memory => "amem",
            Self::Commentary => "aucc",
            Self::Error => "err",
        }
    }
}

/// A source of ids: the same seed gives the same ids in the same order, on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Ids(ChaCha20Rng);

impl Ids {
    /// Starts the sequence that belongs to `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(seed))
    }

    /// Draws the next id.
    pub fn next(&mut self, kind: Kind) -> String {
        let bytes = |size| {
            let mut random = vec![0; size];
            self.0.fill_bytes(&mut random);
            random
        };
        format!("{}_{}", kind.prefix(), nanoid::format(bytes, &nanoid::alphabet::SAFE, LENGTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const KINDS: [Kind; 9] = [
        Kind::Message,
        Kind::Sentence,
        Kind::ReasoningStep,
        Kind::ToolUse,
        Kind::ToolResult,
        Kind::Consent,
        Kind::Memory,
        Kind::Commentary,
        Kind::Error,
    ];

    fn any_kind() -> impl Strategy<Value = Kind> {
        prop::sample::select(&KINDS[..])
    }

    /// Pins the sequence itself: a recording made by one version must replay in the next.
    #[test]
    fn a_seed_means_the_same_ids_for_ever() {
        let mut ids = Ids::from_seed([7; 32]);
        assert_eq!(ids.next(Kind::Message), "am_O_gSlEQ-iPvUGNTKaTvqi");
        assert_eq!(ids.next(Kind::ReasoningStep), "ar_Mky05yXz3-1pTuqwF3rug");
    }

    #[test]
    fn no_prefix_stands_for_two_kinds() {
        let prefixes: BTreeSet<_> = KINDS.iter().map(|kind| kind.prefix()).collect();
        assert_eq!(prefixes.len(), KINDS.len());
    }

    #[test]
    fn every_character_of_the_alphabet_is_drawn() {
        let mut ids = Ids::from_seed([1; 32]);
        let drawn: BTreeSet<char> = (0..500)
            .flat_map(|_| ids.next(Kind::Error)["err_".len()..].chars().collect::<Vec<_>>())
            .collect();
        assert_eq!(drawn.len(), 64);
    }

    proptest! {
        #[test]
        fn an_id_is_its_prefix_and_21_characters_of_the_alphabet(seed: [u8; 32], kind in any_kind()) {
            let id = Ids::from_seed(seed).next(kind);
            let (prefix, random) = id.split_once('_').expect("an underscore follows the prefix");
            prop_assert_eq!(prefix, kind.prefix());
            prop_assert_eq!(random.len(), LENGTH);
            prop_assert!(random.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        }

        #[test]
        fn equal_seeds_draw_equal_sequences(seed: [u8; 32], kinds in prop::collection::vec(any_kind(), 1..50)) {
            let draw = |mut ids: Ids| kinds.iter().map(|&kind| ids.next(kind)).collect::<Vec<_>>();
            prop_assert_eq!(draw(Ids::from_seed(seed)), draw(Ids::from_seed(seed)));
        }

        #[test]
        fn neighbouring_seeds_share_no_id(seed: [u8; 32], bit in 0_usize..256) {
            let mut other = seed;
            other[bit / 8] ^= 1 << (bit % 8);
            let draw = |seed| {
                let mut ids = Ids::from_seed(seed);
                (0..100).map(|_| ids.next(Kind::Message)).collect::<BTreeSet<_>>()
            };
            let (first, second) = (draw(seed), draw(other));
            prop_assert_eq!(first.len(), 100, "an id repeated within one seed");
            prop_assert!(first.is_disjoint(&second));
        }
    }
}
