//! Whitelisted senders (addresses, domains, and all subdomains of a domain) and whitelisted mailing lists, whose mail
//! is never bulk.

use std::collections::BTreeSet;

use crate::codec::{Malformed, Reader, put_count};

/// Maximum number of patterns.
pub const SENDERS_MAX: usize = 65_536;

/// Maximum length of a pattern, and of a sender to look up. RFC 5321 (4.5.3.1) allows 64 bytes before the `@` and 255
/// after it.
pub const SENDER_BYTES_MAX: usize = 64 + 1 + 255;

/// A set of patterns in normal form.
///
/// | pattern | normal form | senders |
/// |---|---|---|
/// | `Alice@Example.org`, `<alice@example.org>` | `alice@example.org` | that address |
/// | `example.org`, `@example.org`, `*@example.org` | `example.org` | all addresses of that domain |
/// | `.example.org`, `*.example.org`, `*@*.example.org` | `.example.org` | all addresses of subdomains |
/// | `list:Announce.example.org`, `list:<announce.example.org>` | `list:announce.example.org` | that mailing list |
/// | `list:.example.org`, `list:*.example.org` | `list:.example.org` | all mailing lists below that domain |
///
/// ASCII letters are compared case-insensitively, including those before the `@`. Internationalised names must be given
/// in the form used in messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Senders(BTreeSet<Box<[u8]>>);

/// Prefix of a mailing list's pattern. It is unambiguous, because domains contain no colon.
const LIST: &[u8] = b"list:";

/// Error for a pattern that cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SenderError {
    /// The pattern is neither an address nor a domain nor a mailing list.
    #[error(
        "invalid pattern: expected an address, a domain like 'example.org', its subdomains like '.example.org', or a \
         mailing list like 'list:announce.example.org'"
    )]
    NotAPattern,
    /// The pattern is longer than [`SENDER_BYTES_MAX`].
    #[error("a sender must be at most {SENDER_BYTES_MAX} bytes long")]
    TooLong,
    /// There are [`SENDERS_MAX`] patterns already.
    #[error("the whitelist already has the maximum of {SENDERS_MAX} senders: list domains instead of addresses")]
    Full,
}

impl Senders {
    /// Lists a pattern and returns true if it is new.
    ///
    /// # Errors
    /// [`SenderError`]; the list is then unchanged.
    pub fn add(&mut self, pattern: &[u8]) -> Result<bool, SenderError> {
        let pattern = normalised(pattern)?;
        if self.0.contains(&*pattern) {
            return Ok(false);
        }
        if self.0.len() >= SENDERS_MAX {
            return Err(SenderError::Full);
        }
        Ok(self.0.insert(pattern.into()))
    }

    /// Removes a pattern, in any spelling, and returns true if it was listed.
    pub fn remove(&mut self, pattern: &[u8]) -> bool {
        normalised(pattern).is_ok_and(|pattern| self.0.remove(&*pattern))
    }

    /// Returns true if a sender's address, its domain or a parent domain is listed.
    ///
    /// Senders can be forged, so call this only for verified senders.
    #[must_use]
    pub fn contains(&self, sender: &[u8]) -> bool {
        let sender = bare(sender);
        if sender.len() > SENDER_BYTES_MAX || self.0.is_empty() {
            return false;
        }
        let sender = sender.to_ascii_lowercase();
        let Some(at) = sender.iter().rposition(|&byte| byte == b'@') else { return false };
        let domain = &sender[at + 1..];
        let mut below = (0..domain.len()).filter(|&dot| domain[dot] == b'.').map(|dot| &domain[dot..]);
        let is_list = domain.starts_with(LIST);
        !is_list && (self.0.contains(&*sender) || self.0.contains(domain) || below.any(|above| self.0.contains(above)))
    }

