//! The closed sets of words that reports use for states and roles.

use serde::Deserialize;

/// Why a picture is worse than it could be.
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QualityLimitationReason {
    /// It is not.
    #[default]
    None,
    /// The machine is too slow.
    Cpu,
    /// The network is too slow.
    Bandwidth,
    /// Something else.
    Other,
}

/// Who decides about the path.
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IceRole {
    /// Not known yet.
    #[default]
    Unknown,
    /// We do.
    Controlling,
    /// The other side does.
    Controlled,
}

/// How far the handshake is.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DtlsTransportState {
    /// Not begun.
    New,
    /// Under way.
    Connecting,
    /// Done.
    Connected,
    /// Ended on purpose.
    Closed,
    /// Ended by an error.
    Failed,
}

/// How far the search for a path is.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IceTransportState {
    /// Not begun.
    New,
    /// Under way.
    Checking,
    /// A path works; better ones are still tried.
    Connected,
    /// The best path is found.
    Completed,
    /// The path has gone silent.
    Disconnected,
    /// There is no path.
    Failed,
    /// Ended on purpose.
    Closed,
}

/// Who began the handshake.
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DtlsRole {
    /// We did.
    Client,
    /// The other side did.
    Server,
    /// Not known yet.
    #[default]
    Unknown,
}

/// How far the check of a path is.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IceCandidatePairState {
    /// Waits for another check.
    Frozen,
    /// Waits for its turn.
    Waiting,
    /// Under way.
    InProgress,
    /// The path does not work.
    Failed,
    /// The path works.
    Succeeded,
}

/// How an address was found.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IceCandidateType {
    /// It is one of the machine's own.
    Host,
    /// A STUN server saw it.
    Srflx,
    /// The other side saw it.
    Prflx,
    /// It is on a TURN server.
    Relay,
}

/// How a TURN server is reached.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IceServerTransportProtocol {
    /// Over UDP.
    Udp,
    /// Over TCP.
    Tcp,
    /// Over TLS.
    Tls,
}

/// Which side opens a TCP connection.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IceTcpCandidateType {
    /// The one with this address.
    Active,
    /// The other one.
    Passive,
    /// Both at once.
    So,
}
