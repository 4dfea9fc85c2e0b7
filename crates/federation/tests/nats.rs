//! NATS JetStream as a transport, with real brokers: delivery, losses, and outages.

mod brokers;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use bruit_federation::epochs::Epochs;
use bruit_federation::heads::{HEADS_BYTES_MAX, Heads};
use bruit_federation::keys::NodeKey;
use bruit_federation::segment::SEGMENT_BYTES_MAX;
use bruit_federation::transport::nats::{ANSWER_BYTES_MAX, Login, NatsBroker, NatsSettings, ReadLog};
use bruit_federation::transport::{FETCH_BYTES_MAX, Sink, Source, TransportError};
use tokio::time::{Instant, sleep, timeout};

use brokers::Brokers;

const REALM: RealmId = RealmId([0x5a; 16]);
/// Length of an epoch in seconds.
const EPOCH: u64 = 4;
const ANNA: Node = Node(0xa);
const BERTA: Node = Node(0xb);
const STRANGER: Node = Node(0xc);
/// Timeout after which an expected event counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of operations that should complete at once.
const AT_ONCE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[tokio::test]
async fn every_chain_is_read_in_its_order_from_any_segment_on() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let logs = [Log::new(chain(ANNA, Book::Listed, 7), 20), Log::new(chain(ANNA, Book::Votes, 7), 30)];
    let (first, second) = tokio::join!(logs[0].publish(&anna, 0), logs[1].publish(&anna, 0));
    first.and(second).unwrap();
    for log in &logs {
        assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
        for offset in log.offsets() {
            assert_eq!(berta.fetch(&log.chain, offset).await.unwrap(), log.bytes()[offset as usize..], "{offset}");
        }
        assert_eq!(anna.published_up_to(&log.chain).await.unwrap(), Some(log.bytes().len() as u64));
    }
}

#[tokio::test]
async fn heads_of_known_origins_are_offered_and_wake_waiters() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let (stranger, foreign) = (node(&brokers, STRANGER).await, foreign_node(&brokers, ANNA).await);
    anna.announce(&ANNA.heads(1, 10)).await.unwrap();
    let offer = berta.offer(b"", PATIENCE).await.unwrap();
    assert_eq!(offer.heads, ANNA.heads(1, 10));

    stranger.announce(&STRANGER.heads(1, 20)).await.unwrap();
    stranger.announce(&forged()).await.unwrap();
    foreign.announce(&ANNA.heads(1, 20)).await.unwrap();
    assert_eq!(berta.offer(&offer.tag, Duration::ZERO).await.unwrap(), offer);
    let heads = ANNA.heads(1, 11);
    let (news, announced) = tokio::join!(berta.offer(&offer.tag, PATIENCE), anna.announce(&heads));
    announced.unwrap();
    assert_eq!(news.unwrap().heads, heads);
}

#[tokio::test]
async fn late_subscribers_find_the_last_heads_of_each_incarnation() {
    let brokers = Brokers::start(1);
    let anna = node(&brokers, ANNA).await;
    for heads in [ANNA.heads(1, 10), ANNA.heads(1, 11), ANNA.heads(2, 12), ANNA.heads(2, 13)] {
        anna.announce(&heads).await.unwrap();
    }
    // A node that lost its state also receives its own earlier heads.
    for late in [BERTA, ANNA] {
        let late = node(&brokers, late).await;
        let both = [ANNA.heads(1, 11), ANNA.heads(2, 13)].concat();
        until("both are there", async || late.offer(b"", PATIENCE).await.ok().filter(|o| o.heads == both)).await;
    }
}

#[tokio::test]
async fn heads_are_followed_when_generations_end() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let mut seen = Vec::new();
    for generation in 0..2 * LIVE_GENERATIONS {
        let live = generation.saturating_sub(LIVE_GENERATIONS - 1)..=generation;
        let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 5 };
        let chains = live.map(|generation| (chain(ANNA, Book::Listed, generation), frontier));
        let heads = Heads::new(REALM, ANNA.origin(1), Time(generation * EPOCH), chains).sign(&ANNA.key());
        anna.announce(&heads).await.unwrap();
        let offer = berta.offer(&seen, PATIENCE).await.unwrap();
        assert!(offer.heads == heads, "generation {generation}");
        seen = offer.tag;
    }
}

