//! The client's side: requests written, replies read.

use thiserror::Error;

use super::digest::{self, Digest};
use super::fields::{fields, number};
use super::reply::{Body, Times, put_number};
use super::request::Op;

/// How a message is reduced to a digest, as clients say with claims. Servers pass over it.
const SPECIFICATION: &str = "Op-Spec: 20,3,60,3\n";

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// What is wanted.
    pub op: Op,
    /// What it is about.
    pub digests: &'a [Digest],
    /// What the reply will repeat, 1024 or more.
    pub thread: u16,
    /// Who asks. `anonymous` is nobody; so is an empty name, which is left out, as the Perl client does.
    pub user: &'a str,
    /// Unix seconds.
    pub time: u64,
}

/// A reply as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'f> {
    /// How it went: 200 is well.
    pub code: u64,
    /// The same in words.
    pub diagnosis: &'f [u8],
    /// What it repeats of the request.
    pub thread: &'f [u8],
    /// What was asked for.
    pub body: Body,
}

/// Why a frame is no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// A line that every reply has is not there, or says nothing.
    #[error("the reply has no {0}")]
    Missing(&'static str),
    /// A number is none.
    #[error("the reply's {0} is no number")]
    NoNumber(&'static str),
}

impl Outgoing<'_> {
    /// Appends the request to `out`. `sign` makes the signature, in forty digits, of the text so far and the time; a server
    /// does not look at that of an anonymous request.
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
        let signed = out.get(start..).unwrap_or_default().trim_ascii();
        let signature = sign(signed, self.time.to_string().as_bytes());
        out.extend_from_slice(b"Sig: ");
        out.extend_from_slice(&signature);
        out.extend_from_slice(b"\n\n");
    }

    /// One digest comes before the specification, a batch of them behind it.
    fn put_digests(&self, out: &mut Vec<u8>) {
        let specification = if matches!(self.op, Op::Report | Op::Whitelist) { SPECIFICATION } else { "" };
        let (before, behind) = if self.digests.len() > 1 { (specification, "") } else { ("", specification) };
        out.extend_from_slice(before.as_bytes());
        for digest in self.digests {
            out.extend_from_slice(b"Op-Digest: ");
            digest::write(digest, out);
            out.push(b'\n');
        }
        out.extend_from_slice(behind.as_bytes());
    }
}

impl<'f> Answer<'f> {
    /// Reads a reply.
    ///
    /// # Errors
    /// If one of the four lines that every reply has is missing, or a number is none.
    pub fn decode(frame: &'f [u8]) -> Result<Self, AnswerError> {
        let value = |name| fields(frame).find(|field| field.is(name)).map(|field| field.value);
        let expected = |name| value(name).filter(|value| !value.is_empty()).ok_or(AnswerError::Missing(name));
        expected("PV")?;
        Ok(Self {
            code: number(expected("Code")?).ok_or(AnswerError::NoNumber("Code"))?,
            diagnosis: expected("Diag")?,
            thread: expected("Thread")?,
            body: Body::decode(value)?,
        })
    }
}

impl Body {
    /// The body of a reply, by the values of its fields.
    fn decode<'f>(value: impl Fn(&'static str) -> Option<&'f [u8]>) -> Result<Self, AnswerError> {
        let decimal = |name| value(name).map(|digits| number(digits).ok_or(AnswerError::NoNumber(name))).transpose();
        let (Some(reports), Some(revokes)) = (decimal("Count")?, decimal("WL-Count")?) else { return Ok(Self::Empty) };
        let (Some(entered), Some(updated)) = (decimal("Entered")?, decimal("Updated")?) else {
            return Ok(Self::Counts { reports, revokes });
        };
        let revoked = Times {
            entered: decimal("WL-Entered")?.unwrap_or_default(),
            updated: decimal("WL-Updated")?.unwrap_or_default(),
        };
        Ok(Self::Info { reported: Times { entered, updated }, revoked, reports, revokes })
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

fn put_decimal(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    put_number(out, value);
    out.push(b'\n');
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
