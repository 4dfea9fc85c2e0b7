//! Senders whose mail is nobody's business: addresses, domains, and everything below a domain; and mailing lists, whose mail
//! is never bulk.

use std::collections::BTreeSet;

use crate::codec::{Malformed, Reader, put_count};

/// Most patterns.
pub const SENDERS_MAX: usize = 65_536;

/// The longest pattern, and the longest sender that is looked at: what RFC 5321 (4.5.3.1) allows, 64 bytes before the `@`
/// and 255 behind it.
pub const SENDER_BYTES_MAX: usize = 64 + 1 + 255;

/// The patterns, each in one spelling.
///
/// | pattern | spelling | senders |
/// |---|---|---|
/// | `Alice@Example.org`, `<alice@example.org>` | `alice@example.org` | that address |
/// | `example.org`, `@example.org`, `*@example.org` | `example.org` | everybody there |
/// | `.example.org`, `*.example.org`, `*@*.example.org` | `.example.org` | everybody below it, not at it |
/// | `list:Announce.example.org`, `list:<announce.example.org>` | `list:announce.example.org` | that mailing list |
/// | `list:.example.org`, `list:*.example.org` | `list:.example.org` | every mailing list below it |
///
/// ASCII letters have no case, also before the `@`. Names in other letters have to be given as they are on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Senders(BTreeSet<Box<[u8]>>);

/// What the pattern of a mailing list begins with. No domain has a colon.
const LIST: &[u8] = b"list:";

/// Why a pattern is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SenderError {
    /// Neither an address nor a domain.
    #[error(
        "a sender is listed as an address, as 'example.org', or as '.example.org' for all domains below it, and a mailing list \
         as 'list:announce.example.org'"
    )]
    NotAPattern,
    /// Longer than [`SENDER_BYTES_MAX`].
    #[error("a sender has at most {SENDER_BYTES_MAX} bytes")]
    TooLong,
    /// [`SENDERS_MAX`].
    #[error("{SENDERS_MAX} senders are listed already: list their domains instead")]
    Full,
}

impl Senders {
    /// Lists a pattern; says whether it is new.
    ///
    /// # Errors
    /// [`SenderError`]; nothing has changed then.
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

    /// Takes a pattern off the list, in whichever spelling; says whether it was there.
    pub fn remove(&mut self, pattern: &[u8]) -> bool {
        normalised(pattern).is_ok_and(|pattern| self.0.remove(&*pattern))
    }

    /// Whether a sender's address is listed, or its domain, or one above that.
    ///
    /// Anybody can write anybody's name: ask only for senders that were verified.
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

    /// Whether a mailing list is listed by its identifier, or everything below one of its domains is.
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

    /// How many patterns are listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns in their one spelling, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|pattern| &**pattern)
    }

    /// The memory of the patterns, with the half that the nodes of a tree may leave empty.
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
                return Err(Malformed::OutOfRange { what: "the place of a sender", value: at as u64 });
            }
            senders.0.insert(pattern.into());
            before = pattern;
        }
        Ok(senders)
    }
}

/// A pattern in its one spelling.
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

/// The pattern of a mailing list in its one spelling, without what it begins with.
fn normalised_list(pattern: &[u8]) -> Result<Vec<u8>, SenderError> {
    let pattern = pattern.strip_prefix(b"*").filter(|rest| rest.starts_with(b".")).unwrap_or(pattern);
    let labels = pattern.strip_prefix(b".").unwrap_or(pattern);
    let is_list = is_domain(labels) && labels.iter().all(|byte| is_allowed(byte) && !matches!(byte, b'@' | b':'));
    if is_list { Ok(pattern.to_ascii_lowercase()) } else { Err(SenderError::NotAPattern) }
}

/// Not what the spellings are made of: a pattern in its one spelling is taken as it is.
fn is_allowed(byte: &u8) -> bool {
    *byte > b' ' && !matches!(byte, b'*' | b'<' | b'>' | 0x7f)
}

fn is_domain(labels: &[u8]) -> bool {
    labels.split(|&byte| byte == b'.').all(|label| !label.is_empty())
}

/// A sender without white space and angle brackets around it, and without the root's dot behind it.
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
    fn a_pattern_has_one_spelling() {
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
    fn patterns_list_the_senders_they_say() {
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
    fn what_is_no_pattern_is_refused() {
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
    fn patterns_and_senders_have_a_longest_length() {
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
