//! Export: the next segment of this server's own chains.
//!
//! Pure: it turns the engine's state into signed bytes. The caller is responsible for the order of writes. A segment is
//! in the chain's log on disk before its [`Event::Sealed`] is submitted. Heads that name the segment are published only
//! when that event is on disk. So a crash can leave a log that is too long, which is then truncated, but never a log
//! that is shorter than the published heads say.

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Exchange};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;

use crate::keys::NodeKey;
use crate::segment::{Segment, hash};

/// A segment to append to a log, and the event to submit afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// Chain of the segment.
    pub chain: Chain,
    /// Offset of the segment in the chain's log.
    pub offset: u64,
    /// The signed segment.
    pub bytes: Vec<u8>,
    /// The event to submit when the bytes are on disk.
    pub sealed: Event,
}

/// Returns the next segment of a book and generation, if entries are queued there and this server exports.
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
