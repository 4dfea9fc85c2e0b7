//! The end of rspamd's fuzzy storage on the request path.
//!
//! A write is two events: the text, to be found by its digest and shingles, and a claim about the digest's fingerprint, by which
//! the text is judged. A check finds a text and answers what is thought of it:
//!
//! | found | verdict | reply |
//! |---|---|---|
//! | by digest | spam | weight, list, probability 1 |
//! | by shingles | spam | weight, list, how many of 32 agree |
//! | either | anything else | not found |
//! | nothing | | not found |
//! | nothing, or nothing that decides | as many recipients as `bulk` says | recipients, the list of `bulk`, probability 1 |
//!
//! The digest of a reply is the request's: of the stored one only a hash is kept. Neither are times but the hour.
//!
//! A client is known by the address it sends from, or by which of our keys it encrypts to: those of accounts come with the
//! lists that they may write. Only the site's own users delete.

mod encryption;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bruit_engine::accounts::{Account, Credential};
use bruit_engine::event::{By, Event, TextChange};
use bruit_engine::shingles::{Match, SHINGLES};
use bruit_engine::signature::fingerprint_of_digest;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Outcome, Refusal};
use bruit_filters::FingerprintKey;
use bruit_protocols::fuzzy::{
    Buffer, CODE_FORBIDDEN, CODE_SKIPPED, CODE_UNAVAILABLE, Command, Keypair, Nonce, Operation, REPLY_BYTES, Reply,
    SealedRequest, SharedKey,
};
use bruit_store::SubmitError;

use encryption::SharedKeys;
pub(crate) use encryption::Vault;

use crate::config::FuzzyBulk;
use crate::limits::Rate;
use crate::log::Described;
use crate::metrics::{Answered, Language};
use crate::rights::Who;
use crate::service::{Limited, Service};
use crate::udp::{Batch, Change, Datagrams, Found, Recipients, Request, Step};

/// How often strangers, all together, may make a thread compute a shared key, which takes some 80 µs: a sixth of its time.
/// One network alone may do so as often as other costly things ([`Limited::Costly`]).
const STRANGERS_KEYS: Rate = Rate { per_second: 2_000.0, burst: 2_000 };

/// What all strangers are called among the sources of costly things.
const STRANGERS: u64 = 0;

/// rspamd's fuzzy storage.
pub(crate) struct Fuzzy {
    vault: Arc<Vault>,
    shared: SharedKeys,
    scratch: CheckScratch,
    buffer: Buffer,
}

/// A check that waits for its turn, or a change that waits for the disk.
pub(crate) struct Waiting {
    command: Command,
    sealing: Option<Sealing>,
}

/// What a reply is encrypted with.
struct Sealing {
    key: SharedKey,
    nonce: Nonce,
}

/// A command, and who gave it.
struct Asked<'r> {
    waiting: Waiting,
    /// The account whose key it was encrypted to, with its name.
    account: Option<(&'r [u8], &'r Account)>,
    /// The encrypted request it was in.
    sealed: Option<SealedRequest<'r>>,
}

impl Datagrams for Fuzzy {
    const LANGUAGE: Language = Language::Fuzzy;
    type Waiting = Waiting;

    fn decode(&mut self, request: &Request<'_>, batch: &mut Batch, reply: &mut Vec<u8>) -> Step<Waiting> {
        let asked = match self.read(request) {
            Ok(asked) => asked,
            Err(answered) => return Step::Drop(answered),
        };
        let Asked { waiting, .. } = &asked;
        let mut answer = |answer, answered| {
            waiting.write(&answer, &mut self.buffer, reply);
            Step::Reply(answered)
        };
        if !asked.may(request) {
            return answer(Reply::refused(&waiting.command, CODE_FORBIDDEN), Answered::Refused);
        }
        match waiting.command.operation {
            Operation::Check => {
                batch.count_recipients(asked.recipients(request));
                Step::Check(asked.waiting)
            }
            Operation::Write => self.change(asked, request, Claim::Report),
            Operation::Delete => self.change(asked, request, Claim::Revoke),
            Operation::Ping => answer(Reply::pong(&waiting.command), Answered::Other),
            Operation::Stat => {
                let count = request.engine.shingles().len() as u64;
                answer(Reply::records(waiting.command.tag, count), Answered::Other)
            }
        }
    }

