//! The eight experiments of §5.1: insertions per key, their order, and the sizes of the filters.

use std::fmt;

use crate::Counts;

/// The numbers of hash functions that each experiment tries.
pub const HASHES: [u32; 3] = [4, 6, 8];

/// One of the paper's eight experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment(u8);

impl Experiment {
    /// All eight experiments, in order.
    pub const ALL: [Self; 8] = [Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7), Self(8)];

    /// Returns experiment `number` of the paper; `None` if there is no such experiment.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|experiment| u64::from(experiment.number()) == number)
    }

    /// Returns the number of the experiment in the paper.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the distribution of the insertions per key.
    #[must_use]
    pub const fn counts(self) -> Counts {
        match self.0 {
            1..=3 => Counts::Constant(20),
            4 | 5 => Counts::Uniform { smallest: 0, largest: 20 },
            6 => Counts::Poisson { mean: 10.0 },
            7 => Counts::Poisson { mean: 20.0 },
            _ => Counts::Uniform { smallest: 0, largest: 40 },
        }
    }

    /// Returns the known properties of the counts that the paper drew, once for all its rounds.
    #[must_use]
    pub const fn paper_draw(self) -> PaperDraw {
        match self.0 {
            4 | 5 => PaperDraw { nonzero: Some(9_463), insertions: Some(99_910) },
            6 => PaperDraw { nonzero: None, insertions: Some(99_564) },
            8 => PaperDraw { nonzero: Some(9_744), insertions: Some(198_054) },
            _ => PaperDraw { nonzero: None, insertions: None },
        }
    }

    /// Returns the order of the insertions.
    #[must_use]
    pub const fn order(self) -> Order {
        match self.0 {
            1 => Order::Rounds,
            2 | 5 => Order::Runs,
            _ => Order::Shuffled,
        }
    }

    /// Returns true if errors are also counted during the insertions. For these experiments, the paper shows how the
    /// errors grow.
    #[must_use]
    pub const fn has_growth(self) -> bool {
        matches!(self.0, 1 | 3)
    }

    /// Returns the numbers of cells tried.
    #[must_use]
    pub const fn sizes(self) -> &'static [u64] {
        if self.0 == 8 { &[80_000, 160_000, 240_000, 320_000, 640_000] } else { &[80_000, 160_000, 320_000] }
    }
}

/// Properties of the counts that the paper drew, derived from its results.
///
/// *Keys with a count above zero:* the intuitive rate is (1 − e^(−kn/m))^k. At m = 80K, solving for n gives 9,463 ± 7
/// in experiment 4 (9,524 ± 21 would be expected), and about 9,744 in experiment 8.
///
/// *Sum of the counts:* if there are few errors, the rate is a small whole number divided by 1,000 times the sum. So
/// the rate 1.501E-7 in experiment 4 can only result from 15 errors, and the rate 2.402E-7 in experiment 5 only from 24
/// errors, in both cases with a sum of 99,9xx. Taken together, all such rates leave these ranges for the sum: 99,907 to
/// 99,912 in experiments 4 and 5; 99,560 to 99,568 in experiment 6; and 198,050 to 198,057 in experiment 8. In
/// experiment 7, too many sums are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperDraw {
    /// Number of nonzero counts among the 10,000, if known.
    pub nonzero: Option<usize>,
    /// Sum of the counts, which is the number of insertions, if known.
    pub insertions: Option<u64>,
}

/// The order in which the keys are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All keys once, then all keys again: x1 x2 … x1 x2 …
    Rounds,
    /// All insertions of a key in a row, then the next key: x1 x1 … x2 x2 …
    Runs,
    /// A random permutation of all insertions, uniformly drawn.
    Shuffled,
}

impl Order {
    /// Returns the short name of the order.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Runs => "runs",
            Self::Shuffled => "shuffled",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rounds => "in rounds",
            Self::Runs => "in runs",
            Self::Shuffled => "shuffled",
        })
    }
}
