//! Handling of DCC requests.
//!
//! A report counts the recipients of a message. A report of spam is also a claim. Of a message's checksums, only those
//! of its text are kept: Body, Fuz1 and Fuz2. For each checksum, a reply contains these current and previous totals:
//!
//! | checksum | totals |
//! |---|---|
//! | in the whitelist file | `ok`, `ok2` or `many`, according to the file |
//! | of a kind that is not kept | current 0, previous invalid |
//! | whitelisted in the clearinghouse, or deleted | 0 |
//! | spam | `many` |
//! | with at least as many recipients as `many` in the configuration | `many` |
//! | any other | number of recipients |
//!
//! A client without the right to report, or whose report was refused, receives the same totals as for a query. A
//! request with a wrong password is handled as anonymous, as in the original server, and counted as unverified. The
//! client notices that the reply is not signed.
//!
//! `DELETE` revokes a checksum and whitelists it. The bulk book cannot delete its counts, but the whitelist hides them.

mod admin;
mod answers;
mod caller;

use std::net::{IpAddr, SocketAddr};

use bruit_engine::Outcome;
use bruit_engine::accounts::dcc::DccPassword;
use bruit_engine::accounts::{self, Accounts};
use bruit_engine::event::{By, Event};
use bruit_engine::trust::{Claim, Standing};
use bruit_protocols::dcc::{ANONYMOUS, Ask, Brand, Header, Item, Items, Reply, Request as DccRequest, Targets};
use bruit_store::SubmitError;

use self::answers::MessageTotals;
use self::caller::DccCaller;
use crate::log::RequestDescription;
use crate::metrics::{Disposition, Interface};
use crate::service::Service;
use crate::udp::{Batch, Change, Datagrams, LookupResults, NamedAccount, Request, Step, refusal_of};

/// Handles DCC requests.
#[derive(Default)]
pub(crate) struct Dcc;

/// A request in progress.
pub(crate) struct PendingDcc {
    reply: ReplyTo,
    asked: PendingKind,
}

/// The data needed to write the reply later.
#[derive(Clone, Copy)]
struct ReplyTo {
    header: Header,
    /// Our server ID.
    server_id: u32,
    /// The password that verified the request and will sign the reply.
    password: Option<DccPassword>,
    /// True if verification of the request's signature failed.
    is_unverified: bool,
}

/// The kind of request.
enum PendingKind {
    /// A query or report about a message, and the recipient count at and above which the reply is "many".
    Message { answers: MessageTotals, many: u32 },
    /// The deletion of a checksum.
    Deletion { item: Item, brand: Brand, from: IpAddr },
}

impl Datagrams for Dcc {
    const PROTOCOL: Interface = Interface::Dcc;
    type Decoded<'p> = DccRequest<'p>;
    type Pending = PendingDcc;

    fn decode<'p>(packet: &'p [u8], from: SocketAddr) -> Result<DccRequest<'p>, Disposition> {
        DccRequest::decode(packet).filter(|_| from.port() != 0).ok_or(Disposition::Malformed)
    }

    fn is_named(&self, asked: &DccRequest<'_>) -> bool {
        asked.is_signed()
    }

    fn account(&self, asked: &DccRequest<'_>, accounts: &Accounts) -> Option<NamedAccount> {
        let mut digits = [0; 10];
        NamedAccount::find(accounts, accounts::Protocol::Dcc, caller::decimal(asked.header.sender, &mut digits))
    }

    fn start(
        &mut self,
        asked: DccRequest<'_>,
        request: &Request<'_>,
        batch: &mut Batch,
        reply: &mut Vec<u8>,
    ) -> Step<PendingDcc> {
        let caller = DccCaller::of(&asked, request);
        let to = ReplyTo::new(&asked, &caller, request);
        let rights = &request.settings.dcc.rights;
        let may_check = rights.check.includes(caller.reporter.standing);
        match asked.ask {
            Ask::Admin(admin) => admin::answer(&admin, &caller, &to, request, reply),
            Ask::Delete { clock, item } => admin::delete(clock, item, &caller, to, &asked, request, reply),
            _ if !may_check => Step::Drop(Disposition::Refused),
            Ask::Nop => {
                to.write(&Reply::Ok { brand: &brand(request), delay_ms: 0 }, reply);
                Step::Reply(to.answered(Disposition::Other))
            }
            Ask::Query(items) => query(to, &items, request, batch),
            Ask::Report { targets, items } => report(to, targets, &items, &caller, &asked, request, batch),
        }
    }

    fn describe(&self, request: &Request<'_>, _waiting: Option<&PendingDcc>) -> RequestDescription {
        let Some(asked) = DccRequest::decode(request.packet) else {
            return RequestDescription::new("unreadable", None, 0);
        };
        let (operation, signatures) = match &asked.ask {
            Ask::Nop => ("nop", 0),
            Ask::Query(items) => ("query", items.len()),
            Ask::Report { items, .. } => ("report", items.len()),
            Ask::Delete { .. } => ("delete", 1),
            Ask::Admin(_) => ("admin", 0),
        };
        let account = (asked.header.sender != ANONYMOUS).then(|| asked.header.sender.to_string());
        RequestDescription::new(operation, account.as_ref().map(String::as_bytes), signatures)
    }

    fn answer_check(
        &mut self,
        waiting: &PendingDcc,
        _request: &Request<'_>,
        found: LookupResults<'_>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        let PendingKind::Message { mut answers, many } = waiting.asked else { return Disposition::Failed };
        answers.fill_unchanged(found.verdicts.iter().zip(found.totals.iter().copied()), many);
        waiting.reply.write(&Reply::Answer(answers.totals()), reply);
        waiting.reply.answered(answers.answered())
    }

    fn answer_change(
        service: &Service,
        waiting: &PendingDcc,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Disposition {
        // Without a reply the client retries, or tries another server.
        let Ok(outcomes) = outcomes else { return Disposition::Failed };
        let answered = match &waiting.asked {
            PendingKind::Message { answers, many } => {
                let mut answers = *answers;
                let answered = answer_report(service, outcomes, &mut answers, *many);
                waiting.reply.write(&Reply::Answer(answers.totals()), reply);
                answered
            }
            PendingKind::Deletion { item, brand, from } => {
                admin::answer_deletion(item, brand, *from, &waiting.reply, outcomes, reply)
            }
        };
        waiting.reply.answered(answered)
    }
}

