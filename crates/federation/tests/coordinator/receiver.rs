use std::collections::BTreeMap;
use std::sync::Arc;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, Frontier, Origin, OriginChange};
use bruit_engine::trust::Claim;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_federation::coordinator::judge::Known;
use bruit_federation::coordinator::receiver::{
    OwnChains, REPAIR_SECONDS, Receiver, Request, Retry, SUBMITTED_TOGETHER,
};
use bruit_federation::epochs::Epochs;
use bruit_federation::heads::Heads;
use bruit_federation::transport::{Offer, TransportError};

use crate::common::{START, claim, fingerprint, key, known, node, origin, realm, seal};
use crate::{at, unreachable};

/// Another node, and its logs.
struct Source {
    number: u8,
    engine: Engine,
    logs: BTreeMap<Chain, Vec<Vec<u8>>>,
    /// Chains whose log is not available.
    missing: Vec<Book>,
    /// Additional heads in the offer.
    heads: Vec<u8>,
    is_reachable: bool,
}

impl Source {
    fn new(number: u8) -> Self {
        let engine = node(number, 3);
        let (logs, missing, heads) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { number, engine, logs, missing, heads, is_reachable: true }
    }

    /// Returns a node that reported a signature.
    fn with_report(number: u8, signature: u32) -> Self {
        let mut source = Self::new(number);
        source.report(signature);
        source
    }

    fn report(&mut self, signature: u32) {
        self.claim(1, signature);
    }

    fn claim(&mut self, user: u64, signature: u32) {
        let outcome = self.engine.apply(&claim(Claim::Report, user, signature));
        assert!(matches!(outcome, Outcome::Claimed { refused: 0, .. }), "{outcome:?}");
        seal(self.number, &mut self.engine, &mut self.logs);
    }

    fn own_heads(&self) -> Vec<u8> {
        Heads::new(realm(), origin(self.number), START, self.engine.exchange().chains()).sign(&key(self.number))
    }

    fn offer(&self) -> Result<Offer, TransportError> {
        let heads = [&self.own_heads()[..], &self.heads].concat();
        if self.is_reachable { Ok(Offer { tag: vec![1], heads }) } else { Err(unreachable()) }
    }

    fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        let log = self.logs.get(chain).filter(|_| !self.missing.contains(&chain.book));
        log.map(|log| log.concat()[offset as usize..].to_vec()).ok_or(TransportError::Missing)
    }

    fn chain(&self, book: Book) -> Chain {
        Chain { origin: origin(self.number), book, generation: self.engine.spam().listed().epoch() }
    }
}

/// The server whose receiver is tested.
struct Server {
    engine: Engine,
    receiver: Receiver,
    known: Arc<Known>,
    /// For each kind of event that is refused, the reason.
    refusals: BTreeMap<&'static str, ExchangeRefusal>,
    /// The reason why events are not stored.
    store_error: Option<String>,
    /// The logs of earlier incarnations on its shelf.
    own_logs: BTreeMap<Chain, Vec<Vec<u8>>>,
    /// True if another link always submits an event first.
    is_second: bool,
    /// True if a request for an offer waits for its answer.
    is_asking: bool,
}

impl Server {
    fn new() -> Self {
        let engine = node(0, 3);
        let receiver = Receiver::new("other", realm(), Epochs::of(engine.realm()), Retry::LINK);
        let (known, refusals, own_logs) = (Arc::new(known(3)), BTreeMap::new(), BTreeMap::new());
        Self { engine, receiver, known, refusals, store_error: None, own_logs, is_second: false, is_asking: false }
    }

