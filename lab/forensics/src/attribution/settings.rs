//! Settings of a recording.

use bruit_filters::bloom::ONE_LINE_HASHES_MAX;
use bruit_structures::blocks::BlockShape;

use super::bytes::PAGE_BYTES_MAX;

/// Minimum disk share of a page.
pub const PAGE_SHARE_BYTES_MIN: u64 = 64 * 1024;

const SECONDS_PER_HOUR: u64 = 3600;

/// The list of pairs may use the size of a page divided by this number.
const PAIRS_SHARE: u64 = 4;

/// Maximum number of bytes in a page besides the filter contents and the pairs: the page header and two filter headers.
const OVERHEAD_BYTES: u64 = 1024;

const LINE_BYTES: u64 = 64;

/// The number of lines is a multiple of this number. A page with little content can thus be folded to a thousandth of
/// its size.
const FOLDABLE_LINES: u64 = 1024;

/// Settings of a recorder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length and levels of the blocks that payloads are cut into.
    pub shape: BlockShape,
    /// Disk limit per hour of traffic.
    pub bytes_per_hour: u64,
    /// Length of a page's span.
    pub page_seconds: u64,
    /// Target false-positive rate of a digest. The actual rate is higher if the disk limit is too low.
    pub false_positive_rate: f64,
}

/// An error in the settings.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The share of a page is below the minimum.
    #[error(
        "{0} bytes per page are less than the minimum of {PAGE_SHARE_BYTES_MIN}: \
         allow more bytes per hour or longer pages"
    )]
    TooSmall(u64),
    /// The share of a page is above the maximum.
    #[error("{0} bytes per page exceed the limit of {PAGE_BYTES_MAX}: allow fewer bytes per hour or shorter pages")]
    TooLarge(u64),
    /// The span of a page is 0.
    #[error("the span of a page must be at least one second")]
    NoSpan,
    /// The rate is not between 0 and 1.
    #[error("the rate must be between 0 and 1")]
    Rate,
}

impl Settings {
    /// Returns the disk share of one page.
    #[must_use]
    pub const fn page_share_bytes(&self) -> u64 {
        (self.bytes_per_hour as u128 * self.page_seconds as u128 / SECONDS_PER_HOUR as u128) as u64
    }

    /// Validates the settings.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn checked(self) -> Result<Self, SettingsError> {
        let share = self.page_share_bytes();
        match self {
            Self { page_seconds: 0, .. } => Err(SettingsError::NoSpan),
            Self { false_positive_rate: rate, .. } if !(rate > 0.0 && rate < 1.0) => Err(SettingsError::Rate),
            _ if share < PAGE_SHARE_BYTES_MIN => Err(SettingsError::TooSmall(share)),
            _ if share > PAGE_BYTES_MAX => Err(SettingsError::TooLarge(share)),
            settings => Ok(settings),
        }
    }

    /// Returns the settings for a page of at most `bytes` on disk; `None` if `bytes` is below the minimum share.
    pub(super) fn with_page_bytes(self, bytes: u64) -> Option<Self> {
        let bytes = bytes.min(self.page_share_bytes());
        if bytes < PAGE_SHARE_BYTES_MIN {
            return None;
        }
        // Rounded down, so that the share does not exceed `bytes`.
        let per_hour = u128::from(bytes) * u128::from(SECONDS_PER_HOUR) / u128::from(self.page_seconds);
        let bytes_per_hour = if bytes == self.page_share_bytes() { self.bytes_per_hour } else { per_hour as u64 };
        Some(Self { bytes_per_hour, ..self })
    }

    /// Returns the maximum size of the list of pairs.
    pub(super) const fn pairs_bytes_max(&self) -> u64 {
        self.page_share_bytes() / PAIRS_SHARE
    }

    /// Returns the number of lines in each of the two filters.
    pub(super) const fn filter_lines(&self) -> usize {
        let lines = (self.page_share_bytes() - self.pairs_bytes_max() - OVERHEAD_BYTES) / 2 / LINE_BYTES;
        let foldable =
            if lines >= FOLDABLE_LINES { lines / FOLDABLE_LINES * FOLDABLE_LINES } else { 1 << lines.ilog2() };
        foldable as usize
    }

    /// Returns k, the number of hash functions that gives a half-full filter the requested rate. (A half-full filter
    /// makes the best use of its bits.)
    pub(super) fn hashes(&self) -> u32 {
        (1.0 / self.false_positive_rate).log2().round().clamp(1.0, f64::from(ONE_LINE_HASHES_MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(bytes_per_hour: u64, page_seconds: u64) -> Settings {
        let shape = BlockShape::new(32, 6).unwrap();
        Settings { shape, bytes_per_hour, page_seconds, false_positive_rate: 0.01 }
    }

    #[test]
    fn a_page_has_its_share_of_the_hour_within_bounds() {
        assert_eq!(settings(6_000_000, 600).page_share_bytes(), 1_000_000);
        assert!(settings(PAGE_SHARE_BYTES_MIN, 3600).checked().is_ok());
        let below = PAGE_SHARE_BYTES_MIN - 1;
        assert_eq!(settings(below, 3600).checked(), Err(SettingsError::TooSmall(below)));
        assert!(settings(PAGE_BYTES_MAX, 3600).checked().is_ok());
        assert_eq!(settings(PAGE_BYTES_MAX + 1, 3600).checked(), Err(SettingsError::TooLarge(PAGE_BYTES_MAX + 1)));
        assert_eq!(settings(1 << 30, 0).checked(), Err(SettingsError::NoSpan));
        assert!(settings(u64::MAX, u64::MAX).checked().is_err());
        for rate in [0.0, 1.0, f64::NAN] {
            let settings = Settings { false_positive_rate: rate, ..settings(1 << 30, 60) };
            assert_eq!(settings.checked(), Err(SettingsError::Rate));
        }
    }

    #[test]
    fn filters_and_pairs_take_no_more_than_the_share() {
        for bytes in [PAGE_SHARE_BYTES_MIN, 100_000, 12_345_678, 1 << 30] {
            let settings = settings(bytes, 3600);
            let filters = 2 * settings.filter_lines() as u64 * LINE_BYTES;
            assert!(filters + settings.pairs_bytes_max() + OVERHEAD_BYTES <= bytes, "{bytes}");
            assert!(filters * 3 > bytes, "{bytes}: most of the share is used");
        }
    }
}
