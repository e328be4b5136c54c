//! The engine: one conversation, decided. It takes one input at a time and answers with outputs; it never does
//! anything itself.

pub mod event;
pub mod mask;
pub mod reasoning;
pub mod record;
pub mod sentence;

/// One conversation.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// When to call again with [`event::Input::Wake`] if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<crate::time::Time> {
        None
    }
}