    /// Runs a round and returns its requests, up to the request for the next offer.
    fn round(&mut self, uptime_ms: u64, source: &Source) -> Vec<String> {
        let moment = at(uptime_ms);
        if !self.is_asking {
            assert!(matches!(self.receiver.next(&self.engine, moment), Request::Offer { .. }));
        }
        self.receiver.offered(source.offer(), &self.known, moment);
        let mut requests = Vec::new();
        loop {
            let request = self.receiver.next(&self.engine, moment);
            requests.push(name(&request));
            match request {
                Request::Offer { .. } => {
                    self.is_asking = true;
                    return requests;
                }
                Request::Fetch { chain, offset } => self.receiver.fetched(source.fetch(&chain, offset), moment),
                Request::ReadOwn { chain, offset } => {
                    let log = self.own_logs.get(&chain).map(|log| log.concat()).unwrap_or_default();
                    self.receiver.read(log.get(offset as usize..).unwrap_or_default());
                }
                Request::ForgetLog(chain) => drop(self.own_logs.remove(&chain)),
                Request::Submit(events) => {
                    let outcomes = self.submit(&events);
                    self.receiver.submitted(outcomes, moment);
                }
                _ => {}
            }
        }
    }

    fn submit(&mut self, events: &[Event]) -> Result<Vec<Outcome>, String> {
        if let Some(error) = self.store_error.take() {
            return Err(error);
        }
        let mut apply = |event: &Event| match self.refusals.get(kind(event)) {
            Some(refusal) => Outcome::Refused(Refusal::Exchange(*refusal)),
            None if self.is_second => [self.engine.apply(event), self.engine.apply(event)].into_iter().last().unwrap(),
            None => self.engine.apply(event),
        };
        Ok(events.iter().map(&mut apply).collect())
    }

    fn frontier(&self, source: &Source, book: Book) -> Frontier {
        self.engine.exchange().frontier(&source.chain(book))
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Received { .. } => "segment",
        Event::Repair { .. } => "repair",
        Event::Origin { change: OriginChange::Begin { .. }, .. } => "incarnation",
        other => unreachable!("the receiver does not submit {other:?}"),
    }
}

fn name(request: &Request) -> String {
    match request {
        Request::Sleep(delay) => format!("sleep {} ms", delay.as_millis()),
        Request::Offer { seen, wait } if seen.is_empty() => format!("ask again, wait {} s", wait.as_secs()),
        Request::Offer { wait, .. } => format!("ask for news, wait {} s", wait.as_secs()),
        Request::Fetch { chain, .. } => format!("fetch {}", chain.book.name()),
        Request::ReadOwn { chain, .. } => format!("read {}", chain.book.name()),
        Request::Submit(events) => format!("submit {} {}", events.len(), events.first().map_or("", kind)),
        Request::KeepHeads(heads) => format!("keep {} heads", heads.len()),
        Request::KeepSegment { chain, .. } => format!("keep {}", chain.book.name()),
        Request::ForgetLog(chain) => format!("forget {}", chain.book.name()),
        Request::Finish(Ok(round)) if round.is_complete => "finish".to_owned(),
        Request::Finish(Ok(_)) => "finish in part".to_owned(),
        Request::Finish(Err(_)) => "fail".to_owned(),
    }
}

const NEWS: &str = "ask for news, wait 30 s";
const AGAIN: &str = "ask again, wait 0 s";

#[test]
fn heads_are_kept_before_the_segments_that_they_name_and_news_is_awaited_once_all_is_applied() {
    let (mut server, mut source) = (Server::new(), Source::with_report(1, 7));
    let first = ["keep 1 heads", "fetch listed", "submit 1 segment", "keep listed"];
    let rest = ["fetch votes", "submit 1 segment", "keep votes", "finish", NEWS];
    assert_eq!(server.round(0, &source), [&first[..], &rest].concat());
    for book in [Book::Listed, Book::Votes] {
        assert_eq!(server.frontier(&source, book), source.engine.exchange().frontier(&source.chain(book)));
    }
    assert!(server.receiver.status().agreed.contains_key(&origin(1).key));
    assert_eq!(server.round(1_000, &source), ["keep 1 heads", "finish", NEWS]);
    source.report(8);
    assert_eq!(server.round(2_000, &source), [&first[..], &rest].concat());
    let status = server.receiver.status();
    assert_eq!((status.segments, status.own), (4, OwnChains::Complete));
}

