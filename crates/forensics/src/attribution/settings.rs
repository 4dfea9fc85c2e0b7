//! What a recording is made with.

use bruit_filters::blocks::BlockShape;
use bruit_filters::bloom::ONE_LINE_HASHES_MAX;

use super::bytes::PAGE_BYTES_MAX;

/// The least that a page may take.
pub const PAGE_SHARE_BYTES_MIN: u64 = 64 * 1024;

const SECONDS_PER_HOUR: u64 = 3600;

/// What of a page is for its list of pairs: one part in so many.
const PAIRS_SHARE: u64 = 4;

/// What everything beside filters and pairs takes at most: the header of the page and those of two filters.
const OVERHEAD_BYTES: u64 = 1024;

const LINE_BYTES: u64 = 64;

/// Lines come in multiples of this, so that a page with little in it can be folded to a thousandth.
const FOLDABLE_LINES: u64 = 1024;

/// How to record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How payloads are cut.
    pub shape: BlockShape,
    /// The disk that an hour of traffic may take.
    pub bytes_per_hour: u64,
    /// How long the span of a page is.
    pub page_seconds: u64,
    /// The rate at which a digest may be found that was never recorded, as long as the disk suffices for it.
    pub false_positive_rate: f64,
}

/// Why nothing can be recorded so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A page is too small to be of use.
    #[error(
        "that leaves {0} bytes for a page, and {PAGE_SHARE_BYTES_MIN} are the least: allow more bytes an hour, or longer pages"
    )]
    TooSmall(u64),
    /// A page is too large.
    #[error(
        "that gives pages of {0} bytes, and {PAGE_BYTES_MAX} are the most: allow fewer bytes an hour, or shorter pages"
    )]
    TooLarge(u64),
    /// A span has to have a length.
    #[error("a page has to span at least a second")]
    NoSpan,
    /// It is no rate.
    #[error("a rate lies between 0 and 1")]
    Rate,
}

impl Settings {
    /// What one page may take.
    #[must_use]
    pub const fn page_share_bytes(&self) -> u64 {
        (self.bytes_per_hour as u128 * self.page_seconds as u128 / SECONDS_PER_HOUR as u128) as u64
    }

    /// Refuses what cannot be recorded with.
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

    /// The same for a page of at most `bytes` on disk; none if that is less than the share of a page may be.
    pub(super) fn with_page_bytes(self, bytes: u64) -> Option<Self> {
        let bytes = bytes.min(self.page_share_bytes());
        if bytes < PAGE_SHARE_BYTES_MIN {
            return None;
        }
        // Rounded down, so that the share is no more than that.
        let per_hour = u128::from(bytes) * u128::from(SECONDS_PER_HOUR) / u128::from(self.page_seconds);
        let bytes_per_hour = if bytes == self.page_share_bytes() { self.bytes_per_hour } else { per_hour as u64 };
        Some(Self { bytes_per_hour, ..self })
    }

    /// What the list of pairs may take.
    pub(super) const fn pairs_bytes_max(&self) -> u64 {
        self.page_share_bytes() / PAIRS_SHARE
    }

    /// Lines of each of the two filters.
    pub(super) const fn filter_lines(&self) -> usize {
        let lines = (self.page_share_bytes() - self.pairs_bytes_max() - OVERHEAD_BYTES) / 2 / LINE_BYTES;
        let foldable =
            if lines >= FOLDABLE_LINES { lines / FOLDABLE_LINES * FOLDABLE_LINES } else { 1 << lines.ilog2() };
        foldable as usize
    }

    /// k: a filter that is half full, which is the best use of its bits, then has the rate that is asked for.
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
            assert!(filters * 3 > bytes, "{bytes}: most of it is put to use");
        }
    }
}
