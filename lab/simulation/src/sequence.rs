//! The sequence of all insertions in a round.

use rand::Rng;
use rand::seq::SliceRandom as _;

use crate::Order;

/// The order of a round's insertions. Keys are numbered 0, 1, 2 …
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Every key once, then every key again, and so on. Keys whose count is used up are skipped.
    Rounds,
    /// All insertions of a key in a row, then the next key.
    Runs,
    /// All insertions, in the order that was drawn.
    Shuffled(Vec<u32>),
}

impl Sequence {
    /// Builds the sequence of insertions for keys with these counts, in the given order.
    pub(crate) fn draw(order: Order, counts: &[u32], random: &mut impl Rng) -> Self {
        match order {
            Order::Rounds => Self::Rounds,
            Order::Runs => Self::Runs,
            Order::Shuffled => {
                let runs = (0u32..).zip(counts).flat_map(|(key, &count)| std::iter::repeat_n(key, count as usize));
                let mut keys: Vec<u32> = runs.collect();
                keys.shuffle(random);
                Self::Shuffled(keys)
            }
        }
    }
}
