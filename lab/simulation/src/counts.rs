//! Distributions of the number of insertions per key.

use std::fmt;
use std::str::FromStr;

use rand::seq::{SliceRandom as _, index};
use rand::{Rng, RngExt as _};
use rand_distr::{Distribution as _, Poisson, Zipf};

use crate::PaperDraw;

/// Largest count and largest mean accepted.
pub const COUNT_MAX: u32 = 1_000_000;

/// A distribution of counts. Keys with a count of 0 are neither inserted nor looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counts {
    /// The same count for every key.
    Constant(u32),
    /// Uniformly distributed between `smallest` and `largest`, both included.
    Uniform {
        /// The smallest count.
        smallest: u32,
        /// The largest count.
        largest: u32,
    },
    /// Poisson distributed, as if arrivals were independent.
    Poisson {
        /// The mean count.
        mean: f64,
    },
    /// Arrivals choose the i-th key with a probability proportional to i^(−exponent): a few keys arrive very often,
    /// most keys almost never.
    Zipf {
        /// The skew. With 0, all keys are equally likely.
        exponent: f64,
        /// The mean count.
        mean: f64,
    },
}

impl Counts {
    /// Checks that the parameters are valid and that not all counts are 0.
    ///
    /// # Errors
    /// [`CountsError::Number`].
    pub fn check(self) -> Result<(), CountsError> {
        let most = f64::from(COUNT_MAX);
        match self {
            Self::Constant(count) => within("a constant count", count.into(), 1.0, most),
            Self::Uniform { smallest, largest } if smallest > largest => {
                Err(CountsError::Number(format!("{smallest} to {largest} is not a valid range of counts")))
            }
            Self::Uniform { largest, .. } => within("the largest count", largest.into(), 1.0, most),
            Self::Poisson { mean } => within("the mean count", mean, MEAN_MIN, most),
            Self::Zipf { exponent, mean } => {
                within("the exponent", exponent, 0.0, EXPONENT_MAX)?;
                within("the mean count", mean, MEAN_MIN, most)
            }
        }
    }

    /// Draws counts for `keys` keys.
    #[must_use]
    pub fn draw(self, keys: usize, random: &mut impl Rng) -> Vec<u32> {
        match self {
            Self::Constant(count) => vec![count; keys],
            Self::Uniform { smallest, largest } => (0..keys).map(|_| random.random_range(smallest..=largest)).collect(),
            Self::Poisson { mean } => {
                let poisson = Poisson::new(mean).expect("the mean is positive and bounded");
                (0..keys).map(|_| poisson.sample(random) as u32).collect()
            }
            Self::Zipf { exponent, mean } => draw_zipf(exponent, mean, keys, random),
        }
    }

    /// Draws counts for `keys` keys. The counts match the known figures of the paper's draw.
    pub(crate) fn draw_like(self, keys: usize, known: PaperDraw, random: &mut impl Rng) -> Vec<u32> {
        let mut counts = match known.nonzero {
            Some(nonzero) => self.draw_nonzero(keys, nonzero, random),
            None => self.draw(keys, random),
        };
        if let Some(insertions) = known.insertions {
            self.approach(insertions, &mut counts, random);
        }
        counts
    }

    /// Draws counts for `keys` keys. Exactly `nonzero` of the counts are not zero.
    fn draw_nonzero(self, keys: usize, nonzero: usize, random: &mut impl Rng) -> Vec<u32> {
        let mut counts = vec![0; keys];
        for key in index::sample(random, keys, nonzero) {
            counts[key] = self.draw_positive(random);
        }
        counts
    }

    /// Redraws individual counts if this brings the sum closer to `sum`, until `sum` is reached. Zeros stay zero, so
    /// `sum` must be reachable with the remaining keys.
    fn approach(self, sum: u64, counts: &mut [u32], random: &mut impl Rng) {
        let mut excess = counts.iter().map(|&count| i64::from(count)).sum::<i64>() - sum as i64;
        while excess != 0 {
            let count = &mut counts[random.random_range(0..counts.len())];
            let other = if *count == 0 { 0 } else { self.draw_positive(random) };
            let changed = excess + i64::from(other) - i64::from(*count);
            if changed.abs() < excess.abs() {
                (*count, excess) = (other, changed);
            }
        }
    }

    fn draw_positive(self, random: &mut impl Rng) -> u32 {
        loop {
            let count = self.draw(1, random)[0];
            if count > 0 {
                return count;
            }
        }
    }

    /// Returns the expected count of a key.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::Constant(count) => f64::from(count),
            Self::Uniform { smallest, largest } => (f64::from(smallest) + f64::from(largest)) / 2.0,
            Self::Poisson { mean } | Self::Zipf { mean, .. } => mean,
        }
    }
}

fn draw_zipf(exponent: f64, mean: f64, keys: usize, random: &mut impl Rng) -> Vec<u32> {
    let zipf = Zipf::new(keys as f64, exponent).expect("there is at least one key, and the exponent is not negative");
    let mut counts = vec![0; keys];
    let arrivals = (mean * keys as f64).round() as u64;
    for _ in 0..arrivals {
        counts[zipf.sample(random) as usize - 1] += 1;
    }
    // Shuffle the counts: keys are inserted in order, so the most frequent keys would always come first.
    counts.shuffle(random);
    counts
}

impl Counts {
    /// Returns the counts in the notation that [`FromStr`] parses.
    #[must_use]
    pub fn notation(self) -> String {
        match self {
            Self::Constant(count) => format!("constant:{count}"),
            Self::Uniform { smallest, largest } => format!("uniform:{smallest}:{largest}"),
            Self::Poisson { mean } => format!("poisson:{mean}"),
            Self::Zipf { exponent, mean } => format!("zipf:{exponent}:{mean}"),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(count) => write!(f, "each key {count} times"),
            Self::Uniform { smallest, largest } => write!(f, "counts uniform on {smallest}..{largest}"),
            Self::Poisson { mean } => write!(f, "Poisson counts with mean {mean}"),
            Self::Zipf { exponent, mean } => write!(f, "Zipf counts with exponent {exponent} and mean {mean}"),
        }
    }
}

