//! The sizes of all structures within a memory budget.
//!
//! [`SHARES`] divides the budget between the structures. The sizing functions of `bruit-filters` compute the number of
//! signatures that each structure holds at the error rates below. Memory use does not grow with traffic: a full
//! structure refuses new entries, evicts its oldest entries or, if it is a filter, has a higher error rate.
//! [`crate::Engine::status`] warns before a structure is full.

use bruit_filters::sizing::{counts_ring_rate, ring_rate, staged_ring_rate};

use crate::accounts::ACCOUNTS_MAX;
use crate::generations::LIVE_GENERATIONS;
use crate::realm::{BookSizes, RING_LINES_MAX};
use crate::whitelist::SIGNATURES_MAX;

/// Default memory of a clearinghouse.
pub const BUDGET_DEFAULT: u64 = 256 << 20;
/// Minimum memory, for a test server or a small site.
pub const BUDGET_MIN: u64 = 8 << 20;
/// Maximum memory. With more memory, ticks could not clear a generation within one day.
pub const BUDGET_MAX: u64 = 32 << 30;

/// Maximum share of unreported signatures that checks wrongly find listed, over the whole window.
pub const SPAM_RATE: f64 = 1e-6;
/// Maximum share of listed signatures that may be mistaken for revoked ones. Each such mistake misses spam.
pub const REVOKED_RATE: f64 = 1e-4;
/// Maximum share of signatures with a wrong recipient count, over the window. Wrong counts are too high, mostly by one.
pub const COUNT_RATE: f64 = 0.2;
/// Maximum share of signatures with a wrong claim count. The count does not include the claim that listed the
/// signature.
pub const CLAIM_COUNT_RATE: f64 = 0.2;

/// Maximum error rate of a book, as a multiple of the planned one. Above the planned rate, only anchors and peers may
/// add signatures. At the maximum rate, no new signature is accepted until the next generation begins. The error rate
/// must never reach ten times the planned one. This factor is well below ten, because a segment of another server is
/// accepted as a whole and can take a book beyond this maximum.
pub const STRETCH: f64 = 5.0;
/// Maximum error rate of counts. Once this share of signatures has a wrong count, no new signature is counted.
pub const COUNT_RATE_MAX: f64 = 0.5;

/// Number of generations that a check considers.
const LIVE: u32 = LIVE_GENERATIONS as u32;

/// Upper bound on the average memory of an account, including its name and its place in a tree.
const ACCOUNT_BYTES: u64 = 320;

/// Maximum memory for a whitelisted signature. This maximum is reached when the hash table has just doubled.
const WHITELISTED_BYTES: u64 = 75;

/// Length of a line of a ring in bytes.
const LINE_BYTES: u64 = 64;

/// Shares of the budget in per mille. The rest of the budget is for data in flight: requests, batches, and the buffers
/// and undo log of a running snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Listed signatures: 10,000,000 with a budget of 256 MiB, at an error rate of [`SPAM_RATE`].
    pub spam: u64,
    /// Revoked signatures: about one for every ten listed.
    pub revoked: u64,
    /// Claim counts, without the claims that list a signature: 4,000,000 signatures with a budget of 256 MiB, at an
    /// error rate of [`CLAIM_COUNT_RATE`].
    pub claims: u64,
    /// Recipient counts: 20,000,000 signatures with a budget of 256 MiB, at an error rate of [`COUNT_RATE`].
    pub bulk: u64,
    /// Reporters and unsettled claims.
    pub trust: u64,
    /// Texts, for near replicas.
    pub replicas: u64,
    /// Features of good mail.
    pub good: u64,
    /// Texts with rspamd's shingles.
    pub shingles: u64,
    /// Accounts and whitelists.
    pub lists: u64,
}

/// The shares in use.
pub const SHARES: Shares = Shares {
    spam: 220,
    revoked: 20,
    claims: 77,
    bulk: 410,
    trust: 80,
    replicas: 50,
    good: 20,
    shingles: 50,
    lists: 20,
};

/// Error for a budget outside the allowed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory budget out of range: {bytes} bytes (allowed: {BUDGET_MIN} to {BUDGET_MAX})")]
pub struct BudgetOutOfRange {
    /// Requested budget in bytes.
    pub bytes: u64,
}

