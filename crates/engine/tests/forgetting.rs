//! A forgotten server leaves no trace in the books, and the data of all others stays as it was.

mod common;

use std::collections::BTreeMap;

use bruit_engine::bulk::MANY;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, FORGOTTEN_MAX, Origin, OriginChange, Received, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{BEHIND_LINES, Engine, ExchangeRefusal, Outcome, Refusal};

use common::{BULK_EPOCH, SPAM_EPOCH, START, by, engine, fingerprint, restore, snapshot, tick};

const CLUSTER: Terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 0, cap: MANY };
/// The node that is forgotten.
const BAD: u8 = 2;

/// A node and the logs on its shelf.
struct Node {
    engine: Engine,
    logs: BTreeMap<Chain, Vec<Received>>,
}

fn origin(number: u8) -> Origin {
    Origin { key: [number; 32], incarnation: 1 }
}

fn cluster(numbers: &[u8]) -> Vec<Node> {
    let node = |number: &u8| {
        let mut node = Node { engine: engine(), logs: BTreeMap::new() };
        let joins = numbers.iter().filter(|other| *other != number);
        let joins = joins.map(|other| OriginChange::Join { key: [*other; 32], terms: CLUSTER });
        let begin = OriginChange::Begin { origin: origin(*number), cluster: true };
        for change in [begin].into_iter().chain(joins) {
            assert_eq!(node.engine.apply(&Event::Origin { now: START, change }), Outcome::Done);
        }
        node
    };
    numbers.iter().map(node).collect()
}

impl Node {
    fn claim(&mut self, claim: Claim, signature: u32) {
        self.claim_by(1, claim, signature);
    }

    fn claim_by(&mut self, user: u64, claim: Claim, signature: u32) {
        let by = by(self.engine.now(), Standing::Own, user);
        let event = Event::Claim { by, claim, flag: 0, fingerprints: vec![fingerprint(signature)] };
        assert!(matches!(self.engine.apply(&event), Outcome::Claimed { refused: 0, .. }));
    }

    fn count(&mut self, targets: u32, signature: u32) {
        let by = by(self.engine.now(), Standing::Own, 1);
        let event = Event::Bulk { by, targets, fingerprints: vec![fingerprint(signature)] };
        assert!(matches!(self.engine.apply(&event), Outcome::Counted { refused: 0, .. }));
    }

    /// Seals all pending entries.
    fn seal(&mut self) -> Vec<Received> {
        let origin = self.engine.exchange().own().unwrap();
        let mut segments = Vec::new();
        while let Some((book, generation)) = { self.engine.exchange().pending().next() } {
            let chain = Chain { origin, book, generation };
            let next = self.engine.exchange().sealable(book, generation).unwrap();
            let frontier = self.engine.exchange().frontier(&chain);
            let sequence = frontier.sequence + 1;
            let mut hash = [book as u8; 32];
            hash[..8].copy_from_slice(&sequence.to_le_bytes());
            let bytes = 188 + next.payload.len() as u32;
            let now = self.engine.now();
            let sealed = Event::Sealed { now, chain, sequence, taken: next.taken, bytes, hash };
            assert_eq!(self.engine.apply(&sealed), Outcome::Done);
            let (encoding, payload) = (next.encoding, next.payload);
            let segment = Received { chain, sequence, previous: frontier.hash, hash, bytes, encoding, payload };
            self.logs.entry(chain).or_default().push(segment.clone());
            segments.push(segment);
        }
        segments
    }

    fn receive(&mut self, segment: &Received) -> Outcome {
        let now = self.engine.now();
        let outcome = self.engine.apply(&Event::Received { now, segment: Box::new(segment.clone()) });
        if matches!(outcome, Outcome::Taken { .. }) {
            self.logs.entry(segment.chain).or_default().push(segment.clone());
        }
        outcome
    }

    fn forget(&mut self, key: u8, is_forgotten: bool) -> Outcome {
        let now = Time(self.engine.now().0 + 1);
        let by = self.engine.exchange().own().unwrap().key;
        let event = Event::Forget { now, key: [key; 32], by, is_forgotten };
        assert_eq!(decoded(&event), event);
        self.engine.apply(&event)
    }