    /// Returns true if a mailing list is listed by its identifier or by a parent domain.
    #[must_use]
    pub fn contains_list(&self, identifier: &[u8]) -> bool {
        let identifier = bare(identifier);
        if identifier.len() > SENDER_BYTES_MAX || self.0.is_empty() {
            return false;
        }
        let identifier = identifier.to_ascii_lowercase();
        let below = (0..identifier.len()).filter(|&dot| identifier[dot] == b'.').map(|dot| &identifier[dot..]);
        std::iter::once(&*identifier).chain(below).any(|pattern| self.0.contains(&*[LIST, pattern].concat()))
    }

    /// Returns the number of patterns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the patterns in normal form, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|pattern| &**pattern)
    }

    /// Returns the memory of the patterns. Entries count twice, because tree nodes may be half empty.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let patterns: usize = self.iter().map(<[u8]>::len).sum();
        (patterns + 2 * self.len() * size_of::<Box<[u8]>>()) as u64
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for pattern in self.iter() {
            // Patterns are shorter than 64 KiB.
            out.extend((pattern.len() as u16).to_le_bytes());
            out.extend(pattern);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(SENDERS_MAX, 2, "the number of senders")?;
        let mut senders = Self::default();
        let mut before: &[u8] = &[];
        for at in 0..count {
            let length = reader.u16("the length of a sender")?;
            let pattern = reader.bytes(length.into(), "a sender")?;
            if pattern <= before || normalised(pattern).as_deref() != Ok(pattern) {
                return Err(Malformed::OutOfRange { what: "the position of a sender", value: at as u64 });
            }
            senders.0.insert(pattern.into());
            before = pattern;
        }
        Ok(senders)
    }
}

/// Returns the normal form of a pattern.
fn normalised(pattern: &[u8]) -> Result<Vec<u8>, SenderError> {
    let pattern = bare(pattern);
    if pattern.len() > SENDER_BYTES_MAX {
        return Err(SenderError::TooLong);
    }
    if let Some((prefix, list)) =
        pattern.split_at_checked(LIST.len()).filter(|(start, _)| start.eq_ignore_ascii_case(LIST))
    {
        return normalised_list(bare(list)).map(|list| [prefix.to_ascii_lowercase(), list].concat());
    }
    let pattern = pattern.strip_prefix(b"*@").or_else(|| pattern.strip_prefix(b"@")).unwrap_or(pattern);
    let pattern = pattern.strip_prefix(b"*").filter(|rest| rest.starts_with(b".")).unwrap_or(pattern);
    let domain = pattern.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    let is_address = domain.len() < pattern.len();
    let labels = if is_address { domain } else { domain.strip_prefix(b".").unwrap_or(domain) };
    let has_local_part = !is_address || pattern.len() > domain.len() + 1;
    if has_local_part && is_domain(labels) && pattern.iter().all(is_allowed) {
        Ok(pattern.to_ascii_lowercase())
    } else {
        Err(SenderError::NotAPattern)
    }
}

/// Returns the normal form of a mailing list's pattern, without the prefix.
fn normalised_list(pattern: &[u8]) -> Result<Vec<u8>, SenderError> {
    let pattern = pattern.strip_prefix(b"*").filter(|rest| rest.starts_with(b".")).unwrap_or(pattern);
    let labels = pattern.strip_prefix(b".").unwrap_or(pattern);
    let is_list = is_domain(labels) && labels.iter().all(|byte| is_allowed(byte) && !matches!(byte, b'@' | b':'));
    if is_list { Ok(pattern.to_ascii_lowercase()) } else { Err(SenderError::NotAPattern) }
}

/// Returns true if a byte can be part of a normal form. The syntax characters of patterns cannot.
fn is_allowed(byte: &u8) -> bool {
    *byte > b' ' && !matches!(byte, b'*' | b'<' | b'>' | 0x7f)
}

fn is_domain(labels: &[u8]) -> bool {
    labels.split(|&byte| byte == b'.').all(|label| !label.is_empty())
}

