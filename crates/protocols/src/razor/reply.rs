//! Replies. Each reply is written from a single buffer.

use super::sis;

/// Maximum length of a reply. The client reads at most this many bytes at once, and would mistake the rest for the
/// reply to its next request.
pub const REPLY_BYTES_MAX: usize = 1024;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Reply to a check: the signature is not known to be spam.
    NotSpam,
    /// Reply to a check: the signature is known to be spam.
    Spam {
        /// Confidence, 0 to 100.
        confidence: u8,
        /// True if reporters disagree. By default, clients ignore contested parts.
        contested: bool,
    },
    /// The request was executed or accepted.
    Done,
    /// The request was refused.
    Refused,
    /// Reply to a registration: the credentials, which the client stores.
    Registered {
        /// User name.
        user: Vec<u8>,
        /// Password.
        password: Vec<u8>,
    },
    /// Reply to an identification: the challenge to hash with the password.
    Challenge(Vec<u8>),
    /// An error.
    Error(ErrorCode),
}

/// Reason why a request failed. Clients act on codes 210, 213 and 230. They only log the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// The request is malformed or too long.
    pub const MALFORMED: Self = Self(200);
    /// Unknown action.
    pub const UNKNOWN_ACTION: Self = Self(201);
    /// Claims require an account.
    pub const NOT_AUTHENTICATED: Self = Self(202);
    /// The account or address is not allowed to make the request.
    pub const FORBIDDEN: Self = Self(203);
    /// The request is not valid at this point, for example in this batch, after a blob, or before a required request.
    pub const OUT_OF_PLACE: Self = Self(204);
    /// A limit has been reached. The client may retry later.
    pub const LIMITED: Self = Self(205);
    /// The server failed to execute the request.
    pub const UNAVAILABLE: Self = Self(206);
    /// Error of a registration: the name is taken. The client then tries to log in.
    pub const USER_EXISTS: Self = Self(210);
    /// Error of a registration: the name is invalid.
    pub const NAME_REFUSED: Self = Self(211);
    /// Error of a registration: the password is too short, too long or too common.
    pub const PASSWORD_REFUSED: Self = Self(212);
    /// The user is unknown. The client then registers and tries again.
    pub const UNKNOWN_USER: Self = Self(213);
    /// A required signature of engine 4 or 8 is missing.
    pub const NO_SIGNATURE: Self = Self(220);
    /// Answer to a report: the server requests the parts of the mail.
    pub const BODY_WANTED: Self = Self(230);
}

/// Encodes the reply to a single request or a blob: one plain line.
pub(super) fn single(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_line(&mut out, reply);
    within_bounds(out)
}

/// Encodes the reply to a batch: a line per request, between `-` and `.`.
pub(super) fn batch(replies: &[Reply]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_BYTES_MAX);
    out.push(b'-');
    replies.iter().for_each(|reply| put_line(&mut out, reply));
    if replies.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    within_bounds(out)
}

/// Replaces a reply that is too long for the client with the error [`ErrorCode::UNAVAILABLE`].
fn within_bounds(reply: Vec<u8>) -> Vec<u8> {
    if reply.len() <= REPLY_BYTES_MAX { reply } else { single(&Reply::Error(ErrorCode::UNAVAILABLE)) }
}

fn put_line(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::NotSpam => sis::put_line(out, &[("p", b"0")]),
        Reply::Spam { confidence, contested: false } => {
            sis::put_line(out, &[("cf", &percent(*confidence)), ("p", b"1")])
        }
        Reply::Spam { confidence, contested: true } => {
            sis::put_line(out, &[("cf", &percent(*confidence)), ("ct", b"1"), ("p", b"1")]);
        }
        Reply::Done => sis::put_line(out, &[("res", b"1")]),
        Reply::Refused => sis::put_line(out, &[("res", b"0")]),
        Reply::Registered { user, password } => {
            sis::put_line(out, &[("pass", password), ("res", b"1"), ("user", user)]);
        }
        Reply::Challenge(challenge) => sis::put_line(out, &[("achal", challenge)]),
        Reply::Error(ErrorCode(code)) => sis::put_line(out, &[("err", code.to_string().as_bytes())]),
    }
}

/// Formats a number from 0 to 100 in decimal.
fn percent(number: u8) -> Vec<u8> {
    number.min(100).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::frame::BATCH_LINES_MAX;
    use super::super::request::{PASSWORD_BYTES_MAX, USER_BYTES_MAX};
    use super::*;

    #[test]
    fn the_longest_reply_to_the_longest_batch_fits_one_read() {
        let longest = Reply::Spam { confidence: 100, contested: true };
        let reply = batch(&vec![longest; BATCH_LINES_MAX]);
        assert_eq!(reply.len(), 854);
        assert!(reply.starts_with(b"-cf=100&ct=1&p=1\r\ncf=100&ct=1&p=1\r\n") && reply.ends_with(b"p=1\r\n.\r\n"));
        assert!(reply.len() <= REPLY_BYTES_MAX);
    }

    #[test]
    fn the_longest_registration_fits_one_read() {
        let registered =
            Reply::Registered { user: vec![0xff; USER_BYTES_MAX], password: vec![0xff; PASSWORD_BYTES_MAX] };
        let reply = single(&registered);
        assert!(reply.starts_with(b"pass=%FF") && reply.len() <= REPLY_BYTES_MAX);
    }

    #[test]
    fn replies_longer_than_one_read_are_not_sent() {
        let challenge = |bytes: usize| single(&Reply::Challenge(vec![b'c'; bytes]));
        let most = REPLY_BYTES_MAX - b"achal=\r\n".len();
        assert_eq!(challenge(most).len(), REPLY_BYTES_MAX);
        assert_eq!(challenge(most + 1), b"err=206\r\n");
    }

    #[test]
    fn single_replies_are_plain_lines_and_batches_are_framed() {
        assert_eq!(single(&Reply::Done), b"res=1\r\n");
        assert_eq!(single(&Reply::Error(ErrorCode::BODY_WANTED)), b"err=230\r\n");
        assert_eq!(batch(&[Reply::NotSpam]), b"-p=0\r\n.\r\n");
        assert_eq!(batch(&[]), b"-\r\n.\r\n");
        assert_eq!(single(&Reply::Spam { confidence: 255, contested: false }), b"cf=100&p=1\r\n");
    }
}