#[tokio::test]
async fn segments_of_another_realm_are_not_seen() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let foreign = foreign_node(&brokers, ANNA).await;
    let log = Log::new(chain(ANNA, Book::Listed, 7), 2);
    log.publish(&foreign, 0).await.unwrap();
    assert_eq!(anna.published_up_to(&log.chain).await.unwrap(), None);
    assert!(matches!(berta.fetch(&log.chain, 0).await, Err(TransportError::Missing)));
}

#[tokio::test]
async fn segments_lost_by_the_broker_are_published_again_from_the_log() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let log = Log::new(chain(ANNA, Book::Revoked, 9), 12);
    let half = log.offsets()[6];
    // In this stream, other messages precede the log; in the stream created after the deletion below, none do.
    Log::new(chain(ANNA, Book::Listed, 9), 3).publish(&anna, 0).await.unwrap();
    log.publish_range(&anna, 0, half).await.unwrap();
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap(), log.bytes()[..half as usize]);

    let admin = admin(&brokers).await;
    admin.delete_stream(&stream_name()).await.unwrap();
    assert_eq!(anna.published_up_to(&log.chain).await.unwrap(), None);
    log.publish(&anna, 0).await.unwrap();
    assert_eq!(anna.published_up_to(&log.chain).await.unwrap(), Some(log.bytes().len() as u64));
    // Cached positions of the old stream do no harm.
    assert_eq!(berta.fetch(&log.chain, half).await.unwrap(), log.bytes()[half as usize..]);

    // Now lose the tail.
    let stream = admin.get_stream(stream_name()).await.unwrap();
    let last = stream.get_last_raw_message_by_subject(&subject(&log.chain)).await.unwrap();
    stream.delete_message(last.sequence).await.unwrap();
    // Some versions of the broker also remove earlier messages when the last one is deleted.
    let end = anna.published_up_to(&log.chain).await.unwrap().unwrap_or(0);
    assert!(end <= *log.offsets().last().unwrap());
    log.publish(&anna, end).await.unwrap();
    assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
}

#[tokio::test]
async fn duplicated_segments_are_read_once() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let log = Log::new(chain(ANNA, Book::Listed, 7), 8);
    log.publish(&anna, 0).await.unwrap();
    // Publish the same messages again without their ids, as after the broker's duplicate window.
    let admin = admin(&brokers).await;
    for (offset, segment) in log.offsets().into_iter().zip(&log.segments) {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Bruit-Offset", offset.to_string());
        let sent = admin.publish_with_headers(subject(&log.chain), headers, segment.clone().into()).await.unwrap();
        assert!(!sent.await.unwrap().duplicate);
    }
    for offset in log.offsets() {
        assert_eq!(berta.fetch(&log.chain, offset).await.unwrap(), log.bytes()[offset as usize..], "{offset}");
    }
}

#[tokio::test]
async fn messages_without_an_offset_are_ignored() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let log = Log::new(chain(ANNA, Book::Listed, 7), 4);
    let admin = admin(&brokers).await;
    for value in ["", "-1", "one", "18446744073709551615"] {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Bruit-Offset", value);
        admin.publish_with_headers(subject(&log.chain), headers, "junk".into()).await.unwrap().await.unwrap();
    }
    admin.publish(subject(&log.chain), "junk".into()).await.unwrap().await.unwrap();
    log.publish(&anna, 0).await.unwrap();
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap(), log.bytes());
}

#[tokio::test]
async fn segments_missing_from_the_stream_are_requested_from_other_nodes() {
    let brokers = Brokers::start(1);
    let log = Log::new(chain(ANNA, Book::Texts, 9), 10);
    let anna = start(settings(&brokers.urls(), 1), REALM, ANNA, shelf(&log)).await;
    connected(&anna).await;
    let berta = node(&brokers, BERTA).await;
    log.publish(&anna, 0).await.unwrap();
    let stream = admin(&brokers).await.get_stream(stream_name()).await.unwrap();
    let lost = stream.get_first_raw_message_by_subject(subject(&log.chain), 5).await.unwrap();
    stream.delete_message(lost.sequence).await.unwrap();

    // Data before the gap comes from the stream, and data in the gap from the node that has it.
    let gap = log.offsets()[4];
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap(), log.bytes()[..gap as usize]);
    assert_eq!(berta.fetch(&log.chain, gap).await.unwrap(), log.bytes()[gap as usize..]);
    drop(anna);
    assert!(matches!(berta.fetch(&log.chain, gap).await, Err(TransportError::Missing)));
    assert!(matches!(berta.fetch(&log.chain, log.bytes().len() as u64).await, Err(TransportError::Missing)));
}

