//! DCC's end of the request path.
//!
//! A report counts the recipients of a message; one that says spam is a claim besides. Only checksums of texts are kept (Body,
//! Fuz1, Fuz2). What is answered of a checksum, now and before:
//!
//! | checksum | totals |
//! |---|---|
//! | in the whitelist file | `ok`, `ok2` or `many`, as it says |
//! | of a kind that is not kept | 0, and before: invalid |
//! | whitelisted in the clearinghouse, or deleted | 0 |
//! | spam | `many` |
//! | of recipients as many as `many` in the configuration | `many` |
//! | any other | recipients |
//!
//! Who has no right to report, or whose report was refused, gets the totals as to a query. A wrong password makes a request
//! anonymous, as in the original server, and is counted as unverified; the client tells by the reply's missing signature.
//!
//! `DELETE` revokes a checksum and whitelists it: a sketch cannot forget what it counted, but nobody need hear of it.

mod admin;
mod answers;
mod caller;

use std::net::IpAddr;

use bruit_engine::Outcome;
use bruit_engine::accounts::dcc::DccPassword;
use bruit_engine::event::{By, Event};
use bruit_engine::trust::{Claim, Standing};
use bruit_protocols::dcc::{ANONYMOUS, Ask, Brand, Header, Item, Items, Reply, Request as DccRequest, Targets};
use bruit_store::SubmitError;

use self::answers::Answers;
use self::caller::Caller;
use crate::log::Described;
use crate::metrics::{Answered, Language};
use crate::service::Service;
use crate::udp::{Batch, Change, Datagrams, Found, Request, Step, refusal_of};

/// DCC.
#[derive(Default)]
pub(crate) struct Dcc;

/// A request that waits for its answer.
pub(crate) struct Waiting {
    reply: ReplyTo,
    asked: Asked,
}

/// What it takes to write a reply, once it is known.
#[derive(Clone, Copy)]
struct ReplyTo {
    header: Header,
    /// Our own ID.
    server_id: u32,
    /// What the request was signed with, and the reply will be.
    password: Option<DccPassword>,
    /// Whether it was signed with something wrong.
    is_unverified: bool,
}

/// What was asked.
enum Asked {
    /// A message, and from how many recipients on it is answered "many".
    Message { answers: Answers, many: u32 },
    /// That this be forgotten.
    Deletion { item: Item, brand: Brand, from: IpAddr },
}

impl Datagrams for Dcc {
    const LANGUAGE: Language = Language::Dcc;
    type Waiting = Waiting;

    fn decode(&mut self, request: &Request<'_>, batch: &mut Batch, reply: &mut Vec<u8>) -> Step<Waiting> {
        let Some(asked) = DccRequest::decode(request.packet).filter(|_| request.from.port() != 0) else {
            return Step::Drop(Answered::Malformed);
        };
        let caller = Caller::of(&asked, request);
        let to = ReplyTo::new(&asked, &caller, request);
        let rights = &request.settings.dcc.rights;
        let may_check = rights.check.includes(caller.reporter.standing);
        match asked.ask {
            Ask::Admin(admin) => admin::answer(&admin, &caller, &to, request, reply),
            Ask::Delete { clock, item } => admin::delete(clock, item, &caller, to, &asked, request, reply),
            _ if !may_check => Step::Drop(Answered::Refused),
            Ask::Nop => {
                to.write(&Reply::Ok { brand: &brand(request), delay_ms: 0 }, reply);
                Step::Reply(to.answered(Answered::Other))
            }
            Ask::Query(items) => query(to, &items, request, batch),
            Ask::Report { targets, items } => report(to, targets, &items, &caller, &asked, request, batch),
        }
    }

    fn describe(&self, request: &Request<'_>, _waiting: Option<&Waiting>) -> Described {
        let Some(asked) = DccRequest::decode(request.packet) else { return Described::new("unreadable", None, 0) };
        let (operation, signatures) = match &asked.ask {
            Ask::Nop => ("nop", 0),
            Ask::Query(items) => ("query", items.len()),
            Ask::Report { items, .. } => ("report", items.len()),
            Ask::Delete { .. } => ("delete", 1),
            Ask::Admin(_) => ("admin", 0),
        };
        let account = (asked.header.sender != ANONYMOUS).then(|| asked.header.sender.to_string());
        Described::new(operation, account.as_ref().map(String::as_bytes), signatures)
    }