/// The division of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whole budget in bytes.
    pub bytes: u64,
    /// Sizes of the books.
    pub sizes: BookSizes,
    /// Memory for the nursery and the reporters.
    pub trust_bytes: u64,
    /// Memory for texts.
    pub replica_bytes: u64,
    /// Memory for the features of good mail.
    pub good_bytes: u64,
    /// Memory for texts with shingles.
    pub shingle_bytes: u64,
    /// Memory for accounts and whitelists.
    pub list_bytes: u64,
}

impl Plan {
    /// Divides a budget.
    ///
    /// # Errors
    /// [`BudgetOutOfRange`] if the budget is too small or too large.
    pub fn for_budget(bytes: u64) -> Result<Self, BudgetOutOfRange> {
        if !(BUDGET_MIN..=BUDGET_MAX).contains(&bytes) {
            return Err(BudgetOutOfRange { bytes });
        }
        let share = |per_mille: u64| bytes / 1000 * per_mille;
        let lines = |bytes: u64| (bytes / LINE_BYTES).clamp(1, RING_LINES_MAX);
        // Records of large counts need a tenth as much memory as the lines.
        let count_lines = |per_mille| lines(share(per_mille) / 11 * 10);
        Ok(Self {
            bytes,
            sizes: BookSizes {
                spam_lines: lines(share(SHARES.spam) / 2),
                revoked_lines: lines(share(SHARES.revoked)),
                claim_lines: count_lines(SHARES.claims),
                bulk_lines: count_lines(SHARES.bulk),
            },
            trust_bytes: share(SHARES.trust),
            replica_bytes: share(SHARES.replicas),
            good_bytes: share(SHARES.good),
            shingle_bytes: share(SHARES.shingles),
            list_bytes: share(SHARES.lists),
        })
    }

    /// Returns the plan after a change of the budget. No ring shrinks. Each ring grows to the largest whole multiple of
    /// its lines that fits the budget. A ring cannot grow by a fraction: if some lines were copied more often than
    /// others, lookups would give wrong results.
    ///
    /// # Errors
    /// [`BudgetOutOfRange`] if the budget is too small or too large.
    pub fn resized(&self, bytes: u64) -> Result<Self, BudgetOutOfRange> {
        let planned = Self::for_budget(bytes)?;
        let grown = |now: u64, planned: u64| now * multiple(now, planned);
        let BookSizes { spam_lines, revoked_lines, claim_lines, bulk_lines } = self.sizes;
        let sizes = BookSizes {
            spam_lines: grown(spam_lines, planned.sizes.spam_lines),
            revoked_lines: grown(revoked_lines, planned.sizes.revoked_lines),
            claim_lines: grown(claim_lines, planned.sizes.claim_lines),
            bulk_lines: grown(bulk_lines, planned.sizes.bulk_lines),
        };
        Ok(Self { sizes, ..planned })
    }
}

impl Plan {
    /// Returns the maximum number of whitelisted signatures. Whitelisted signatures may use a quarter of the memory for
    /// lists.
    pub(crate) fn whitelist_capacity(&self) -> u64 {
        (self.list_bytes / 4 / WHITELISTED_BYTES).min(SIGNATURES_MAX as u64)
    }

    /// Returns the maximum number of accounts. Accounts may use half of the memory for lists.
    pub(crate) fn account_capacity(&self) -> u64 {
        (self.list_bytes / 2 / ACCOUNT_BYTES).min(ACCOUNTS_MAX as u64)
    }
}

/// Returns the largest whole factor, at least 1, by which a structure of size `now` can grow without exceeding
/// `planned`.
pub(crate) const fn multiple(now: u64, planned: u64) -> u64 {
    if now == 0 || planned < now { 1 } else { planned / now }
}

/// Returns `whole` × `lines` / `planned`: the capacity of a structure that has `lines` instead of `planned` lines.
pub(crate) fn part(whole: u64, lines: u64, planned: u64) -> u64 {
    let part = u128::from(whole) * u128::from(lines.min(planned)) / u128::from(planned.max(1));
    u64::try_from(part).unwrap_or(whole)
}

/// The number of signatures that the books hold in a generation at the planned error rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Listed signatures.
    pub spam: u64,
    /// Revoked signatures.
    pub revoked: u64,
    /// Signatures with counted claims.
    pub claims: u64,
    /// Signatures with counted recipients.
    pub bulk: u64,
}

