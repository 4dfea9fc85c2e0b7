//! Ranks distributed by Zipf's law.

/// Cumulative shares of the ranks.
#[derive(Clone, Debug)]
pub(super) struct Zipf(Vec<f64>);

impl Zipf {
    /// Creates the distribution.
    ///
    /// # Panics
    /// If there are no ranks.
    pub(super) fn new(ranks: u32, exponent: f64) -> Self {
        assert!(ranks > 0, "there must be at least one rank");
        let mut sum = 0.0;
        let add = |rank: u32| {
            sum += f64::from(rank).powf(-exponent);
            sum
        };
        let mut shares: Vec<f64> = (1..=ranks).map(add).collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        Self(shares)
    }

    /// Returns the rank (from 0) for a random number `unit` between 0 and 1.
    pub(super) fn rank(&self, unit: f64) -> u32 {
        let rank = self.0.partition_point(|&share| share <= unit);
        rank.min(self.0.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_exponent() {
        let zipf = Zipf::new(3, 1.0);
        // The weights 1, 1/2 and 1/3 are shares of 6/11, 3/11 and 2/11.
        let ranks = [0.0, 0.54, 0.55, 0.81, 0.82, 0.999, 1.0].map(|unit| zipf.rank(unit));
        assert_eq!(ranks, [0, 0, 1, 1, 2, 2, 2]);
    }
}
