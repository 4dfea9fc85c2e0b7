//! Where did this packet come from, and where was this message seen?
//!
//! SPIE, the Source Path Isolation Engine (Snoeren et al., "Hash-based IP traceback", SIGCOMM 2001): every router puts a digest
//! of every packet into a Bloom filter, and keeps the filters as pages for a while. Whoever has one packet can then ask the
//! routers, from the one next to the victim outwards, which of them saw it. Content is not kept, and a packet can be looked for
//! only by those who have it.
//!
//! 1. [`Invariant`] is what stays the same from hop to hop: of a packet some header fields and the first 8 bytes behind the
//!    header, of a message what relays leave alone.
//! 2. [`Recorder`] is a router: it gathers fingerprints of invariants, and makes a page of them when a span of time ends or the
//!    page is full. Each page has a key of its own, drawn from the recorder's secret, so that a false positive at one router or
//!    time says nothing about another. The page carries the key: it can be asked by itself.
//! 3. [`Topology`] says who is linked with whom, and where their pages are.
//! 4. [`trace`] walks it, breadth first, from a router to those neighbours that saw the packet; [`find`] asks all. Each [`Hop`]
//!    has the probability of its being false, and "no page for that time" is another answer than "not seen": a [`Path`] is
//!    open where it may have come from one that cannot tell.
//!
//! Not followed: what a router changes beyond the fields that are left out. A packet that is fragmented on the way is found as a
//! whole before that and as fragments behind it; address translation and IPsec make another packet of it. No path of these is
//! closed: a packet that was made from another says so itself ([`Doubt`]), and the topology says which routers
//! [rewrite](Router::rewrites) packets. IP in IP and GRE change nothing, as the innermost packet is what counts.

mod doubt;
mod invariant;
mod mail;
mod page;
mod query;
mod recorder;
mod topology;

pub use doubt::{Doubt, DoubtTally, quoted};
pub use invariant::{INVARIANT_BYTES_MAX, Invariant, PAYLOAD_BYTES};
pub use mail::{CLOCKS_SECONDS, QUEUE_SECONDS, received_at, window_of};
pub use page::{NAME_BYTES_MAX, PAGE_BYTES_MAX, TracePage, TracePageError, ensure_name, read_pages};
pub use query::{
    Answer, Hop, Path, Question, Sighting, Trace, TraceError, false_positive, false_positives_expected, find, trace,
};
pub use recorder::{ITEMS_MAX, PageShape, RecordError, Recorder, Tally};
pub use topology::{LINKS_MAX, ROUTERS_MAX, Router, TOPOLOGY_BYTES_MAX, Topology, TopologyError};

/// What is recorded in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Packets.
    Packets,
    /// Mail.
    Messages,
}

impl Subject {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Packets, Self::Messages];

    /// The kind of [pages](crate::pages).
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Packets => "trace-packets",
            Self::Messages => "trace-messages",
        }
    }
}
