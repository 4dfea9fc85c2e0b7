//! Hosts that a text links to, as found by engine 8.
//!
//! This module reproduces the client's odd rules. The first link may be anywhere in the text, but further links count
//! only in the last line. A word that begins with `www` counts only if there is also a link.
//!
//! The client works on characters, not bytes. Once a reference such as `&#300;` produces a character above 255, Perl
//! applies Unicode rules to the whole text. Two more characters then count as white space, and accented capitals have
//! lower-case forms.

use std::borrow::Cow;
use std::collections::HashSet;
use std::iter;

use memchr::{memchr2, memmem};

use super::domains;
use super::preprocess::{replace, unescape};

const HTTP: &str = "http://";

/// Text that the client inserts before the host of the first link. It later mistakes this for part of the text.
const HREF: &str = "a href";

/// Returns the hosts of `text`, in the client's order.
pub(super) fn hosts(text: &[u8]) -> Vec<String> {
    let text = unescape(text, b'%');
    match resolve_references(&text) {
        Resolved::Bytes(text) => hosts_of(&text),
        Resolved::Unicode(text) => hosts_of(&text),
    }
}

fn hosts_of<C: Character>(text: &[C]) -> Vec<String> {
    let Some((behind, in_href)) = first_link(text) else { return Vec::new() };
    let mut list = List::new(words(text));
    let mut next = list.add(host(behind, in_href)).then(|| second_link(behind)).flatten();
    while let Some(link) = next {
        next = list.add(host_of_later_link(link)).then(|| after_http(link)).flatten();
    }
    list.hosts
}

/// A character of a text. It is a byte of Latin-1 or, if the text has a character above 255, any character.
trait Character: Copy + Into<char> {
    /// True if Perl applies Unicode rules to a text of such characters.
    const IS_UNICODE: bool;

    /// Returns the first position at which `text` has either of the two characters.
    fn find(text: &[Self], characters: [u8; 2]) -> Option<usize>;

    fn is_space(self) -> bool {
        let character = self.into();
        matches!(character, ' ' | '\t'..='\r') || Self::IS_UNICODE && matches!(character, '\u{85}' | '\u{a0}')
    }
}

impl Character for u8 {
    const IS_UNICODE: bool = false;

    fn find(text: &[Self], [one, other]: [u8; 2]) -> Option<usize> {
        memchr2(one, other, text)
    }
}

impl Character for char {
    const IS_UNICODE: bool = true;

    fn find(text: &[Self], characters: [u8; 2]) -> Option<usize> {
        text.iter().position(|&character| characters.map(Self::from).contains(&character))
    }
}

/// Hosts in order, without duplicates.
struct List {
    hosts: Vec<String>,
    seen: HashSet<String>,
}

impl List {
    fn new(words: Vec<String>) -> Self {
        Self { seen: words.iter().cloned().collect(), hosts: words }
    }

    /// Appends the domain of `host`, if it is new and has a dot. Returns true if `host` is true in Perl, i.e. neither
    /// empty nor `0`.
    fn add(&mut self, host: String) -> bool {
        if host.is_empty() || host == "0" {
            return false;
        }
        let is_address = host.chars().all(|character| matches!(character, '0'..='9' | '.'));
        let domain = if is_address { host.as_str() } else { domains::registered(&host) };
        if domain.len() > 1 && domain.contains('.') && self.seen.insert(domain.to_owned()) {
            self.hosts.push(domain.to_owned());
        }
        true
    }
}

/// Returns the words that follow white space and consist of `www`, any one character (even a blank), and at least one
/// more word character. The client uses them unchanged.
fn words<C: Character>(text: &[C]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    let mut searched = 0;
    while let Some(place) = C::find(tail(rest, searched), [b'w', b'W']).map(|place| searched + place) {
        let is_behind_space = head(rest, place).last().is_some_and(|character| character.is_space());
        let word = tail(rest, place);
        let length = if is_behind_space { word_length(word) } else { 0 };
        searched = place + 1;
        if length > 0 {
            words.push(head(word, length).iter().map(|&character| character.into()).collect());
            (rest, searched) = (tail(word, length), 0);
        }
    }
    words
}

