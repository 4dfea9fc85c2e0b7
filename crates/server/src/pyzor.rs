//! Handling of Pyzor requests.
//!
//! `report` and `whitelist` are claims about signatures. The reply to a check consists of counts, which clients compare
//! with their own thresholds. For a listed signature, the counts are therefore high enough to reach these thresholds:
//!
//! | verdict | `Count` | `WL-Count` |
//! |---|---|---|
//! | spam | reports, at least `listed_count` | 0 |
//! | ham | reports, below `listed_count` | revocations, at least 1 |
//! | unknown | 0 | 0 |
//!
//! With `count_checks`, a check also counts one recipient of its digest.
//!
//! `info` is intended for people and returns the recorded counts.

use std::net::SocketAddr;
use std::sync::Arc;

use bruit_engine::accounts::pyzor::is_fresh;
use bruit_engine::accounts::{self, Accounts, Credential};
use bruit_engine::event::{By, Event, FINGERPRINTS_MAX};
use bruit_engine::signature::fingerprint_of_bytes;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter};
use bruit_engine::verdict::{Kind, Verdict};
use bruit_engine::{Engine, Outcome};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_protocols::pyzor::{
    Body, COUNT_MAX, Code, Digest, Op, Reply, Request as PyzorRequest, THREAD_BYTES_MAX, Times,
};
use bruit_signatures::Scheme;
use bruit_store::SubmitError;

use crate::log::RequestDescription;
use crate::metrics::{Disposition, Interface};
use crate::replays::Replays;
use crate::rights::Who;
use crate::service::Service;
use crate::udp::{Batch, Change, Datagrams, LookupResults, NamedAccount, Recipients, Request, Step, refusal_of};

/// Handles Pyzor requests.
pub(crate) struct Pyzor {
    replays: Arc<Replays>,
    /// A buffer for a request's signed bytes and its identity.
    scratch: Vec<u8>,
}

/// A request in progress.
pub(crate) struct PendingPyzor {
    op: Op,
    digest: Fingerprint,
    /// The body of the reply to `info`.
    info: Option<Box<Body>>,
    thread: [u8; THREAD_BYTES_MAX],
    thread_bytes: u8,
}

impl Datagrams for Pyzor {
    const PROTOCOL: Interface = Interface::Pyzor;
    type Decoded<'p> = PyzorRequest<'p>;
    type Pending = PendingPyzor;

    fn decode<'p>(packet: &'p [u8], _from: SocketAddr) -> Result<PyzorRequest<'p>, Disposition> {
        PyzorRequest::decode(packet).ok_or(Disposition::Malformed)
    }

    fn is_named(&self, asked: &PyzorRequest<'_>) -> bool {
        asked.user().is_some()
    }

    fn account(&self, asked: &PyzorRequest<'_>, accounts: &Accounts) -> Option<NamedAccount> {
        NamedAccount::find(accounts, accounts::Protocol::Pyzor, asked.user()?)
    }

    fn start(
        &mut self,
        asked: PyzorRequest<'_>,
        request: &Request<'_>,
        batch: &mut Batch,
        reply: &mut Vec<u8>,
    ) -> Step<PendingPyzor> {
        let mut refuse = |code, answered| {
            Reply { code, thread: asked.thread(), body: Body::Empty }.encode(reply);
            Step::Reply(answered)
        };
        let Some(reporter) = self.reporter(&asked, request) else {
            return refuse(Code::Unauthorized, Disposition::Unverified);
        };
        let (Some(op), None) = (asked.op(), asked.fault()) else {
            return refuse(asked.fault().unwrap_or(Code::Forbidden), Disposition::Malformed);
        };
        if !right(op, request).includes(reporter.standing) {
            return refuse(Code::Forbidden, Disposition::Refused);
        }
        let Some(digest) = asked.first_digest().filter(|_| op != Op::Ping && op != Op::Pong) else {
            let body = if op == Op::Pong { Body::Counts { reports: COUNT_MAX, revokes: 0 } } else { Body::Empty };
            Reply { code: Code::Ok, thread: asked.thread(), body }.encode(reply);
            return Step::Reply(Disposition::Other);
        };
        let waiting = PendingPyzor::new(op, &asked, fingerprint(&request.service.key, digest));
        match op {
            Op::Report => self.claim(&asked, request, reporter, Claim::Report, waiting),
            Op::Whitelist => self.claim(&asked, request, reporter, Claim::Revoke, waiting),
            Op::Ping | Op::Pong | Op::Check | Op::Info => {
                batch.check(waiting.digest);
                if op == Op::Check && request.settings.pyzor.count_checks {
                    asked.duplicate_key(&mut self.scratch);
                    let report = request.settings.pyzor.rights.report;
                    batch.count_recipients(Recipients::one(request, report, reporter, waiting.digest, &self.scratch));
                }
                Step::Check(waiting)
            }
        }
    }

    fn look_up(&mut self, waiting: &mut PendingPyzor, _request: &Request<'_>, engine: &Engine) {
        if waiting.op == Op::Info {
            waiting.info = Some(Box::new(info(engine, &waiting.digest)));
        }
    }

    fn describe(&self, request: &Request<'_>, _waiting: Option<&PendingPyzor>) -> RequestDescription {
        let Some(asked) = PyzorRequest::decode(request.packet) else {
            return RequestDescription::new("unreadable", None, 0);
        };
        RequestDescription::new(asked.op().map_or("unknown", Op::name), asked.user(), asked.digests().count())
    }

    fn answer_check(
        &mut self,
        waiting: &PendingPyzor,
        request: &Request<'_>,
        found: LookupResults<'_>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        let verdict = found.verdicts.first().copied().unwrap_or_default();
        let body = match &waiting.info {
            Some(info) => **info,
            None => counts(&verdict, request.settings.pyzor.listed_count),
        };
        Reply { code: Code::Ok, thread: waiting.thread(), body }.encode(reply);
        verdict.kind.into()
    }

    fn answer_change(
        _service: &Service,
        waiting: &PendingPyzor,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        let (code, answered) = match outcomes.map(refusal_of) {
            Ok(Some(refusal)) if refusal.is_temporary() => (Code::Unavailable, Disposition::Refused),
            Ok(Some(_)) => (Code::Forbidden, Disposition::Refused),
            Ok(None) => (Code::Ok, Disposition::Accepted),
            Err(_) => (Code::Internal, Disposition::Failed),
        };
        Reply { code, thread: waiting.thread(), body: Body::Empty }.encode(reply);
        answered
    }
}

