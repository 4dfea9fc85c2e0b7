//! What this server tells others: the next segment of a chain of its own.
//!
//! Pure: the engine's state comes in, signed bytes go out. The order in which these become true elsewhere is the caller's: a
//! segment is in the chain's log on disk before its [`Event::Sealed`] is submitted, and heads that name it are shown to nobody
//! before that event is on disk. So a crash leaves a log that is too long, which is cut, and never one that others know better.

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Exchange};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;

use crate::keys::NodeKey;
use crate::segment::{Segment, hash};

/// A segment to append to a log, and what to tell the engine when that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The chain it is the next of.
    pub chain: Chain,
    /// Where in the chain's log it begins.
    pub offset: u64,
    /// The signed segment.
    pub bytes: Vec<u8>,
    /// What to submit when the bytes are on disk.
    pub sealed: Event,
}

/// The next segment of a book and generation, if anything waits there and this server has begun to tell others.
#[must_use]
pub fn next_segment(
    exchange: &Exchange,
    (book, generation): (Book, u64),
    realm: RealmId,
    key: &NodeKey,
    now: Time,
) -> Option<Export> {
    let chain = Chain { origin: exchange.own()?, book, generation };
    let sealable = exchange.sealable(book, generation)?;
    let frontier = exchange.frontier(&chain);
    let segment = Segment {
        realm,
        chain,
        sequence: frontier.sequence + 1,
        previous: frontier.hash,
        encoding: sealable.encoding,
        entries: sealable.entries,
        payload: &sealable.payload,
    };
    let bytes = segment.sign(key);
    let sealed = Event::Sealed {
        now,
        chain,
        sequence: frontier.sequence + 1,
        taken: sealable.taken,
        bytes: bytes.len() as u32,
        hash: hash(&bytes),
    };
    Some(Export { chain, offset: frontier.offset, bytes, sealed })
}
