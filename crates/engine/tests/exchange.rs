//! Exchange between servers: segments are applied once, chains in any order, and counts of all nodes add up.

mod common;

use bruit_engine::bulk::MANY;
use bruit_engine::event::Event;
use bruit_engine::exchange::{
    Book, Chain, Encoding, NO_HASH, Origin, OriginChange, PAYLOAD_BYTES_MAX, Received, Relation, Terms,
};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{BEHIND_LINES, Engine, ExchangeRefusal, Outcome, Refusal};
use bruit_filters::Fingerprint;

use common::{BULK_EPOCH, SPAM_EPOCH, START, by, engine, fingerprint, restore, snapshot, tick};

const CLUSTER: Terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 0, cap: MANY };
const PEER: Terms = Terms { relation: Relation::Peer, standing: Standing::Pinned, group: 77, cap: 100 };

fn origin(number: u8) -> Origin {
    Origin { key: [number; 32], incarnation: 1 }
}

fn change(engine: &mut Engine, change: OriginChange) {
    let outcome = engine.apply(&Event::Origin { now: engine.now(), change });
    assert_eq!(outcome, Outcome::Done);
}

/// Creates servers, each with all the others as members on these terms.
fn servers(count: u8, terms: Terms) -> Vec<Engine> {
    let mut engines: Vec<_> = (0..count).map(|_| engine()).collect();
    for (number, engine) in engines.iter_mut().enumerate() {
        let cluster = terms.relation == Relation::Cluster;
        change(engine, OriginChange::Begin { origin: origin(number as u8), cluster });
        for other in (0..count).filter(|other| usize::from(*other) != number) {
            change(engine, OriginChange::Join { key: [other; 32], terms: Terms { group: other.into(), ..terms } });
        }
    }
    engines
}

/// Seals all pending entries and returns them as verified segments. The hash of a segment is derived from its position.
fn seal(engine: &mut Engine) -> Vec<Received> {
    let origin = engine.exchange().own().unwrap();
    let mut segments = Vec::new();
    while let Some((book, generation)) = { engine.exchange().pending().next() } {
        let chain = Chain { origin, book, generation };
        let sealable = engine.exchange().sealable(book, generation).unwrap();
        assert!(sealable.payload.len() <= PAYLOAD_BYTES_MAX);
        let frontier = engine.exchange().frontier(&chain);
        let mut hash = [book as u8; 32];
        hash[..8].copy_from_slice(&(frontier.sequence + 1).to_le_bytes());
        let bytes = 176 + sealable.payload.len() as u32;
        let sequence = frontier.sequence + 1;
        let sealed = Event::Sealed { now: engine.now(), chain, sequence, taken: sealable.taken, bytes, hash };
        assert_eq!(engine.apply(&sealed), Outcome::Done);
        segments.push(Received {
            chain,
            sequence: frontier.sequence + 1,
            previous: frontier.hash,
            hash,
            bytes,
            encoding: sealable.encoding,
            payload: sealable.payload,
        });
    }
    segments
}

fn receive(engine: &mut Engine, segment: &Received) -> Outcome {
    engine.apply(&Event::Received { now: engine.now(), segment: Box::new(segment.clone()) })
}

fn refused(refusal: ExchangeRefusal) -> Outcome {
    Outcome::Refused(Refusal::Exchange(refusal))
}

/// Transfers all pending entries of each server to all others.
fn exchange(engines: &mut [Engine]) {
    // Repeat, because listings that follow from another server's claims have to be exported in turn.
    for _ in 0..3 {
        for from in 0..engines.len() {
            let segments = seal(&mut engines[from]);
            for (_, engine) in engines.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                let is_node = engine.exchange().relation(&origin(from as u8)) == Some(Relation::Cluster);
                for segment in segments.iter().filter(|segment| is_node || segment.chain.book.is_public()) {
                    assert!(matches!(receive(engine, segment), Outcome::Taken { .. }), "{segment:?}");
                }
            }
        }
    }
}

fn claim(engine: &mut Engine, claim: Claim, standing: Standing, who: u64, fingerprints: Vec<Fingerprint>) {
    let by = by(engine.now(), standing, who);
    let outcome = engine.apply(&Event::Claim { by, claim, flag: 0, fingerprints });
    assert!(matches!(outcome, Outcome::Claimed { .. }), "{outcome:?}");
}

