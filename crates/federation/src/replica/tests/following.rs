//! Rounds with a source of prepared heads and logs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bruit_engine::exchange::ExchangeRefusal;

use super::*;
use crate::heads::Heads;
use crate::transport::{Offer, Source, TransportError};

/// The logs of servers, and the recorded requests.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<SourceState>>);

#[derive(Default)]
struct SourceState {
    heads: Vec<u8>,
    logs: std::collections::BTreeMap<Chain, Vec<u8>>,
    fetched: Vec<(Chain, u64)>,
}

impl Shared {
    /// Offers everything that these writers have, signed at the given time.
    fn offer_all(&self, writers: &[&Writer], time: Time) {
        let mut served = self.0.lock().unwrap();
        let heads = |writer: &&Writer| {
            let chains = writer.chains.iter().map(|(chain, (frontier, _))| (*chain, *frontier));
            Heads::new(realm().id(), writer.origin(), time, chains).sign(&writer.key)
        };
        served.heads = writers.iter().flat_map(heads).collect();
        served.logs = writers.iter().flat_map(|writer| writer.chains.clone()).map(|(c, (_, log))| (c, log)).collect();
    }

    fn fetched(&self) -> Vec<(Chain, u64)> {
        std::mem::take(&mut self.0.lock().unwrap().fetched)
    }
}

impl Source for Shared {
    async fn offer(&self, _seen: &[u8], _wait: Duration) -> Result<Offer, TransportError> {
        let heads = self.0.lock().unwrap().heads.clone();
        Ok(Offer { tag: hash(&heads).to_vec(), heads })
    }

    async fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        let mut served = self.0.lock().unwrap();
        served.fetched.push((*chain, offset));
        let log = served.logs.get(chain).ok_or(TransportError::Missing)?;
        Ok(log.get(offset as usize..).unwrap_or_default().to_vec())
    }
}

async fn round(follower: &mut Follower<Shared>) -> Round {
    follower.round(|| NOW, |_| {}).await.unwrap()
}

fn follower(believed: Vec<crate::keys::PublicKey>) -> (TempDir, PathBuf, Shared, Follower<Shared>) {
    let (folder, path, file) = founded();
    let shared = Shared::default();
    (folder, path, shared.clone(), Follower::new(shared, file, believed))
}

fn heard(path: &Path) -> Option<Time> {
    Replica::open(path).unwrap().status().unwrap().heard
}