    /// Takes one step of rebuilding the books. Returns false if there is nothing to do.
    fn step(&mut self) -> bool {
        if !self.engine.is_forgetting() {
            return false;
        }
        let now = self.engine.now();
        let event = match self.engine.rereading() {
            Some(part) => {
                let segment = self.logs[&part.chain][part.from.sequence as usize].clone();
                Event::Reread { now, segment: Box::new(segment) }
            }
            None => Event::Rebuild { now },
        };
        assert_eq!(decoded(&event), event);
        let outcome = self.engine.apply(&event);
        assert!(matches!(outcome, Outcome::Done | Outcome::Taken { .. }), "{outcome:?}");
        true
    }

    fn finish(&mut self) {
        while self.step() {}
    }

    /// Applies ticks until all old lines are cleared.
    fn clear_all(&mut self) {
        let now = Time(self.engine.now().0 + 10);
        while self.engine.needs_tick(now) {
            self.engine.apply(&Event::Tick { now, lines: BEHIND_LINES });
        }
    }

    /// Returns what the node says about a signature: its verdict, its claims, and its recipients.
    fn knowledge(&self, signature: u32) -> (Kind, u32, u32, u32) {
        let verdict = self.engine.check(&fingerprint(signature), 0);
        let counts = verdict.counts;
        (verdict.kind, counts.report_count, counts.revoke_count, self.engine.bulk().total(&fingerprint(signature)))
    }
}

/// Returns an event as it is read from a journal.
fn decoded(event: &Event) -> Event {
    let mut encoded = Vec::new();
    event.encode(&mut encoded);
    Event::decode(&encoded).unwrap()
}

/// Delivers all segments, including those that are exported as a result.
fn exchange(nodes: &mut [Node]) {
    for _ in 0..3 {
        for from in 0..nodes.len() {
            for segment in nodes[from].seal() {
                for to in (0..nodes.len()).filter(|to| *to != from) {
                    let outcome = nodes[to].receive(&segment);
                    assert!(matches!(outcome, Outcome::Taken { .. } | Outcome::Refused(_)), "{outcome:?}");
                }
            }
        }
    }
}

/// Lets all nodes claim and count signatures. The other nodes do the same whether or not the node [`BAD`] takes part.
fn fill(nodes: &mut [Node]) {
    for turn in 0..3_u32 {
        for (number, node) in nodes.iter_mut().enumerate() {
            let is_bad = node.engine.exchange().own() == Some(origin(BAD));
            let from = if is_bad { 1_000 } else { 100 * number as u32 };
            for signature in from + 10 * turn..from + 10 * turn + 10 {
                node.claim(Claim::Report, signature);
                node.count(5, signature);
                node.count(9, 500 + signature % 10);
            }
            if is_bad {
                // The bad node lists good mail, and revokes what others listed before.
                node.claim(Claim::Report, 2_000 + turn);
                if turn > 0 {
                    node.claim(Claim::Revoke, 10 * (turn - 1));
                }
            }
        }
        exchange(nodes);
        let next = Time(START.0 + u64::from(turn + 1) * BULK_EPOCH * 3);
        nodes.iter_mut().for_each(|node| tick(&mut node.engine, next));
    }
}

fn signatures() -> impl Iterator<Item = u32> {
    (0..2_100).filter(|signature| signature % 100 < 40 || *signature < 700)
}

#[test]
fn what_a_node_said_is_gone_everywhere_and_the_rest_is_as_if_it_had_never_been_there() {
    let mut honest = cluster(&[0, 1]);
    fill(&mut honest);
    let mut nodes = cluster(&[0, 1, BAD]);
    fill(&mut nodes);
    assert_eq!(nodes[0].knowledge(2_000).0, Kind::Spam);
    assert_eq!(nodes[0].knowledge(0).0, Kind::Ham);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    exchange(&mut nodes[..2]);
    assert!(nodes[1].engine.is_forgetting(), "one command reaches all nodes");
    assert_eq!(nodes[0].knowledge(2_000).0, Kind::Spam, "the old rings answer until the new ones are complete");
    for (node, expected) in nodes[..2].iter_mut().zip(&mut honest) {
        node.finish();
        node.clear_all();
        expected.clear_all();
        assert!(node.engine.spam().listed() == expected.engine.spam().listed(), "listings differ");
        assert!(node.engine.spam().revoked() == expected.engine.spam().revoked(), "revocations differ");
        for signature in signatures() {
            assert_eq!(node.knowledge(signature), expected.knowledge(signature), "signature {signature}");
        }
        let theirs = node.engine.exchange().chains().filter(|(chain, _)| chain.origin == origin(BAD));
        assert_eq!(theirs.filter(|(chain, _)| chain.book != Book::Texts).count(), 0);
    }
}

