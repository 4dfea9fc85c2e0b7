//! What events do to the state.

use bruit_filters::Fingerprint;

use super::{
    BEHIND_EPOCHS_MAX, Engine, GOOD_EPOCHS, Outcome, Refusal, SETTLED_PER_TICK, SHARE_PERCENT, SHARE_PERCENT_ANCHORED,
};
use crate::accounts::{ACCOUNTS_MAX, AccountChange, ChangeError, RegisterError};
use crate::bulk::{BulkTotals, MANY};
use crate::codec::Reader;
use crate::event::{By, TextChange};
use crate::exchange::Book;
use crate::generations::LIVE_GENERATIONS;
use crate::replicas::Text;
use crate::shingles::{Digest, SHINGLES, records_within};
use crate::spam::Entry;
use crate::time::Time;
use crate::trust::{Change, Claim, Listing, Policy, Refused, Standing, Trust};
use crate::whitelist::{SIGNATURES_MAX, WhitelistChange};

/// Recipients of one report by an account whose word weighs that are believed.
const ACCOUNT_TARGETS_MAX: u32 = 15;

/// What an account takes at most, on average: its name, its place in a tree.
const ACCOUNT_BYTES: u64 = 320;

/// What a whitelisted signature takes at most, in a hash table that has just doubled.
const WHITELISTED_BYTES: u64 = 75;

/// What a claim did to the sets.
pub(super) struct Weighed {
    pub(super) change: Change,
    /// Whether the claim listed the signature in this generation.
    is_listed_now: bool,
}

/// What became of a claim.
#[derive(Clone, Copy)]
struct Claimed {
    change: Change,
    is_counted: bool,
}

/// What changes the meaning of others' claims is for the site's own users: anyone else could make good mail look like listed
/// spam, or hide spam as good mail.
pub(super) fn admit_own(by: &By) -> Result<(), Refusal> {
    if by.reporter.standing == Standing::Own { Ok(()) } else { Err(Refusal::NotOwn) }
}

/// Whether a claim keeps a listing alive: what anchors still report does not age.
fn renews(by: &By, claim: Claim, entry: &Entry) -> bool {
    claim == Claim::Report && by.reporter.standing.is_anchor() && entry.is_spam() && !entry.listed.contains(0)
}

/// Whether a book at `epoch` may take a claim of `wanted`.
const fn ensure_arrived(epoch: u64, wanted: u64) -> Result<(), Refusal> {
    if wanted > epoch + BEHIND_EPOCHS_MAX { Err(Refusal::CatchingUp) } else { Ok(()) }
}

/// What one group may use of `capacity` in a day.
fn share(capacity: u64, standing: Standing) -> u32 {
    let percent = if standing.is_anchor() { SHARE_PERCENT_ANCHORED } else { SHARE_PERCENT };
    u32::try_from(capacity * percent / 100).unwrap_or(u32::MAX)
}

impl Engine {
    /// Ages the books a step, and settles a few claims.
    pub(super) fn tick(&mut self, now: Time, lines: usize) -> Outcome {
        self.hear(now);
        let spam_epoch = self.now.epoch(self.realm.spam_epoch_seconds());
        let bulk_epoch = self.now.epoch(self.realm.bulk_epoch_seconds());
        let before = self.spam.epoch();
        // Both, whether or not the first has arrived.
        let turned = self.spam.turn(spam_epoch, lines);
        let arrived = [turned.arrived, self.bulk.turn(bulk_epoch, lines)];
        turned.listed.iter().for_each(|fingerprint| self.export_signature(Book::Listed, fingerprint));
        if self.spam.epoch() > before {
            self.turn_texts();
        }
        self.expire_chains();
        self.trust.settle(self.now, SETTLED_PER_TICK);
        Outcome::Ticked { arrived: arrived == [true, true] }
    }

    /// Texts age with the spam book.
    fn turn_texts(&mut self) {
        let epoch = self.spam.epoch();
        self.replicas.turn(epoch, LIVE_GENERATIONS);
        self.shingles.advance(epoch);
        if epoch.is_multiple_of(GOOD_EPOCHS) {
            self.replicas.turn_good();
        }
    }

