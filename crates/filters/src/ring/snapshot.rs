//! Snapshots of the rings.

use std::io::{self, Read};

use super::counts::CountsRing;
use super::lanes::{LANES, Lanes};
use super::membership::MembershipRing;
use super::records::{Records, lines_for};
use super::staged::StagedRing;
use crate::KeyId;
use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};
use crate::lines::LINES_MAX;
use crate::snapshot::head::{Kind, NUMBER_MAX, lines_within, put_grown_head, read_grown_head, within, within_u32};
use crate::snapshot::{RestoreError, Snapshot, continue_all};

impl Snapshot for MembershipRing {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let [epoch, cleared] = self.lanes.fields();
        let fields = [self.lines.len() as u64, self.key_id().0, epoch, cleared, self.fingerprint_bits.into()];
        put_grown_head(head, Kind::MembershipRing, &fields, &self.copied);
        self.lines.begin_snapshot();
    }

    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool {
        continue_all(&mut [&mut self.lines], lines, out)
    }

    fn cancel_snapshot(&mut self) {
        self.lines.cancel_snapshot();
    }

    fn logged_lines(&self) -> usize {
        self.lines.logged()
    }

    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError> {
        let ([lines, key_id, epoch, cleared, bits], copied) = read_grown_head(input, Kind::MembershipRing)?;
        let lines = lines_within(within("the number of lines", lines, 1..)?, 0, limit_bytes)?;
        let lanes = Lanes::restore([epoch, cleared], lines)?;
        let allowed = FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX;
        let bits = within_u32("the number of fingerprint bits", bits, allowed)?;
        let copied = copied_within(copied)?;
        let mut ring = Self::read(lines, bits, KeyId(key_id), lanes, input)?;
        ring.copied = copied;
        Ok(ring)
    }
}

impl Snapshot for StagedRing {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let [first, second] = &mut self.stages;
        let [epoch, cleared] = first.lanes.fields();
        let fields = [first.lines.len() as u64, first.key_id().0, epoch, cleared];
        put_grown_head(head, Kind::StagedRing, &fields, &[first.copied, second.copied].concat());
        first.lines.begin_snapshot();
        second.lines.begin_snapshot();
    }

    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool {
        continue_all(&mut self.stages.each_mut().map(|stage| &mut stage.lines), lines, out)
    }

    fn cancel_snapshot(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.lines.cancel_snapshot());
    }

    fn logged_lines(&self) -> usize {
        self.stages.iter().map(|stage| stage.lines.logged()).sum()
    }

    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError> {
        let (fields, copied): (_, [u64; 2 * LANES as usize]) = read_grown_head(input, Kind::StagedRing)?;
        let [lines, key_id, epoch, cleared] = fields;
        let lines = lines_within(within("the number of lines", lines, 1..)?, lines, limit_bytes)?;
        let lanes = Lanes::restore([epoch, cleared], lines)?;
        let mut stage = |copied: &[u64]| {
            let copied = copied_within(std::array::from_fn(|lane| copied[lane]))?;
            let mut ring = MembershipRing::read(lines, FINGERPRINT_BITS_MAX, KeyId(key_id), lanes, input)?;
            ring.copied = copied;
            Ok::<_, RestoreError>(ring)
        };
        let (first, second) = copied.split_at(LANES as usize);
        Ok(Self { stages: [stage(first)?, stage(second)?] })
    }
}

/// Number of fields before the lane fields in the head of a ring of counts.
const COUNTS_FIELDS: usize = 4;

impl Snapshot for CountsRing {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let [epoch, cleared] = self.lanes.fields();
        let mut fields = vec![self.lines.len() as u64, self.key_id().0, epoch, cleared];
        fields.extend(self.keys);
        fields.extend(self.records.unlisted().map(u64::from));
        put_grown_head(head, Kind::CountsRing, &fields, &self.copied);
        self.lines.begin_snapshot();
        self.records.lines.begin_snapshot();
    }

    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool {
        continue_all(&mut [&mut self.lines, &mut self.records.lines], lines, out)
    }

    fn cancel_snapshot(&mut self) {
        self.lines.cancel_snapshot();
        self.records.lines.cancel_snapshot();
    }

    fn logged_lines(&self) -> usize {
        self.lines.logged() + self.records.lines.logged()
    }

    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError> {
        let (fields, copied) = read_grown_head::<{ COUNTS_FIELDS + 2 * LANES as usize }, _>(input, Kind::CountsRing)?;
        let [lines, key_id, epoch, cleared, of_lanes @ ..] = fields;
        let lines = within("the number of lines", lines, 1..=LINES_MAX as u64)?;
        let lines = lines_within(lines, lines_for(lines as usize) as u64, limit_bytes)?;
        let lanes = Lanes::restore([epoch, cleared], lines)?;
        let mut ring = Self::new(lines, KeyId(key_id), 0).map_err(io::Error::from)?;
        (ring.lanes, ring.copied) = (lanes, copied_within(copied)?);
        let (keys, unlisted) = of_lanes.split_at(LANES as usize);
        for (lane, &keys) in keys.iter().enumerate() {
            ring.keys[lane] = within("the number of keys", keys, ..=NUMBER_MAX)?;
        }
        ring.lines.read(input)?;
        ring.read_records(unlisted, input)?;
        Ok(ring)
    }
}

/// Returns the number of copied keys of each lane if these numbers are in range.
fn copied_within(copied: [u64; LANES as usize]) -> Result<[u64; LANES as usize], RestoreError> {
    copied.iter().try_for_each(|&keys| within("the number of copied keys", keys, ..=NUMBER_MAX).map(drop))?;
    Ok(copied)
}

impl CountsRing {
    /// Reads the lines of the records and validates them.
    fn read_records(&mut self, unlisted: &[u64], input: &mut dyn Read) -> Result<(), RestoreError> {
        let mut of_lanes = [0; LANES as usize];
        for (of_lane, &unlisted) in of_lanes.iter_mut().zip(unlisted) {
            *of_lane = within_u32("the unlisted count", unlisted, 0..=u32::MAX)?;
        }
        let mut records = Records::new(self.lines.len())?;
        records.lines.read(input)?;
        records.recount(of_lanes, self.lines.len())?;
        let outgoing = self.lanes.outgoing();
        if !self.lanes.is_live(outgoing) {
            // Clears the records of the expired lines again, because the input is untrusted.
            records.expire(outgoing, 0..self.lanes.cleared(), self.lines.len());
        }
        self.records = records;
        Ok(())
    }
}
