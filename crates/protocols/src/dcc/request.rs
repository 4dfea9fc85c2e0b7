//! What is asked.

use std::ops::RangeInclusive;

use super::VERSION_MAX;
use super::counts::Targets;
use super::frame::{Frame, Header, SIGNATURE_BYTES, is_sender};
use super::items::{ITEM_BYTES, ITEMS_MAX, Item, Items};

/// The versions in which anything but a NOP is understood.
pub const VERSIONS: RangeInclusive<u8> = 6..=VERSION_MAX;

/// The longest request: a report of all kinds.
pub const FRAME_BYTES_MAX: usize = 44 + ITEMS_MAX * ITEM_BYTES;

/// The versions in which a NOP is answered.
const NOP_VERSIONS: RangeInclusive<u8> = super::frame::VERSION_MIN..=32;

/// How much of a frame tells its retransmissions from other requests: all before the number of the transmission.
const DUPLICATE_KEY_BYTES: usize = 20;

/// What an administrative request may carry behind its fixed part.
const ADMIN_REST_BYTES_MAX: usize = 64;

/// The numbers of operations.
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

/// A request. It borrows from its frame; nothing is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'f> {
    frame: &'f [u8],
    /// Who asks, in which transaction.
    pub header: Header,
    /// What is wanted.
    pub ask: Ask<'f>,
}

/// What is wanted. A client that asks gives its items as a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'f, I = Items<'f>> {
    /// Nothing: how far away is the server, and which version does it speak?
    Nop,
    /// A check.
    Query(I),
    /// A message that was received.
    Report {
        /// By how many.
        targets: Targets,
        /// Its checksums.
        items: I,
    },
    /// That a checksum be forgotten.
    Delete {
        /// The client's clock, in Unix seconds.
        clock: u32,
        /// The checksum.
        item: Item,
    },
    /// Something about the server itself.
    Admin(Admin<'f>),
}

/// An administrative request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin<'f> {
    /// The client's clock, in Unix seconds.
    pub clock: u32,
    /// What is wanted.
    pub operation: AdminOperation,
    /// The first argument.
    pub value: u32,
    /// Three more.
    pub values: [u8; 3],
    /// An address block or an ID, for the lists of clients.
    pub rest: &'f [u8],
}

/// What an administrative request wants. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AdminOperation {
    /// That the server stops.
    Stop = 1,
    /// Control of the exchange between servers.
    Flood = 3,
    /// A cleaning of the database begins.
    CleaningBegins = 4,
    /// A cleaned database is ready.
    DatabaseReady = 5,
    /// The counters of the server.
    Stats = 6,
    /// The same, which then begin at zero.
    StatsClear = 7,
    /// More logging.
    TraceOn = 8,
    /// Less logging.
    TraceOff = 9,
    /// Clients by address.
    ClientsByAddress = 11,
    /// Clients by ID.
    ClientsById = 12,
    /// By how much replies to anonymous clients are held up.
    AnonymousDelay = 13,
    /// How far the two clocks are apart.
    Clock = 14,
}

impl<'f> Request<'f> {
    /// Reads a datagram. What breaks a rule is none, and is not to be answered.
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

    /// The whole frame, whose last [`SIGNATURE_BYTES`] sign the others.
    #[must_use]
    pub const fn frame(&self) -> &'f [u8] {
        self.frame
    }

    /// Whether there is a signature to verify: anonymous clients send zeros.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        let signature = self.frame.last_chunk::<SIGNATURE_BYTES>();
        self.header.sender != super::ANONYMOUS && signature != Some(&[0; SIGNATURE_BYTES])
    }

    /// What the retransmissions of a request have in common. The caller adds the address and port they came from.
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

impl<I: AsRef<[Item]>> Ask<'_, I> {
    /// The number of the operation.
    pub(super) const fn op(&self) -> u8 {
        match self {
            Self::Nop => op::NOP,
            Self::Query(_) => op::QUERY,
            Self::Report { .. } => op::REPORT,
            Self::Delete { .. } => op::DELETE,
            Self::Admin(_) => op::ADMN,
        }
    }

    /// Appends the body.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nop => {}
            Self::Query(items) => write_items(0, items.as_ref(), out),
            Self::Report { targets, items } => write_items(targets.word(), items.as_ref(), out),
            Self::Delete { clock, item } => {
                out.extend_from_slice(&clock.to_be_bytes());
                item.write(out);
                out.extend_from_slice(&[0, 0]);
            }
            Self::Admin(admin) => admin.write(out),
        }
    }
}

fn write_items(targets: u32, items: &[Item], out: &mut Vec<u8>) {
    out.extend_from_slice(&targets.to_be_bytes());
    items.iter().for_each(|item| item.write(out));
}

impl<'f> Admin<'f> {
    fn read(body: &'f [u8]) -> Option<Self> {
        let (&[a, b, c, d, e, f, g, h, operation, values @ ..], rest) = body.split_first_chunk::<12>()?;
        let operation = AdminOperation::from_number(operation)?;
        let (clock, value) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        (rest.len() <= ADMIN_REST_BYTES_MAX).then_some(Self { clock, operation, value, values, rest })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clock.to_be_bytes());
        out.extend_from_slice(&self.value.to_be_bytes());
        out.push(self.operation as u8);
        out.extend_from_slice(&self.values);
        out.extend_from_slice(self.rest);
    }
}

impl AdminOperation {
    /// All there are.
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
