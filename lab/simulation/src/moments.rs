//! The mean and the standard deviation of a stream of numbers.

/// Count, mean and standard deviation of a stream of numbers.
///
/// The order of calls to [`push`](Self::push) and [`merge`](Self::merge) affects the last bits of the results; the same
/// order produces equal results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Adds one number.
    pub fn push(&mut self, number: f64) {
        self.merge(&Self { count: 1, mean: number, squares: 0.0 });
    }

    /// Adds all numbers of `other`, with the method of Chan, Golub and LeVeque.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * theirs / (ours + theirs);
        self.squares += other.squares + distance * distance * ours * theirs / (ours + theirs);
    }

    /// Returns how many numbers were added.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean, or 0 if there are no numbers.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the standard deviation. As in the paper's tables, the divisor is the count, not the count minus one. For
    /// example, if three of a thousand rounds have the rate 1e-4 and the others 0, the result is 5.469E-6, as printed
    /// in the paper, and not 5.472E-6.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }

    /// Returns the standard error of the mean.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.standard_deviation() / (self.count as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f64]) -> Moments {
        let mut moments = Moments::default();
        numbers.iter().for_each(|&number| moments.push(number));
        moments
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_numbers() {
        let moments = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((moments.count(), moments.mean(), moments.standard_deviation()), (8, 5.0, 2.0));
        assert!((moments.standard_error() - 2.0 / 8f64.sqrt()).abs() < 1e-15);
        assert_eq!((Moments::default().mean(), Moments::default().standard_error()), (0.0, 0.0));
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let numbers: Vec<f64> = (0..100).map(|i| f64::from(i * i % 37) * 1e-6).collect();
        let whole = of(&numbers);
        for cut in [0, 1, 50, 99, 100] {
            let (mut merged, rest) = (of(&numbers[..cut]), of(&numbers[cut..]));
            merged.merge(&rest);
            assert_eq!(merged.count(), 100);
            assert!((merged.mean() - whole.mean()).abs() < 1e-18);
            assert!((merged.standard_deviation() - whole.standard_deviation()).abs() < 1e-18);
        }
    }

    #[test]
    fn three_rounds_with_an_error_give_the_papers_deviation() {
        let mut numbers = vec![0.0; 997];
        numbers.extend([1e-4; 3]);
        let moments = of(&numbers);
        assert_eq!(format!("{:.3e} {:.3e}", moments.mean(), moments.standard_deviation()), "3.000e-7 5.469e-6");
    }
}
