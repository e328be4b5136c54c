//! Two engines on a simulated network, in virtual time.

mod channels;
mod connecting;
mod hostile;
mod media;
mod network;
mod outages;
