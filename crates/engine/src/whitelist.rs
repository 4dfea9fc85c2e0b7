//! Whitelists of signatures that are never spam, and of trusted senders and mailing lists.
//!
//! Signatures are stored as fingerprints under the realm's key. One table contains both the built-in signatures of
//! empty content ([`WhitelistReason::Empty`]) and the signatures listed by the operator or through a protocol. Only
//! listed signatures are part of the stored state. [`Senders`] are patterns of addresses, domains and mailing lists.
//!
//! ```
//! use bruit_engine::signature::fingerprint_of_bytes;
//! use bruit_engine::whitelist::{ListAuthor, Whitelist, WhitelistReason};
//! use bruit_filters::FingerprintKey;
//! use bruit_signatures::{Scheme, pyzor};
//!
//! let key = FingerprintKey::new([7; 16]);
//! let mut whitelist = Whitelist::new(&key);
//! let of = |bytes: &[u8]| fingerprint_of_bytes(&key, Scheme::Pyzor, bytes).expect("20 bytes");
//! assert_eq!(whitelist.contains(&of(&pyzor::Digest::EMPTY.0)), Some(WhitelistReason::Empty));
//!
//! let newsletter = of(&[9; 20]);
//! whitelist.add(newsletter, ListAuthor::Operator)?;
//! assert_eq!(whitelist.contains(&newsletter), Some(WhitelistReason::Listed(ListAuthor::Operator)));
//! # Ok::<(), bruit_engine::whitelist::ListFull>(())
//! ```

mod change;
mod empty;
mod senders;

use bruit_filters::{Fingerprint, FingerprintKey};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::codec::{Malformed, Reader, put_count, put_fingerprint};

pub use change::WhitelistChange;
pub use senders::{SENDER_BYTES_MAX, SENDERS_MAX, SenderError, Senders};

/// Maximum number of listed signatures. A hash table with 2^20 places has space for them: it holds 917,504 entries
/// before it doubles. This table needs 26 MB, or twice as much after many removals.
pub const SIGNATURES_MAX: usize = 900_000;

/// Length of an encoded signature.
const ENCODED_BYTES: usize = 16 + 1;

/// Whitelisted signatures and senders.
#[derive(Clone, Debug)]
pub struct Whitelist {
    /// Hashed by bits of the fingerprint. Without the realm's key, nobody can choose these bits to cause collisions.
    signatures: HashTable<SignatureEntry>,
    /// Number of entries in `signatures` that are for empty content.
    empty: usize,
    /// Whitelisted senders and mailing lists.
    pub senders: Senders,
}

/// The reason why a signature is whitelisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhitelistReason {
    /// The signature is one of empty content.
    Empty,
    /// The operator or a client listed the signature.
    Listed(ListAuthor),
}

/// The author of a whitelist entry. The numbers appear in files and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ListAuthor {
    /// The operator.
    Operator = 1,
    /// A client that may whitelist signatures, through its protocol.
    Protocol = 2,
}

/// Error for a full list of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the whitelist already has the maximum of {SIGNATURES_MAX} signatures: remove some")]
pub struct ListFull;

#[derive(Clone, Copy, Debug)]
struct SignatureEntry {
    fingerprint: Fingerprint,
    why: WhitelistReason,
}

impl Whitelist {
    /// Creates a whitelist that contains only the signatures of empty content.
    #[must_use]
    pub fn new(key: &FingerprintKey) -> Self {
        let mut signatures = HashTable::new();
        for fingerprint in empty::fingerprints(key) {
            signatures.insert_unique(
                place_of(&fingerprint),
                SignatureEntry { fingerprint, why: WhitelistReason::Empty },
                SignatureEntry::place,
            );
        }
        Self { empty: signatures.len(), signatures, senders: Senders::default() }
    }

    /// Returns the reason why a signature is whitelisted, or `None` if it is not.
    #[inline]
    #[must_use]
    pub fn contains(&self, fingerprint: &Fingerprint) -> Option<WhitelistReason> {
        self.signatures.find(place_of(fingerprint), |entry| entry.fingerprint == *fingerprint).map(|entry| entry.why)
    }

