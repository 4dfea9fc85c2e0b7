//! What a message is made of: its header fields and its parts, as a mail reader would find them.
//!
//! Every scheme that is ours reads mail through this module. (The schemes of other programs have parsing rules of their
//! own, which are part of their signatures and live with them.) It is forgiving: whatever the bytes are, there is a
//! message in them.
//!
//! mail-parser decodes fields, transfer encodings and character sets. The tree of parts is found here, because its own
//! walk has no bounds: nested messages overflow its stack, and multiparts without their delimiters take it time that is
//! quadratic. Here each level of the tree reads its bytes once, and there are at most [`NESTING_MAX`] levels and
//! [`PARTS_MAX`] parts that are not empty. What lies deeper is text that nobody decodes; what comes behind is left out.

mod decode;
mod fields;

use std::borrow::Cow;

use memchr::memmem;

pub use fields::{Fields, MediaType};

/// Most levels of multiparts and messages within messages.
pub const NESTING_MAX: usize = 16;

/// Most parts of a message that are neither multiparts nor empty.
pub const PARTS_MAX: usize = 256;

/// What is decoded of a file to tell what it is.
const HEAD_BYTES: usize = 1024;

/// Most pieces of a multipart, empty ones included.
const PIECES_MAX: usize = 4096;

/// One mail.
#[derive(Debug)]
pub struct Message<'m> {
    /// Its header.
    pub fields: Fields<'m>,
    /// Its body.
    pub body: Entity<'m>,
    /// Whether a bound was met, so that parts are missing.
    pub is_cut: bool,
}

/// A part, or several.
#[derive(Debug)]
pub enum Entity<'m> {
    /// A part with content of its own.
    Part(Part<'m>),
    /// Several in a row.
    Several(Vec<Self>),
    /// A message within the message: somebody else's words, passed on.
    Forwarded(Box<Self>),
    /// Several of which a reader shows one, the best last.
    Alternatives(Vec<Self>),
}

/// A part with content of its own.
#[derive(Debug)]
pub struct Part<'m> {
    /// What its header says it is.
    pub media: MediaType,
    /// Its content as transferred.
    pub raw: &'m [u8],
    /// Whether it is inside an attached message.
    pub is_forwarded: bool,
}

impl<'m> Message<'m> {
    /// Finds the parts of a message. A leading `From ` line, as in an mbox, belongs to no part.
    pub fn read(raw: &'m [u8]) -> Self {
        let (fields, body) = fields::split(without_envelope_line(raw));
        let mut walk = Walk { parts: 0, forwards: 0, is_cut: false };
        let body = walk.entity(&fields, body, 0);
        Self { fields, body, is_cut: walk.is_cut }
    }

    /// All parts, in order.
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
    /// The content with its transfer encoding undone. Broken encodings give what can be made out.
    pub fn bytes(&self) -> Cow<'m, [u8]> {
        decode::transfer(self.raw, self.media.encoding)
    }

    /// The first bytes of the content: at least `bytes`, unless there are fewer. Blanks between the characters of an
    /// encoding say nothing, so more is decoded until there are enough.
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

    /// The content as text, for parts that are.
    pub fn text(&self) -> Cow<'m, str> {
        let charset = self.media.charset.as_deref();
        decode::without_stray_base64(decode::text(self.bytes(), charset), charset)
    }
}

/// The walk through the tree, and what it has met.
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
            // What nobody takes apart is text, so that depth hides nothing.
            self.is_cut = true;
            return Entity::Part(self.part(MediaType::default(), body));
        }
        Entity::Part(self.part(media, body))
    }

    fn part<'m>(&self, media: MediaType, raw: &'m [u8]) -> Part<'m> {
        Part { media, raw, is_forwarded: self.forwards > 0 }
    }

    /// The parts of a multipart. Those of a digest are messages unless they say otherwise (RFC 2046, 5.1.5).
    fn entities<'m>(&mut self, pieces: Vec<&'m [u8]>, is_digest: bool, depth: usize) -> Vec<Entity<'m>> {
        let mut entities = Vec::with_capacity(pieces.len().min(PARTS_MAX));
        for piece in pieces {
            if self.parts >= PARTS_MAX {
                self.is_cut = true;
                break;
            }
            let (fields, body) = fields::split(piece);
            let mut media = fields.media_type();
            if is_digest && fields.get("content-type").is_none() {
                (media.kind, media.subtype) = ("message".to_owned(), "rfc822".to_owned());
            }
            entities.push(self.typed_entity(media, body, depth));
        }
        entities
    }
}

/// The pieces of a multipart body: what lies between delimiter lines. An unclosed last piece counts; what comes before the
/// first delimiter and after the closing one does not. There are at most [`PIECES_MAX`].
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

/// Whether the delimiter found at `at` is a line of its own: then whether it is the closing one, and where the line ends.
fn delimiter_line(body: &[u8], at: usize, length: usize) -> Option<(bool, usize)> {
    // First of all, as looking for the end of a line from every place within it takes time that is quadratic.
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
    fn multiparts_without_end_take_no_time_to_speak_of() {
        // Each declares a delimiter that never comes, and is searched once for it: 2 MB take mail-parser half a minute.
        let part = |at: usize| format!("--a\nContent-Type: multipart/mixed; boundary=b{at}\n\nx\n");
        let message: String = (0..40_000).map(part).collect();
        let message = ["Content-Type: multipart/mixed; boundary=a\n\n", &message].concat();
        assert_eq!(Message::read(message.as_bytes()).parts().len(), PARTS_MAX);
    }
}
