//! All insertions of a round, in their order.

use rand::Rng;
use rand::seq::SliceRandom as _;

use crate::Order;

/// The order of a round's insertions. Keys are called 0, 1, 2 …
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Every key once, as long as its count lasts, then all over again.
    Rounds,
    /// Every key as often as its count says, then the next.
    Runs,
    /// As drawn.
    Shuffled(Vec<u32>),
}

impl Sequence {
    /// The insertions of keys with these counts, in an order of this kind.
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
