//! Ageing of a book's rings. They age together, one generation at a time. Expired lanes are cleared a few lines at a
//! time.
//!
//! A ring has eight lanes, of which seven are live. When an epoch begins, lookups stop using the oldest lane. This lane
//! is cleared in small steps during that epoch, so it is ready when the next epoch begins, and no step takes long. A
//! signature is found for six to seven epochs.

use bruit_filters::ring::{CountsRing, MembershipRing, NotLive, StagedRing};

/// Number of generations that a check considers.
pub const LIVE_GENERATIONS: u64 = 7;

/// Minimum number of epochs for which a signature is found.
pub const WINDOW_EPOCHS: u64 = LIVE_GENERATIONS - 1;

/// A ring that ages and reports its fill level.
pub(crate) trait Ring {
    /// Returns the current epoch.
    fn epoch(&self) -> u64;
    /// Starts the next epoch.
    fn advance(&mut self);
    /// Starts a later epoch; the ring must be clear.
    fn begin_epoch(&mut self, epoch: u64);
    /// Clears up to `lines` more lines of the expired generation. Returns true if all its lines are clear.
    fn expire(&mut self, lines: usize) -> bool;
    /// Returns true if all generations are empty.
    fn is_clear(&self) -> bool;
    /// Returns the number of keys in a live epoch's generation, estimated from its fill level.
    fn load(&self, epoch: u64) -> u64;
    /// Returns how many keys in a live epoch's generation are copies made when the ring grew.
    fn copied(&self, epoch: u64) -> u64;
    /// Returns the estimated number of keys in a live epoch's generation, without copies.
    fn keys(&self, epoch: u64) -> u64 {
        self.load(epoch).saturating_sub(self.copied(epoch))
    }
    /// Returns the number of counts above 15 in the current generation, and the maximum. Returns `None` if the ring
    /// does not count.
    fn records(&self) -> Option<(usize, usize)>;
    /// Returns the expected error rate over the window.
    fn error_rate(&self) -> f64;
    /// Returns the memory of the ring in bytes.
    fn bytes(&self) -> u64;
}

macro_rules! rings {
    ($($ring:ty: $load:expr, $records:expr;)*) => {$(
        impl Ring for $ring {
            fn epoch(&self) -> u64 {
                Self::epoch(self)
            }

            fn advance(&mut self) {
                Self::advance(self);
            }

            fn begin_epoch(&mut self, epoch: u64) {
                Self::begin_epoch(self, epoch);
            }

            fn expire(&mut self, lines: usize) -> bool {
                Self::expire(self, lines)
            }

            fn is_clear(&self) -> bool {
                Self::is_clear(self)
            }

            fn load(&self, epoch: u64) -> u64 {
                $load(self, epoch)
            }

            fn copied(&self, epoch: u64) -> u64 {
                Self::copied(self, epoch).unwrap_or_default()
            }

            fn records(&self) -> Option<(usize, usize)> {
                $records(self)
            }

            fn error_rate(&self) -> f64 {
                self.estimated_rate()
            }

            fn bytes(&self) -> u64 {
                Self::bytes(self)
            }
        }
    )*};
}

rings! {
    MembershipRing: |ring: &Self, epoch| rounded(ring.estimated_keys(epoch)), |_: &Self| None;
    StagedRing: |ring: &Self, epoch| rounded(ring.estimated_keys(epoch)), |_: &Self| None;
    CountsRing: |ring: &Self, epoch| Self::keys(ring, epoch).unwrap_or(0), |ring: &Self| ring.records(ring.epoch()).ok();
}

/// Rounds an estimated number of keys. Returns 0 for a generation that is not live.
fn rounded(keys: Result<f64, NotLive>) -> u64 {
    keys.unwrap_or(0.0).round() as u64
}

/// The result of one ageing step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnResult {
    /// True if a new generation began.
    pub(crate) advanced: bool,
    /// True if the target epoch is reached.
    pub(crate) arrived: bool,
}

/// A generation that has ended and no longer affects any lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedGeneration {
    /// Name of its ring, as in [`crate::RingStatus`].
    pub ring: &'static str,
    /// Epoch of the generation.
    pub epoch: u64,
    /// Estimated number of signatures in the generation.
    pub signatures: u64,
}

