//! Replies to Razor requests. They depend on the clearinghouse, and on the rights and limits of the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bruit_engine::accounts::razor::RazorVerifier;
use bruit_engine::accounts::{
    self, Account, AccountChange, Credential, CredentialError, RegisterError, Registration, Secret,
};
use bruit_engine::event::{By, Event, FINGERPRINTS_MAX};
use bruit_engine::message::{is_claimed, is_good_file};
use bruit_engine::signature::fingerprint_of_bytes;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::verdict::{Kind, Reason, Verdict};
use bruit_engine::{CheckScratch, Outcome, Refusal};
use bruit_filters::Fingerprint;
use bruit_protocols::razor::{Action, ErrorCode, Reply, ReportedPart, ReportedParts, Signature};
use bruit_signatures::{Scheme, hex};
use bruit_store::SubmitError;
use tokio::sync::oneshot;

use crate::config::Settings;
use crate::log::{self, Line, RequestDescription};
use crate::metrics::{Disposition, Interface};
use crate::service::{Limited, Service};
use crate::sources::Source;

/// Number of random bytes in a challenge, and in a generated name or password. They are written in hexadecimal.
const RANDOM_BYTES: usize = 10;

/// Delay after a wrong password. It makes guessing passwords over a connection impractical.
const WRONG_PASSWORD_PAUSE: Duration = Duration::from_secs(1);

/// Responds to the requests of one connection.
pub(super) struct Responder {
    service: Arc<Service>,
    settings: Arc<Settings>,
    source: Source,
    scratch: CheckScratch,
    fingerprints: Vec<Fingerprint>,
    verdicts: Vec<Verdict>,
    /// The result of the current request. If its signatures have different results, the one that comes first in
    /// [`Disposition::ALL`] counts.
    answered: AtomicUsize,
    /// The account as it was at login. The session ends if the account has since been changed, removed or registered
    /// again.
    session: Option<Account>,
}

/// The reporter of a claim, or the error if the caller may not make the claim.
type Claimant = Result<Reporter, ErrorCode>;

impl Responder {
    pub(super) fn new(service: Arc<Service>, settings: Arc<Settings>, source: Source) -> Self {
        let (scratch, fingerprints, verdicts) = Default::default();
        let answered = AtomicUsize::new(usize::MAX);
        Self { service, settings, source, scratch, fingerprints, verdicts, answered, session: None }
    }

    /// Returns the replies to a request. `user` is the authenticated user, if there is one.
    pub(super) async fn find(&mut self, question: Action, user: Option<&[u8]>) -> Vec<Reply> {
        let began = Instant::now();
        let described = log::is_on().then(|| describe(&question, user));
        let replies = if self.admits(Limited::Request) {
            self.answer(question, user).await
        } else {
            vec![self.refuse(ErrorCode::LIMITED, Disposition::Limited); things(&question)]
        };
        let answered = self.take_answered();
        self.service.metrics.of(Interface::Razor).record(answered, began.elapsed());
        if let Some(described) = described {
            self.write_line(described, answered, replies.iter().find_map(reason));
        }
        replies
    }

    /// Counts and logs a request that the conversation itself rejected.
    pub(super) fn note_malformed(&self) {
        self.service.metrics.of(Interface::Razor).record(Disposition::Malformed, Duration::ZERO);
        if log::is_on() {
            self.write_line(RequestDescription::new("unreadable", None, 0), Disposition::Malformed, None);
        }
    }

    fn write_line(&self, described: RequestDescription, answered: Disposition, reason: Option<&str>) {
        let is_check =
            described.operation == "check" && !matches!(answered, Disposition::Limited | Disposition::Refused);
        let judged = self.fingerprints.iter().zip(&self.verdicts).filter(|_| is_check && log::is_trace_on());
        Line {
            protocol: Interface::Razor,
            from: self.source.address,
            described,
            answered,
            reason: reason.map(ToOwned::to_owned),
            judged: judged.map(|(fingerprint, verdict)| (*fingerprint, *verdict)).collect(),
        }
        .write();
    }

