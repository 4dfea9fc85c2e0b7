//! The state of every configured server, for `bruit peers`, metrics and health.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::exchange::Relation;
use bruit_federation::coordinator::peer::{PeerState, clock_bound};
use bruit_federation::coordinator::receiver::{LinkStatus, PeerView};
use bruit_protocols::http::{PeerStatus, RefusedSegments};

use super::links::PeerLink;
use super::local::LocalServer;
use super::pausing::PAUSED_STATE;
use crate::config::PeerSettings;
use crate::health::State;

/// The time without progress after which missing segments become a condition. Before that, missing segments count as in
/// transit.
const STUCK: Duration = Duration::from_secs(30);

/// State of every server, kept between updates.
#[derive(Debug, Default)]
pub(super) struct Watch {
    known: BTreeMap<String, PeerRecord>,
}

/// State of a server at the last update.
#[derive(Debug)]
struct PeerRecord {
    state: &'static str,
    since: u64,
    lag_segments: u64,
    learned: u64,
    /// The latest uptime at which a segment arrived or no segment was missing.
    progressed: Duration,
}

/// The state of a server, used to derive its conditions.
struct PeerReport {
    status: PeerStatus,
    state: PeerState,
    stuck: Duration,
}

impl Watch {
    /// Updates the state and the conditions of all servers.
    pub(super) fn look(&mut self, local: &LocalServer, peer_links: &[PeerLink]) {
        let peers = local.service.settings().peers.clone();
        self.known.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        let looked: Vec<PeerReport> = peers.iter().map(|peer| self.look_at(local, peer_links, peer)).collect();
        note_conditions(local, &looked);
        local.service.federation.set_peer_status(looked.into_iter().map(|looked| looked.status).collect());
    }

    fn look_at(&mut self, local: &LocalServer, peer_links: &[PeerLink], peer: &PeerSettings) -> PeerReport {
        let key = *peer.key.as_bytes();
        // Prefer a direct link to the server over the broker.
        let own = peer_links.iter().find(|peer_link| peer_link.key == Some(key));
        let peer_link = own.or_else(|| peer_links.iter().find(|peer_link| peer_link.key.is_none()));
        let link = peer_link.map(|peer_link| peer_link.link.status()).unwrap_or_default();
        let not_asked =
            PeerView { state: PeerState::NotAsked, lag_segments: 0, skew_seconds: None, silence: Duration::ZERO };
        let view = peer_link.map_or(not_asked, |peer_link| peer_link.link.view(&key, local.local()));
        let mut status = status_of(local, peer, &link, &view);
        status.bytes_refused = peer_link.map_or(0, |peer_link| peer_link.link.refused_bytes(&key));
        status.transport = peer_link.map_or("none", |peer_link| peer_link.transport).into();
        let forgotten = forgotten_state(local, &key);
        let is_paused = own.is_some() && local.service.federation.paused.has(&key);
        // Nothing is expected of a forgotten or paused server.
        let state = if forgotten.is_some() || is_paused { PeerState::NotAsked } else { view.state };
        if is_paused {
            // Segments of a paused peer do not count as missing, and the pause does not count as time without progress.
            status.lag_segments = 0;
        }
        let watched = self.watch(&status, &state, local);
        status.since = watched.since;
        let stuck = local.service.uptime().saturating_sub(watched.progressed);
        if let Some(forgotten) = forgotten {
            (status.state, status.reason, status.lag_segments) = (forgotten.into(), None, 0);
        } else if is_paused {
            (status.state, status.reason) = (PAUSED_STATE.into(), None);
        }
        PeerReport { status, state, stuck }
    }

    fn watch(&mut self, status: &PeerStatus, state: &PeerState, local: &LocalServer) -> &PeerRecord {
        let (uptime, now) = (local.service.uptime(), local.now().0);
        let learned = status.signatures_learned;
        let new = || PeerRecord {
            state: state.name(),
            since: now,
            lag_segments: status.lag_segments,
            learned,
            progressed: uptime,
        };
        let watched = self.known.entry(status.name.clone()).or_insert_with(new);
        let is_progress = status.lag_segments == 0 || status.lag_segments < watched.lag_segments;
        if is_progress || learned > watched.learned {
            watched.progressed = uptime;
        }
        (watched.lag_segments, watched.learned) = (status.lag_segments, learned);
        match state {
            PeerState::Silent { since } => watched.since = since.0,
            _ if watched.state != state.name() => watched.since = now,
            _ => {}
        }
        watched.state = state.name();
        watched
    }
}

