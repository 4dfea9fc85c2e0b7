//! The trust policy in the file: the constants that `docs/trust.md` describes for operators.

use std::time::Duration;

use bruit_engine::trust::Policy;
use serde::Deserialize;

use super::raw::within;
use super::{ConfigError, invalid};
use crate::units::Span;

/// The range of `settle_after`. Anchors need time to make claims, and a claim is forgotten after 14 days.
const SETTLE_AFTER_MIN: Duration = Duration::from_secs(3_600);
const SETTLE_AFTER_MAX: Duration = Duration::from_secs(13 * 86_400);

/// The highest valid score: the sum of the weights of 40 groups, each with the maximum weight.
const SCORE_MAX: f64 = 100.0;

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTrust {
    own_reports_needed: Option<u32>,
    block_anchors: Option<u32>,
    block_groups: Option<u32>,
    block_score: Option<f64>,
    suspect_score: Option<f64>,
    suspect_groups: Option<u32>,
    anchors_beyond_doubt: Option<u32>,
    settle_after: Option<Span>,
}

impl RawTrust {
    pub(super) fn check(self) -> Result<Policy, ConfigError> {
        let usual = Policy::default();
        let voices = |key, given: Option<u32>, usual| within(key, given.unwrap_or(usual), 1, usual_votes());
        let policy = Policy {
            // A signature must have space for one more vote, so that it can still be revoked.
            own_reports_needed: within(
                "trust.own_reports_needed",
                self.own_reports_needed.unwrap_or(usual.own_reports_needed),
                1,
                usual_votes() - 1,
            )?,
            block_anchors: voices("trust.block_anchors", self.block_anchors, usual.block_anchors)?,
            block_groups: voices("trust.block_groups", self.block_groups, usual.block_groups)?,
            block_score: block_score(self.block_score, &usual)?,
            suspect_score: suspect_score(self.suspect_score, usual.suspect_score)?,
            suspect_groups: voices("trust.suspect_groups", self.suspect_groups, usual.suspect_groups)?,
            anchors_beyond_doubt: voices(
                "trust.anchors_beyond_doubt",
                self.anchors_beyond_doubt,
                usual.anchors_beyond_doubt,
            )?,
            settle_after: settle_after(self.settle_after, usual.settle_after)?,
            ..usual
        };
        if policy.suspect_score > policy.block_score {
            return Err(invalid(
                "trust.suspect_score",
                format!("expected at most block_score, which is {}", policy.block_score),
            ));
        }
        policy.check().map_err(|error| invalid("trust", error.to_string()))?;
        Ok(policy)
    }
}

/// Returns the number of votes that a signature can hold.
fn usual_votes() -> u32 {
    Policy::default().votes_max
}

/// Returns the score required for a listing. It must exceed the score that is possible without an anchor.
fn block_score(given: Option<f64>, usual: &Policy) -> Result<f64, ConfigError> {
    let score = given.unwrap_or(usual.block_score);
    let floor = usual.unanchored_spam_max;
    if score > floor && score <= SCORE_MAX {
        return Ok(score);
    }
    Err(invalid(
        "trust.block_score",
        format!("expected more than {floor} (the maximum score without an anchor), up to {SCORE_MAX}, found {score}"),
    ))
}

fn suspect_score(given: Option<f64>, usual: f64) -> Result<f64, ConfigError> {
    let score = given.unwrap_or(usual);
    if score > 0.0 && score <= SCORE_MAX {
        return Ok(score);
    }
    Err(invalid("trust.suspect_score", format!("expected more than 0, up to {SCORE_MAX}, found {score}")))
}

fn settle_after(given: Option<Span>, usual: u64) -> Result<u64, ConfigError> {
    let Some(Span(time)) = given else { return Ok(usual) };
    if !(SETTLE_AFTER_MIN..=SETTLE_AFTER_MAX).contains(&time) {
        return Err(invalid("trust.settle_after", "expected 1h to 13d"));
    }
    Ok(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn policy(text: &str) -> Result<Policy, String> {
        Config::parse(&format!("[trust]\n{text}"))
            .map(|config| config.settings.trust)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        assert_eq!(policy(""), Ok(Policy::default()));
        let expected = Policy { own_reports_needed: 3, settle_after: 86_400, ..Policy::default() };
        assert_eq!(policy("own_reports_needed = 3\nsettle_after = \"1d\""), Ok(expected));
    }

    #[test]
    fn values_at_the_bounds_are_taken_and_those_beyond_are_not() {
        for (least, most, beyond) in [
            (
                "own_reports_needed = 1",
                "own_reports_needed = 63",
                ["own_reports_needed = 0", "own_reports_needed = 64"],
            ),
            ("block_anchors = 1", "block_anchors = 64", ["block_anchors = 0", "block_anchors = 65"]),
            ("block_groups = 1", "block_groups = 64", ["block_groups = 0", "block_groups = 65"]),
            ("suspect_groups = 1", "suspect_groups = 64", ["suspect_groups = 0", "suspect_groups = 65"]),
            (
                "anchors_beyond_doubt = 1",
                "anchors_beyond_doubt = 64",
                ["anchors_beyond_doubt = 0", "anchors_beyond_doubt = 65"],
            ),
            ("block_score = 5.01", "block_score = 100", ["block_score = 5", "block_score = 100.1"]),
            ("suspect_score = 0.1", "suspect_score = 6", ["suspect_score = 0", "suspect_score = 6.1"]),
            ("settle_after = \"1h\"", "settle_after = \"13d\"", ["settle_after = \"59m\"", "settle_after = \"14d\""]),
        ] {
            assert!(policy(least).is_ok() && policy(most).is_ok(), "{least} {most}");
            let key = least.split(' ').next().unwrap();
            for text in beyond {
                let error = policy(text).unwrap_err();
                assert!(error.starts_with(&format!("trust.{key}: ")), "{text}: {error}");
            }
        }
        for text in ["block_score = nan", "suspect_score = nan", "block_score = inf"] {
            assert!(policy(text).is_err(), "{text}");
        }
        assert!(policy("credit_late = 0.1").unwrap_err().contains("unknown field"));
    }
}
