//! How wrong estimates are, by the size of what is estimated.

/// Flows of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// The least number of packets.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// How many flows.
    pub flows: u64,
    /// The mean over them of the difference to the truth, without its sign, as a share of the truth.
    pub mean_error: f64,
    /// The mean with the sign: what does not even out.
    pub bias: f64,
    /// The share of flows whose truth lies in the interval that was told with the estimate.
    pub covered: f64,
}

/// One estimate beside the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Packets that the flow has.
    pub truth: u64,
    /// Packets that it was thought to have.
    pub estimate: f64,
    /// Whether the interval told with it has the truth in it.
    pub is_covered: bool,
}

/// Bands of a decade each: 1 to 9 packets, 10 to 99, and so on, of those that have flows.
#[must_use]
pub fn bands(compared: impl IntoIterator<Item = Compared>) -> Vec<Band> {
    let mut bands = [Band::default(); 20];
    for Compared { truth, estimate, is_covered } in compared {
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
        let compared = |truth, estimate, is_covered| Compared { truth, estimate, is_covered };
        let all =
            [compared(9, 18.0, true), compared(1, 0.0, false), compared(10, 10.0, true), compared(u64::MAX, 0.0, true)];
        let bands = bands(all);
        let band = Band { from: 1, to: 9, flows: 2, mean_error: 1.0, bias: 0.0, covered: 0.5 };
        assert_eq!(bands[0], band);
        assert_eq!(bands[1], Band { from: 10, to: 99, flows: 1, mean_error: 0.0, bias: 0.0, covered: 1.0 });
        assert_eq!((bands.len(), bands[2].to, bands[2].bias), (3, u64::MAX, -1.0));
    }
}
