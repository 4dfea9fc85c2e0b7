//! The conditions that a healed network must meet: all servers agree, and counts equal the acknowledged events.
//!
//! For a server that lost its disk, only the events in segments that other servers had already received count. This
//! module decodes them as described in `docs/design/segments.md`, independently of the engine's decoder.

use std::collections::{BTreeMap, BTreeSet};

use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::spam::ClaimCounts;
use bruit_engine::time::Time;
use bruit_engine::trust::Claim;
use bruit_engine::verdict::Kind;
use bruit_filters::Fingerprint;
use bruit_filters::sorted::decode_sorted;

use super::link::End;
use super::network::{FORGED, Network, PEER_CAP, VICTIMS, signature, signatures};
use super::server::{Fact, Server};
use crate::coordinator::peer::PeerState;
use crate::keys::SIGNATURE_BYTES;
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, UnverifiedSegment, split};

/// Maximum time until other servers receive heads that a server signs when a generation begins.
const NEWS_SECONDS: u64 = 8;

/// A kind of count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CountKind {
    Claims(Claim, u8),
    Recipients,
}

/// The exact sums, by kind, generation and signature.
type Sums = BTreeMap<(CountKind, u64, u64), u32>;

/// Returns the chains of nodes, and a server's frontiers of them.
fn frontiers(network: &Network, node: &Server) -> BTreeMap<Chain, Frontier> {
    let liar = network.liar.as_ref().map(|liar| *liar.key.public().as_bytes());
    let others = [liar, network.forgotten()];
    let is_node =
        |chain: &Chain| !others.contains(&Some(chain.origin.key)) && node.engine.is_live(chain.book, chain.generation);
    node.engine.exchange().chains().filter(|(chain, _)| is_node(chain)).collect()
}

/// Returns true if all nodes have the same frontiers.
pub(super) fn frontiers_agree(network: &Network) -> bool {
    let mut all = network.members().map(|node| frontiers(network, node));
    let first = all.next().unwrap();
    all.all(|other| other == first)
}

/// Describes a chain in which nodes differ.
pub(super) fn disagreement(network: &Network) -> String {
    let all: Vec<_> = network.members().map(|node| frontiers(network, node)).collect();
    let chains: BTreeSet<Chain> = all.iter().flat_map(|frontiers| frontiers.keys().copied()).collect();
    let sequences = |chain: &Chain| all.iter().map(|of| of.get(chain).map_or(0, |f| f.sequence)).collect::<Vec<_>>();
    let unlike = chains.iter().map(|chain| (chain, sequences(chain))).find(|(_, at)| at.iter().any(|s| *s != at[0]));
    let pending: Vec<_> = network.members().map(|node| node.engine.exchange().pending_bytes()).collect();
    format!("{unlike:?}, waiting {pending:?}")
}

/// Checks all conditions.
pub(super) fn compare(network: &Network) -> Result<(), String> {
    let sums = exact_sums(network);
    compare_copies(network)?;
    for (number, node) in network.members().enumerate() {
        compare_counts(&sums, node).map_err(|what| format!("node {number}: {what}"))?;
        compare_forged(node).map_err(|what| format!("node {number}: {what}"))?;
        compare_victims(node).map_err(|what| format!("node {number}: {what}"))?;
    }
    compare_sets(network)?;
    compare_views(network)
}

fn exact_sums(network: &Network) -> Sums {
    let mut sums = Sums::new();
    add_facts(&mut sums, network.members().flat_map(Server::facts));
    add_logs(&mut sums, network, &network.dead());
    sums
}

/// Checks that nothing is lost that an old copy of a disk contained: other nodes may not have fetched it before the copy
/// replaced the disk, so the logs in the copy are read again.
fn compare_copies(network: &Network) -> Result<(), String> {
    for (number, node) in network.members().enumerate() {
        let (mut copied, mut logged) = (Sums::new(), Sums::new());
        add_facts(&mut copied, node.copied_facts());
        add_logs(&mut logged, network, &node.replaced.into_iter().collect());
        let is_live = |kind: &CountKind, generation| {
            let book = if *kind == CountKind::Recipients { Book::Recipients } else { Book::Votes };
            network.members().all(|node| node.engine.is_live(book, generation))
        };
        let in_logs = |of| logged.get(of).copied().unwrap_or(0);
        let lost = copied.iter().find(|(of, amount)| is_live(&of.0, of.1) && in_logs(*of) < **amount);
        if let Some((of, amount)) = lost {
            return Err(format!(
                "node {number}: its old disk had {amount} of {of:?}, of which {} are left",
                in_logs(of)
            ));
        }
    }
    Ok(())
}

