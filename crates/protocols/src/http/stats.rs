//! How a server is doing.

use serde::{Deserialize, Serialize};

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Which release it is.
    pub version: String,
    /// How long it has run.
    pub uptime_seconds: u64,
    /// Memory set aside for what it knows.
    pub memory_bytes: u64,
    /// What that may be.
    pub memory_budget_bytes: u64,
    /// The rings of the books.
    pub rings: Vec<Ring>,
    /// What refuses or forgets when it is full.
    pub tables: Vec<Table>,
    /// The active conditions, the worst first; empty if the server is healthy.
    pub health: Vec<Condition>,
    /// The policy by which claims are weighed.
    pub trust: TrustPolicy,
    /// How the store is doing.
    pub store: Store,
    /// What opening the store found.
    pub recovery: Recovery,
    /// Requests since the start.
    pub requests: Vec<RequestCount>,
}

/// What can be set of the policy by which claims are weighed: `[trust]` in the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrustPolicy {
    /// How many own users list a signature.
    pub own_reports_needed: u32,
    /// How many anchored groups a listing needs.
    pub block_anchors: u32,
    /// How many groups a listing needs.
    pub block_groups: u32,
    /// The score from which a signature is listed.
    pub block_score: f64,
    /// The score from which a signature is suspect.
    pub suspect_score: f64,
    /// How many groups a suspicion needs.
    pub suspect_groups: u32,
    /// From how many anchored reports on unanchored revokes cannot prevent a listing.
    pub anchors_beyond_doubt: u32,
    /// How long after a signature was first seen its claims are settled.
    pub settle_after_seconds: u64,
}

impl TrustPolicy {
    /// Every key of the configuration with its value.
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
    /// Which one.
    pub name: String,
    /// Its memory.
    pub bytes: u64,
    /// How long an epoch of its generations is.
    pub epoch_seconds: u64,
    /// What a generation holds before it errs more often than planned.
    pub capacity: u64,
    /// How full the fullest generation is; 1 where errors pass what was planned.
    pub fill: f64,
    /// The live generations, newest first.
    pub generations: Vec<Generation>,
    /// The error to expect now.
    pub error_rate: f64,
    /// The error it was planned for.
    pub planned_rate: f64,
}

/// A generation of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// When it began.
    pub since: u64,
    /// About how many signatures it holds.
    pub signatures: u64,
}

/// The state of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Which one.
    pub name: String,
    /// Its memory.
    pub bytes: u64,
    /// What it holds.
    pub used: u64,
    /// What it has room for.
    pub capacity: u64,
}

/// The state of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// The number of the last event that was applied.
    pub sequence: u64,
    /// The number up to which the journal is on disk for certain.
    pub durable: u64,
    /// Records written since the start.
    pub records: u64,
    /// Bytes of journal written since the start.
    pub journal_bytes: u64,
    /// Files that the journal has.
    pub segments: u64,
    /// The numbers of the last events in the snapshots that are kept.
    pub snapshots: Vec<u64>,
    /// Events that wait for the disk.
    pub waiting_events: u64,
    /// Why nothing is accepted any more, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why the last snapshot was not taken, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_failure: Option<String>,
}

/// What opening the store found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The snapshot that was restored, by the number of its last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Newer snapshots that were damaged.
    pub damaged_snapshots: u64,
    /// Events replayed behind it.
    pub replayed_events: u64,
    /// Bytes of an unfinished write that were left out.
    pub torn_bytes: u64,
    /// The number of the last event then.
    pub sequence: u64,
}

/// Requests of one kind since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// The protocol, such as `pyzor`.
    pub protocol: String,
    /// What became of them, such as `spam`, `accepted` or `limited`.
    pub answered: String,
    /// How many.
    pub count: u64,
}

/// A state in which the server is degraded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its name, the same as in the log and in metrics.
    pub state: String,
    /// The ring, table or peer concerned; empty for the server as a whole.
    pub subject: String,
    /// `severe` if it makes the server not ready, otherwise `warning`.
    pub severity: String,
    /// A text that says what is wrong and what to do.
    pub text: String,
    /// The time when it began, in seconds since 1970.
    pub since: u64,
}

/// The answer of a server that is ready but degraded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The active conditions.
    pub conditions: Vec<Condition>,
}