#[tokio::test]
async fn answers_are_bounded_and_malformed_questions_get_none() {
    let brokers = Brokers::start(1);
    let log = Log { chain: chain(ANNA, Book::Votes, 1), segments: vec![vec![7; ANSWER_BYTES_MAX + 1]] };
    let anna = start(settings(&brokers.urls(), 1), REALM, ANNA, shelf(&log)).await;
    connected(&anna).await;
    let berta = node(&brokers, BERTA).await;
    let admin = admin(&brokers).await.client();
    for question in ["", "x", "\u{0}", &"7/".repeat(1000)] {
        admin.publish_with_reply(ask_subject(), admin.new_inbox(), question.to_owned().into()).await.unwrap();
    }
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap().len(), ANSWER_BYTES_MAX);
    assert_eq!(berta.fetch(&log.chain, ANSWER_BYTES_MAX as u64).await.unwrap().len(), 1);
}

#[tokio::test]
async fn sizes_are_taken_up_to_their_bounds() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let largest = vec![7; SEGMENT_BYTES_MAX];
    let count = FETCH_BYTES_MAX / SEGMENT_BYTES_MAX + 1;
    let log = Log { chain: chain(ANNA, Book::Listed, 1), segments: vec![largest; count] };
    log.publish(&anna, 0).await.unwrap();
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap().len(), FETCH_BYTES_MAX);
    assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
    assert_too_large(anna.publish(&log.chain, 0, &[0; SEGMENT_BYTES_MAX + 1]).await);

    assert_too_large(anna.announce(&[2; HEADS_BYTES_MAX + 1]).await);
}

#[tokio::test]
async fn many_small_segments_take_several_fetches() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let segments = (0..600_u32).map(|number| number.to_le_bytes().to_vec()).collect();
    let log = Log { chain: chain(ANNA, Book::Listed, 1), segments };
    log.publish(&anna, 0).await.unwrap();
    assert_eq!(berta.fetch(&log.chain, 0).await.unwrap(), log.bytes()[..256 * 4]);
    assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
}

#[tokio::test]
async fn without_a_broker_everything_fails_at_once_until_it_returns() {
    let mut brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let log = Log::new(chain(ANNA, Book::Listed, 7), 10);
    let half = log.offsets()[5];
    log.publish_range(&anna, 0, half).await.unwrap();
    brokers.kill(0);
    until("connections are lost", async || (!anna.is_connected() && !berta.is_connected()).then_some(())).await;
    let all = async {
        assert_unreachable(log.publish(&anna, half).await);
        assert_unreachable(anna.announce(&ANNA.heads(1, 1)).await);
        assert_unreachable(anna.published_up_to(&log.chain).await);
        assert_unreachable(berta.fetch(&log.chain, 0).await);
        assert_unreachable(berta.ask(&log.chain, 0).await);
        assert_unreachable(berta.offer(b"", PATIENCE).await);
        assert_unreachable(berta.get_snapshot(&log.chain, 1, Vec::new()).await);
    };
    timeout(AT_ONCE, all).await.unwrap();

    brokers.launch(0);
    let end = until("the broker answers", async || anna.published_up_to(&log.chain).await.ok().flatten()).await;
    assert_eq!(end, half);
    log.publish(&anna, end).await.unwrap();
    connected(&berta).await;
    assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
    anna.announce(&ANNA.heads(1, 2)).await.unwrap();
    let news = async || berta.offer(b"", PATIENCE).await.ok().filter(|offer| offer.heads == ANNA.heads(1, 2));
    until("heads come", news).await;
}

#[tokio::test]
async fn a_node_may_start_before_its_broker() {
    let mut brokers = Brokers::start(1);
    brokers.kill(0);
    let starting = start(settings(&brokers.urls(), 1), REALM, ANNA, nothing());
    let anna = timeout(AT_ONCE, starting).await.unwrap();
    let log = Log::new(chain(ANNA, Book::Listed, 7), 3);
    assert_unreachable(timeout(AT_ONCE, log.publish(&anna, 0)).await.unwrap());
    brokers.launch(0);
    until("it connects", async || log.publish(&anna, 0).await.ok()).await;
}

