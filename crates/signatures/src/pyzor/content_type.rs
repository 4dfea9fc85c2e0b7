//! The `Content-Type` field, parsed with the tolerance of Python's `email.message`.
//!
//! Types are case-insensitive. A value that does not contain exactly one slash means plain text. Parameters follow
//! after semicolons outside quotes. RFC 2231 allows a parameter to be split into numbered sections, and a character to
//! be written as `%` and two digits.

use std::borrow::Cow;

use super::charset::{self, Errors};
use super::space::{is_space, strip};

/// The value of the field, if present.
pub(super) struct ContentType<'a> {
    value: Option<Cow<'a, str>>,
    message_by_default: bool,
}

/// Treatment of the body of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Multipart,
    Message,
    DeliveryStatus,
    Other,
}

impl<'a> ContentType<'a> {
    /// Wraps the value of a field. Bytes other than ASCII are replaced.
    pub(super) fn new(value: Option<&'a [u8]>, message_by_default: bool) -> Self {
        Self { value: value.map(replaced), message_by_default }
    }

    /// Returns the [`Kind`].
    pub(super) fn kind(&self) -> Kind {
        let (main, sub) = self.types();
        if main.eq_ignore_ascii_case("text") {
            Kind::Text
        } else if main.eq_ignore_ascii_case("multipart") {
            Kind::Multipart
        } else if !main.eq_ignore_ascii_case("message") {
            Kind::Other
        } else if sub.eq_ignore_ascii_case("delivery-status") {
            Kind::DeliveryStatus
        } else {
            Kind::Message
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind() == Kind::Text
    }

    pub(super) fn is_html(&self) -> bool {
        self.is_text() && self.types().1.eq_ignore_ascii_case("html")
    }

    /// Returns true for a multipart whose parts are messages by default, as in a digest.
    pub(super) fn is_digest(&self) -> bool {
        self.kind() == Kind::Multipart && self.types().1.eq_ignore_ascii_case("digest")
    }

    /// Returns the boundary of a multipart.
    pub(super) fn boundary(&self) -> Option<String> {
        let boundary = match self.parameter("boundary")? {
            // Python removes quotes twice.
            Parameter::Plain(value) => unquoted(&value).into_owned(),
            Parameter::Extended { charset, value } => {
                let bytes = raw_unicode_escape(&value);
                let charset = charset.as_deref().unwrap_or("us-ascii");
                charset::try_decode(bytes.into(), charset, Errors::Replace)
                    .map_or_else(|| unquoted(&value).into_owned(), Cow::into_owned)
            }
        };
        Some(boundary.trim_end_matches(is_space).to_owned())
    }

    /// Returns the declared character set of a text part.
    pub(super) fn charset(&self) -> Option<String> {
        let charset = match self.parameter("charset")? {
            Parameter::Plain(value) => value,
            Parameter::Extended { charset, value } => {
                let bytes = raw_unicode_escape(&value);
                let charset = charset.as_deref().filter(|charset| !charset.is_empty()).unwrap_or("us-ascii");
                charset::try_decode(bytes.into(), charset, Errors::Refuse).map_or(value, Cow::into_owned)
            }
        };
        (charset.is_ascii() && !charset.is_empty()).then_some(charset)
    }

    /// Returns the declared character set of a part that is not text.
    pub(super) fn raw_charset(&self) -> Option<String> {
        self.parameter("charset").map(|(Parameter::Plain(value) | Parameter::Extended { value, .. })| value)
    }

    /// Returns main type and subtype.
    fn types(&self) -> (&str, &str) {
        const PLAIN: (&str, &str) = ("text", "plain");
        let Some(value) = &self.value else {
            return if self.message_by_default { ("message", "rfc822") } else { PLAIN };
        };
        let types = strip(value.split(';').next().unwrap_or_default());
        types.split_once('/').filter(|(_, sub)| !sub.contains('/')).unwrap_or(PLAIN)
    }

    /// Returns the value of a parameter. If it is given both with and without sections, the value without sections
    /// takes precedence.
    fn parameter(&self, name: &str) -> Option<Parameter> {
        let mut sections = Sections::default();
        for (index, (found, value)) in parameters(self.value.as_deref()?).enumerate() {
            match (index > 0).then(|| Section::new(found, value)).flatten() {
                Some(section) => sections.push(name, found, section),
                None if found.eq_ignore_ascii_case(name) => {
                    return Some(Parameter::Plain(unquoted(value).into_owned()));
                }
                None => {}
            }
        }
        sections.joined()
    }
}

/// The value of a parameter.
enum Parameter {
    Plain(String),
    /// A value encoded as in RFC 2231, and its character set if one is stated.
    Extended {
        charset: Option<String>,
        value: String,
    },
}

/// The sections of a parameter. Python compares their names case-sensitively.
#[derive(Default)]
struct Sections<'a> {
    name: Option<&'a str>,
    sections: Vec<Section<'a>>,
}

impl<'a> Sections<'a> {
    fn push(&mut self, wanted: &str, found: &'a str, section: Section<'a>) {
        let name = found.split('*').next().unwrap_or_default();
        if name.eq_ignore_ascii_case(wanted) && *self.name.get_or_insert(name) == name {
            self.sections.push(section);
        }
    }

    /// Joins the sections in numerical order, decoded.
    fn joined(mut self) -> Option<Parameter> {
        self.name?;
        self.sections.sort();
        let is_extended = self.sections.iter().any(|section| section.is_encoded);
        let joined: String = self.sections.iter().map(Section::decoded).collect();
        if !is_extended {
            return Some(Parameter::Plain(joined));
        }
        let mut pieces = joined.splitn(3, '\'');
        Some(match (pieces.next(), pieces.next(), pieces.next()) {
            (Some(charset), Some(_), Some(value)) => {
                Parameter::Extended { charset: Some(quoted(charset)), value: value.to_owned() }
            }
            _ => Parameter::Extended { charset: None, value: joined },
        })
    }
}