/// A node lists what another node's users report. So a listing by an honest node can be due to claims of the forgotten
/// node.
#[test]
fn listings_that_others_made_from_its_claims_alone_are_gone_too() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[2].claim(Claim::Report, 1);
    nodes[2].claim(Claim::Report, 2);
    // Deliver only its votes: the bad node keeps its listings to itself.
    for segment in nodes[2].seal().iter().filter(|segment| segment.chain.book == Book::Votes) {
        assert!(matches!(nodes[0].receive(segment), Outcome::Taken { .. }));
    }
    nodes[1].claim(Claim::Report, 2);
    exchange(&mut nodes[..2]);
    let listed = |node: &Node| [1, 2].map(|signature| node.knowledge(signature).0 == Kind::Spam);
    assert_eq!(listed(&nodes[1]), [true, true], "by the first node");
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    nodes[0].finish();
    assert_eq!(listed(&nodes[0]), [false, true], "another node's user reported the second one");
    assert!(!nodes[0].engine.trust().knows(&fingerprint(1)));
}

#[test]
fn its_segments_are_refused_until_the_operator_accepts_it_again() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[2].count(20, 1);
    let first = nodes[2].seal();
    exchange(&mut nodes[..2]);
    for segment in &first {
        nodes[0].receive(segment);
    }
    assert_eq!(nodes[0].forget(BAD, false), refused(ExchangeRefusal::Unchanged));
    assert_eq!(nodes[0].forget(0, true), refused(ExchangeRefusal::Ourselves));
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    assert_eq!(nodes[0].forget(BAD, false), refused(ExchangeRefusal::Forgetting));
    nodes[0].finish();
    assert_eq!(nodes[0].forget(BAD, true), refused(ExchangeRefusal::Unchanged));
    for mut segment in first.clone() {
        assert_eq!(nodes[0].receive(&segment), refused(ExchangeRefusal::Forgotten));
        segment.chain.origin.incarnation = 7;
        assert_eq!(nodes[0].receive(&segment), refused(ExchangeRefusal::Forgotten));
    }
    assert_eq!(nodes[0].knowledge(1).3, 0);
    let bytes = snapshot(&mut nodes[0].engine);
    nodes[0].engine = restore(&bytes);
    assert_eq!(nodes[0].receive(&first[0]), refused(ExchangeRefusal::Forgotten));
    assert_eq!(nodes[0].forget(BAD, false), Outcome::Done);
    for segment in &first {
        assert!(matches!(nodes[0].receive(segment), Outcome::Taken { .. }));
    }
    assert_eq!(nodes[0].knowledge(1).3, 20);
}

fn refused(refusal: ExchangeRefusal) -> Outcome {
    Outcome::Refused(Refusal::Exchange(refusal))
}

#[test]
fn what_arrives_meanwhile_is_kept_and_generations_may_end() {
    let mut nodes = cluster(&[0, 1, BAD]);
    fill(&mut nodes);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    let mut number = 5_000;
    loop {
        nodes[0].claim(Claim::Report, number);
        nodes[1].claim(Claim::Report, number + 1);
        nodes[0].count(3, number);
        nodes[1].count(4, number);
        for segment in nodes[1].seal() {
            assert!(matches!(nodes[0].receive(&segment), Outcome::Taken { .. }));
        }
        nodes[0].seal();
        number += 2;
        if number == 5_020 {
            let next = Time(nodes[0].engine.now().0 + SPAM_EPOCH);
            nodes.iter_mut().for_each(|node| tick(&mut node.engine, next));
        }
        if !nodes[0].step() {
            break;
        }
    }
    assert!(number > 5_040, "many steps");
    for signature in (5_000..number).step_by(2) {
        assert_eq!(nodes[0].knowledge(signature), (Kind::Spam, 1, 0, 7), "{signature}");
        assert_eq!(nodes[0].knowledge(signature + 1).0, Kind::Spam);
    }
    assert_eq!(nodes[0].knowledge(2_000).0, Kind::Unknown);
}

