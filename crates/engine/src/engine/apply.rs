//! Application of events to the state.

use bruit_filters::Fingerprint;

use super::room::{ClaimSite, Count};
use super::{BEHIND_EPOCHS_MAX, Engine, GOOD_EPOCHS, Outcome, Refusal, SETTLED_PER_TICK};
use crate::accounts::{Account, AccountChange, ChangeError, Protocol, RegisterError, Registration};
use crate::bulk::{BulkTotals, MANY};
use crate::codec::Reader;
use crate::event::{By, TextChange};
use crate::exchange::Book;
use crate::generations::LIVE_GENERATIONS;
use crate::replicas::Text;
use crate::shingles::{Digest, SHINGLES, records_within};
use crate::spam::Entry;
use crate::time::Time;
use crate::trust::{Change, Claim, Listing, Policy, Standing, Trust};
use crate::whitelist::WhitelistChange;

/// Maximum number of recipients accepted in one report by an account with weight.
const ACCOUNT_TARGETS_MAX: u32 = 15;

/// The effect of a claim on the books.
pub(super) struct ClaimEffect {
    pub(super) change: Change,
    /// True if the claim listed the signature in this generation.
    is_listed_now: bool,
}

/// Protocol and name of an account.
type AccountKey = (Protocol, Box<[u8]>);

/// The result of a claim about one signature.
#[derive(Clone, Copy)]
struct ClaimResult {
    change: Change,
    is_counted: bool,
}

/// Checks that the reporter is one of the site's own users. Only they may alter the effect of other reporters' claims.
/// Otherwise anyone could make good mail look like listed spam, or hide spam as good mail.
pub(super) fn admit_own(by: &By) -> Result<(), Refusal> {
    if by.reporter.standing == Standing::Own { Ok(()) } else { Err(Refusal::NotOwn) }
}

/// Returns true if a claim renews a listing. A listing does not expire while anchors still report the signature.
fn renews(by: &By, claim: Claim, entry: &Entry) -> bool {
    claim == Claim::Report && by.reporter.standing.is_anchor() && entry.is_spam() && !entry.listed.contains(0)
}

/// Checks that a book at `epoch` has caught up enough to accept a claim of epoch `wanted`.
const fn ensure_arrived(epoch: u64, wanted: u64) -> Result<(), Refusal> {
    if wanted > epoch + BEHIND_EPOCHS_MAX { Err(Refusal::CatchingUp) } else { Ok(()) }
}

impl Engine {
    /// Ages the books one step and settles a few claims.
    pub(super) fn tick(&mut self, now: Time, lines: usize) -> Outcome {
        self.advance_time(now);
        let spam_epoch = self.now.epoch(self.realm.spam_epoch_seconds());
        let bulk_epoch = self.now.epoch(self.realm.bulk_epoch_seconds());
        let before = self.spam.epoch();
        // Age the bulk book, too, even if the spam book has not reached its epoch.
        let turned = self.spam.turn(spam_epoch, lines);
        let (bulk_arrived, bulk_ended) = self.bulk.turn(bulk_epoch, lines);
        turned.listed.iter().for_each(|fingerprint| self.export_signature(Book::Listed, fingerprint));
        if self.spam.epoch() > before {
            self.turn_texts(before);
        }
        self.expire_chains();
        self.trust.settle(self.now, SETTLED_PER_TICK);
        let ended = turned.ended.into_iter().chain(bulk_ended).collect();
        Outcome::Ticked { arrived: turned.arrived && bulk_arrived, ended }
    }

    /// Ages the texts after the spam book has moved on from the epoch `before`.
    fn turn_texts(&mut self, before: u64) {
        let epoch = self.spam.epoch();
        self.replicas.turn(epoch, LIVE_GENERATIONS);
        self.shingles.advance(epoch);
        // There are two generations of good mail, so two turns clear everything.
        let turns = epoch / GOOD_EPOCHS - before / GOOD_EPOCHS;
        (0..turns.min(2)).for_each(|_| self.replicas.turn_good());
    }

