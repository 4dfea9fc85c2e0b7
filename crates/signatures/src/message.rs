//! The structure of a message: its header fields and its parts, as a mail program finds them.
//!
//! All of our own schemes read mail through this module. The schemes of other programs have parsers in their own
//! modules, because their parsing rules affect their signatures. The parser in this module is lenient: every byte
//! string is a message.
//!
//! mail-parser decodes fields, transfer encodings and character sets. The tree of parts is built here, because
//! mail-parser's own traversal is unbounded. Nested messages overflow its stack, and multiparts without delimiters take
//! quadratic time. This parser reads the bytes once for each level of the tree, and builds at most [`NESTING_MAX`]
//! levels and [`PARTS_MAX`] non-empty parts. Content that is nested deeper stays undecoded text. Further parts are
//! dropped.

mod attached;
mod decode;
mod fields;

use std::borrow::Cow;

use memchr::memmem;

pub use attached::{ATTACHED_MAX, Attached};
pub use fields::{Fields, MediaType};

/// Maximum nesting depth of multiparts and attached messages.
pub const NESTING_MAX: usize = 16;

/// Maximum number of parts that are neither multiparts nor empty.
pub const PARTS_MAX: usize = 256;

/// Number of transferred bytes that are decoded at first to get the start of a part's content. More are decoded if
/// these do not suffice.
const HEAD_BYTES: usize = 1024;

/// Maximum number of pieces of a multipart, including empty ones.
const PIECES_MAX: usize = 4096;

/// A mail.
#[derive(Debug)]
pub struct Message<'m> {
    /// Header fields.
    pub fields: Fields<'m>,
    /// Body.
    pub body: Entity<'m>,
    /// True if a limit was reached, so that parts are missing.
    pub is_cut: bool,
}

/// A part or a group of parts.
#[derive(Debug)]
pub enum Entity<'m> {
    /// A part with content of its own.
    Part(Part<'m>),
    /// Consecutive parts.
    Several(Vec<Self>),
    /// An attached message, which contains another author's words.
    Forwarded(Box<Self>),
    /// Alternatives, with the best one last. A mail program displays only one of them.
    Alternatives(Vec<Self>),
}

/// A part with content of its own.
#[derive(Debug)]
pub struct Part<'m> {
    /// Declared media type.
    pub media: MediaType,
    /// Content as transferred.
    pub raw: &'m [u8],
    /// True if the part is inside an attached message.
    pub is_forwarded: bool,
}

impl<'m> Message<'m> {
    /// Parses a message. A leading `From ` line, as in an mbox, belongs to no part.
    pub fn read(raw: &'m [u8]) -> Self {
        let (fields, body) = fields::split(without_envelope_line(raw));
        let mut walk = Walk { parts: 0, forwards: 0, is_cut: false };
        let body = walk.entity(&fields, body, 0);
        Self { fields, body, is_cut: walk.is_cut }
    }

    /// Returns all parts, in order.
    pub fn parts(&self) -> Vec<&Part<'m>> {
        let mut parts = Vec::new();
        self.body.collect(&mut parts);
        parts
    }
}

impl<'m> Entity<'m> {
    fn collect<'e>(&'e self, parts: &mut Vec<&'e Part<'m>>) {
        match self {
            Self::Part(part) => parts.push(part),
            Self::Forwarded(entity) => entity.collect(parts),
            Self::Several(entities) | Self::Alternatives(entities) => {
                entities.iter().for_each(|entity| entity.collect(parts));
            }
        }
    }
}

impl<'m> Part<'m> {
    /// Returns the content with its transfer encoding removed. Broken encodings are decoded as far as possible.
    pub fn bytes(&self) -> Cow<'m, [u8]> {
        decode::transfer(self.raw, self.media.encoding)
    }

    /// Returns a prefix of the content that is at least `bytes` long, or the whole content if it is shorter. White
    /// space within encoded content decodes to nothing, so the input is extended until the prefix is long enough.
    pub(crate) fn head(&self, bytes: usize) -> Cow<'m, [u8]> {
        let mut length = HEAD_BYTES;
        loop {
            let raw = self.raw.get(..length).unwrap_or(self.raw);
            let head = decode::transfer(raw, self.media.encoding);
            if head.len() >= bytes || raw.len() == self.raw.len() {
                return head;
            }
            length *= 4;
        }
    }

    /// Returns the content of a text part as text.
    pub fn text(&self) -> Cow<'m, str> {
        let charset = self.media.charset.as_deref();
        decode::without_stray_base64(decode::text(self.bytes(), charset), charset)
    }
}

/// State of the traversal of the tree.
struct Walk {
    parts: usize,
    /// Number of attached messages that enclose the current part.
    forwards: usize,
    is_cut: bool,
}

