//! Stores: where conversations are kept. For now in memory alone, which lasts as long as the process.

pub mod memory;
