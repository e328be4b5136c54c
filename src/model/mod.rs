//! Language models: the port [`Model`](crate::ports::Model) over HTTP, and without anything.

mod demo;

pub use demo::Demo;