/// An error in the text form of [`Counts`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountsError {
    /// The text does not match any of the forms.
    #[error("expected constant:20, uniform:0:20, poisson:10, zipf:1.1 or, with a mean count, zipf:1.1:10")]
    Form,
    /// A number is invalid, too large or too small.
    #[error("{0}")]
    Number(String),
}

impl FromStr for Counts {
    type Err = CountsError;

    /// Parses `constant:20`, `uniform:0:20`, `poisson:10`, `zipf:1.1` (10 arrivals per key) or `zipf:1.1:20` (20 per
    /// key).
    fn from_str(text: &str) -> Result<Self, CountsError> {
        let counts = match text.split(':').collect::<Vec<_>>()[..] {
            ["constant", count] => Self::Constant(number(count)?),
            ["uniform", smallest, largest] => Self::Uniform { smallest: number(smallest)?, largest: number(largest)? },
            ["poisson", mean] => Self::Poisson { mean: number(mean)? },
            ["zipf", exponent] => Self::Zipf { exponent: number(exponent)?, mean: ZIPF_MEAN },
            ["zipf", exponent, mean] => Self::Zipf { exponent: number(exponent)?, mean: number(mean)? },
            _ => return Err(CountsError::Form),
        };
        counts.check()?;
        Ok(counts)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, CountsError> {
    text.parse().map_err(|_| CountsError::Number(format!("'{text}' is not a valid number")))
}

/// Rejects numbers out of range, and NaN.
fn within(what: &str, number: f64, least: f64, most: f64) -> Result<(), CountsError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(CountsError::Number(format!("{what} must be from {least} to {most}, not {number}")))
}

/// Maximum exponent. Above it, nearly all arrivals are for one key.
const EXPONENT_MAX: f64 = 10.0;
/// Minimum mean. Below it, even the largest study would insert almost no keys.
const MEAN_MIN: f64 = 0.001;
/// The mean count of the paper's experiments 4, 5 and 6.
const ZIPF_MEAN: f64 = 10.0;

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::ChaCha8Rng;

    use super::*;

    fn draw(text: &str, keys: usize) -> Vec<u32> {
        text.parse::<Counts>().unwrap().draw(keys, &mut ChaCha8Rng::seed_from_u64(1))
    }

    fn mean(counts: &[u32]) -> f64 {
        counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64
    }

    #[test]
    fn counts_follow_their_distribution() {
        assert_eq!(draw("constant:20", 3), [20; 3]);
        let uniform = draw("uniform:2:8", 10_000);
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&2), Some(&8)));
        assert!((mean(&uniform) - 5.0).abs() < 0.1);
        let poisson = draw("poisson:10", 10_000);
        assert!((mean(&poisson) - 10.0).abs() < 0.15);
        // e^−10 · 10^10 / 10! = 0.125 of the keys arrive exactly ten times.
        assert!((1150..1350).contains(&poisson.iter().filter(|&&count| count == 10).count()));
    }

    #[test]
    fn zipf_arrivals_add_up_and_are_skewed() {
        let mut zipf = draw("zipf:1.1", 10_000);
        assert_eq!(zipf.iter().sum::<u32>(), 100_000);
        assert_ne!(zipf.iter().max(), zipf.first());
        zipf.sort_unstable_by(|a, b| b.cmp(a));
        // 1 / (1 + 2^−1.1 + … + 10000^−1.1) = 0.151 of the arrivals are for the first key, 0.071 for the second.
        assert!((14_500..15_800).contains(&zipf[0]) && (6_600..7_600).contains(&zipf[1]), "{:?}", &zipf[..2]);
        assert_eq!(draw("zipf:0:3", 1000).iter().sum::<u32>(), 3000);
    }

    #[test]
    fn known_figures_of_a_draw_are_kept() {
        let counts = Counts::Uniform { smallest: 0, largest: 20 };
        let known = PaperDraw { nonzero: Some(9_463), insertions: Some(99_910) };
        let drawn = counts.draw_like(10_000, known, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!((drawn.len(), drawn.iter().filter(|&&count| count > 0).count()), (10_000, 9_463));
        assert_eq!((drawn.iter().sum::<u32>(), drawn.iter().max()), (99_910, Some(&20)));
        // The counts are still uniform: each count occurs 473 ± 21 times, and the sum is within two standard deviations
        // of its expected value.
        for count in 1..=20 {
            assert!((390..560).contains(&drawn.iter().filter(|&&drawn| drawn == count).count()), "{count}");
        }
    }

    #[test]
    fn invalid_notations_of_counts_are_rejected() {
        for text in ["", "constant", "constant:0", "constant:-1", "constant:1000001", "uniform:3", "uniform:5:2"] {
            assert!(text.parse::<Counts>().is_err(), "{text}");
        }
        for text in ["uniform:0:0", "poisson:0", "poisson:NaN", "poisson:inf", "zipf:-1", "zipf:11", "zipf:1:0", "x:1"]
        {
            assert!(text.parse::<Counts>().is_err(), "{text}");
        }
        assert_eq!("zipf:1.1".parse(), Ok(Counts::Zipf { exponent: 1.1, mean: 10.0 }));
        for text in ["constant:20", "uniform:0:20", "poisson:0.5", "zipf:1.1:10"] {
            assert_eq!(text.parse::<Counts>().unwrap().notation(), text);
        }
    }
}
