//! Daily limits on the number of signatures that one group may add to a book.
//!
//! Each generation of a ring has a limited capacity. A reporter without a limit could use it up, and then every
//! signature would look reported. So each group has a daily quota. Usage is reset at the start of each day (UTC).

use std::collections::BTreeMap;

use crate::codec::{Malformed, Reader, put_count};
use crate::time::Time;

/// Maximum number of groups whose usage is counted separately. All further groups share one quota, so an attacker gains
/// nothing from a flood of new groups.
pub const GROUPS_MAX: usize = 4_096;

/// The group that stands for all groups beyond [`GROUPS_MAX`].
const OTHERS: u64 = u64::MAX;

/// The usage of every group today.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quotas {
    day: u64,
    used: BTreeMap<u64, u32>,
}

impl Quotas {
    /// Returns true if a group may insert `amount` more signatures today without exceeding `limit`.
    pub(crate) fn admits(&self, now: Time, group: u64, amount: u32, limit: u32) -> bool {
        let used = if now.day() <= self.day { self.used_by(self.counted_as(group)) } else { 0 };
        used.saturating_add(amount) <= limit
    }

    /// Records an insertion by a group.
    pub(crate) fn use_up(&mut self, now: Time, group: u64, amount: u32) {
        if now.day() > self.day {
            *self = Self { day: now.day(), used: BTreeMap::new() };
        }
        let used = self.used.entry(self.counted_as(group)).or_default();
        *used = used.saturating_add(amount);
    }

    fn used_by(&self, group: u64) -> u32 {
        self.used.get(&group).copied().unwrap_or(0)
    }

    fn counted_as(&self, group: u64) -> u64 {
        if self.used.len() < GROUPS_MAX || self.used.contains_key(&group) { group } else { OTHERS }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.day.to_le_bytes());
        put_count(out, self.used.len());
        for (group, used) in &self.used {
            out.extend(group.to_le_bytes());
            out.extend(used.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let day = reader.u64("the day of the quotas")?;
        let count = reader.count(GROUPS_MAX + 1, 12, "the number of groups")?;
        let mut read = || Ok((reader.u64("a group")?, reader.u32("a group's usage")?));
        Ok(Self { day, used: (0..count).map(|_| read()).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Time = Time(20_000 * Time::DAY + 12 * Time::HOUR);
    const TOMORROW: Time = Time(NOON.0 + Time::DAY);

    #[test]
    fn a_group_has_one_quota_per_day() {
        let mut quotas = Quotas::default();
        assert!(quotas.admits(NOON, 1, 10, 10) && !quotas.admits(NOON, 1, 11, 10));
        quotas.use_up(NOON, 1, 10);
        assert!(!quotas.admits(NOON, 1, 1, 10));
        assert!(quotas.admits(NOON, 2, 10, 10), "another group has its own quota");
        assert!(quotas.admits(TOMORROW, 1, 10, 10));
        quotas.use_up(TOMORROW, 2, 1);
        quotas.use_up(NOON, 2, 4);
        assert!(
            !quotas.admits(TOMORROW, 2, 6, 10) && !quotas.admits(NOON, 2, 6, 10),
            "setting the clock back does not start a new day"
        );
    }

    #[test]
    fn groups_beyond_the_maximum_share_one_quota() {
        let mut quotas = Quotas::default();
        (0..2 * GROUPS_MAX as u64).for_each(|group| quotas.use_up(NOON, group, 1));
        assert_eq!(quotas.used.len(), GROUPS_MAX + 1);
        assert!(!quotas.admits(NOON, 1 << 40, 1, GROUPS_MAX as u32));
        assert!(quotas.admits(NOON, 5, 1, 2), "known groups keep their own quota");
        let mut bytes = Vec::new();
        quotas.encode(&mut bytes);
        assert_eq!(Quotas::decode(&mut Reader::new(&bytes)), Ok(quotas));
        assert!(Quotas::decode(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
    }
}