    async fn answer(&mut self, question: Action, user: Option<&[u8]>) -> Vec<Reply> {
        match question {
            Action::Check(signatures) => self.check(&signatures, user),
            Action::Report(signatures) => {
                let signatures: Vec<_> = signatures.into_iter().map(Signature::E4).collect();
                self.report(&signatures, user).await
            }
            Action::ReportBodies(parts) => vec![self.report_bodies(&parts, user).await],
            Action::Revoke(signatures) => self.revoke(&signatures, user).await,
            Action::Register { user, password } => vec![self.register(user, password).await],
            Action::Challenge { .. } => vec![self.challenge()],
            Action::Verify { user, challenge, response } => vec![self.verify(&user, &challenge, &response).await],
            Action::Reply(_) | Action::Pause | Action::Close => Vec::new(),
        }
    }

    fn check(&mut self, signatures: &[Signature], user: Option<&[u8]>) -> Vec<Reply> {
        let reporter = self.reporter(user).unwrap_or_else(|| self.source.reporter(&self.service.key));
        let standing = reporter.standing;
        if !self.settings.razor.rights.check.includes(standing) {
            return vec![self.refuse(ErrorCode::FORBIDDEN, Disposition::Refused); signatures.len()];
        }
        self.fingerprints.clear();
        self.fingerprints.extend(signatures.iter().map(|signature| fingerprint(&self.service, signature)));
        self.verdicts.resize(signatures.len(), Verdict::default());
        self.service.store.check(|engine| {
            engine.check_batch(&self.fingerprints, 0, &mut self.verdicts, &mut self.scratch);
        });
        if self.settings.razor.count_checks {
            self.count_recipient(signatures, reporter);
        }
        self.verdicts.iter().for_each(|verdict| self.count(verdict.kind.into()));
        self.verdicts.iter().map(|verdict| opinion(verdict, self.settings.razor.confidence)).collect()
    }

