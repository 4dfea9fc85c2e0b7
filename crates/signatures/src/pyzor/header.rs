//! The two relevant header fields, and detection of the end of a header.

use super::content_type::ContentType;
use super::reader::Reader;

/// The fields of a part's header that determine how its body is read.
#[derive(Clone, Copy, Default)]
pub(super) struct Header<'a> {
    content_type: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    /// True if the default type of the part is a message, as in a digest, rather than plain text.
    message_by_default: bool,
}

impl<'a> Header<'a> {
    /// Reads header lines, and the empty line after them.
    ///
    /// A `From ` line is an mbox envelope if it is the first line. If it is the last line, it belongs to the body and
    /// is put back, but the empty line after it is not put back. Anywhere else, it is ignored.
    pub(super) fn read(reader: &mut Reader<'a>, message_by_default: bool) -> Self {
        let mut header = Self { message_by_default, ..Self::default() };
        let mut field = OpenField::Ignored;
        let mut last_envelope = None;
        let mut is_first = true;
        while let Some(line) = reader.peek() {
            if !is_header_line(line) {
                if is_blank(line) {
                    reader.advance(line);
                }
                break;
            }
            let start = reader.position();
            reader.advance(line);
            let is_envelope = line.starts_with(b"From ");
            last_envelope = (is_envelope && !is_first).then_some(line);
            if is_envelope {
                field = OpenField::Ignored;
            } else if line.starts_with(b" ") || line.starts_with(b"\t") {
                header.extend(&field, reader, reader.position());
            } else {
                field = header.start(reader, line, start);
            }
            is_first = false;
        }
        if let Some(line) = last_envelope {
            reader.put_back(line);
        }
        header
    }

    /// Returns the content type, valid or not.
    pub(super) fn content_type(&self) -> ContentType<'a> {
        ContentType::new(self.content_type.map(without_line_ends), self.message_by_default)
    }

    /// Returns the transfer encoding as written.
    pub(super) fn transfer_encoding(&self) -> &'a [u8] {
        self.transfer_encoding.map_or(&[], without_line_ends)
    }

    /// Begins the field whose first line is `line`. If a field is repeated, the first one counts.
    fn start(&mut self, reader: &Reader<'a>, line: &'a [u8], start: usize) -> OpenField {
        let name_length = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let (name, value) = line.split_at_checked(name_length).unwrap_or_default();
        let blanks = value.iter().skip(1).take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        let value_start = start + name_length + 1 + blanks;
        let field = if name.eq_ignore_ascii_case(b"content-type") && self.content_type.is_none() {
            OpenField::ContentType { value_start }
        } else if name.eq_ignore_ascii_case(b"content-transfer-encoding") && self.transfer_encoding.is_none() {
            OpenField::TransferEncoding { value_start }
        } else {
            OpenField::Ignored
        };
        self.extend(&field, reader, reader.position());
        field
    }

    /// Extends the value of `field` up to `end`.
    fn extend(&mut self, field: &OpenField, reader: &Reader<'a>, end: usize) {
        match *field {
            OpenField::ContentType { value_start } => self.content_type = Some(reader.between(value_start, end)),
            OpenField::TransferEncoding { value_start } => {
                self.transfer_encoding = Some(reader.between(value_start, end))
            }
            OpenField::Ignored => {}
        }
    }
}

/// The field that a continuation line belongs to.
enum OpenField {
    ContentType { value_start: usize },
    TransferEncoding { value_start: usize },
    Ignored,
}

/// Returns true if `line` belongs to a header. Such a line is an envelope, a continuation, or a name (possibly empty)
/// followed by a colon.
fn is_header_line(line: &[u8]) -> bool {
    if line.starts_with(b"From ") || line.starts_with(b" ") || line.starts_with(b"\t") {
        return true;
    }
    line.iter().find(|&&byte| byte == b':' || !byte.is_ascii_graphic()) == Some(&b':')
}

/// Returns true if `line` is empty except for its line end.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.starts_with(b"\n") || line.starts_with(b"\r")
}

/// Strips line ends.
fn without_line_ends(value: &[u8]) -> &[u8] {
    let mut rest = value;
    while let [before @ .., b'\r' | b'\n'] = rest {
        rest = before;
    }
    rest
}
