//! The dashboard: whether it is served, and where.

use std::net::SocketAddr;

use serde::Deserialize;

use super::raw::{RawListen, addresses};
use super::{ConfigError, invalid};

/// The dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardSettings {
    /// True if the dashboard is served.
    pub enabled: bool,
    /// The listen addresses of the dashboard alone. If there are none, the HTTP listeners serve the dashboard.
    pub listen: Vec<SocketAddr>,
}

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawDashboard {
    enabled: Option<bool>,
    listen: Option<RawListen>,
}

impl RawDashboard {
    pub(super) fn check(&self) -> Result<DashboardSettings, ConfigError> {
        let enabled = self.enabled.unwrap_or(true);
        let listen = match &self.listen {
            None => Vec::new(),
            given => addresses("dashboard.listen", given.as_ref(), 0)?,
        };
        if !enabled && !listen.is_empty() {
            return Err(invalid(
                "dashboard.listen",
                "the dashboard is turned off: remove `enabled = false` or `listen`",
            ));
        }
        Ok(DashboardSettings { enabled, listen })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn the_dashboard_is_on_without_addresses_of_its_own() {
        let dashboard = |text: &str| Config::parse(text).map(|config| config.dashboard);
        let usual = dashboard("").unwrap();
        assert!(usual.enabled && usual.listen.is_empty());
        assert!(!dashboard("[dashboard]\nenabled = false").unwrap().enabled);
        assert_eq!(dashboard("[dashboard]\nlisten = \"127.0.0.1:8628\"").unwrap().listen.len(), 1);
        let error = dashboard("[dashboard]\nenabled = false\nlisten = \"127.0.0.1:8628\"").unwrap_err().to_string();
        assert!(error.starts_with("dashboard.listen: "), "{error}");
    }
}
