//! A Pyzor client: encodes requests, decodes replies.

use bruit_protocols::pyzor::{Body, Digest, Op, Times};
use thiserror::Error;

/// The parameters with which a message is reduced to a digest. Clients send them with claims; servers ignore them.
const SPECIFICATION: &str = "Op-Spec: 20,3,60,3\n";

/// A request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Operation.
    pub op: Op,
    /// Digests to which the operation applies.
    pub digests: &'a [Digest],
    /// Thread number, 1024 or higher. The reply repeats it.
    pub thread: u16,
    /// User name. `anonymous` means no user. An empty name also means no user, and the line is omitted, as in the Perl
    /// client.
    pub user: &'a str,
    /// Time in Unix seconds.
    pub time: u64,
}

/// A decoded reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'f> {
    /// Status code. 200 means success.
    pub code: u64,
    /// Status text.
    pub diagnosis: &'f [u8],
    /// Thread number of the request.
    pub thread: &'f [u8],
    /// Result of the operation.
    pub body: Body,
}

/// The error returned for a frame that is not a valid reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// A required line is missing or empty.
    #[error("missing {0} in reply")]
    Missing(&'static str),
    /// A value is not a number.
    #[error("{0} in reply is not a number")]
    NoNumber(&'static str),
}

impl Outgoing<'_> {
    /// Appends the request to `out`. `sign` is called with the text written so far and with the time in decimal digits.
    /// It returns the signature of both, as forty hex digits. Servers ignore the signature of an anonymous request.
    pub fn encode(&self, out: &mut Vec<u8>, sign: impl FnOnce(&[u8], &[u8]) -> [u8; 40]) {
        let start = out.len();
        put(out, "Op: ", self.op.name());
        self.put_digests(out);
        put_decimal(out, "Thread: ", self.thread.into());
        put(out, "PV: ", "2.1");
        if !self.user.is_empty() {
            put(out, "User: ", self.user);
        }
        put_decimal(out, "Time: ", self.time);
        let signed = out[start..].trim_ascii();
        let signature = sign(signed, self.time.to_string().as_bytes());
        out.extend_from_slice(b"Sig: ");
        out.extend_from_slice(&signature);
        out.extend_from_slice(b"\n\n");
    }

    /// Appends the digests. A single digest goes before the specification, several go after it.
    fn put_digests(&self, out: &mut Vec<u8>) {
        let specification = if matches!(self.op, Op::Report | Op::Whitelist) { SPECIFICATION } else { "" };
        let (before, behind) = if self.digests.len() > 1 { (specification, "") } else { ("", specification) };
        out.extend_from_slice(before.as_bytes());
        for digest in self.digests {
            let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            put(out, "Op-Digest: ", &digits);
        }
        out.extend_from_slice(behind.as_bytes());
    }
}

impl<'f> Answer<'f> {
    /// Decodes a reply.
    ///
    /// # Errors
    /// Returns [`AnswerError`] if a required line is missing or a value is not a number.
    pub fn decode(frame: &'f [u8]) -> Result<Self, AnswerError> {
        let value = |name| value(frame, name);
        let expected = |name| value(name).filter(|value| !value.is_empty()).ok_or(AnswerError::Missing(name));
        expected("PV")?;
        Ok(Self {
            code: number(expected("Code")?).ok_or(AnswerError::NoNumber("Code"))?,
            diagnosis: expected("Diag")?,
            thread: expected("Thread")?,
            body: decode_body(value)?,
        })
    }
}

/// Decodes the body of a reply, from the values of its fields.
fn decode_body<'f>(value: impl Fn(&'static str) -> Option<&'f [u8]>) -> Result<Body, AnswerError> {
    let decimal = |name| value(name).map(|digits| number(digits).ok_or(AnswerError::NoNumber(name))).transpose();
    let (Some(reports), Some(revokes)) = (decimal("Count")?, decimal("WL-Count")?) else { return Ok(Body::Empty) };
    let (Some(entered), Some(updated)) = (decimal("Entered")?, decimal("Updated")?) else {
        return Ok(Body::Counts { reports, revokes });
    };
    let revoked = Times {
        entered: decimal("WL-Entered")?.unwrap_or_default(),
        updated: decimal("WL-Updated")?.unwrap_or_default(),
    };
    Ok(Body::Info { reported: Times { entered, updated }, revoked, reports, revokes })
}
/// Returns the value of the first field named `name`, without surrounding white space.
fn value<'f>(frame: &'f [u8], name: &str) -> Option<&'f [u8]> {
    frame.split(|&byte| byte == b'\n').find_map(|line| {
        let (field, value) = line.split_at_checked(line.iter().position(|&byte| byte == b':')?)?;
        field.trim_ascii_end().eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

/// Parses decimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

fn put_decimal(out: &mut Vec<u8>, name: &str, value: u64) {
    put(out, name, &value.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_one_of_its_four_lines_is_refused() {
        let lines = ["Code: 200\n", "Diag: OK\n", "PV: 2.1\n", "Thread: 7\n"];
        assert_eq!(Answer::decode(lines.concat().as_bytes()).unwrap().body, Body::Empty);
        for (left_out, name) in ["Code", "Diag", "PV", "Thread"].into_iter().enumerate() {
            let mut others = lines.to_vec();
            others.remove(left_out);
            assert_eq!(Answer::decode(others.concat().as_bytes()), Err(AnswerError::Missing(name)));
        }
    }

    #[test]
    fn a_count_that_is_no_number_is_refused() {
        let frame = b"Code: 200\nDiag: OK\nPV: 2.1\nThread: 7\nCount: many\nWL-Count: 0\n\n";
        assert_eq!(Answer::decode(frame), Err(AnswerError::NoNumber("Count")));
    }
}
