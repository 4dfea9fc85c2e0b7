//! Numbering of owners: numbers begin at 1 and are never reused. A tag is the low 20 bits of the number, or the low 22
//! bits in a table without parts.
//!
//! The owners from `oldest` to `next` are live. There are at most seven eighths as many live owners as tags, so a tag
//! identifies at most one of them. Slots of an expired owner may remain for a while. But at least [`sweep_owners`]
//! owners are added before the tag is reused, and each addition sweeps a few lines. Together, these additions sweep the
//! whole table, so no slot of the expired owner is left.

use super::line::EMPTY_TAG;
use crate::snapshot::RestoreError;
use crate::snapshot::head::{NUMBER_MAX, within};

/// Bits of a tag in a table with parts.
pub(super) const TAG_BITS: u32 = 20;
/// Bits of a tag in a table without parts.
pub(super) const WIDE_TAG_BITS: u32 = 22;

/// Minimum number of owners added between the expiry of an owner and the reuse of its tag, not counting the owner that
/// reuses it.
pub(super) const fn sweep_owners(tag_bits: u32) -> u64 {
    1 << (tag_bits - 3)
}

/// Maximum number of live owners, which is seven eighths of the number of tags. Adding one more expires the oldest.
pub const OWNERS_LIVE_MAX: u64 = live_max(TAG_BITS);

/// Maximum number of live owners in a table without parts.
pub const OWNERS_WITHOUT_PARTS_LIVE_MAX: u64 = live_max(WIDE_TAG_BITS);

const fn live_max(tag_bits: u32) -> u64 {
    (1 << tag_bits) - sweep_owners(tag_bits)
}

/// The number of an owner. Numbers ascend and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Returns the owner with this number. For callers that store numbers elsewhere.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number. Numbers are consecutive, except that multiples of 2^20 (2^22 in a table without parts) are
    /// skipped, because their tag would equal the tag of an empty slot.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    pub(super) const fn tag<const BITS: u32>(self) -> u32 {
        (self.0 & ((1 << BITS) - 1)) as u32
    }
}

/// The range of live owners of a table with tags of `BITS` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering<const BITS: u32> {
    oldest: u64,
    next: u64,
}

impl<const BITS: u32> Numbering<BITS> {
    pub(super) const fn new() -> Self {
        Self { oldest: 1, next: 1 }
    }

    /// Restores a numbering from its [`fields`](Self::fields).
    pub(super) fn restore([oldest, next]: [u64; 2]) -> Result<Self, RestoreError> {
        let next = within("the next owner", next, 1..=NUMBER_MAX)?;
        // The range may span one number more than the maximum of live owners, because one of its numbers may have been
        // skipped.
        let first = next.saturating_sub(live_max(BITS) + 1).max(1);
        let numbering = Self { oldest: within("the oldest owner", oldest, first..=next)?, next };
        if numbering.next().tag::<BITS>() == EMPTY_TAG {
            return Err(RestoreError::OutOfRange { what: "the next owner", value: next });
        }
        Ok(numbering)
    }

    /// Returns the fields to write to a snapshot.
    pub(super) const fn fields(&self) -> [u64; 2] {
        [self.oldest, self.next]
    }

    pub(super) const fn oldest(&self) -> Owner {
        Owner(self.oldest)
    }

    pub(super) const fn next(&self) -> Owner {
        Owner(self.next)
    }

    /// Expires the oldest owner if the maximum number of owners is live.
    pub(super) fn make_room(&mut self) {
        self.expire_before((self.next + 1).saturating_sub(live_max(BITS)));
    }

    /// Allocates the next number. Call [`make_room`](Self::make_room) first.
    pub(super) fn hand_out(&mut self) -> Owner {
        let owner = self.next();
        self.next += 1;
        if self.next().tag::<BITS>() == EMPTY_TAG {
            self.next += 1;
        }
        owner
    }

    /// Expires all owners with numbers below `number`.
    pub(super) fn expire_before(&mut self, number: u64) {
        self.oldest = number.clamp(self.oldest, self.next);
    }

    pub(super) fn is_live(&self, owner: Owner) -> bool {
        (self.oldest..self.next).contains(&owner.0) && owner.tag::<BITS>() != EMPTY_TAG
    }

    /// Returns the distance from the oldest owner to the live owner with this tag, if there is one.
    #[inline(always)]
    pub(super) fn place_of(&self, tag: u32) -> Option<u32> {
        self.is_live_tag(tag).then(|| self.distance(tag))
    }

    /// Returns true if a live owner has this tag.
    #[inline(always)]
    pub(super) fn is_live_tag(&self, tag: u32) -> bool {
        (tag != EMPTY_TAG) & (self.distance(tag) < (self.next - self.oldest) as u32)
    }

    /// Returns the owner at a distance that [`place_of`](Self::place_of) returned.
    pub(super) const fn owner_at(&self, place: u32) -> Owner {
        Owner(self.oldest + place as u64)
    }

    #[inline(always)]
    fn distance(&self, tag: u32) -> u32 {
        tag.wrapping_sub(self.oldest as u32) & ((1 << BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags_name_live_owners_and_only_them<const BITS: u32>(rounds: u64) {
        let mut numbering = Numbering::<BITS>::new();
        let mut before = 0;
        for i in 0..rounds << BITS {
            numbering.make_room();
            let owner = numbering.hand_out();
            assert!(owner.0 > before && owner.tag::<BITS>() != EMPTY_TAG);
            before = owner.0;
            let oldest = numbering.oldest();
            assert!(owner.0 - oldest.0 < live_max(BITS) && numbering.is_live(owner));
            assert_eq!(numbering.place_of(owner.tag::<BITS>()).map(|place| numbering.owner_at(place)), Some(owner));
            assert_eq!(numbering.place_of(EMPTY_TAG), None);
            assert_eq!(Numbering::restore(numbering.fields()).unwrap(), numbering);
            if let Some(expired) = oldest.0.checked_sub(1 + i % sweep_owners(BITS)).map(Owner) {
                assert!(!numbering.is_live(expired));
                // The tag has not been reused yet, so a remaining slot with this tag is recognised as expired.
                assert_eq!(numbering.place_of(expired.tag::<BITS>()), None);
            }
        }
        assert_eq!(before, (rounds << BITS) + rounds);
    }

    #[test]
    fn tags_name_live_owners_and_only_them_through_three_rounds() {
        tags_name_live_owners_and_only_them::<TAG_BITS>(3);
        tags_name_live_owners_and_only_them::<WIDE_TAG_BITS>(2);
    }

    #[test]
    fn expiry_never_runs_backwards_nor_ahead() {
        let mut numbering = Numbering::<TAG_BITS>::new();
        (0..10).for_each(|_| _ = numbering.hand_out());
        numbering.expire_before(5);
        numbering.expire_before(3);
        assert_eq!(numbering.oldest(), Owner(5));
        assert!(!numbering.is_live(Owner(4)) && numbering.is_live(Owner(5)) && numbering.is_live(Owner(10)));
        assert!(!numbering.is_live(Owner(11)));
        numbering.expire_before(u64::MAX);
        assert_eq!(numbering.oldest(), numbering.next());
    }
}