/// Returns the length of the word at the start of `text`: `www`, any character but LF, and at least one more word
/// character.
fn word_length<C: Character>(text: &[C]) -> usize {
    let Some([any, rest @ ..]) = strip(text, "www") else { return 0 };
    let ends = |&character: &C| matches!(character.into(), ' ' | '/' | '>' | '<' | '"' | '\r' | '\n');
    let length = rest.iter().take_while(|character| !ends(character)).count();
    if (*any).into() == '\n' || length == 0 { 0 } else { "www.".len() + length }
}

/// Returns the text after the scheme of the first link in an `href=` or, if there is none, of the first link anywhere.
/// Also returns whether the link was in an `href`.
fn first_link<C: Character>(text: &[C]) -> Option<(&[C], bool)> {
    let mut first = None;
    for (before, behind) in colons(text) {
        let Some((before, behind)) = strip_scheme_end(before).zip(strip(behind, ":/")) else { continue };
        let behind = strip(behind, "/").unwrap_or(behind);
        if is_href(before) {
            return Some((behind, true));
        }
        first = first.or(Some((behind, false)));
    }
    first
}

/// Splits the text at each colon. The colon is the rarest character in a link, and therefore the fastest to find.
fn colons<C: Character>(text: &[C]) -> impl Iterator<Item = (&[C], &[C])> {
    let mut searched = 0;
    iter::from_fn(move || {
        let place = searched + C::find(tail(text, searched), [b':'; 2])?;
        searched = place + 1;
        text.split_at_checked(place)
    })
}

/// Strips `http` or `https` from the end of `text`.
fn strip_scheme_end<C: Character>(text: &[C]) -> Option<&[C]> {
    // In Unicode, the long s matches s as well.
    let secure = || strip_end(text, "s").or_else(|| strip_end(text, "\u{17f}"));
    strip_end(text, "http").or_else(|| strip_end(secure()?, "http"))
}

/// Returns true if `text` ends in `href`, `=` and an optional quote.
fn is_href<C: Character>(text: &[C]) -> bool {
    let text = trim_end(strip_end(text, "\"").unwrap_or(text));
    strip_end(text, "=").is_some_and(|text| strip_end(trim_end(text), "href").is_some())
}

/// Returns the text after the scheme of the next link in the last line. In a text of one line, this is the first link
/// again, because the client has reinserted the scheme before it.
fn second_link<C: Character>(behind: &[C]) -> Option<&[C]> {
    let lines = strip_end(behind, "\n").unwrap_or(behind);
    match lines.iter().rposition(|&character| character.into() == '\n') {
        Some(newline) => after_http(tail(lines, newline + 1)),
        None => Some(lines),
    }
}

/// Returns the text after the first [`HTTP`], case-sensitively.
fn after_http<C: Character>(text: &[C]) -> Option<&[C]> {
    let start = |(before, _): (&[C], _)| before.len().checked_sub("http".len()).map(|start| tail(text, start));
    colons(text).filter_map(start).find(|link| starts_with(link, HTTP)).map(|link| tail(link, HTTP.len()))
}

/// Returns the host of a later link. The link counts as an `href` only if it begins with the text that the client
/// inserted, [`HREF`].
fn host_of_later_link<C: Character>(link: &[C]) -> String {
    let in_href = starts_with(link, HREF);
    let link = strip_written_href(link).filter(|_| in_href).unwrap_or(link);
    host(strip(link, HTTP).unwrap_or(link), in_href)
}

fn strip_written_href<C: Character>(link: &[C]) -> Option<&[C]> {
    strip(trim_start(tail(link, HREF.len())), "=").map(trim_start)
}