#[test]
fn what_the_source_lacks_is_requested_again_after_a_second() {
    let (mut server, mut source) = (Server::new(), Source::with_report(1, 7));
    source.missing = vec![Book::Votes];
    let requests = server.round(0, &source);
    assert_eq!(requests[4..], ["fetch votes", "finish in part", "sleep 1000 ms", AGAIN]);
    assert_eq!(server.receiver.view(&origin(1).key, &server.engine, at(0)).lag_segments, 1);
    source.missing.clear();
    let requests = server.round(1_000, &source);
    assert_eq!(requests, ["keep 1 heads", "fetch votes", "submit 1 segment", "keep votes", "finish", NEWS]);
    assert_eq!(server.receiver.view(&origin(1).key, &server.engine, at(0)).lag_segments, 0);
}

#[test]
fn a_source_that_cannot_be_reached_is_asked_less_and_less_often() {
    let (mut server, mut source) = (Server::new(), Source::with_report(1, 7));
    source.is_reachable = false;
    for delay in [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000] {
        let sleep = format!("sleep {delay} ms");
        assert_eq!(server.round(0, &source), ["fail", sleep.as_str(), AGAIN]);
        assert!(!server.receiver.status().is_up && server.receiver.status().trouble.is_some());
    }
    assert_eq!(server.receiver.status().own, OwnChains::Unknown);
    source.is_reachable = true;
    assert_eq!(server.round(0, &source).last().unwrap(), NEWS);
    source.is_reachable = false;
    assert_eq!(server.round(0, &source), ["fail", "sleep 250 ms", AGAIN], "the delay starts from the beginning");
}

#[test]
fn segments_that_cannot_be_stored_end_the_round_and_are_fetched_again() {
    let (mut server, source) = (Server::new(), Source::with_report(1, 7));
    server.store_error = Some("disk full".to_owned());
    let requests = server.round(0, &source);
    assert_eq!(requests, ["keep 1 heads", "fetch listed", "submit 1 segment", "fail", "sleep 250 ms", AGAIN]);
    assert_eq!(server.round(250, &source).last().unwrap(), NEWS);
    assert_eq!(server.frontier(&source, Book::Votes).sequence, 1);
}

#[test]
fn many_segments_are_submitted_in_batches() {
    let (mut server, mut source) = (Server::new(), Source::new(1));
    for user in 0..2 * SUBMITTED_TOGETHER as u64 + 1 {
        source.claim(user, 7);
    }
    let requests = server.round(0, &source);
    let submitted: Vec<_> = requests.iter().filter(|request| request.starts_with("submit")).collect();
    assert_eq!(submitted, ["submit 1 segment", "submit 64 segment", "submit 64 segment", "submit 1 segment"]);
    assert_eq!(requests.iter().filter(|request| *request == "keep votes").count(), 2 * SUBMITTED_TOGETHER + 1);
}

#[test]
fn a_chain_with_forged_segments_is_paused_and_delays_no_other() {
    let (mut server, mut source) = (Server::new(), Source::with_report(1, 7));
    let listed = source.chain(Book::Listed);
    let good = source.logs[&listed].clone();
    // The signature is valid, the entries are not.
    source.logs.insert(listed, vec![forged(&source, listed)]);
    let requests = server.round(0, &source);
    let votes = ["fetch votes", "submit 1 segment", "keep votes", "finish", "ask for news, wait 1 s"];
    assert_eq!(requests, [&["keep 1 heads", "fetch listed"][..], &votes].concat());
    assert!(server.receiver.refused_bytes(&origin(1).key) > 0);
    assert!(server.receiver.status().refusals.contains_key(&origin(1).key));
    assert_eq!(server.round(999, &source)[..2], ["keep 1 heads", "finish"], "the pause lasts a second");
    assert_eq!(server.round(1_000, &source)[1], "fetch listed");
    assert_eq!(server.round(2_999, &source)[1], "finish", "the next one twice as long");
    source.logs.insert(listed, good);
    assert_eq!(server.round(3_000, &source).last().unwrap(), NEWS);
    assert!(server.receiver.status().refusals.is_empty());
}

