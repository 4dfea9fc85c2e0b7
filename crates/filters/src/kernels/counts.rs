//! Update, count and merge of one-line counts: dispatch, and the portable form that defines the result.

use super::{Path, by_line};
use crate::Fingerprint;
use crate::counting::one_line::line_of;
use crate::counting::row_merge::RowMerge;
use crate::counting::rows::{self, CELL_TOP};
use crate::counting::spill::Spill;
use crate::lines::Line;

/// Counts one insertion of each key, in order.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn insert(path: Path, lines: &mut [Line], spill: &mut Spill, keys: &[Fingerprint]) {
    match path {
        Path::Portable => insert_portable(lines, spill, keys),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::counts::insert(lines, spill, keys) },
    }
}

/// Sets `found[i]` to the count of `keys[i]`.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn count(path: Path, lines: &[Line], spill: &Spill, keys: &[Fingerprint], found: &mut [u32]) {
    assert_eq!(keys.len(), found.len(), "the slices differ in length");
    match path {
        Path::Portable => count_portable(lines, spill, keys, found),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::counts::count(lines, spill, keys, found) },
    }
}

/// Adds `others` and their spill table to `lines` and `spill`.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn merge(path: Path, lines: &mut [Line], spill: &mut Spill, others: &[Line], other_spill: &Spill) {
    match path {
        Path::Portable => merge_portable(lines, spill, others, other_spill),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::counts::merge(lines, spill, others, other_spill) },
    }
}

/// Returns the line of `key`.
#[inline(always)]
pub(super) fn locate(lines: &[Line], key: &Fingerprint) -> u32 {
    line_of(key, lines.len()) as u32
}

fn insert_portable(lines: &mut [Line], spill: &mut Spill, keys: &[Fingerprint]) {
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, place: u32| {
        let line = &mut lines[place as usize];
        let minimum = rows::minimum(line, key.low());
        if minimum < CELL_TOP {
            rows::raise(line, key.low(), minimum + 1);
        } else {
            rows::heavy_add(line, place, spill, key.low(), 1);
        }
    };
    by_line(lines, keys, locate, work);
}

fn count_portable(lines: &[Line], spill: &Spill, keys: &[Fingerprint], found: &mut [u32]) {
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, place: u32| {
        let minimum = rows::minimum(&lines[place as usize], key.low());
        found[i] = if minimum < CELL_TOP {
            minimum as u32
        } else {
            rows::heavy_count(&lines[place as usize], place, spill, key.low())
        };
    };
    by_line(lines, keys, locate, work);
}

/// The merge for all paths. The compiler vectorises it for the processor features of each caller.
#[inline(always)]
pub(super) fn merge_portable(lines: &mut [Line], spill: &mut Spill, others: &[Line], other_spill: &Spill) {
    let (ours, theirs) = (spill.records(), other_spill.records());
    *spill = Spill::joining(spill, other_spill);
    let mut merge = RowMerge::new(&ours, &theirs, spill);
    for (index, (line, other)) in lines.iter_mut().zip(others).enumerate() {
        merge.add_line(line, other, index as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    /// Returns a stream of keys that occur from once to thousands of times, interleaved.
    fn stream(keys: &[Fingerprint]) -> Vec<Fingerprint> {
        let mut stream = Vec::new();
        for round in 0..2000 {
            stream.extend(keys.iter().take(keys.len() / (round + 1)));
        }
        // The count of one key reaches 2^17, at which it leaves the line. The count of another key exceeds 2^17.
        stream.extend(std::iter::repeat_n(keys[1], (1 << 17) - 1000));
        stream.extend(std::iter::repeat_n(keys[2], 1 << 17));
        stream
    }

    #[test]
    fn every_path_keeps_the_same_lines_and_reads_the_same_counts() {
        for line_count in [1, 7, 100] {
            let keys = test_keys(0, 1000);
            let results = [Path::Portable, Path::best()].map(|path| {
                let (mut lines, mut spill) = (vec![Line::default(); line_count], Spill::new(line_count));
                insert(path, &mut lines, &mut spill, &stream(&keys));
                let before = (lines.clone(), spill.clone());
                let (other, other_spill) = before.clone();
                merge(path, &mut lines, &mut spill, &other, &other_spill);
                insert(path, &mut lines, &mut spill, &stream(&keys));
                let mut found = vec![0; keys.len()];
                count(path, &lines, &spill, &keys, &mut found);
                (before, lines, spill, found)
            });
            assert_eq!(results[0], results[1]);
        }
    }
}
