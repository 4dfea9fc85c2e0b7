//! Automatic learning.

use bruit_engine::recurring::SEEN_DAYS;
use serde::Deserialize;

use super::ConfigError;
use super::raw::within;

/// Default of [`LearningSettings::days`].
const DAYS: u32 = 3;

/// Automatic learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearningSettings {
    /// True to learn text that recurs in unreported mail checked by own users.
    pub checks: bool,
    /// Number of different days on which a feature of a text must be seen before it counts as recurring.
    pub days: u32,
}

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLearning {
    checks: bool,
    days: Option<u32>,
}

impl RawLearning {
    pub(super) fn check(&self) -> Result<LearningSettings, ConfigError> {
        let days = within("learning.days", self.days.unwrap_or(DAYS), *SEEN_DAYS.start(), *SEEN_DAYS.end())?;
        Ok(LearningSettings { checks: self.checks, days })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn learning_from_checks_is_off_unless_asked_for_and_takes_days() {
        let learning = |text: &str| Config::parse(text).map(|config| config.settings.learning);
        let usual = learning("").unwrap();
        assert_eq!((usual.checks, usual.days), (false, 3));
        let other = learning("[learning]\nchecks = true\ndays = 7").unwrap();
        assert_eq!((other.checks, other.days), (true, 7));
        for days in ["1", "8"] {
            let error = learning(&format!("[learning]\ndays = {days}")).unwrap_err().to_string();
            assert_eq!(error, format!("learning.days: expected 2 to 7, found {days}"));
        }
    }
}