fn add_facts<'a>(sums: &mut Sums, facts: impl Iterator<Item = &'a Fact>) {
    let mut add = |counted, generation, high, amount| *sums.entry((counted, generation, high)).or_default() += amount;
    for fact in facts {
        match fact {
            Fact::Claimed { generation, claim, flag, fingerprint } => {
                add(CountKind::Claims(*claim, *flag), *generation, fingerprint.high(), 1);
            }
            Fact::Counted { generation, amount, fingerprints } => {
                fingerprints.iter().for_each(|f| add(CountKind::Recipients, *generation, f.high(), *amount));
            }
        }
    }
}

/// Adds the entries of these origins in the logs of the first node, which has applied the same as all others.
fn add_logs(sums: &mut Sums, network: &Network, origins: &BTreeSet<Origin>) {
    let mut add = |counted, generation, high, amount| *sums.entry((counted, generation, high)).or_default() += amount;
    let first = network.members().next().unwrap();
    let end = |chain: &Chain| first.engine.exchange().frontier(chain).offset as usize;
    for (chain, log) in first.logs.logs().iter().filter(|(chain, _)| origins.contains(&chain.origin)) {
        let mut rest = &log[..end(chain).min(log.len())];
        while let Some((segment, behind)) = split(rest).unwrap() {
            let payload = &segment[SEGMENT_HEADER_BYTES..segment.len() - SIGNATURE_BYTES];
            match chain.book {
                Book::Votes => read_votes(payload, |counted, high| add(counted, chain.generation, high, 1)),
                Book::Recipients => {
                    read_recipients(payload, |high, amount| add(CountKind::Recipients, chain.generation, high, amount));
                }
                _ => {}
            }
            rest = behind;
        }
    }
}

fn read_votes(mut payload: &[u8], mut add: impl FnMut(CountKind, u64)) {
    while !payload.is_empty() {
        let (head, rest) = payload.split_at(20);
        let (claim, flag, count) = (if head[17] == 0 { Claim::Report } else { Claim::Revoke }, head[18], head[19]);
        let (counted, rest) = rest.split_at(usize::from(count).div_ceil(8));
        let (signatures, rest) = rest.split_at(8 * usize::from(count));
        for (i, high) in signatures.chunks(8).enumerate() {
            if counted[i / 8] >> (i % 8) & 1 == 1 {
                add(CountKind::Claims(claim, flag), u64::from_le_bytes(high.try_into().unwrap()));
            }
        }
        payload = rest;
    }
}

fn read_recipients(mut payload: &[u8], mut add: impl FnMut(u64, u32)) {
    while !payload.is_empty() {
        let (high, rest) = payload.split_at(8);
        let last = rest.iter().position(|byte| *byte < 0x80).unwrap();
        let amount = rest[..=last].iter().rev().fold(0, |sum, byte| sum << 7 | u32::from(byte & 0x7f));
        add(u64::from_le_bytes(high.try_into().unwrap()), amount);
        payload = &rest[last + 1..];
    }
}

fn compare_counts(sums: &Sums, node: &Server) -> Result<(), String> {
    let engine = &node.engine;
    let live = |book, current: u64| (current - 7..=current).filter(move |epoch| engine.is_live(book, *epoch));
    let same = |counted, epoch, high: u64, found: u32| {
        let exact = sums.get(&(counted, epoch, high)).copied().unwrap_or(0);
        if found == exact {
            Ok(())
        } else {
            Err(format!("{counted:?} of {high:x} in {epoch}: found {found}, expected {exact}"))
        }
    };
    for fingerprint in signatures() {
        for epoch in live(Book::Votes, engine.spam().listed().epoch()) {
            for flag in 0..2 {
                let counts = engine.spam().counts_in(epoch, flag, &fingerprint);
                same(CountKind::Claims(Claim::Report, flag), epoch, fingerprint.high(), counts.report_count)?;
                same(CountKind::Claims(Claim::Revoke, flag), epoch, fingerprint.high(), counts.revoke_count)?;
            }
        }
        for epoch in live(Book::Recipients, engine.bulk().recipients().epoch()) {
            let total = engine.bulk().total_in(epoch, &fingerprint);
            same(CountKind::Recipients, epoch, fingerprint.high(), total)?;
        }
    }
    Ok(())
}

