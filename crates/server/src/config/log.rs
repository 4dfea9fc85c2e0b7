//! The log.

use serde::Deserialize;

/// What is logged, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// The level, or a filter such as `info,bruit::request=debug`; `info` if nothing is said.
    pub level: Option<String>,
    /// The format of its lines.
    pub format: LogFormat,
}

/// The format of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object each.
    Json,
}
