//! The errors of estimates, by the size of the true count.

/// A group of flows of similar size, and the errors of their estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// Smallest number of packets of a flow in this band.
    pub from: u64,
    /// Largest number of packets of a flow in this band.
    pub to: u64,
    /// Number of flows.
    pub flows: u64,
    /// Mean absolute error, relative to the true count.
    pub mean_error: f64,
    /// Mean signed error, relative to the true count.
    pub bias: f64,
    /// Fraction of flows whose true count lies in the interval of the estimate.
    pub covered: f64,
}

/// An estimate and the true count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// True number of packets.
    pub truth: u64,
    /// Estimated number of packets.
    pub estimate: f64,
    /// True if the interval of the estimate contains the true count.
    pub is_covered: bool,
}

/// Groups flows into bands by powers of ten: 1 to 9 packets, 10 to 99, and so on. Empty bands are omitted.
#[must_use]
pub fn bands(compared: impl IntoIterator<Item = Comparison>) -> Vec<Band> {
    let mut bands = [Band::default(); 20];
    for Comparison { truth, estimate, is_covered } in compared {
        let band = &mut bands[truth.max(1).ilog10() as usize];
        let error = (estimate - truth as f64) / truth.max(1) as f64;
        band.flows += 1;
        band.mean_error += error.abs();
        band.bias += error;
        band.covered += f64::from(u8::from(is_covered));
    }
    for (decade, band) in (0..).zip(&mut bands) {
        let flows = band.flows as f64;
        band.from = 10u64.pow(decade);
        band.to = band.from.saturating_mul(9).saturating_add(band.from - 1);
        band.mean_error /= flows;
        band.bias /= flows;
        band.covered /= flows;
    }
    bands.into_iter().filter(|band| band.flows > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_kept_apart_by_size() {
        let compared = |truth, estimate, is_covered| Comparison { truth, estimate, is_covered };
        let all =
            [compared(9, 18.0, true), compared(1, 0.0, false), compared(10, 10.0, true), compared(u64::MAX, 0.0, true)];
        let bands = bands(all);
        let band = Band { from: 1, to: 9, flows: 2, mean_error: 1.0, bias: 0.0, covered: 0.5 };
        assert_eq!(bands[0], band);
        assert_eq!(bands[1], Band { from: 10, to: 99, flows: 1, mean_error: 0.0, bias: 0.0, covered: 1.0 });
        assert_eq!((bands.len(), bands[2].to, bands[2].bias), (3, u64::MAX, -1.0));
    }
}
