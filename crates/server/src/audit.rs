//! The audit trail: an info line, target `bruit::audit`, for every change by an administrator, every reading of the realm, and
//! every administrative request that is refused.
//!
//! Refusals are what strangers can cause, so they are bounded by the minute; the next line has the number of those left out.

use std::net::IpAddr;

use crate::log::LineLimit;

/// The target of audit lines.
const TARGET: &str = "bruit::audit";

/// Most refusals of one source that are written in a minute.
const REFUSALS_PER_MINUTE: u32 = 10;

/// The limits of sources, which share them by the last byte of their address: one that is noisy hides few others.
static REFUSALS: [LineLimit; 64] = [const { LineLimit::new(REFUSALS_PER_MINUTE) }; 64];

/// Who administers, or tries to.
#[derive(Clone, Debug)]
pub(crate) struct Who<'w> {
    /// The source address.
    pub(crate) from: IpAddr,
    /// The name of the token or account, if there is one.
    pub(crate) name: Option<&'w str>,
}

/// Records a change, or an attempt: `subject` is what it is about, `failure` why nothing changed.
pub(crate) fn audit(who: &Who<'_>, action: &str, subject: &str, failure: Option<&str>) {
    let outcome = if failure.is_some() { "failed" } else { "done" };
    tracing::info!(
        target: TARGET,
        from = %who.from,
        name = who.name,
        action,
        subject,
        outcome,
        reason = failure,
        "administration"
    );
}

/// Records a change that was made on this machine, by a signal.
pub(crate) fn audit_local(action: &str, subject: &str) {
    tracing::info!(target: TARGET, action, subject, outcome = "done", "administration");
}

/// Records an administrative request that was refused.
pub(crate) fn audit_refusal(who: &Who<'_>, action: &str, reason: &str) {
    let last_byte = match who.from {
        IpAddr::V4(address) => address.octets()[3],
        // The last byte of the prefix that a provider gives to one customer.
        IpAddr::V6(address) => address.octets()[5],
    };
    let limit = REFUSALS.get(usize::from(last_byte) % REFUSALS.len());
    let Some(suppressed) = limit.and_then(LineLimit::admit) else { return };
    tracing::info!(
        target: TARGET,
        from = %who.from,
        name = who.name,
        action,
        outcome = "refused",
        reason,
        suppressed = (suppressed > 0).then_some(suppressed),
        "administration"
    );
}