/// Listings made before the exchange began are in no log.
#[test]
fn listings_from_before_the_exchange_stay_in_generations_without_its_data() {
    let mut node = Node { engine: engine(), logs: BTreeMap::new() };
    node.claim(Claim::Report, 1);
    let next = Time(START.0 + SPAM_EPOCH);
    tick(&mut node.engine, next);
    let begin = OriginChange::Begin { origin: origin(0), cluster: true };
    let join = OriginChange::Join { key: [BAD; 32], terms: CLUSTER };
    for change in [begin, join] {
        assert_eq!(node.engine.apply(&Event::Origin { now: next, change }), Outcome::Done);
    }
    let mut bad = cluster(&[BAD]).remove(0);
    tick(&mut bad.engine, next);
    bad.claim(Claim::Report, 2);
    for segment in bad.seal() {
        assert!(matches!(node.receive(&segment), Outcome::Taken { .. }));
    }
    assert_eq!(node.forget(BAD, true), Outcome::Done);
    node.finish();
    assert_eq!([1, 2].map(|signature| node.knowledge(signature).0), [Kind::Spam, Kind::Unknown]);
}

/// The rebuild also works if the ring that it replaces did not exist when the stage began.
#[test]
fn the_first_counts_of_other_nodes_may_arrive_meanwhile() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[2].claim(Claim::Report, 1);
    for segment in nodes[2].seal().iter().filter(|segment| segment.chain.book == Book::Listed) {
        assert!(matches!(nodes[0].receive(segment), Outcome::Taken { .. }));
    }
    assert!(nodes[0].engine.spam().claims_of_nodes().is_none());
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    nodes[0].step();
    nodes[0].step();
    nodes[1].claim(Claim::Report, 2);
    for segment in nodes[1].seal() {
        assert!(matches!(nodes[0].receive(&segment), Outcome::Taken { .. }));
    }
    nodes[0].finish();
    assert_eq!((nodes[0].knowledge(1).0, nodes[0].knowledge(2).1), (Kind::Unknown, 1));
}

/// The store makes no snapshot while a server is being forgotten, but the engine must not depend on that.
#[test]
fn a_snapshot_made_meanwhile_starts_again_from_the_beginning() {
    let mut nodes = cluster(&[0, 1, BAD]);
    fill(&mut nodes);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    for _ in 0..12 {
        nodes[0].step();
    }
    let bytes = snapshot(&mut nodes[0].engine);
    let mut again = Node { engine: restore(&bytes), logs: nodes[0].logs.clone() };
    assert!(again.engine.is_forgetting());
    nodes[0].finish();
    again.finish();
    assert!(snapshot(&mut again.engine) == snapshot(&mut nodes[0].engine));
}

/// An intruder on a node can make it forget other nodes. Forgetting the compromised node reverses that.
#[test]
fn what_a_forgotten_node_forgot_itself_is_accepted_again() {
    let mut nodes = cluster(&[0, 1, BAD]);
    assert_eq!(nodes[2].forget(1, true), Outcome::Done);
    exchange(&mut nodes);
    nodes.iter_mut().for_each(Node::finish);
    assert!(nodes[0].engine.exchange().is_forgotten(&[1; 32]));
    assert!(!nodes[1].engine.exchange().is_forgotten(&[1; 32]), "a node never forgets itself");
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    assert!(!nodes[0].engine.exchange().is_forgotten(&[1; 32]));
}

#[test]
fn a_peer_leaves_neither_recipients_nor_claims() {
    let mut nodes = cluster(&[0]);
    let terms = Terms { relation: Relation::Peer, standing: Standing::Pinned, group: 77, cap: 100 };
    let join = OriginChange::Join { key: [9; 32], terms };
    let node = &mut nodes[0];
    assert_eq!(node.engine.apply(&Event::Origin { now: START, change: join }), Outcome::Done);
    let mut peer = cluster(&[9]).remove(0);
    peer.claim(Claim::Report, 1);
    peer.count(5_000, 1);
    for segment in peer.seal().iter().filter(|segment| segment.chain.book.is_public()) {
        assert!(matches!(node.receive(segment), Outcome::Taken { .. }));
    }
    assert_eq!((node.knowledge(1).3, node.engine.trust().knows(&fingerprint(1))), (100, true));
    assert_eq!(node.forget(9, true), Outcome::Done);
    node.finish();
    let now = Time(node.engine.now().0 + 1);
    tick(&mut node.engine, now);
    assert_eq!((node.knowledge(1).3, node.engine.trust().knows(&fingerprint(1))), (0, false));
}

#[test]
fn forgotten_servers_are_bounded() {
    let mut node = cluster(&[0]).remove(0);
    for key in 1..=FORGOTTEN_MAX as u8 {
        assert_eq!(node.forget(key, true), Outcome::Done);
    }
    assert_eq!(node.forget(FORGOTTEN_MAX as u8 + 1, true), refused(ExchangeRefusal::TooMany));
}

