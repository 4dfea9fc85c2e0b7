//! Encoding of counters. Saved counters can be queried later, and merged with counters from other times and places.
//!
//! | bytes | meaning |
//! |---|---|
//! | 8 | magic |
//! | 2 | the version, 1 |
//! | 2, … | the key's fields, as in `bruit-lab flows --key`, after their length |
//! | 8 | packets counted |
//! | 4 | number of groups in the filter |
//! | 4 | maximum number of names |
//! | 4, … | number of resolutions; for each, a length of 8 bytes and a filter file (the first contains the key) |
//! | 4, … | number of names; for each, the packets (8 bytes), the length (2 bytes) and the identity |
//! | 4 | CRC-32 of everything before it |
//!
//! Numbers are little-endian. `docs/design/filter-files.md` specifies the filter files. Exact counts are not saved.

use bruit_filters::bloom::OneLineFilter;
use bruit_filters::file::{self, FileError, Label};
use bruit_filters::{FingerprintKey, Mismatch};
use bruit_structures::space_code::{GROUPS_MAX, MultiResolutionFilter, RESOLUTIONS_MAX};

use super::{FlowCounter, Key, LEADERS_MAX};

/// Magic bytes of a file with saved counters.
pub const FLOWS_MAGIC: [u8; 8] = *b"\x89bruitW\n";

const VERSION: u16 = 1;

/// An error in saved counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The data is in another format.
    #[error("not saved flow counters")]
    NotCounters,
    /// The version is not supported.
    #[error("format version {0} is not supported")]
    UnsupportedVersion(u16),
    /// A checksum or a number is wrong, or the data is truncated.
    #[error("the saved flow counters are damaged")]
    Damaged,
    /// A filter is damaged.
    #[error("damaged filter: {0}")]
    Filter(#[from] FileError),
}

/// An error that prevents merging.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The counters use different key fields.
    #[error("counted by {theirs}, expected {ours}")]
    Key {
        /// Expected key fields.
        ours: String,
        /// Key fields of the counter to be added.
        theirs: String,
    },
    /// The counters use different secrets.
    #[error("counted with another secret; use --like FILE when counting, to merge later")]
    Secret,
    /// The filters of the counters have different shapes.
    #[error(transparent)]
    Shape(#[from] Mismatch),
}

/// A counter and the fields of its key.
#[derive(Debug)]
pub struct SavedFlows {
    /// The fields of the key.
    pub key: Key,
    /// The counter.
    pub counter: FlowCounter,
}

impl SavedFlows {
    /// Encodes the counter.
    ///
    /// # Errors
    /// As [`FlowCounter::encode`].
    pub fn encode(&mut self) -> Result<Vec<u8>, SavedError> {
        self.counter.encode(self.key)
    }

    /// Decodes the output of [`encode`](Self::encode). `seed` determines the sampling of packets that are added later.
    ///
    /// # Errors
    /// [`SavedError`] if the data is invalid. Memory is allocated only for bytes that exist.
    pub fn decode(bytes: &[u8], seed: u64) -> Result<Self, SavedError> {
        let content = checked(bytes)?;
        let mut reader = Reader(content.get(FLOWS_MAGIC.len() + 2..).ok_or(SavedError::Damaged)?);
        let key = reader.text()?.parse().map_err(|_| SavedError::Damaged)?;
        let packets = reader.u64()?;
        let (groups, capacity) = (reader.u32()?, reader.u32()? as usize);
        if !(1..=GROUPS_MAX).contains(&groups) || !(1..=LEADERS_MAX).contains(&capacity) {
            return Err(SavedError::Damaged);
        }
        let (secret, filters) = reader.filters()?;
        let filter = MultiResolutionFilter::new(filters, groups);
        let names = reader.names(key, capacity)?;
        if !reader.0.is_empty() {
            return Err(SavedError::Damaged);
        }
        Ok(Self { key, counter: FlowCounter::restored(secret, seed, filter, capacity, &names, packets) })
    }

    /// Adds the counts of another counter.
    ///
    /// # Errors
    /// [`MergeError`] if the two counters do not match. In that case, nothing is changed.
    pub fn merge(&mut self, other: &mut Self) -> Result<(), MergeError> {
        other.ensure_key(self.key)?;
        self.counter.merge(&mut other.counter)
    }

