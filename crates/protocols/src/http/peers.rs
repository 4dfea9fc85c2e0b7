//! The state of the exchange with other servers.

use serde::{Deserialize, Serialize};

/// A server and its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// The server's own public key, which its peers must have in their configuration.
    pub key: String,
    /// Peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
}

/// State of the exchange with one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Name in this server's configuration.
    pub name: String,
    /// Public key of the peer.
    pub key: String,
    /// `cluster` or `peer`.
    pub relation: String,
    /// Transport by which the peer's segments arrive: `https`, `nats`, or `none`.
    pub transport: String,
    /// `up_to_date`, `behind`, `silent`, `clock_differs`, `refused`, `unreachable`, `waiting` (for its first heads),
    /// `not_asked`, `paused`, `forgetting` (its data is being removed), or `forgotten`.
    pub state: String,
    /// Start of the current state, in Unix seconds. For a silent peer, the time when its heads last changed.
    pub since: u64,
    /// Reason for the state, if it is `refused` or `unreachable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of seconds that the peer's clock is ahead of ours. Negative if it is behind; absent until measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_seconds: Option<i64>,
    /// Seconds since the peer's heads last changed. A running server changes them every 2.5 seconds.
    pub silent_seconds: u64,
    /// Number of segments that the peer has and this server lacks. It includes segments of generations that are not
    /// live on this server.
    pub lag_segments: u64,
    /// Seconds since this server last had all of the peer's segments.
    pub lag_seconds: u64,
    /// Bytes received from the peer.
    pub bytes_in: u64,
    /// Bytes sent to the peer.
    pub bytes_out: u64,
    /// Number of signatures learned from the peer.
    pub signatures_learned: u64,
    /// Time when the peer's digests last matched ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_digest_match: Option<u64>,
    /// Size of all segments refused since the start, in bytes.
    #[serde(default)]
    pub bytes_refused: u64,
    /// Number of refused segments, by reason.
    pub refused: Vec<RefusedSegments>,
    /// True if the peer was added while the server ran, so that it can be removed in the same way. False if it is in the
    /// configuration.
    #[serde(default)]
    pub added: bool,
}

/// A peer to add while the server runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPeer {
    /// Local name of the peer: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// URL to request segments from, such as `https://bruit.example.net:8626`. Without it, the peer may read from this
    /// server, but this server does not ask the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Public key of the peer, as `bruit keys show` prints it on that server.
    pub key: String,
    /// `peer` for a server of another operator, or `cluster` for a node of this server's cluster.
    pub relation: String,
}

/// Number of segments refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSegments {
    /// Reason.
    pub reason: String,
    /// Number of segments.
    pub count: u64,
}

/// A server to forget, or to accept again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerName {
    /// Name in this server's configuration, or public key.
    pub peer: String,
}