impl Pyzor {
    /// Creates the handler of one thread. All threads share `replays`.
    pub(crate) const fn new(replays: Arc<Replays>) -> Self {
        Self { replays, scratch: Vec::new() }
    }

    /// Identifies the reporter. Returns `None` if the signature or the time of a named user is wrong. Anonymous
    /// requests are not verified, because clients without an account do not sign as the protocol requires.
    fn reporter(&mut self, asked: &PyzorRequest<'_>, request: &Request<'_>) -> Option<Reporter> {
        let Some(user) = asked.user() else { return Some(request.source.reporter(&request.service.key)) };
        let account = request.account.map(|named| &named.account).filter(|account| account.enabled)?;
        let Credential::Pyzor(verifier) = &account.credential else { return None };
        let (time, signature) = (asked.time()?, asked.signature()?);
        if !is_fresh(Time(asked.time_seconds()?), request.now) {
            return None;
        }
        asked.signed_text(&mut self.scratch);
        verifier
            .verify(&self.scratch, time, signature)
            .then(|| request.source.reporter_as(user, account, &request.service.key))
    }

    fn claim(
        &mut self,
        asked: &PyzorRequest<'_>,
        request: &Request<'_>,
        reporter: Reporter,
        claim: Claim,
        waiting: PendingPyzor,
    ) -> Step<PendingPyzor> {
        let key = &request.service.key;
        let mut fingerprints: Vec<Fingerprint> = asked.digests().map(|digest| fingerprint(key, &digest)).collect();
        // Count a message once, even if the request names it repeatedly.
        fingerprints.sort_unstable();
        fingerprints.dedup();
        let by = By { now: request.now, reporter };
        let event = |some: &[Fingerprint]| Event::Claim { by, claim, flag: 0, fingerprints: some.to_vec() };
        let events = fingerprints.chunks(FINGERPRINTS_MAX).map(event).collect();
        asked.duplicate_key(&mut self.scratch);
        if asked.user().is_some() && !self.replays.admits(&self.scratch, request.from, key, request.uptime) {
            return Step::Drop(Disposition::Duplicate);
        }
        self.scratch.extend(request.from.to_string().into_bytes());
        Step::Change(Change { waiting, events, reporter, request: key.fingerprint(&self.scratch) })
    }
}

impl PendingPyzor {
    fn new(op: Op, asked: &PyzorRequest<'_>, digest: Fingerprint) -> Self {
        let mut thread = [0; THREAD_BYTES_MAX];
        let given = asked.thread();
        thread.iter_mut().zip(given).for_each(|(byte, &given)| *byte = given);
        Self { op, digest, info: None, thread, thread_bytes: given.len().min(THREAD_BYTES_MAX) as u8 }
    }

    fn thread(&self) -> &[u8] {
        self.thread.get(..self.thread_bytes.into()).unwrap_or_default()
    }
}

/// Returns the right that an operation needs. Whitelisting needs the right to revoke, because it revokes other
/// reporters' claims.
const fn right(op: Op, request: &Request<'_>) -> Who {
    let rights = &request.settings.pyzor.rights;
    match op {
        Op::Ping | Op::Pong | Op::Check | Op::Info => rights.check,
        Op::Report => rights.report,
        Op::Whitelist => rights.revoke,
    }
}

fn fingerprint(key: &FingerprintKey, digest: &Digest) -> Fingerprint {
    fingerprint_of_bytes(key, Scheme::Pyzor, digest).expect("a digest has a valid length")
}

fn counts(verdict: &Verdict, listed_count: u32) -> Body {
    let claims = verdict.counts;
    let (reports, revokes) = match verdict.kind {
        Kind::Spam => (claims.report_count.max(listed_count), 0),
        Kind::Ham => (claims.report_count.min(listed_count - 1), claims.revoke_count.max(1)),
        Kind::Bulk | Kind::Unknown => (0, 0),
    };
    Body::Counts { reports: reports.into(), revokes: revokes.into() }
}

/// Returns the recorded counts and times. Reports and revocations have the same times, namely when the signature was
/// first and last seen, because times are not recorded separately.
fn info(engine: &Engine, fingerprint: &Fingerprint) -> Body {
    let known = engine.explain(fingerprint);
    let claims = known.verdict.counts;
    let times = |count: u32| match known.seen {
        Some((first, last)) if count > 0 => Times { entered: first.0, updated: last.0 },
        _ => Times::default(),
    };
    Body::Info {
        reported: times(claims.report_count),
        revoked: times(claims.revoke_count),
        reports: claims.report_count.into(),
        revokes: claims.revoke_count.into(),
    }
}
