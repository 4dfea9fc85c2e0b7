//! Handling of a message: traps, one request to the server, the policy.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::http::{Checked, Reason, SENDER_BYTES_MAX, SiteProgram, SiteState, Subject, Verdict};
use bruit_client::spool::{ClaimKind, Destinations, SendLimits, Spool, SpoolError, SpooledReport};
use bruit_client::{CheckOptions, ClientError, Lesson, Purpose, Signer};

use crate::config::{Disagreement, Settings, TrapRspamd};
use crate::greylist::Greylist;
use crate::identity::IdentityKey;
use crate::memory::Memory;
use crate::message::{Draft, FORGED_MAX, Lost};
use crate::metrics::{Metrics, TrapResult};
use crate::outcome::{Decision, Outcome, field, refusal};
use crate::policy::{Action, Class};
use crate::recipients::Joint;
use crate::server::{Deadline, Health, Listings, Remote, RequestKind, Unavailable};
use crate::spool::{SpoolState, ensure_writable};

/// Limits on the part of the spool that is sent at a time.
const SEND_LIMITS: SendLimits = SendLimits { reports: 1_000, time: Duration::from_secs(20) };

/// The reason written into the `X-Bruit` field of a message if the filter panicked on that message.
pub(crate) const FAILED: &str = "failed";

/// The settings, with the clients made from them. A reload creates a new filter; messages in progress keep the old one.
pub(crate) struct Filter {
    pub(crate) settings: Settings,
    pub(crate) shared: Arc<Shared>,
    remote: Remote,
}

/// State that outlives a reload.
pub(crate) struct Shared {
    pub(crate) metrics: Metrics,
    pub(crate) memory: Arc<Memory>,
    /// The state of the server for checks.
    pub(crate) health: Health,
    /// The state of the server for reports of traps.
    pub(crate) trap_health: Health,
    /// The key with which the IDs of messages are computed.
    pub(crate) identity_key: IdentityKey,
    greylist: Greylist,
    signing: Gate,
    listings: Option<Box<dyn Listings>>,
    pub(crate) spool: SpoolState,
}

impl Shared {
    pub(crate) fn new(identity_key: IdentityKey, listings: Option<Box<dyn Listings>>) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            metrics: Metrics::default(),
            memory: Arc::default(),
            health: Health::new(RequestKind::Check),
            trap_health: Health::new(RequestKind::TrapReport),
            identity_key,
            greylist: Greylist::default(),
            signing: Gate::new(processors.max(2)),
            listings,
            spool: SpoolState::default(),
        }
    }
}

impl Filter {
    /// Creates the clients.
    pub(crate) fn new(settings: Settings, shared: Arc<Shared>) -> Result<Self, ClientError> {
        let remote = Remote::new(&settings)?;
        Ok(Self { settings, shared, remote })
    }

    /// Describes the milter to the server's operator. Without this, the operator would see the milter only when it
    /// checks mail.
    pub(crate) fn announce(&self) {
        if let Err(error) = self.remote.announce(self.state()) {
            tracing::debug!(%error, "failed to announce the milter");
        }
    }

    /// Returns the state that the server's operator sees.
    fn state(&self) -> SiteState {
        let Shared { metrics, spool, .. } = &*self.shared;
        let spooled = self.settings.traps.spool.is_some().then(|| spool.waiting());
        SiteState { program: SiteProgram::Milter, spooled, unchecked: Some(metrics.unchecked_total()) }
    }

    /// Sends a part of the spool.
    pub(crate) fn send_spool(&self) {
        let Some(folder) = &self.settings.traps.spool else { return self.shared.spool.note(Ok(0)) };
        // The folder is opened each time, because it may appear or become writable while the milter runs.
        self.shared.spool.note(Spool::open(folder).and_then(|spool| self.send_from(&spool)));
    }