impl Capacities {
    /// Returns the number of signatures that books of these sizes hold in one generation.
    #[must_use]
    pub fn per_generation(sizes: &BookSizes) -> Self {
        Self {
            spam: most(|keys| staged_ring_rate(keys, sizes.spam_lines, LIVE).window <= SPAM_RATE),
            revoked: most(|keys| ring_rate(keys, sizes.revoked_lines).window <= REVOKED_RATE),
            claims: most(|keys| counts_ring_rate(keys, sizes.claim_lines, LIVE).window <= CLAIM_COUNT_RATE),
            bulk: most(|keys| counts_ring_rate(keys, sizes.bulk_lines, LIVE).window <= COUNT_RATE),
        }
    }

    /// Returns the maximum numbers of signatures in one generation. At these numbers, the error rate is [`STRETCH`]
    /// times the planned rate or, for counts, [`COUNT_RATE_MAX`].
    #[must_use]
    pub fn limits(sizes: &BookSizes) -> Self {
        Self {
            spam: most(|keys| staged_ring_rate(keys, sizes.spam_lines, LIVE).window <= STRETCH * SPAM_RATE),
            revoked: most(|keys| ring_rate(keys, sizes.revoked_lines).window <= STRETCH * REVOKED_RATE),
            claims: most(|keys| counts_ring_rate(keys, sizes.claim_lines, LIVE).window <= COUNT_RATE_MAX),
            bulk: most(|keys| counts_ring_rate(keys, sizes.bulk_lines, LIVE).window <= COUNT_RATE_MAX),
        }
    }

    /// Returns the number of signatures that books of these sizes hold in the whole window.
    #[must_use]
    pub fn per_window(sizes: &BookSizes) -> Self {
        let Self { spam, revoked, claims, bulk } = Self::per_generation(sizes);
        let [spam, revoked, claims, bulk] = [spam, revoked, claims, bulk].map(|keys| keys * LIVE_GENERATIONS);
        Self { spam, revoked, claims, bulk }
    }
}

/// Returns the largest number up to 2^40 for which `fits` returns true. `fits` must also return true for all smaller
/// numbers.
fn most(fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 40);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holds_the_two_servers_of_the_paper_at_once() {
        let capacities = Capacities::per_window(&Plan::for_budget(BUDGET_DEFAULT).unwrap().sizes);
        assert!(capacities.spam >= 10_000_000 && capacities.bulk >= 20_000_000, "{capacities:?}");
        assert!(capacities.revoked >= 1_000_000 && capacities.claims >= 4_000_000, "{capacities:?}");
    }

    #[test]
    fn limits_lie_between_the_planned_and_ten_times_the_planned_error_rate() {
        for bytes in [BUDGET_MIN, BUDGET_DEFAULT] {
            let sizes = Plan::for_budget(bytes).unwrap().sizes;
            let (planned, most) = (Capacities::per_generation(&sizes), Capacities::limits(&sizes));
            assert!(staged_ring_rate(most.spam, sizes.spam_lines, LIVE).window < 10.0 * SPAM_RATE);
            assert!(ring_rate(most.revoked, sizes.revoked_lines).window < 10.0 * REVOKED_RATE);
            let pairs = [
                (planned.spam, most.spam),
                (planned.revoked, most.revoked),
                (planned.claims, most.claims),
                (planned.bulk, most.bulk),
            ];
            assert!(pairs.iter().all(|(planned, most)| planned < most && *most < planned * 2), "{pairs:?}");
        }
    }

    #[test]
    fn shares_leave_room_for_requests_in_flight() {
        let Shares { spam, revoked, claims, bulk, trust, replicas, good, shingles, lists } = SHARES;
        let sum = spam + revoked + claims + bulk + trust + replicas + good + shingles + lists;
        assert!((900..=960).contains(&sum), "{sum}");
    }

    #[test]
    fn budgets_have_bounds() {
        for bytes in [BUDGET_MIN - 1, BUDGET_MAX + 1] {
            assert_eq!(Plan::for_budget(bytes), Err(BudgetOutOfRange { bytes }));
        }
        assert!(Plan::for_budget(BUDGET_MIN).is_ok() && Plan::for_budget(BUDGET_MAX).is_ok());
    }

    #[test]
    fn the_largest_number_is_found() {
        assert_eq!(most(|number| number <= 77), 77);
        assert_eq!(most(|_| false), 0);
    }
}