    pub(super) fn admit_claim(&self, by: &By, fingerprints: &[Fingerprint]) -> Result<(), Refusal> {
        ensure_arrived(self.spam.epoch(), by.now.epoch(self.realm.spam_epoch_seconds()))?;
        let mut refusal = Refusal::Nothing;
        for fingerprint in fingerprints {
            if self.whitelist.contains(fingerprint).is_some() {
                refusal = Refusal::Whitelisted;
                continue;
            }
            match self.trust.admit(by.now, &by.reporter, fingerprint) {
                Ok(()) => return Ok(()),
                Err(refused) => refusal = Refusal::Trust(refused),
            }
        }
        Err(refusal)
    }

    pub(super) fn claim(&mut self, by: &By, claim: Claim, flag: u8, fingerprints: &[Fingerprint]) -> Outcome {
        let (mut listed, mut revoked, mut ignored, mut refused) = (0, 0, 0, 0);
        let mut heard = Vec::new();
        for fingerprint in fingerprints {
            if self.whitelist.contains(fingerprint).is_some() {
                ignored += 1;
                continue;
            }
            let claimed = self.claim_one(by, claim, flag, fingerprint);
            match claimed.map(|claimed| claimed.change) {
                Ok(Change::Nothing) => {}
                Ok(Change::List(_)) => listed += 1,
                Ok(Change::Revoke) => revoked += 1,
                Err(_) => refused += 1,
            }
            heard.extend(claimed.map(|claimed| (*fingerprint, claimed.is_counted)));
        }
        self.export_vote(by, claim, flag, heard);
        Outcome::Claimed { listed, revoked, ignored, refused }
    }

    fn claim_one(&mut self, by: &By, claim: Claim, flag: u8, fingerprint: &Fingerprint) -> Result<Claimed, Refused> {
        let Weighed { change, is_listed_now } = self.weigh(by, claim, fingerprint)?;
        let is_counted_by_listing = flag == 0 && is_listed_now && self.spam.counts_by_listing();
        let is_counted = self.trust.weighs(self.now, &by.reporter) && !is_counted_by_listing;
        if is_counted {
            self.spam.count(claim, flag, fingerprint);
        }
        Ok(Claimed { change, is_counted })
    }

    /// Hears a claim and changes the sets as it demands, whoever counts it.
    pub(super) fn weigh(&mut self, by: &By, claim: Claim, fingerprint: &Fingerprint) -> Result<Weighed, Refused> {
        let entry = self.spam.entry(fingerprint);
        let listing = Listing { listed: entry.is_spam(), revoked: entry.is_revoked() };
        let change = self.trust.claim(self.now, &by.reporter, *fingerprint, claim, listing)?;
        let change = self.write_down(change, &entry, by, claim, fingerprint);
        let is_renewed = renews(by, claim, &entry);
        if is_renewed {
            self.spam.renew(fingerprint);
            self.export_signature(Book::Listed, fingerprint);
        }
        let is_listed_now = (is_renewed || matches!(change, Change::List(_))) && !entry.listed.contains(0);
        Ok(Weighed { change, is_listed_now })
    }

    /// Changes the spam book as `trust` says; returns what could be done.
    fn write_down(
        &mut self,
        change: Change,
        entry: &Entry,
        by: &By,
        claim: Claim,
        fingerprint: &Fingerprint,
    ) -> Change {
        match change {
            Change::List(_) if !self.spam.list(fingerprint, entry) => return Change::Nothing,
            Change::List(_) => self.export_signature(Book::Listed, fingerprint),
            Change::Revoke => self.revoke(fingerprint, entry),
            // A revocation that someone trusted still argues with must not lapse while they do.
            Change::Nothing if entry.is_revoked() && by.reporter.standing.is_anchor() => {
                self.revoke(fingerprint, entry)
            }
            // What own users call good before anyone lists it shall not be listed when the nursery has forgotten that.
            Change::Nothing if claim == Claim::Revoke && by.reporter.standing == Standing::Own && !entry.is_spam() => {
                self.revoke(fingerprint, entry);
            }
            Change::Nothing => {}
        }
        change
    }

    /// Revokes a signature of which the book says `entry`.
    fn revoke(&mut self, fingerprint: &Fingerprint, entry: &Entry) {
        self.spam.revoke(fingerprint);
        if !entry.revoked.contains(0) {
            self.export_signature(Book::Revoked, fingerprint);
        }
    }

