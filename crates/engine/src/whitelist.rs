//! What is never held against a message: signatures that do not count, and senders beyond suspicion.
//!
//! Signatures are known by their fingerprints under the realm's key, and one probe of a table answers for all of them: those
//! of nothing, which the program knows ([`Why::Empty`]), and those that were listed by the operator or through a protocol.
//! Only the latter are part of the state that is stored. [`Senders`] are patterns of addresses and domains.
//!
//! ```
//! use bruit_engine::signature::fingerprint_of_bytes;
//! use bruit_engine::whitelist::{By, Whitelist, Why};
//! use bruit_filters::FingerprintKey;
//! use bruit_signatures::{Scheme, pyzor};
//!
//! let key = FingerprintKey::new([7; 16]);
//! let mut whitelist = Whitelist::new(&key);
//! let of = |bytes: &[u8]| fingerprint_of_bytes(&key, Scheme::Pyzor, bytes).expect("20 bytes");
//! assert_eq!(whitelist.contains(&of(&pyzor::Digest::EMPTY.0)), Some(Why::Empty));
//!
//! let newsletter = of(&[9; 20]);
//! whitelist.add(newsletter, By::Operator)?;
//! assert_eq!(whitelist.contains(&newsletter), Some(Why::Listed(By::Operator)));
//! # Ok::<(), bruit_engine::whitelist::Full>(())
//! ```

mod change;
mod empty;
mod senders;

use bruit_filters::{Fingerprint, FingerprintKey};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use crate::codec::{Malformed, Reader, put_count, put_fingerprint};

pub use change::WhitelistChange;
pub use senders::{SENDER_BYTES_MAX, SENDERS_MAX, SenderError, Senders};

/// Most listed signatures: a hash table of 2^20 places takes up to 917,504 before it doubles. They take 26 MB, or twice
/// that after many were taken off.
pub const SIGNATURES_MAX: usize = 900_000;

/// The bytes of an encoded signature.
const ENCODED_BYTES: usize = 16 + 1;

/// Listed signatures and senders.
#[derive(Clone, Debug)]
pub struct Whitelist {
    /// Placed by bits of the fingerprint, which nobody without the realm's key can choose.
    signatures: HashTable<Entry>,
    /// How many of them are those of nothing.
    empty: usize,
    /// Senders beyond suspicion.
    pub senders: Senders,
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It is the signature of nothing.
    Empty,
    /// Somebody listed it.
    Listed(By),
}

/// Who listed a signature. Numbers are for files, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum By {
    /// The operator.
    Operator = 1,
    /// A client that may, through its protocol.
    Protocol = 2,
}

/// As many signatures are listed as there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SIGNATURES_MAX} signatures are listed already: take some off the list")]
pub struct Full;

#[derive(Clone, Copy, Debug)]
struct Entry {
    fingerprint: Fingerprint,
    why: Why,
}

impl Whitelist {
    /// A whitelist of what is known to be empty, and nothing else.
    #[must_use]
    pub fn new(key: &FingerprintKey) -> Self {
        let mut signatures = HashTable::new();
        for fingerprint in empty::fingerprints(key) {
            signatures.insert_unique(place_of(&fingerprint), Entry { fingerprint, why: Why::Empty }, Entry::place);
        }
        Self { empty: signatures.len(), signatures, senders: Senders::default() }
    }

    /// Why a signature does not count; none if it does.
    #[inline]
    #[must_use]
    pub fn contains(&self, fingerprint: &Fingerprint) -> Option<Why> {
        self.signatures.find(place_of(fingerprint), |entry| entry.fingerprint == *fingerprint).map(|entry| entry.why)
    }

    /// Lists a signature; says whether that is new. What the operator lists stays the operator's, whoever lists it again.
    ///
    /// # Errors
    /// [`Full`]; nothing has changed then.
    pub fn add(&mut self, fingerprint: Fingerprint, by: By) -> Result<bool, Full> {
        let is_full = self.len() >= SIGNATURES_MAX;
        let is_same = |entry: &Entry| entry.fingerprint == fingerprint;
        match self.signatures.entry(place_of(&fingerprint), is_same, Entry::place) {
            Place::Occupied(mut known) => {
                let why = known.get().why;
                known.get_mut().why = why.min(Why::Listed(by));
                Ok(false)
            }
            Place::Vacant(_) if is_full => Err(Full),
            Place::Vacant(free) => {
                free.insert(Entry { fingerprint, why: Why::Listed(by) });
                Ok(true)
            }
        }
    }