/// The bad node listed or revoked each signature first, so the claims of the other nodes changed no set. These claims
/// must still keep the signatures listed or revoked when the bad node is forgotten.
#[test]
fn listings_and_revocations_that_others_support_stay() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[0].claim(Claim::Report, 3);
    exchange(&mut nodes);
    nodes[2].claim(Claim::Report, 1);
    nodes[2].claim(Claim::Report, 2);
    nodes[2].claim(Claim::Revoke, 3);
    exchange(&mut nodes);
    nodes[0].claim(Claim::Report, 1);
    nodes[1].claim(Claim::Revoke, 3);
    exchange(&mut nodes);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    exchange(&mut nodes[..2]);
    for node in &mut nodes[..2] {
        node.finish();
        let kinds = [1, 2, 3].map(|signature| node.knowledge(signature).0);
        assert_eq!(kinds, [Kind::Spam, Kind::Unknown, Kind::Ham]);
    }
}

#[test]
fn a_claim_of_our_own_that_is_not_sealed_yet_supports_a_listing() {
    let mut nodes = cluster(&[0, BAD]);
    nodes[1].claim(Claim::Report, 1);
    exchange(&mut nodes);
    nodes[0].claim(Claim::Report, 1);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    nodes[0].finish();
    assert_eq!(nodes[0].knowledge(1).0, Kind::Spam);
}

#[test]
fn a_claim_may_arrive_after_the_listing_that_it_supports_was_read() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[1].claim(Claim::Report, 1);
    nodes[2].claim(Claim::Report, 1);
    let (honest, bad) = (nodes[1].seal(), nodes[2].seal());
    let (votes, sets): (Vec<_>, Vec<_>) = honest.into_iter().partition(|segment| segment.chain.book == Book::Votes);
    bad.iter().chain(&sets).for_each(|segment| assert!(matches!(nodes[0].receive(segment), Outcome::Taken { .. })));
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    let is_read = |node: &Node| {
        node.engine.rereading().is_some_and(|part| (part.chain.origin, part.chain.book) == (origin(1), Book::Listed))
    };
    while !is_read(&nodes[0]) {
        assert!(nodes[0].step());
    }
    assert!(nodes[0].step());
    votes.iter().for_each(|segment| assert!(matches!(nodes[0].receive(segment), Outcome::Taken { .. })));
    nodes[0].finish();
    assert_eq!(nodes[0].knowledge(1).0, Kind::Spam);
}

/// While the bad node's revocation was in force, the reports of others renewed it instead of listing the signature.
#[test]
fn what_only_the_forgotten_node_revoked_is_listed_by_the_reports_of_others() {
    let mut nodes = cluster(&[0, 1, BAD]);
    nodes[2].claim(Claim::Revoke, 1);
    nodes[2].claim(Claim::Revoke, 2);
    exchange(&mut nodes);
    nodes[0].claim_by(2, Claim::Report, 1);
    nodes[0].claim_by(2, Claim::Report, 2);
    nodes[1].claim_by(3, Claim::Revoke, 2);
    exchange(&mut nodes);
    assert_eq!([1, 2].map(|signature| nodes[0].knowledge(signature).0), [Kind::Ham, Kind::Ham]);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    exchange(&mut nodes[..2]);
    for node in &mut nodes[..2] {
        node.finish();
        assert_eq!(node.knowledge(1).0, Kind::Spam);
        assert!(node.engine.spam().entry(&fingerprint(2)).is_revoked(), "another node's user revoked it, too");
    }
}

/// The books in use still contain the revocations until the rebuilt books replace them.
#[test]
fn what_the_forgotten_node_revoked_may_be_reported_meanwhile() {
    let mut nodes = cluster(&[0, 1, BAD]);
    fill(&mut nodes);
    (5_000..5_200).for_each(|signature| nodes[2].claim(Claim::Revoke, signature));
    exchange(&mut nodes);
    assert_eq!(nodes[0].forget(BAD, true), Outcome::Done);
    let mut end = 5_000;
    loop {
        nodes[0].claim_by(2, Claim::Report, end);
        end += 1;
        if end % 3 == 0 {
            nodes[0].seal();
        }
        if !nodes[0].step() {
            break;
        }
    }
    assert!((5_020..5_200).contains(&end), "{end}");
    for signature in 5_000..end {
        assert_eq!(nodes[0].knowledge(signature).0, Kind::Spam, "{signature}");
    }
}
