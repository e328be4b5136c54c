//! Language models: the port [`Model`](crate::ports::Model), over HTTP or without anything.
//!
//! | file | what it is for |
//! |---|---|
//! | `openai` | asks endpoints in order, again where that makes sense, and hands out the answer as a stream |
//! | `endpoint` | one endpoint: where it is, its key, what is known of it |
//! | `exchange` | one request over HTTP |
//! | `reading` | the body of a reply becomes chunks (the parser is the core's) |
//! | `patience` | limits, and the clock of one answer |
//! | `trouble` | what can go wrong, what to do about it, and the words for it |
//! | `queue` | so many at once, the others in order |
//! | `breaker` | which endpoints are not worth asking first, for a while |
//! | `probe` | what an endpoint does, found out by asking |
//! | `demo` | the built-in model that needs nothing |
//!
//! Never logs or reports what people said, and never sends one endpoint's key to another.

mod breaker;
mod demo;
mod endpoint;
mod exchange;
mod openai;
mod patience;
mod probe;
mod queue;
mod reading;
mod trouble;

pub use demo::Demo;
pub use endpoint::{Endpoint, Key, SetupError};
pub use openai::OpenAi;
pub use patience::Limits;
pub use probe::Probe;
