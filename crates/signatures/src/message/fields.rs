//! Header fields, and the media type that the content fields declare.

use std::borrow::Cow;

use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};

use crate::transfer::Encoding;

/// Maximum number of bytes of a field that are read. Fields in real mail are shorter. The limit protects against
/// endless parameter lists.
const FIELD_BYTES_MAX: usize = 32 * 1024;

/// The header of a message or part, as received.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'m> {
    raw: &'m [u8],
}

/// The declared media type of a part, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// Main type in lower case, such as `text`.
    pub kind: String,
    /// Subtype in lower case, such as `plain`.
    pub subtype: String,
    /// Character set, if declared.
    pub charset: Option<String>,
    /// Delimiter of a multipart.
    pub boundary: Option<String>,
    /// True if a mail program displays the part as a file.
    pub is_attachment: bool,
    /// The last extension of the file name in lower case, such as `pdf`. It determines which program opens the file.
    pub extension: Option<String>,
    /// True if a mail server invented the file name, such as `ATT00001.txt`, because the part had none.
    pub is_name_invented: bool,
    /// Transfer encoding.
    pub encoding: Encoding,
}

/// Splits at the end of the header. The header ends at an empty line, which belongs to neither side, or before a line
/// that is not a field.
pub(super) fn split(raw: &[u8]) -> (Fields<'_>, &[u8]) {
    let mut at = 0;
    loop {
        let rest = raw.get(at..).unwrap_or_default();
        let length = line_length(rest);
        let line = rest.get(..length).unwrap_or_default();
        if matches!(line, b"" | b"\n" | b"\r\n") || !is_field_line(line) {
            let body_at = if is_field_line(line) || matches!(line, b"\n" | b"\r\n") { at + length } else { at };
            return (Fields { raw: raw.get(..at).unwrap_or_default() }, raw.get(body_at..).unwrap_or_default());
        }
        at += length;
    }
}

/// Returns true if the line begins or continues a field.
fn is_field_line(line: &[u8]) -> bool {
    match line.first() {
        Some(b' ' | b'\t') => true,
        _ => name_length(line).is_some(),
    }
}

/// Returns the length of the field name at the start of the line.
fn name_length(line: &[u8]) -> Option<usize> {
    let end = line.iter().position(|byte| !matches!(byte, b'!'..=b'9' | b';'..=b'~'))?;
    let colon = end + line.get(end..)?.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    (end > 0 && line.get(colon) == Some(&b':')).then_some(end)
}

/// Returns the length of the first line, including its end.
fn line_length(raw: &[u8]) -> usize {
    memchr::memchr(b'\n', raw).map_or(raw.len(), |end| end + 1)
}

impl<'m> Fields<'m> {
    /// Returns the header of a message. A leading `From ` line, as in an mbox, is not a field.
    pub fn of(message: &'m [u8]) -> Self {
        split(super::without_envelope_line(message)).0
    }

