//! Measures the size of a delta for a receiver that has the old filter, relative to the entropy of the change.

use std::io;

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
use bruit_filters::{KeyId, delta};

use crate::keys::keys;
use crate::report::{Figure, Report, Target};
use crate::timing::time;

const KEYS: usize = 1_000_000;

pub(crate) fn size(report: &mut Report) -> io::Result<()> {
    let plan = MembershipPlan::new(Layout::OneLine, KEYS as u64, Goal::Rate(0.01)).expect("a valid size");
    let mut base = OneLineFilter::from_plan(&plan, KeyId(0)).unwrap();
    base.insert_batch(&keys(0, KEYS));
    for (new, growth, target) in [(1_000, "0.1 %", 0.80), (10_000, "1 %", 0.95), (100_000, "10 %", 1.02)] {
        let news = keys(1 << 40, new);
        let mut grown = base.clone();
        grown.insert_batch(&news);
        let bytes = delta::encode(&base, &grown, 0, Some(&news)).expect("filters of equal shape");
        let ratio = bytes.len() as f64 * 8.0 / entropy_bits(&base, &grown);
        let mut copy = base.clone();
        let apply_ns = time(|| delta::apply(&mut copy, 0, &bytes).expect("it fits"));
        assert_eq!(copy, grown, "base + delta = target");
        let flips = (grown.ones() - base.ones()) as f64;
        let note = format!(
            "{:.1} bits per new key; applied at {:.0} M bits/s",
            bytes.len() as f64 * 8.0 / new as f64,
            flips / apply_ns * 1e3,
        );
        let name = format!("delta size / entropy of the change, {growth} growth");
        report.add(Figure::new(name, ratio, Target::AtMost(target), note))?;
    }
    Ok(())
}

/// Returns zeros · H(flips / zeros), the minimum number of bits to encode which zeros of the base became ones.
fn entropy_bits(base: &OneLineFilter, target: &OneLineFilter) -> f64 {
    let zeros = (base.bits() - base.ones()) as f64;
    let share = (target.ones() - base.ones()) as f64 / zeros;
    -zeros * (share * share.log2() + (1.0 - share) * (1.0 - share).log2())
}