#[tokio::test]
async fn snapshots_are_kept_and_replaced() {
    let brokers = Brokers::start(1);
    let (anna, berta) = (node(&brokers, ANNA).await, node(&brokers, BERTA).await);
    let chain = chain(ANNA, Book::Listed, 7);
    assert!(matches!(berta.get_snapshot(&chain, 1, Vec::new()).await, Err(TransportError::Missing)));
    let long: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for log in [&b"short"[..], &long, b""] {
        anna.put_snapshot(&chain, log).await.unwrap();
        let mut copy = Vec::new();
        assert_eq!(berta.get_snapshot(&chain, log.len() as u64, &mut copy).await.unwrap(), log.len() as u64);
        assert!(copy == log);
    }
    anna.put_snapshot(&chain, &b"four"[..]).await.unwrap();
    let mut copy = Vec::new();
    assert_too_large(berta.get_snapshot(&chain, 3, &mut copy).await);
    assert!(copy.is_empty());
}

#[tokio::test]
async fn three_servers_go_on_without_their_leader() {
    let mut brokers = Brokers::start(3);
    let anna = start(settings(&brokers.urls(), 3), REALM, ANNA, nothing()).await;
    let berta = start(settings(&brokers.urls(), 3), REALM, BERTA, nothing()).await;
    let log = Log::new(chain(ANNA, Book::Votes, 7), 60);
    let (third, two_thirds) = (log.offsets()[20], log.offsets()[40]);
    publish_from(&anna, &log, 0, third).await;
    let leader = leader(&brokers).await;
    let publishing = publish_from(&anna, &log, third, two_thirds);
    let killing = async { brokers.kill(leader) };
    tokio::join!(publishing, killing);
    brokers.launch(leader);
    publish_from(&anna, &log, two_thirds, log.bytes().len() as u64).await;
    assert_eq!(read_patiently(&berta, &log).await, log.bytes());
}

#[tokio::test]
async fn a_node_at_a_leaf_shares_and_goes_on_when_the_link_is_back() {
    let mut hub = Brokers::start_hub();
    let leaf = hub.start_leaf();
    let settings = NatsSettings { domain: Some("hub".to_owned()), ..settings(&leaf.urls(), 1) };
    let (anna, berta) = (node(&hub, ANNA).await, start(settings, REALM, BERTA, nothing()).await);
    let (far, near) = (Log::new(chain(ANNA, Book::Listed, 7), 5), Log::new(chain(BERTA, Book::Listed, 7), 5));
    let half = near.offsets()[2];
    far.publish(&anna, 0).await.unwrap();
    publish_from(&berta, &near, 0, half).await;
    assert_eq!(read_patiently(&berta, &far).await, far.bytes());
    assert_eq!(anna.fetch(&near.chain, 0).await.unwrap(), near.bytes()[..half as usize]);

    hub.kill(0);
    // The leaf is reachable, the stream is not.
    let reading = timeout(PATIENCE, berta.fetch(&far.chain, 0)).await.unwrap();
    assert_unreachable(reading);
    hub.launch(0);
    publish_from(&berta, &near, half, near.bytes().len() as u64).await;
    assert_eq!(read_patiently(&anna, &near).await, near.bytes());
    berta.announce(&BERTA.heads(1, 1)).await.unwrap();
    until("heads come", async || anna.offer(b"", PATIENCE).await.ok().filter(|o| o.heads == BERTA.heads(1, 1))).await;
}