    fn answer_check(
        &mut self,
        waiting: &Waiting,
        _request: &Request<'_>,
        found: Found<'_>,
        reply: &mut Vec<u8>,
    ) -> Answered {
        let Asked::Message { mut answers, many } = waiting.asked else { return Answered::Failed };
        answers.fill_unchanged(found.verdicts.iter().zip(found.totals.iter().copied()), many);
        waiting.reply.write(&Reply::Answer(answers.totals()), reply);
        waiting.reply.answered(answers.answered())
    }

    fn answer_change(
        service: &Service,
        waiting: &Waiting,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Answered {
        // In silence the client will try again, or ask another server.
        let Ok(outcomes) = outcomes else { return Answered::Failed };
        let answered = match &waiting.asked {
            Asked::Message { answers, many } => {
                let mut answers = *answers;
                let answered = answer_report(service, outcomes, &mut answers, *many);
                waiting.reply.write(&Reply::Answer(answers.totals()), reply);
                answered
            }
            Asked::Deletion { item, brand, from } => {
                admin::answer_deletion(item, brand, *from, &waiting.reply, outcomes, reply)
            }
        };
        waiting.reply.answered(answered)
    }
}

/// Has the totals of a message looked up.
fn query(reply: ReplyTo, items: &Items<'_>, request: &Request<'_>, batch: &mut Batch) -> Step<Waiting> {
    let answers = Answers::new(items, &request.settings.dcc.whitelist, &request.service.key);
    for &fingerprint in answers.kept() {
        batch.check(fingerprint);
        batch.count(fingerprint);
    }
    Step::Check(Waiting { reply, asked: Asked::Message { answers, many: request.settings.dcc.many } })
}

/// Has a message counted, if there is something to count and its sender may; otherwise its totals looked up.
fn report(
    reply: ReplyTo,
    targets: Targets,
    items: &Items<'_>,
    caller: &Caller,
    asked: &DccRequest<'_>,
    request: &Request<'_>,
    batch: &mut Batch,
) -> Step<Waiting> {
    let answers = Answers::new(items, &request.settings.dcc.whitelist, &request.service.key);
    let events = report_events(&answers, targets, caller, request);
    if events.is_empty() {
        return query(reply, items, request, batch);
    }
    let waiting = Waiting { reply, asked: Asked::Message { answers, many: request.settings.dcc.many } };
    Step::Change(Change { waiting, events, reporter: caller.reporter, request: caller::identity(asked, request) })
}

fn report_events(answers: &Answers, targets: Targets, caller: &Caller, request: &Request<'_>) -> Vec<Event> {
    let fingerprints = answers.kept();
    let may_report = request.settings.dcc.rights.report.includes(caller.reporter.standing);
    if fingerprints.is_empty() || !may_report {
        return Vec::new();
    }
    let by = By { now: request.now, reporter: caller.reporter };
    // Of strangers no recipients are counted, so that need not be tried. A second report has been counted.
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

/// The totals before and after a report, from what it came to and what is thought of its checksums now. Copies of a report come
/// to the same, so that they are answered alike.
fn answer_report(service: &Service, outcomes: &[Outcome], answers: &mut Answers, many: u32) -> Answered {
    let counted = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Counted { totals, .. } => Some(&totals[..]),
        _ => None,
    });
    let is_listed_now = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Claimed { listed: 1.., .. }));
    service.store.check(|engine| answers.fill_reported(engine, counted, is_listed_now, many));
    if refusal_of(outcomes).is_some() { Answered::Refused } else { Answered::Accepted }
}

impl ReplyTo {
    const fn new(asked: &DccRequest<'_>, caller: &Caller, request: &Request<'_>) -> Self {
        Self {
            header: asked.header,
            server_id: request.settings.dcc.server_id,
            password: caller.password,
            is_unverified: caller.is_unverified,
        }
    }

    /// Writes a reply, signed with what the request was signed with.
    fn write(&self, reply: &Reply<'_>, out: &mut Vec<u8>) {
        reply.encode(&self.header, self.server_id, out, |frame| {
            self.password.map_or_else(|| self.header.unauthenticated(frame), |password| password.sign(frame))
        });
    }

    /// What a request is counted as: a wrong password is what an operator has to know of.
    const fn answered(&self, answered: Answered) -> Answered {
        if self.is_unverified { Answered::Unverified } else { answered }
    }
}

fn brand(request: &Request<'_>) -> Brand {
    Brand::new(&request.settings.dcc.brand).expect("checked with the configuration")
}
