//! Handling of requests to rspamd's fuzzy storage.
//!
//! A write makes two events. One stores the text, which can then be found by its digest or its shingles. The other is a
//! claim about the digest's fingerprint, which decides the verdict on the text. A check finds a text and replies with
//! the verdict:
//!
//! | found | verdict | reply |
//! |---|---|---|
//! | by digest | spam | weight, list, probability 1 |
//! | by shingles | spam | weight, list, probability: the share of the 32 shingles that agree |
//! | by either | not spam | not found |
//! | nothing | | not found |
//!
//! If the verdict is unknown or nothing is found, the digest may still have at least `bulk.threshold` recipients. The
//! reply is then the number of recipients, the list of `bulk`, and probability 1.
//!
//! A reply repeats the digest of the request, because only a hash of the stored digest is kept. Times are rounded to
//! whole hours.
//!
//! A client is identified by its source address, or by the public key to which it encrypts. The key of an account also
//! determines the lists that the client may write. Only the site's own users may delete.

mod encryption;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use bruit_engine::accounts::{Accounts, Credential};
use bruit_engine::event::{By, Event, TextChange};
use bruit_engine::shingles::{SHINGLES, ShingleMatch};
use bruit_engine::signature::fingerprint_of_digest;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal};
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
use crate::log::RequestDescription;
use crate::metrics::{Disposition, Interface};
use crate::rights::Who;
use crate::service::{Limited, Service};
use crate::udp::{Batch, Change, Datagrams, LookupResults, NamedAccount, Recipients, Request, Step};

/// Maximum rate at which the server computes shared keys for all strangers together. At about 80 µs per key, this takes
/// a sixth of one thread's time. Each network is also subject to the limit on expensive requests ([`Limited::Costly`]).
const STRANGERS_KEYS: Rate = Rate { per_second: 2_000.0, burst: 2_000 };

/// The rate-limit key shared by all strangers.
const STRANGERS: u64 = 0;

/// Handles requests of rspamd's fuzzy storage.
pub(crate) struct Fuzzy {
    vault: Arc<Vault>,
    shared: SharedKeys,
    scratch: CheckScratch,
    buffer: Buffer,
}

/// A check waiting for its lookup, or a change waiting for the disk.
pub(crate) struct PendingFuzzy {
    command: Command,
    sealing: Option<Sealing>,
    /// The reply to a check, once the text was looked up.
    found: Option<Box<(Reply, Disposition)>>,
}

/// The keys and nonce that encrypt a reply.
struct Sealing {
    key: SharedKey,
    nonce: Nonce,
}

/// A plain command, or an encrypted one.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack; a box would allocate for each request")]
pub(crate) enum DecodedFuzzy<'p> {
    Plain(Command),
    Sealed(SealedRequest<'p>),
}

/// A command and its sender.
struct SentCommand<'r> {
    waiting: PendingFuzzy,
    /// The account to whose key the command was encrypted. `None` for the server's own key and for plain commands.
    account: Option<&'r NamedAccount>,
    /// The encrypted request that contained the command.
    sealed: Option<SealedRequest<'r>>,
}

impl Datagrams for Fuzzy {
    const PROTOCOL: Interface = Interface::Fuzzy;
    type Decoded<'p> = DecodedFuzzy<'p>;
    type Pending = PendingFuzzy;