#[tokio::test]
async fn a_node_publishes_under_its_own_key_only_where_the_broker_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let brokers = Brokers::start_with(1, &authorization());
    let login = |user: &str| Login::Password { user: user.to_owned(), file: file.clone() };
    let settings = |user: &str| NatsSettings { login: login(user), ..settings(&brokers.urls(), 1) };
    let log = Log::new(chain(ANNA, Book::Listed, 7), 3);
    let anna = start(settings("node-1"), REALM, ANNA, shelf(&log)).await;
    let berta = start(settings("node-2"), REALM, BERTA, nothing()).await;
    connected(&anna).await;
    connected(&berta).await;
    until("the streams are made", async || log.publish(&anna, 0).await.ok()).await;
    assert_eq!(read_all(&berta, &log.chain, 0).await, log.bytes());
    anna.announce(&ANNA.heads(1, 1)).await.unwrap();
    assert_eq!(berta.offer(b"", PATIENCE).await.unwrap().heads, ANNA.heads(1, 1));
    let (long, mut copy) = (vec![7; 5 << 20], Vec::new());
    for _ in 0..2 {
        anna.put_snapshot(&log.chain, &long[..]).await.unwrap();
    }
    berta.get_snapshot(&log.chain, u64::MAX, &mut copy).await.unwrap();
    assert!(copy == long);
    assert_eq!(berta.ask(&log.chain, 1).await.unwrap(), log.bytes()[1..]);
    assert_unreachable(berta.publish(&log.chain, log.bytes().len() as u64, b"forged").await);
    assert_eq!(anna.published_up_to(&log.chain).await.unwrap(), Some(log.bytes().len() as u64));
    let nobody = start(NatsSettings { login: Login::Anonymous, ..settings("node-1") }, REALM, ANNA, nothing()).await;
    assert_unreachable(nobody.published_up_to(&log.chain).await);
}

/// The configuration from docs/operators/cluster.md, for the two nodes of this test.
fn authorization() -> String {
    let page = include_str!("../../../docs/operators/cluster.md");
    let block = page.split("```").find(|block| block.starts_with("text\nauthorization {")).unwrap();
    let text = block.strip_prefix("text\n").unwrap();
    let keys = text.replace("KEY-1", &hex(&ANNA.public())).replace("KEY-2", &hex(&BERTA.public()));
    keys.replace("REALM", &hex(&REALM.0)).replace("PASSWORD-1", "secret").replace("PASSWORD-2", "secret")
}

/// A log as its origin stores it.
struct Log {
    chain: Chain,
    segments: Vec<Vec<u8>>,
}

impl Log {
    /// Creates a log of segments of many lengths, all different.
    fn new(chain: Chain, count: usize) -> Self {
        let segment = |number: usize| {
            let length = 10 + number * 37 % 2000;
            (0..length).map(|byte| (number * 31 + byte * 7) as u8).chain([number as u8]).collect()
        };
        Self { chain, segments: (0..count).map(segment).collect() }
    }

    fn bytes(&self) -> Vec<u8> {
        self.segments.concat()
    }

    /// Returns the offsets of the segments.
    fn offsets(&self) -> Vec<u64> {
        let mut end = 0;
        let begin = |segment: &Vec<u8>| {
            let begin = end;
            end += segment.len() as u64;
            begin
        };
        self.segments.iter().map(begin).collect()
    }

    /// Publishes everything starting at `from`.
    async fn publish(&self, node: &NatsBroker, from: u64) -> Result<(), TransportError> {
        self.publish_range(node, from, u64::MAX).await
    }

    async fn publish_range(&self, node: &NatsBroker, from: u64, to: u64) -> Result<(), TransportError> {
        for (offset, segment) in self.offsets().into_iter().zip(&self.segments) {
            if (from..to).contains(&offset) {
                node.publish(&self.chain, offset, segment).await?;
            }
        }
        Ok(())
    }
}

/// Publishes like an exporter: from the end known to the broker, until everything is published.
async fn publish_from(node: &NatsBroker, log: &Log, from: u64, to: u64) {
    let attempt = async || {
        let end = node.published_up_to(&log.chain).await.ok()?.unwrap_or(0);
        assert!(end <= from.max(to), "no other node publishes");
        log.publish_range(node, end, to).await.ok()
    };
    until("everything is published", attempt).await;
}

/// Reads like a receiver: continues from the present end after any failure.
async fn read_patiently(node: &NatsBroker, log: &Log) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < log.bytes().len() {
        let more = until("more is read", async || node.fetch(&log.chain, bytes.len() as u64).await.ok()).await;
        bytes.extend(more);
    }
    bytes
}

/// Reads everything of a chain that the stream has, starting at `offset`.
async fn read_all(node: &NatsBroker, chain: &Chain, offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while node.published_up_to(chain).await.unwrap() > Some(offset + bytes.len() as u64) {
        bytes.extend(node.fetch(chain, offset + bytes.len() as u64).await.unwrap());
    }
    bytes
}

