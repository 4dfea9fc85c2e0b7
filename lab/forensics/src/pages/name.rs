//! Spans of time, and the names of pages.

use std::fmt;

/// The last second that fits into a name. It has 11 digits and is in the year 5138.
pub const SECONDS_MAX: u64 = 99_999_999_999;

const SECONDS_DIGITS: usize = 11;
const NUMBER_DIGITS: usize = 10;
const SUFFIX: &str = ".page";

/// A span of time in seconds since 1970, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first second.
    pub from: u64,
    /// The last second.
    pub to: u64,
}

impl Span {
    /// All of time.
    pub const ALL: Self = Self { from: 0, to: u64::MAX };

    /// Returns the span that begins `seconds` before `time` and ends `seconds` after it.
    #[must_use]
    pub const fn around(time: u64, seconds: u64) -> Self {
        Self { from: time.saturating_sub(seconds), to: time.saturating_add(seconds) }
    }

    /// Returns true if the two spans have a second in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The name of a page: `FROM-TO-NUMBER.page`, with zero-padded numbers, so that names sort by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageName {
    /// Span of the page.
    pub span: Span,
    /// Place in the order of writing. It also distinguishes pages of the same span.
    pub number: u32,
    /// Length of the file. It is not part of the name.
    pub bytes: u64,
}

impl PageName {
    /// Returns the disk usage, in whole blocks.
    #[must_use]
    pub const fn disk_bytes(&self) -> u64 {
        super::on_disk(self.bytes)
    }

    /// Parses a name. Only the exact form that is written is accepted. The length is left at 0.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix(SUFFIX)?.split('-');
        let (from, to) = (digits(parts.next()?, SECONDS_DIGITS)?, digits(parts.next()?, SECONDS_DIGITS)?);
        let number = u32::try_from(digits(parts.next()?, NUMBER_DIGITS)?).ok()?;
        let is_whole = parts.next().is_none() && from <= to;
        is_whole.then_some(Self { span: Span { from, to }, number, bytes: 0 })
    }
}

fn digits(text: &str, count: usize) -> Option<u64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for PageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { from, to } = self.span;
        write!(f, "{from:0SECONDS_DIGITS$}-{to:0SECONDS_DIGITS$}-{:0NUMBER_DIGITS$}{SUFFIX}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let page = PageName { span: Span { from: 0, to: SECONDS_MAX }, number: u32::MAX, bytes: 0 };
        assert_eq!(page.to_string(), "00000000000-99999999999-4294967295.page");
        assert_eq!(PageName::parse(&page.to_string()), Some(page));
    }

    #[test]
    fn files_with_other_names_are_ignored() {
        for text in [
            "",
            ".page",
            "notes.page",
            "00000000001-00000000000-0000000001.page",
            "0000000001-00000000002-0000000001.page",
            "00000000001-00000000002-0000000001.pagE",
            "00000000001-00000000002-0000000001-1.page",
            "00000000001-00000000002-4294967296.page",
            "0000000000+-00000000002-0000000001.page",
        ] {
            assert_eq!(PageName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn spans_overlap_where_they_share_a_second() {
        let span = |from, to| Span { from, to };
        assert!(span(1, 5).overlaps(span(5, 9)) && span(5, 9).overlaps(span(1, 5)) && span(1, 9).overlaps(span(3, 4)));
        assert!(!span(1, 5).overlaps(span(6, 9)) && !span(6, 9).overlaps(span(1, 5)));
        assert_eq!((Span::around(10, 3), Span::around(1, 3)), (span(7, 13), span(0, 4)));
        assert!(Span::around(u64::MAX, 1).overlaps(Span::ALL));
    }
}
