//! Membership rings whose lines are not in memory but, for example, in a file.
//!
//! [`RingShape`] contains the number of lines and the current epoch; the caller passes a function that reads a line. A
//! check of a ring on disk therefore reads only two lines of [`RING_LINE_BYTES`] bytes. [`MembershipRing`] uses the
//! same positions; the tests compare the two.

use std::io::{self, Read};
use std::ops::Range;

use super::lanes::{Generations, Lanes};
use super::membership::{MembershipRing, lanes_with, lines_of, masks_of};
use crate::hash::FINGERPRINT_BITS_MAX;
use crate::lines::{LINE_BYTES, Line};
use crate::snapshot::head::NUMBER_MAX;
use crate::{Fingerprint, KeyId};

/// Bytes of a line, which is eight little-endian words. Word g is the lane of every epoch e with e mod 8 = g.
pub const RING_LINE_BYTES: usize = LINE_BYTES;

/// Latest epoch of a ring whose lines are not in memory.
pub const RING_EPOCH_MAX: u64 = NUMBER_MAX;

/// The shape of a ring whose oldest generation has expired, so that seven are live, and whose keys use all 64 leading
/// bits.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::ring::{MembershipRing, RingShape};
///
/// let key = FingerprintKey::narrow([1; 16]);
/// let spam = key.fingerprint(b"known spam");
/// let mut ring = MembershipRing::new(100, 64, key.id(), 5).unwrap();
/// ring.insert(&spam);
/// let mut file = Vec::new();
/// ring.put_lines(0..100, &mut file);
///
/// let shape = RingShape { lines: 100, epoch: 5 };
/// let found = shape.check(&spam, |line| {
///     let at = line * 64;
///     Ok::<_, std::io::Error>(file[at..at + 64].try_into().unwrap())
/// })?;
/// assert_eq!(found.newest(), Some(0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Number of lines, at least one.
    pub lines: usize,
    /// The current epoch, at most [`RING_EPOCH_MAX`].
    pub epoch: u64,
}

impl RingShape {
    /// Returns the two lines of a key.
    #[must_use]
    pub fn lines_of(&self, key: &Fingerprint) -> [usize; 2] {
        lines_of(key.high(), self.lines)
    }

    /// Returns the live generations that contain `key`. Calls `read` for the lines of the key.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn check<E>(
        &self,
        key: &Fingerprint,
        mut read: impl FnMut(usize) -> Result<[u8; RING_LINE_BYTES], E>,
    ) -> Result<Generations, E> {
        let mut set = u8::MAX;
        for (place, mask) in self.lines_of(key).into_iter().zip(masks_of(key.high())) {
            set &= lanes_with(&line(&read(place)?), mask);
        }
        Ok(self.lanes().generations(set))
    }

    /// Returns the lanes. The outgoing lane is not live.
    fn lanes(&self) -> Lanes {
        let mut lanes = Lanes::new(self.epoch);
        lanes.next_step(1, self.lines);
        lanes
    }
}

impl MembershipRing {
    /// Reads a ring of this shape from an input that contains all lines in order, and clears the ring's oldest
    /// generation.
    ///
    /// # Errors
    /// Errors of the input, and those of [`new`](Self::new).
    pub fn from_lines(shape: RingShape, key_id: KeyId, input: &mut dyn Read) -> io::Result<Self> {
        let lanes = Lanes::new(shape.epoch.min(RING_EPOCH_MAX));
        let mut ring = Self::read(shape.lines, FINGERPRINT_BITS_MAX, key_id, lanes, input)?;
        ring.expire(usize::MAX);
        Ok(ring)
    }

    /// Appends the bytes of these lines.
    ///
    /// # Panics
    /// Panics if the range exceeds the lines of the ring.
    pub fn put_lines(&self, lines: Range<usize>, out: &mut Vec<u8>) {
        let words = self.lines[lines].iter().flat_map(|line| line.0);
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

fn line(bytes: &[u8; RING_LINE_BYTES]) -> Line {
    let (words, _) = bytes.as_chunks::<8>();
    Line(std::array::from_fn(|word| u64::from_le_bytes(words[word])))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::test_keys;

    const LINES: usize = 300;

    fn bytes(ring: &MembershipRing) -> Vec<u8> {
        let mut bytes = Vec::new();
        ring.put_lines(0..LINES, &mut bytes);
        bytes
    }

    fn check(shape: RingShape, bytes: &[u8], key: &Fingerprint) -> Generations {
        let read = |line: usize| {
            Ok::<_, Infallible>(*bytes[line * RING_LINE_BYTES..].first_chunk().expect("the line is there"))
        };
        shape.check(key, read).unwrap()
    }

    #[test]
    fn lines_in_a_file_give_the_same_answers_as_the_ring() {
        let mut ring = MembershipRing::new(LINES, 64, KeyId(1), 20).unwrap();
        ring.expire(1);
        for epoch in 20..40 {
            ring.insert_batch(&test_keys((epoch - 20) * 500, 600));
            let (shape, bytes) = (RingShape { lines: LINES, epoch }, bytes(&ring));
            for key in test_keys(0, 12_000) {
                assert_eq!(check(shape, &bytes, &key), ring.check(&key), "epoch {epoch}");
            }
            ring.advance();
            ring.expire(1);
        }
    }

    #[test]
    fn a_ring_is_read_as_it_was_written_but_for_its_oldest_generation() {
        let mut ring = MembershipRing::new(LINES, 64, KeyId(1), 20).unwrap();
        for _ in 0..8 {
            ring.advance();
            ring.insert_batch(&test_keys(ring.epoch() * 1000, 300));
        }
        let shape = RingShape { lines: LINES, epoch: ring.epoch() };
        let read = MembershipRing::from_lines(shape, KeyId(1), &mut &*bytes(&ring)).unwrap();
        ring.expire(usize::MAX);
        assert_eq!(read, ring);
        let short = &bytes(&ring)[1..];
        assert!(MembershipRing::from_lines(shape, KeyId(1), &mut &*short).is_err());
    }
}