fn count(engine: &mut Engine, targets: u32, fingerprints: Vec<Fingerprint>) {
    let by = by(engine.now(), Standing::Own, 1);
    let outcome = engine.apply(&Event::Bulk { by, targets, fingerprints });
    assert!(matches!(outcome, Outcome::Counted { .. }), "{outcome:?}");
}

#[test]
fn nodes_of_a_cluster_add_their_counts() {
    let mut nodes = servers(3, CLUSTER);
    let spam = fingerprint(1);
    for (number, node) in nodes.iter_mut().enumerate() {
        // Each node receives the same message, as is common.
        claim(node, Claim::Report, Standing::Own, number as u64, vec![spam]);
        count(node, 10, vec![fingerprint(2), fingerprint(2)]);
    }
    exchange(&mut nodes);
    for node in &nodes {
        let verdict = node.check(&spam, 0);
        assert_eq!((verdict.kind, verdict.counts.report_count), (Kind::Spam, 3));
        assert_eq!(node.bulk().total(&fingerprint(2)), 60);
        assert_eq!(node.exchange().pending_bytes(), 0);
    }
    for (chain, frontier) in nodes[0].exchange().chains() {
        assert!(nodes[1..].iter().all(|node| node.exchange().frontier(&chain) == frontier), "{chain:?}");
    }
    let sets: Vec<_> = nodes.iter().map(|node| node.spam().listed().clone()).collect();
    assert!(sets.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_revocation_at_one_node_holds_at_all_nodes() {
    let mut nodes = servers(2, CLUSTER);
    let mail = fingerprint(1);
    claim(&mut nodes[0], Claim::Report, Standing::Own, 1, vec![mail]);
    let late = seal(&mut nodes[0]);
    claim(&mut nodes[1], Claim::Revoke, Standing::Own, 2, vec![mail]);
    for segment in seal(&mut nodes[1]) {
        receive(&mut nodes[0], &segment);
    }
    for segment in &late {
        assert!(matches!(receive(&mut nodes[1], segment), Outcome::Taken { .. }));
    }
    assert!(nodes.iter().all(|node| node.check(&mail, 0).kind == Kind::Ham));
}

#[test]
fn good_features_are_exported_to_nodes_but_not_to_peers() {
    let good = |node: &Engine| {
        let mut features = vec![1, 2, 3];
        node.replicas().retain_unlearnt(&mut features);
        features.is_empty()
    };
    for (terms, is_told) in [(CLUSTER, true), (PEER, false)] {
        let mut nodes = servers(2, terms);
        let by = by(nodes[0].now(), Standing::Own, 1);
        assert_eq!(nodes[0].apply(&Event::GoodFeatures { by, features: vec![1, 2, 3] }), Outcome::Done);
        exchange(&mut nodes);
        assert_eq!((good(&nodes[0]), good(&nodes[1])), (true, is_told));
    }
}

/// A node that was offline receives votes of earlier generations late. If it listed their signatures anew, listings
/// would outlive their window, and signatures revoked since then would be listed again.
#[test]
fn late_votes_neither_renew_a_listing_nor_undo_a_revocation() {
    let mut nodes = servers(2, CLUSTER);
    let (spam, mail) = (fingerprint(1), fingerprint(2));
    claim(&mut nodes[0], Claim::Report, Standing::Own, 1, vec![spam, mail]);
    let mut segments = seal(&mut nodes[0]);
    let next = Time(nodes[0].now().0 + SPAM_EPOCH);
    tick(&mut nodes[0], next);
    claim(&mut nodes[0], Claim::Revoke, Standing::Own, 1, vec![mail]);
    segments.extend(seal(&mut nodes[0]));
    nodes.iter_mut().for_each(|node| tick(node, Time(next.0 + SPAM_EPOCH)));
    // Deliver the newest generations first, and sets before votes.
    segments.sort_by_key(|segment| (segment.chain.book == Book::Votes, std::cmp::Reverse(segment.chain.generation)));
    for segment in &segments {
        assert!(matches!(receive(&mut nodes[1], segment), Outcome::Taken { .. }));
    }
    assert_eq!(nodes[1].check(&mail, 0).kind, Kind::Ham);
    let listed = nodes[1].check(&spam, 0);
    assert_eq!((listed.kind, listed.generations.newest()), (Kind::Spam, Some(2)));
    assert_eq!(nodes[1].exchange().pending_bytes(), 0, "votes of others are not exported");
}

#[test]
fn a_segment_is_applied_once_and_only_after_its_predecessor() {
    let mut nodes = servers(2, CLUSTER);
    let mut segments = Vec::new();
    for number in 0..3 {
        count(&mut nodes[0], 5, vec![fingerprint(number)]);
        segments.extend(seal(&mut nodes[0]).into_iter().filter(|segment| segment.chain.book == Book::Recipients));
    }
    let [first, second, third] = &segments[..] else { panic!("three segments") };
    let node = &mut nodes[1];
    assert_eq!(receive(node, second), refused(ExchangeRefusal::NotNext));
    assert_eq!(receive(node, first), Outcome::Taken { entries: 1, refused: 0 });
    assert_eq!(receive(node, first), refused(ExchangeRefusal::AlreadyTaken));
    assert_eq!(receive(node, third), refused(ExchangeRefusal::NotNext));
    let forked = Received { previous: [9; 32], ..second.clone() };
    assert_eq!(receive(node, &forked), refused(ExchangeRefusal::NotNext));
    assert_eq!(receive(node, second), Outcome::Taken { entries: 1, refused: 0 });
    assert_eq!(receive(node, third), Outcome::Taken { entries: 1, refused: 0 });
    assert!((0..3).all(|number| node.bulk().total(&fingerprint(number)) == 5));
    let chain = first.chain;
    assert_eq!(nodes[0].exchange().frontier(&chain), nodes[1].exchange().frontier(&chain));
}

#[test]
fn unknown_servers_and_books_not_shared_with_peers_are_refused() {
    let mut servers = servers(2, PEER);
    let segment = |book, origin, generation| Received {
        chain: Chain { origin, book, generation },
        sequence: 1,
        previous: NO_HASH,
        hash: [1; 32],
        bytes: 200,
        encoding: Encoding::of(book),
        payload: vec![255; 9],
    };
    let engine = &mut servers[0];
    let epoch = engine.spam().listed().epoch();
    for (book, origin, generation, refusal) in [
        (Book::Listed, origin(9), epoch, "unknown_origin"),
        (Book::Votes, origin(1), epoch, "not_shared"),
        (Book::Listed, origin(1), epoch + 1, "not_yet"),
        (Book::Listed, origin(1), epoch - 7, "expired"),
        (Book::Listed, origin(1), epoch, "payload"),
        (Book::Listed, origin(0), epoch, "already_taken"),
    ] {
        let Outcome::Refused(Refusal::Exchange(found)) = receive(engine, &segment(book, origin, generation)) else {
            panic!("not refused as {refusal}");
        };
        assert_eq!(found.name(), refusal);
    }
}

#[test]
fn a_peer_alone_lists_nothing_and_its_recipients_are_capped() {
    let mut servers = servers(2, PEER);
    let mail: Vec<_> = (0..50).map(fingerprint).collect();
    claim(&mut servers[0], Claim::Report, Standing::Own, 1, mail.clone());
    count(&mut servers[0], 100_000, mail.clone());
    exchange(&mut servers);
    assert_eq!(servers[0].check(&mail[0], 0).kind, Kind::Spam);
    for fingerprint in &mail {
        assert_eq!(servers[1].check(fingerprint, 0).kind, Kind::Unknown);
        assert_eq!(servers[1].bulk().total(fingerprint), 100);
    }
}

#[test]
fn after_a_lost_disk_a_new_incarnation_counts_nothing_twice() {
    let mut nodes = servers(2, CLUSTER);
    count(&mut nodes[0], 7, vec![fingerprint(1)]);
    exchange(&mut nodes);
    let kept = seal_again(&nodes[0]);
    // The first node loses its disk. It starts empty and receives its own earlier segments from the other node.
    let mut again = engine();
    let life = Origin { incarnation: 2, ..origin(0) };
    change(&mut again, OriginChange::Begin { origin: life, cluster: true });
    change(&mut again, OriginChange::Join { key: [1; 32], terms: CLUSTER });
    count(&mut again, 3, vec![fingerprint(1)]);
    for segment in kept {
        assert!(matches!(receive(&mut again, &segment), Outcome::Taken { .. }));
    }
    nodes[0] = again;
    exchange(&mut nodes);
    assert!(nodes.iter().all(|node| node.bulk().total(&fingerprint(1)) == 10));
}

#[test]
fn an_old_copy_of_the_disk_fetches_its_own_segments_and_counts_them_once() {
    let mut nodes = servers(2, CLUSTER);
    count(&mut nodes[0], 7, vec![fingerprint(1)]);
    let copy = snapshot(&mut nodes[0]);
    let said = seal(&mut nodes[0]);
    for segment in &said {
        receive(&mut nodes[1], segment);
    }
    // In the copy, the seven recipients are still pending. They come back in segments from the other node, and the new
    // incarnation exports them again.
    nodes[0] = restore(&copy);
    let waiting = nodes[0].exchange().pending_bytes();
    assert!(waiting > 0);
    change(&mut nodes[0], OriginChange::Begin { origin: Origin { incarnation: 2, ..origin(0) }, cluster: true });
    for segment in &said {
        assert!(matches!(receive(&mut nodes[0], segment), Outcome::Taken { .. }));
    }
    exchange(&mut nodes);
    // Entries that were pending when the copy was made are exported twice, because the server cannot know whether they
    // were exported before.
    assert!(nodes.iter().all(|node| node.bulk().total(&fingerprint(1)) == 14));
    assert_eq!(nodes[0].exchange().pending_bytes(), 0);
}

/// Returns the segments of the recipients counted by [`count`], as a relay would serve them.
fn seal_again(engine: &Engine) -> Vec<Received> {
    let (chain, frontier) = engine.exchange().chains().find(|(chain, _)| chain.book == Book::Recipients).unwrap();
    let mut payload = fingerprint(1).high().to_le_bytes().to_vec();
    payload.push(7);
    let bytes = frontier.offset as u32;
    let segment = Received {
        chain,
        sequence: 1,
        previous: NO_HASH,
        hash: frontier.hash,
        bytes,
        encoding: Encoding::InOrder,
        payload,
    };
    vec![segment]
}

#[test]
fn a_repaired_chain_is_applied_again_and_counted_once() {
    let mut nodes = servers(2, CLUSTER);
    count(&mut nodes[0], 40, vec![fingerprint(1)]);
    let segments = seal(&mut nodes[0]);
    let recipients = segments.iter().find(|segment| segment.chain.book == Book::Recipients).unwrap();
    receive(&mut nodes[1], recipients);
    let repair = Event::Repair { now: nodes[1].now(), chain: recipients.chain };
    assert_eq!(nodes[1].apply(&repair), Outcome::Done);
    assert_eq!(nodes[1].bulk().total(&fingerprint(1)), 0);
    assert_eq!(receive(&mut nodes[1], recipients), Outcome::Taken { entries: 1, refused: 0 });
    assert_eq!(nodes[1].bulk().total(&fingerprint(1)), 40);
}

/// Returns the number of rings that belong to single origins.
fn separate_rings(engine: &Engine) -> u64 {
    let tables = engine.status().tables;
    tables.iter().find(|table| table.name == "counts of other servers").unwrap().used
}

/// Applies ticks until all old lines are cleared.
fn clear_all(engine: &mut Engine) {
    let now = engine.now();
    while engine.needs_tick(now) {
        engine.apply(&Event::Tick { now, lines: BEHIND_LINES });
    }
}

#[test]
fn further_nodes_need_no_memory_and_counts_above_fifteen_stay_exact() {
    let mut bytes = Vec::new();
    for count in [2, 6] {
        let mut nodes = servers(count, CLUSTER);
        for (number, node) in nodes.iter_mut().enumerate() {
            // No node passes fifteen alone.
            for signature in 0..3_000 {
                count_one(node, 1 + (signature + number as u32) % 9, signature);
            }
        }
        exchange(&mut nodes);
        for node in &nodes {
            let exact = |signature: u32| (0..u32::from(count)).map(|number| 1 + (signature + number) % 9).sum::<u32>();
            let wrong = (0..3_000).filter(|&number| node.bulk().total(&fingerprint(number)) != exact(number)).count();
            assert!(wrong < 3, "{wrong} of 3,000 counts are wrong");
        }
        assert_eq!(separate_rings(&nodes[0]), 0);
        bytes.push(nodes[0].status().bytes);
    }
    assert_eq!(bytes[0], bytes[1]);
}

fn count_one(engine: &mut Engine, targets: u32, signature: u32) {
    count(engine, targets, vec![fingerprint(signature)]);
}

#[test]
fn a_repair_discards_the_counts_of_all_nodes_in_that_generation_and_no_others() {
    let mut nodes = servers(3, CLUSTER);
    let recipients = |node: &mut Engine, targets| {
        count(node, targets, vec![fingerprint(1)]);
        seal(node).into_iter().find(|segment| segment.chain.book == Book::Recipients).unwrap()
    };
    let older = recipients(&mut nodes[1], 100);
    let next = Time(START.0 + BULK_EPOCH);
    nodes.iter_mut().for_each(|node| tick(node, next));
    let segments = [recipients(&mut nodes[1], 20), recipients(&mut nodes[2], 30)];
    let _ = recipients(&mut nodes[0], 7);
    let node = &mut nodes[0];
    for segment in [&older].into_iter().chain(&segments) {
        assert!(matches!(receive(node, segment), Outcome::Taken { .. }));
    }
    assert_eq!(node.bulk().total(&fingerprint(1)), 157);
    let own = Chain { origin: origin(0), ..segments[0].chain };
    assert_eq!(node.apply(&Event::Repair { now: next, chain: segments[0].chain }), Outcome::Done);
    assert_eq!(node.bulk().total(&fingerprint(1)), 107);
    let sequences = [segments[0].chain, segments[1].chain, older.chain, own];
    assert_eq!(sequences.map(|chain| node.exchange().frontier(&chain).sequence), [0, 0, 1, 1]);
    for segment in &segments {
        assert!(matches!(receive(node, segment), Outcome::Taken { .. }));
    }
    assert_eq!(node.bulk().total(&fingerprint(1)), 157);
}

/// Snapshots of version 5 have a ring for each origin. This server's own earlier origin also has one, if its key was
/// replaced.
#[test]
fn a_generation_that_began_in_a_ring_of_its_own_stays_there() {
    let mut nodes = servers(2, CLUSTER);
    count(&mut nodes[0], 7, vec![fingerprint(1)]);
    let first = seal(&mut nodes[0]).into_iter().find(|segment| segment.chain.book == Book::Recipients).unwrap();
    let node = &mut nodes[0];
    change(node, OriginChange::Begin { origin: origin(9), cluster: true });
    change(node, OriginChange::Join { key: [0; 32], terms: CLUSTER });
    assert_eq!((separate_rings(node), node.bulk().total(&fingerprint(1))), (2, 7));
    let payload = [&fingerprint(1).high().to_le_bytes()[..], &[20]].concat();
    let second = Received { sequence: 2, previous: first.hash, hash: [2; 32], payload, ..first.clone() };
    assert_eq!(receive(node, &second), Outcome::Taken { entries: 1, refused: 0 });
    assert!(node.bulk().recipients_of_nodes().is_none_or(|ring| ring.count(&fingerprint(1)) == 0));
    assert_eq!(node.bulk().total(&fingerprint(1)), 27);
    let bytes = snapshot(node);
    assert!(snapshot(&mut restore(&bytes)) == bytes);
    assert_eq!(node.apply(&Event::Repair { now: node.now(), chain: first.chain }), Outcome::Done);
    assert_eq!(node.bulk().total(&fingerprint(1)), 0);
    assert_eq!(receive(node, &first), Outcome::Taken { entries: 1, refused: 0 });
    // The origin's own ring is empty now, so the chain is counted in the ring that all other nodes share.
    assert_eq!(node.bulk().recipients_of_nodes().unwrap().count(&fingerprint(1)), 7);
    let later = Time(START.0 + SPAM_EPOCH);
    tick(node, later);
    clear_all(node);
    assert_eq!(separate_rings(node), 0, "empty rings are dropped");
}

#[test]
fn segments_of_others_survive_a_snapshot_and_expire() {
    let mut nodes = servers(3, CLUSTER);
    for (number, node) in nodes.iter_mut().enumerate() {
        claim(node, Claim::Report, Standing::Own, number as u64, (0..40).map(fingerprint).collect());
        count(node, 20 + number as u32, (0..40).map(fingerprint).collect());
    }
    exchange(&mut nodes);
    count(&mut nodes[0], 1, vec![fingerprint(0)]);
    let bytes = snapshot(&mut nodes[0]);
    let mut restored = restore(&bytes);
    assert!(snapshot(&mut restored) == bytes);
    assert_eq!(restored.bulk().total(&fingerprint(0)), 64);
    assert_eq!(restored.exchange(), nodes[0].exchange());
    for _ in 0..8 {
        let later = Time(restored.now().0 + SPAM_EPOCH);
        tick(&mut restored, later);
    }
    clear_all(&mut restored);
    assert_eq!(restored.exchange().chains().count(), 0);
    assert_eq!(restored.bulk().total(&fingerprint(0)), 0);
    let others = restored.status().tables.into_iter().find(|table| table.name == "counts of other servers").unwrap();
    assert_eq!((others.used, others.bytes), (0, 0));
    assert!(restored.bulk().recipients_of_nodes().is_none() && restored.spam().claims_of_nodes().is_none());
}

#[test]
fn rings_added_during_a_snapshot_are_not_part_of_it() {
    let mut nodes = servers(2, CLUSTER);
    count(&mut nodes[1], 20, vec![fingerprint(5)]);
    let segments = seal(&mut nodes[1]);
    let before = snapshot(&mut nodes[0]);
    let mut bytes = Vec::new();
    nodes[0].begin_snapshot(&mut bytes);
    for segment in &segments {
        receive(&mut nodes[0], segment);
    }
    while !nodes[0].continue_snapshot(64 << 10, &mut bytes) {}
    assert!(bytes == before);
    assert_eq!(nodes[0].bulk().total(&fingerprint(5)), 20);
}

#[test]
fn events_are_refused_only_while_pending_entries_exceed_their_bound() {
    let mut alone = engine();
    let mut node = servers(1, CLUSTER).remove(0);
    let mut refusals = [0, 0];
    let fingerprints: Vec<_> = (0..64).map(fingerprint).collect();
    for _ in 0..9_000 {
        for (engine, refused) in [&mut alone, &mut node].into_iter().zip(&mut refusals) {
            let by = by(engine.now(), Standing::Own, 1);
            let report = Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints: fingerprints.clone() };
            *refused += u32::from(engine.apply(&report) == Outcome::Refused(Refusal::ExportsWait));
        }
    }
    assert_eq!(refusals[0], 0);
    assert!(refusals[1] > 0 && node.exchange().pending_bytes() < (4 << 20) + 1024);
    seal(&mut node);
    let by = by(node.now(), Standing::Own, 1);
    let again = node.apply(&Event::Bulk { by, targets: 1, fingerprints: vec![fingerprint(1)] });
    assert!(matches!(again, Outcome::Counted { .. }));
}

#[test]
fn ending_the_exchange_drops_pending_entries_and_the_incarnation() {
    let mut engine = servers(1, CLUSTER).remove(0);
    let report = |engine: &mut Engine, number| {
        let event = Event::Claim {
            by: by(engine.now(), Standing::Own, 1),
            claim: Claim::Report,
            flag: 0,
            fingerprints: vec![fingerprint(number)],
        };
        assert!(matches!(engine.apply(&event), Outcome::Claimed { .. }));
    };
    report(&mut engine, 1);
    seal(&mut engine);
    report(&mut engine, 2);
    assert!(engine.exchange().pending_bytes() > 0);
    let end = Event::Origin { now: engine.now(), change: OriginChange::End };
    let mut encoded = Vec::new();
    end.encode(&mut encoded);
    assert_eq!(Event::decode(&encoded), Ok(end.clone()));
    assert_eq!(engine.apply(&end), Outcome::Done);
    report(&mut engine, 3);
    assert_eq!((engine.exchange().own(), engine.exchange().pending_bytes()), (None, 0));
    assert_eq!(
        engine.apply(&end),
        Outcome::Refused(ExchangeRefusal::NotBegun.into()),
        "the exchange has ended already"
    );
    let bytes = snapshot(&mut engine);
    assert_eq!(snapshot(&mut restore(&bytes)), bytes);

    let again = |incarnation| OriginChange::Begin { origin: Origin { incarnation, ..origin(0) }, cluster: true };
    change(&mut engine, again(2));
    report(&mut engine, 4);
    let resealed = seal(&mut engine);
    assert!(
        !resealed.is_empty()
            && resealed.iter().all(|segment| segment.chain.origin.incarnation == 2 && segment.sequence == 1)
    );
    for incarnation in 3..=4 {
        change(&mut engine, OriginChange::End);
        change(&mut engine, again(incarnation));
        report(&mut engine, 10 + incarnation as u32);
        seal(&mut engine);
    }
    change(&mut engine, OriginChange::End);
    let outcome = engine.apply(&Event::Origin { now: engine.now(), change: again(5) });
    assert_eq!(outcome, Outcome::Refused(ExchangeRefusal::NoRoom.into()), "incarnations are bounded");
}
