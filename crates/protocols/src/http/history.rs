//! The answer with a server's counters over time.

use serde::{Deserialize, Serialize};

use super::stats::RequestCount;

/// Counters over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The span: `day`, `month` or `years`.
    pub span: String,
    /// Length of a slot in seconds.
    pub slot_seconds: u64,
    /// The slots, oldest first. Periods in which the server did not run are missing.
    pub slots: Vec<HistorySlot>,
}

/// The counters of one period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistorySlot {
    /// Start of the period.
    pub start: u64,
    /// Number of requests of each kind in the period.
    pub requests: Vec<RequestCount>,
    /// Time in microseconds within which 99 % of the requests were answered, if there were any. The value is the upper
    /// bound of a bucket of the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_micros: Option<u64>,
    /// Number of listed signatures at the end of the period.
    pub listed: u64,
    /// Number of revoked signatures at the end of the period.
    pub revoked: u64,
    /// Resident memory of the server in bytes at the end of the period.
    pub resident_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_without_requests_has_no_duration() {
        let text = serde_json::to_string(&HistorySlot { start: 60, ..HistorySlot::default() }).unwrap();
        assert!(!text.contains("p99"), "{text}");
        assert_eq!(serde_json::from_str::<HistorySlot>(&text).unwrap().start, 60);
    }
}