    /// Sends a part of a spool. Returns the number of reports that are still waiting.
    fn send_from(&self, spool: &Spool) -> Result<usize, SpoolError> {
        ensure_writable(spool.folder())?;
        let rspamd = self.settings.traps.rspamd.as_ref().map(|rspamd| &rspamd.controller);
        let sent = spool.send(Destinations { server: self.remote.reports(), rspamd }, SEND_LIMITS)?;
        let is_refused = matches!(sent.error, Some(ClientError::Refused { .. }));
        self.shared.metrics.spool_sent.add(sent.sent as u64);
        self.shared.metrics.rspamd_learned.add(sent.taught as u64);
        self.shared.metrics.trap_refusals.add(u64::from(is_refused) + sent.refused.len() as u64);
        if sent.dropped > 0 || !sent.refused.is_empty() || !sent.damaged.is_empty() {
            let (dropped, refused, damaged) = (sent.dropped, sent.refused.len(), sent.damaged.len());
            tracing::warn!(dropped, refused, damaged, "reports of traps lost: see 'bruit spool'");
        }
        if let Some(error) = sent.faults.first() {
            tracing::warn!(files = sent.faults.len(), %error, "files in the spool cannot be read or changed");
        }
        if let Some(error) = &sent.rspamd_error {
            tracing::warn!(%error, "messages to traps wait for rspamd");
        }
        spool.waiting_count()
    }

    /// Decides what happens to a complete message. If that panics, the message passes.
    pub(crate) fn decide(&self, draft: &Draft) -> Outcome {
        // All state that threads share is behind locks and atomics, and each change to it is complete, so a panic
        // leaves it consistent.
        let decided = panic::catch_unwind(AssertUnwindSafe(|| self.decide_or_panic(draft)));
        decided.unwrap_or_else(|_| {
            tracing::error!(id = draft.queue_id, "failed to filter a message; it passes unchecked");
            self.unchecked(FAILED)
        })
    }

    fn decide_or_panic(&self, draft: &Draft) -> Outcome {
        let metrics = &self.shared.metrics;
        metrics.forged.add(draft.forged.into());
        if let Some(skip) = draft.skip {
            metrics.skipped(skip);
            return Outcome::accept(None);
        }
        if draft.forged > FORGED_MAX {
            return Outcome::refuse("550 5.7.1 too many X-Bruit fields");
        }
        let deadline = Deadline::start(self.settings.server.timeout);
        let traps = &self.settings.traps;
        if draft.recipients.all_traps() {
            let is_safe = self.report(draft, deadline).is_safe();
            // Do not discard the message if its report was lost, because the message is then the only evidence left.
            let decision = if traps.discard && is_safe { Decision::Discard } else { Decision::Accept };
            return Outcome { decision, ..Outcome::unchecked("trap") };
        }
        if traps.any && draft.recipients.has_trap() {
            self.report(draft, deadline.half());
        }
        self.check(draft, deadline)
    }

    /// Reports a message as mail to a trap.
    fn report(&self, draft: &Draft, deadline: Deadline) -> TrapResult {
        let (result, is_new) = match self.trap_report(draft, deadline) {
            Some(report) => self.send_or_spool(draft, report, deadline),
            None => (TrapResult::Lost, false),
        };
        self.shared.metrics.trap(result);
        // rspamd does not recognise a message that is sent again, so a retry must not reach it.
        if is_new && matches!(result, TrapResult::Accepted | TrapResult::Spooled) {
            self.keep_for_rspamd(draft);
        }
        result
    }

    /// Puts a message into the spool, from which it is soon sent to rspamd.
    fn keep_for_rspamd(&self, draft: &Draft) {
        let (Some(rspamd), Some(folder)) = (&self.settings.traps.rspamd, &self.settings.traps.spool) else { return };
        let Ok(bytes) = draft.bytes() else { return self.shared.metrics.rspamd_lost.add(1) };
        let TrapRspamd { flag, weight, trains_bayes, .. } = *rspamd;
        let lesson = Lesson { message: bytes.to_vec(), flag, weight, trains_bayes };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let report = SpooledReport::for_rspamd(ClaimKind::Report, lesson, time);
        // A retry has the same ID. If the retry comes before the message is sent to rspamd, it replaces the message in
        // the spool.
        let report = report.map(|report| SpooledReport { id: draft.identity().to_string(), ..report });
        let stored = report.and_then(|report| Spool::open(folder)?.store(report));
        if let Err(error) = stored {
            tracing::warn!(%error, "a message to a trap was not stored for rspamd");
            self.shared.metrics.rspamd_lost.add(1);
        }
    }

    /// Returns the report of a message, or `None` if it cannot be made.
    fn trap_report(&self, draft: &Draft, deadline: Deadline) -> Option<SpooledReport> {
        let subject = self.sign(Purpose::Claim, draft.bytes().ok()?, deadline)?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match SpooledReport::new(ClaimKind::Report, None, subject, time) {
            // A retry has the same ID, so the server counts the report once.
            Ok(report) => Some(SpooledReport { id: draft.identity().to_string(), ..report }),
            Err(error) => {
                tracing::error!(%error, "report of a trap lost");
                None
            }
        }
    }