    /// Returns the value of the first field with this name, not unfolded.
    pub fn get(&self, name: &str) -> Option<&'m [u8]> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Returns the text of the first field with this name as people read it: unfolded, with its encoded words decoded (RFC
    /// 2047). Only the first bytes of a long field are read.
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        let line = line_of(value.get(..FIELD_BYTES_MAX).unwrap_or(value));
        match MessageStream::new(&line).parse_unstructured() {
            HeaderValue::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// Iterates over all fields, as names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            loop {
                if rest.is_empty() {
                    return None;
                }
                let mut length = line_length(rest);
                while matches!(rest.get(length), Some(b' ' | b'\t')) {
                    length += line_length(rest.get(length..)?);
                }
                let (field, behind) = rest.split_at_checked(length)?;
                rest = behind;
                if let Some(name) = name_length(field) {
                    let colon = memchr::memchr(b':', field)?;
                    return Some((field.get(..name)?, field.get(colon + 1..)?));
                }
            }
        })
    }

    /// Returns the type declared by the content fields, or the default type, text (RFC 2045).
    pub fn media_type(&self) -> MediaType {
        let mut media = MediaType::default();
        let mut has_type = false;
        for (name, value) in self.iter() {
            let value = value.get(..FIELD_BYTES_MAX).unwrap_or(value);
            if name.eq_ignore_ascii_case(b"content-type") {
                // If `Content-Type` is repeated, mail programs use the first one.
                if !std::mem::replace(&mut has_type, true) {
                    media.read_type(value);
                }
            } else if name.eq_ignore_ascii_case(b"content-disposition") {
                media.is_attachment = value.trim_ascii_start().to_ascii_lowercase().starts_with(b"attachment");
                // Mail programs prefer the file name in `Content-Disposition` to the one in `Content-Type`.
                if let Some(name) = parsed(&line_of(value)).as_ref().and_then(|found| file_name(found, "filename")) {
                    media.set_name(name);
                }
            } else if name.eq_ignore_ascii_case(b"content-transfer-encoding") {
                media.encoding = Encoding::named(value);
            }
        }
        media
    }
}

impl Default for MediaType {
    fn default() -> Self {
        Self {
            kind: "text".to_owned(),
            subtype: "plain".to_owned(),
            charset: None,
            boundary: None,
            is_attachment: false,
            extension: None,
            is_name_invented: false,
            encoding: Encoding::None,
        }
    }
}

impl MediaType {
    /// Returns true if the type matches, and the subtype if one is given.
    pub fn is(&self, kind: &str, subtype: Option<&str>) -> bool {
        self.kind == kind && subtype.is_none_or(|subtype| self.subtype == subtype)
    }

    /// Returns true if the part is an attached message that can be parsed in place.
    pub(super) fn is_message(&self) -> bool {
        self.names_message() && self.encoding == Encoding::None
    }

    /// Returns true if the part is an attached message, whatever its transfer encoding.
    pub(super) fn names_message(&self) -> bool {
        self.kind == "message" && matches!(self.subtype.as_str(), "rfc822" | "global")
    }

    fn read_type(&mut self, value: &[u8]) {
        let line = line_of(value);
        let Some(found) = parsed(&line) else { return };
        let owned = |value: &Cow<'_, str>| value.clone().into_owned();
        self.kind = found.c_type.to_ascii_lowercase();
        self.subtype = found.c_subtype.as_ref().map(owned).unwrap_or_default().to_ascii_lowercase();
        self.charset = found.attribute("charset").map(str::to_owned);
        self.boundary = found.attribute("boundary").map(str::to_owned);
        // A name in `Content-Disposition` takes precedence, even if that field comes first.
        if let Some(name) = file_name(&found, "name").filter(|_| self.extension.is_none()) {
            self.set_name(name);
        }
    }

    /// Sets the properties that depend on the file name. A name without extension has none of them.
    fn set_name(&mut self, name: &str) {
        let Some((stem, extension)) = name.rsplit_once('.') else { return };
        self.extension = Some(extension.to_ascii_lowercase());
        let number = stem.get(..3).filter(|start| start.eq_ignore_ascii_case("att")).and_then(|_| stem.get(3..));
        let is_number = |number: &str| number.len() >= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
        self.is_name_invented = number.is_some_and(is_number);
    }
}

/// Returns the value of a field, with a line feed appended. The parser needs the line feed to find the end of the
/// field.
fn line_of(value: &[u8]) -> Vec<u8> {
    [value.trim_ascii_end(), b"\n"].concat()
}

/// Parses a field of the form `value; attribute=value`.
fn parsed(line: &[u8]) -> Option<ContentType<'_>> {
    match MessageStream::new(line).parse_content_type() {
        HeaderValue::ContentType(found) => Some(found),
        _ => None,
    }
}

