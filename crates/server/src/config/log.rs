//! The log.

use serde::Deserialize;

/// The log's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// The level, or a filter such as `info,bruit::request=debug`. The default is `info`.
    pub level: Option<String>,
    /// The line format.
    pub format: LogFormat,
}

/// A format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Plain text, for people.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}
