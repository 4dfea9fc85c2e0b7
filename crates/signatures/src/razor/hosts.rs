//! The hosts a text links to, as engine 8 finds them.
//!
//! The rules are odd and kept so: the first link may be anywhere, further ones count only in the last line of the text; a
//! word that begins with `www` counts only if there is a link besides.
//!
//! The client works on characters, not bytes. Once a reference such as `&#300;` brings in one above 255, Perl judges all
//! of the text by Unicode: two more characters are white space, and accented capitals have small letters.

use std::collections::HashSet;

use super::domains;
use super::preprocess::unescape;

const HTTP: &str = "http://";

/// What the client puts before the text behind the first link, and later mistakes for the text's own.
const HREF: &str = "a href";

/// The hosts of `text`, in the client's order.
pub(super) fn hosts(text: &[u8]) -> Vec<String> {
    let text = Text::new(text);
    let Some((behind, in_href)) = text.first_link() else { return Vec::new() };
    let mut list = List::new(text.words());
    let mut next = list.add(text.host(behind, in_href)).then(|| second_link(behind)).flatten();
    while let Some(link) = next {
        next = list.add(text.host_of_later_link(link)).then(|| after(link, HTTP)).flatten();
    }
    list.hosts
}

/// The text behind the next link in the last line. In a text of one line that is the first link once more, because the
/// client has written the scheme before it again.
fn second_link(behind: &[char]) -> Option<&[char]> {
    let lines = behind.strip_suffix(&['\n']).unwrap_or(behind);
    match lines.iter().rposition(|&character| character == '\n') {
        Some(newline) => after(tail(lines, newline + 1), HTTP),
        None => Some(lines),
    }
}

/// Hosts in order, and what is in there already.
struct List {
    hosts: Vec<String>,
    seen: HashSet<String>,
}

impl List {
    fn new(words: Vec<String>) -> Self {
        Self { seen: words.iter().cloned().collect(), hosts: words }
    }

    /// Appends the domain of `host`, if it is new and has a dot. Tells whether there was a host at all.
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

/// A text with its escapes undone.
struct Text {
    characters: Vec<char>,
    /// Whether Perl judges it by Unicode.
    is_unicode: bool,
}

impl Text {
    fn new(text: &[u8]) -> Self {
        let characters = resolve_references(&unescape(text, b'%'));
        let is_unicode = characters.iter().any(|&character| character > '\u{ff}');
        Self { characters, is_unicode }
    }

    fn is_space(&self, character: char) -> bool {
        matches!(character, ' ' | '\t'..='\r') || self.is_unicode && matches!(character, '\u{85}' | '\u{a0}')
    }

    fn spaces(&self, text: &[char]) -> usize {
        text.iter().take_while(|&&character| self.is_space(character)).count()
    }

    /// Words behind white space that begin with `www`, any character (a blank, too), and something. They are taken as
    /// they are.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = &self.characters[..];
        while let Some(start) = rest.iter().position(|&character| self.is_space(character)) {
            rest = tail(rest, start);
            rest = tail(rest, self.spaces(rest));
            let length = word_length(rest);
            if length > 0 {
                words.push(head(rest, length).iter().collect());
            }
            rest = tail(rest, length);
        }
        words
    }

    /// What follows the first `href=` with a link, else the first link, and whether it was an `href`.
    fn first_link(&self) -> Option<(&[char], bool)> {
        let text = &self.characters[..];
        let places = || (0..text.len()).map(|start| tail(text, start));
        let href = places().find_map(|text| self.strip_href(text));
        let link = || places().find_map(|text| self.strip_scheme(text));
        href.map(|behind| (behind, true)).or_else(|| link().map(|behind| (behind, false)))
    }

