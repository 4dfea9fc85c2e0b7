//! The links of a message.
//!
//! A link is identified by its normalised host and path. The host is in lower case, without port, user, trailing dot
//! and `www.`. The path has no query, fragment or needless percent-escapes. The Public Suffix List determines the
//! registered part of a host.

use std::fmt;
use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};

use crate::exact::Sha256Signature;
use crate::hex;
use crate::reading::{LINK_BYTES_MAX, LINKS_MAX, Reading};

/// A link of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Host, in lower case.
    pub host: String,
    /// Path, with its leading slash.
    pub path: String,
}

impl Link {
    /// Parses a link as written in a text or page. Returns `None` unless it leads to a host by HTTP or FTP.
    pub fn read(address: &str) -> Option<Self> {
        let (scheme, rest) = address.trim_ascii().split_once(':')?;
        if !is_followed(scheme) {
            return None;
        }
        // Browsers accept any number of slashes, of either kind.
        let rest = rest.trim_start_matches(['/', '\\']);
        let (authority, behind) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
        let host = host(authority)?;
        let path = behind.split_at(behind.find(['?', '#']).unwrap_or(behind.len())).0;
        Some(Self { host, path: path_of(path) })
    }

    /// Returns the links of a message, including URLs in the text, without duplicates, in reading order.
    pub fn all(reading: &Reading) -> Vec<Self> {
        let mut links: Vec<Self> = Vec::new();
        let written = reading.links.iter().map(|link| link.target.as_str()).chain(addresses(&reading.text));
        for link in written.filter_map(Self::read) {
            if links.len() == LINKS_MAX {
                break;
            }
            if !links.contains(&link) {
                links.push(link);
            }
        }
        links
    }

    /// Returns the links in a text.
    pub(crate) fn in_text(text: &str) -> impl Iterator<Item = Self> {
        addresses(text).filter_map(Self::read)
    }

    /// Returns the registered part of the host, or the whole host if the registered part is unknown, as for an IP
    /// address.
    pub fn registered(&self) -> &str {
        let is_address = self.host.parse::<Ipv4Addr>().is_ok() || self.host.starts_with('[');
        let domain = if is_address { None } else { psl::domain_str(&self.host) };
        domain.unwrap_or(&self.host)
    }

    /// Returns the signature of the link.
    pub fn signature(&self) -> Sha256Signature {
        let mut hasher = Sha256::new();
        hasher.update(self.host.as_bytes());
        hasher.update(self.path.as_bytes());
        Sha256Signature(hasher.finalize().into())
    }
}

/// Returns true if URLs with this scheme lead to a host.
fn is_followed(scheme: &str) -> bool {
    ["http", "https", "ftp"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns the URLs in a text. A URL extends from `http` to the next blank or bracket.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let mut behind = 0;
    memchr::memmem::find_iter(text.as_bytes(), b"://").filter_map(move |at| {
        // A URL may contain another one, which must not be read a second time.
        let scheme = text.get(..at).filter(|_| at >= behind)?;
        let start = scheme.len() - scheme.bytes().rev().take(5).take_while(u8::is_ascii_alphabetic).count();
        let rest = text.get(start..).filter(|_| scheme.get(start..).is_some_and(is_followed))?;
        let window = rest.get(..rest.floor_char_boundary(LINK_BYTES_MAX))?;
        let end =
            window.find(|char: char| char.is_whitespace() || matches!(char, '<' | '>' | '"')).unwrap_or(window.len());
        behind = start + end;
        Some(window.get(..end)?.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'']))
    })
}

fn host(authority: &str) -> Option<String> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = if host.starts_with('[') { host.split_inclusive(']').next()? } else { host.split(':').next()? };
    let host = decoded(host).replace(['\u{3002}', '\u{ff0e}', '\u{ff61}'], ".");
    let host = host.trim_end_matches('.').to_lowercase();
    let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(&host).to_owned();
    let is_known = |char: char| char.is_alphanumeric() || matches!(char, '-' | '.' | '_' | '[' | ']' | ':');
    (!host.is_empty() && host.len() <= 255 && host.chars().all(is_known)).then_some(host)
}

/// Decodes needlessly escaped letters in a host, as browsers do.
fn decoded(host: &str) -> String {
    let mut plain = String::with_capacity(host.len());
    let mut rest = host;
    while let Some((before, behind)) = rest.split_once('%') {
        plain.push_str(before);
        match escaped(behind.as_bytes()) {
            Some(letter) => {
                plain.push(letter);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                plain.push('%');
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Returns the normalised path.
fn path_of(written: &str) -> String {
    let mut path = String::with_capacity(written.len() + 1);
    path.push('/');
    let mut rest = written.trim_matches(['/', '\\']).as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'%' if let Some(plain) = escaped(behind) => {
                path.push(plain);
                rest = behind.get(2..).unwrap_or_default();
            }
            b'\\' => path.push('/'),
            byte if byte.is_ascii() => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// Decodes the character after a percent sign if it is needlessly escaped.
fn escaped(digits: &[u8]) -> Option<char> {
    let plain = char::from(hex::byte(*digits.first_chunk()?)?);
    (plain.is_ascii_alphanumeric() || matches!(plain, '-' | '.' | '_' | '~')).then_some(plain)
}

impl fmt::Display for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.host, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::PageLink;

    #[test]
    fn ways_to_write_a_link() {
        for address in [
            "http://example.com/a/b",
            "HTTPS://WWW.Example.COM:8080/a/b/?q=1#x",
            "http://user:pw@example.com./a/b",
            "http:\\\\example.com\\a\\b",
            "http:///example.com/%61/%62",
            " ftp://example.com/a/b ",
            "http://ex%61mple.com/a/b",
            "http://example\u{3002}com/a/b",
        ] {
            assert_eq!(
                Link::read(address).map(|link| link.to_string()).as_deref(),
                Some("example.com/a/b"),
                "{address}"
            );
        }
    }

    #[test]
    fn texts_that_are_not_links() {
        for address in
            ["mailto:a@b.example", "javascript:x", "/a/b", "", "http://", "http:// /", "cid:1@x", "a picture.png"]
        {
            assert_eq!(Link::read(address), None, "{address}");
        }
    }

    #[test]
    fn registered_parts_of_hosts() {
        let registered = |address: &str| Link::read(address).unwrap().registered().to_owned();
        assert_eq!(registered("http://a.b.example.co.uk/"), "example.co.uk");
        assert_eq!(registered("http://shop.example.com/"), "example.com");
        assert_eq!(registered("http://192.0.2.7/x"), "192.0.2.7");
        assert_eq!(registered("http://[2001:db8::1]:80/x"), "[2001:db8::1]");
    }

    #[test]
    fn links_of_pages_and_texts_are_each_found_once() {
        let reading = Reading {
            text: "See http://a.example/x, (https://b.example/) and http://a.example/x again.".to_owned(),
            links: ["http://c.example/y", "logo.png", "http://b.example"]
                .map(|target| PageLink { target: target.to_owned(), line: None })
                .to_vec(),
            ..Reading::default()
        };
        let links: Vec<String> = Link::all(&reading).iter().map(Link::to_string).collect();
        assert_eq!(links, ["c.example/y", "b.example/", "a.example/x"]);
    }

    #[test]
    fn a_signature_is_of_host_and_path() {
        // Output of sha256sum for "example.com/a".
        let expected = "036cbe16b0015b0a30d733ca981c8ebb80535abe46b862bbb67d0affb9331be7";
        let signature = Link::read("http://example.com/a?x").unwrap().signature().to_string();
        assert_eq!(signature, expected);
    }
}