/// Starts the lookup of a message's totals.
fn query(reply: ReplyTo, items: &Items<'_>, request: &Request<'_>, batch: &mut Batch) -> Step<PendingDcc> {
    let answers = MessageTotals::new(items, &request.settings.dcc.whitelist, &request.service.key);
    for &fingerprint in answers.kept() {
        batch.check(fingerprint);
        batch.count(fingerprint);
    }
    Step::Check(PendingDcc { reply, asked: PendingKind::Message { answers, many: request.settings.dcc.many } })
}

/// Starts counting a message if there is something to count and the caller may report. Otherwise starts a lookup.
fn report(
    reply: ReplyTo,
    targets: Targets,
    items: &Items<'_>,
    caller: &DccCaller,
    asked: &DccRequest<'_>,
    request: &Request<'_>,
    batch: &mut Batch,
) -> Step<PendingDcc> {
    let answers = MessageTotals::new(items, &request.settings.dcc.whitelist, &request.service.key);
    let events = report_events(&answers, targets, caller, request);
    if events.is_empty() {
        return query(reply, items, request, batch);
    }
    let waiting = PendingDcc { reply, asked: PendingKind::Message { answers, many: request.settings.dcc.many } };
    Step::Change(Change { waiting, events, reporter: caller.reporter, request: caller::identity(asked, request) })
}

fn report_events(answers: &MessageTotals, targets: Targets, caller: &DccCaller, request: &Request<'_>) -> Vec<Event> {
    let fingerprints = answers.kept();
    let may_report = request.settings.dcc.rights.report.includes(caller.reporter.standing);
    if fingerprints.is_empty() || !may_report {
        return Vec::new();
    }
    let by = By { now: request.now, reporter: caller.reporter };
    // Skip the attempt for strangers, whose recipients are not counted, and for a second report, whose recipients are
    // already counted.
    let is_counted = targets.count > 0 && !targets.is_second && caller.reporter.standing != Standing::Stranger;
    let count = is_counted.then(|| Event::Bulk { by, targets: targets.count, fingerprints: fingerprints.to_vec() });
    let claim = targets.is_spam.then(|| Event::Claim {
        by,
        claim: Claim::Report,
        flag: 0,
        fingerprints: fingerprints.to_vec(),
    });
    count.into_iter().chain(claim).collect()
}

/// Fills in the totals before and after a report. They follow from the report's outcomes and the current verdicts.
/// Returns the result for the metrics. Copies of a report have the same outcomes and therefore get the same reply.
fn answer_report(service: &Service, outcomes: &[Outcome], answers: &mut MessageTotals, many: u32) -> Disposition {
    let counted = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Counted { totals, .. } => Some(&totals[..]),
        _ => None,
    });
    let is_listed_now = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Claimed { listed: 1.., .. }));
    service.store.check(|engine| answers.fill_reported(engine, counted, is_listed_now, many));
    if refusal_of(outcomes).is_some() { Disposition::Refused } else { Disposition::Accepted }
}

impl ReplyTo {
    const fn new(asked: &DccRequest<'_>, caller: &DccCaller, request: &Request<'_>) -> Self {
        Self {
            header: asked.header,
            server_id: request.settings.dcc.server_id,
            password: caller.password,
            is_unverified: caller.is_unverified,
        }
    }

    /// Writes a reply, signed with the password of the request.
    fn write(&self, reply: &Reply<'_>, out: &mut Vec<u8>) {
        reply.encode(&self.header, self.server_id, out, |frame| {
            self.password.map_or_else(|| self.header.unauthenticated(frame), |password| password.sign(frame))
        });
    }

    /// Returns the result for the metrics. A wrong password takes precedence, because operators need to see it.
    const fn answered(&self, answered: Disposition) -> Disposition {
        if self.is_unverified { Disposition::Unverified } else { answered }
    }
}

fn brand(request: &Request<'_>) -> Brand {
    Brand::new(&request.settings.dcc.brand).expect("the configuration was checked")
}