impl Walk {
    fn entity<'m>(&mut self, fields: &Fields<'m>, body: &'m [u8], depth: usize) -> Entity<'m> {
        self.typed_entity(fields.media_type(), body, depth)
    }

    fn typed_entity<'m>(&mut self, media: MediaType, body: &'m [u8], depth: usize) -> Entity<'m> {
        if depth < NESTING_MAX {
            if media.is_message() {
                let (fields, body) = fields::split(body);
                self.forwards += 1;
                let forwarded = self.entity(&fields, body, depth + 1);
                self.forwards -= 1;
                return Entity::Forwarded(Box::new(forwarded));
            }
            if let Some(boundary) = media.boundary.as_deref().filter(|_| media.is("multipart", None)) {
                let pieces = pieces(body, boundary.as_bytes());
                if !pieces.is_empty() {
                    let is_alternative = media.is("multipart", Some("alternative"));
                    let entities = self.entities(pieces, media.is("multipart", Some("digest")), depth + 1);
                    return if is_alternative { Entity::Alternatives(entities) } else { Entity::Several(entities) };
                }
            }
        }
        self.parts += usize::from(!body.trim_ascii().is_empty());
        if depth >= NESTING_MAX && (media.is_message() || media.is("multipart", None)) {
            // Content that is too deep to be parsed counts as text. Otherwise, deep nesting could hide it.
            self.is_cut = true;
            return Entity::Part(self.part(MediaType::default(), body));
        }
        Entity::Part(self.part(media, body))
    }

    fn part<'m>(&self, media: MediaType, raw: &'m [u8]) -> Part<'m> {
        Part { media, raw, is_forwarded: self.forwards > 0 }
    }

    /// Parses the parts of a multipart.
    fn entities<'m>(&mut self, pieces: Vec<&'m [u8]>, is_digest: bool, depth: usize) -> Vec<Entity<'m>> {
        let mut entities = Vec::with_capacity(pieces.len().min(PARTS_MAX));
        for piece in pieces {
            if self.parts >= PARTS_MAX {
                self.is_cut = true;
                break;
            }
            let (media, body) = self::piece(piece, is_digest);
            entities.push(self.typed_entity(media, body, depth));
        }
        entities
    }
}

/// Splits a piece of a multipart into its type and its body. Parts of a digest are messages by default (RFC 2046,
/// 5.1.5).
fn piece(raw: &[u8], is_digest: bool) -> (MediaType, &[u8]) {
    let (fields, body) = fields::split(raw);
    let mut media = fields.media_type();
    if is_digest && fields.get("content-type").is_none() {
        (media.kind, media.subtype) = ("message".to_owned(), "rfc822".to_owned());
    }
    (media, body)
}

/// Splits a multipart body at its delimiter lines, into at most [`PIECES_MAX`] pieces. An unclosed last piece counts as
/// a piece. Text before the first delimiter or after the closing one does not.
fn pieces<'m>(body: &'m [u8], boundary: &[u8]) -> Vec<&'m [u8]> {
    let mut pieces = Vec::new();
    if boundary.is_empty() {
        return pieces;
    }
    let delimiter = [b"--", boundary].concat();
    let mut start = None;
    for at in memmem::find_iter(body, &delimiter) {
        let Some((is_closing, end)) = delimiter_line(body, at, delimiter.len()) else { continue };
        if let Some(start) = start {
            pieces.push(without_line_end(body.get(start..at).unwrap_or_default()));
        }
        start = (!is_closing).then_some(end);
        if is_closing || pieces.len() >= PIECES_MAX {
            start = None;
            break;
        }
    }
    pieces.extend(start.and_then(|start| body.get(start..)));
    pieces
}

/// If the delimiter at `at` is on a line of its own, returns the end of the line, and whether it is the closing
/// delimiter.
fn delimiter_line(body: &[u8], at: usize, length: usize) -> Option<(bool, usize)> {
    // Checks the start of the line first. Searching for the line end from every position within a line would take
    // quadratic time.
    if at.checked_sub(1).is_some_and(|before| body.get(before) != Some(&b'\n')) {
        return None;
    }
    let rest = body.get(at + length..)?;
    let line = rest.get(..memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1))?;
    let is_closing = line.starts_with(b"--");
    let is_blank = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_whitespace);
    (is_closing || is_blank(line)).then_some((is_closing, at + length + line.len()))
}

fn without_line_end(piece: &[u8]) -> &[u8] {
    let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
    piece.strip_suffix(b"\r").unwrap_or(piece)
}

