//! Snapshots of an owner table.

use std::io::Read;

use super::numbering::Numbering;
use super::place::TableShape;
use super::table::{GROWTHS_MAX, OwnerTable};
use crate::snapshot::head::{Kind, NUMBER_MAX, lines_within, put_grown_head, read_grown_head, within, within_u32};
use crate::snapshot::{RestoreError, Snapshot, continue_all};

/// Minimum number of lines of a table.
const LINES_MIN: u64 = 2;

/// Number of fields that describe the growth of a table. The first is the total growth factor. Each growth that affects
/// live owners follows, as an owner number and a factor. The rest is zero.
const GROWTH_FIELDS: usize = 1 + 2 * GROWTHS_MAX;

impl<const BITS: u32> OwnerTable<BITS> {
    fn growth_fields(&self) -> [u64; GROWTH_FIELDS] {
        let mut fields = [0; GROWTH_FIELDS];
        if self.shape.factor > 1 {
            fields[0] = self.shape.factor as u64;
        }
        for (pair, &(before, factor)) in fields[1..].chunks_exact_mut(2).zip(&self.growths) {
            pair.copy_from_slice(&[before, factor]);
        }
        fields
    }
}

/// Restores the shape and growths of a table of `lines` lines from [`OwnerTable::growth_fields`].
fn restore_growth(lines: usize, next: u64, fields: &[u64]) -> Result<(TableShape, Vec<(u64, u64)>), RestoreError> {
    let what = "the growth factor of the table";
    let factor = within(what, fields[0].max(1), ..=lines as u64 / LINES_MIN)? as usize;
    let base = lines / factor;
    if base * factor != lines || !base.is_multiple_of(2) {
        return Err(RestoreError::OutOfRange { what, value: factor as u64 });
    }
    let mut growths: Vec<(u64, u64)> = Vec::new();
    for pair in fields[1..].chunks_exact(2).take_while(|pair| pair[1] > 0) {
        let earlier = growths.last().map_or(0, |growth| growth.0);
        growths.push((within(what, pair[0], earlier..=next)?, within(what, pair[1], 1..=NUMBER_MAX)?));
    }
    Ok((TableShape { base, factor }, growths))
}

impl<const BITS: u32> Snapshot for OwnerTable<BITS> {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let [oldest, next] = self.numbering.fields();
        let lines = self.lines.len() as u64;
        let fields = [lines, BITS.into(), oldest, next, self.sweep_at as u64, self.kicks, self.evictions];
        put_grown_head(head, Kind::OwnerTable, &fields, &self.growth_fields());
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
        let (fields, grown): (_, [u64; GROWTH_FIELDS]) = read_grown_head(input, Kind::OwnerTable)?;
        let [lines, bits, oldest, next, sweep_at, kicks, evictions] = fields;
        within_u32("the number of tag bits", bits, BITS..=BITS)?;
        let even = within("the number of lines", lines, LINES_MIN..)? & !1;
        let lines = lines_within(within("the number of lines", lines, even..=even)?, 0, limit_bytes)?;
        let (shape, growths) = restore_growth(lines, next, &grown)?;
        let mut table = Self::with_shape(shape)?;
        table.growths = growths;
        table.numbering = Numbering::restore([oldest, next])?;
        table.sweep_at = within("the line to sweep", sweep_at, ..lines as u64)? as usize;
        table.kicks = within("the number of moves", kicks, ..=NUMBER_MAX)?;
        table.evictions = within("the number of lost slots", evictions, ..=NUMBER_MAX)?;
        table.lines.read(input)?;
        Ok(table)
    }
}