/// Returns a segment whose payload has fewer entries than its header says.
fn forged(source: &Source, chain: Chain) -> Vec<u8> {
    let (encoding, payload) = (bruit_engine::exchange::Encoding::Sorted, [1; 3]);
    let (sequence, previous) = (1, bruit_engine::exchange::NO_HASH);
    let segment = bruit_federation::segment::Segment {
        realm: realm(),
        chain,
        sequence,
        previous,
        encoding,
        entries: 9,
        payload: &payload,
    };
    segment.sign(&key(source.number))
}

#[test]
fn a_forked_chain_is_fetched_again_and_at_most_every_ten_minutes() {
    let mut server = Server::new();
    server.round(0, &Source::with_report(1, 7));
    let requests = server.round(1_000, &Source::with_report(1, 8));
    let repairs = ["submit 1 repair", "forget listed", "submit 1 repair", "forget votes"];
    assert_eq!(requests[..5], [&["keep 1 heads"][..], &repairs].concat());
    assert_eq!(requests.last().unwrap(), NEWS);
    assert_eq!(server.receiver.status().repairs, 2);
    let again = Source::with_report(1, 9);
    let requests = server.round(1_000 * REPAIR_SECONDS, &again);
    assert_eq!(requests, ["keep 1 heads", "finish", NEWS], "a second less than ten minutes later");
    assert!(server.round(1_000 * (REPAIR_SECONDS + 1), &again).contains(&"submit 1 repair".to_owned()));
    assert_eq!(server.frontier(&again, Book::Votes), again.engine.exchange().frontier(&again.chain(Book::Votes)));
}

#[test]
fn a_chain_that_cannot_be_repaired_keeps_its_log() {
    let mut server = Server::new();
    server.round(0, &Source::with_report(1, 7));
    server.refusals.insert("repair", ExchangeRefusal::UnknownOrigin);
    let requests = server.round(1_000, &Source::with_report(1, 8));
    assert_eq!(requests, ["keep 1 heads", "submit 1 repair", "submit 1 repair", "finish", NEWS]);
}

#[test]
fn segments_that_another_link_applied_meanwhile_are_no_refusal() {
    let (mut server, source) = (Server::new(), Source::with_report(1, 7));
    server.is_second = true;
    let first = ["keep 1 heads", "fetch listed", "submit 1 segment", "keep listed"];
    let rest = ["fetch votes", "submit 1 segment", "keep votes", "finish", NEWS];
    assert_eq!(server.round(0, &source), [&first[..], &rest].concat());
    let status = server.receiver.status();
    assert!(status.refusals.is_empty() && status.rejected.is_empty());
    assert_eq!(status.segments, 0, "the other link counts them");
}

#[test]
fn segments_that_come_too_early_or_too_late_are_requested_again_soon() {
    for refusal in [ExchangeRefusal::NotYet, ExchangeRefusal::NotNext, ExchangeRefusal::Expired] {
        let (mut server, source) = (Server::new(), Source::with_report(1, 7));
        server.refusals.insert("segment", refusal);
        let requests = server.round(0, &source);
        assert_eq!(requests[requests.len() - 3..], ["finish in part", "sleep 1000 ms", AGAIN], "{refusal}");
        assert!(server.receiver.status().refusals.is_empty());
    }
}

#[test]
fn a_source_whose_segments_are_refused_is_asked_less_often_and_the_reason_shows() {
    let (mut server, source) = (Server::new(), Source::with_report(1, 7));
    server.refusals.insert("segment", ExchangeRefusal::Saturated);
    for delay in [500, 1_000, 2_000] {
        let requests = server.round(0, &source);
        let sleep = format!("sleep {delay} ms");
        assert_eq!(requests[requests.len() - 3..], ["finish", sleep.as_str(), AGAIN]);
        assert!(
            !requests.iter().any(|request| request.starts_with("keep listed")),
            "what was refused is not forwarded"
        );
        assert!(server.receiver.status().refusals.contains_key(&origin(1).key));
    }
    server.refusals.clear();
    assert_eq!(server.round(0, &source).last().unwrap(), NEWS);
    assert!(server.receiver.status().refusals.is_empty());
}

