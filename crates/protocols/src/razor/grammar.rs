//! The forms of client lines. A line of any other form belongs to another protocol and ends the connection.
//!
//! A web page can make a browser post a form to any port, and some lines of the form could be valid requests.
//! Therefore, the first line that is not a Razor request ends the connection, and everything after it is ignored. An
//! HTTP request line is never a Razor request: it contains blanks, and it does not begin with a key as Razor lines do.

use super::frame::Frame;
use super::sis;

/// The key with which every request begins, and its `=`.
const ACTION: &[u8] = b"a=";

/// Keys of a client greeting, `cn=razor-agents&cv=2.84`, in order.
const GREETING: [&[u8]; 2] = [b"cn", b"cv"];

/// Returns true if the bytes received so far can be the start of a frame.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    let begins = |start: &[u8], bytes: &[u8]| bytes.starts_with(start) || start.starts_with(bytes);
    match bytes.strip_prefix(b"-") {
        // The first line of a batch may be empty.
        Some(rest) => [ACTION, b"\n", b"\r\n"].iter().any(|start| begins(start, rest)),
        None => [ACTION, b"cn="].iter().any(|start| begins(start, bytes)),
    }
}

/// Returns true if a frame has one of the forms that clients send.
pub(super) fn is_frame(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Single(line) => is_request(line) || is_greeting(line),
        Frame::Batch(lines) => is_batch(lines),
        Frame::Blob(head, _) => is_request(head),
    }
}

/// Returns true if a line is a client greeting: name and version.
pub(super) fn is_greeting(line: &[u8]) -> bool {
    let pairs = sis::raw_pairs(line).map(|(key, value)| (key, !value.is_empty()));
    is_written(line) && pairs.eq(GREETING.map(|key| (key, true)))
}

fn is_request(line: &[u8]) -> bool {
    line.starts_with(ACTION) && is_written(line)
}

fn is_batch(lines: &[u8]) -> bool {
    let mut lines = lines.split_inclusive(|&byte| byte == b'\n').map(sis::strip_line_end);
    let first = lines.next().unwrap_or_default();
    let is_template = sis::raw_pairs(first).any(|(_, value)| value == b"?");
    let is_line = |line: &[u8]| if is_template { is_written(line) } else { is_request(line) };
    (first.is_empty() || is_request(first)) && lines.all(is_line)
}

/// Returns true if a line contains only characters that can appear in an escaped line: visible ASCII.
fn is_written(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_protocols_are_rejected() {
        for line in [
            "POST / HTTP/1.1",
            "Host: 127.0.0.1:2703",
            "Content-Type: text/plain",
            "a=reg&user=x y",
            "a=reg&user=x\t",
            "a=reg&user=\u{e9}",
            "user=x&a=reg",
            "EHLO example.org",
            "",
        ] {
            assert!(!is_frame(&Frame::Single(line.as_bytes())), "{line}");
        }
        for line in ["a=xyz", "a=c&e=4&s=x", "cn=razor-agents&cv=2.84", "a=l&a=q", "a=reg&user=a!*'()"] {
            assert!(is_frame(&Frame::Single(line.as_bytes())), "{line}");
        }
    }

    #[test]
    fn a_greeting_is_a_name_and_a_version() {
        for line in ["cn=x", "cn=x&cv=", "cn=&cv=1", "cv=1&cn=x", "cn=x&cv=1&a=reg", "cn=x&cv=1&z=1", "cn=a b&cv=1"] {
            assert!(!is_greeting(line.as_bytes()), "{line}");
        }
        assert!(is_greeting(b"cn=Spamato&cv=0.1"));
    }

    #[test]
    fn every_line_of_a_batch_is_a_request_or_fills_one() {
        for lines in ["", "\r\n", "a=c\r\na=d\n", "a=c&e=?&s=?\n4,abc\r\n8\n"] {
            assert!(is_batch(lines.as_bytes()), "{lines}");
        }
        for lines in ["a=c\r\nHost: x\r\n", "a=c\nx\n", "a=c&e=?&s=?\n4, abc\n", "x=1\n", "cn=x&cv=1\n"] {
            assert!(!is_batch(lines.as_bytes()), "{lines}");
        }
    }

    #[test]
    fn the_first_byte_that_is_not_ours_is_enough() {
        for bytes in ["", "a", "a=", "a=reg", "c", "cn", "cn=", "-", "-a", "-a=r", "-\r", "-\r\n", "-\n"] {
            assert!(may_begin(bytes.as_bytes()), "{bytes}");
        }
        for bytes in ["P", "G", "ab", "cv", "\r\n", "--", "-cn", "\x16\x03\x01", "\0", " a="] {
            assert!(!may_begin(bytes.as_bytes()), "{bytes}");
        }
    }
}
