//! The audit trail. Every administrative change, every download of the realm and every refused administrative request
//! is logged at level info with target `bruit::audit`.
//!
//! Strangers can cause refusals, so the number of lines about refusals per minute is limited. The next line about a
//! refusal states how many lines were omitted.

use std::net::IpAddr;

use crate::log::LineLimit;

/// The target of audit lines.
const TARGET: &str = "bruit::audit";

/// Maximum number of refusals logged per source and minute.
const REFUSALS_PER_MINUTE: u32 = 10;

/// The rate limits of sources. The last byte of a source's address prefix selects its limit, so a noisy source
/// suppresses the lines of only a few other sources.
static REFUSALS: [LineLimit; 64] = [const { LineLimit::new(REFUSALS_PER_MINUTE) }; 64];

/// The caller of an administrative request.
#[derive(Clone, Debug)]
pub(crate) struct Actor<'w> {
    /// The source address.
    pub(crate) from: IpAddr,
    /// The name of the token or account, if there is one.
    pub(crate) name: Option<&'w str>,
}

/// Records a change to `subject`, or an attempt to change it. `failure` is the reason why nothing changed, if the
/// attempt failed.
pub(crate) fn audit(who: &Actor<'_>, action: &str, subject: &str, failure: Option<&str>) {
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

/// Records a change made on this machine, at startup or on a signal.
pub(crate) fn audit_local(action: &str, subject: &str) {
    tracing::info!(target: TARGET, action, subject, outcome = "done", "administration");
}

/// Records a refused administrative request.
pub(crate) fn audit_refusal(who: &Actor<'_>, action: &str, reason: &str) {
    let last_byte = match who.from {
        IpAddr::V4(address) => address.octets()[3],
        // The last byte of the prefix that providers assign to one customer.
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