    /// Sends a report, or stores it in the spool if the server does not accept it now. Returns the result, and whether
    /// the message is new: false if it is known to be a retry.
    fn send_or_spool(&self, draft: &Draft, report: SpooledReport, deadline: Deadline) -> (TrapResult, bool) {
        let answer = self.shared.trap_health.ask(deadline, |time| self.remote.report(&report, time));
        let is_refused = matches!(answer, Err(Unavailable::Refused | Unavailable::Rejected));
        self.shared.metrics.trap_refusals.add(is_refused.into());
        match answer {
            Ok(claimed) if claimed.accepted > 0 => (TrapResult::Accepted, !claimed.repeated),
            Ok(claimed) => {
                tracing::debug!(id = draft.queue_id, reason = claimed.reason, "report of a trap listed nothing");
                (TrapResult::NothingListed, !claimed.repeated)
            }
            Err(Unavailable::Rejected) => (TrapResult::Refused, true),
            Err(_) => self.spool(report),
        }
    }

    /// Stores a report in the spool. Returns the result, and whether the report is new: false if it was already in the
    /// spool.
    fn spool(&self, report: SpooledReport) -> (TrapResult, bool) {
        let state = &self.shared.spool;
        let Some(folder) = &self.settings.traps.spool else {
            state.note_loss(&"the server does not accept the reports, and no spool is configured");
            return (TrapResult::Lost, true);
        };
        let keep = |spool: Spool| {
            let is_new = !spool.contains(&report.id)?;
            spool.store(report).map(|_| is_new)
        };
        match Spool::open(folder).and_then(keep) {
            Ok(is_new) => (TrapResult::Spooled, is_new),
            Err(error) => {
                state.note_loss(&error);
                state.note(Err(error));
                (TrapResult::Lost, true)
            }
        }
    }

    fn check(&self, draft: &Draft, deadline: Deadline) -> Outcome {
        let bytes = match draft.bytes() {
            Ok(bytes) => bytes,
            Err(lost) => return self.unchecked(lost.name()),
        };
        let Some(subject) = self.sign(Purpose::Check, bytes, deadline) else {
            return self.unchecked(Lost::Busy.name());
        };
        let subject = Subject { sender: sender(&draft.sender), ..subject };
        let key = draft.identity().to_string();
        let recipients = draft.recipients.counted();
        let options = CheckOptions {
            recipients: (recipients > 0).then_some(recipients),
            bulk_threshold: draft.recipients.bulk_threshold(),
        };
        let started = Instant::now();
        match self.shared.health.ask(deadline, |time| self.remote.check(&subject, options, &key, time, self.state())) {
            Ok(checked) => {
                self.shared.metrics.check(started.elapsed());
                self.shared.metrics.recipients.add(recipients.into());
                self.judge(draft, &checked, &subject)
            }
            Err(unavailable) => self.without_server(draft, &subject, unavailable),
        }
    }

    /// Computes the signatures of a message. Returns `None` if too many other messages are being signed.
    fn sign(&self, purpose: Purpose, bytes: &[u8], deadline: Deadline) -> Option<Subject> {
        let _turn = self.shared.signing.enter(deadline.remaining())?;
        Some(Signer::new(purpose).subject(bytes))
    }

    /// Applies the policy to a checked message.
    fn judge(&self, draft: &Draft, checked: &Checked, subject: &Subject) -> Outcome {
        if let Some(reason) = &checked.count_reason {
            self.shared.metrics.uncounted.add(1);
            tracing::debug!(id = draft.queue_id, reason, "not all recipients counted");
        }
        let joint = draft.recipients.joint(checked, &self.settings.disagreement);
        let is_accepted = draft.recipients.is_accepted_by_some(checked);
        // The `X-Bruit` field and the metrics state the verdict for the recipient with the lowest threshold.
        let bulk = draft.recipients.is_bulk(checked).then(|| as_bulk(checked));
        let checked = bulk.as_ref().unwrap_or(checked);
        let class = Class::of(checked);
        let action = match &joint {
            Joint::Same(action) => *action,
            Joint::Tag | Joint::Split(_) => Action::Tag,
        };
        if action <= Action::Tag && !is_accepted && self.greylists(draft, class, subject) {
            self.shared.metrics.message(class, Action::Defer);
            self.shared.metrics.greylisted.add(1);
            return Outcome::refuse("451 4.7.1 try again later");
        }
        self.shared.metrics.message(class, action);
        tracing::debug!(
            id = draft.queue_id,
            verdict = checked.verdict.name(),
            reason = checked.reason.as_str(),
            confidence = checked.confidence,
            action = action.name(),
            "checked"
        );
        let tagged = Outcome::accept(Some(field(checked)));
        match (action, joint) {
            (Action::Reject, _) => self.refuse("550 5.7.1", checked, subject),
            (Action::Defer, _) => self.refuse("451 4.7.1", checked, subject),
            (Action::Quarantine, _) => Outcome { hold: true, ..tagged },
            (Action::Accept, _) => Outcome::accept(None),
            (Action::Tag, Joint::Split(held)) => self.split(tagged, &held),
            (Action::Tag, _) => tagged,
        }
    }

