//! Capacity limits of the books: how many new signatures they accept, and which group is charged for each.
//!
//! A generation of a book can hold a limited number of signatures before its error rate exceeds the plan. Reporters are
//! charged only for what uses capacity: a signature that is new to the generation, or a count that passes fifteen. Two
//! limits apply to everyone:
//!
//! - **The book's limit.** Beyond the planned capacity only anchors and peers may add signatures. Beyond
//!   [`Capacities::limits`](crate::budget::Capacities::limits) no reporter may. So the error rate of a book never
//!   reaches ten times the planned one.
//! - **The group's daily quota**, a share of the capacity. The site's own users are one group, regardless of their
//!   networks. If they use their full quota every day, a generation fills up just as it ends. Recipients that own users
//!   count have no quota: nobody else needs that capacity, so the book's limit is enough.

use bruit_filters::Fingerprint;
use bruit_filters::ring::{CountsRing, Needs};

use super::{Engine, Refusal};
use crate::event::By;
use crate::exchange::Book;
use crate::quota::Quotas;
use crate::spam::Entry;
use crate::time::Time;
use crate::trust::{Claim, Reporter, Standing};

/// Daily quota of a group of accounts or strangers, in percent of a day's capacity.
const SHARE_PERCENT: u64 = 2;
/// Daily quota of a group of traps or pinned peers, in percent of a day's capacity.
const SHARE_PERCENT_ANCHORED: u64 = 50;
/// Daily quota of the site's own users together, in percent of a day's capacity.
const SHARE_PERCENT_OWN: u64 = 100;
/// The group to which all of the site's own users are charged.
const SITE: u64 = u64::MAX - 1;

/// The charge for a count above fifteen, which needs a record. A generation has one record for every 26 signatures.
const RECORD_CHARGE: u32 = 26;

/// The highest count of a signature without a record.
const COUNT_WITHOUT_RECORD: u32 = 15;

/// The number of signatures and texts that each group has added today.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DailyShares {
    pub(crate) listed: Quotas,
    pub(crate) revoked: Quotas,
    pub(crate) recipients: Quotas,
    pub(crate) texts: Quotas,
}

/// The recipients of a report that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// Number of recipients: fewer than reported if the count would pass fifteen and no record is left.
    pub(super) amount: u32,
    /// Charge for counting these recipients.
    pub(super) charge: u32,
    /// True if all reported recipients are counted.
    pub(super) is_whole: bool,
}

/// The place and generation in which a claim was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimSite {
    /// The claim was made on this server. The reporter's group is charged for it.
    Here,
    /// The claim was made at another node of the cluster, in the generation that is also current on this server. The
    /// other node has already charged the reporter's group.
    Node,
    /// The claim was made at another node, in an older generation. Its effects arrive as that node's listings and
    /// revocations. The claim itself must not list the signature in the current generation.
    NodeEarlier,
}

/// Returns the book to which a claim can add the signature, and whether the signature is new to the current generation.
const fn wanted(claim: Claim, entry: &Entry) -> (Book, bool) {
    match claim {
        Claim::Report => (Book::Listed, !entry.listed.contains(0)),
        Claim::Revoke => (Book::Revoked, !entry.revoked.contains(0)),
    }
}

/// Returns the group to charge. The site's own users are one group.
const fn charged(reporter: &Reporter) -> u64 {
    match reporter.standing {
        Standing::Own => SITE,
        _ => reporter.group,
    }
}

const fn percent(standing: Standing) -> u64 {
    match standing {
        Standing::Own => SHARE_PERCENT_OWN,
        Standing::Trap | Standing::Pinned => SHARE_PERCENT_ANCHORED,
        Standing::Account | Standing::Stranger => SHARE_PERCENT,
    }
}

impl Engine {
    /// Checks that the book has capacity for a claim's signature. `entry` is the signature's state in the book.
    pub(super) fn room_for_claim(&self, by: &By, claim: Claim, entry: &Entry, made: ClaimSite) -> Result<(), Refusal> {
        match wanted(claim, entry) {
            _ if made == ClaimSite::NodeEarlier => Ok(()),
            (_, false) => Ok(()),
            (book, true) => {
                self.ensure_room(book, by.reporter.standing)?;
                if made == ClaimSite::Here { self.ensure_share(book, by, 1) } else { Ok(()) }
            }
        }
    }

    /// Charges the reporter's group for the signature that a claim added to a book.
    pub(super) fn charge_claim(&mut self, by: &By, book: Book, made: ClaimSite) {
        if made == ClaimSite::Here {
            self.charge(book, by, 1);
        }
    }

    /// Checks that a book can store one more signature from a reporter of this standing.
    pub(super) fn ensure_room(&self, book: Book, standing: Standing) -> Result<(), Refusal> {
        let (held, planned, most) = self.held(book);
        let most = if standing.is_anchor() { most } else { planned };
        if held < most { Ok(()) } else { Err(self.book_full(book)) }
    }

    /// Returns the number of signatures in the current generation of a book, its planned capacity, and its limit.
    fn held(&self, book: Book) -> (u64, u64, u64) {
        let (planned, most) = (&self.capacities, &self.limits);
        match book {
            Book::Listed => {
                let held = self.spam.listed.estimated_keys(self.spam.epoch()).unwrap_or_default();
                (held as u64, planned.spam, most.spam)
            }
            Book::Revoked => {
                let held = self.spam.revoked.estimated_keys(self.spam.epoch()).unwrap_or_default();
                (held as u64, planned.revoked, most.revoked)
            }
            Book::Votes => (self.spam.claims.keys(self.spam.epoch()).unwrap_or_default(), planned.claims, most.claims),
            Book::Bulk | Book::Recipients => {
                (self.bulk.counts.keys(self.bulk.counts.epoch()).unwrap_or_default(), planned.bulk, most.bulk)
            }
            // The tables of texts evict their oldest entries instead of refusing new ones.
            Book::Texts => (0, 1, 1),
        }
    }