#[test]
fn heads_of_the_next_generation_are_asked_for_again_soon() {
    let (mut server, mut source) = (Server::new(), Source::with_report(1, 7));
    server.round(0, &source);
    let next = Chain { generation: source.engine.spam().listed().epoch() + 1, ..source.chain(Book::Listed) };
    let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 1 };
    let chains = source.engine.exchange().chains().chain([(next, frontier)]);
    source.heads = Heads::new(realm(), origin(1), START, chains).sign(&key(1));
    let requests = server.round(1_000, &source);
    assert_eq!(requests, ["keep 2 heads", "finish in part", "sleep 1000 ms", AGAIN]);
}

/// Returns heads of the tested server from before it lost its disk.
fn earlier_heads() -> Source {
    let mut source = Source::new(1);
    let before = Source::with_report(0, 7);
    source.heads = before.own_heads();
    source.logs.extend(before.logs);
    source
}

#[test]
fn a_server_that_lost_segments_starts_another_incarnation_and_fetches_them() {
    let (mut server, source) = (Server::new(), earlier_heads());
    let requests = server.round(0, &source);
    assert_eq!(requests[..4], ["keep 1 heads", "submit 1 incarnation", "read listed", "fetch listed"]);
    let own = server.engine.exchange().own().unwrap();
    assert!(own.key == origin(0).key && own.incarnation > origin(0).incarnation);
    assert_eq!(server.receiver.status().own, OwnChains::Complete);
    let lost = Chain { origin: origin(0), ..source.chain(Book::Votes) };
    assert_eq!(server.engine.exchange().frontier(&lost).sequence, 1);
    let requests = server.round(1_000, &source);
    assert_eq!(requests, ["keep 2 heads", "finish", NEWS], "the earlier incarnation is now forwarded");
}

/// A server restarts on an old copy of its disk. Segments in the copy that no other server has fetched must not be
/// lost.
#[test]
fn what_nobody_has_of_an_earlier_incarnation_is_read_from_our_own_shelf() {
    let (mut server, mut source, mut before) = (Server::new(), Source::new(1), Source::with_report(0, 7));
    server.own_logs = before.logs.clone();
    assert!(matches!(server.engine.apply(&claim(Claim::Report, 1, 7)), Outcome::Claimed { refused: 0, .. }));
    seal(0, &mut server.engine, &mut BTreeMap::new());
    before.report(8);
    (source.heads, source.logs, source.missing) = (before.own_heads(), before.logs.clone(), vec![Book::Votes]);
    let requests = server.round(0, &source);
    let listed = ["submit 1 segment", "keep listed", "read listed", "fetch listed", "submit 1 segment", "keep listed"];
    assert_eq!(requests[..3], ["keep 1 heads", "submit 1 incarnation", "read listed"]);
    assert_eq!(requests[3..9], listed);
    assert_eq!(requests[9..14], ["read votes", "submit 1 segment", "keep votes", "read votes", "fetch votes"]);
    assert_eq!(server.frontier(&before, Book::Listed).sequence, 2);
    assert_eq!(server.frontier(&before, Book::Votes).sequence, 1);
    assert_eq!(server.engine.spam().counts(0, &fingerprint(7)).report_count, 1);
}