/// Returns the server that leads the stream of segments.
async fn leader(brokers: &Brokers) -> usize {
    let admin = admin(brokers).await;
    let name = until("the stream has a leader", async || {
        let stream = admin.get_stream(stream_name()).await.ok()?;
        stream.cached_info().cluster.as_ref()?.leader.clone()
    });
    let name = name.await;
    (0..3).find(|index| Brokers::name(*index) == name).unwrap()
}

async fn admin(brokers: &Brokers) -> jetstream::Context {
    jetstream::new(async_nats::connect(brokers.urls()).await.unwrap())
}

fn stream_name() -> String {
    format!("bruit-{}", hex(&REALM.0))
}

fn ask_subject() -> String {
    format!("bruit.1.{}.ask", hex(&REALM.0))
}

fn subject(chain: &Chain) -> String {
    let Chain { origin, book, generation } = chain;
    format!("bruit.1.{}.{}.{}.{}.{generation}", hex(&REALM.0), hex(&origin.key), origin.incarnation, book.name())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn chain(node: Node, book: Book, generation: u64) -> Chain {
    Chain { origin: node.origin(1), book, generation }
}

/// A server, identified by the seed of its key.
#[derive(Clone, Copy)]
struct Node(u8);

impl Node {
    fn key(self) -> NodeKey {
        NodeKey::generate([self.0; 32])
    }

    fn public(self) -> [u8; 32] {
        *self.key().public().as_bytes()
    }

    fn origin(self, incarnation: u64) -> Origin {
        Origin { key: self.public(), incarnation }
    }

    /// Returns heads without chains, signed at the given time.
    fn heads(self, incarnation: u64, time: u64) -> Vec<u8> {
        Heads::new(REALM, self.origin(incarnation), Time(time), []).sign(&self.key())
    }
}

/// Returns heads in Anna's name with another server's signature.
fn forged() -> Vec<u8> {
    Heads::new(REALM, ANNA.origin(1), Time(30), []).sign(&STRANGER.key())
}

/// Returns a node of another realm.
async fn foreign_node(brokers: &Brokers, node: Node) -> NatsBroker {
    let node = start(settings(&brokers.urls(), 1), RealmId([0x5b; 16]), node, nothing()).await;
    connected(&node).await;
    node
}

/// Returns a connected node of the realm that knows both keys.
async fn node(brokers: &Brokers, node: Node) -> NatsBroker {
    let node = start(settings(&brokers.urls(), 1), REALM, node, nothing()).await;
    connected(&node).await;
    node
}

async fn start(settings: NatsSettings, realm: RealmId, node: Node, read_log: ReadLog) -> NatsBroker {
    let servers = [ANNA.public(), BERTA.public()];
    NatsBroker::start(&settings, (realm, Epochs::new(EPOCH, EPOCH)), node.public(), servers, read_log).await.unwrap()
}

async fn connected(node: &NatsBroker) {
    until("it connects", async || node.is_connected().then_some(())).await;
}

fn settings(urls: &[String], replicas: u8) -> NatsSettings {
    NatsSettings {
        urls: urls.to_vec(),
        login: Login::Anonymous,
        tls_roots: None,
        domain: None,
        replicas,
        max_age: Duration::from_secs(3600),
        max_bytes: 256 << 20,
    }
}

/// Returns a reader for a node without logs.
fn nothing() -> ReadLog {
    Arc::new(|_, _, _| None)
}

/// Returns a reader for a node with one log.
fn shelf(log: &Log) -> ReadLog {
    let (chain, bytes) = (log.chain, log.bytes());
    Arc::new(move |asked, offset, bytes_max| {
        let rest = bytes.get(usize::try_from(offset).ok()?..).filter(|_| *asked == chain)?;
        Some(rest.iter().take(bytes_max).copied().collect())
    })
}

/// Retries until `attempt` returns a value.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        sleep(POLL_INTERVAL).await;
    }
}

#[track_caller]
fn assert_unreachable<T: std::fmt::Debug>(result: Result<T, TransportError>) {
    assert!(matches!(result, Err(TransportError::Unreachable(_))), "{result:?}");
}

#[track_caller]
fn assert_too_large<T: std::fmt::Debug>(result: Result<T, TransportError>) {
    assert!(matches!(result, Err(TransportError::TooLarge { .. })), "{result:?}");
}
