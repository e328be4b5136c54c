//! placeholder
/// x
pub type Flood = fn();
/// x
pub const FLOODS: &[(&str, Flood)] = &[];