/// One section of a parameter: `name*`, `name*1` or `name*1*`. Sections are sorted by the struct's fields, in order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Section<'a> {
    number: Option<u64>,
    value: Cow<'a, str>,
    is_encoded: bool,
}

impl<'a> Section<'a> {
    /// Creates a section if `name` is the name of a section.
    fn new(name: &str, value: &'a str) -> Option<Self> {
        let (base, suffix) = name.split_once('*')?;
        let is_word = !base.is_empty() && base.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let digits = suffix.strip_suffix('*').unwrap_or(suffix);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && (!digits.is_empty() || suffix.is_empty());
        let number = (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX));
        (is_word && is_number).then(|| Self { number, value: unquoted(value), is_encoded: name.ends_with('*') })
    }

    /// Decodes the `%` escapes of the value. Each escape is one character up to U+00FF.
    fn decoded(&self) -> Cow<'_, str> {
        if !self.is_encoded || !self.value.contains('%') {
            return Cow::Borrowed(&self.value);
        }
        let mut decoded = String::with_capacity(self.value.len());
        let mut pieces = self.value.split('%');
        decoded.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let escaped = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => {
                    decoded.push(char::from(byte));
                    decoded.push_str(piece.get(2..).unwrap_or_default());
                }
                None => decoded.extend(["%", piece]),
            }
        }
        Cow::Owned(decoded)
    }
}

/// Splits at semicolons into names and values. The first name is the type itself. Surrounding white space is removed,
/// but quotes are not.
fn parameters(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let (parameter, after) = split_parameter(rest?);
        rest = after;
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        Some((strip(name), strip(value)))
    })
}

/// Splits at the first semicolon outside quotes. A quote after a backslash does not count as a quote.
fn split_parameter(value: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    let mut before = 0;
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b'"' if before != b'\\' => is_quoted = !is_quoted,
            b';' if !is_quoted => return (value.get(..at).unwrap_or_default(), value.get(at + 1..)),
            _ => {}
        }
        before = byte;
    }
    (value, None)
}

/// Strips quotes or angle brackets around `value`.
fn unquoted(value: &str) -> Cow<'_, str> {
    if let Some(inner) = inside(value, '"', '"') {
        if !inner.contains('\\') {
            return Cow::Borrowed(inner);
        }
        return Cow::Owned(inner.replace("\\\\", "\\").replace("\\\"", "\""));
    }
    Cow::Borrowed(inside(value, '<', '>').unwrap_or(value))
}

/// Returns the text between `first` and `last` if it is enclosed in them.
fn inside(value: &str, first: char, last: char) -> Option<&str> {
    value.strip_prefix(first)?.strip_suffix(last)
}

/// Escapes quotes and backslashes, as is required within quotes.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Encodes each character up to U+00FF as one byte, and any other as an escape in ASCII.
fn raw_unicode_escape(value: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    for character in value.chars() {
        match u8::try_from(character) {
            Ok(byte) => bytes.push(byte),
            Err(_) if u32::from(character) > 0xffff => bytes.extend(format!("\\U{:08x}", u32::from(character)).bytes()),
            Err(_) => bytes.extend(format!("\\u{:04x}", u32::from(character)).bytes()),
        }
    }
    bytes
}

/// Decodes ASCII, replacing every other byte with U+FFFD.
fn replaced(value: &[u8]) -> Cow<'_, str> {
    let to_character = |&byte: &u8| if byte.is_ascii() { char::from(byte) } else { char::REPLACEMENT_CHARACTER };
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(value.iter().map(to_character).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> ContentType<'_> {
        ContentType::new(Some(value.as_bytes()), false)
    }

    #[test]
    fn types_are_read_with_tolerance() {
        assert_eq!(of(" TEXT/HTML ; x").kind(), Kind::Text);
        assert!(of("Text/Html").is_html());
        assert!(!of("text/html charset=x").is_html());
        assert_eq!(of("image").kind(), Kind::Text);
        assert_eq!(of("message/a/b").kind(), Kind::Text);
        assert_eq!(of("text /html").kind(), Kind::Other);
        assert_eq!(ContentType::new(None, true).kind(), Kind::Message);
    }

    #[test]
    fn parameters_lose_their_quotes() {
        for (value, boundary) in [
            ("a/b; boundary=c", "c"),
            ("a/b; x=\"; boundary=d\"; Boundary = \"c \" ", "c"),
            ("a/b; boundary=\"<c>\"", "c"),
            ("a/b; boundary=\"a\\\"b\\\\c\"", "a\"b\\c"),
            ("a/b; boundary*1=d; boundary*0=\"c\"", "cd"),
            ("a/b; boundary*=us-ascii'en'c%64e%", "cde%"),
            ("boundary=c", "c"),
        ] {
            assert_eq!(of(value).boundary().as_deref(), Some(boundary), "{value}");
        }
    }

    #[test]
    fn a_character_set_is_ascii_or_none() {
        assert_eq!(of("a/b; charset=\"UTF-8\"").charset().as_deref(), Some("UTF-8"));
        assert_eq!(of("a/b; charset*=''utf-8").charset().as_deref(), Some("utf-8"));
        assert_eq!(of("a/b; charset=\"\"").charset(), None);
        assert_eq!(of("a/b; charset=ä").charset(), None);
    }
}