/// Removes white space and angle brackets around a sender, and a trailing dot.
fn bare(sender: &[u8]) -> &[u8] {
    let sender = sender.trim_ascii();
    let inner = sender.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(sender);
    inner.strip_suffix(b".").unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(patterns: &[&str]) -> Senders {
        let mut senders = Senders::default();
        patterns.iter().for_each(|pattern| assert_eq!(senders.add(pattern.as_bytes()), Ok(true)));
        senders
    }

    #[test]
    fn a_pattern_has_one_normal_form() {
        for (spelling, patterns) in [
            ("alice@example.org", &["Alice@Example.ORG", " <alice@example.org> ", "alice@example.org."][..]),
            ("example.org", &["@example.org", "*@Example.org", "example.org."]),
            (".example.org", &["*.example.org", "*@*.example.org", "@.example.org"]),
            (
                "list:news.example.org",
                &["LIST:News.example.org", "list: <news.example.org>", "<list:news.example.org>"],
            ),
            ("list:.example.org", &["list:*.example.org", "List:.Example.org."]),
        ] {
            for pattern in patterns {
                assert_eq!(senders(&[pattern]), senders(&[spelling]), "{pattern}");
                let mut listed = senders(&[spelling]);
                assert_eq!(listed.add(pattern.as_bytes()), Ok(false));
                assert!(listed.remove(pattern.as_bytes()) && listed.is_empty());
            }
        }
    }

    #[test]
    fn patterns_match_their_senders() {
        let listed = senders(&["alice@example.org", "example.com", ".example.net"]);
        for sender in
            ["ALICE@example.org", "<alice@example.org>", "any@example.com", "a@b.example.net", "a@c.b.Example.net."]
        {
            assert!(listed.contains(sender.as_bytes()), "{sender}");
        }
        for sender in [
            "bob@example.org",
            "any@sub.example.com",
            "any@badexample.com",
            "any@example.net",
            "a@badexample.net",
            "example.com@evil.example",
            "",
            "<>",
            "example.com",
            "@",
        ] {
            assert!(!listed.contains(sender.as_bytes()), "{sender}");
        }
    }

    #[test]
    fn lists_are_listed_by_identifier_and_no_sender_is_one() {
        let listed = senders(&["list:news.example.org", "list:.example.net", "example.com"]);
        for list in ["news.example.org", "<News.Example.org>", "a.example.net", "b.a.example.net"] {
            assert!(listed.contains_list(list.as_bytes()), "{list}");
        }
        for list in ["other.example.org", "a.news.example.org", "example.net", "badexample.net", "example.com", "", "."]
        {
            assert!(!listed.contains_list(list.as_bytes()), "{list}");
        }
        for sender in
            ["a@list:news.example.org", "list:news.example.org", "a@news.example.org", "a@b.list:.example.net"]
        {
            assert!(!listed.contains(sender.as_bytes()), "{sender}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in [
            "",
            "@",
            "*",
            ".",
            "*.",
            "a b@example.org",
            "a*@example.org",
            "ex..org",
            "a@",
            "a@.org",
            "a@b@",
            "<<a@b>>",
            "@@b",
            "*@@b",
            "list:",
            "list:.",
            "list:a b.c",
            "list:a@b.c",
            "list:list:a.b",
        ] {
            assert_eq!(Senders::default().add(pattern.as_bytes()), Err(SenderError::NotAPattern), "{pattern}");
        }
    }

    #[test]
    fn the_length_of_patterns_and_senders_is_bounded() {
        let longest = format!("a@{}", "b".repeat(SENDER_BYTES_MAX - 2));
        assert!(senders(&[&longest]).contains(longest.as_bytes()));
        assert_eq!(Senders::default().add(format!("{longest}b").as_bytes()), Err(SenderError::TooLong));
        let all = senders(&["example.org"]);
        let local = "a".repeat(SENDER_BYTES_MAX - "@example.org".len());
        assert!(all.contains(format!("{local}@example.org").as_bytes()));
        assert!(!all.contains(format!("a{local}@example.org").as_bytes()));
    }

    #[test]
    fn the_list_ends_at_its_bound() {
        let mut senders = Senders::default();
        for at in 0..SENDERS_MAX {
            senders.add(format!("{at}.example").as_bytes()).unwrap();
        }
        assert_eq!(senders.add(b"one.more"), Err(SenderError::Full));
        assert_eq!(senders.add(b"7.example"), Ok(false));
    }
}
