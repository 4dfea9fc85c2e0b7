//! Administrative requests, as `cdcc` sends them.

use std::fmt::Write as _;
use std::net::IpAddr;

use bruit_engine::accounts::{self, name_id};
use bruit_engine::event::{By, Event};
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_engine::{Outcome, Refusal};
use bruit_protocols::dcc::{Admin, AdminOperation, Brand, Item, Reply, Request as DccRequest};

use super::answers::fingerprint;
use super::caller::{DccCaller, identity};
use super::{PendingDcc, PendingKind, ReplyTo, brand};
use crate::audit::{Actor, audit, audit_refusal};
use crate::metrics::{Disposition, Interface};
use crate::udp::{Change, Request, Step};

/// Maximum difference in seconds between the administrator's clock and ours, as in the original server.
const CLOCK_TOLERANCE_SECONDS: u64 = 64;

/// The error for requests that require the server's own ID.
const NOT_ALLOWED: &str = "this requires the server's own ID and password, and a clock within 64 seconds";

/// Answers an administrative request.
pub(super) fn answer(
    admin: &Admin<'_>,
    caller: &DccCaller,
    to: &ReplyTo,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Step<PendingDcc> {
    let is_known = caller.password.is_some();
    if !is_known && !request.settings.dcc.rights.admin.includes(caller.reporter.standing) {
        to.write(&Reply::Error("this requires an ID and its password"), reply);
        let who = Actor { from: request.source.address, name: None };
        audit_refusal(&who, "dcc admin", "this requires an ID and its password");
        return Step::Reply(to.answered(Disposition::Refused));
    }
    match admin.operation {
        AdminOperation::Stats => to.write(&Reply::Text(&statistics(request)), reply),
        AdminOperation::StatsClear => {
            to.write(
                &Reply::Error("statistics cannot be cleared: they cover the time since the server started"),
                reply,
            );
        }
        AdminOperation::Clock => to.write(&Reply::Text(&clock_text(admin.clock.into(), request.now.0)), reply),
        // This server never delays replies.
        AdminOperation::AnonymousDelay => to.write(&Reply::AnonymousDelay { inflate: u32::MAX, delay_ms: 0 }, reply),
        AdminOperation::ClientsByAddress | AdminOperation::ClientsById => {
            to.write(&Reply::Error("addresses of clients are not kept"), reply);
        }
        AdminOperation::Flood => to.write(&Reply::Error("this server does not flood"), reply),
        AdminOperation::Stop
        | AdminOperation::CleaningBegins
        | AdminOperation::DatabaseReady
        | AdminOperation::TraceOn
        | AdminOperation::TraceOff => to.write(&Reply::Error("not supported over this protocol"), reply),
    }
    Step::Reply(to.answered(Disposition::Other))
}

/// Starts the deletion of a checksum, if its kind is kept and the caller has proven the server's own ID.
pub(super) fn delete(
    clock: u32,
    item: Item,
    caller: &DccCaller,
    to: ReplyTo,
    asked: &DccRequest<'_>,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Step<PendingDcc> {
    let is_timely = u64::from(clock).abs_diff(request.now.0) <= CLOCK_TOLERANCE_SECONDS;
    if !caller.is_self || !is_timely {
        to.write(&Reply::Error(NOT_ALLOWED), reply);
        audit_refusal(&Actor { from: request.source.address, name: None }, "dcc delete", NOT_ALLOWED);
        return Step::Reply(to.answered(Disposition::Refused));
    }
    let Some(fingerprint) = fingerprint(&request.service.key, &item) else {
        to.write(&Reply::Error(&format!("{} checksums are not kept", item.kind.name())), reply);
        return Step::Reply(Disposition::Refused);
    };
    let name = to.server_id.to_string();
    let id = name_id(accounts::Protocol::Dcc, name.as_bytes(), &request.service.key);
    let by = By { now: request.now, reporter: Reporter { id, standing: Standing::Own, group: id } };
    let change = WhitelistChange::List(fingerprint, ListAuthor::Protocol);
    // Submit the claim first. It is refused if the signature is already whitelisted, so a second deletion is
    // recognised.
    let events = vec![
        Event::Claim { by, claim: Claim::Revoke, flag: 0, fingerprints: vec![fingerprint] },
        Event::Whitelist { now: request.now, change },
    ];
    let waiting = PendingDcc {
        reply: to,
        asked: PendingKind::Deletion { item, brand: brand(request), from: request.source.address },
    };
    Step::Change(Change { waiting, events, reporter: by.reporter, request: identity(asked, request) })
}

/// Writes the reply to a deletion.
pub(super) fn answer_deletion(
    item: &Item,
    brand: &Brand,
    from: IpAddr,
    to: &ReplyTo,
    outcomes: &[Outcome],
    reply: &mut Vec<u8>,
) -> Disposition {
    let name = to.server_id.to_string();
    let failure = outcomes.iter().find_map(Outcome::refusal).map(|refusal| refusal.to_string());
    audit(&Actor { from, name: Some(&name) }, "dcc.delete", item.kind.name(), failure.as_deref());
    match outcomes {
        [Outcome::Refused(Refusal::Whitelisted), ..] => {
            to.write(&Reply::Error(&format!("{} already deleted", checksum_text(item))), reply);
            Disposition::Refused
        }
        [.., Outcome::Refused(refusal)] => {
            to.write(&Reply::Error(&refusal.to_string()), reply);
            Disposition::Refused
        }
        _ => {
            to.write(&Reply::Ok { brand, delay_ms: 0 }, reply);
            Disposition::Accepted
        }
    }
}

/// Formats a checksum as DCC's programs do, i.e. as its kind and four groups of eight digits.
fn checksum_text(item: &Item) -> String {
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

/// Returns the counters since the start.
fn statistics(request: &Request<'_>) -> String {
    let metrics = request.service.metrics.of(Interface::Dcc);
    let version = env!("CARGO_PKG_VERSION");
    let (id, seconds) = (request.settings.dcc.server_id, request.uptime.as_secs());
    let mut text = format!("bruit {version}, server-ID {id}, up {seconds} seconds\nrequests since the start:\n");
    for answered in Disposition::ALL {
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
        assert_eq!(checksum_text(&Item { kind: Kind::Body, sum }), "Body 7ae7d243 ee003263 6cc6106a 72e82bb2");
    }

    #[test]
    fn clocks_are_compared_in_words() {
        assert_eq!(clock_text(7, 7), "the clocks of client and server agree");
        assert_eq!(clock_text(9, 7), "the client's clock is 2 seconds ahead");
        assert_eq!(clock_text(7, u64::MAX), format!("the client's clock is {} seconds behind", u64::MAX - 7));
    }
}
