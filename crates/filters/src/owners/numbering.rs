//! Owners are numbered from 1 on, for ever; a tag is the low 20 bits of the number.
//!
//! The owners from `oldest` to `next` are live, never more than [`OWNERS_LIVE_MAX`] of the 2^20 that tags can tell apart, so
//! a tag names one live owner at most. An expired owner's slots may lie about until its tag comes round again. Between the
//! two at least [`SWEEP_OWNERS`] owners are added, and each sweeps its share of the lines: enough for a whole round.

use super::line::EMPTY_TAG;

const TAG_BITS: u32 = 20;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Owners added between the expiry of one, at the latest, and the return of its tag, which takes no part in it itself.
pub(super) const SWEEP_OWNERS: u64 = 1 << 17;

/// Most owners that are live at a time: seven eighths of the tags. Adding one more expires the oldest.
pub const OWNERS_LIVE_MAX: u64 = (1 << TAG_BITS) - SWEEP_OWNERS;

/// The number of an owner, larger than that of every owner before it and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

impl Owner {
    /// The owner with this number, for a caller that has kept numbers elsewhere.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number. Numbers follow each other without gaps but for multiples of 2^20, which are left out: their tag would
    /// be that of an empty slot.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    pub(super) const fn tag(self) -> u32 {
        (self.0 & TAG_MASK) as u32
    }
}

/// Which owners are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    oldest: u64,
    next: u64,
}

impl Numbering {
    pub(super) const fn new() -> Self {
        Self { oldest: 1, next: 1 }
    }

    pub(super) const fn oldest(&self) -> Owner {
        Owner(self.oldest)
    }

    pub(super) const fn next(&self) -> Owner {
        Owner(self.next)
    }

    /// Expires whoever has to go before one more can come.
    pub(super) fn make_room(&mut self) {
        self.expire_before((self.next + 1).saturating_sub(OWNERS_LIVE_MAX));
    }

    /// Hands out the next number, after [`make_room`](Self::make_room).
    pub(super) fn hand_out(&mut self) -> Owner {
        let owner = self.next();
        self.next += 1;
        if self.next().tag() == EMPTY_TAG {
            self.next += 1;
        }
        owner
    }

    /// Expires all owners with numbers below `number`.
    pub(super) fn expire_before(&mut self, number: u64) {
        self.oldest = number.clamp(self.oldest, self.next);
    }

    pub(super) fn is_live(&self, owner: Owner) -> bool {
        (self.oldest..self.next).contains(&owner.0) && owner.tag() != EMPTY_TAG
    }

    /// How many owners after the oldest the one with this tag came, if it is live.
    #[inline(always)]
    pub(super) fn place_of(&self, tag: u32) -> Option<u32> {
        self.is_live_tag(tag).then(|| self.distance(tag))
    }

    /// Whether a live owner has this tag.
    #[inline(always)]
    pub(super) fn is_live_tag(&self, tag: u32) -> bool {
        (tag != EMPTY_TAG) & (self.distance(tag) < (self.next - self.oldest) as u32)
    }

    /// The owner at a place that [`place_of`](Self::place_of) gave.
    pub(super) const fn owner_at(&self, place: u32) -> Owner {
        Owner(self.oldest + place as u64)
    }

    #[inline(always)]
    fn distance(&self, tag: u32) -> u32 {
        tag.wrapping_sub(self.oldest as u32) & TAG_MASK as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_live_owners_and_only_them_through_three_rounds() {
        let mut numbering = Numbering::new();
        let mut before = 0;
        for i in 0..3u64 << TAG_BITS {
            numbering.make_room();
            let owner = numbering.hand_out();
            assert!(owner.0 > before && owner.tag() != EMPTY_TAG);
            before = owner.0;
            let oldest = numbering.oldest();
            assert!(owner.0 - oldest.0 < OWNERS_LIVE_MAX && numbering.is_live(owner));
            assert_eq!(numbering.place_of(owner.tag()).map(|place| numbering.owner_at(place)), Some(owner));
            assert_eq!(numbering.place_of(EMPTY_TAG), None);
            if let Some(expired) = oldest.0.checked_sub(1 + i % SWEEP_OWNERS).map(Owner) {
                assert!(!numbering.is_live(expired));
                // Not yet the tag of another: as long as it lies about, it is known for dead.
                assert_eq!(numbering.place_of(expired.tag()), None);
            }
        }
        assert_eq!(before, (3 << TAG_BITS) + 3);
    }

    #[test]
    fn expiry_never_runs_backwards_nor_ahead() {
        let mut numbering = Numbering::new();
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
