//! Replies.

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'t> {
    /// Status code.
    pub code: Code,
    /// The request's [`thread`](super::Request::thread).
    pub thread: &'t [u8],
    /// Result of the operation.
    pub body: Body,
}

/// A status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 200: success.
    Ok,
    /// 400: no valid version, or an invalid digest.
    BadRequest,
    /// 401: an unknown user, a wrong signature, or a timestamp too far from the server's time.
    Unauthorized,
    /// 403: the user is not allowed to request the operation, or the operation is unknown.
    Forbidden,
    /// 500: internal error.
    Internal,
    /// 503: a book is full, or a daily quota is used up. The client may retry later.
    Unavailable,
    /// 505: unsupported protocol version.
    VersionNotSupported,
}

/// The part of a reply after its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Empty: the reply to a ping, report, revocation or failed request.
    #[default]
    Empty,
    /// The reply to a check or pong.
    Counts {
        /// Number of reports.
        reports: u64,
        /// Number of revocations.
        revokes: u64,
    },
    /// The reply to an info request.
    Info {
        /// Times of the reports.
        reported: Times,
        /// Times of the revocations.
        revoked: Times,
        /// Number of reports.
        reports: u64,
        /// Number of revocations.
        revokes: u64,
    },
}

/// Times of all reports, or of all revocations, in Unix seconds; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time of the first claim.
    pub entered: u64,
    /// Time of the last claim.
    pub updated: u64,
}

impl Reply<'_> {
    /// Appends the reply to `out`: code, text, version and thread, then the body. The Perl client requires this order
    /// and the final empty line.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.code.head().as_bytes());
        out.extend_from_slice(self.thread);
        out.push(b'\n');
        self.body.encode(out);
        out.push(b'\n');
    }
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Internal,
        Self::Unavailable,
        Self::VersionNotSupported,
    ];

    /// Returns the number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::VersionNotSupported => 505,
        }
    }

    /// Returns the beginning of the reply, up to the value of `Thread`.
    const fn head(self) -> &'static str {
        match self {
            Self::Ok => "Code: 200\nDiag: OK\nPV: 2.1\nThread: ",
            Self::BadRequest => "Code: 400\nDiag: Bad request: version or digest missing or wrong.\nPV: 2.1\nThread: ",
            Self::Unauthorized => "Code: 401\nDiag: Unauthorized: user, signature or time is wrong.\nPV: 2.1\nThread: ",
            Self::Forbidden => {
                "Code: 403\nDiag: Forbidden: User is not authorized to request the operation.\nPV: 2.1\nThread: "
            }
            Self::Internal => "Code: 500\nDiag: Internal error.\nPV: 2.1\nThread: ",
            Self::Unavailable => {
                "Code: 503\nDiag: Out of capacity for new reports: try again later.\nPV: 2.1\nThread: "
            }
            Self::VersionNotSupported => "Code: 505\nDiag: Version not supported.\nPV: 2.1\nThread: ",
        }
    }
}

impl Body {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => {}
            Self::Counts { reports, revokes } => encode_counts(*reports, *revokes, out),
            Self::Info { reported, revoked, reports, revokes } => {
                reported.encode("", out);
                revoked.encode("WL-", out);
                encode_counts(*reports, *revokes, out);
            }
        }
    }
}

impl Times {
    fn encode(self, prefix: &str, out: &mut Vec<u8>) {
        line(out, prefix, "Entered: ", self.entered);
        line(out, prefix, "Updated: ", self.updated);
    }
}

fn encode_counts(reports: u64, revokes: u64, out: &mut Vec<u8>) {
    line(out, "", "Count: ", reports.min(super::COUNT_MAX));
    line(out, "WL-", "Count: ", revokes.min(super::COUNT_MAX));
}

fn line(out: &mut Vec<u8>, prefix: &str, name: &str, value: u64) {
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(name.as_bytes());
    put_number(out, value);
    out.push(b'\n');
}

/// Appends decimal digits.
pub(super) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        start -= 1;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for value in [0, 9, 10, 1_794_725_694, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn every_code_is_in_its_head() {
        for code in Code::ALL {
            assert!(code.head().starts_with(&format!("Code: {}\nDiag: ", code.number())));
        }
    }

    #[test]
    fn counts_end_where_clients_stop_counting() {
        let mut out = Vec::new();
        Body::Counts { reports: u64::MAX, revokes: super::super::COUNT_MAX + 1 }.encode(&mut out);
        assert_eq!(out, b"Count: 9223372036854775807\nWL-Count: 9223372036854775807\n");
    }
}