    /// If the caller may report, counts one recipient of each part, without waiting for the disk.
    fn count_recipient(&self, signatures: &[Signature], reporter: Reporter) {
        let may_report = self.settings.razor.rights.report.includes(reporter.standing);
        let parts = signatures.iter().zip(&self.fingerprints).filter(|(one, _)| one.scheme() == Scheme::RazorE4);
        let mut fingerprints: Vec<Fingerprint> = parts.map(|(_, fingerprint)| *fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        fingerprints.truncate(FINGERPRINTS_MAX);
        let (service, things) = (&self.service, fingerprints.len() as u32);
        let admits = || service.admits_claims(&reporter, &self.source, things, &self.settings, service.uptime());
        if !may_report || reporter.standing == Standing::Stranger || fingerprints.is_empty() || !admits() {
            return;
        }
        let by = By { now: service.now(), reporter };
        let (sender, receiver) = oneshot::channel();
        let event = Event::Bulk { by, targets: 1, fingerprints };
        service.store.submit_with(vec![event], move |result| drop(sender.send(result)));
        let service = Arc::clone(service);
        tokio::spawn(async move {
            if let Ok(result) = receiver.await {
                service.note(&result);
            }
        });
    }

    /// Counts the report of each signature that is listed in the current generation. For any other signature, requests
    /// the mail from the client.
    async fn report(&self, signatures: &[Signature], user: Option<&[u8]>) -> Vec<Reply> {
        let by = match self.claimant(user, Claim::Report, signatures.len()) {
            Ok(reporter) => By { now: self.service.now(), reporter },
            Err(code) => return vec![Reply::Error(code); signatures.len()],
        };
        let fingerprints: Vec<_> = signatures.iter().map(|signature| fingerprint(&self.service, signature)).collect();
        let is_listed: Vec<bool> = self.service.store.check(|engine| {
            fingerprints.iter().map(|fingerprint| is_listed_now(&engine.check(fingerprint, 0))).collect()
        });
        let listed = fingerprints.iter().zip(&is_listed).filter(|(_, is_listed)| **is_listed);
        let events = listed.map(|(fingerprint, _)| claim(by, Claim::Report, vec![*fingerprint])).collect();
        let mut counted = self.submit(events).await.into_iter();
        let answer = |is_listed: bool| match is_listed {
            true => counted.next().unwrap_or(Reply::Error(ErrorCode::UNAVAILABLE)),
            false => Reply::Error(ErrorCode::BODY_WANTED),
        };
        is_listed.into_iter().map(answer).collect()
    }

    /// Makes one claim for each part that identifies the mail, with all signatures of the part. Returns one reply,
    /// which is an error unless all parts were accepted.
    async fn report_bodies(&self, reported: &ReportedParts, user: Option<&[u8]>) -> Reply {
        let is_good = |part: &ReportedPart| {
            part.file.is_some_and(|file| self.service.store.check(|engine| is_good_file(engine, &file.0)))
        };
        let is_claimed =
            |part: &&ReportedPart| is_claimed(Scheme::RazorE4, part.piece, &reported.outline) && !is_good(part);
        let parts: Vec<&ReportedPart> = reported.parts.iter().filter(is_claimed).collect();
        let by = match self.claimant(user, Claim::Report, parts.len()) {
            Ok(reporter) => By { now: self.service.now(), reporter },
            Err(code) => return Reply::Error(code),
        };
        let events = parts.iter().map(|part| {
            let signatures = part.signatures.iter();
            let fingerprints = signatures.map(|signature| fingerprint(&self.service, signature)).collect();
            claim(by, Claim::Report, fingerprints)
        });
        let replies = self.submit(events.collect()).await;
        replies.into_iter().find(|reply| *reply != Reply::Done).unwrap_or(Reply::Done)
    }

    async fn revoke(&self, signatures: &[Signature], user: Option<&[u8]>) -> Vec<Reply> {
        let by = match self.claimant(user, Claim::Revoke, signatures.len()) {
            Ok(reporter) => By { now: self.service.now(), reporter },
            Err(code) => return vec![Reply::Error(code); signatures.len()],
        };
        let event = |signature| claim(by, Claim::Revoke, vec![fingerprint(&self.service, signature)]);
        self.submit(signatures.iter().map(event).collect()).await
    }

    /// Returns the reporter of a claim about `things` signatures, or the error if the claim is not allowed.
    fn claimant(&self, user: Option<&[u8]>, claim: Claim, things: usize) -> Claimant {
        let refused = |code, answered| {
            self.count(answered);
            Err(code)
        };
        let rights = &self.settings.razor.rights;
        let right = if claim == Claim::Report { rights.report } else { rights.revoke };
        let Some(reporter) = self.reporter(user) else {
            return refused(ErrorCode::NOT_AUTHENTICATED, Disposition::Unverified);
        };
        if !right.includes(reporter.standing) {
            return refused(ErrorCode::FORBIDDEN, Disposition::Refused);
        }
        let (service, things) = (&self.service, u32::try_from(things).unwrap_or(u32::MAX));
        if service.admits_claims(&reporter, &self.source, things, &self.settings, service.uptime()) {
            return Ok(reporter);
        }
        refused(ErrorCode::LIMITED, Disposition::Limited)
    }

    /// Returns the reporter. For a session, this is its account, if the account is unchanged since login. For an
    /// anonymous client, it is the network. Returns `None` if the session is over.
    fn reporter(&self, user: Option<&[u8]>) -> Option<Reporter> {
        let key = &self.service.key;
        let Some(user) = user else { return Some(self.source.reporter(key)) };
        self.service.store.check(|engine| {
            let account = engine.accounts().get(accounts::Protocol::Razor, user)?;
            self.session.as_ref().filter(|session| session.enabled && *session == account)?;
            Some(self.source.reporter_as(user, account, key))
        })
    }

    /// Submits events and waits until they are on disk. Returns a reply for each.
    async fn submit(&self, events: Vec<Event>) -> Vec<Reply> {
        let count = events.len();
        let replies: Vec<_> = match self.outcomes(events).await {
            Ok(outcomes) => outcomes.iter().map(taken).collect(),
            Err(_) => vec![Reply::Error(ErrorCode::UNAVAILABLE); count],
        };
        replies.iter().for_each(|reply| self.count(became(reply)));
        replies
    }

    async fn outcomes(&self, events: Vec<Event>) -> Result<Vec<Outcome>, SubmitError> {
        let (sender, receiver) = oneshot::channel();
        // A closed connection needs no reply.
        self.service.store.submit_with(events, move |result| drop(sender.send(result)));
        let result = receiver.await.unwrap_or(Err(SubmitError::Closed));
        self.service.note(&result);
        result
    }

    /// Registers an account. All accounts registered from one network form one group, until the operator assigns them
    /// to other groups.
    async fn register(&self, user: Option<Vec<u8>>, password: Option<Vec<u8>>) -> Reply {
        let standing = self.source.reporter(&self.service.key).standing;
        if !self.settings.razor.register.includes(standing) {
            return self.refuse(ErrorCode::FORBIDDEN, Disposition::Refused);
        }
        if !self.admits(Limited::Costly) {
            return self.refuse(ErrorCode::LIMITED, Disposition::Limited);
        }
        let (Some(user), Some(password)) = (user.or_else(random), password.or_else(random)) else {
            return self.refuse(ErrorCode::UNAVAILABLE, Disposition::Failed);
        };
        let is_listed = self.settings.passwords.judge(&password).map_err(CredentialError::from);
        let credential = match is_listed.and_then(|()| Credential::new(&user, &Secret::Razor { password: &password })) {
            Ok(credential) => credential,
            Err(error) => return self.refuse(not_a_credential(&error), Disposition::Refused),
        };
        // Check this limit last, so that only valid registrations count towards it. All networks share it.
        if !self.admits_registration() {
            return self.refuse(ErrorCode::LIMITED, Disposition::Limited);
        }
        let group = self.source.network(&self.service.key);
        let name = user.clone().into();
        let (standing, registration) = (Standing::Account, Registration::Itself);
        let change = AccountChange::Register { name, credential, group, standing, registration };
        match self.outcomes(vec![Event::Account { now: self.service.now(), change }]).await.as_deref() {
            Ok([Outcome::Refused(refusal)]) => {
                let code = not_registered(*refusal);
                let is_limited = code == ErrorCode::LIMITED;
                self.refuse(code, if is_limited { Disposition::Limited } else { Disposition::Refused })
            }
            Ok(_) => {
                self.count(Disposition::Accepted);
                Reply::Registered { user, password }
            }
            Err(_) => self.refuse(ErrorCode::UNAVAILABLE, Disposition::Failed),
        }
    }

    /// Returns a challenge for any name, to hide which accounts exist.
    fn challenge(&self) -> Reply {
        let Some(challenge) = random() else { return self.refuse(ErrorCode::UNAVAILABLE, Disposition::Failed) };
        self.count(Disposition::Other);
        Reply::Challenge(challenge)
    }

    async fn verify(&mut self, user: &[u8], challenge: &[u8], response: &[u8]) -> Reply {
        // Verify after the engine is unlocked, because the hashes take longer than a lookup.
        let account =
            self.service.store.check(|engine| engine.accounts().get(accounts::Protocol::Razor, user).cloned());
        self.session = verified(account, challenge, response);
        if self.session.is_some() {
            self.count(Disposition::Other);
            return Reply::Done;
        }
        self.count(Disposition::Unverified);
        tokio::time::sleep(WRONG_PASSWORD_PAUSE).await;
        Reply::Refused
    }

    /// Returns true if the limit on registrations from all networks together admits another one. Own networks are not
    /// limited.
    fn admits_registration(&self) -> bool {
        self.source.is_own || self.service.admits_registration(&self.settings, self.service.uptime())
    }

    fn admits(&self, kind: Limited) -> bool {
        self.service.admits(&self.source, kind, &self.settings, self.service.uptime())
    }

    fn refuse(&self, code: ErrorCode, answered: Disposition) -> Reply {
        self.count(answered);
        Reply::Error(code)
    }

    /// Records the result for one item of a request.
    fn count(&self, answered: Disposition) {
        self.answered.fetch_min(answered as usize, Ordering::Relaxed);
    }

    /// Returns and resets the result of the request just answered.
    fn take_answered(&self) -> Disposition {
        let first = self.answered.swap(usize::MAX, Ordering::Relaxed);
        Disposition::ALL.get(first).copied().unwrap_or(Disposition::Other)
    }
}

/// Describes a request for the log.
fn describe(question: &Action, user: Option<&[u8]>) -> RequestDescription {
    let (operation, user) = match question {
        Action::Check(_) => ("check", user),
        Action::Report(_) | Action::ReportBodies(_) => ("report", user),
        Action::Revoke(_) => ("revoke", user),
        Action::Register { user, .. } => ("register", user.as_deref()),
        Action::Challenge { user } => ("challenge", Some(&**user)),
        Action::Verify { user, .. } => ("verify", Some(&**user)),
        Action::Reply(_) | Action::Pause | Action::Close => ("none", user),
    };
    let signatures = match question {
        Action::ReportBodies(reported) => reported.parts.iter().map(|part| part.signatures.len()).sum(),
        Action::Check(_) | Action::Report(_) | Action::Revoke(_) => things(question),
        _ => 0,
    };
    RequestDescription::new(operation, user, signatures)
}

/// Returns the reason for a refusal, if the reply has one.
const fn reason(reply: &Reply) -> Option<&'static str> {
    match reply {
        Reply::Error(ErrorCode::USER_EXISTS) => Some("the name is taken"),
        Reply::Error(ErrorCode::NAME_REFUSED) => Some("the name is not allowed"),
        Reply::Error(ErrorCode::PASSWORD_REFUSED) => Some("the password is too short, too long or too common"),
        Reply::Error(ErrorCode::UNKNOWN_USER) => Some("unknown account"),
        Reply::Error(ErrorCode::BODY_WANTED) => Some("not listed: requested the parts of the mail"),
        _ => None,
    }
}