impl EndedGeneration {
    /// Returns the generation of a ring that ends when the next epoch begins, or `None` if that generation is empty.
    pub(crate) fn next(name: &'static str, ring: &dyn Ring) -> Option<Self> {
        let epoch = (ring.epoch() + 1).checked_sub(LIVE_GENERATIONS)?;
        let signatures = ring.keys(epoch);
        (signatures > 0).then_some(Self { ring: name, epoch, signatures })
    }
}

/// Clears at most `lines` lines of each ring. If the next lane of every ring is then clear, advances all rings by one
/// epoch towards `epoch`. The rings must be in the same epoch. Empty rings jump to `epoch` at once: after a clock error
/// of decades, advancing one epoch at a time would take thousands of steps.
pub(crate) fn turn(rings: &mut [&mut dyn Ring], epoch: u64, lines: usize) -> TurnResult {
    let clear = rings.iter_mut().map(|ring| ring.expire(lines)).filter(|is_clear| *is_clear).count();
    let is_behind = rings.iter().any(|ring| ring.epoch() < epoch);
    let advanced = is_behind && clear == rings.len();
    if advanced {
        let is_clear = rings.iter().all(|ring| ring.is_clear());
        rings.iter_mut().for_each(|ring| if is_clear { ring.begin_epoch(epoch) } else { ring.advance() });
        retire_oldest(rings);
    }
    TurnResult { advanced, arrived: rings.iter().all(|ring| ring.epoch() >= epoch) }
}

/// Excludes the oldest generation from all lookups. Call this for a new ring as well.
pub(crate) fn retire_oldest(rings: &mut [&mut dyn Ring]) {
    rings.iter_mut().for_each(|ring| {
        ring.expire(1);
    });
}

#[cfg(test)]
mod tests {
    use bruit_filters::{FingerprintKey, KeyId};

    use super::*;

    #[test]
    fn a_key_is_found_for_six_epochs_and_no_longer_than_seven() {
        let key = FingerprintKey::new([1; 16]).fingerprint(b"spam");
        let mut ring = MembershipRing::new(100, 64, KeyId(1), 50).unwrap();
        retire_oldest(&mut [&mut ring]);
        ring.insert(&key);
        for epoch in 51..50 + LIVE_GENERATIONS {
            while !turn(&mut [&mut ring], epoch, 13).arrived {}
            assert_eq!(ring.check(&key).oldest(), Some((epoch - 50) as u32));
        }
        while !turn(&mut [&mut ring], 50 + LIVE_GENERATIONS, 13).arrived {}
        assert!(ring.check(&key).is_empty());
    }

    #[test]
    fn rings_of_different_sizes_turn_together() {
        let mut small = MembershipRing::new(10, 64, KeyId(1), 0).unwrap();
        let mut large = CountsRing::new(1000, KeyId(1), 0).unwrap();
        large.insert(&FingerprintKey::new([1; 16]).fingerprint(b"spam"));
        let mut steps = 0;
        while !turn(&mut [&mut small, &mut large], 3, 100).arrived {
            assert_eq!(small.epoch(), large.epoch());
            steps += 1;
        }
        assert_eq!((small.epoch(), large.epoch(), steps), (3, 3, 29));
    }

    #[test]
    fn empty_rings_jump_to_the_current_epoch() {
        let key = FingerprintKey::new([1; 16]).fingerprint(b"spam");
        let (mut small, mut large) =
            (MembershipRing::new(10, 64, KeyId(1), 5).unwrap(), CountsRing::new(1000, KeyId(1), 5).unwrap());
        retire_oldest(&mut [&mut small, &mut large]);
        large.insert(&key);
        let mut steps = 0;
        while !turn(&mut [&mut small, &mut large], 50_000, 100).arrived {
            steps += 1;
        }
        assert!(steps < 10 * 9, "{steps} steps for eight lanes of ten steps each");
        assert_eq!((small.epoch(), large.epoch(), large.count(&key)), (50_000, 50_000, 0));
        assert!(small.check(&key).is_empty());
    }
}
