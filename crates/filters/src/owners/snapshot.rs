//! Snapshots of an owner table.

use std::io::Read;

use super::numbering::Numbering;
use super::table::OwnerTable;
use crate::snapshot::head::{Kind, NUMBER_MAX, lines_within, put_head, read_head, within, within_u32};
use crate::snapshot::{RestoreError, Snapshot, continue_all};

/// Fewest lines of a table.
const LINES_MIN: u64 = 2;

impl<const BITS: u32> Snapshot for OwnerTable<BITS> {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let [oldest, next] = self.numbering.fields();
        let lines = self.lines.len() as u64;
        let fields = [lines, BITS.into(), oldest, next, self.sweep_at as u64, self.kicks, self.evictions];
        put_head(head, Kind::OwnerTable, &fields);
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
        let [lines, bits, oldest, next, sweep_at, kicks, evictions] = read_head(input, Kind::OwnerTable)?;
        within_u32("the number of tag bits", bits, BITS..=BITS)?;
        let even = within("the number of lines", lines, LINES_MIN..)? & !1;
        let lines = lines_within(within("the number of lines", lines, even..=even)?, 0, limit_bytes)?;
        let mut table = Self::try_with_lines(lines)?;
        table.numbering = Numbering::restore([oldest, next])?;
        table.sweep_at = within("the line to sweep", sweep_at, ..lines as u64)? as usize;
        table.kicks = within("the number of moves", kicks, ..=NUMBER_MAX)?;
        table.evictions = within("the number of lost slots", evictions, ..=NUMBER_MAX)?;
        table.lines.read(input)?;
        Ok(table)
    }
}