    /// Lists a signature and returns true if it is new. If the operator listed it before, the entry remains the
    /// operator's, even if a client lists it again.
    ///
    /// # Errors
    /// [`ListFull`]; the list is then unchanged.
    pub fn add(&mut self, fingerprint: Fingerprint, by: ListAuthor) -> Result<bool, ListFull> {
        let is_full = self.len() >= SIGNATURES_MAX;
        let is_same = |entry: &SignatureEntry| entry.fingerprint == fingerprint;
        match self.signatures.entry(place_of(&fingerprint), is_same, SignatureEntry::place) {
            TableEntry::Occupied(mut known) => {
                let why = known.get().why;
                known.get_mut().why = why.min(WhitelistReason::Listed(by));
                Ok(false)
            }
            TableEntry::Vacant(_) if is_full => Err(ListFull),
            TableEntry::Vacant(free) => {
                free.insert(SignatureEntry { fingerprint, why: WhitelistReason::Listed(by) });
                Ok(true)
            }
        }
    }

    /// Removes a signature and returns true if it was listed. Signatures of empty content are never removed.
    pub fn remove(&mut self, fingerprint: &Fingerprint) -> bool {
        let is_listed =
            |entry: &SignatureEntry| entry.fingerprint == *fingerprint && entry.why != WhitelistReason::Empty;
        self.signatures.find_entry(place_of(fingerprint), is_listed).is_ok_and(|entry| {
            entry.remove();
            true
        })
    }

    /// Returns the number of listed signatures, without those of empty content.
    #[must_use]
    pub fn len(&self) -> usize {
        self.signatures.len() - self.empty
    }