    /// Returns true if a tick at `now` would age the books, settle claims or drop chains, and not merely advance the
    /// time.
    #[must_use]
    pub fn needs_tick(&self, now: Time) -> bool {
        let now = self.now.max(now);
        self.spam.has_to_turn(now.epoch(self.realm.spam_epoch_seconds()))
            || self.bulk.has_to_turn(now.epoch(self.realm.bulk_epoch_seconds()))
            || self.trust.has_due(now)
            || self.has_rings_to_drop()
    }

    pub(super) fn admit_claim(&self, by: &By, claim: Claim, fingerprints: &[Fingerprint]) -> Result<(), Refusal> {
        ensure_arrived(self.spam.epoch(), by.now.epoch(self.realm.spam_epoch_seconds()))?;
        let mut refusal = Refusal::Nothing;
        for fingerprint in fingerprints {
            if self.whitelist.contains(fingerprint).is_some() {
                refusal = Refusal::Whitelisted;
                continue;
            }
            match self.admit_one(by, claim, fingerprint) {
                Ok(()) => return Ok(()),
                Err(refused) => refusal = refused,
            }
        }
        Err(refusal)
    }

    /// Admits one claim. A claim by an anchor requires free capacity in the book; other claims can count as evidence
    /// without changing a book.
    fn admit_one(&self, by: &By, claim: Claim, fingerprint: &Fingerprint) -> Result<(), Refusal> {
        self.trust.admit(by.now, &by.reporter, fingerprint)?;
        if !by.reporter.standing.is_anchor() {
            return Ok(());
        }
        self.room_for_claim(by, claim, &self.spam.entry(fingerprint), ClaimSite::Here)
    }

    /// Applies a claim, or refuses it if [`admit_claim`](Self::admit_claim) does.
    ///
    /// If any signature is accepted, the claim is admissible. So `admit_claim` is not called for every claim. It is
    /// called beforehand only for a claim that is older than the latest event, and afterwards only if no signature was
    /// accepted. A refused signature changes nothing.
    pub(super) fn apply_claim(
        &mut self,
        by: &By,
        claim: Claim,
        flag: u8,
        fingerprints: &[Fingerprint],
    ) -> Result<Outcome, Refusal> {
        let before = self.now;
        if by.now < before {
            self.admit_claim(by, claim, fingerprints)?;
        }
        ensure_arrived(self.spam.epoch(), by.now.epoch(self.realm.spam_epoch_seconds()))?;
        self.advance_time(by.now);
        let (outcome, accepted) = self.claim(by, claim, flag, fingerprints);
        if accepted == 0 {
            self.now = before;
            self.admit_claim(by, claim, fingerprints)?;
            self.advance_time(by.now);
        }
        Ok(outcome)
    }

    fn claim(&mut self, by: &By, claim: Claim, flag: u8, fingerprints: &[Fingerprint]) -> (Outcome, usize) {
        let (mut listed, mut revoked, mut ignored, mut refused, mut reason) = (0, 0, 0, 0, None);
        let mut accepted = Vec::new();
        // Look up the weight once. Claims do not change it until they are settled.
        let weighs = self.trust.weighs(self.now, &by.reporter);
        for fingerprint in fingerprints {
            if self.whitelist.contains(fingerprint).is_some() {
                ignored += 1;
                continue;
            }
            let claimed = self.claim_one(by, claim, flag, weighs, fingerprint);
            match claimed.map(|claimed| claimed.change) {
                Ok(Change::Nothing) => {}
                Ok(Change::List) => listed += 1,
                Ok(Change::Revoke) => revoked += 1,
                Err(refusal) => (refused, reason) = (refused + 1, Some(refusal)),
            }
            accepted.extend(claimed.map(|claimed| (*fingerprint, claimed.is_counted)));
        }
        let accepted_count = accepted.len();
        self.export_vote(by, claim, flag, accepted);
        (Outcome::Claimed { listed, revoked, ignored, refused, reason }, accepted_count)
    }