    /// Takes a signature off the list; says whether it was on it. Those of nothing stay.
    pub fn remove(&mut self, fingerprint: &Fingerprint) -> bool {
        let is_listed = |entry: &Entry| entry.fingerprint == *fingerprint && entry.why != Why::Empty;
        self.signatures.find_entry(place_of(fingerprint), is_listed).is_ok_and(|entry| {
            entry.remove();
            true
        })
    }

    /// How many signatures are listed, without those of nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.signatures.len() - self.empty
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of signatures and senders.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.signatures.allocation_size() as u64 + self.senders.bytes()
    }

    /// Appends what was listed, both sorted: equal lists give equal bytes, whatever their past.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for (fingerprint, by) in self.listed() {
            put_fingerprint(out, fingerprint);
            out.push(by as u8);
        }
        self.senders.encode(out);
    }

    /// Reads what [`encode`](Self::encode) wrote, in the same realm.
    ///
    /// # Errors
    /// [`Malformed`] if it did not.
    pub fn decode(key: &FingerprintKey, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut whitelist = Self::new(key);
        let count = reader.count(SIGNATURES_MAX, ENCODED_BYTES, "the number of whitelisted signatures")?;
        let mut before = None;
        for at in 0..count {
            let fingerprint = reader.fingerprint("a whitelisted signature")?;
            let by = By::from_number(reader.u8("who whitelisted a signature")?)?;
            // In another order, or known already, it was not written by us.
            if before >= Some(fingerprint) || whitelist.add(fingerprint, by) != Ok(true) {
                return Err(Malformed::OutOfRange { what: "the place of a whitelisted signature", value: at as u64 });
            }
            before = Some(fingerprint);
        }
        whitelist.senders = Senders::decode(reader)?;
        Ok(whitelist)
    }

    /// What was listed, sorted by fingerprint.
    fn listed(&self) -> Vec<(Fingerprint, By)> {
        let listed = self.signatures.iter().filter_map(|entry| match entry.why {
            Why::Listed(by) => Some((entry.fingerprint, by)),
            Why::Empty => None,
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable();
        listed
    }
}

impl PartialEq for Whitelist {
    /// Whether the same is listed, wherever it lies.
    fn eq(&self, other: &Self) -> bool {
        self.listed() == other.listed() && self.senders == other.senders
    }
}

impl Eq for Whitelist {}

impl Entry {
    fn place(&self) -> u64 {
        place_of(&self.fingerprint)
    }
}

impl By {
    pub(super) fn from_number(number: u8) -> Result<Self, Malformed> {
        match number {
            1 => Ok(Self::Operator),
            2 => Ok(Self::Protocol),
            _ => Err(Malformed::OutOfRange { what: "who whitelisted a signature", value: number.into() }),
        }
    }
}

/// The bits that place a fingerprint in the table: it is a hash already.
const fn place_of(fingerprint: &Fingerprint) -> u64 {
    fingerprint.high()
}

#[cfg(test)]
mod tests {
    use bruit_signatures::{Scheme, pyzor};

    use super::*;
    use crate::signature::fingerprint_of_bytes;

    const KEY: FingerprintKey = FingerprintKey::new([7; 16]);

    fn fingerprint(number: u32) -> Fingerprint {
        KEY.fingerprint(&number.to_le_bytes())
    }

    fn encoded(whitelist: &Whitelist) -> Vec<u8> {
        let mut bytes = Vec::new();
        whitelist.encode(&mut bytes);
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<Whitelist, Malformed> {
        let mut reader = Reader::new(bytes);
        let whitelist = Whitelist::decode(&KEY, &mut reader)?;
        reader.finish().map(|()| whitelist)
    }

    #[test]
    fn signatures_of_nothing_never_count_and_cannot_be_taken_off() {
        let mut whitelist = Whitelist::new(&KEY);
        for scheme in [Scheme::Pyzor, Scheme::Pyzor11, Scheme::RazorE4] {
            let nothing = fingerprint_of_bytes(&KEY, scheme, &pyzor::Digest::EMPTY.0).unwrap();
            assert_eq!(whitelist.add(nothing, By::Operator), Ok(false));
            assert!(!whitelist.remove(&nothing));
            assert_eq!(whitelist.contains(&nothing), Some(Why::Empty));
        }
        assert!(whitelist.is_empty() && whitelist == Whitelist::new(&KEY));
    }

    #[test]
    fn what_is_listed_is_found_until_it_is_taken_off() {
        let mut whitelist = Whitelist::new(&KEY);
        assert_eq!(whitelist.contains(&fingerprint(1)), None);
        assert_eq!(whitelist.add(fingerprint(1), By::Protocol), Ok(true));
        assert_eq!(whitelist.contains(&fingerprint(1)), Some(Why::Listed(By::Protocol)));
        assert_eq!(whitelist.contains(&fingerprint(2)), None);
        assert!(whitelist.remove(&fingerprint(1)) && !whitelist.remove(&fingerprint(1)));
        assert_eq!(whitelist.contains(&fingerprint(1)), None);
    }

    #[test]
    fn the_operators_entries_stay_the_operators() {
        for order in [[By::Operator, By::Protocol], [By::Protocol, By::Operator]] {
            let mut whitelist = Whitelist::new(&KEY);
            assert_eq!(order.map(|by| whitelist.add(fingerprint(1), by)), [Ok(true), Ok(false)]);
            assert_eq!(whitelist.contains(&fingerprint(1)), Some(Why::Listed(By::Operator)));
        }
    }

    #[test]
    fn equal_lists_have_equal_bytes_whatever_their_past() {
        let mut one = Whitelist::new(&KEY);
        let mut other = Whitelist::new(&KEY);
        (0..1000).for_each(|at| assert_eq!(one.add(fingerprint(at), By::Operator), Ok(true)));
        (0..2000).rev().for_each(|at| assert_eq!(other.add(fingerprint(at), By::Operator), Ok(true)));
        (1000..2000).for_each(|at| assert!(other.remove(&fingerprint(at))));
        for pattern in [&b"b.example"[..], b"a.example"] {
            one.senders.add(pattern).unwrap();
        }
        for pattern in [&b"a.example"[..], b"b.example"] {
            other.senders.add(pattern).unwrap();
        }
        assert_eq!(encoded(&one), encoded(&other));
        assert_eq!(decoded(&encoded(&one)), Ok(other));
    }

    #[test]
    fn damaged_bytes_are_refused_or_mean_something_else() {
        let mut whitelist = Whitelist::new(&KEY);
        (0..3).for_each(|at| assert_eq!(whitelist.add(fingerprint(at), By::Protocol), Ok(true)));
        whitelist.senders.add(b"alice@a.example").unwrap();
        whitelist.senders.add(b".b.example").unwrap();
        let bytes = encoded(&whitelist);
        for length in 0..bytes.len() {
            assert!(decoded(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            if let Ok(other) = decoded(&damaged) {
                assert_eq!(encoded(&other), damaged, "bit {at}");
            }
        }
    }

    #[test]
    fn signatures_of_nothing_are_not_stored() {
        let nothing = fingerprint_of_bytes(&KEY, Scheme::Pyzor, &pyzor::Digest::EMPTY.0).unwrap();
        let mut bytes = Vec::new();
        put_count(&mut bytes, 1);
        put_fingerprint(&mut bytes, nothing);
        bytes.push(By::Operator as u8);
        put_count(&mut bytes, 0);
        let refused = Malformed::OutOfRange { what: "the place of a whitelisted signature", value: 0 };
        assert_eq!(decoded(&bytes), Err(refused));
    }

    #[test]
    fn the_list_ends_at_its_bound() {
        let mut whitelist = Whitelist::new(&KEY);
        for at in 0..SIGNATURES_MAX as u32 {
            whitelist.add(fingerprint(at), By::Operator).unwrap();
        }
        assert_eq!(whitelist.add(fingerprint(u32::MAX), By::Operator), Err(Full));
        assert_eq!(whitelist.add(fingerprint(7), By::Operator), Ok(false));
        assert!(whitelist.bytes() < 27 << 20, "{}", whitelist.bytes());
        let mut one_more = encoded(&whitelist);
        one_more[..4].copy_from_slice(&(SIGNATURES_MAX as u32 + 1).to_le_bytes());
        let refused = decoded(&one_more).unwrap_err();
        let value = SIGNATURES_MAX as u64 + 1;
        assert_eq!(refused, Malformed::OutOfRange { what: "the number of whitelisted signatures", value });
    }
}