    fn refuse(&self, codes: &str, checked: &Checked, subject: &Subject) -> Outcome {
        Outcome::refuse(&format!("{codes} {}", refusal(&self.settings.refusal, checked, subject)))
    }

    fn split(&self, tagged: Outcome, held: &[&[u8]]) -> Outcome {
        let Disagreement::Split(address) = &self.settings.disagreement else { return tagged };
        self.shared.metrics.split.add(1);
        let remove = held.iter().map(|written| (*written).into()).collect();
        Outcome { remove, add: Some(address.clone()), ..tagged }
    }

    /// Returns true if the message should be deferred because nobody has reported it yet and many recipients have
    /// received it.
    fn greylists(&self, draft: &Draft, class: Class, subject: &Subject) -> bool {
        let Some(settings) = &self.settings.greylist else { return false };
        if !matches!(class, Class::Unknown | Class::Bulk) {
            return false;
        }
        let value = |scheme: &str| subject.signatures.iter().find(|named| named.scheme == scheme);
        let text = ["dcc_fuz1", "dcc_body", "exact"].into_iter().find_map(value);
        let Some(text) = text.map(|named| self.shared.identity_key.hash(named.value.as_bytes())) else { return false };
        let message = draft.identity();
        let recipients = draft.recipients.counted();
        self.shared.greylist.defers(settings, text, message, recipients, Instant::now())
    }

    /// Decides what happens to a message while the server does not answer.
    fn without_server(&self, draft: &Draft, subject: &Subject, reason: Unavailable) -> Outcome {
        let server = &self.settings.server;
        let listed = self
            .shared
            .listings
            .as_ref()
            .zip(server.replica.as_ref())
            .and_then(|(listings, file)| listings.look_up(file, server.replica_max_age, subject));
        tracing::debug!(id = draft.queue_id, reason = reason.name(), listed, "not checked by the server");
        match listed {
            // The replica states no confidence and has false hits for one unknown signature in a hundred, so a hit is
            // no reason to act.
            Some(true) => self.unchecked("in_replica"),
            Some(false) => {
                self.shared.metrics.message(Class::Unknown, Action::Tag);
                Outcome::accept(Some("unknown; confidence=0; reason=not_in_replica".to_owned()))
            }
            None => self.unchecked(reason.name()),
        }
    }

    fn unchecked(&self, reason: &str) -> Outcome {
        self.shared.metrics.unchecked(reason);
        Outcome::unchecked(reason)
    }
}

/// Returns the answer that the server would have given with a lower threshold.
fn as_bulk(checked: &Checked) -> Checked {
    Checked { verdict: Verdict::Bulk, reason: Reason::ManyRecipients, confidence: 0, ..checked.clone() }
}

/// Returns the envelope sender for the server's whitelist of senders, or `None` if it is empty, too long or not UTF-8.
fn sender(envelope: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(envelope).ok()?;
    (1..=SENDER_BYTES_MAX).contains(&text.len()).then(|| text.to_owned())
}

/// Limits the number of threads that compute at the same time.
#[derive(Debug)]
struct Gate {
    free: Mutex<usize>,
    is_free: Condvar,
}

/// A place in a gate, given back on drop.
struct Turn<'a>(&'a Gate);

impl Gate {
    const fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), is_free: Condvar::new() }
    }

    /// Waits for a place, but not longer than `patience`.
    fn enter(&self, patience: Duration) -> Option<Turn<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_free.wait_timeout_while(free, patience, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *free == 0 {
            return None;
        }
        *free -= 1;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.is_free.notify_one();
    }
}

#[cfg(test)]
pub(crate) mod tests;