    fn decode<'p>(packet: &'p [u8], _from: SocketAddr) -> Result<DecodedFuzzy<'p>, Disposition> {
        match SealedRequest::parse(packet) {
            Some(sealed) => Ok(DecodedFuzzy::Sealed(sealed)),
            None => Command::decode(packet).map(DecodedFuzzy::Plain).map_err(|_| Disposition::Malformed),
        }
    }

    fn is_named(&self, decoded: &DecodedFuzzy<'_>) -> bool {
        matches!(decoded, DecodedFuzzy::Sealed(_))
    }

    fn account(&self, decoded: &DecodedFuzzy<'_>, accounts: &Accounts) -> Option<NamedAccount> {
        let DecodedFuzzy::Sealed(sealed) = decoded else { return None };
        let (name, account) = accounts.key_id(&sealed.key_id)?;
        Some(NamedAccount { name: name.into(), account: account.clone() })
    }

    fn start(
        &mut self,
        decoded: DecodedFuzzy<'_>,
        request: &Request<'_>,
        batch: &mut Batch,
        reply: &mut Vec<u8>,
    ) -> Step<PendingFuzzy> {
        let asked = match self.read(decoded, request) {
            Ok(asked) => asked,
            Err(answered) => return Step::Drop(answered),
        };
        let SentCommand { waiting, .. } = &asked;
        let mut answer = |answer, answered| {
            waiting.write(&answer, &mut self.buffer, reply);
            Step::Reply(answered)
        };
        if !asked.may(request) {
            return answer(Reply::refused(&waiting.command, CODE_FORBIDDEN), Disposition::Refused);
        }
        match waiting.command.operation {
            Operation::Check => {
                batch.count_recipients(asked.recipients(request));
                Step::Check(asked.waiting)
            }
            Operation::Write => self.change(asked, request, Claim::Report),
            Operation::Delete => self.change(asked, request, Claim::Revoke),
            Operation::Ping => answer(Reply::pong(&waiting.command), Disposition::Other),
            Operation::Stat => Step::Check(asked.waiting),
        }
    }

    /// Looks up a text. Lookups cannot be batched, because the verdict depends on the record that the shingles match.
    fn look_up(&mut self, waiting: &mut PendingFuzzy, request: &Request<'_>, engine: &Engine) {
        let found = match waiting.command.operation {
            Operation::Stat => {
                let count = engine.shingles().len() as u64;
                (Reply::records(waiting.command.tag, count), Disposition::Other)
            }
            _ => self.find(&waiting.command, request, engine),
        };
        waiting.found = Some(Box::new(found));
    }

    fn describe(&self, request: &Request<'_>, waiting: Option<&PendingFuzzy>) -> RequestDescription {
        let sealed = SealedRequest::parse(request.packet);
        let account = request.account.filter(|_| sealed.is_some());
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
        RequestDescription::new(operation, account.map(|named| &*named.name), usize::from(is_about_text))
    }

    fn answer_check(
        &mut self,
        waiting: &PendingFuzzy,
        _request: &Request<'_>,
        _found: LookupResults<'_>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        let Some((answer, answered)) = waiting.found.as_deref() else { return Disposition::Failed };
        waiting.write(answer, &mut self.buffer, reply);
        *answered
    }

    fn answer_change(
        _service: &Service,
        waiting: &PendingFuzzy,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        let command = &waiting.command;
        // The protocol has no code for a failed disk. Without a reply, the client retries.
        let Ok(outcomes) = outcomes else { return Disposition::Failed };
        let (answer, answered) = match refusal(command.operation, outcomes) {
            Some(code) => (Reply::refused(command, code), Disposition::Refused),
            None => (Reply::accepted(command), Disposition::Accepted),
        };
        waiting.write(&answer, &mut Buffer::default(), reply);
        answered
    }
}

impl Fuzzy {
    /// Creates the handler of one thread. All threads share `vault`.
    pub(crate) fn new(vault: Arc<Vault>) -> Self {
        let (shared, scratch) = (SharedKeys::default(), CheckScratch::default());
        Self { vault, shared, scratch, buffer: Buffer::default() }
    }

    /// Returns the reply to a check and its result for the metrics.
    fn find(&mut self, command: &Command, request: &Request<'_>, engine: &Engine) -> (Reply, Disposition) {
        let Command { digest, shingles, tag, .. } = command;
        let found = engine.check_shingles(digest, shingles.as_ref(), &mut self.scratch);
        let kind = found.as_ref().map_or(Kind::Unknown, |(_, verdict)| verdict.kind);
        let bulk = if kind == Kind::Unknown { bulk(command, request, engine) } else { None };
        match (&found, bulk) {
            (Some((found, _)), _) if kind == Kind::Spam => (spam(command, found), kind.into()),
            (_, Some(bulk)) => (bulk, Kind::Bulk.into()),
            _ => (Reply::not_found(*tag), kind.into()),
        }
    }

