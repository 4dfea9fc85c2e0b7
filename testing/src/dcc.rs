//! A DCC client: encodes requests, decodes replies.

use bruit_protocols::dcc::{
    Admin, Ask, BRAND_BYTES_MAX, Count, Header, ITEM_BYTES, Item, SIGNATURE_BYTES, Targets, Totals,
};

const NOP: u8 = 1;
const REPORT: u8 = 2;
const QUERY: u8 = 3;
const ANSWER: u8 = 4;
const ADMN: u8 = 5;
const OK: u8 = 6;
const ERROR: u8 = 7;
const DELETE: u8 = 8;

/// Bit in a report that declares the message spam.
const SPAM_BIT: u32 = 1 << 24;
/// Bit in a report that marks it as a repetition of an earlier report of the same message.
const SECOND_BIT: u32 = 1 << 25;

/// Appends a request to `out`. `sign` computes the signature of the frame so far; anonymous clients send zeros.
///
/// The items of a query or report must be in ascending order of kind. Otherwise, servers do not answer.
pub fn encode<'a>(
    header: &Header,
    ask: &Ask<'a, &'a [Item]>,
    out: &mut Vec<u8>,
    sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, header.version, op(ask)]);
    out.extend_from_slice(&header.sender.to_be_bytes());
    out.extend_from_slice(&header.numbers);
    put_body(out, ask);
    let length = u16::try_from(out.len() - start + SIGNATURE_BYTES).expect("the items fit into a frame");
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    let signature = sign(&out[start..]);
    out.extend_from_slice(&signature);
}

const fn op(ask: &Ask<'_, &[Item]>) -> u8 {
    match ask {
        Ask::Nop => NOP,
        Ask::Query(_) => QUERY,
        Ask::Report { .. } => REPORT,
        Ask::Delete { .. } => DELETE,
        Ask::Admin(_) => ADMN,
    }
}

fn put_body(out: &mut Vec<u8>, ask: &Ask<'_, &[Item]>) {
    match ask {
        Ask::Nop => {}
        Ask::Query(items) => put_items(out, 0, items),
        Ask::Report { targets, items } => put_items(out, word(*targets), items),
        Ask::Delete { clock, item } => {
            out.extend_from_slice(&clock.to_be_bytes());
            put_item(out, item);
            out.extend_from_slice(&[0, 0]);
        }
        Ask::Admin(admin) => put_admin(out, admin),
    }
}

fn put_items(out: &mut Vec<u8>, targets: u32, items: &[Item]) {
    out.extend_from_slice(&targets.to_be_bytes());
    items.iter().for_each(|item| put_item(out, item));
}

fn put_item(out: &mut Vec<u8>, item: &Item) {
    out.extend_from_slice(&[item.kind as u8, ITEM_BYTES as u8]);
    out.extend_from_slice(&item.sum);
}

fn put_admin(out: &mut Vec<u8>, admin: &Admin<'_>) {
    out.extend_from_slice(&admin.clock.to_be_bytes());
    out.extend_from_slice(&admin.value.to_be_bytes());
    out.push(admin.operation as u8);
    out.extend_from_slice(&admin.values);
    out.extend_from_slice(admin.rest);
}

/// Encodes the number of recipients in a report.
const fn word(targets: Targets) -> u32 {
    let spam = if targets.is_spam && !targets.is_second { SPAM_BIT } else { 0 };
    let second = if targets.is_second { SECOND_BIT } else { 0 };
    targets.count | spam | second
}

/// A decoded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'f> {
    /// Sender and transaction numbers.
    pub header: Header,
    /// The answer.
    pub answer: Answer<'f>,
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'f> {
    /// The reply to a NOP, or confirmation that the request was executed.
    Ok {
        /// Protocol version to use.
        version_max: u8,
        /// Delay that the server adds before each reply, in milliseconds.
        delay_ms: u16,
        /// The server's name.
        brand: &'f [u8],
    },
    /// Totals for the requested items.
    Totals(TotalsList<'f>),
    /// The request failed; the text explains why.
    Error(&'f [u8]),
    /// Text, list or numbers that answer an administrative request.
    Admin(&'f [u8]),
}

/// Totals in the order of the requested items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TotalsList<'f>(&'f [[u8; 8]]);

impl TotalsList<'_> {
    /// Number of totals.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no totals.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the totals.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Totals> {
        self.0.iter().map(|&[a, b, c, d, e, f, g, h]| {
            let count = |bytes| Count::from_word(u32::from_be_bytes(bytes));
            Totals { current: count([a, b, c, d]), previous: count([e, f, g, h]) }
        })
    }
}

/// Decodes a reply of version 6 or later. Returns `None` if the datagram is not such a reply.
#[must_use]
pub fn decode(datagram: &[u8]) -> Option<Received<'_>> {
    let (unsigned, _) = datagram.split_last_chunk::<SIGNATURE_BYTES>()?;
    let (&[high, low, version, op, a, b, c, d], rest) = unsigned.split_first_chunk()?;
    let (&numbers, body) = rest.split_first_chunk()?;
    let header = Header { version, sender: u32::from_be_bytes([a, b, c, d]), numbers };
    let is_whole = usize::from(u16::from_be_bytes([high, low])) == datagram.len();
    let answer = if is_whole { Answer::read(op, body)? } else { return None };
    Some(Received { header, answer })
}

impl<'f> Answer<'f> {
    fn read(op: u8, body: &'f [u8]) -> Option<Self> {
        match op {
            OK => {
                let (&[version_max, _, high, low], brand) = body.split_first_chunk()?;
                let brand: &[u8; BRAND_BYTES_MAX + 1] = brand.try_into().ok()?;
                let delay_ms = u16::from_be_bytes([high, low]);
                Some(Self::Ok { version_max, delay_ms, brand: until_zero(brand) })
            }
            ANSWER => {
                let (totals, []) = body.as_chunks() else { return None };
                Some(Self::Totals(TotalsList(totals)))
            }
            ERROR => Some(Self::Error(until_zero(body))),
            ADMN => Some(Self::Admin(body)),
            _ => None,
        }
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
