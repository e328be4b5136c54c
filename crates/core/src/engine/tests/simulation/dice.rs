//! All that is left to chance, from one seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

pub(in super::super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number from `least` to `most`, both included.
    pub(in super::super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.next_u64() % (most - least + 1)
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// The place of one of so many; there must be some.
    pub(super) fn index(&mut self, count: usize) -> usize {
        self.between(0, count as u64 - 1) as usize
    }

    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())].clone()
    }

    /// A fresh seed for the ids of an engine.
    pub(super) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        seed
    }
}
