//! Replies, and the one buffer each of them is written from.

use super::sis;

/// Longest reply in bytes. The client reads so much at once, and takes what comes later for the reply to its next
/// request.
pub const REPLY_BYTES_MAX: usize = 1024;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a check: the signature is not known as spam.
    NotSpam,
    /// To a check: it is known.
    Spam {
        /// How surely, 0 to 100.
        confidence: u8,
        /// Whether reporters disagree. Clients by default ignore such a part.
        contested: bool,
    },
    /// Done, or accepted.
    Done,
    /// Refused.
    Refused,
    /// To a registration: what the client is to store.
    Registered {
        /// The name.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// To the announcement of a user: what is to be hashed under the password.
    Challenge(Vec<u8>),
    /// Why not.
    Error(ErrorCode),
}

/// Why a request was not done. Clients act on 210, 213 and 230; other codes they only log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// The request cannot be read, or is longer than any may be.
    pub const MALFORMED: Self = Self(200);
    /// An action that is not known here.
    pub const UNKNOWN_ACTION: Self = Self(201);
    /// Claims need an account.
    pub const NOT_AUTHENTICATED: Self = Self(202);
    /// The account or the address may not do this.
    pub const FORBIDDEN: Self = Self(203);
    /// A request that may not be made here: in such a batch, after a blob, or without what must come before.
    pub const OUT_OF_PLACE: Self = Self(204);
    /// A limit is reached: later, perhaps.
    pub const LIMITED: Self = Self(205);
    /// The server could not do it.
    pub const UNAVAILABLE: Self = Self(206);
    /// To a registration: the name is taken. The client tries to log in.
    pub const USER_EXISTS: Self = Self(210);
    /// To a registration: the name cannot be one.
    pub const NAME_REFUSED: Self = Self(211);
    /// To a registration: the password is too short, too long or too common.
    pub const PASSWORD_REFUSED: Self = Self(212);
    /// Nobody has registered under this name. The client does, and comes again.
    pub const UNKNOWN_USER: Self = Self(213);
    /// No signature of engine 4 or 8, where one is asked for.
    pub const NO_SIGNATURE: Self = Self(220);
    /// To a report: send the parts of the mail.
    pub const BODY_WANTED: Self = Self(230);
}

/// The reply to a single request or a blob: one plain line.
pub(super) fn single(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_line(&mut out, reply);
    within_bounds(out)
}

/// The reply to a batch: a line for each request, between `-` and `.`.
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

/// A reply that the client would not take for one is not sent: that we cannot answer is.
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

/// A number from 0 to 100 in decimal.
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
    fn what_does_not_fit_one_read_is_not_sent() {
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
