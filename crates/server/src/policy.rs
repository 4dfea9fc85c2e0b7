//! Applies the configured trust policy to the clearinghouse.
//!
//! The policy is part of the state, because the effect of a claim depends on it. A change of the policy is therefore an
//! event, like a claim.

use bruit_engine::event::Event;
use bruit_engine::trust::Policy;
use bruit_engine::{Outcome, Refusal};
use bruit_protocols::http::TrustPolicy;
use bruit_store::SubmitError;

use crate::service::Service;

/// The reason why the clearinghouse cannot adopt the configured policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyChangeError {
    /// The policy was refused.
    #[error("the policy in [trust] is refused: {0}")]
    Refused(Refusal),
    /// The change of the policy could not be written.
    #[error("failed to write the policy in [trust]")]
    Kept(#[source] SubmitError),
}

/// Changes the policy of the clearinghouse, if `policy` differs from the current one.
pub(crate) fn adopt(service: &Service, policy: &Policy) -> Result<(), PolicyChangeError> {
    let before = service.store.check(|engine| engine.trust().policy().clone());
    if before == *policy {
        return Ok(());
    }
    let event = Event::Policy { now: service.now(), policy: Box::new(policy.clone()) };
    match service.store.submit(vec![event]) {
        Ok(outcomes) => match outcomes.first() {
            Some(Outcome::Refused(refusal)) => Err(PolicyChangeError::Refused(*refusal)),
            _ => {
                let changed = differences(&shown(&before), &shown(policy));
                tracing::info!(changed, "trust policy changed");
                Ok(())
            }
        },
        // With a full disk, reports are refused but checks are still answered.
        Err(error @ SubmitError::Write(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "failed to change the trust policy");
            Ok(())
        }
        Err(error) => Err(PolicyChangeError::Kept(error)),
    }
}

/// Returns the part of a policy that operators can configure.
pub(crate) fn shown(policy: &Policy) -> TrustPolicy {
    TrustPolicy {
        own_reports_needed: policy.own_reports_needed,
        block_anchors: policy.block_anchors,
        block_groups: policy.block_groups,
        block_score: policy.block_score,
        suspect_score: policy.suspect_score,
        suspect_groups: policy.suspect_groups,
        anchors_beyond_doubt: policy.anchors_beyond_doubt,
        settle_after_seconds: policy.settle_after,
    }
}

/// Formats differences in the form `block_anchors 1 -> 2, settle_after 172800s -> 86400s`.
fn differences(before: &TrustPolicy, after: &TrustPolicy) -> String {
    let pairs = before.fields().into_iter().zip(after.fields());
    let differing = pairs.filter(|((_, before), (_, after))| before != after);
    let texts: Vec<String> =
        differing.map(|((key, before), (_, after))| format!("{key} {before} -> {after}")).collect();
    if texts.is_empty() { "constants that cannot be set".to_owned() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_keys_of_the_file() {
        let before = shown(&Policy::default());
        let after = shown(&Policy { block_anchors: 2, settle_after: 86_400, ..Policy::default() });
        assert_eq!(differences(&before, &after), "block_anchors 1 -> 2, settle_after 172800s -> 86400s");
    }
}