/// Returns the host at the start of `link`, in lower case. It may be empty.
fn host<C: Character>(link: &[C], in_href: bool) -> String {
    let ends = |&character: &C| match character.into() {
        '>' | '"' | '/' | '?' | '<' => true,
        '\r' | '\n' => !in_href,
        _ => false,
    };
    let link = head(link, link.iter().position(ends).unwrap_or(link.len()));
    let link = tail(link, link.iter().position(|&character| character.into() == '@').map_or(0, |at| at + 1));
    let host = small_letters(&without_assignment(link)).replace('=', "");
    let host = host.split(':').next().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host).to_owned()
}

/// Removes from `link` the first run of at least two characters that ends in `=`. Returns the result up to its first
/// white space.
fn without_assignment<C: Character>(link: &[C]) -> Vec<C> {
    let mut start = 0;
    let mut kept = link.to_vec();
    for word in link.split(|character| character.is_space()) {
        let end = word.iter().rposition(|&character| character.into() == '=');
        if let Some(end) = end.filter(|&end| end > 0) {
            kept.drain(start..=start + end);
            break;
        }
        start += word.len() + 1;
    }
    let length = kept.iter().position(|character| character.is_space()).unwrap_or(kept.len());
    kept.truncate(length);
    kept
}

fn small_letters<C: Character>(host: &[C]) -> String {
    let characters = host.iter().map(|&character| character.into());
    if C::IS_UNICODE {
        characters.flat_map(char::to_lowercase).collect()
    } else {
        characters.map(|character| character.to_ascii_lowercase()).collect()
    }
}

/// A text with its references resolved.
enum Resolved<'a> {
    Bytes(Cow<'a, [u8]>),
    Unicode(Vec<char>),
}

/// Replaces references of the form `&#N;`, where N has two or three digits, with their characters.
fn resolve_references(text: &[u8]) -> Resolved<'_> {
    let is_large = |place| reference(tail(text, place + 1)).is_some_and(|(character, _)| character > '\u{ff}');
    if !memmem::find_iter(text, b"&#").any(is_large) {
        return Resolved::Bytes(replace(text, b'&', |behind| {
            let (character, behind) = reference(behind)?;
            Some((u8::try_from(character).ok(), behind))
        }));
    }
    let mut characters = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let reference = Some(behind).filter(|_| byte == b'&').and_then(reference);
        let (character, behind) = reference.unwrap_or_else(|| (char::from(byte), behind));
        characters.push(character);
        rest = behind;
    }
    Resolved::Unicode(characters)
}

/// Returns the character of a reference whose `&` precedes `text`, and the text after it.
fn reference(text: &[u8]) -> Option<(char, &[u8])> {
    let text = text.strip_prefix(b"#")?;
    let digits = text.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = text.split_at_checked(digits).filter(|(digits, _)| matches!(digits.len(), 2 | 3))?;
    let number = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Some((char::from_u32(number)?, behind.strip_prefix(b";")?))
}

/// Returns true if `text` begins with `prefix`, case-sensitively.
fn starts_with<C: Character>(text: &[C], prefix: &str) -> bool {
    text.iter().take(prefix.len()).map(|&character| character.into()).eq(prefix.chars())
}

/// Strips `prefix`, case-insensitively, from the start of `text`.
fn strip<'a, C: Character>(text: &'a [C], prefix: &str) -> Option<&'a [C]> {
    let (start, behind) = text.split_at_checked(prefix.chars().count())?;
    is_ignoring_case(start, prefix).then_some(behind)
}

/// Strips `suffix`, case-insensitively, from the end of `text`.
fn strip_end<'a, C: Character>(text: &'a [C], suffix: &str) -> Option<&'a [C]> {
    let (before, end) = text.split_at_checked(text.len().checked_sub(suffix.chars().count())?)?;
    is_ignoring_case(end, suffix).then_some(before)
}

