//! One number, the memory, becomes the sizes of everything.
//!
//! [`SHARES`] says which part of the budget each structure gets; the sizing functions of `bruit-filters` say how many
//! signatures that holds at the error rates below. Nothing is allocated beyond that, whatever the traffic: structures that
//! are full refuse, forget their oldest, or (filters) err more often, and [`crate::Engine::status`] warns before.

use bruit_filters::sizing::{counts_ring_rate, ring_rate, staged_ring_rate};

use crate::accounts::ACCOUNTS_MAX;
use crate::generations::LIVE_GENERATIONS;
use crate::realm::{BookSizes, RING_LINES_MAX};
use crate::whitelist::SIGNATURES_MAX;

/// The memory of a clearinghouse by default.
pub const BUDGET_DEFAULT: u64 = 256 << 20;
/// The least memory that makes sense: a test server, or a small site.
pub const BUDGET_MIN: u64 = 8 << 20;
/// The most: of a larger one, ticks could not clear a generation within its day.
pub const BUDGET_MAX: u64 = 32 << 30;

/// The share of checks of signatures nobody reported that may call them spam, over the whole window.
pub const SPAM_RATE: f64 = 1e-6;
/// The share of listed signatures that may be taken for revoked: each is one spam missed.
pub const REVOKED_RATE: f64 = 1e-4;
/// The share of signatures that may have a wrong count over the window. What is wrong is too high, mostly by one.
pub const COUNT_RATE: f64 = 0.2;
/// The same for counts of claims beyond the first.
pub const CLAIM_COUNT_RATE: f64 = 0.2;

/// The largest error rate of a book, as a multiple of the planned one. Between the two, only anchors and peers may add
/// signatures; at the largest, nothing new is accepted until the next generation begins. It is well below ten because a segment
/// of another server is accepted as a whole.
pub const STRETCH: f64 = 5.0;
/// The same for counts: the share of signatures with a wrong count at which no new signature is counted.
pub const COUNT_RATE_MAX: f64 = 0.5;

/// Generations that a check sees.
const LIVE: u32 = LIVE_GENERATIONS as u32;

/// The most memory that an account takes on average: its name and its place in a tree.
const ACCOUNT_BYTES: u64 = 320;

/// The most memory that a whitelisted signature takes, in a hash table that has just doubled.
const WHITELISTED_BYTES: u64 = 75;

/// A line of a ring.
const LINE_BYTES: u64 = 64;

/// Parts in a thousand of the budget. What they sum to is spent; the rest is for what is in flight: requests, batches, the
/// buffers and undo log of a running snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Listed signatures: at 256 MiB and [`SPAM_RATE`], 10,000,000 of them.
    pub spam: u64,
    /// Revoked signatures: about one for every ten listed.
    pub revoked: u64,
    /// Counts of claims beyond the one that lists: at 256 MiB and [`CLAIM_COUNT_RATE`], of 4,000,000 signatures.
    pub claims: u64,
    /// Counts of recipients: at 256 MiB and [`COUNT_RATE`], 20,000,000 of them.
    pub bulk: u64,
    /// The nursery and the reporters.
    pub trust: u64,
    /// Texts, for near replicas.
    pub replicas: u64,
    /// What good mail says.
    pub good: u64,
    /// rspamd's texts with shingles.
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

/// A budget that cannot be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a memory budget of {bytes} bytes is outside {BUDGET_MIN} to {BUDGET_MAX}")]
pub struct BudgetOutOfRange {
    /// What was asked for.
    pub bytes: u64,
}

/// What a budget buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The budget.
    pub bytes: u64,
    /// The sizes of the books.
    pub sizes: BookSizes,
    /// The memory of nursery and reporters.
    pub trust_bytes: u64,
    /// The memory of texts.
    pub replica_bytes: u64,
    /// The memory of what good mail says.
    pub good_bytes: u64,
    /// The memory of texts with shingles.
    pub shingle_bytes: u64,
    /// The memory of accounts and whitelists.
    pub list_bytes: u64,
}