    /// Checks that the counter uses the fields of `key`.
    ///
    /// # Errors
    /// [`MergeError::Key`].
    pub fn ensure_key(&self, key: Key) -> Result<(), MergeError> {
        if self.key == key {
            return Ok(());
        }
        Err(MergeError::Key { ours: key.to_string(), theirs: self.key.to_string() })
    }
}

pub(super) fn encode(key: Key, counter: &mut FlowCounter) -> Result<Vec<u8>, SavedError> {
    let parts = counter.parts();
    let mut bytes = FLOWS_MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let fields = key.to_string();
    bytes.extend_from_slice(&(fields.len() as u16).to_le_bytes());
    bytes.extend_from_slice(fields.as_bytes());
    bytes.extend_from_slice(&parts.packets.to_le_bytes());
    bytes.extend_from_slice(&parts.filter.groups().to_le_bytes());
    bytes.extend_from_slice(&(parts.leaders.capacity() as u32).to_le_bytes());
    let resolutions = parts.filter.resolutions();
    bytes.extend_from_slice(&(resolutions.len() as u32).to_le_bytes());
    for (number, resolution) in resolutions.iter().enumerate() {
        let label = Label { key: (number == 0).then(|| parts.key.clone()), ..Label::default() };
        let mut file = Vec::new();
        file::encode(resolution.filter(), &label, &mut file)?;
        bytes.extend_from_slice(&(file.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&file);
    }
    bytes.extend_from_slice(&(parts.leaders.len() as u32).to_le_bytes());
    // Sort, so that the same flows yield the same bytes.
    let mut leaders: Vec<_> = parts.leaders.iter().collect();
    leaders.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.identity.cmp(b.identity)));
    for leader in leaders {
        bytes.extend_from_slice(&leader.packets.to_le_bytes());
        bytes.extend_from_slice(&(leader.identity.len() as u16).to_le_bytes());
        bytes.extend_from_slice(leader.identity);
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    Ok(bytes)
}

/// Verifies the checksum and the version. Returns the bytes without the checksum.
fn checked(bytes: &[u8]) -> Result<&[u8], SavedError> {
    let rest = bytes.strip_prefix(&FLOWS_MAGIC).ok_or(SavedError::NotCounters)?;
    let version = rest.first_chunk().map(|version| u16::from_le_bytes(*version)).ok_or(SavedError::Damaged)?;
    if version != VERSION {
        return Err(SavedError::UnsupportedVersion(version));
    }
    let (content, checksum) = bytes.split_last_chunk().ok_or(SavedError::Damaged)?;
    if crc32fast::hash(content) == u32::from_le_bytes(*checksum) { Ok(content) } else { Err(SavedError::Damaged) }
}

/// A name and its approximate number of packets.
pub(super) type Name = (Vec<u8>, u64);

