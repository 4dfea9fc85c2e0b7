//! Traceback: finds the path of a packet through routers, and the servers that saw a message.
//!
//! The method is SPIE, the Source Path Isolation Engine (Snoeren et al., "Hash-based IP traceback", SIGCOMM 2001).
//! Every router adds a digest of every packet to a Bloom filter, and keeps the filters as pages for a while. An analyst
//! who has a packet can find out which routers saw it, starting at the router next to the victim. Content is not
//! stored, so one can only search for a packet that one has.
//!
//! 1. [`Invariant`] is the part of a packet or message that stays the same from hop to hop. For a packet, it consists
//!    of some header fields and the first 8 bytes after the header; for a message, of the parts that relays do not
//!    change.
//! 2. [`Recorder`] runs at a router. It collects fingerprints of invariants, and writes them to a page when a span of
//!    time ends or the page is full. Each page has its own key, derived from the recorder's secret, so false positives
//!    at different routers and times are independent. The page includes its key, so it can be queried on its own.
//! 3. [`Topology`] lists the links between routers and their page directories.
//! 4. [`trace`] walks the topology breadth first, from a router to the neighbours that saw the packet; [`find`] queries
//!    all routers. Each [`Hop`] states the probability that it is a false positive. A router without a page for that
//!    time has no answer, which differs from "not seen". A [`Path`] is open if its packet may have come from a router
//!    without an answer.
//!
//! A packet cannot be followed across a change of its invariant. If a packet is fragmented on the way, the routers
//! before that point saw the whole packet, and those after it saw fragments. Address translation and IPsec turn a
//! packet into another one. Paths of such packets are always open: a [`Doubt`] marks packets that show such a change,
//! and the topology marks routers that [rewrite](Router::rewrites) packets. IP in IP and GRE have no effect, because
//! the invariant is that of the innermost packet.

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

/// Kind of traffic recorded in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Packets.
    Packets,
    /// Mail messages.
    Messages,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Self; 2] = [Self::Packets, Self::Messages];

    /// Returns the kind of the [pages](crate::pages).
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Packets => "trace-packets",
            Self::Messages => "trace-messages",
        }
    }
}