#[test]
fn an_earlier_incarnation_that_others_know_differently_is_fetched_from_them() {
    let (mut server, source) = (Server::new(), earlier_heads());
    server.own_logs = Source::with_report(0, 9).logs;
    let requests = server.round(0, &source);
    assert_eq!(requests[1..5], ["submit 1 incarnation", "read listed", "submit 1 segment", "keep listed"]);
    let requests = server.round(1_000, &source);
    assert!(requests.contains(&"forget listed".to_owned()) && requests.contains(&"fetch votes".to_owned()));
    for (chain, log) in source.logs.iter().filter(|(chain, _)| chain.origin == origin(0)) {
        let last = bruit_federation::segment::hash(log.last().unwrap());
        assert_eq!(server.engine.exchange().frontier(chain).hash, last, "{chain:?}");
    }
}

/// Until the new incarnation starts, the exporter must not seal anything that contradicts the lost segments.
#[test]
fn an_incarnation_that_cannot_start_yet_is_tried_again_soon_and_holds_the_exporter() {
    let (mut server, source) = (Server::new(), earlier_heads());
    server.refusals.insert("incarnation", ExchangeRefusal::SnapshotRuns);
    let requests = server.round(0, &source);
    assert_eq!(requests[1..], ["submit 1 incarnation", "finish", "sleep 500 ms", AGAIN]);
    assert_eq!(server.receiver.status().own, OwnChains::Lost);
    server.refusals.clear();
    server.store_error = Some("disk full".to_owned());
    assert_eq!(server.round(500, &source)[1..3], ["submit 1 incarnation", "finish"]);
    assert_eq!(server.receiver.status().own, OwnChains::Lost);
    server.round(1_500, &source);
    assert_eq!(server.receiver.status().own, OwnChains::Complete);
    assert!(server.engine.exchange().own() > Some(origin(0)));
}

#[test]
fn the_number_of_an_incarnation_grows_although_the_clock_does_not() {
    let (mut server, mut source) = (Server::new(), Source::new(1));
    let late = Origin { incarnation: START.0 + 1_000, ..origin(0) };
    let begin = OriginChange::Begin { origin: late, cluster: true };
    server.engine.apply(&Event::Origin { now: START, change: begin });
    let chain = Chain { origin: late, ..source.chain(Book::Listed) };
    let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 1 };
    source.heads = Heads::new(realm(), late, START, [(chain, frontier)]).sign(&key(0));
    server.round(0, &source);
    assert_eq!(server.engine.exchange().own(), Some(Origin { incarnation: START.0 + 1_001, ..late }));
}

#[test]
fn answers_to_earlier_requests_change_nothing() {
    let (mut server, source) = (Server::new(), Source::with_report(1, 7));
    assert!(matches!(server.receiver.next(&server.engine, at(0)), Request::Offer { .. }));
    server.receiver.fetched(Ok(source.logs[&source.chain(Book::Listed)].concat()), at(0));
    server.receiver.fetched(Err(unreachable()), at(0));
    server.receiver.submitted(Ok(Vec::new()), at(0));
    server.is_asking = true;
    assert_eq!(server.round(0, &source).last().unwrap(), NEWS);
    server.receiver.offered(Err(unreachable()), &server.known, at(0));
    server.receiver.offered(source.offer(), &server.known, at(0));
    assert_eq!(name(&server.receiver.next(&server.engine, at(0))), "fail", "the first answer counts");
}

#[test]
fn nothing_valid_on_offer_shows_as_trouble() {
    let (mut server, source) = (Server::new(), Source::with_report(1, 7));
    server.known = Arc::new(Known::new([]));
    assert_eq!(server.round(0, &source), ["finish", NEWS], "heads of unknown servers are skipped");
    assert!(server.receiver.status().trouble.is_none());
    server.known = Arc::new(known(3));
    let mut forged = source.offer().unwrap();
    *forged.heads.last_mut().unwrap() ^= 1;
    server.receiver.offered(Ok(forged), &server.known, at(1_000));
    let request = server.receiver.next(&server.engine, at(1_000));
    assert!(matches!(&request, Request::Finish(Ok(round)) if (round.offered, round.accepted) == (1, 0)), "{request:?}");
    assert!(server.receiver.status().trouble.is_some());
    assert_eq!(server.receiver.status().rejected.get("forged"), Some(&1));
}
