//! Axes: their ranges and tick labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::data::{has_logarithm, size_label};

/// A range of numbers; if the axis is logarithmic, a range of base-10 logarithms. Both ends are finite, and the upper
/// end is above the lower end.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns a logarithmic axis for numbers of cells, with a margin at both ends; `None` if `sizes` is empty. On
    /// narrow panels, only the smallest number and its multiples by a power of two have a label.
    pub(super) fn sizes(sizes: &[u64], is_narrow: bool) -> Option<Self> {
        let (smallest, largest) = (*sizes.iter().find(|&&m| m > 0)?, *sizes.last()?);
        let (low, high) = ((smallest as f64).log10(), (largest as f64).log10());
        let room = (high - low).max(0.3) * 0.08;
        let ticks = sizes.iter().filter(|&&m| m > 0).map(|&m| {
            let doubled = m.is_multiple_of(smallest) && (m / smallest).is_power_of_two();
            ((m as f64).log10(), if doubled || !is_narrow { size_label(m) } else { String::new() })
        });
        Some(Self { low: low - room, high: high + room, ticks: ticks.collect() })
    }

    /// Returns a logarithmic axis that covers all the numbers above 0, with at most about `ticks_max` ticks; `None` if
    /// no number is above 0.
    pub(super) fn logarithmic(numbers: impl Iterator<Item = f64>, ticks_max: usize) -> Option<Self> {
        let logarithms = numbers.filter(|&number| has_logarithm(number)).map(f64::log10);
        let (low, high) = logarithms.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), logarithm| {
            (low.min(logarithm), high.max(logarithm))
        });
        if low > high {
            return None;
        }
        let rungs = rungs(low, high, ticks_max);
        let is_fine = rungs.iter().any(|rung| rung.0 != 1);
        let ticks: Vec<_> = rungs.into_iter().map(|rung| (logarithm(rung), label(rung, is_fine))).collect();
        Some(Self { low: ticks.first()?.0, high: ticks.last()?.0, ticks })
    }

    /// Returns the position of a number on a logarithmic axis. Numbers outside the axis are moved to the nearer end.
    pub(super) fn place(&self, number: f64) -> f64 {
        if number > 0.0 { number.log10().clamp(self.low, self.high) } else { self.low }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let is_bold = !hint.weight().allow_light_points();
        self.ticks.iter().filter(|_| is_bold).map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|tick| tick.0 == *value).map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

/// A round number: a mantissa and a power of ten.
type Rung = (u8, i32);

fn logarithm((mantissa, power): Rung) -> f64 {
    f64::from(power) + f64::from(mantissa).log10()
}

/// Formats a tick label: as 0.05 or 20 if the axis has ticks between powers of ten, otherwise as 10⁻³.
fn label((mantissa, power): Rung, is_fine: bool) -> String {
    match (mantissa, power) {
        (_, -4..=5) if is_fine => {
            let decimals = usize::try_from(-power).unwrap_or(0);
            format!("{:.decimals$}", f64::from(mantissa) * 10f64.powi(power))
        }
        (1, 0) => "1".to_owned(),
        (1, 1) => "10".to_owned(),
        (1, _) => format!("10{}", superscript(power)),
        _ => format!("{mantissa}·10{}", superscript(power)),
    }
}

fn superscript(power: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |character: char| character.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    power.to_string().chars().map(digit).collect()
}

/// Maximum number of ticks on an axis with ticks at 1, 2 and 5 in each decade, enough for two decades. Longer axes need
/// no ticks between powers of ten.
const FINE_MAX: usize = 7;

/// Returns two or more round numbers that enclose a range: 1, 2, 5, 10, … if these are few enough, otherwise every n-th
/// power of ten.
fn rungs(low: f64, high: f64, count_max: usize) -> Vec<Rung> {
    let (first, last) = (low.floor() as i32, (high.ceil() as i32).max(low.floor() as i32 + 1));
    let fine: Vec<_> = (first..=last).flat_map(|power| [1, 2, 5].map(|mantissa| (mantissa, power))).collect();
    let start = fine.iter().rposition(|&rung| logarithm(rung) <= low).unwrap_or(0);
    let end = fine.iter().position(|&rung| logarithm(rung) >= high).unwrap_or(0).max(start + 1);
    if end - start < count_max.min(FINE_MAX) {
        return fine[start..=end].to_vec();
    }
    let step = (last - first) / count_max.max(1) as i32 + 1;
    (first..last + step).step_by(step as usize).map(|power| (1, power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(numbers: &[f64], ticks_max: usize) -> Vec<String> {
        let axis = Axis::logarithmic(numbers.iter().copied(), ticks_max).unwrap();
        axis.ticks.into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(labels(&[3e-3, 0.4], 5), ["10⁻³", "10⁻²", "10⁻¹", "1"]);
        assert_eq!(labels(&[1e-12, 1.0], 5), ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "1"]);
        assert_eq!(labels(&[1.5, 48.0], 9), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(&[0.04, 0.2], 9), ["0.02", "0.05", "0.1", "0.2"]);
        assert_eq!(labels(&[5.0], 9), ["5", "10"]);
    }

    #[test]
    fn every_range_has_an_axis() {
        for numbers in [[f64::MIN_POSITIVE / 1e9, f64::MAX], [f64::MAX, f64::MAX], [5e-324, 5e-324], [1.0, 1.0]] {
            for ticks_max in [0, 1, 2, 9] {
                let axis = Axis::logarithmic(numbers.into_iter(), ticks_max).unwrap();
                assert!(axis.low < axis.high && axis.ticks.len() >= 2);
                assert!([0.0, -1.0, f64::NAN, f64::MAX].iter().all(|&number| axis.place(number).is_finite()));
            }
        }
        assert!(Axis::logarithmic([0.0, -1.0, f64::NAN, f64::INFINITY].into_iter(), 9).is_none());
    }

    #[test]
    fn narrow_panels_name_doubled_sizes() {
        let axis = Axis::sizes(&[80_000, 160_000, 240_000, 320_000], true).unwrap();
        assert_eq!(axis.ticks.iter().map(|tick| tick.1.as_str()).collect::<Vec<_>>(), ["80K", "160K", "", "320K"]);
        assert!(Axis::sizes(&[], false).is_none() && Axis::sizes(&[0], false).is_none());
    }
}