#[tokio::test(start_paused = true)]
async fn a_round_without_accepted_segments_has_a_reason_unless_nothing_is_new() {
    let (_folder, _path, shared, mut follower) = follower(vec![Writer::new(1).key.public()]);
    assert_eq!(round(&mut follower).await.nothing_taken(), Some(NothingTaken::Empty));
    let (mut believed, mut other) = (Writer::new(1), Writer::new(2));
    other.list(Book::Listed, current(Book::Listed), &signatures(0, 10));
    shared.offer_all(&[&other], NOW);
    let others = Some(NothingTaken::OtherKeys { offered: 1 });
    assert_eq!(round(&mut follower).await.nothing_taken(), others);
    shared.offer_all(&[&believed, &other], NOW);
    assert_eq!(round(&mut follower).await.nothing_taken(), None, "the server has no heads yet");
    believed.list(Book::Listed, current(Book::Listed), &signatures(0, 10));
    shared.offer_all(&[&believed, &other], NOW);
    for _ in 0..2 {
        assert_eq!(round(&mut follower).await.nothing_taken(), None, "applied, and then up to date");
    }

    believed.list(Book::Listed, current(Book::Listed), &signatures(10, 10));
    shared.offer_all(&[&believed], NOW);
    for log in shared.0.lock().unwrap().logs.values_mut() {
        log.iter_mut().for_each(|byte| *byte ^= 1);
    }
    let refused = round(&mut follower).await.nothing_taken();
    assert!(matches!(refused, Some(NothingTaken::Refused(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn listed_and_bulk_signatures_of_every_origin_come_once() {
    let (_folder, path, shared, mut follower) = follower(Vec::new());
    let (mut one, mut other) = (Writer::new(1), Writer::new(2));
    one.list(Book::Listed, current(Book::Listed), &signatures(0, 100));
    one.list(Book::Revoked, current(Book::Listed), &signatures(1_000, 100));
    other.list(Book::Bulk, current(Book::Bulk), &signatures(2_000, 100));
    shared.offer_all(&[&one, &other], Time(NOW.0 - 3));
    let first = round(&mut follower).await;
    assert_eq!((first.signatures, first.segments, first.is_complete), (200, 2, true));
    let found = [0, 1_000, 2_000].map(|first| hits(&path, &signatures(first, 100)));
    assert!(found[0] == 100 && found[1] < 5 && found[2] == 100, "{found:?}");
    assert_eq!(heard(&path), Some(Time(NOW.0 - 3)));
    shared.fetched();

    assert_eq!(round(&mut follower).await.segments, 0);
    assert_eq!(shared.fetched(), []);
    let chain = one.chain(Book::Listed, current(Book::Listed));
    let offset = one.chains[&chain].0.offset;
    one.list(Book::Listed, current(Book::Listed), &signatures(3_000, 50));
    shared.offer_all(&[&one, &other], Time(NOW.0 + 100));
    assert_eq!(round(&mut follower).await.signatures, 50);
    assert_eq!(shared.fetched(), [(chain, offset)]);
    assert_eq!(hits(&path, &signatures(3_000, 50)), 50);
    assert_eq!(heard(&path), Some(NOW), "heads from the future are ignored");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_opened_again_goes_on_where_it_was() {
    let (_folder, path, shared, mut follower) = follower(Vec::new());
    let mut one = Writer::new(1);
    one.list(Book::Listed, current(Book::Listed), &signatures(0, 100));
    shared.offer_all(&[&one], NOW);
    round(&mut follower).await;
    drop(follower);
    let mut follower = Follower::new(shared.clone(), ReplicaFile::open(&path).unwrap(), Vec::new());
    assert_eq!(round(&mut follower).await.segments, 0);
    assert_eq!(shared.fetched().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_named_servers_are_trusted_and_forgeries_refused() {
    let (one, mut other, mut liar) = (Writer::new(1), Writer::new(2), Writer::new(3));
    let (_folder, path, shared, mut follower) = follower(vec![other.key.public(), liar.key.public()]);
    let mut one = one;
    one.list(Book::Listed, current(Book::Listed), &signatures(0, 100));
    other.list(Book::Listed, current(Book::Listed), &signatures(1_000, 100));
    liar.list(Book::Listed, current(Book::Listed), &signatures(2_000, 100));
    let forged = liar.chain(Book::Listed, current(Book::Listed));
    liar.chains.get_mut(&forged).unwrap().1[150] ^= 1;
    shared.offer_all(&[&one, &other, &liar], NOW);
    let round = round(&mut follower).await;
    assert_eq!((round.signatures, round.is_complete), (100, true));
    assert!(
        matches!(round.rejected[..], [ExchangeRefusal::Forged | ExchangeRefusal::Malformed(_)]),
        "{:?}",
        round.rejected
    );
    let found = [0, 1_000, 2_000].map(|first| hits(&path, &signatures(first, 100)));
    assert!(found[0] < 5 && found[1] == 100 && found[2] < 5, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_stale_while_named_segments_are_missing() {
    let (_folder, path, shared, mut follower) = follower(Vec::new());
    let mut one = Writer::new(1);
    one.list(Book::Listed, current(Book::Listed), &signatures(0, 100));
    shared.offer_all(&[&one], NOW);
    let chain = one.chain(Book::Listed, current(Book::Listed));
    let log = std::mem::take(shared.0.lock().unwrap().logs.get_mut(&chain).unwrap());
    assert!(!round(&mut follower).await.is_complete);
    assert_eq!(heard(&path), None);
    shared.0.lock().unwrap().logs.insert(chain, log);
    assert!(round(&mut follower).await.is_complete);
    assert_eq!(heard(&path), Some(NOW));
    shared.0.lock().unwrap().heads.clear();
    assert_eq!(round(&mut follower).await.segments, 0);
    assert_eq!(heard(&path), Some(NOW), "repeated heads are not news");
}

#[tokio::test(start_paused = true)]
async fn a_forked_chain_is_fetched_again() {
    let (_folder, path, shared, mut follower) = follower(Vec::new());
    let (mut one, mut again) = (Writer::new(1), Writer::new(1));
    one.list(Book::Listed, current(Book::Listed), &signatures(0, 100));
    again.list(Book::Listed, current(Book::Listed), &signatures(1_000, 100));
    shared.offer_all(&[&one], NOW);
    round(&mut follower).await;
    shared.offer_all(&[&again], NOW);
    let taken = round(&mut follower).await;
    assert_eq!((taken.signatures, taken.rejected), (100, vec![ExchangeRefusal::Forked]));
    assert_eq!(hits(&path, &signatures(1_000, 100)), 100);
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_stale_if_there_are_too_many_chains() {
    let (_folder, path, shared, mut follower) = follower(Vec::new());
    let mut writers: Vec<Writer> =
        (0..=CHAINS_MAX as u64).map(|n| Writer { incarnation: n, ..Writer::new(1) }).collect();
    for writer in &mut writers {
        writer.list(Book::Listed, current(Book::Listed), &signatures(0, 1));
    }
    shared.offer_all(&writers.iter().collect::<Vec<_>>(), NOW);
    let failed = follower.round(|| NOW, |_| {}).await;
    assert!(matches!(failed, Err(FollowError::Replica(ReplicaError::TooManyChains))));
    assert_eq!(heard(&path), None);
    assert_eq!(Replica::open(&path).unwrap().origins().unwrap().len(), CHAINS_MAX, "other signatures are kept");
}
