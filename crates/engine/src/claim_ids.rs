//! The IDs of recent claims, so that a repeated request does not count again.
//!
//! A client that gets no answer cannot know whether its claim was made, and sends it again with the same ID. The IDs
//! are part of the state, so they survive a restart. The number of IDs is bounded, and so is the time for which they
//! are kept. A claim that is repeated after its ID was dropped counts again.

use std::collections::{HashMap, VecDeque};

use bruit_filters::Fingerprint;

use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::engine::Outcome;
use crate::event::Event;
use crate::time::Time;

/// Maximum number of IDs. When the table is full, the oldest ID is dropped. A full table takes 3 MiB of memory.
pub const CLAIM_IDS_MAX: usize = 32_768;

/// Time for which an ID is remembered, in seconds: eight days, one day longer than a client's spool keeps a report.
pub const CLAIM_ID_SECONDS: u64 = 8 * Time::DAY;

/// Encoded length of an ID with its time and totals.
const ENTRY_BYTES: usize = 16 + 8 + 5 * 4;

/// The answer to a claim about a message: the number of its signatures with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimTotals {
    /// Number of signatures whose claim was accepted.
    pub accepted: u32,
    /// Number of signatures listed by the claim.
    pub listed: u32,
    /// Number of signatures revoked by the claim.
    pub revoked: u32,
    /// Number of signatures ignored because they are whitelisted.
    pub ignored: u32,
    /// Number of signatures whose claim was refused.
    pub refused: u32,
}

/// The claims whose IDs are remembered, oldest first.
#[derive(Clone, Debug, Default)]
pub struct ClaimIds {
    order: VecDeque<(Time, Fingerprint)>,
    totals: HashMap<Fingerprint, ClaimTotals>,
}

impl ClaimTotals {
    /// Computes the totals from the events of a claim and their outcomes.
    #[must_use]
    pub fn of(events: &[Event], outcomes: &[Outcome]) -> Self {
        let mut totals = Self::default();
        for (event, outcome) in events.iter().zip(outcomes) {
            let Event::Claim { fingerprints, .. } = event else { continue };
            let count = fingerprints.len() as u32;
            match outcome {
                Outcome::Claimed { listed, revoked, ignored, refused, .. } => {
                    totals.accepted += count.saturating_sub(ignored + refused);
                    totals.listed += listed;
                    totals.revoked += revoked;
                    totals.ignored += ignored;
                    totals.refused += refused;
                }
                Outcome::Refused(crate::Refusal::Whitelisted) => totals.ignored += count,
                Outcome::Refused(_) => totals.refused += count,
                _ => {}
            }
        }
        totals
    }

    fn encode(self, out: &mut Vec<u8>) {
        let Self { accepted, listed, revoked, ignored, refused } = self;
        [accepted, listed, revoked, ignored, refused].iter().for_each(|number| out.extend(number.to_le_bytes()));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut number = || reader.u32("the totals of a claim");
        Ok(Self { accepted: number()?, listed: number()?, revoked: number()?, ignored: number()?, refused: number()? })
    }
}

impl ClaimIds {
    /// Returns the totals of the claim with this ID, if the ID is remembered.
    #[must_use]
    pub fn get(&self, id: &Fingerprint) -> Option<ClaimTotals> {
        self.totals.get(id).copied()
    }

    /// Returns the number of remembered IDs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if no ID is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Remembers the ID of a claim. Drops IDs that are too old, and the oldest IDs if there are too many. `now` never
    /// decreases.
    pub(crate) fn insert(&mut self, now: Time, id: Fingerprint, totals: ClaimTotals) {
        if self.totals.insert(id, totals).is_some() {
            return;
        }
        self.order.push_back((now, id));
        let is_dropped = |order: &VecDeque<(Time, Fingerprint)>| {
            order.len() > CLAIM_IDS_MAX
                || order.front().is_some_and(|(then, _)| then.0.saturating_add(CLAIM_ID_SECONDS) < now.0)
        };
        while is_dropped(&self.order) {
            let oldest = self.order.pop_front();
            oldest.and_then(|(_, id)| self.totals.remove(&id));
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.order.len());
        for (then, id) in &self.order {
            put_fingerprint(out, *id);
            out.extend(then.0.to_le_bytes());
            self.totals.get(id).copied().unwrap_or_default().encode(out);
        }
    }

    /// Decodes the table of a snapshot whose time is `now`.
    pub(crate) fn decode(now: Time, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(CLAIM_IDS_MAX, ENTRY_BYTES, "the number of claim IDs")?;
        let (mut ids, mut last) = (Self::default(), 0);
        for _ in 0..count {
            let id = reader.fingerprint("the ID of a claim")?;
            let then = reader.u64("the time of a claim")?;
            let is_new = ids.totals.insert(id, ClaimTotals::decode(reader)?).is_none();
            if !is_new || !(last..=now.0).contains(&then) {
                return Err(Malformed::OutOfRange { what: "the time of a claim", value: then });
            }
            ids.order.push_back((Time(then), id));
            last = then;
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use bruit_filters::FingerprintKey;

    use super::*;

    fn id(number: u64) -> Fingerprint {
        FingerprintKey::new([7; 16]).fingerprint(&number.to_le_bytes())
    }

    fn totals(accepted: u32) -> ClaimTotals {
        ClaimTotals { accepted, ..ClaimTotals::default() }
    }

    #[test]
    fn the_oldest_id_is_dropped_at_the_bound() {
        let mut ids = ClaimIds::default();
        (0..CLAIM_IDS_MAX as u64).for_each(|number| ids.insert(Time(1), id(number), totals(1)));
        assert_eq!((ids.len(), ids.get(&id(0))), (CLAIM_IDS_MAX, Some(totals(1))));
        ids.insert(Time(1), id(u64::MAX), totals(2));
        assert_eq!((ids.len(), ids.get(&id(0)), ids.get(&id(1))), (CLAIM_IDS_MAX, None, Some(totals(1))));
        assert_eq!((ids.order.len(), ids.totals.len()), (CLAIM_IDS_MAX, CLAIM_IDS_MAX));
    }

    #[test]
    fn an_id_is_dropped_after_its_time() {
        let mut ids = ClaimIds::default();
        ids.insert(Time(10), id(1), totals(1));
        ids.insert(Time(10 + CLAIM_ID_SECONDS), id(2), totals(1));
        assert!(ids.get(&id(1)).is_some());
        ids.insert(Time(11 + CLAIM_ID_SECONDS), id(3), totals(1));
        assert_eq!((ids.get(&id(1)), ids.len()), (None, 2));
    }

    #[test]
    fn only_tables_that_are_written_are_read() {
        let mut ids = ClaimIds::default();
        (1..4).for_each(|number| ids.insert(Time(number), id(number), totals(number as u32)));
        let mut bytes = Vec::new();
        ids.encode(&mut bytes);
        let decode = |bytes: &[u8], now| ClaimIds::decode(Time(now), &mut Reader::new(bytes));
        let read = decode(&bytes, 3).unwrap();
        assert_eq!((read.order.clone(), read.totals.clone()), (ids.order, ids.totals));
        let mut again = Vec::new();
        read.encode(&mut again);
        assert_eq!(again, bytes);
        assert!(decode(&bytes, 2).is_err(), "later than the snapshot");
        let first = bytes[4..4 + ENTRY_BYTES].to_vec();
        bytes.splice(4 + ENTRY_BYTES..4 + 2 * ENTRY_BYTES, first);
        assert!(decode(&bytes, 3).is_err(), "an ID twice");
    }
}