    /// Decrypts a command if necessary, and identifies its sender.
    fn read<'r>(&mut self, decoded: DecodedFuzzy<'r>, request: &Request<'r>) -> Result<SentCommand<'r>, Disposition> {
        let sealed = match decoded {
            DecodedFuzzy::Sealed(sealed) => sealed,
            DecodedFuzzy::Plain(command) => {
                let waiting = PendingFuzzy { command, sealing: None, found: None };
                return Ok(SentCommand { waiting, account: None, sealed: None });
            }
        };
        let (key, command) = self.open(&sealed, request)?;
        let account = match request.account {
            _ if sealed.key_id == self.vault.own.public().id() => None,
            Some(named) if named.account.enabled => Some(named),
            _ => return Err(Disposition::Unverified),
        };
        let sealing = Some(Sealing { key, nonce: self.vault.nonces.next() });
        let waiting = PendingFuzzy { command, sealing, found: None };
        Ok(SentCommand { waiting, account, sealed: Some(sealed) })
    }

    /// Decrypts a command. Success proves only that the sender knows our public key.
    fn open(&mut self, sealed: &SealedRequest<'_>, request: &Request<'_>) -> Result<(SharedKey, Command), Disposition> {
        let known = self.shared.get(sealed.key_id, sealed.client).filter(|_| self.pair(sealed, request).is_some());
        let (key, is_known) = match known {
            Some(key) => (key.clone(), true),
            None => (self.agree(sealed, request)?, false),
        };
        let plain = key.open_request(sealed, &mut self.buffer).map_err(|_| Disposition::Unverified)?;
        let command = Command::decode(plain).map_err(|_| Disposition::Malformed)?;
        if !is_known {
            self.shared.insert(sealed.key_id, sealed.client, key.clone());
        }
        Ok((key, command))
    }

    /// Returns the key pair to which a request is encrypted.
    fn pair<'a>(&'a self, sealed: &SealedRequest<'_>, request: &'a Request<'_>) -> Option<&'a Keypair> {
        let own = &self.vault.own;
        if sealed.key_id == own.public().id() { Some(own) } else { request.settings.fuzzy.keys.get(&sealed.key_id) }
    }

    /// Computes the key shared with a new client.
    fn agree(&self, sealed: &SealedRequest<'_>, request: &Request<'_>) -> Result<SharedKey, Disposition> {
        let pair = self.pair(sealed, request).ok_or(Disposition::Unverified)?;
        let Request { service, source, settings, uptime, .. } = request;
        let admits_strangers = || service.limits.costly.admit(STRANGERS, STRANGERS_KEYS, *uptime);
        if !(source.is_own || service.admits(source, Limited::Costly, settings, *uptime) && admits_strangers()) {
            return Err(Disposition::Limited);
        }
        pair.shared_key(&sealed.client).map_err(|_| Disposition::Unverified)
    }

    /// Returns the events of a write or deletion, unless it is a replay.
    fn change(&self, asked: SentCommand<'_>, request: &Request<'_>, claim: Claim) -> Step<PendingFuzzy> {
        let by = By { now: request.now, reporter: asked.reporter(request) };
        let SentCommand { waiting, sealed, .. } = asked;
        let Request { service, from, uptime, .. } = request;
        let key = &service.key;
        let admits = |sealed: &SealedRequest<'_>| self.vault.replays.admits(sealed.nonce(), *from, key, *uptime);
        if !sealed.as_ref().is_none_or(admits) {
            return Step::Drop(Disposition::Duplicate);
        }
        let events = events(&waiting.command, by, claim, key);
        let mut identity = waiting.command.duplicate_key().to_vec();
        identity.extend(from.to_string().into_bytes());
        Step::Change(Change { waiting, events, reporter: by.reporter, request: key.fingerprint(&identity) })
    }
}

