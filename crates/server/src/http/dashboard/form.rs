//! Forms: decoding of `application/x-www-form-urlencoded` and `multipart/form-data`.
//!
//! The body is in memory already, within the limit on requests. Decoding is linear in its length and keeps at most
//! [`FIELDS_MAX`] fields.

use super::super::fault::Fault;

/// Maximum number of fields in a form.
const FIELDS_MAX: usize = 32;

/// Maximum length of a boundary, by RFC 2046.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The fields of a form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    fields: Vec<(String, Vec<u8>)>,
}

impl Form {
    /// Decodes a form. `media` is the complete value of the header field `Content-Type`.
    pub(super) fn read(media: &str, body: &[u8]) -> Result<Self, Fault> {
        let (kind, parameters) = media.split_once(';').unwrap_or((media, ""));
        let fields = match kind.trim().to_ascii_lowercase().as_str() {
            "application/x-www-form-urlencoded" => url_encoded(body),
            "multipart/form-data" => multipart(body, boundary(parameters).ok_or_else(malformed)?),
            _ => return Err(Fault::media("unsupported Content-Type: expected a form")),
        };
        let fields = fields.ok_or_else(malformed)?;
        if fields.len() > FIELDS_MAX {
            return Err(Fault::malformed(format!("too many fields: expected at most {FIELDS_MAX}")));
        }
        Ok(Self { fields })
    }

    /// Returns the content of a field, or nothing if there is no such field.
    pub(super) fn bytes(&self, name: &str) -> &[u8] {
        self.fields.iter().find(|(of, _)| of == name).map_or(&[], |(_, value)| value)
    }

    /// Returns a field as text without surrounding blanks. Invalid UTF-8 is treated as an empty field.
    pub(super) fn text(&self, name: &str) -> &str {
        std::str::from_utf8(self.bytes(name)).unwrap_or_default().trim()
    }
}

fn malformed() -> Fault {
    Fault::malformed("malformed form")
}

fn url_encoded(body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).take(FIELDS_MAX + 1);
    pairs
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(at);
            Some((String::from_utf8(decoded(name)?).ok()?, decoded(value.get(1..).unwrap_or_default())?))
        })
        .collect()
}

/// Decodes `%41` and `+`.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => (digit(*rest.next()?)? << 4) | digit(*rest.next()?)?,
            byte => byte,
        });
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Returns the parameter `boundary`.
fn boundary(parameters: &str) -> Option<&str> {
    let value = parameters.split(';').find_map(|one| one.trim().strip_prefix("boundary="))?;
    let value = value.trim().trim_matches('"');
    (1..=BOUNDARY_BYTES_MAX).contains(&value.len()).then_some(value)
}

fn multipart(body: &[u8], boundary: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    // The first delimiter need not follow a line end.
    let mut rest = body.strip_prefix(delimiter.get(2..)?)?;
    let mut fields = Vec::new();
    while !rest.starts_with(b"--") && fields.len() <= FIELDS_MAX {
        let part = rest.strip_prefix(b"\r\n")?;
        let end = find(part, &delimiter)?;
        let (part, after) = part.split_at_checked(end)?;
        let (head, content) = part.split_at_checked(find(part, b"\r\n\r\n")?)?;
        fields.push((field_name(head)?, content.get(4..)?.to_vec()));
        rest = after.get(delimiter.len()..)?;
    }
    Some(fields)
}

/// Returns the name in the header field `Content-Disposition` of a part.
fn field_name(head: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(head).ok()?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let name = disposition.split(';').find_map(|one| one.trim().strip_prefix("name="))?;
    Some(name.trim_matches('"').to_owned())
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    // Browsers choose boundaries of dashes and random digits, so few places match more than the first bytes.
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MULTIPART: &str = "multipart/form-data; boundary=XyZ";

    #[test]
    fn an_encoded_form_is_decoded() {
        let form = Form::read("application/x-www-form-urlencoded; charset=utf-8", b"a=1+2&b=%C3%A4%26&&c").unwrap();
        assert_eq!((form.text("a"), form.text("b"), form.text("c"), form.text("d")), ("1 2", "ä&", "", ""));
        assert_eq!(form.bytes("a"), b"1 2");
        for wrong in ["a=%4", "a=%zz", "%=1"] {
            assert!(Form::read("application/x-www-form-urlencoded", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_arrives_byte_for_byte() {
        let body = b"--XyZ\r\nContent-Disposition: form-data; name=\"form\"\r\n\r\ntoken\r\n--XyZ\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"a.eml\"\r\nContent-Type: message/rfc822\r\n\r\n\
            a\n\xff--XyZ\r\n\r\n\r\n--XyZ--\r\n";
        let form = Form::read(MULTIPART, body).unwrap();
        assert_eq!((form.text("form"), form.bytes("file")), ("token", &b"a\n\xff--XyZ\r\n\r\n"[..]));
    }

    #[test]
    fn broken_forms_are_refused() {
        for body in ["", "--XyZ", "--XyZ\r\n", "--XyZ\r\nname\r\n\r\nvalue\r\n--XyZ--", "--abc\r\n\r\n--abc--"] {
            assert!(Form::read(MULTIPART, body.as_bytes()).is_err(), "{body:?}");
        }
        assert!(Form::read("multipart/form-data", b"--XyZ--").is_err(), "no boundary");
        assert!(Form::read("application/json", b"{}").is_err());
        assert!(Form::read("application/x-www-form-urlencoded", "a=1&".repeat(FIELDS_MAX + 1).as_bytes()).is_err());
        assert!(Form::read("application/x-www-form-urlencoded", "a=1&".repeat(FIELDS_MAX).as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn no_body_causes_a_panic(body in any::<Vec<u8>>(), tail in "[-XyZ\r\n:; a-f\"=]{0,80}") {
            let body = [b"--XyZ\r\n", &body[..], tail.as_bytes()].concat();
            let _ = Form::read(MULTIPART, &body);
            let _ = Form::read("application/x-www-form-urlencoded", &body);
        }
    }
}