fn is_ignoring_case<C: Character>(text: &[C], other: &str) -> bool {
    text.iter().zip(other.chars()).all(|(&one, other)| one.into().eq_ignore_ascii_case(&other))
}

fn trim_start<C: Character>(text: &[C]) -> &[C] {
    tail(text, text.iter().take_while(|character| character.is_space()).count())
}

fn trim_end<C: Character>(text: &[C]) -> &[C] {
    head(text, text.len() - text.iter().rev().take_while(|character| character.is_space()).count())
}

fn head<C>(text: &[C], end: usize) -> &[C] {
    text.get(..end).unwrap_or(text)
}

fn tail<C>(text: &[C], start: usize) -> &[C] {
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_hosts(text: &str, expected: &[&str]) {
        assert_eq!(hosts(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn the_first_link_counts_and_those_of_the_last_line() {
        assert_hosts("http://a.com/\nhttp://b.com/\nhttp://c.com/ http://d.com/", &["a.com", "c.com", "d.com"]);
        assert_hosts("http://a.com/ http://b.com/ http://a.com/", &["a.com", "b.com"]);
        assert_hosts("HTTP:/a.com HTTP://b.com https://c.com", &["a.com"]);
        assert_hosts("http://b.com/ href = \"https:/a.com/ http://c.com", &["a.com", "c.com"]);
    }

    #[test]
    fn words_count_only_beside_a_link() {
        assert_hosts(" www.A.com. www.A.com. WWW_b", &[]);
        assert_hosts(" www.A.com. www.A.com. WWW_b http://c.de", &["www.A.com.", "www.A.com.", "WWW_b", "c.de"]);
        assert_hosts("www.a.com www. www b.com http://c.de", &["www b.com", "c.de"]);
    }

    #[test]
    fn a_first_link_on_one_line_is_looked_at_twice() {
        assert_hosts("href=http://a.com\rx@b.com/", &["b.com", "a.com"]);
        assert_hosts("href=http://a.com\nx@b.com/", &["b.com"]);
    }

    #[test]
    fn what_looks_like_the_clients_own_mark_is_taken_for_it() {
        assert_hosts("http://x.com/ http://a href = a.com\rx@b.com/", &["x.com", "b.com"]);
    }

    #[test]
    fn everything_around_the_host_is_removed() {
        for link in ["u:p@A.com", "A.com:80", "A.com.", "x=y=A.com b=", "=A.com", "a%2ecom", "&#97;.com?", "a.com b"] {
            assert_hosts(&format!("http://{link}"), &["a.com"]);
        }
        for link in ["", "0", " a.com", "@", "b@", "/a.com", "x=", "localhost", "a"] {
            assert_hosts(&format!("http://{link}"), &[]);
        }
    }

    #[test]
    fn a_large_character_brings_in_unicode() {
        assert_hosts("http://\u{c0}.example/", &["\u{c3}\u{80}.example"]);
        assert_eq!(hosts(b"http://\xc0.example/"), ["\u{c0}.example"]);
        assert_eq!(hosts(b"&#300; http://\xc0.example/"), ["\u{e0}.example"]);
        assert_eq!(hosts(b"http://&#376;.example\xa0x/"), ["\u{ff}.example"]);
        assert_eq!(hosts(b"http&#383;://a.com"), ["a.com"]);
    }

    #[test]
    fn many_links_take_no_time() {
        assert_eq!(hosts(&b"http://a.com/".repeat(100_000)), ["a.com"]);
        assert_eq!(hosts(&b"http://".repeat(100_000)), [""; 0]);
        assert_eq!(hosts(&b"href =".repeat(100_000)), [""; 0]);
        assert_eq!(hosts(&b"&#%41 www".repeat(100_000)), [""; 0]);
        assert_eq!(hosts(&[&b"http://a.com/\nx"[..], &[b'w'; 1_000_000]].concat()), ["a.com"]);
    }
}