    /// Returns true if no signature is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of signatures and senders.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.signatures.allocation_size() as u64 + self.senders.bytes()
    }

    /// Appends the listed signatures and senders, both sorted. Equal lists have equal encodings, regardless of their
    /// history.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for (fingerprint, by) in self.listed() {
            put_fingerprint(out, fingerprint);
            out.push(by as u8);
        }
        self.senders.encode(out);
    }

    /// Decodes the output of [`encode`](Self::encode) in the same realm.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a valid whitelist.
    pub fn decode(key: &FingerprintKey, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut whitelist = Self::new(key);
        let count = reader.count(SIGNATURES_MAX, ENCODED_BYTES, "the number of whitelisted signatures")?;
        let mut before = None;
        for at in 0..count {
            let fingerprint = reader.fingerprint("a whitelisted signature")?;
            let by = ListAuthor::from_number(reader.u8("the author of a whitelist entry")?)?;
            // `encode` writes neither unsorted nor duplicate signatures.
            if before >= Some(fingerprint) || whitelist.add(fingerprint, by) != Ok(true) {
                return Err(Malformed::OutOfRange {
                    what: "the position of a whitelisted signature",
                    value: at as u64,
                });
            }
            before = Some(fingerprint);
        }
        whitelist.senders = Senders::decode(reader)?;
        Ok(whitelist)
    }

    /// Returns the listed signatures, sorted by fingerprint.
    fn listed(&self) -> Vec<(Fingerprint, ListAuthor)> {
        let listed = self.signatures.iter().filter_map(|entry| match entry.why {
            WhitelistReason::Listed(by) => Some((entry.fingerprint, by)),
            WhitelistReason::Empty => None,
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable();
        listed
    }
}

impl PartialEq for Whitelist {
    /// Compares the lists, regardless of the layout in memory.
    fn eq(&self, other: &Self) -> bool {
        self.listed() == other.listed() && self.senders == other.senders
    }
}

impl Eq for Whitelist {}

impl SignatureEntry {
    fn place(&self) -> u64 {
        place_of(&self.fingerprint)
    }
}

impl ListAuthor {
    pub(super) fn from_number(number: u8) -> Result<Self, Malformed> {
        match number {
            1 => Ok(Self::Operator),
            2 => Ok(Self::Protocol),
            _ => Err(Malformed::OutOfRange { what: "the author of a whitelist entry", value: number.into() }),
        }
    }
}

/// Returns the hash of a fingerprint for the table. A fingerprint is already a hash.
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
    fn signatures_of_empty_content_never_count_and_cannot_be_removed() {
        let mut whitelist = Whitelist::new(&KEY);
        for scheme in [Scheme::Pyzor, Scheme::Pyzor11, Scheme::RazorE4] {
            let nothing = fingerprint_of_bytes(&KEY, scheme, &pyzor::Digest::EMPTY.0).unwrap();
            assert_eq!(whitelist.add(nothing, ListAuthor::Operator), Ok(false));
            assert!(!whitelist.remove(&nothing));
            assert_eq!(whitelist.contains(&nothing), Some(WhitelistReason::Empty));
        }
        assert!(whitelist.is_empty() && whitelist == Whitelist::new(&KEY));
    }

    #[test]
    fn listed_signatures_are_found_until_they_are_removed() {
        let mut whitelist = Whitelist::new(&KEY);
        assert_eq!(whitelist.contains(&fingerprint(1)), None);
        assert_eq!(whitelist.add(fingerprint(1), ListAuthor::Protocol), Ok(true));
        assert_eq!(whitelist.contains(&fingerprint(1)), Some(WhitelistReason::Listed(ListAuthor::Protocol)));
        assert_eq!(whitelist.contains(&fingerprint(2)), None);
        assert!(whitelist.remove(&fingerprint(1)) && !whitelist.remove(&fingerprint(1)));
        assert_eq!(whitelist.contains(&fingerprint(1)), None);
    }

    #[test]
    fn the_operators_entries_stay_the_operators() {
        for order in [[ListAuthor::Operator, ListAuthor::Protocol], [ListAuthor::Protocol, ListAuthor::Operator]] {
            let mut whitelist = Whitelist::new(&KEY);
            assert_eq!(order.map(|by| whitelist.add(fingerprint(1), by)), [Ok(true), Ok(false)]);
            assert_eq!(whitelist.contains(&fingerprint(1)), Some(WhitelistReason::Listed(ListAuthor::Operator)));
        }
    }

    #[test]
    fn equal_lists_have_equal_bytes() {
        let mut one = Whitelist::new(&KEY);
        let mut other = Whitelist::new(&KEY);
        (0..1000).for_each(|at| assert_eq!(one.add(fingerprint(at), ListAuthor::Operator), Ok(true)));
        (0..2000).rev().for_each(|at| assert_eq!(other.add(fingerprint(at), ListAuthor::Operator), Ok(true)));
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
    fn damaged_bytes_are_refused_or_decode_to_another_value() {
        let mut whitelist = Whitelist::new(&KEY);
        (0..3).for_each(|at| assert_eq!(whitelist.add(fingerprint(at), ListAuthor::Protocol), Ok(true)));
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
    fn signatures_of_empty_content_are_not_stored() {
        let nothing = fingerprint_of_bytes(&KEY, Scheme::Pyzor, &pyzor::Digest::EMPTY.0).unwrap();
        let mut bytes = Vec::new();
        put_count(&mut bytes, 1);
        put_fingerprint(&mut bytes, nothing);
        bytes.push(ListAuthor::Operator as u8);
        put_count(&mut bytes, 0);
        let refused = Malformed::OutOfRange { what: "the position of a whitelisted signature", value: 0 };
        assert_eq!(decoded(&bytes), Err(refused));
    }

    #[test]
    fn the_list_ends_at_its_bound() {
        let mut whitelist = Whitelist::new(&KEY);
        for at in 0..SIGNATURES_MAX as u32 {
            whitelist.add(fingerprint(at), ListAuthor::Operator).unwrap();
        }
        assert_eq!(whitelist.add(fingerprint(u32::MAX), ListAuthor::Operator), Err(ListFull));
        assert_eq!(whitelist.add(fingerprint(7), ListAuthor::Operator), Ok(false));
        assert!(whitelist.bytes() < 27 << 20, "{}", whitelist.bytes());
        let mut one_more = encoded(&whitelist);
        one_more[..4].copy_from_slice(&(SIGNATURES_MAX as u32 + 1).to_le_bytes());
        let refused = decoded(&one_more).unwrap_err();
        let value = SIGNATURES_MAX as u64 + 1;
        assert_eq!(refused, Malformed::OutOfRange { what: "the number of whitelisted signatures", value });
    }
}