impl Plan {
    /// Divides a budget.
    ///
    /// # Errors
    /// [`BudgetOutOfRange`] if it is too small or too large.
    pub fn for_budget(bytes: u64) -> Result<Self, BudgetOutOfRange> {
        if !(BUDGET_MIN..=BUDGET_MAX).contains(&bytes) {
            return Err(BudgetOutOfRange { bytes });
        }
        let share = |per_mille: u64| bytes / 1000 * per_mille;
        let lines = |bytes: u64| (bytes / LINE_BYTES).clamp(1, RING_LINES_MAX);
        // Spilled counts take a tenth of what the lines do.
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

    /// The plan that follows this one when the budget changes. Each ring gets the largest whole multiple of its lines that fits
    /// the budget, because only whole copies of lines leave all answers unchanged. No ring becomes smaller.
    ///
    /// # Errors
    /// [`BudgetOutOfRange`] if there is no plan for the budget.
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
    /// The number of signatures that can be whitelisted, in a quarter of the memory of lists.
    pub(crate) fn whitelist_capacity(&self) -> u64 {
        (self.list_bytes / 4 / WHITELISTED_BYTES).min(SIGNATURES_MAX as u64)
    }

    /// The largest number of accounts, in half of the memory of lists.
    pub(crate) fn account_capacity(&self) -> u64 {
        (self.list_bytes / 2 / ACCOUNT_BYTES).min(ACCOUNTS_MAX as u64)
    }
}

/// The whole factor by which something of size `now` can grow if there is room for `planned`; at least 1.
pub(crate) const fn multiple(now: u64, planned: u64) -> u64 {
    if now == 0 || planned < now { 1 } else { planned / now }
}

/// Scales `whole` by `lines` / `planned`: the capacity of a structure that is smaller than planned.
pub(crate) fn part(whole: u64, lines: u64, planned: u64) -> u64 {
    let part = u128::from(whole) * u128::from(lines.min(planned)) / u128::from(planned.max(1));
    u64::try_from(part).unwrap_or(whole)
}

/// How many signatures the books hold in a generation before they err more often than they should.
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
    /// What books of these sizes hold in one generation.
    #[must_use]
    pub fn per_generation(sizes: &BookSizes) -> Self {
        Self {
            spam: most(|keys| staged_ring_rate(keys, sizes.spam_lines, LIVE).window <= SPAM_RATE),
            revoked: most(|keys| ring_rate(keys, sizes.revoked_lines).window <= REVOKED_RATE),
            claims: most(|keys| counts_ring_rate(keys, sizes.claim_lines, LIVE).window <= CLAIM_COUNT_RATE),
            bulk: most(|keys| counts_ring_rate(keys, sizes.bulk_lines, LIVE).window <= COUNT_RATE),
        }
    }

    /// The most that books of these sizes may hold in one generation: the point where they err [`STRETCH`] times as often as
    /// planned, or where every other count is wrong.
    #[must_use]
    pub fn limits(sizes: &BookSizes) -> Self {
        Self {
            spam: most(|keys| staged_ring_rate(keys, sizes.spam_lines, LIVE).window <= STRETCH * SPAM_RATE),
            revoked: most(|keys| ring_rate(keys, sizes.revoked_lines).window <= STRETCH * REVOKED_RATE),
            claims: most(|keys| counts_ring_rate(keys, sizes.claim_lines, LIVE).window <= COUNT_RATE_MAX),
            bulk: most(|keys| counts_ring_rate(keys, sizes.bulk_lines, LIVE).window <= COUNT_RATE_MAX),
        }
    }

    /// What they hold over the window.
    #[must_use]
    pub fn per_window(sizes: &BookSizes) -> Self {
        let Self { spam, revoked, claims, bulk } = Self::per_generation(sizes);
        let [spam, revoked, claims, bulk] = [spam, revoked, claims, bulk].map(|keys| keys * LIVE_GENERATIONS);
        Self { spam, revoked, claims, bulk }
    }
}

/// The largest number for which `fits` holds, given that it holds for none larger once it fails; at most 2^40.
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
    fn a_book_stops_between_its_plan_and_ten_times_its_plan() {
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
    fn shares_leave_room_for_what_is_in_flight() {
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
