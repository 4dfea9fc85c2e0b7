//! A recorder's page, in memory and encoded.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | the version, 1 |
//! | 1 | the length of the name |
//! | … | the name of the router or server, in UTF-8 |
//! | 8 | number of packets or messages recorded, little-endian |
//! | … | a filter file with its key (`docs/design/filter-files.md`) |

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::file::{self, FileError, Label};

use super::Invariant;
use crate::pages::{PageName, Pages, PagesError, Span};

/// Maximum length of the name of a router or server.
pub const NAME_BYTES_MAX: usize = 64;

/// Maximum length of a page's content, enough for the maximum number of items at the lowest rate.
pub const PAGE_BYTES_MAX: u64 = 128 << 20;

const VERSION: u8 = 1;

/// The packets or messages that one router or server saw in a span of time.
#[derive(Debug)]
pub struct TracePage {
    /// Name of the router or server.
    pub name: String,
    /// Number of packets or messages, including duplicates.
    pub items: u64,
    /// Key of the fingerprints.
    pub key: FingerprintKey,
    /// Filter of the fingerprints.
    pub filter: OneLineFilter,
}

/// An error in the content of a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracePageError {
    /// The version is not supported.
    #[error("uses format version {0}, which is not supported")]
    UnsupportedVersion(u8),
    /// The data ends too early.
    #[error("ends too early")]
    Truncated,
    /// The name is too long, is empty, or contains invisible characters.
    #[error("has a name that is not 1 to {NAME_BYTES_MAX} bytes of visible text")]
    Name,
    /// The filter is damaged, or is of another kind.
    #[error("has an invalid filter: {0}")]
    Filter(#[from] FileError),
    /// The filter has no key.
    #[error("has a filter without a key")]
    NoKey,
}

/// Returns an iterator that reads pages. Pages removed since the directory was listed are skipped. An unreadable page
/// yields an error message, and the iteration continues.
pub fn read_pages<'p>(
    pages: &'p Pages,
    names: impl Iterator<Item = &'p PageName>,
) -> impl Iterator<Item = Result<(Span, TracePage), String>> {
    names.filter_map(|name| {
        let content = match pages.read(name, PAGE_BYTES_MAX) {
            Err(PagesError::Gone { .. }) => return None,
            content => content.map_err(|error| error.to_string()),
        };
        let decode = |content: Vec<u8>| TracePage::decode(&content).map_err(|error| format!("{name} {error}"));
        Some(content.and_then(decode).map(|page| (name.span, page)))
    })
}

/// Checks the name of a router or server: 1 to [`NAME_BYTES_MAX`] bytes, no blanks, no control characters.
///
/// # Errors
/// [`TracePageError::Name`] if it is invalid.
pub fn ensure_name(name: &str) -> Result<(), TracePageError> {
    let is_visible = name.chars().all(|char| !char.is_control() && !char.is_whitespace());
    if is_visible && (1..=NAME_BYTES_MAX).contains(&name.len()) { Ok(()) } else { Err(TracePageError::Name) }
}

impl TracePage {
    /// Returns true if `invariant` may have been recorded. Always returns true for a recorded invariant.
    #[must_use]
    pub fn contains(&self, invariant: &Invariant) -> bool {
        self.filter.contains(&self.key.fingerprint(invariant.as_bytes()))
    }

    /// Returns the probability that [`contains`](Self::contains) returns true for an invariant that was not recorded.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        self.filter.estimated_false_positive_rate()
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, TracePageError> {
        ensure_name(&self.name)?;
        let mut bytes = vec![VERSION, self.name.len() as u8];
        bytes.extend(self.name.as_bytes());
        bytes.extend(self.items.to_le_bytes());
        let label = Label { generation: 0, key: Some(self.key.clone()) };
        file::encode(&self.filter, &label, &mut bytes)?;
        Ok(bytes)
    }

    /// Decodes the content of a page.
    ///
    /// # Errors
    /// [`TracePageError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, TracePageError> {
        let (&version, rest) = bytes.split_first().ok_or(TracePageError::Truncated)?;
        if version != VERSION {
            return Err(TracePageError::UnsupportedVersion(version));
        }
        let (&length, rest) = rest.split_first().ok_or(TracePageError::Truncated)?;
        let (name, rest) = rest.split_at_checked(length.into()).ok_or(TracePageError::Truncated)?;
        let name = std::str::from_utf8(name).map_err(|_| TracePageError::Name)?;
        ensure_name(name)?;
        let (items, mut rest) = rest.split_first_chunk().ok_or(TracePageError::Truncated)?;
        // If a filter claims to be larger than the remaining data, it is rejected before memory is allocated.
        let limit = rest.len() as u64;
        let stored = file::decode(&mut rest, limit)?;
        Ok(Self {
            name: name.to_owned(),
            items: u64::from_le_bytes(*items),
            key: stored.key.ok_or(TracePageError::NoKey)?,
            filter: OneLineFilter::try_from(stored.filter)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> TracePage {
        let key = FingerprintKey::narrow([5; 16]);
        let mut filter = OneLineFilter::new(2, 6, 40, key.id()).unwrap();
        filter.insert(&key.fingerprint(Invariant::of_message(b"seen").as_bytes()));
        TracePage { name: name.to_owned(), items: 3, key, filter }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let read = TracePage::decode(&page("edge-1").encode().unwrap()).unwrap();
        assert_eq!((read.name.as_str(), read.items), ("edge-1", 3));
        assert!(read.contains(&Invariant::of_message(b"seen")));
        assert_eq!((read.key, read.filter), (page("").key, page("").filter));
    }

    #[test]
    fn names_are_short_and_visible() {
        let longest = "n".repeat(NAME_BYTES_MAX);
        assert_eq!(TracePage::decode(&page(&longest).encode().unwrap()).unwrap().name, longest);
        for name in ["", "two words", "line\n", "\u{7}", &"n".repeat(NAME_BYTES_MAX + 1)] {
            assert!(matches!(page(name).encode(), Err(TracePageError::Name)), "{name:?}");
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let bytes = page("edge-1").encode().unwrap();
        for length in 0..bytes.len() {
            assert!(TracePage::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            // The page's checksum detects changes, so decoding only has to avoid a panic.
            let _ = TracePage::decode(&changed);
        }
    }

    #[test]
    fn a_filter_without_its_key_is_of_no_use() {
        let page = page("a");
        let mut bytes = vec![1, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 0];
        file::encode(&page.filter, &Label::default(), &mut bytes).unwrap();
        assert!(matches!(TracePage::decode(&bytes), Err(TracePageError::NoKey)));
    }
}
