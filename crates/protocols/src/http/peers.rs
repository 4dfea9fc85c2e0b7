//! What a server exchanges with which others.

use serde::{Deserialize, Serialize};

/// A server, and those it exchanges with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// The server's own public key, which others have to know.
    pub key: String,
    /// The others, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
}

/// How it goes with another server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// What it is called here.
    pub name: String,
    /// Its public key.
    pub key: String,
    /// `cluster` or `peer`.
    pub relation: String,
    /// What brings its segments: `https`, `nats`, or `none`.
    pub transport: String,
    /// `up_to_date`, `behind`, `silent`, `clock_differs`, `refused`, `unreachable`, `waiting` for its first heads, or `not_asked`.
    pub state: String,
    /// The start of that state, in seconds since 1970; for a silent server, the last change of its heads.
    pub since: u64,
    /// The reason, if it is refused or unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The seconds by which its clock is ahead of ours, negative if behind; absent until measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_seconds: Option<i64>,
    /// The seconds since its heads last changed. A running server changes them every 2.5 seconds.
    pub silent_seconds: u64,
    /// Segments that it has and we lack, including generations that are not live here.
    pub lag_segments: u64,
    /// How long ago we last had everything.
    pub lag_seconds: u64,
    /// Bytes that came from it.
    pub bytes_in: u64,
    /// Bytes that it was sent.
    pub bytes_out: u64,
    /// Signatures that it told us of.
    pub signatures_learned: u64,
    /// When its digests and ours were last the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_digest_match: Option<u64>,
    /// Bytes of its segments that were refused, since the start.
    #[serde(default)]
    pub bytes_refused: u64,
    /// Segments that were not taken, by why.
    pub refused: Vec<RefusedSegments>,
}

/// Segments that were not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSegments {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
}
