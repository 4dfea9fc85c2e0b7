//! The visible content of a message: its text and its link targets.
//!
//! All of our own schemes use this content. Parts are selected as in mail programs, HTML is rendered, and invisible
//! text is kept separate.

mod direction;
mod render;
mod visibility;

use std::borrow::Cow;

use crate::message::{Entity, MediaType, Message, Part};

/// Maximum length of the text in bytes, after runs of blanks are shortened and zero-width characters removed.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Maximum length of the text in bytes, before runs of blanks are shortened and zero-width characters removed.
const RAW_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Number of consecutive blanks and line ends to which longer runs are shortened if there is too much text.
const BLANKS_KEPT: usize = 3;

/// Maximum number of links in a message.
pub const LINKS_MAX: usize = 256;
/// Maximum length of a link. Longer links are ignored in HTML and cut off in text.
pub const LINK_BYTES_MAX: usize = 2048;

/// Minimum number of words in a readable alternative.
const ALTERNATIVE_WORDS_MIN: usize = 8;

/// The visible content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The text, line by line. In HTML, each block starts a line.
    pub text: String,
    /// Text that is present but invisible.
    pub hidden: String,
    /// Links and pictures in HTML. Links in plain text are not listed here, but are part of `text`.
    pub links: Vec<PageLink>,
    /// True if text was dropped because there was too much of it.
    pub is_cut: bool,
    /// Text parts of the message, in order.
    pub parts: Vec<TextPart>,
}

/// A link or picture in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// Target, as written.
    pub target: String,
    /// Index of the line of text that contains the link, if known.
    pub line: Option<usize>,
}

/// The text of one part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPart {
    /// Byte offset of the start of this text. This text ends where the next one starts.
    pub start: usize,
    /// True if the part is inside an attached message.
    pub is_forwarded: bool,
}

impl Reading {
    /// Reads a message.
    pub fn of(message: &Message<'_>) -> Self {
        let mut reading = entity(&message.body);
        if reading.text.len() > TEXT_BYTES_MAX {
            reading.is_cut |= reading.text.len() >= RAW_TEXT_BYTES_MAX;
            reading.compact();
            reading.is_cut |= reading.text.len() > TEXT_BYTES_MAX;
            reading.text.truncate(reading.text.floor_char_boundary(TEXT_BYTES_MAX));
        }
        reading
    }

    fn add(&mut self, mut other: Self) {
        let above = if self.text.is_empty() { 0 } else { line_ends(&self.text) + 1 };
        let is_added = !other.text.is_empty() && self.text.len() < RAW_TEXT_BYTES_MAX;
        other.links.iter_mut().for_each(|link| link.line = link.line.map(|line| line + above).filter(|_| is_added));
        if self.text.is_empty() {
            (self.text, self.parts) = (other.text, other.parts);
        } else if is_added {
            self.text.push('\n');
            let from = self.text.len();
            self.text.push_str(&other.text);
            self.parts.extend(other.parts.iter().map(|part| TextPart { start: from + part.start, ..*part }));
        }
        if self.hidden.len() < TEXT_BYTES_MAX {
            self.hidden.push_str(&other.hidden);
        }
        self.links.extend(other.links);
        self.links.truncate(LINKS_MAX);
    }
}

impl Reading {
    /// Iterates over the text, part by part.
    pub fn texts(&self) -> impl Iterator<Item = (&str, TextPart)> {
        let ends = self.parts.iter().skip(1).map(|next| next.start).chain([self.text.len()]);
        self.parts.iter().zip(ends).map(|(part, end)| (self.text.get(part.start..end).unwrap_or_default(), *part))
    }

    /// Shortens runs of blanks and removes zero-width characters, so that they cannot push other text beyond the limit.
    fn compact(&mut self) {
        let mut out = String::with_capacity(TEXT_BYTES_MAX * 2);
        let mut parts = Vec::with_capacity(self.parts.len());
        for (text, part) in self.texts() {
            if out.len() <= TEXT_BYTES_MAX {
                parts.push(TextPart { start: out.len(), ..part });
                compact(text, &mut out);
            }
        }
        (self.text, self.parts) = (out, parts);
        self.forget_lines();
    }

    /// Clears the line indices of the links. Must be called when lines are removed from the text.
    fn forget_lines(&mut self) {
        self.links.iter_mut().for_each(|link| link.line = None);
    }
}

/// Counts line ends.
pub(crate) fn line_ends(text: &str) -> usize {
    text.chars().filter(|&char| is_line_end(char)).count()
}