/// Names of the states of forgotten servers: while their data is removed, and afterwards.
pub(crate) const FORGOTTEN_STATES: [&str; 2] = ["forgetting", "forgotten"];

/// Returns the state of a forgotten server.
fn forgotten_state(local: &LocalServer, key: &[u8; 32]) -> Option<&'static str> {
    let [running, done] = FORGOTTEN_STATES;
    local.service.store.check(|engine| {
        let (_, record) = engine.exchange().forgotten().find(|(forgotten, _)| forgotten == key)?;
        record.is_forgotten.then_some(if record.is_done { done } else { running })
    })
}

fn status_of(local: &LocalServer, peer: &PeerSettings, link: &LinkStatus, view: &PeerView) -> PeerStatus {
    let key = peer.key.as_bytes();
    let member = local.service.store.check(|engine| engine.exchange().member(key));
    let agreed = link.agreed.get(key).copied();
    let refused =
        link.rejected.iter().map(|(reason, count)| RefusedSegments { reason: (*reason).into(), count: *count });
    PeerStatus {
        name: peer.name.clone(),
        key: peer.key.to_string(),
        relation: if peer.relation == Relation::Cluster { "cluster" } else { "peer" }.into(),
        state: view.state.name().into(),
        reason: view.state.reason().map(Into::into),
        clock_skew_seconds: view.skew_seconds,
        silent_seconds: view.silence.as_secs(),
        lag_segments: view.lag_segments,
        lag_seconds: agreed.or(link.heard).map_or(0, |agreed| local.now().since(agreed)),
        bytes_in: link.bytes_in,
        bytes_out: local.service.federation.sent_to(key),
        signatures_learned: member.map_or(0, |member| member.learned.entries),
        last_digest_match: agreed.map(|agreed| agreed.0),
        added: peer.is_added,
        refused: refused.collect(),
        ..PeerStatus::default()
    }
}

/// Updates the conditions in health.
fn note_conditions(local: &LocalServer, looked: &[PeerReport]) {
    let (health, now) = (&local.service.health, local.now());
    let of = |text: fn(&PeerReport) -> Option<String>| -> Vec<(String, String)> {
        looked.iter().filter_map(|looked| Some((looked.status.name.clone(), text(looked)?))).collect()
    };
    health.set_all(State::PeerSilent, of(silent), now);
    health.set_all(State::PeerBehind, of(behind), now);
    health.set_all(State::PeerRefused, of(refused), now);
    health.set_all(State::PeerUnreachable, of(unreachable), now);
    let skews: Vec<(&str, i64)> = looked.iter().filter_map(measured_skew).collect();
    health.set_all(State::PeerClock, clock_conditions(&skews, clock_bound(&local.shelf.epochs())), now);
}

fn silent(looked: &PeerReport) -> Option<String> {
    let PeerState::Silent { .. } = looked.state else { return None };
    let seconds = looked.status.silent_seconds;
    let carrier = if looked.status.transport == "nats" { "it and its connection to the broker" } else { "it" };
    Some(format!("no update from this server for {seconds} s, although one is due every 10 s: check {carrier}"))
}

fn behind(looked: &PeerReport) -> Option<String> {
    let PeerState::Behind { segments } = looked.state else { return None };
    let seconds = looked.stuck.as_secs();
    (looked.stuck >= STUCK).then(|| {
        format!(
            "{segments} segments of this server are missing, and none have arrived for {seconds} s: see `bruit peers`"
        )
    })
}

fn refused(looked: &PeerReport) -> Option<String> {
    let PeerState::Refused { reason } = &looked.state else { return None };
    let advice = match reason.contains("full") {
        true => "set the same `memory` on both servers",
        false => "compare keys, realms and versions of both servers",
    };
    Some(format!("{reason}: {advice}"))
}

fn unreachable(looked: &PeerReport) -> Option<String> {
    let PeerState::Unreachable { reason } = &looked.state else { return None };
    let (other, whose) = match &*looked.status.transport {
        "nats" => ("the broker runs", "this server's"),
        _ => ("Bruit runs on that server", "its"),
    };
    Some(format!(
        "{}. Check that {other} and that its address and port are reachable from here. Until then {whose} reports are \
         missing here; checks go on with local data",
        cause(reason)
    ))
}

/// Extracts the cause from the reason of a [`PeerState::Unreachable`]. Removes the beginning of the reason, which
/// repeats the state. If the reason is an error of the operating system, also removes the error number at its end,
/// which repeats the text.
fn cause(reason: &str) -> &str {
    let cause = reason.strip_prefix("failed to reach the other server: ").unwrap_or(reason);
    cause.split_once(" (os error").map_or(cause, |(text, _)| text).trim_end_matches('.')
}