/// Returns the number of replies that a request needs.
const fn things(question: &Action) -> usize {
    match question {
        Action::Check(signatures) | Action::Revoke(signatures) => signatures.len(),
        Action::Report(signatures) => signatures.len(),
        _ => 1,
    }
}

fn fingerprint(service: &Service, signature: &Signature) -> Fingerprint {
    fingerprint_of_bytes(&service.key, signature.scheme(), signature.bytes())
        .expect("Razor's signatures have a valid length")
}

fn claim(by: By, claim: Claim, fingerprints: Vec<Fingerprint>) -> Event {
    Event::Claim { by, claim, flag: 0, fingerprints }
}

/// Returns the reply for a verdict. Clients treat a part as spam if its confidence is at least `recommended`.
fn opinion(verdict: &Verdict, recommended: u8) -> Reply {
    match (verdict.kind, verdict.reason) {
        (Kind::Spam, _) => Reply::Spam { confidence: verdict.confidence, contested: false },
        (_, Reason::Suspected) => Reply::Spam {
            confidence: verdict.confidence.min(recommended.saturating_sub(1)),
            contested: verdict.counts.revoke_count > 0,
        },
        _ => Reply::NotSpam,
    }
}

/// Returns true if the signature is listed in the current generation. The signatures of the mail's links are then
/// listed, too.
const fn is_listed_now(verdict: &Verdict) -> bool {
    matches!(verdict.kind, Kind::Spam) && verdict.generations.contains(0)
}