    pub(super) fn admit_bulk(&self, by: &By, targets: u32, fingerprints: &[Fingerprint]) -> Result<(), Refusal> {
        if by.reporter.standing == Standing::Stranger {
            return Err(Refusal::Stranger);
        }
        if fingerprints.is_empty() {
            return Err(Refusal::Nothing);
        }
        ensure_arrived(self.bulk.counts.epoch(), by.now.epoch(self.realm.bulk_epoch_seconds()))?;
        let limit = self.bulk_limit(by.reporter.standing);
        let amount = self.bulk_amount(by, targets, fingerprints);
        let admits = self.bulk_quotas.admits(by.now, by.reporter.group, amount, limit);
        if admits { Ok(()) } else { Err(Refusal::BulkQuota) }
    }

    /// How many recipients of one report are believed. Past fifteen a signature takes a record of its own, of which there are few:
    /// who fills them makes all counts past fifteen too high. So accounts count up to there, and new ones one at a time.
    fn believed_targets(&self, by: &By, targets: u32) -> u32 {
        let most = match by.reporter.standing {
            standing if standing.is_anchor() => MANY,
            _ if self.trust.weighs(self.now, &by.reporter) => ACCOUNT_TARGETS_MAX,
            _ => 1,
        };
        targets.min(most)
    }

    /// What a report takes of its group's share: accounts pay for recipients, as these make records.
    fn bulk_amount(&self, by: &By, targets: u32, fingerprints: &[Fingerprint]) -> u32 {
        let each = if by.reporter.standing.is_anchor() { 1 } else { self.believed_targets(by, targets).max(1) };
        u32::try_from(fingerprints.len()).unwrap_or(u32::MAX).saturating_mul(each)
    }

    /// How many signatures a group may count recipients of in a day.
    pub(super) fn bulk_limit(&self, standing: Standing) -> u32 {
        share(self.capacities.bulk * Time::DAY / self.realm.bulk_epoch_seconds().max(1), standing)
    }

    pub(super) fn count(&mut self, by: &By, targets: u32, fingerprints: &[Fingerprint]) -> Outcome {
        let amount = self.bulk_amount(by, targets, fingerprints);
        self.bulk_quotas.use_up(self.now, by.reporter.group, amount);
        let targets = self.believed_targets(by, targets);
        let count = |fingerprint: &Fingerprint| match self.whitelist.contains(fingerprint) {
            Some(_) => BulkTotals::default(),
            None => self.count_one(fingerprint, targets),
        };
        Outcome::Counted(fingerprints.iter().map(count).collect())
    }

    fn count_one(&mut self, fingerprint: &Fingerprint, targets: u32) -> BulkTotals {
        if self.exchange.own().is_none() {
            return self.bulk.report(fingerprint, targets);
        }
        let before = self.bulk.own_count(fingerprint);
        let totals = self.bulk.report(fingerprint, targets);
        self.export_recipients(fingerprint, targets, before);
        totals
    }

    /// Whose texts are kept: the index has room for few, and a flood would push out the rest. Others than own users give a text the
    /// name that follows from it, or they could put good mail under the name of listed spam.
    pub(super) fn admit_text(&self, by: &By, fingerprint: &Fingerprint, text: &Text) -> Result<(), Refusal> {
        if text.fingerprint(self.realm.key()) != *fingerprint {
            admit_own(by)?;
        }
        self.admit_teaching(by, self.replicas.fill().1)
    }

    /// The same for texts with shingles: the digest of a known one says which shingles go with it.
    pub(super) fn admit_shingles(&self, by: &By, digest: &Digest) -> Result<(), Refusal> {
        if self.shingles.knows(digest) {
            admit_own(by)?;
        }
        self.admit_teaching(by, records_within(self.plan.shingle_bytes))
    }

    fn admit_teaching(&self, by: &By, capacity: u64) -> Result<(), Refusal> {
        if !self.trust.weighs(self.now, &by.reporter) {
            return Err(Refusal::Stranger);
        }
        ensure_arrived(self.spam.epoch(), by.now.epoch(self.realm.spam_epoch_seconds()))?;
        let limit = share(capacity, by.reporter.standing);
        let admits = self.text_quotas.admits(by.now, by.reporter.group, 1, limit);
        if admits { Ok(()) } else { Err(Refusal::TextQuota) }
    }

