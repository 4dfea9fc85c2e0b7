//! Requests.

use std::ops::RangeInclusive;

use super::counts::Targets;
use super::frame::{Frame, Header, SIGNATURE_BYTES, is_sender};
use super::items::{ITEM_BYTES, ITEMS_MAX, Item, Items};
use super::{VERSION_MIN, VERSIONS};

/// Maximum length of a request: a report with a checksum of every kind.
pub const FRAME_BYTES_MAX: usize = 44 + ITEMS_MAX * ITEM_BYTES;

/// Versions in which the server answers a NOP.
const NOP_VERSIONS: RangeInclusive<u8> = VERSION_MIN..=32;

/// Number of leading bytes that are the same in all transmissions of a frame. The next field is the transmission
/// number.
const DUPLICATE_KEY_BYTES: usize = 20;

/// Maximum length of the variable part of an administrative request.
const ADMIN_REST_BYTES_MAX: usize = 64;

/// Operation numbers.
pub(super) mod op {
    pub(in super::super) const NOP: u8 = 1;
    pub(in super::super) const REPORT: u8 = 2;
    pub(in super::super) const QUERY: u8 = 3;
    pub(in super::super) const ANSWER: u8 = 4;
    pub(in super::super) const ADMN: u8 = 5;
    pub(in super::super) const OK: u8 = 6;
    pub(in super::super) const ERROR: u8 = 7;
    pub(in super::super) const DELETE: u8 = 8;
}

/// A request. It borrows from its frame and does not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'f> {
    frame: &'f [u8],
    /// Sender and transaction.
    pub header: Header,
    /// The requested operation.
    pub ask: Ask<'f>,
}

/// A requested operation. `I` holds the items: [`Items`] in a decoded request, a slice in a request that a client
/// encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'f, I = Items<'f>> {
    /// No operation. Used to measure the round-trip time and to negotiate the version.
    Nop,
    /// A query about checksums, which changes nothing.
    Query(I),
    /// A report of a received message.
    Report {
        /// Number of recipients.
        targets: Targets,
        /// Checksums of the message.
        items: I,
    },
    /// Deletion of a checksum.
    Delete {
        /// The client's clock, in Unix seconds.
        clock: u32,
        /// The checksum.
        item: Item,
    },
    /// An administrative request to the server.
    Admin(Admin<'f>),
}

/// An administrative request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin<'f> {
    /// The client's clock, in Unix seconds.
    pub clock: u32,
    /// The requested operation.
    pub operation: AdminOperation,
    /// The first argument.
    pub value: u32,
    /// Three further arguments.
    pub values: [u8; 3],
    /// An address block or an ID, for client lists.
    pub rest: &'f [u8],
}

/// An administrative operation. The values are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AdminOperation {
    /// Stop the server.
    Stop = 1,
    /// Control the exchange between servers.
    Flood = 3,
    /// Announce that a database cleaning begins.
    CleaningBegins = 4,
    /// Announce that the cleaned database is ready.
    DatabaseReady = 5,
    /// Return the server's counters.
    Stats = 6,
    /// Return the server's counters and reset them.
    StatsClear = 7,
    /// Enable trace logging.
    TraceOn = 8,
    /// Disable trace logging.
    TraceOff = 9,
    /// List clients by address.
    ClientsByAddress = 11,
    /// List clients by ID.
    ClientsById = 12,
    /// Return the delay for anonymous clients.
    AnonymousDelay = 13,
    /// Measure the difference between the client's and the server's clocks.
    Clock = 14,
}

impl<'f> Request<'f> {
    /// Decodes a datagram. Returns `None` for invalid requests, which must not be answered.
    #[must_use]
    pub fn decode(datagram: &'f [u8]) -> Option<Self> {
        let Frame { header, op, body } = Frame::read(datagram)?;
        let versions = if op == op::NOP { NOP_VERSIONS } else { VERSIONS };
        if !versions.contains(&header.version) || !is_sender(header.sender) {
            return None;
        }
        let ask = Ask::read(op, body)?;
        Some(Self { frame: datagram, header, ask })
    }

    /// Returns the whole frame. Its last [`SIGNATURE_BYTES`] bytes are the signature of the rest.
    #[must_use]
    pub const fn frame(&self) -> &'f [u8] {
        self.frame
    }

    /// Returns true if there is a signature to verify. Anonymous clients send zeros instead.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        let signature = self.frame.last_chunk::<SIGNATURE_BYTES>();
        self.header.sender != super::ANONYMOUS && signature != Some(&[0; SIGNATURE_BYTES])
    }

    /// Returns the bytes shared by retransmissions of a request. The caller adds the source address and port.
    #[must_use]
    pub fn duplicate_key(&self) -> &'f [u8] {
        self.frame.get(..DUPLICATE_KEY_BYTES).unwrap_or(self.frame)
    }
}

impl<'f> Ask<'f> {
    fn read(op: u8, body: &'f [u8]) -> Option<Self> {
        match op {
            op::NOP => body.is_empty().then_some(Self::Nop),
            op::QUERY => {
                let (_, items) = body.split_first_chunk::<4>()?;
                Some(Self::Query(Items::read(items)?))
            }
            op::REPORT => {
                let (targets, items) = body.split_first_chunk()?;
                let targets = Targets::read(u32::from_be_bytes(*targets))?;
                Some(Self::Report { targets, items: Items::read(items)? })
            }
            op::DELETE => {
                let (clock, rest) = body.split_first_chunk()?;
                let (item, [_, _]) = rest.split_first_chunk()? else { return None };
                Some(Self::Delete { clock: u32::from_be_bytes(*clock), item: Item::read(item)? })
            }
            op::ADMN => Some(Self::Admin(Admin::read(body)?)),
            _ => None,
        }
    }
}

impl<'f> Admin<'f> {
    fn read(body: &'f [u8]) -> Option<Self> {
        let (&[a, b, c, d, e, f, g, h, operation, values @ ..], rest) = body.split_first_chunk::<12>()?;
        let operation = AdminOperation::from_number(operation)?;
        let (clock, value) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        (rest.len() <= ADMIN_REST_BYTES_MAX).then_some(Self { clock, operation, value, values, rest })
    }
}

impl AdminOperation {
    /// All operations.
    pub const ALL: [Self; 12] = [
        Self::Stop,
        Self::Flood,
        Self::CleaningBegins,
        Self::DatabaseReady,
        Self::Stats,
        Self::StatsClear,
        Self::TraceOn,
        Self::TraceOff,
        Self::ClientsByAddress,
        Self::ClientsById,
        Self::AnonymousDelay,
        Self::Clock,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| *operation as u8 == number)
    }
}