fn without_envelope_line(raw: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', raw) {
        Some(end) if raw.starts_with(b"From ") => raw.get(end + 1..).unwrap_or_default(),
        _ => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<String> {
        Message::read(message.as_bytes()).parts().iter().map(|part| part.text().into_owned()).collect()
    }

    #[test]
    fn parts_lie_between_delimiters() {
        let message = "Content-Type: multipart/mixed; boundary=\"a b\"\n\nbefore\n--a b\n\none\n\n--a b  \r\n\r\ntwo\r\n--a bc\n--a b--\nafter\n";
        assert_eq!(texts(message), ["one\n", "two\r\n--a bc"]);
    }

    #[test]
    fn a_last_part_need_not_be_closed() {
        assert_eq!(texts("Content-Type: multipart/x; boundary=b\n\n--b\n\none\n--b\n\ntwo\n"), ["one", "two\n"]);
    }

    #[test]
    fn a_multipart_without_its_delimiter_is_one_part() {
        assert_eq!(texts("Content-Type: multipart/mixed; boundary=b\n\nno such thing"), ["no such thing"]);
        assert_eq!(texts("Content-Type: multipart/mixed\n\nnor here"), ["nor here"]);
        assert_eq!(texts("Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nnor here"), ["--\n\nnor here"]);
    }

    #[test]
    fn messages_within_messages_are_read() {
        assert_eq!(texts("Content-Type: message/rfc822\n\nSubject: x\n\ninner"), ["inner"]);
        let forwarded = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nouter\n--b\nContent-Type: message/rfc822\n\n\
            Content-Type: multipart/mixed; boundary=c\n\n--c\n\ninner\n--c--\n--b--\n";
        assert_eq!(texts(forwarded), ["outer", "inner"]);
    }

    #[test]
    fn the_envelope_line_of_an_mbox_is_no_field() {
        let message = Message::read(b"From someone Mon Jan  1 00:00:00 2001\nSubject: x\n\ntext");
        assert_eq!(message.fields.get("subject").map(<[u8]>::trim_ascii), Some(&b"x"[..]));
    }

    #[test]
    fn the_tree_ends_at_its_depth() {
        let nested = |levels: usize| ["Content-Type: message/rfc822\n\n".repeat(levels), "\ntext".to_owned()].concat();
        let at = nested(NESTING_MAX);
        let beyond = nested(NESTING_MAX + 1);
        assert!(!Message::read(at.as_bytes()).is_cut);
        assert!(Message::read(beyond.as_bytes()).is_cut);
        assert_eq!(Message::read(nested(1_000_000).as_bytes()).parts().len(), 1);
    }

    #[test]
    fn parts_end_at_their_number() {
        let wide = |parts: usize| {
            ["Content-Type: multipart/x; boundary=b\n\n".to_owned(), "--b\n\nx\n".repeat(parts)].concat()
        };
        let at = wide(PARTS_MAX);
        let beyond = wide(PARTS_MAX + 1);
        assert_eq!((texts(&at).len(), Message::read(at.as_bytes()).is_cut), (PARTS_MAX, false));
        assert_eq!((texts(&beyond).len(), Message::read(beyond.as_bytes()).is_cut), (PARTS_MAX, true));
        assert_eq!(texts(&wide(100_000)).len(), PARTS_MAX);
    }

    #[test]
    fn empty_parts_push_nothing_out() {
        let empty = "--b\nContent-Type: text/plain\n\n\n".repeat(1000);
        let message = ["Content-Type: multipart/x; boundary=b\n\n", &empty, "--b\n\ntext\n--b--\n"].concat();
        assert_eq!(texts(&message).last().map(String::as_str), Some("text"));
    }

    #[test]
    fn pieces_end_at_their_number() {
        let body = |count: usize| [&*"--b\n\n\n".repeat(count), "--b\n\nlast\n--b--\n"].concat();
        let last = |count: usize| pieces(body(count).as_bytes(), b"b").last().map(|piece| piece.ends_with(b"last"));
        assert_eq!((last(PIECES_MAX - 1), last(PIECES_MAX)), (Some(true), Some(false)));
        assert_eq!(pieces(body(PIECES_MAX * 2).as_bytes(), b"b").len(), PIECES_MAX);
    }

    #[test]
    fn endless_multiparts_take_little_time() {
        // Each part declares a delimiter that never occurs. This parser searches for it only once. mail-parser needs
        // half a minute for 2 MB of such parts.
        let part = |at: usize| format!("--a\nContent-Type: multipart/mixed; boundary=b{at}\n\nx\n");
        let message: String = (0..40_000).map(part).collect();
        let message = ["Content-Type: multipart/mixed; boundary=a\n\n", &message].concat();
        assert_eq!(Message::read(message.as_bytes()).parts().len(), PARTS_MAX);
    }
}
