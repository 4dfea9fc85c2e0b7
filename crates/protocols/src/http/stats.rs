//! The answer with the state of a server.

use serde::{Deserialize, Serialize};

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Release version.
    pub version: String,
    /// Seconds since the server started.
    pub uptime_seconds: u64,
    /// Memory allocated for the server's data.
    pub memory_bytes: u64,
    /// Maximum memory for the server's data.
    pub memory_budget_bytes: u64,
    /// Rings of the books.
    pub rings: Vec<Ring>,
    /// Bounded tables, which refuse or evict entries when full.
    pub tables: Vec<Table>,
    /// Active conditions, most severe first; empty if the server is healthy.
    pub health: Vec<Condition>,
    /// Policy that determines the weight of claims.
    pub trust: TrustPolicy,
    /// State of the store.
    pub store: Store,
    /// Result of the recovery when the store was opened.
    pub recovery: Recovery,
    /// Requests since the start.
    pub requests: Vec<RequestCount>,
}

/// The policy that determines the weight of claims: `[trust]` in the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrustPolicy {
    /// Number of own users whose reports suffice to list a signature.
    pub own_reports_needed: u32,
    /// Number of anchored groups required to list a signature.
    pub block_anchors: u32,
    /// Number of groups required to list a signature.
    pub block_groups: u32,
    /// Minimum score of a listed signature.
    pub block_score: f64,
    /// Minimum score of a suspected signature.
    pub suspect_score: f64,
    /// Number of groups required to suspect a signature.
    pub suspect_groups: u32,
    /// Number of anchored reports at which unanchored revocations no longer count against a listing.
    pub anchors_beyond_doubt: u32,
    /// Number of seconds between the first claim about a signature and the settlement of its claims.
    pub settle_after_seconds: u64,
}

impl TrustPolicy {
    /// Returns every configuration key with its value.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, String); 8] {
        [
            ("own_reports_needed", self.own_reports_needed.to_string()),
            ("block_anchors", self.block_anchors.to_string()),
            ("block_groups", self.block_groups.to_string()),
            ("block_score", self.block_score.to_string()),
            ("suspect_score", self.suspect_score.to_string()),
            ("suspect_groups", self.suspect_groups.to_string()),
            ("anchors_beyond_doubt", self.anchors_beyond_doubt.to_string()),
            ("settle_after", format!("{}s", self.settle_after_seconds)),
        ]
    }
}

/// The state of a ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    /// Name of the ring.
    pub name: String,
    /// Memory of the ring.
    pub bytes: u64,
    /// Length of an epoch.
    pub epoch_seconds: u64,
    /// Number of signatures that fit into a generation at the planned error rate.
    pub capacity: u64,
    /// Fill of the fullest generation. If it is above 1, the error rate exceeds the planned rate.
    pub fill: f64,
    /// Live generations, newest first.
    pub generations: Vec<Generation>,
    /// Current error rate, estimated from the fill.
    pub error_rate: f64,
    /// Planned error rate.
    pub planned_rate: f64,
}

/// A generation of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Start of the generation.
    pub since: u64,
    /// Approximate number of signatures.
    pub signatures: u64,
}

/// The state of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Memory of the table.
    pub bytes: u64,
    /// Number of entries.
    pub used: u64,
    /// Maximum number of entries.
    pub capacity: u64,
}

/// The state of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Sequence number of the last applied event.
    pub sequence: u64,
    /// Sequence number up to which the journal is durable.
    pub durable: u64,
    /// Number of records written since the start.
    pub records: u64,
    /// Number of journal bytes written since the start.
    pub journal_bytes: u64,
    /// Number of journal files.
    pub segments: u64,
    /// Sequence number of the last event in each retained snapshot.
    pub snapshots: Vec<u64>,
    /// Number of events waiting to be written.
    pub waiting_events: u64,
    /// Reason why the store accepts no events, if it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Reason why the last snapshot failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_failure: Option<String>,
}

/// Result of the recovery when the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Sequence number of the last event in the restored snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Number of damaged snapshots that are newer than the restored one.
    pub damaged_snapshots: u64,
    /// Number of events replayed after the snapshot.
    pub replayed_events: u64,
    /// Number of bytes dropped from an incomplete write at the end of the journal.
    pub torn_bytes: u64,
    /// Sequence number of the last event after recovery.
    pub sequence: u64,
}

/// Requests of one kind since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// The protocol, such as `pyzor`.
    pub protocol: String,
    /// Outcome, such as `spam`, `accepted` or `limited`.
    pub answered: String,
    /// Number of requests.
    pub count: u64,
}

/// A condition that degrades the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Name of the condition, the same as in logs and metrics.
    pub state: String,
    /// Affected ring, table or peer. Empty if the whole server is affected.
    pub subject: String,
    /// `severe` if the server is not ready because of the condition, otherwise `warning`.
    pub severity: String,
    /// Text that describes the problem and the remedy.
    pub text: String,
    /// Time when the condition began, in Unix seconds.
    pub since: u64,
}

/// The answer of a server that is ready but degraded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Active conditions.
    pub conditions: Vec<Condition>,
}