impl PendingFuzzy {
    /// Writes a reply, encrypted if the command was encrypted.
    fn write(&self, answer: &Reply, buffer: &mut Buffer, reply: &mut Vec<u8>) {
        let version = self.command.version;
        match &self.sealing {
            None => reply.extend_from_slice(answer.encode(version, &mut [0; REPLY_BYTES])),
            Some(Sealing { key, nonce }) => reply.extend_from_slice(key.seal_reply(answer, version, nonce, buffer)),
        }
    }
}

impl SentCommand<'_> {
    /// Returns true if the sender has the right to request this operation.
    fn may(&self, request: &Request<'_>) -> bool {
        let settings = &request.settings.fuzzy;
        let (Command { operation, value, .. }, standing) = (&self.waiting.command, self.standing(request));
        let is_right = match operation {
            Operation::Check | Operation::Stat | Operation::Ping => settings.rights.check.includes(standing),
            // Refuse strangers openly. A stranger's claim would have no weight, and its text would not be kept.
            Operation::Write => {
                settings.rights.report.min(Who::Accounts).includes(standing) && self.may_write_list() && *value > 0
            }
            Operation::Delete => settings.rights.revoke.includes(standing) && standing == Standing::Own,
        };
        is_right && (self.sealed.is_some() || !settings.encrypted_only)
    }

    /// Returns true if the account may write this list.
    fn may_write_list(&self) -> bool {
        self.account.is_none_or(|named| match &named.account.credential {
            Credential::Fuzzy(key) => key.flags.contains(self.waiting.command.flag),
            _ => false,
        })
    }

    /// Returns the recipient to count for a check, if the operator has enabled counting.
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
        self.account.map_or_else(|| source.standing(), |named| source.standing_as(&named.account))
    }

    fn reporter(&self, request: &Request<'_>) -> Reporter {
        let (source, key) = (&request.source, &request.service.key);
        let named = |named: &NamedAccount| source.reporter_as(&named.name, &named.account, key);
        self.account.map_or_else(|| source.reporter(key), named)
    }
}

/// Returns two events, first the change to the text and then the claim about it.
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

/// Returns the code for the client if a change was refused.
///
/// Accounts without weight cannot store texts or change other reporters' texts, but their claims are recorded.
fn refusal(operation: Operation, outcomes: &[Outcome]) -> Option<i32> {
    let [text, claim] = outcomes else { return Some(CODE_FORBIDDEN) };
    let is_write = operation == Operation::Write;
    match (text.refusal(), claim.refusal()) {
        (_, Some(Refusal::Whitelisted)) => is_write.then_some(CODE_SKIPPED),
        (Some(Refusal::NotOwn | Refusal::Stranger), None) if is_write => None,
        (text, claim) => claim.or(text).map(code),
    }
}

/// Returns the code of a refusal: "unavailable" for a temporary refusal, otherwise "forbidden".
const fn code(refusal: Refusal) -> i32 {
    if refusal.is_temporary() { CODE_UNAVAILABLE } else { CODE_FORBIDDEN }
}

/// Returns the reply for a text that is spam.
fn spam(command: &Command, found: &ShingleMatch) -> Reply {
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

/// Returns the reply for a text sent to many recipients, if the operator has enabled such replies.
fn bulk(command: &Command, request: &Request<'_>, engine: &Engine) -> Option<Reply> {
    let FuzzyBulk { flag, threshold } = request.settings.fuzzy.bulk?;
    let fingerprint = fingerprint_of_digest(&request.service.key, &command.digest);
    let verdict = engine.check_bulk(&fingerprint, threshold);
    (verdict.kind == Kind::Bulk).then(|| Reply {
        value: i32::try_from(verdict.bulk_count).unwrap_or(i32::MAX),
        flag: flag.into(),
        probability: 1.0,
        digest: command.digest,
        ..Reply::not_found(command.tag)
    })
}