    fn claim_one(
        &mut self,
        by: &By,
        claim: Claim,
        flag: u8,
        weighs: bool,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimResult, Refusal> {
        let ClaimEffect { change, is_listed_now } = self.weigh(by, claim, fingerprint, ClaimSite::Here)?;
        let is_counted_by_listing = flag == 0 && is_listed_now && self.spam.counts_by_listing();
        let is_counted = weighs && !is_counted_by_listing && self.has_room_to_count(claim, flag, fingerprint);
        if is_counted {
            self.spam.count(claim, flag, fingerprint);
        }
        Ok(ClaimResult { change, is_counted })
    }

    /// Returns true if the book has capacity to count one more claim. A claim is valid even if it is not counted,
    /// because counts do not affect verdicts.
    fn has_room_to_count(&self, claim: Claim, flag: u8, fingerprint: &Fingerprint) -> bool {
        self.spam.is_counted(claim, flag, fingerprint) || self.ensure_room(Book::Votes, Standing::Own).is_ok()
    }

    /// Records a claim and changes the books accordingly, without counting it.
    pub(super) fn weigh(
        &mut self,
        by: &By,
        claim: Claim,
        fingerprint: &Fingerprint,
        made: ClaimSite,
    ) -> Result<ClaimEffect, Refusal> {
        let entry = self.spam.entry(fingerprint);
        let room = self.room_for_claim(by, claim, &entry, made);
        if by.reporter.standing.is_anchor() {
            room?;
        }
        let is_late = made == ClaimSite::NodeEarlier;
        let has_room = !is_late && room.is_ok() && (claim == Claim::Revoke || self.spam.can_list(&entry));
        let listing = Listing { listed: entry.is_spam(), revoked: entry.is_revoked() };
        let change = self.trust.claim(self.now, &by.reporter, *fingerprint, claim, listing, has_room)?;
        if is_late {
            return Ok(ClaimEffect { change, is_listed_now: false });
        }
        self.change_book(change, &entry, by, claim, fingerprint, made);
        let is_renewed = renews(by, claim, &entry);
        if is_renewed && !matches!(change, Change::List) {
            self.list(fingerprint, &entry, by, made);
        }
        let is_listed_now = (is_renewed || matches!(change, Change::List)) && !entry.listed.contains(0);
        Ok(ClaimEffect { change, is_listed_now })
    }

    /// Applies the decision of `trust` to the spam book.
    fn change_book(
        &mut self,
        change: Change,
        entry: &Entry,
        by: &By,
        claim: Claim,
        fingerprint: &Fingerprint,
        made: ClaimSite,
    ) {
        match change {
            Change::List => self.list(fingerprint, entry, by, made),
            Change::Revoke => self.revoke(fingerprint, entry, by, made),
            // An anchor claimed a signature that stays revoked. Renew the revocation, so that it does not expire.
            Change::Nothing if entry.is_revoked() && by.reporter.standing.is_anchor() => {
                if entry.revoked.contains(0) || self.ensure_room(Book::Revoked, by.reporter.standing).is_ok() {
                    self.revoke(fingerprint, entry, by, made);
                }
            }
            // An own user revoked a signature that is not listed. Record the revocation in the book, so that it still
            // holds after the nursery has evicted the claim.
            Change::Nothing if claim == Claim::Revoke && by.reporter.standing == Standing::Own && !entry.is_spam() => {
                self.revoke(fingerprint, entry, by, made);
            }
            Change::Nothing => {}
        }
    }

    /// Lists a signature in this generation. `entry` is its state in the book.
    fn list(&mut self, fingerprint: &Fingerprint, entry: &Entry, by: &By, made: ClaimSite) {
        self.spam.list(fingerprint, entry);
        self.export_signature(Book::Listed, fingerprint);
        if !entry.listed.contains(0) {
            self.charge_claim(by, Book::Listed, made);
        }
    }

    /// Revokes a signature. `entry` is its state in the book.
    fn revoke(&mut self, fingerprint: &Fingerprint, entry: &Entry, by: &By, made: ClaimSite) {
        self.spam.revoke(fingerprint);
        // Also add the signature to a set that is being rebuilt, unless only forgotten servers support the revocation.
        self.join_shadow(Book::Revoked, self.spam.epoch(), &[*fingerprint]);
        if !entry.revoked.contains(0) {
            self.export_signature(Book::Revoked, fingerprint);
            self.charge_claim(by, Book::Revoked, made);
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
        let believed = self.believed_targets(by, targets);
        let mut refusal = Refusal::Whitelisted;
        for fingerprint in fingerprints.iter().filter(|fingerprint| self.whitelist.contains(fingerprint).is_none()) {
            match self.room_for_count(by, fingerprint, believed) {
                Ok(_) => return Ok(()),
                Err(refused) => refusal = refused,
            }
        }
        // A report is admitted even if all its signatures are whitelisted. The answer then has zero totals.
        if refusal == Refusal::Whitelisted { Ok(()) } else { Err(refusal) }
    }

    /// Returns the number of recipients accepted in one report. Accounts with weight may report up to fifteen
    /// recipients, because a higher count needs a record. Accounts without weight may report one recipient.
    fn believed_targets(&self, by: &By, targets: u32) -> u32 {
        let most = match by.reporter.standing {
            standing if standing.is_anchor() => MANY,
            _ if self.trust.weighs(self.now, &by.reporter) => ACCOUNT_TARGETS_MAX,
            _ => 1,
        };
        targets.min(most)
    }

    pub(super) fn count(&mut self, by: &By, targets: u32, fingerprints: &[Fingerprint]) -> Outcome {
        let targets = self.believed_targets(by, targets);
        let (mut totals, mut refused, mut reason) = (Vec::with_capacity(fingerprints.len()), 0, None);
        for fingerprint in fingerprints {
            if self.whitelist.contains(fingerprint).is_some() {
                totals.push(BulkTotals::default());
                continue;
            }
            match self.room_for_count(by, fingerprint, targets) {
                Ok(Count { amount, charge, is_whole }) => {
                    self.charge(Book::Recipients, by, charge);
                    totals.push(self.count_one(fingerprint, amount));
                    if !is_whole {
                        (refused, reason) = (refused + 1, Some(self.book_full(Book::Recipients)));
                    }
                }
                Err(refusal) => {
                    (refused, reason) = (refused + 1, Some(refusal));
                    let total = self.bulk.total(fingerprint);
                    totals.push(BulkTotals { previous: total, current: total });
                }
            }
        }
        Outcome::Counted { totals, refused, reason }
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

    /// Checks that a text may be stored. The index has limited space, and a flood would evict other texts. Only own
    /// users may store a text under a fingerprint that is not derived from it. Otherwise, any reporter could store good
    /// mail under the fingerprint of listed spam.
    pub(super) fn admit_text(&self, by: &By, fingerprint: &Fingerprint, text: &Text) -> Result<(), Refusal> {
        // Own users may use any fingerprint, so hash the text only for other reporters.
        if admit_own(by).is_err() && text.fingerprint(self.realm.key()) != *fingerprint {
            return Err(Refusal::NotOwn);
        }
        self.admit_teaching(by, self.replicas.fill().1)
    }

    /// Checks that a text with shingles may be stored. Only own users may change the shingles of a known digest.
    pub(super) fn admit_shingles(&self, by: &By, digest: &Digest) -> Result<(), Refusal> {
        if admit_own(by).is_err() && self.shingles.knows(digest) {
            return Err(Refusal::NotOwn);
        }
        self.admit_teaching(by, records_within(self.plan.shingle_bytes))
    }

    fn admit_teaching(&self, by: &By, capacity: u64) -> Result<(), Refusal> {
        if !self.trust.weighs(self.now, &by.reporter) {
            return Err(Refusal::Stranger);
        }
        ensure_arrived(self.spam.epoch(), by.now.epoch(self.realm.spam_epoch_seconds()))?;
        self.ensure_text_share(by, capacity)
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
        let is_known = |protocol, name: &[u8]| self.accounts.get(protocol, name).is_some();
        match change {
            AccountChange::Register { name, credential, .. } if is_known(credential.protocol(), name) => {
                Err(RegisterError::NameTaken.into())
            }
            AccountChange::Register { registration, .. } => self.admit_registration(*registration),
            AccountChange::Update { protocol, name, .. } if is_known(*protocol, name) => Ok(()),
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
            AccountChange::Register { name, credential, group, standing, registration } => {
                let (credential, group, standing, registration) = (*credential, *group, *standing, *registration);
                let account = Account { credential, group, standing, created: self.now, enabled: true, registration };
                self.register_account(name, account)
            }
            AccountChange::Update { protocol, name, update } => Ok(self.accounts.update(*protocol, name, update)?),
            AccountChange::Remove(protocol, name) => Ok(self.accounts.remove(*protocol, name)?),
            AccountChange::Enable(protocol, name) => Ok(self.accounts.enable(*protocol, name)?),
            AccountChange::Disable(protocol, name) => Ok(self.accounts.disable(*protocol, name)?),
            AccountChange::Rotate { name, credential } => Ok(self.accounts.rotate(name, *credential)?),
        }
    }

    /// Adds an account, evicting another one if the table is full.
    fn register_account(&mut self, name: &[u8], account: Account) -> Result<(), Refusal> {
        // Legacy registrations come from journals of a version that never evicted accounts, so there was a free entry
        // for each of them.
        if account.registration == Registration::Legacy {
            return Ok(self.accounts.insert(name, account)?);
        }
        let protocol = account.credential.protocol();
        if self.accounts.get(protocol, name).is_some() {
            return Err(RegisterError::NameTaken.into());
        }
        let Some((protocol, oldest)) = self.account_to_evict(account.registration)? else {
            return Ok(self.accounts.insert(name, account)?);
        };
        let removed = self.accounts.get(protocol, &oldest).cloned();
        self.accounts.remove(protocol, &oldest)?;
        let inserted = self.accounts.insert(name, account);
        if let (Err(_), Some(removed)) = (inserted, removed) {
            self.accounts.insert(&oldest, removed)?;
        }
        Ok(inserted?)
    }

    /// Returns the account to evict for a new one, or `None` if the table has a free entry. A quarter of the table is
    /// reserved for accounts created by the operator.
    fn account_to_evict(&self, registration: Registration) -> Result<Option<AccountKey>, Refusal> {
        if self.has_account_room(registration) {
            return Ok(None);
        }
        let evicted = self.accounts.oldest_evictable(self.realm.key(), |id| self.is_confirmed(id));
        evicted.map(Some).ok_or(Refusal::AccountsFull)
    }

    /// Checks that the table has a free entry for a new account, or an account to evict.
    fn admit_registration(&self, registration: Registration) -> Result<(), Refusal> {
        let is_admitted = self.has_account_room(registration)
            || self.accounts.has_evictable(self.realm.key(), |id| self.is_confirmed(id));
        if is_admitted { Ok(()) } else { Err(Refusal::AccountsFull) }
    }

    fn has_account_room(&self, registration: Registration) -> bool {
        let is_self_registered = registration == Registration::Itself;
        let limit = if is_self_registered { self.self_registered_limit() } else { self.account_capacity() };
        (self.accounts.len() as u64) < limit
    }

    /// Returns true if a reporter has earned trust. The account of such a reporter is not evicted.
    fn is_confirmed(&self, reporter_id: u64) -> bool {
        let view = self.trust.reporter(self.now, reporter_id);
        view.is_some_and(|view| view.confirmed > 0 || view.weight > 0.0)
    }

    /// Returns the number of accounts at which new self-registered accounts begin to evict others.
    #[must_use]
    pub fn self_registered_limit(&self) -> u64 {
        self.account_capacity() / 4 * 3
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

    /// Returns the maximum number of whitelisted signatures.
    pub(super) fn whitelist_capacity(&self) -> u64 {
        self.plan.whitelist_capacity()
    }

    /// Returns the maximum number of accounts.
    #[must_use]
    pub fn account_capacity(&self) -> u64 {
        self.plan.account_capacity()
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

    /// Replaces the policy and re-evaluates all stored claims under it.
    pub(super) fn change_policy(&mut self, policy: &Policy) -> Result<(), Refusal> {
        let mut bytes = Vec::new();
        self.trust.encode(&mut bytes);
        let changed = Trust::decode(policy.clone(), self.plan.trust_bytes, &mut Reader::new(&bytes));
        self.trust = changed.map_err(|_| Refusal::PolicyUnfit)?;
        Ok(())
    }
}