/// Remaining input.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], SavedError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(SavedError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn chunk<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], SavedError> {
        self.take(BYTES)?.try_into().map_err(|_| SavedError::Damaged)
    }

    fn u16(&mut self) -> Result<u16, SavedError> {
        self.chunk().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SavedError> {
        self.chunk().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SavedError> {
        self.chunk().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'b str, SavedError> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(length.into())?).map_err(|_| SavedError::Damaged)
    }

    /// Reads the filters. All filters use the key of the first one.
    fn filters(&mut self) -> Result<(FingerprintKey, Vec<OneLineFilter>), SavedError> {
        let resolutions = self.u32()? as usize;
        if !(1..=RESOLUTIONS_MAX).contains(&resolutions) {
            return Err(SavedError::Damaged);
        }
        let (mut key, mut filters) = (None, Vec::new());
        for _ in 0..resolutions {
            let length = self.u64()?;
            let mut file = self.take(usize::try_from(length).map_err(|_| SavedError::Damaged)?)?;
            let stored = file::decode(&mut file, length)?;
            key = key.or(stored.key);
            filters.push(OneLineFilter::try_from(stored.filter)?);
        }
        let key = key.ok_or(SavedError::Damaged)?;
        let is_ours = filters.iter().all(|filter| filter.key_id() == key.id());
        if is_ours { Ok((key, filters)) } else { Err(SavedError::Damaged) }
    }

    fn names(&mut self, key: Key, capacity: usize) -> Result<Vec<Name>, SavedError> {
        let count = self.u32()? as usize;
        if count > capacity {
            return Err(SavedError::Damaged);
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let (packets, length) = (self.u64()?, usize::from(self.u16()?));
            if length > key.identity_bytes_max() {
                return Err(SavedError::Damaged);
            }
            names.push((self.take(length)?.to_vec(), packets));
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use bruit_structures::space_code::Shape;

    use super::*;
    use crate::flows::Settings;

    /// Counts packets. Each item of `counts` is the number of a flow and its number of packets.
    fn flows(secret: u8, seed: u64, counts: &[(u8, u32)]) -> SavedFlows {
        let settings = Settings { memory_bytes: 0, identity_bytes_max: 17, shape: Shape::default(), exact_flows: 0 };
        let mut counter = FlowCounter::new(&settings, [secret; 16], seed);
        for &(flow, packets) in counts {
            (0..packets).for_each(|_| counter.count(&identity(flow)));
        }
        SavedFlows { key: Key::SOURCE, counter }
    }

    fn identity(flow: u8) -> [u8; 5] {
        [4, 10, 0, 0, flow]
    }

    fn estimates(saved: &mut SavedFlows) -> Vec<(Vec<u8>, f64)> {
        let counted = saved.counter.counted();
        counted.top(100).into_iter().map(|flow| (flow.identity, flow.estimate.likely)).collect()
    }

    #[test]
    fn counters_answer_the_same_after_they_were_saved() {
        let mut saved = flows(1, 2, &[(1, 500), (2, 30), (3, 1)]);
        let bytes = saved.encode().unwrap();
        let mut read = SavedFlows::decode(&bytes, 9).unwrap();
        assert_eq!(estimates(&mut read), estimates(&mut saved));
        assert_eq!((read.key, read.counter.counted().packets()), (Key::SOURCE, 531));
        assert_eq!(read.encode().unwrap(), bytes);
    }

    #[test]
    fn merged_counters_have_what_either_counted() {
        let (mut one, mut two) = (flows(1, 2, &[(1, 300), (2, 40)]), flows(1, 3, &[(1, 300), (3, 50)]));
        one.merge(&mut two).unwrap();
        let counted = one.counter.counted();
        assert_eq!(counted.packets(), 690);
        for (flow, packets) in [(1, 600.0), (2, 40.0), (3, 50.0)] {
            let estimate = counted.flow(&identity(flow)).estimate;
            assert!((estimate.low..=estimate.high).contains(&packets), "{flow}: {estimate:?}");
        }
        let mut names: Vec<_> = counted.top(9).into_iter().map(|flow| flow.identity).collect();
        names.sort();
        assert_eq!(names, [1, 2, 3].map(|flow| identity(flow).to_vec()));
        // A flow that is in both counters has a single entry.
        let listed = one.counter.parts().leaders.iter().map(|leader| leader.packets).max();
        assert_eq!(listed, Some(600));
    }

    #[test]
    fn counters_with_other_settings_are_rejected_without_changes() {
        let mut ours = flows(1, 2, &[(1, 10)]);
        let bytes = ours.encode().unwrap();
        let mut by_destination = SavedFlows { key: Key::DESTINATION, ..flows(1, 3, &[(1, 5)]) };
        let error = ours.merge(&mut by_destination).unwrap_err();
        assert_eq!(error.to_string(), "counted by destination, expected source");
        assert!(matches!(ours.merge(&mut flows(2, 3, &[(1, 5)])), Err(MergeError::Secret)));
        let settings =
            Settings { memory_bytes: 1 << 20, identity_bytes_max: 17, shape: Shape::default(), exact_flows: 0 };
        let mut larger = SavedFlows { key: Key::SOURCE, counter: FlowCounter::new(&settings, [1; 16], 1) };
        assert!(matches!(ours.merge(&mut larger), Err(MergeError::Shape(_))));
        assert_eq!(ours.encode().unwrap(), bytes);
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let bytes = flows(1, 2, &[(1, 3), (2, 1)]).encode().unwrap();
        for length in (0..bytes.len()).step_by(97).chain(bytes.len() - 200..bytes.len()) {
            assert!(SavedFlows::decode(&bytes[..length], 1).is_err(), "{length} bytes");
        }
        let front = (0..2000).chain(bytes.len() - 200..bytes.len());
        for at in front {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            assert!(SavedFlows::decode(&changed, 1).is_err(), "byte {at}");
            // The checksum is corrected, so the other checks have to reject the damaged data.
            let (content, checksum) = changed.split_last_chunk_mut::<4>().unwrap();
            *checksum = crc32fast::hash(content).to_le_bytes();
            let _ = SavedFlows::decode(&changed, 1);
        }
    }
}
