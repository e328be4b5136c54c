//! Tools: what the agent can do for the model, behind the one port [`Tools`](crate::ports::Tools).
//!
//! | module | what it is for |
//! |---|---|
//! | `toolbox` | all of it, as configured; and what one conversation has of it |
//! | `registry` | several sources as one: no tool ever stands in another's place |
//! | `builtin` | tools that need no service: time, calculator |
//! | `http` | one HTTP request each, as the configuration describes it |
//! | `client` | what the configuration declares for people's clients to run |
//! | `mcp` | servers of the Model Context Protocol, as child processes or over HTTP |
//! | `lock` | which tools of those servers somebody has looked at and approved |
//! | `targets` | which hosts and addresses tools may be connected to |
//! | `names` | names that every endpoint takes, and that never meet |
//! | `results` | what tools say, cut to a size |
//! | `terms` | what the configuration says of tools of somebody else |
//!
//! Nothing here decides whether a tool may be used: that is the engine's part, by what a
//! [`Tool`](sotto_core::tool::Tool) says of itself.

mod builtin;
mod client;
mod http;
mod lock;
pub mod mcp;
mod names;
mod registry;
mod results;
mod targets;
mod terms;
mod toolbox;

pub use builtin::{BuiltIn, UnknownTool};
pub use client::{ClientTools, Definition as ClientTool};
pub(crate) use http::in_words as trouble_in_words;
pub use http::{Definition as HttpTool, HttpTools, Unusable};
pub use lock::{Approval, Lock, LockError};
pub use names::problem as problem_of_name;
pub use registry::Registry;
pub use targets::{TargetError, Targets};
pub use terms::Terms;
pub use toolbox::{From, Listed, RoomTools, Toolbox};