    fn describe(&self, request: &Request<'_>, waiting: Option<&Waiting>) -> Described {
        let sealed = SealedRequest::parse(request.packet);
        let account = sealed.as_ref().and_then(|sealed| request.engine.accounts().key_id(&sealed.key_id));
        let plain =
            || Command::decode(request.packet).ok().filter(|_| sealed.is_none()).map(|command| command.operation);
        let operation = match waiting.map(|waiting| waiting.command.operation).or_else(plain) {
            Some(Operation::Check) => "check",
            Some(Operation::Write) => "write",
            Some(Operation::Delete) => "delete",
            Some(Operation::Stat) => "stat",
            Some(Operation::Ping) => "ping",
            None if sealed.is_some() => "encrypted",
            None => "unreadable",
        };
        let is_about_text = matches!(operation, "check" | "write" | "delete");
        Described::new(operation, account.map(|(name, _)| name), usize::from(is_about_text))
    }

    /// Looks a text up. The batch has nothing of it: which record its shingles name comes before what is thought of that.
    fn answer_check(
        &mut self,
        waiting: &Waiting,
        request: &Request<'_>,
        _found: Found<'_>,
        reply: &mut Vec<u8>,
    ) -> Answered {
        let Command { digest, shingles, tag, .. } = &waiting.command;
        let found = request.engine.check_shingles(digest, shingles.as_ref(), &mut self.scratch);
        let kind = found.as_ref().map_or(Kind::Unknown, |(_, verdict)| verdict.kind);
        let bulk = if kind == Kind::Unknown { bulk(&waiting.command, request) } else { None };
        let (answer, kind) = match (&found, bulk) {
            (Some((found, _)), _) if kind == Kind::Spam => (spam(&waiting.command, found), kind),
            (_, Some(bulk)) => (bulk, Kind::Bulk),
            _ => (Reply::not_found(*tag), kind),
        };
        waiting.write(&answer, &mut self.buffer, reply);
        kind.into()
    }

    fn answer_change(
        _service: &Service,
        waiting: &Waiting,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Answered {
        let command = &waiting.command;
        // Nothing is said of a disk that failed: there is no code for it, and the client will try again.
        let Ok(outcomes) = outcomes else { return Answered::Failed };
        let (answer, answered) = match refusal(command.operation, outcomes) {
            Some(code) => (Reply::refused(command, code), Answered::Refused),
            None => (Reply::accepted(command), Answered::Accepted),
        };
        waiting.write(&answer, &mut Buffer::default(), reply);
        answered
    }
}

impl Fuzzy {
    /// The end of one thread; `vault` is what all of them share.
    pub(crate) fn new(vault: Arc<Vault>) -> Self {
        let (shared, scratch) = (SharedKeys::default(), CheckScratch::default());
        Self { vault, shared, scratch, buffer: Buffer::default() }
    }