    fn strip_href<'a>(&self, text: &'a [char]) -> Option<&'a [char]> {
        let text = strip(text, "href")?;
        let text = strip(tail(text, self.spaces(text)), "=")?;
        let text = tail(text, self.spaces(text));
        self.strip_scheme(strip(text, "\"").unwrap_or(text))
    }

    /// `http` or `https`, and `:/` or `://`.
    fn strip_scheme<'a>(&self, text: &'a [char]) -> Option<&'a [char]> {
        let text = strip(text, "http")?;
        // In Unicode the long s is an s as well.
        let text = strip(text, "s").or_else(|| strip(text, "\u{17f}")).unwrap_or(text);
        let text = strip(text, ":/")?;
        Some(strip(text, "/").unwrap_or(text))
    }

    /// The host of a link that is not the first. It is in an `href` only if the client finds there what it wrote before
    /// the first one.
    fn host_of_later_link(&self, link: &[char]) -> String {
        let in_href = link.iter().copied().take(HREF.len()).eq(HREF.chars());
        let link = self.strip_written_href(link).filter(|_| in_href).unwrap_or(link);
        self.host(strip(link, HTTP).unwrap_or(link), in_href)
    }

    fn strip_written_href<'a>(&self, link: &'a [char]) -> Option<&'a [char]> {
        let behind = tail(link, HREF.len());
        let behind = strip(tail(behind, self.spaces(behind)), "=")?;
        Some(tail(behind, self.spaces(behind)))
    }

    /// The host at the start of `link`, in small letters; may be empty.
    fn host(&self, link: &[char], in_href: bool) -> String {
        let ends = |&character: &char| match character {
            '>' | '"' | '/' | '?' | '<' => true,
            '\r' | '\n' => !in_href,
            _ => false,
        };
        let link = head(link, link.iter().position(ends).unwrap_or(link.len()));
        let link = tail(link, link.iter().position(|&character| character == '@').map_or(0, |at| at + 1));
        let host = self.small_letters(&self.without_assignment(link));
        let host = host.replace('=', "");
        let host = host.split(':').next().unwrap_or_default();
        host.strip_suffix('.').unwrap_or(host).to_owned()
    }

    /// `link` up to its first white space, after the first run of other characters that ends in `=`, two at least, is
    /// deleted from it.
    fn without_assignment(&self, link: &[char]) -> Vec<char> {
        let mut start = 0;
        let mut kept = link.to_vec();
        for word in link.split(|&character| self.is_space(character)) {
            let end = word.iter().rposition(|&character| character == '=');
            if let Some(end) = end.filter(|&end| end > 0) {
                kept.drain(start..=start + end);
                break;
            }
            start += word.len() + 1;
        }
        let length = kept.iter().position(|&character| self.is_space(character)).unwrap_or(kept.len());
        kept.truncate(length);
        kept
    }

    fn small_letters(&self, host: &[char]) -> String {
        if self.is_unicode {
            host.iter().flat_map(|character| character.to_lowercase()).collect()
        } else {
            host.iter().map(char::to_ascii_lowercase).collect()
        }
    }
}

/// The length of the word at the start of `text`: `www`, any character but LF, and at least one that ends no word.
fn word_length(text: &[char]) -> usize {
    let Some([any, rest @ ..]) = strip(text, "www") else { return 0 };
    let ends = |character: &char| matches!(character, ' ' | '/' | '>' | '<' | '"' | '\r' | '\n');
    let length = rest.iter().take_while(|character| !ends(character)).count();
    if *any == '\n' || length == 0 { 0 } else { "www.".len() + length }
}

/// Characters for bytes, where `&#N;` with two or three digits stands for the character of that number.
fn resolve_references(text: &[u8]) -> Vec<char> {
    let mut characters = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let (character, behind) = reference(rest).unwrap_or_else(|| (char::from(byte), behind));
        characters.push(character);
        rest = behind;
    }
    characters
}

/// The character that a reference at the start of `text` names, and what follows.
fn reference(text: &[u8]) -> Option<(char, &[u8])> {
    let text = text.strip_prefix(b"&#")?;
    let digits = text.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = text.split_at_checked(digits).filter(|(digits, _)| matches!(digits.len(), 2 | 3))?;
    let number = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Some((char::from_u32(number)?, behind.strip_prefix(b";")?))
}

/// What follows `prefix`, in any case, at the start of `text`.
fn strip<'a>(text: &'a [char], prefix: &str) -> Option<&'a [char]> {
    let start = text.get(..prefix.chars().count())?;
    start
        .iter()
        .zip(prefix.chars())
        .all(|(one, other)| one.eq_ignore_ascii_case(&other))
        .then(|| tail(text, start.len()))
}

/// What follows the first `mark`, in this case only.
fn after<'a>(text: &'a [char], mark: &str) -> Option<&'a [char]> {
    let place = text.windows(mark.len()).position(|window| window.iter().copied().eq(mark.chars()))?;
    Some(tail(text, place + mark.len()))
}

fn head(text: &[char], end: usize) -> &[char] {
    text.get(..end).unwrap_or(text)
}

fn tail(text: &[char], start: usize) -> &[char] {
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
    fn everything_around_the_host_goes() {
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
    }
}