/// Checks that signatures claimed only by the liar are not listed, and that its recipients are counted up to the cap.
fn compare_victims(node: &Server) -> Result<(), String> {
    for victim in VICTIMS.map(signature) {
        let (verdict, total) = (node.engine.check(&victim, 0), node.engine.bulk().total(&victim));
        if verdict.kind == Kind::Spam || total > PEER_CAP {
            return Err(format!("claims of the liar alone: {verdict:?}, {total} recipients"));
        }
    }
    Ok(())
}

/// Checks that claims and counts made only by the forgotten node have left no trace.
///
/// One trace is allowed. Another member may have listed a signature because of the forgotten node's claims, before it
/// knew of the break-in. A member that receives this listing after it forgot the node cannot tell it from others.
fn compare_forged(node: &Server) -> Result<(), String> {
    for forged in FORGED.map(signature) {
        let (verdict, total) = (node.engine.check(&forged, 0), node.engine.bulk().total(&forged));
        let is_allowed = match verdict.kind {
            Kind::Unknown => true,
            Kind::Spam => verdict.counts == ClaimCounts::default() && was_listed_late(node, &forged),
            _ => false,
        };
        if !is_allowed || total > 0 {
            return Err(format!("claims of the forgotten node: {verdict:?}, {total} recipients"));
        }
    }
    Ok(())
}

/// Returns true if the server received a listing of a signature after it forgot another server.
fn was_listed_late(node: &Server, of: &Fingerprint) -> bool {
    let logs = node.logs.logs();
    let late = logs.iter().filter(|(chain, _)| chain.book == Book::Listed).flat_map(|(chain, log)| {
        let before = node.listed_before_forgetting.get(chain).copied().unwrap_or(0);
        segments(log).filter(move |segment| segment.sequence > before)
    });
    late.into_iter().any(|segment| {
        decode_sorted(segment.payload, segment.entries as usize).is_ok_and(|(highs, _)| highs.contains(&of.high()))
    })
}

/// Returns the complete segments of a log.
fn segments(log: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = log;
    std::iter::from_fn(move || {
        let (first, behind) = split(rest).ok().flatten()?;
        rest = behind;
        Some(*UnverifiedSegment::decode(first).ok()?.segment())
    })
}

fn compare_sets(network: &Network) -> Result<(), String> {
    if network.forgotten().is_some() {
        return compare_reported(network);
    }
    let sets = |node: &Server| (node.engine.spam().listed().clone(), node.engine.spam().revoked().clone());
    let (listed, revoked) = sets(network.members().next().unwrap());
    for (number, node) in network.members().enumerate().filter(|(_, node)| has_first_size(network, node)) {
        let (l, r) = sets(node);
        if (l != listed) || (r != revoked) {
            let entry = |node: &Server, of: &Fingerprint| node.engine.spam().entry(of);
            let unlike = signatures().find(|of| network.members().any(|other| entry(other, of) != entry(node, of)));
            let history = unlike.map(|of| format!("{:x}: {}", of.high(), history(network, &of)));
            return Err(format!("node {number} differs in listings or revocations: {history:?}"));
        }
    }
    Ok(())
}