/// Returns the file name in an attribute. Ignores trailing dots and spaces, as operating systems do.
fn file_name<'f>(found: &'f ContentType<'_>, attribute: &str) -> Option<&'f str> {
    found.attribute(attribute).map(|name| name.trim_end_matches([' ', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(header: &str) -> MediaType {
        split(header.as_bytes()).0.media_type()
    }

    #[test]
    fn a_field_is_read_as_people_see_it() {
        let header =
            b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n =?utf-8?b?IQ==?=\nTo: a\n\tb <c@d>\nX:\nSubject: later\n\n";
        let fields = Fields::of(header);
        assert_eq!(fields.text("subject").as_deref(), Some("Grüße!"));
        assert_eq!(fields.text("To").as_deref(), Some("a b <c@d>"));
        assert_eq!((fields.text("X"), fields.text("Date")), (None, None));
        let long = [b"Subject: ", &[b'x'; 2 * FIELD_BYTES_MAX][..], b"\n\n"].concat();
        assert!(Fields::of(&long).text("subject").unwrap().len() <= FIELD_BYTES_MAX);
        assert!(Fields::of(b"Subject: \xff\xfe\n\n").text("subject").is_some());
    }

    #[test]
    fn a_header_ends_at_an_empty_line_or_at_what_is_no_field() {
        assert_eq!(split(b"A: b\n c\n\nbody").1, b"body");
        assert_eq!(split(b"A: b\r\n\r\nbody").1, b"body");
        assert_eq!(split(b"A: b\nno field\n\nbody").1, b"no field\n\nbody");
        assert_eq!(split(b"\nbody").1, b"body");
        assert_eq!(split(b"just text").1, b"just text");
        assert_eq!(split(b"A: b").1, b"");
        assert_eq!(split(b"").1, b"");
    }

    #[test]
    fn fields_are_found_by_name_whatever_its_case() {
        let (fields, _) = split(b"Subject : one\n two\nsubject: three\n\n");
        assert_eq!(fields.get("SUBJECT"), Some(&b" one\n two\n"[..]));
        assert_eq!(fields.iter().count(), 2);
    }

    #[test]
    fn what_a_part_says_it_is() {
        let found =
            media("Content-Type: Text/HTML; charset=\"UTF-8\";\n boundary=x\nContent-Transfer-Encoding: BASE64\n\n");
        assert!(found.is("text", Some("html")) && found.encoding == Encoding::Base64);
        assert_eq!((found.charset.as_deref(), found.boundary.as_deref()), (Some("UTF-8"), Some("x")));
        assert!(media("Content-Disposition: Attachment; filename=x\n\n").is_attachment);
        let extension = |header: &str| media(header).extension;
        assert_eq!(extension("Content-Type: image/png; name=\"a.b.PDF. \"\n\n").as_deref(), Some("pdf"));
        let both = ["Content-Type: image/png; name=a.png\n", "Content-Disposition: inline; filename=\"a.exe\"\n"];
        assert_eq!(extension(&[both[0], both[1], "\n"].concat()).as_deref(), Some("exe"));
        assert_eq!(extension(&[both[1], both[0], "\n"].concat()).as_deref(), Some("exe"));
        assert_eq!(extension("Content-Type: image/png\n\n"), None);
        let is_invented = |name: &str| media(&format!("Content-Type: text/plain; name={name}\n\n")).is_name_invented;
        assert!(is_invented("ATT00001.txt") && is_invented("att123.htm") && is_invented("\"ATT00001.c\""));
        assert!(!is_invented("ATT12.txt") && !is_invented("ATTACHED.txt") && !is_invented("ATT00001"));
        assert_eq!(media("\n"), MediaType::default());
        assert!(media("Content-Type: text/plain\nContent-Type: application/pdf\n\n").is("text", Some("plain")));
    }

    #[test]
    fn a_field_without_end_is_read_as_far_as_any_real_one() {
        let header = ["Content-Type: text/html", &"; a=b".repeat(1_000_000), "\n\n"].concat();
        assert!(media(&header).is("text", Some("html")));
    }
}
