//! Replies.

use super::VERSION_MAX;
use super::counts::Totals;
use super::frame::{Header, SIGNATURE_BYTES};
use super::request::op;

/// Maximum length of a brand. Its field ends in a zero byte.
pub const BRAND_BYTES_MAX: usize = BRAND_BYTES - 1;

/// Maximum length of an error text.
pub const ERROR_BYTES_MAX: usize = 127;

/// Maximum length of the text in an administrative reply.
pub const TEXT_BYTES_MAX: usize = 1460;

/// Size of the brand field.
pub(super) const BRAND_BYTES: usize = 64;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'r> {
    /// The reply to a NOP, or to a request that was executed.
    Ok {
        /// Server name that clients write into mail headers.
        brand: &'r Brand,
        /// Delay before each reply to this client, in milliseconds.
        delay_ms: u16,
    },
    /// The reply to a query or report: the totals of its items, in order.
    Answer(&'r [Totals]),
    /// The reply to a request that failed: the reason, truncated to [`ERROR_BYTES_MAX`] bytes.
    Error(&'r str),
    /// The reply to an administrative request: a text, truncated to [`TEXT_BYTES_MAX`] bytes.
    Text(&'r str),
    /// The reply to a query about the delay for anonymous clients.
    AnonymousDelay {
        /// Number of requests from a network after which its delay doubles.
        inflate: u32,
        /// Delay in milliseconds.
        delay_ms: u16,
    },
}

/// Server name that clients write into mail headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brand {
    bytes: [u8; BRAND_BYTES],
}

impl Reply<'_> {
    /// Appends the reply to a request with the header `request`. `server` is our ID. `sign` receives the frame so far
    /// and returns its signature. `sign` must use the password that verified the request, or
    /// [`Header::unauthenticated`] if there is none.
    pub fn encode(
        &self,
        request: &Header,
        server: u32,
        out: &mut Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) {
        let version_max = request.version.min(VERSION_MAX);
        request.of_reply(server).write(self.op(), out, |out| self.write(version_max, out), sign);
    }

    const fn op(&self) -> u8 {
        match self {
            Self::Ok { .. } => op::OK,
            Self::Answer(_) => op::ANSWER,
            Self::Error(_) => op::ERROR,
            Self::Text(_) | Self::AnonymousDelay { .. } => op::ADMN,
        }
    }

    fn write(&self, version_max: u8, out: &mut Vec<u8>) {
        match self {
            Self::Ok { brand, delay_ms } => {
                out.extend_from_slice(&[version_max, 0]);
                out.extend_from_slice(&delay_ms.to_be_bytes());
                out.extend_from_slice(&brand.bytes);
            }
            Self::Answer(totals) => totals.iter().for_each(|totals| totals.write(out)),
            Self::Error(text) => {
                out.extend_from_slice(cut(text, ERROR_BYTES_MAX));
                out.push(0);
            }
            Self::Text(text) => out.extend_from_slice(cut(text, TEXT_BYTES_MAX)),
            Self::AnonymousDelay { inflate, delay_ms } => {
                out.extend_from_slice(&inflate.to_be_bytes());
                out.extend_from_slice(&delay_ms.to_be_bytes());
            }
        }
    }
}

impl Totals {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.current.word().to_be_bytes());
        out.extend_from_slice(&self.previous.word().to_be_bytes());
    }
}

impl Brand {
    /// Creates a brand of 1 to [`BRAND_BYTES_MAX`] visible characters without colons. Returns `None` for any other
    /// name.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let is_allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b':';
        if !(1..=BRAND_BYTES_MAX).contains(&name.len()) || !name.as_bytes().iter().all(is_allowed) {
            return None;
        }
        let mut bytes = [0; BRAND_BYTES];
        bytes.iter_mut().zip(name.bytes()).for_each(|(byte, letter)| *byte = letter);
        Some(Self { bytes })
    }
}

/// Truncates a text to `bytes_max` bytes at a character boundary.
fn cut(text: &str, bytes_max: usize) -> &[u8] {
    text.as_bytes().get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(reply: &Reply<'_>) -> usize {
        let request = Header { version: 12, sender: 1, numbers: [0; 16] };
        let mut out = Vec::new();
        reply.encode(&request, 1001, &mut out, |frame| request.unauthenticated(frame));
        assert_eq!(usize::from(u16::from_be_bytes([out[0], out[1]])), out.len());
        out.len()
    }

    #[test]
    fn texts_are_cut_where_they_must_end() {
        assert_eq!(length(&Reply::Error("")), 41);
        assert_eq!(length(&Reply::Error(&"e".repeat(ERROR_BYTES_MAX))), 41 + ERROR_BYTES_MAX);
        assert_eq!(length(&Reply::Error(&"e".repeat(ERROR_BYTES_MAX + 1))), 41 + ERROR_BYTES_MAX);
        assert_eq!(length(&Reply::Text(&"t".repeat(TEXT_BYTES_MAX))), 40 + TEXT_BYTES_MAX);
        assert_eq!(length(&Reply::Text(&"t".repeat(TEXT_BYTES_MAX + 1))), 40 + TEXT_BYTES_MAX);
        assert_eq!(length(&Reply::Text(&"é".repeat(TEXT_BYTES_MAX))), 40 + TEXT_BYTES_MAX);
        assert_eq!(length(&Reply::Error(&"é".repeat(ERROR_BYTES_MAX))), 40 + ERROR_BYTES_MAX);
        assert_eq!(length(&Reply::AnonymousDelay { inflate: 1, delay_ms: 2 }), 46);
    }

    #[test]
    fn brands_fit_their_field() {
        assert!(Brand::new(&"b".repeat(BRAND_BYTES_MAX)).is_some());
        for refused in ["", "two words", "co:lon", "b\u{e9}", &"b".repeat(BRAND_BYTES_MAX + 1)] {
            assert!(Brand::new(refused).is_none(), "{refused}");
        }
    }

    #[test]
    fn replies_come_in_a_version_we_speak() {
        let brand = Brand::new("brand").unwrap();
        for (version, expected) in [(4, [4, 4]), (12, [12, 12]), (13, [12, 12]), (32, [12, 12])] {
            let request = Header { version, sender: 1, numbers: [0; 16] };
            let mut out = Vec::new();
            Reply::Ok { brand: &brand, delay_ms: 0 }.encode(&request, 1001, &mut out, |_| [0; 16]);
            assert_eq!([out[2], out[24]], expected);
        }
    }
}