    /// The command in a datagram, and who gave it.
    fn read<'r>(&mut self, request: &Request<'r>) -> Result<Asked<'r>, Answered> {
        let Some(sealed) = SealedRequest::parse(request.packet) else {
            let command = Command::decode(request.packet).map_err(|_| Answered::Malformed)?;
            return Ok(Asked { waiting: Waiting { command, sealing: None }, account: None, sealed: None });
        };
        let (key, command) = self.open(&sealed, request)?;
        let account = match request.engine.accounts().key_id(&sealed.key_id) {
            _ if sealed.key_id == self.vault.own.public().id() => None,
            Some((name, account)) if account.enabled => Some((name, account)),
            _ => return Err(Answered::Unverified),
        };
        let sealing = Some(Sealing { key, nonce: self.vault.nonces.next() });
        Ok(Asked { waiting: Waiting { command, sealing }, account, sealed: Some(sealed) })
    }

    /// Decrypts a command. That proves that its sender was given the public key he used, and no more.
    fn open(&mut self, sealed: &SealedRequest<'_>, request: &Request<'_>) -> Result<(SharedKey, Command), Answered> {
        let known = self.shared.get(sealed.key_id, sealed.client).filter(|_| self.pair(sealed, request).is_some());
        let (key, is_known) = match known {
            Some(key) => (key.clone(), true),
            None => (self.agree(sealed, request)?, false),
        };
        let plain = key.open_request(sealed, &mut self.buffer).map_err(|_| Answered::Unverified)?;
        let command = Command::decode(plain).map_err(|_| Answered::Malformed)?;
        if !is_known {
            self.shared.insert(sealed.key_id, sealed.client, key.clone());
        }
        Ok((key, command))
    }

    /// Which of our key pairs a request is encrypted to.
    fn pair<'a>(&'a self, sealed: &SealedRequest<'_>, request: &'a Request<'_>) -> Option<&'a Keypair> {
        let own = &self.vault.own;
        if sealed.key_id == own.public().id() { Some(own) } else { request.settings.fuzzy.keys.get(&sealed.key_id) }
    }

    /// Computes the key that is shared with a new client.
    fn agree(&self, sealed: &SealedRequest<'_>, request: &Request<'_>) -> Result<SharedKey, Answered> {
        let pair = self.pair(sealed, request).ok_or(Answered::Unverified)?;
        let Request { service, source, settings, uptime, .. } = request;
        let admits_strangers = || service.limits.costly.admit(STRANGERS, STRANGERS_KEYS, *uptime);
        if !(source.is_own || service.admits(source, Limited::Costly, settings, *uptime) && admits_strangers()) {
            return Err(Answered::Limited);
        }
        pair.shared_key(&sealed.client).map_err(|_| Answered::Unverified)
    }

    /// Makes events of a write or deletion, unless it is a replay.
    fn change(&self, asked: Asked<'_>, request: &Request<'_>, claim: Claim) -> Step<Waiting> {
        let by = By { now: request.now, reporter: asked.reporter(request) };
        let Asked { waiting, sealed, .. } = asked;
        let Request { service, from, uptime, .. } = request;
        let key = &service.key;
        let admits = |sealed: &SealedRequest<'_>| self.vault.replays.admits(sealed.nonce(), *from, key, *uptime);
        if !sealed.as_ref().is_none_or(admits) {
            return Step::Drop(Answered::Duplicate);
        }
        let events = events(&waiting.command, by, claim, key);
        let mut identity = waiting.command.duplicate_key().to_vec();
        identity.extend(from.to_string().into_bytes());
        Step::Change(Change { waiting, events, reporter: by.reporter, request: key.fingerprint(&identity) })
    }
}

impl Waiting {
    /// Writes a reply, encrypted if the command was.
    fn write(&self, answer: &Reply, buffer: &mut Buffer, reply: &mut Vec<u8>) {
        let version = self.command.version;
        match &self.sealing {
            None => reply.extend_from_slice(answer.encode(version, &mut [0; REPLY_BYTES])),
            Some(Sealing { key, nonce }) => reply.extend_from_slice(key.seal_reply(answer, version, nonce, buffer)),
        }
    }
}

