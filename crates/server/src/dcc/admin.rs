//! Requests about the server itself, as `cdcc` makes them.

use std::fmt::Write as _;
use std::net::IpAddr;

use bruit_engine::accounts::{Protocol, name_id};
use bruit_engine::event::{By, Event};
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::whitelist::{By as ListedBy, WhitelistChange};
use bruit_engine::{Outcome, Refusal};
use bruit_protocols::dcc::{Admin, AdminOperation, Brand, Item, Reply, Request as DccRequest};

use super::answers::fingerprint;
use super::caller::{Caller, identity};
use super::{Asked, ReplyTo, Waiting, brand};
use crate::audit::{Who, audit, audit_refusal};
use crate::metrics::{Answered, Language};
use crate::udp::{Change, Request, Step};

/// How far the clock of who administers the server may be from ours, in seconds; as in the original server.
const CLOCK_TOLERANCE_SECONDS: u64 = 64;

/// Why something that only the server's own ID may is refused.
const NOT_ALLOWED: &str = "only with the server's own ID and password, and a clock within 64 seconds";

/// Answers a request about the server.
pub(super) fn answer(
    admin: &Admin<'_>,
    caller: &Caller,
    to: &ReplyTo,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Step<Waiting> {
    let is_known = caller.password.is_some();
    if !is_known && !request.settings.dcc.rights.admin.includes(caller.reporter.standing) {
        to.write(&Reply::Error("not without an ID and its password"), reply);
        let who = Who { from: request.source.address, name: None };
        audit_refusal(&who, "dcc admin", "not without an ID and its password");
        return Step::Reply(to.answered(Answered::Refused));
    }
    match admin.operation {
        AdminOperation::Stats => to.write(&Reply::Text(&statistics(request)), reply),
        AdminOperation::StatsClear => {
            to.write(&Reply::Error("statistics are since the start of the server, and not cleared"), reply);
        }
        AdminOperation::Clock => to.write(&Reply::Text(&clock_text(admin.clock.into(), request.now.0)), reply),
        // Nobody is held up, however many ask.
        AdminOperation::AnonymousDelay => to.write(&Reply::AnonymousDelay { inflate: u32::MAX, delay_ms: 0 }, reply),
        AdminOperation::ClientsByAddress | AdminOperation::ClientsById => {
            to.write(&Reply::Error("addresses of clients are not kept"), reply);
        }
        AdminOperation::Flood => to.write(&Reply::Error("this server does not flood"), reply),
        AdminOperation::Stop
        | AdminOperation::CleaningBegins
        | AdminOperation::DatabaseReady
        | AdminOperation::TraceOn
        | AdminOperation::TraceOff => to.write(&Reply::Error("not by this protocol"), reply),
    }
    Step::Reply(to.answered(Answered::Other))
}

/// Has a checksum forgotten, if it is kept and the server itself is told so.
pub(super) fn delete(
    clock: u32,
    item: Item,
    caller: &Caller,
    to: ReplyTo,
    asked: &DccRequest<'_>,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Step<Waiting> {
    let is_timely = u64::from(clock).abs_diff(request.now.0) <= CLOCK_TOLERANCE_SECONDS;
    if !caller.is_self || !is_timely {
        to.write(&Reply::Error(NOT_ALLOWED), reply);
        audit_refusal(&Who { from: request.source.address, name: None }, "dcc delete", NOT_ALLOWED);
        return Step::Reply(to.answered(Answered::Refused));
    }
    let Some(fingerprint) = fingerprint(&request.service.key, &item) else {
        to.write(&Reply::Error(&format!("{} checksums are not kept", item.kind.name())), reply);
        return Step::Reply(Answered::Refused);
    };
    let name = to.server_id.to_string();
    let id = name_id(Protocol::Dcc, name.as_bytes(), &request.service.key);
    let by = By { now: request.now, reporter: Reporter { id, standing: Standing::Own, group: id } };
    let change = WhitelistChange::List(fingerprint, ListedBy::Protocol);
    // The claim first: of what is whitelisted none is taken, and by that a second deletion is known.
    let events = vec![
        Event::Claim { by, claim: Claim::Revoke, flag: 0, fingerprints: vec![fingerprint] },
        Event::Whitelist { now: request.now, change },
    ];
    let waiting =
        Waiting { reply: to, asked: Asked::Deletion { item, brand: brand(request), from: request.source.address } };
    Step::Change(Change { waiting, events, reporter: by.reporter, request: identity(asked, request) })
}

/// Writes what a deletion came to.
pub(super) fn answer_deletion(
    item: &Item,
    brand: &Brand,
    from: IpAddr,
    to: &ReplyTo,
    outcomes: &[Outcome],
    reply: &mut Vec<u8>,
) -> Answered {
    let name = to.server_id.to_string();
    let failure = outcomes.iter().find_map(Outcome::refusal).map(|refusal| refusal.to_string());
    audit(&Who { from, name: Some(&name) }, "dcc.delete", item.kind.name(), failure.as_deref());
    match outcomes {
        [Outcome::Refused(Refusal::Whitelisted), ..] => {
            to.write(&Reply::Error(&format!("{} already deleted", spelt(item))), reply);
            Answered::Refused
        }
        [.., Outcome::Refused(refusal)] => {
            to.write(&Reply::Error(&refusal.to_string()), reply);
            Answered::Refused
        }
        _ => {
            to.write(&Reply::Ok { brand, delay_ms: 0 }, reply);
            Answered::Accepted
        }
    }
}

/// A checksum as DCC's programs write it: its kind, and four groups of eight digits.
fn spelt(item: &Item) -> String {
    let groups = item.sum.as_chunks::<4>().0.iter().map(|group| format!(" {:08x}", u32::from_be_bytes(*group)));
    std::iter::once(item.kind.name().to_owned()).chain(groups).collect()
}

fn clock_text(theirs: u64, ours: u64) -> String {
    match theirs.abs_diff(ours) {
        0 => "the clocks of client and server agree".to_owned(),
        seconds if theirs > ours => format!("the client's clock is {seconds} seconds ahead"),
        seconds => format!("the client's clock is {seconds} seconds behind"),
    }
}

/// What was answered since the start.
fn statistics(request: &Request<'_>) -> String {
    let metrics = request.service.metrics.of(Language::Dcc);
    let version = env!("CARGO_PKG_VERSION");
    let (id, seconds) = (request.settings.dcc.server_id, request.uptime.as_secs());
    let mut text = format!("bruit {version}, server-ID {id}, up {seconds} seconds\nrequests since then:\n");
    for answered in Answered::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:>12} {}", metrics.total(answered), answered.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use bruit_protocols::dcc::Kind;

    use super::*;

    #[test]
    fn checksums_are_spelt_as_in_the_captured_error() {
        let sum = 0x7ae7_d243_ee00_3263_6cc6_106a_72e8_2bb2_u128.to_be_bytes();
        assert_eq!(spelt(&Item { kind: Kind::Body, sum }), "Body 7ae7d243 ee003263 6cc6106a 72e82bb2");
    }

    #[test]
    fn clocks_are_compared_in_words() {
        assert_eq!(clock_text(7, 7), "the clocks of client and server agree");
        assert_eq!(clock_text(9, 7), "the client's clock is 2 seconds ahead");
        assert_eq!(clock_text(7, u64::MAX), format!("the client's clock is {} seconds behind", u64::MAX - 7));
    }
}
