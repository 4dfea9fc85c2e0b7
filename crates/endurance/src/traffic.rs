//! Clients that send reports, revocations and counts to every node at a steady pace and record each answer in the
//! model.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use crate::model::{CountedMessage, Listing, Model, now};
use crate::node::{Answer, Node};

/// Interval between two requests to one node.
const REQUEST_INTERVAL: Duration = Duration::from_millis(25);
/// Number of messages whose recipients are counted repeatedly.
pub(crate) const MESSAGES: u64 = 24;
/// Number of the first signature that a looping script claims. All other signatures have lower numbers.
const FLOOD_FROM: u64 = 1 << 40;
/// Number of signatures in each request of a looping script.
const SIGNATURES_PER_FLOOD_REQUEST: u64 = 256;

/// Clients of all nodes.
pub(crate) struct Traffic {
    pub(crate) model: Mutex<Model>,
    /// For each node, true if it gets no traffic at the moment because it is down or its clock is not confirmed.
    pub(crate) is_quiet: Vec<AtomicBool>,
    is_over: AtomicBool,
    /// A lock. Requests hold it shared while they are sent and recorded. Comparisons of the nodes with the model hold
    /// it exclusively.
    under_way: RwLock<()>,
    next: AtomicU64,
    flooded: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Traffic {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            model: Mutex::default(),
            is_quiet: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            is_over: AtomicBool::new(false),
            under_way: RwLock::default(),
            next: AtomicU64::new(1),
            flooded: AtomicU64::new(FLOOD_FROM),
            acknowledged: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns the model of the requests so far.
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests to one node until the run ends.
    pub(crate) fn run(&self, index: usize, node: &Node, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        while !self.is_over.load(Ordering::Relaxed) {
            if !self.is_quiet[index].load(Ordering::Relaxed) {
                let _under_way = self.under_way.read().unwrap_or_else(PoisonError::into_inner);
                match random.random_range(0..10) {
                    0..4 => self.report(index, node),
                    4 => self.revoke(index, node),
                    _ => self.count(index, node, random.random_range(0..MESSAGES), random.random_range(1..4)),
                }
            }
            thread::sleep(REQUEST_INTERVAL);
        }
    }

    /// Waits until no request is in flight, and lets none begin until the guard is dropped.
    pub(crate) fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.under_way.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn report(&self, index: usize, node: &Node) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sent = now();
        let answer = node.report(&[number]);
        self.tally(answer);
        if answer != Answer::Refused {
            let is_sure = answer == Answer::Acknowledged;
            let listing = Listing { number, node: index, sent, answered: now(), is_sure, revoked: None };
            self.model().listings.push(listing);
        }
    }

    /// Revokes a report that this node acknowledged a while ago.
    fn revoke(&self, index: usize, node: &Node) {
        let candidate = {
            let model = self.model();
            let mut own = model.listings.iter().rev().filter(|listing| listing.node == index && listing.is_sure);
            own.nth(20).filter(|listing| listing.revoked.is_none()).map(|listing| listing.number)
        };
        let Some(number) = candidate else { return };
        let sent = now();
        let answer = node.revoke(number);
        self.tally(answer);
        let mut model = self.model();
        let listing = model.listings.iter_mut().find(|listing| listing.number == number);
        match (listing, answer) {
            (Some(listing), Answer::Acknowledged) => listing.revoked = Some(sent),
            // The node may have stored the revocation, so from now on both "listed" and "revoked" are correct.
            (Some(listing), Answer::Unknown) => listing.is_sure = false,
            _ => {}
        }
    }

    fn count(&self, index: usize, node: &Node, number: u64, targets: u32) {
        let sent = now();
        let answer = node.count(number, targets);
        self.tally(answer);
        if answer != Answer::Refused {
            let is_sure = answer == Answer::Acknowledged;
            let counted = CountedMessage { number, node: index, sent, answered: now(), targets, is_sure };
            self.model().counts.push(counted);
        }
    }

    /// Simulates a looping script. Reports new signatures, or revokes them if `revoke` is true, until some are refused
    /// or the run ends. Returns false if `requests_max` requests were sent and none was refused.
    pub(crate) fn flood(&self, node: &Node, revoke: bool, requests_max: u32) -> bool {
        for _ in 0..requests_max {
            let first = self.flooded.fetch_add(SIGNATURES_PER_FLOOD_REQUEST, Ordering::Relaxed);
            let numbers: Vec<u64> = (first..first + SIGNATURES_PER_FLOOD_REQUEST).collect();
            let answer = if revoke { node.revoke_all(&numbers) } else { node.report(&numbers) };
            if answer == Answer::Refused || self.is_over.load(Ordering::Relaxed) {
                return true;
            }
        }
        false
    }

    fn tally(&self, answer: Answer) {
        match answer {
            Answer::Acknowledged => self.acknowledged.fetch_add(1, Ordering::Relaxed),
            Answer::Refused => self.refused.fetch_add(1, Ordering::Relaxed),
            Answer::Unknown => 0,
        };
    }
}