    pub(super) fn change_text(&mut self, change: TextChange, digest: &Digest, shingles: Option<&[u64; SHINGLES]>) {
        match change {
            TextChange::Write { flag, weight } => {
                self.shingles.write(digest, shingles, flag, weight, self.now);
            }
            TextChange::Delete => {
                self.shingles.delete(digest, shingles);
            }
        }
    }

    pub(super) fn admit_account(&self, change: &AccountChange) -> Result<(), Refusal> {
        let limit = self.account_capacity();
        let is_known = |protocol, name: &[u8]| self.accounts.get(protocol, name).is_some();
        match change {
            AccountChange::Register { .. } if self.accounts.len() as u64 >= limit => Err(Refusal::AccountsFull),
            AccountChange::Register { name, credential, .. } if is_known(credential.protocol(), name) => {
                Err(RegisterError::NameTaken.into())
            }
            AccountChange::Register { .. } => Ok(()),
            AccountChange::Rotate { name, credential } if is_known(credential.protocol(), name) => Ok(()),
            AccountChange::Remove(protocol, name)
            | AccountChange::Enable(protocol, name)
            | AccountChange::Disable(protocol, name)
                if is_known(*protocol, name) =>
            {
                Ok(())
            }
            _ => Err(ChangeError::Unknown.into()),
        }
    }

    pub(super) fn change_account(&mut self, change: &AccountChange) -> Result<(), Refusal> {
        match change {
            AccountChange::Register { name, credential, group, standing } => {
                Ok(self.accounts.register(name, *credential, *group, *standing, self.now)?)
            }
            AccountChange::Remove(protocol, name) => Ok(self.accounts.remove(*protocol, name)?),
            AccountChange::Enable(protocol, name) => Ok(self.accounts.enable(*protocol, name)?),
            AccountChange::Disable(protocol, name) => Ok(self.accounts.disable(*protocol, name)?),
            AccountChange::Rotate { name, credential } => Ok(self.accounts.rotate(name, *credential)?),
        }
    }

    pub(super) fn admit_whitelist(&self, change: &WhitelistChange) -> Result<(), Refusal> {
        let is_full = match change {
            WhitelistChange::List(..) => self.whitelist.len() as u64 >= self.whitelist_capacity(),
            WhitelistChange::AddSender(_) => self.whitelist.senders.bytes() >= self.plan.list_bytes / 4,
            WhitelistChange::Unlist(fingerprint) if self.whitelist.contains(fingerprint).is_none() => {
                return Err(Refusal::NotListed);
            }
            WhitelistChange::Unlist(_) | WhitelistChange::RemoveSender(_) => false,
        };
        if is_full { Err(Refusal::WhitelistFull) } else { Ok(()) }
    }

    /// How many signatures can be whitelisted: a quarter of the memory of lists.
    pub(super) fn whitelist_capacity(&self) -> u64 {
        (self.plan.list_bytes / 4 / WHITELISTED_BYTES).min(SIGNATURES_MAX as u64)
    }

    /// How many accounts there can be: half of the memory of lists.
    #[must_use]
    pub fn account_capacity(&self) -> u64 {
        (self.plan.list_bytes / 2 / ACCOUNT_BYTES).min(ACCOUNTS_MAX as u64)
    }

    pub(super) fn change_whitelist(&mut self, change: &WhitelistChange) -> Result<(), Refusal> {
        let was_changed = match change {
            WhitelistChange::List(fingerprint, by) => {
                self.whitelist.add(*fingerprint, *by).map_err(|_| Refusal::WhitelistFull)?;
                true
            }
            WhitelistChange::Unlist(fingerprint) => self.whitelist.remove(fingerprint),
            WhitelistChange::AddSender(pattern) => {
                self.whitelist.senders.add(pattern)?;
                true
            }
            WhitelistChange::RemoveSender(pattern) => self.whitelist.senders.remove(pattern),
        };
        if was_changed { Ok(()) } else { Err(Refusal::NotListed) }
    }

    /// Weighs all that is remembered anew.
    pub(super) fn change_policy(&mut self, policy: &Policy) -> Result<(), Refusal> {
        let mut bytes = Vec::new();
        self.trust.encode(&mut bytes);
        let changed = Trust::decode(policy.clone(), self.plan.trust_bytes, &mut Reader::new(&bytes));
        self.trust = changed.map_err(|_| Refusal::PolicyUnfit)?;
        Ok(())
    }
}