impl Asked<'_> {
    /// Whether the one who asks may do that.
    fn may(&self, request: &Request<'_>) -> bool {
        let settings = &request.settings.fuzzy;
        let (Command { operation, value, .. }, standing) = (&self.waiting.command, self.standing(request));
        let is_right = match operation {
            Operation::Check | Operation::Stat | Operation::Ping => settings.rights.check.includes(standing),
            // A stranger's claim would count for nothing, and his text not be kept: better that he knows. Weights only grow.
            Operation::Write => {
                settings.rights.report.min(Who::Accounts).includes(standing) && self.may_write_list() && *value > 0
            }
            Operation::Delete => settings.rights.revoke.includes(standing) && standing == Standing::Own,
        };
        is_right && (self.sealed.is_some() || !settings.encrypted_only)
    }

    /// Whether the list is one that the account may write.
    fn may_write_list(&self) -> bool {
        self.account.is_none_or(|(_, account)| match &account.credential {
            Credential::Fuzzy(key) => key.flags.contains(self.waiting.command.flag),
            _ => false,
        })
    }

    /// The recipient that a check counts, if the operator wants that.
    fn recipients(&self, request: &Request<'_>) -> Option<Recipients> {
        let settings = &request.settings.fuzzy;
        let command = &self.waiting.command;
        let fingerprint = fingerprint_of_digest(&request.service.key, &command.digest);
        let count = || {
            let (report, reporter) = (settings.rights.report, self.reporter(request));
            Recipients::one(request, report, reporter, fingerprint, &command.duplicate_key())
        };
        if settings.count_checks { count() } else { None }
    }

    fn standing(&self, request: &Request<'_>) -> Standing {
        let source = &request.source;
        self.account.map_or_else(|| source.standing(), |(_, account)| source.standing_as(account))
    }

    fn reporter(&self, request: &Request<'_>) -> Reporter {
        let (source, key) = (&request.source, &request.service.key);
        let named = |(name, account)| source.reporter_as(name, account, key);
        self.account.map_or_else(|| source.reporter(key), named)
    }
}

/// The text, and the claim about it, in this order.
fn events(command: &Command, by: By, claim: Claim, key: &FingerprintKey) -> Vec<Event> {
    let change = match claim {
        Claim::Report => TextChange::Write { flag: command.flag, weight: command.value },
        Claim::Revoke => TextChange::Delete,
    };
    let text =
        Event::Shingles { by, change, digest: Box::new(command.digest), shingles: command.shingles.map(Box::new) };
    let fingerprints = vec![fingerprint_of_digest(key, &command.digest)];
    vec![text, Event::Claim { by, claim, flag: 0, fingerprints }]
}

/// The code with which a change is refused, if it was.
///
/// Accounts whose word has no weight yet teach no texts, and those that others taught are not changed by them; their claims are
/// heard all the same.
fn refusal(operation: Operation, outcomes: &[Outcome]) -> Option<i32> {
    let [text, claim] = outcomes else { return Some(CODE_FORBIDDEN) };
    let is_write = operation == Operation::Write;
    match (text.refusal(), claim.refusal()) {
        (_, Some(Refusal::Whitelisted)) => is_write.then_some(CODE_SKIPPED),
        (Some(Refusal::NotOwn | Refusal::Stranger), None) if is_write => None,
        (text, claim) => claim.or(text).map(code),
    }
}

/// The code of a refusal: temporary ones are "unavailable", the others "forbidden".
const fn code(refusal: Refusal) -> i32 {
    if refusal.is_temporary() { CODE_UNAVAILABLE } else { CODE_FORBIDDEN }
}

/// What is answered of a text that is spam.
fn spam(command: &Command, found: &Match) -> Reply {
    let record = &found.record;
    let seconds = u64::from(record.first_hour) * Time::HOUR;
    Reply {
        value: record.weight,
        flag: record.flag.into(),
        probability: f32::from(found.agreed) / SHINGLES as f32,
        digest: command.digest,
        time: u32::try_from(seconds).unwrap_or(u32::MAX),
        ..Reply::not_found(command.tag)
    }
}

/// What is answered of a text that was sent to many, if the operator wants that.
fn bulk(command: &Command, request: &Request<'_>) -> Option<Reply> {
    let FuzzyBulk { flag, threshold } = request.settings.fuzzy.bulk?;
    let fingerprint = fingerprint_of_digest(&request.service.key, &command.digest);
    let verdict = request.engine.check_bulk(&fingerprint, threshold);
    (verdict.kind == Kind::Bulk).then(|| Reply {
        value: i32::try_from(verdict.bulk_count).unwrap_or(i32::MAX),
        flag: flag.into(),
        probability: 1.0,
        digest: command.digest,
        ..Reply::not_found(command.tag)
    })
}