/// Returns true if a character ends a line of text.
pub(crate) const fn is_line_end(char: char) -> bool {
    matches!(char, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn entity(found: &Entity<'_>) -> Reading {
    match found {
        Entity::Part(found) => part(found),
        Entity::Forwarded(found) => {
            let mut reading = entity(found);
            reading.parts.iter_mut().for_each(|part| part.is_forwarded = true);
            reading
        }
        Entity::Several(entities) => entities.iter().fold(Reading::default(), |mut reading, next| {
            reading.add(entity(next));
            reading
        }),
        Entity::Alternatives(entities) => best(entities),
    }
}

/// Returns the last alternative with enough words. If all are too short, returns the one with the most words.
fn best(entities: &[Entity<'_>]) -> Reading {
    let mut best = (0, Reading::default());
    for found in entities.iter().rev() {
        let reading = entity(found);
        let words = reading.text.split_whitespace().take(ALTERNATIVE_WORDS_MIN).count();
        if words > best.0 || best.1.text.is_empty() {
            best = (words, reading);
        }
        if words >= ALTERNATIVE_WORDS_MIN {
            break;
        }
    }
    best.1
}

fn part(part: &Part<'_>) -> Reading {
    if part.media.is_attachment || !is_shown(&part.media) {
        return Reading::default();
    }
    let text = part.text();
    if part.media.is("text", Some("html")) {
        return page(&text);
    }
    if is_markup(&text) {
        return page(&with_closed_tags(&text));
    }
    let text = match text {
        Cow::Borrowed(text) => text.get(..text.floor_char_boundary(RAW_TEXT_BYTES_MAX)).unwrap_or_default().to_owned(),
        Cow::Owned(mut text) => {
            text.truncate(text.floor_char_boundary(RAW_TEXT_BYTES_MAX));
            text
        }
    };
    let text = shown(text);
    Reading { text, parts: vec![TextPart { start: 0, is_forwarded: false }], ..Reading::default() }
}

/// Returns true if mail programs display parts of this type as text.
fn is_shown(media: &MediaType) -> bool {
    media.kind == "text" && matches!(media.subtype.as_str(), "plain" | "html" | "enriched" | "richtext" | "")
}

/// Renders a page. If the result is markup itself, the page was escaped by mistake, and the result is rendered again.
fn page(html: &str) -> Reading {
    let mut reading = render::render(html, RAW_TEXT_BYTES_MAX);
    if is_markup(&reading.text) {
        let inner = render::render(&reading.text, RAW_TEXT_BYTES_MAX);
        reading.text = String::new();
        reading.forget_lines();
        reading.add(inner);
    }
    reading.text = shown(reading.text);
    reading.parts = vec![TextPart { start: 0, is_forwarded: false }];
    reading
}

/// Converts the text to display order.
fn shown(text: String) -> String {
    match direction::as_shown(&text) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

/// Appends text up to the limit. Shortens runs of blanks and omits zero-width characters.
fn compact(text: &str, out: &mut String) {
    let mut blanks = 0;
    for char in text.chars().filter(|&char| !is_invisible(char)) {
        blanks = if is_blank(char) { blanks + 1 } else { 0 };
        if blanks <= BLANKS_KEPT {
            out.push(char);
        }
        if out.len() > TEXT_BYTES_MAX {
            break;
        }
    }
}

/// Returns true for zero-width characters. These are control characters and those with the property
/// Default_Ignorable_Code_Point, except those displayed as blanks.
pub(crate) fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns true for characters displayed as blanks. Besides white space, these are some characters that Unicode
/// classifies otherwise: fillers, the empty braille pattern and null note heads.
pub(crate) fn is_blank(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{1d159}')
}

/// Returns true for blanks that are thinner than word spaces, at least in some fonts. They may separate words, or hide
/// between the letters of one word.
pub(crate) fn is_thin_blank(char: char) -> bool {
    matches!(char, '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{2006}'..='\u{200a}' | '\u{202f}')
}

/// Closes every open tag at the next blank line. HTML that is labelled as plain text may be cut off within a tag. If
/// that tag stayed open, it would hide the text after it, for example the start of a quotation.
fn with_closed_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.split_inclusive('\n') {
        if is_open && line.trim_ascii().is_empty() {
            out.push('>');
            is_open = false;
        }
        out.push_str(line);
        if let Some(at) = memchr::memrchr2(b'<', b'>', line.as_bytes()) {
            is_open = line.as_bytes().get(at) == Some(&b'<');
        }
    }
    out
}

/// Returns true if text is HTML regardless of its label, i.e. if it has at least four tags that are typical of pages.
fn is_markup(text: &str) -> bool {
    const NAMES: [&str; 12] = ["html", "body", "table", "font", "br", "p", "a", "td", "tr", "div", "center", "b"];
    let is_tag = |&at: &usize| {
        let rest = text.as_bytes().get(at + 1..).unwrap_or_default();
        let length = rest.iter().take(8).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let name = rest.get(..length).unwrap_or_default();
        let ends = matches!(rest.get(length), Some(b'>' | b' ' | b'\n' | b'\r' | b'\t' | b'/'));
        ends && NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    memchr::memchr_iter(b'<', text.as_bytes()).filter(is_tag).take(4).count() == 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Reading {
        Reading::of(&Message::read(message.as_bytes()))
    }

    #[test]
    fn the_last_alternative_with_words_is_read() {
        let alternatives = |first: &str, last: &str| {
            format!(
                "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n{first}\n--b\nContent-Type: {last}\n--b--\n"
            )
        };
        let words = "one two three four five six seven eight";
        assert_eq!(read(&alternatives("plain", &format!("text/html\n\n<p>{words}"))).text.trim(), words);
        assert_eq!(read(&alternatives(words, "text/html\n\n<img src=x>")).text, words);
        assert_eq!(read(&alternatives(words, &format!("text/x-junk\n\n{words} junk"))).text, words);
    }

    #[test]
    fn text_is_read_as_it_is_seen() {
        for html in [
            "<p>Genuine <bdo dir=rtl>sehctaw</bdo> at <b>low</b> prices",
            "<p>Genuine <span style='unicode-bidi: bidi-override; direction: rtl'>sehctaw</span> at low prices",
            "<style>.x { unicode-bidi: isolate-override; direction:rtl }</style>Genuine <i class=x>sehctaw</i> at low prices",
            "<div dir=rtl><bdo>secirp wol ta sehctaw eniuneG</bdo></div>",
            "<span dir=rtl style='unicode-bidi:bidi-override'>wol ta sehctaw eniuneG</span> prices",
            "<bdo dir=rtl>ta sehctaw\neniuneG<br>secirp wol</bdo>",
            "<bdo dir=rtl>secirp <b>wol ta</b> sehctaw <bdo dir=ltr>Genuine</bdo></bdo>",
            "Genuine \u{202e}sehctaw\u{202c} at low prices",
        ] {
            let reading = read(&format!("Content-Type: text/html; charset=utf-8\n\n{html}"));
            let words: Vec<&str> = reading.text.split_whitespace().collect();
            assert_eq!(words.join(" "), "Genuine watches at low prices", "{html}");
        }
        assert_eq!(read("Content-Type: text/html\n\n<p dir=rtl>plain words stay").text.trim(), "plain words stay");
        assert_eq!(read("Content-Type: text/plain; charset=utf-8\n\n\u{202e}sehctaw\nok").text, "watches\nok");
    }

    #[test]
    fn a_tag_that_was_cut_off_swallows_nothing_below_it() {
        let text = read("\n<p>one</p><p>two</p><br><b>three</b><table width=\n\nFrom: <a@b.example> and more\n").text;
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words, ["one", "two", "three", "From:", "and", "more"]);
    }

    #[test]
    fn padding_pushes_no_text_out_of_sight() {
        let text = "what the sender wants to be read";
        let pages = [
            format!("\n{}{text}", "\n".repeat(300_000)),
            format!("\n{}{text}", " ".repeat(300_000)),
            format!("Content-Type: text/html\n\n{}{text}", "<br>".repeat(300_000)),
            format!("Content-Type: text/html\n\n{}{text}", "&zwnj;".repeat(100_000)),
            format!("Content-Type: text/html\n\n<p style='display:none'>{}</p>{text}", "hidden ".repeat(50_000)),
        ];
        for page in pages {
            let reading = read(&page);
            assert!(reading.text.ends_with(text) && !reading.is_cut, "{}", page.get(..60).unwrap());
        }
    }

    #[test]
    fn truncated_text_is_marked() {
        let reading = read(&format!("\n{}", "words ".repeat(100_000)));
        assert!(reading.is_cut && reading.text.len() <= TEXT_BYTES_MAX);
        assert!(!read("\nwords").is_cut);
        let padded = |blanks: usize| read(&format!("\n{}words", " ".repeat(blanks)));
        assert!(padded(RAW_TEXT_BYTES_MAX - 10).text.ends_with("words"));
        assert!(padded(RAW_TEXT_BYTES_MAX).is_cut && !padded(RAW_TEXT_BYTES_MAX).text.contains("words"));
    }
}