    /// Returns the refusal for a book that is full until its next generation begins.
    pub(super) fn book_full(&self, book: Book) -> Refusal {
        let seconds = book.epoch_seconds(&self.realm);
        Refusal::BookFull { book, again: Time((self.now.epoch(seconds) + 1).saturating_mul(seconds)) }
    }

    /// Checks that a reporter's group may add `amount` more signatures today.
    pub(super) fn ensure_share(&self, book: Book, by: &By, amount: u32) -> Result<(), Refusal> {
        let limit = self.daily_share(book, by.reporter.standing);
        let admits = self.shares_of(book).admits(by.now, charged(&by.reporter), amount, limit);
        let again = Time((by.now.day() + 1).saturating_mul(Time::DAY));
        if admits { Ok(()) } else { Err(Refusal::DailyShare { book, again }) }
    }

    /// Checks that a reporter's group may add one more text today to an index that can hold `capacity` texts.
    pub(super) fn ensure_text_share(&self, by: &By, capacity: u64) -> Result<(), Refusal> {
        let percent = percent(by.reporter.standing).min(SHARE_PERCENT_ANCHORED);
        let limit = u32::try_from(capacity * percent / 100).unwrap_or(u32::MAX);
        let admits = self.shares.texts.admits(by.now, charged(&by.reporter), 1, limit);
        if admits { Ok(()) } else { Err(Refusal::TextQuota) }
    }

    /// Charges a reporter's group.
    pub(super) fn charge(&mut self, book: Book, by: &By, amount: u32) {
        let (now, group) = (self.now, charged(&by.reporter));
        let shares = match book {
            Book::Listed => &mut self.shares.listed,
            Book::Revoked => &mut self.shares.revoked,
            Book::Bulk | Book::Votes | Book::Recipients => &mut self.shares.recipients,
            Book::Texts => &mut self.shares.texts,
        };
        shares.use_up(now, group, amount);
    }

    const fn shares_of(&self, book: Book) -> &Quotas {
        match book {
            Book::Listed => &self.shares.listed,
            Book::Revoked => &self.shares.revoked,
            Book::Bulk | Book::Votes | Book::Recipients => &self.shares.recipients,
            Book::Texts => &self.shares.texts,
        }
    }

    /// Returns the number of signatures that a group may add to a book in a day.
    fn daily_share(&self, book: Book, standing: Standing) -> u32 {
        let capacity = match book {
            Book::Listed => self.capacities.spam,
            Book::Revoked => self.capacities.revoked,
            Book::Votes => self.capacities.claims,
            Book::Bulk | Book::Recipients => self.capacities.bulk,
            // The two indexes of texts differ in capacity; see `ensure_text_share`.
            Book::Texts => 0,
        };
        let daily = capacity.saturating_mul(Time::DAY) / book.epoch_seconds(&self.realm).max(1);
        u32::try_from(daily.saturating_mul(percent(standing)) / 100).unwrap_or(u32::MAX).max(1)
    }

    /// Checks that more recipients of a signature can be counted, and returns the charge.
    pub(super) fn room_for_count(&self, by: &By, fingerprint: &Fingerprint, amount: u32) -> Result<Count, Refusal> {
        let (counts, standing) = (&self.bulk.counts, by.reporter.standing);
        let needs = counts.needs(fingerprint, counts.epoch(), amount).unwrap_or_default();
        if needs.cells {
            self.ensure_room(Book::Recipients, standing)?;
        }
        let has_record = needs.record && has_record_room(counts, standing);
        let charge = u32::from(needs.cells) + if has_record { RECORD_CHARGE } else { 0 };
        if standing != Standing::Own && charge > 0 {
            self.ensure_share(Book::Recipients, by, charge)?;
        }
        if !needs.record || has_record {
            return Ok(Count { amount, charge, is_whole: true });
        }
        let counted = counts.count_in(fingerprint, counts.epoch()).unwrap_or_default();
        Ok(Count { amount: COUNT_WITHOUT_RECORD.saturating_sub(counted), charge, is_whole: false })
    }

    /// Returns true if a ring with another server's counts can store one more count. Such a ring may be smaller than
    /// this server's own.
    pub(super) fn has_room_of_others(&self, ring: &CountsRing, epoch: u64, needs: Needs) -> bool {
        let most = self.limits.bulk.saturating_mul(ring.lines()) / self.bulk.counts.lines().max(1);
        let has_cells = !needs.cells || ring.keys(epoch).unwrap_or_default() < most;
        let has_record = !needs.record || ring.records(epoch).is_ok_and(|(held, limit)| held < limit);
        has_cells && has_record
    }
}

/// Returns true if there is a record left for one more count above fifteen. A fifth of the records is reserved for
/// anchors. Once all records are used, new counts stop at fifteen.
fn has_record_room(counts: &CountsRing, standing: Standing) -> bool {
    let (held, limit) = counts.records(counts.epoch()).unwrap_or_default();
    held < if standing.is_anchor() { limit } else { limit / 5 * 4 }
}