/// Checks that what the members reported in the present generation, and did not revoke, is listed on all of them.
///
/// The other listings are not compared if a node was forgotten. A member may keep what another member listed because of
/// the forgotten node's claims, before it knew of the break-in. It may drop an older listing whose claim arrived late.
/// It may also keep the renewal of an earlier revocation by the forgotten node.
fn compare_reported(network: &Network) -> Result<(), String> {
    let is_reported = |node: &Server, of: &Fingerprint| {
        node.facts().any(|fact| {
            matches!(fact, Fact::Claimed { generation, claim: Claim::Report, fingerprint, .. }
                if fingerprint == of && *generation == node.engine.spam().listed().epoch())
        })
    };
    let is_revoked = |node: &Server, of: &Fingerprint| {
        node.facts()
            .any(|fact| matches!(fact, Fact::Claimed { claim: Claim::Revoke, fingerprint, .. } if fingerprint == of))
    };
    // A member may have renewed a revocation that the forgotten node made in an earlier generation.
    let is_renewed = |node: &Server, of: &Fingerprint| {
        node.facts().any(|fact| {
            matches!(fact, Fact::Claimed { generation, claim: Claim::Revoke, fingerprint, .. }
                if fingerprint == of && *generation < node.engine.spam().listed().epoch())
        })
    };
    let is_disputed = |of: &Fingerprint| {
        network.members().any(|node| is_revoked(node, of)) || network.nodes.iter().any(|node| is_renewed(node, of))
    };
    // The facts lack everything that was lost with a disk, even revocations by the forgotten node.
    let is_clear = !network.has_lost_disks();
    for fingerprint in signatures().filter(|of| is_clear && !is_disputed(of)) {
        let is_expected = network.members().any(|node| is_reported(node, &fingerprint));
        let is_listed = |node: &Server| node.engine.check(&fingerprint, 0).kind == Kind::Spam;
        if let Some(node) = network.members().position(|node| is_expected && !is_listed(node)) {
            let history = history(network, &fingerprint);
            return Err(format!("node {node} does not list {:x}: {history}", fingerprint.high()));
        }
    }
    Ok(())
}

/// Describes the claims about a signature, and its state, node by node.
fn history(network: &Network, of: &Fingerprint) -> String {
    let node = |node: &Server| {
        let is_about = |fact: &&Fact| matches!(fact, Fact::Claimed { fingerprint, .. } if fingerprint == of);
        let facts: Vec<_> = node.facts().filter(is_about).collect();
        format!("{:?} in {}: {facts:?}", node.engine.spam().entry(of), node.engine.spam().listed().epoch())
    };
    network.nodes.iter().map(node).collect::<Vec<_>>().join("; ")
}

/// Returns true if a node's structures have the size of the first node's, so that they can be compared.
fn has_first_size(network: &Network, node: &Server) -> bool {
    network.members().next().unwrap().engine.plan() == node.engine.plan()
}

/// Checks that no server noticed a fault that did not occur, and that each link to a node shows it as up to date.
fn compare_views(network: &Network) -> Result<(), String> {
    if let Some((number, fault)) = network.members().enumerate().find_map(|(n, node)| Some((n, node.fault.as_ref()?))) {
        return Err(format!("node {number}: {fault}"));
    }
    for (number, node) in network.members().enumerate().filter(|_| network.is_noticed) {
        let moment = node.moment(network.now_ms());
        for (link, other) in node.links.iter().flat_map(|link| network.members().map(move |other| (link, other))) {
            let is_shown =
                link.end == End::Broker || matches!(link.end, End::Node(n) if std::ptr::eq(&network.nodes[n], other));
            if !is_shown || std::ptr::eq(node, other) {
                continue;
            }
            let view = link.receiver.view(other.key.public().as_bytes(), &node.engine, moment);
            // Segments may have been lost with the only disk that had them, or belong to a generation that is over here.
            let is_heard = match view.state {
                PeerState::UpToDate | PeerState::Behind { .. } | PeerState::ClockDiffers { .. } => true,
                PeerState::Silent { .. } => has_advanced_books(other, network.now()),
                _ => false,
            };
            if !is_heard {
                return Err(format!("node {number}: the link {:?} shows {}", link.end, view.state));
            }
        }
    }
    Ok(())
}

/// Returns true if this module has advanced a server's books into a generation that begins later by the server's clock,
/// or began a few seconds ago. Until it begins, the server's heads lack the chains of an expired generation, but have an
/// earlier time, so others refuse them.
fn has_advanced_books(node: &Server, now: Time) -> bool {
    let (clock, realm) = (node.clock(now).0.saturating_sub(NEWS_SECONDS), node.engine.realm());
    let epochs = [realm.spam_epoch_seconds(), realm.bulk_epoch_seconds()];
    epochs.into_iter().any(|seconds| node.engine.now().0 / seconds > clock / seconds)
}
