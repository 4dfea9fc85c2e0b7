//! What a reader of a message sees: its text, and where its links lead.
//!
//! The base of all schemes that are ours: parts are chosen as mail programs choose them, HTML is rendered, and text that
//! does not show is kept apart.

mod render;
mod visibility;

use std::borrow::Cow;

use crate::message::{Entity, MediaType, Message, Part};

/// Text beyond this many bytes is not read.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Most links of a message, and the longest.
pub const LINKS_MAX: usize = 256;
/// The longest link that is looked at.
pub const LINK_BYTES_MAX: usize = 2048;

/// A part of an alternative with fewer words is not what the sender meant to be read.
const ALTERNATIVE_WORDS_MIN: usize = 8;

/// What a reader sees of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The text, line by line. In HTML, lines begin where blocks do.
    pub text: String,
    /// Text that is there, but does not show.
    pub hidden: String,
    /// The targets of links and pictures, as written. Those in plain text are in the text.
    pub links: Vec<String>,
}

impl Reading {
    /// Reads a message.
    pub fn of(message: &Message<'_>) -> Self {
        let mut reading = entity(&message.body);
        reading.text.truncate(reading.text.floor_char_boundary(TEXT_BYTES_MAX));
        reading
    }

    fn add(&mut self, other: Self) {
        if self.text.is_empty() {
            self.text = other.text;
        } else if !other.text.is_empty() && self.text.len() < TEXT_BYTES_MAX {
            self.text.push('\n');
            self.text.push_str(&other.text);
        }
        if self.hidden.len() < TEXT_BYTES_MAX {
            self.hidden.push_str(&other.hidden);
        }
        self.links.extend(other.links);
        self.links.truncate(LINKS_MAX);
    }
}

fn entity(found: &Entity<'_>) -> Reading {
    match found {
        Entity::Part(found) => part(found),
        Entity::Several(entities) => entities.iter().fold(Reading::default(), |mut reading, next| {
            reading.add(entity(next));
            reading
        }),
        Entity::Alternatives(entities) => best(entities),
    }
}

/// The last of the alternatives with enough words, or else the one with most.
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
    if part.media.is("text", Some("html")) || is_markup(&text) {
        return page(&text);
    }
    let text = match text {
        Cow::Borrowed(text) => text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default().to_owned(),
        Cow::Owned(text) => text,
    };
    Reading { text, ..Reading::default() }
}

/// Whether mail programs show parts of that type as text.
fn is_shown(media: &MediaType) -> bool {
    media.kind == "text" && matches!(media.subtype.as_str(), "plain" | "html" | "enriched" | "richtext" | "")
}

/// A page; one whose text is again markup was escaped by mistake and is read as it was meant.
fn page(html: &str) -> Reading {
    let mut reading = render::render(html, TEXT_BYTES_MAX);
    if is_markup(&reading.text) {
        let inner = render::render(&reading.text, TEXT_BYTES_MAX);
        reading.text = String::new();
        reading.add(inner);
    }
    reading
}

/// Whether text is HTML, whatever it is called: four tags or more of those that make up pages.
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
