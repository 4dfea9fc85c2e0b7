//! Comparison of every node with the model.

use anyhow::Result;

use crate::Options;
use crate::model::{Expected, Model, now};
use crate::node::{CheckResult, Node};
use crate::traffic::MESSAGES;

/// The number of signatures in one request.
const SIGNATURES_PER_REQUEST: usize = 256;

/// The findings of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The number of compared answers.
    pub(crate) compared: u64,
    /// Violations that may still disappear, because claims have not reached all nodes yet.
    pub(crate) late: Vec<String>,
    /// Listings for which a node wrongly answered "revoked". Filter errors cause such answers, so some are allowed.
    pub(crate) missed: Vec<String>,
    /// Violations that cannot disappear, because something was counted twice.
    pub(crate) wrong: Vec<String>,
}

impl Findings {
    /// Returns the number of listings for which nodes may wrongly answer "revoked". A book is planned for at most one
    /// such error in 10,000 listings. Ten times that rate is allowed, plus two listings.
    pub(crate) const fn missed_max(&self) -> usize {
        self.compared as usize / 1_000 + 2
    }
}

/// Asks every node about all requests in the model.
pub(crate) fn compare(nodes: &[Node], model: &Model, options: &Options) -> Result<Findings> {
    let mut findings = Findings::default();
    for (index, node) in nodes.iter().enumerate() {
        compare_listings(index, node, model, options.spam_epoch, &mut findings)?;
        compare_counts(index, node, model, options.bulk_epoch, &mut findings)?;
    }
    Ok(findings)
}

fn compare_listings(index: usize, node: &Node, model: &Model, epoch: u64, findings: &mut Findings) -> Result<()> {
    for some in model.listings.chunks(SIGNATURES_PER_REQUEST) {
        let numbers: Vec<u64> = some.iter().map(|listing| listing.number).collect();
        let before = now();
        let found = node.check(&numbers)?;
        for (listing, found) in some.iter().zip(found) {
            let age = before - listing.answered;
            let text = || format!("node {index} answers {found:?} for {listing:?}, {age:.1} s after the report");
            findings.compared += 1;
            match (listing.expected(index, before, epoch), found) {
                (Expected::Present, CheckResult::Revoked) => findings.missed.push(text()),
                (Expected::Present, CheckResult::Unknown) | (Expected::Absent, CheckResult::Listed) => {
                    findings.late.push(text())
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn compare_counts(index: usize, node: &Node, model: &Model, epoch: u64, findings: &mut Findings) -> Result<()> {
    for number in 0..MESSAGES {
        let total = node.total(number)?;
        let (least, most) = model.bounds(index, number, now(), epoch);
        findings.compared += 1;
        if total > most {
            findings
                .wrong
                .push(format!("node {index} counts {total} recipients of message {number}, expected at most {most}"));
        } else if total < least {
            findings
                .late
                .push(format!("node {index} counts {total} recipients of message {number}, expected at least {least}"));
        }
    }
    Ok(())
}