/// Returns the reply to a claim. Claims about whitelisted signatures are ignored, but the reply does not reveal this.
fn taken(outcome: &Outcome) -> Reply {
    match outcome {
        Outcome::Refused(Refusal::Whitelisted) => Reply::Done,
        outcome => match outcome.refusal() {
            Some(refusal) if refusal.is_temporary() => Reply::Error(ErrorCode::LIMITED),
            Some(_) => Reply::Refused,
            None => Reply::Done,
        },
    }
}

fn became(reply: &Reply) -> Disposition {
    match reply {
        Reply::Done => Disposition::Accepted,
        Reply::Error(_) => Disposition::Failed,
        _ => Disposition::Refused,
    }
}

const fn not_a_credential(error: &CredentialError) -> ErrorCode {
    match error {
        CredentialError::Name(_) => ErrorCode::NAME_REFUSED,
        _ => ErrorCode::PASSWORD_REFUSED,
    }
}

const fn not_registered(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Register(RegisterError::NameTaken) => ErrorCode::USER_EXISTS,
        Refusal::Register(RegisterError::Name(_)) => ErrorCode::NAME_REFUSED,
        Refusal::Register(RegisterError::Full) | Refusal::AccountsFull => ErrorCode::LIMITED,
        _ => ErrorCode::UNAVAILABLE,
    }
}

/// Returns the account if it is enabled and the response proves its password. Takes equally long if there is no such
/// account.
fn verified(account: Option<Account>, challenge: &[u8], response: &[u8]) -> Option<Account> {
    let account = account.filter(|account| account.enabled);
    let verifier = match account.as_ref().map(|account| account.credential) {
        Some(Credential::Razor(verifier)) => Some(verifier),
        _ => None,
    };
    let nobody = RazorVerifier::of(b"nobody");
    let is_proven = verifier.or(nobody).is_some_and(|verifier| verifier.verify(challenge, response));
    account.filter(|_| is_proven && verifier.is_some())
}

/// Returns random hexadecimal digits, or `None` if the system has no random numbers.
fn random() -> Option<Vec<u8>> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::text(&bytes).into_bytes())
}
