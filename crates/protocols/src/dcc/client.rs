//! The client's side: requests written, replies read.

use super::counts::{Count, Totals};
use super::frame::{Frame, Header, SIGNATURE_BYTES};
use super::items::Item;
use super::reply::BRAND_BYTES;
use super::request::{Ask, op};

/// Appends a request to `out`. `sign` makes the signature of the frame so far; anonymous clients send zeros.
///
/// The items of a query or report must be in ascending order of their kinds, or no server answers.
pub fn encode<'a>(
    header: &Header,
    ask: &Ask<'a, &'a [Item]>,
    out: &mut Vec<u8>,
    sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
) {
    header.write(ask.op(), out, |out| ask.write(out), sign);
}

/// A reply as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'f> {
    /// Who answers, in which transaction.
    pub header: Header,
    /// What.
    pub answer: Answer<'f>,
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'f> {
    /// It is there, or it is done.
    Ok {
        /// The version to speak.
        version_max: u8,
        /// How long replies will be held up, in milliseconds.
        delay_ms: u16,
        /// The server's name.
        brand: &'f [u8],
    },
    /// The totals of the items that were asked about.
    Totals(TotalsList<'f>),
    /// It could not be done, for this reason.
    Error(&'f [u8]),
    /// The text, list or numbers that an administrative request is answered with.
    Admin(&'f [u8]),
}

/// Totals in the order of the items that were asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TotalsList<'f>(&'f [[u8; 8]]);

impl TotalsList<'_> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The totals.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Totals> {
        self.0.iter().map(|&[a, b, c, d, e, f, g, h]| {
            let count = |bytes| Count::from_word(u32::from_be_bytes(bytes));
            Totals { current: count([a, b, c, d]), previous: count([e, f, g, h]) }
        })
    }
}

/// Reads a reply of version 6 or later; none if it is not one.
#[must_use]
pub fn decode(datagram: &[u8]) -> Option<Received<'_>> {
    let Frame { header, op, body } = Frame::read(datagram)?;
    Some(Received { header, answer: Answer::read(op, body)? })
}

impl<'f> Answer<'f> {
    fn read(op: u8, body: &'f [u8]) -> Option<Self> {
        match op {
            op::OK => {
                let (&[version_max, _, high, low], brand) = body.split_first_chunk()?;
                let brand: &[u8; BRAND_BYTES] = brand.try_into().ok()?;
                let delay_ms = u16::from_be_bytes([high, low]);
                Some(Self::Ok { version_max, delay_ms, brand: until_zero(brand) })
            }
            op::ANSWER => {
                let (totals, []) = body.as_chunks() else { return None };
                Some(Self::Totals(TotalsList(totals)))
            }
            op::ERROR => Some(Self::Error(until_zero(body))),
            op::ADMN => Some(Self::Admin(body)),
            _ => None,
        }
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
