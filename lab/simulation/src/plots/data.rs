//! Data and number formats that several plots share.

use crate::{ConfigurationResult, Experiment, ExperimentResult};

/// Maximum number of rows of panels in a picture, enough for the 5 sizes of the paper's last experiment.
pub(super) const ROWS_MAX: usize = 8;

/// Maximum number of panels side by side. More would be too narrow for their labels.
pub(super) const COLUMNS_MAX: usize = 5;

/// Returns all numbers of cells, in ascending order.
pub(super) fn sizes(result: &ExperimentResult) -> Vec<u64> {
    sorted(result.configurations.iter().map(|configuration| configuration.m))
}

/// Returns all numbers of hash functions, in ascending order.
pub(super) fn hashes(result: &ExperimentResult) -> Vec<u32> {
    sorted(result.configurations.iter().map(|configuration| configuration.k))
}

/// Returns the first configuration with m cells and k hash functions.
pub(super) fn find(result: &ExperimentResult, m: u64, k: u32) -> Option<&ConfigurationResult> {
    result.configurations.iter().find(|configuration| (configuration.m, configuration.k) == (m, k))
}

/// Sorts and deduplicates.
pub(super) fn sorted<T: Ord>(numbers: impl Iterator<Item = T>) -> Vec<T> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns true if a logarithmic axis can show the number.
pub(super) fn has_logarithm(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

/// Returns a title with an experiment's number, counts and order.
pub(super) fn experiment_title(experiment: Experiment) -> String {
    format!("Experiment {}: {}, {}", experiment.number(), experiment.counts(), experiment.order())
}

/// Formats the size of a filter, in cells, as the paper does: 80K.
pub(super) fn size_label(m: u64) -> String {
    if m >= 1000 && m.is_multiple_of(1000) { format!("{}K", grouped(m / 1000)) } else { grouped(m) }
}

/// Formats a number of rounds as "1 round" or "1,000 rounds".
pub(super) fn rounds_label(rounds: u64) -> String {
    format!("{} round{}", grouped(rounds), if rounds == 1 { "" } else { "s" })
}

/// Returns the name of the plotted value: the mean over several rounds, or the value of a single round.
pub(super) fn mean_label(rounds: u64) -> String {
    format!("{}{}", if rounds == 1 { "" } else { "mean of " }, rounds_label(rounds))
}

/// Groups the digits by three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_the_paper() {
        assert_eq!([80_000, 1_280_000, 1_500, 999, 0].map(size_label), ["80K", "1,280K", "1,500", "999", "0"]);
        assert_eq!([1, 1_000].map(rounds_label), ["1 round", "1,000 rounds"]);
        assert_eq!([1, 1_000].map(mean_label), ["1 round", "mean of 1,000 rounds"]);
    }
}
