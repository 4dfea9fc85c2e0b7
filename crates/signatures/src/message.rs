//! What a message is made of: its header fields and its parts, as a mail reader would find them.
//!
//! Every scheme that is ours reads mail through this module. (The schemes of other programs have parsing rules of their
//! own, which are part of their signatures and live with them.) It is forgiving: whatever the bytes are, there is a
//! message in them.
//!
//! mail-parser decodes fields, transfer encodings and character sets. The tree of parts is found here, because its own
//! walk has no bounds: nested messages overflow its stack, and multiparts without their delimiters take it time that is
//! quadratic. Here each level of the tree reads its bytes once, there are at most [`NESTING_MAX`] levels and
//! [`PARTS_MAX`] parts, and what lies deeper or behind is left as text that nobody decodes.

mod decode;
mod fields;

use std::borrow::Cow;

use memchr::memmem;

pub use fields::{Fields, MediaType};

/// Most levels of multiparts and messages within messages.
pub const NESTING_MAX: usize = 16;

/// Most parts of a message that are not multiparts.
pub const PARTS_MAX: usize = 256;

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
    /// Several in a row, or a message within the message.
    Several(Vec<Self>),
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
}

impl<'m> Message<'m> {
    /// Finds the parts of a message. A leading `From ` line, as in an mbox, belongs to no part.
    pub fn read(raw: &'m [u8]) -> Self {
        let (fields, body) = fields::split(without_envelope_line(raw));
        let mut walk = Walk { parts: 0, is_cut: false };
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

    /// The content as text, for parts that are.
    pub fn text(&self) -> Cow<'m, str> {
        let charset = self.media.charset.as_deref();
        decode::without_stray_base64(decode::text(self.bytes(), charset), charset)
    }
}

/// The walk through the tree, and what it has met.
struct Walk {
    parts: usize,
    is_cut: bool,
}

impl Walk {
    fn entity<'m>(&mut self, fields: &Fields<'m>, body: &'m [u8], depth: usize) -> Entity<'m> {
        let media = fields.media_type();
        if depth < NESTING_MAX {
            if media.is_message() {
                let (fields, body) = fields::split(body);
                return Entity::Several(vec![self.entity(&fields, body, depth + 1)]);
            }
            if let Some(boundary) = media.boundary.as_deref().filter(|_| media.is("multipart", None)) {
                let pieces = pieces(body, boundary.as_bytes());
                if !pieces.is_empty() {
                    let is_alternative = media.is("multipart", Some("alternative"));
                    let entities = self.entities(pieces, depth + 1);
                    return if is_alternative { Entity::Alternatives(entities) } else { Entity::Several(entities) };
                }
            }
        } else if media.is_message() || media.is("multipart", None) {
            self.is_cut = true;
        }
        self.parts += 1;
        Entity::Part(Part { media, raw: body })
    }

    fn entities<'m>(&mut self, pieces: Vec<&'m [u8]>, depth: usize) -> Vec<Entity<'m>> {
        let mut entities = Vec::with_capacity(pieces.len().min(PARTS_MAX));
        for piece in pieces {
            if self.parts >= PARTS_MAX {
                self.is_cut = true;
                break;
            }
            let (fields, body) = fields::split(piece);
            entities.push(self.entity(&fields, body, depth));
        }
        entities
    }
}

/// The pieces of a multipart body: what lies between delimiter lines. An unclosed last piece counts; what comes before the
/// first delimiter and after the closing one does not. There are at most one more than [`PARTS_MAX`].
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
        if is_closing || pieces.len() > PARTS_MAX {
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