/// Returns the clock skew of a server that sends heads.
fn measured_skew(looked: &PeerReport) -> Option<(&str, i64)> {
    let is_heard =
        matches!(looked.state, PeerState::UpToDate | PeerState::Behind { .. } | PeerState::ClockDiffers { .. });
    looked.status.clock_skew_seconds.filter(|_| is_heard).map(|skew| (&*looked.status.name, skew))
}

/// Describes each wrong clock. If most servers agree with each other but not with us, our clock is the wrong one.
fn clock_conditions(skews: &[(&str, i64)], bound: u64) -> Vec<(String, String)> {
    let differing: Vec<(&str, i64)> = skews.iter().filter(|(_, skew)| skew.unsigned_abs() > bound).copied().collect();
    let agree_with = |skew: i64| differing.iter().filter(|(_, other)| other.abs_diff(skew) <= bound).count();
    let largest = differing.iter().map(|&(_, skew)| (agree_with(skew), skew)).max_by_key(|(count, _)| *count);
    if let Some((count, skew)) = largest.filter(|(count, _)| *count > 1 && 2 * count > skews.len()) {
        let (all, by, which) = (skews.len(), span(skew), if skew > 0 { "behind" } else { "ahead" });
        let text = format!(
            "our own clock is probably wrong, {by} {which}: {count} of {all} other servers agree with each other but not \
             with it; set the clock (NTP)"
        );
        return vec![(String::new(), text)];
    }
    let is_alone = skews.len() == 1;
    let text = |(name, skew): (&str, i64)| {
        let (by, which) = (span(skew), if skew > 0 { "ahead of" } else { "behind" });
        let advice = if is_alone { "one of the two is wrong; check NTP on both" } else { "check NTP on that server" };
        (name.to_owned(), format!("the clock of {name} is {by} {which} ours: {advice}"))
    };
    differing.into_iter().map(text).collect()
}

/// Formats a duration in a readable unit: `90 s`, `5 min`, `36 h`, `40 days`.
fn span(seconds: i64) -> String {
    match seconds.unsigned_abs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn conditions(skews: &[(&str, i64)]) -> Vec<(String, String)> {
        clock_conditions(skews, 60)
    }

    #[test]
    fn an_unreachable_server_is_reported_with_the_cause_and_what_to_check() {
        let error = std::io::Error::from_raw_os_error(nix::libc::ECONNREFUSED);
        let error = bruit_federation::transport::TransportError::Unreachable(error.into());
        let reason = bruit_federation::describe(&error);
        let report = |transport: &str| PeerReport {
            status: PeerStatus { transport: transport.into(), ..PeerStatus::default() },
            state: PeerState::Unreachable { reason: reason.clone() },
            stuck: Duration::ZERO,
        };
        let text = unreachable(&report("https")).unwrap();
        assert!(text.starts_with("Connection refused. Check that Bruit runs on that server and"), "{text}");
        assert!(unreachable(&report("nats")).unwrap().contains("Check that the broker runs"));
        assert_eq!(cause("no answer in time"), "no answer in time");
    }

    #[test]
    fn clocks_that_agree_are_no_condition() {
        assert!(conditions(&[("a", 60), ("b", -60)]).is_empty() && conditions(&[]).is_empty());
    }

    #[test]
    fn a_clock_that_differs_from_all_others_is_named() {
        let [(subject, text)] = conditions(&[("a", 1), ("b", 40 * DAY), ("c", -1)]).try_into().unwrap();
        assert_eq!((&*subject, &*text), ("b", "the clock of b is 40 days ahead of ours: check NTP on that server"));
        let [(subject, text)] = conditions(&[("b", -7_200)]).try_into().unwrap();
        assert!(subject == "b" && text.contains("2 h behind ours: one of the two"), "{text}");
    }

    #[test]
    fn our_own_clock_is_named_when_most_others_agree_with_each_other_and_not_with_us() {
        let [(subject, text)] = conditions(&[("a", -40 * DAY), ("b", -40 * DAY - 3), ("c", 0)]).try_into().unwrap();
        assert!(
            subject.is_empty() && text.contains("our own clock is probably wrong, 40 days ahead: 2 of 3"),
            "{text}"
        );
        assert_eq!(conditions(&[("a", -40 * DAY), ("b", 40 * DAY)]).len(), 2, "these do not agree with each other");
        assert_eq!(conditions(&[("a", 90), ("b", 91), ("c", 0), ("d", 0)]).len(), 2, "half is not most");
    }
}
