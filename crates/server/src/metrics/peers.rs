//! Metrics of the peers. The label `peer` is a peer's name in the configuration.

use bruit_federation::coordinator::peer::PeerState;
use bruit_protocols::http::PeerStatus;
use bruit_protocols::prometheus::{Family, Labels};

use crate::federation::{FORGOTTEN_STATES, PAUSED_STATE};

/// Returns all metrics of the configured peers.
pub(super) fn of(peers: &[PeerStatus]) -> Vec<Family> {
    let of = |family: Family, value: fn(&PeerStatus) -> f64| {
        family.with_all(peers.iter().map(|peer| (label(peer), value(peer))))
    };
    let known = |family: Family, value: fn(&PeerStatus) -> Option<f64>| {
        family.with_all(peers.iter().filter_map(|peer| Some((label(peer), value(peer)?))))
    };
    vec![
        of(
            Family::gauge("bruit_peer_up", "1 if the peer is reachable and its clock agrees (up to date or behind)."),
            |peer| f64::from(matches!(&*peer.state, "up_to_date" | "behind")),
        ),
        states(peers),
        Family::gauge("bruit_forgetting", "1 while the data of a forgotten server is removed.")
            .with(f64::from(peers.iter().any(|peer| peer.state == FORGOTTEN_STATES[0]))),
        of(
            Family::gauge(
                "bruit_peer_silent_seconds",
                "Time since the peer's heads last changed. They change every 2.5 s.",
            ),
            |peer| peer.silent_seconds as f64,
        ),
        known(
            Family::gauge(
                "bruit_peer_clock_skew_seconds",
                "Seconds by which the peer's clock is ahead of ours. Negative if it is behind.",
            ),
            |peer| peer.clock_skew_seconds.map(|skew| skew as f64),
        ),
        of(
            Family::gauge("bruit_peer_lag_segments", "Segments of the peer that this server does not have yet."),
            |peer| peer.lag_segments as f64,
        ),
        of(
            Family::gauge("bruit_peer_lag_seconds", "Time since this server last had all segments of the peer."),
            |peer| peer.lag_seconds as f64,
        ),
        of(
            Family::counter(
                "bruit_peer_received_bytes_total",
                "Bytes of segments received over the peer's link. A broker's link carries the segments of all servers.",
            ),
            |peer| peer.bytes_in as f64,
        ),
        of(Family::counter("bruit_peer_sent_bytes_total", "Bytes of segments sent to the peer."), |peer| {
            peer.bytes_out as f64
        }),
        of(
            Family::gauge("bruit_peer_learned_entries", "Entries learned from the peer since it was first configured."),
            |peer| peer.signatures_learned as f64,
        ),
        known(
            Family::gauge("bruit_peer_agreed_timestamp_seconds", "Time when the peer's digests last matched ours."),
            |peer| peer.last_digest_match.map(|time| time as f64),
        ),
        of(
            Family::counter("bruit_peer_refused_bytes_total", "Bytes of the peer's segments that were refused."),
            |peer| peer.bytes_refused as f64,
        ),
        refused(peers),
    ]
}

fn label(peer: &PeerStatus) -> Labels {
    Labels::one("peer", &peer.name)
}

/// Returns one sample for every state of every peer, so that the set of series never changes.
fn states(peers: &[PeerStatus]) -> Family {
    let samples = peers.iter().flat_map(|peer| {
        PeerState::NAMES
            .iter()
            .chain(&FORGOTTEN_STATES)
            .chain(&[PAUSED_STATE])
            .map(|state| (label(peer).and("state", state), f64::from(peer.state == *state)))
    });
    Family::gauge(
        "bruit_peer_state",
        "1 for the peer's current state, as in `bruit peers`, and 0 for all other states.",
    )
    .with_all(samples)
}

fn refused(peers: &[PeerStatus]) -> Family {
    let samples = peers.iter().flat_map(|peer| {
        peer.refused.iter().map(|refused| (label(peer).and("reason", &refused.reason), refused.count as f64))
    });
    Family::counter("bruit_peer_refused_segments_total", "Refused segments received over the peer's link.")
        .with_all(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bruit_protocols::prometheus::text;

    #[test]
    fn every_peer_has_every_state() {
        let peer = PeerStatus { name: "anna".into(), state: "behind".into(), ..PeerStatus::default() };
        let text = text(of(&[peer]));
        assert!(text.contains("bruit_peer_state{peer=\"anna\",state=\"behind\"} 1\n"), "{text}");
        assert_eq!(text.matches("bruit_peer_state{").count(), PeerState::NAMES.len() + FORGOTTEN_STATES.len() + 1);
        assert!(text.contains("bruit_peer_up{peer=\"anna\"} 1\n"));
        assert!(!text.contains("agreed_timestamp"), "unknown values are omitted: {text}");
    }
}
