//! A Razor client: encodes requests, decodes replies.

use bruit_protocols::razor::{ErrorCode, REPLY_BYTES_MAX, Reply, Signature};
use bruit_signatures::razor::{E4Signature, Ep4};
use memchr::memmem;
use sha1::{Digest, Sha1};

const BLOCK_BYTES: usize = 64;

/// The error returned for bytes that are not a valid reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The reply is longer than clients allow.
    #[error("reply is longer than {REPLY_BYTES_MAX} bytes")]
    TooLong,
    /// A line is not an answer.
    #[error("malformed line in reply")]
    Malformed,
}

/// Appends a check of `signatures`: a single line for one signature, a batch for more.
pub fn write_checks(out: &mut Vec<u8>, signatures: &[Signature], ep4: &Ep4) {
    write_all(out, signatures, |out, signature| put_signature(out, "c", signature, Some(ep4)));
}

/// Appends revocations of `signatures`.
pub fn write_revocations(out: &mut Vec<u8>, signatures: &[Signature]) {
    write_all(out, signatures, |out, signature| put_signature(out, "revoke", signature, None));
}

/// Appends reports of `signatures`. The server may answer by requesting the parts.
pub fn write_reports(out: &mut Vec<u8>, signatures: &[E4Signature], ep4: &Ep4) {
    write_all(out, signatures, |out, &e4| put_signature(out, "r", &Signature::E4(e4), Some(ep4)));
}

/// Appends a report that contains the header block of a mail and, after it, parts of that mail.
pub fn write_bodies<'p>(out: &mut Vec<u8>, header: &[u8], parts: impl IntoIterator<Item = &'p [u8]>) {
    out.extend_from_slice(b"-a=r&message=*\r\n");
    out.extend_from_slice(header);
    for part in parts {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n.\r\n");
}

/// Appends a registration request.
pub fn write_registration(out: &mut Vec<u8>, user: &[u8], password: &[u8]) {
    put_line(out, &[("a", b"reg"), ("pass", password), ("user", user)]);
}

/// Appends a request for a challenge.
pub fn write_identification(out: &mut Vec<u8>, user: &[u8]) {
    put_line(out, &[("a", b"ai"), ("user", user)]);
}

/// Appends the response to a challenge.
pub fn write_authentication(out: &mut Vec<u8>, password: &[u8], challenge: &[u8]) {
    put_line(out, &[("a", b"auth"), ("aresp", response(password, challenge).as_bytes())]);
}

/// Computes the response that proves knowledge of the password. The method resembles HMAC, but the pads are swapped,
/// and the outer hash takes the inner hash as hex digits.
#[must_use]
pub fn response(password: &[u8], challenge: &[u8]) -> String {
    let inner = Sha1::new().chain_update(pad(password, 0x5c)).chain_update(challenge).finalize();
    let digits: String = inner.iter().map(|byte| format!("{byte:02x}")).collect();
    let outer = Sha1::new().chain_update(pad(password, 0x36)).chain_update(digits).finalize();
    // The response is written in the same text form as an e4 signature.
    E4Signature(outer.into()).to_string()
}

/// Pads the password to one block and XORs it with `byte`.
fn pad(password: &[u8], byte: u8) -> Vec<u8> {
    let mut padded = password.to_vec();
    padded.resize(padded.len().max(BLOCK_BYTES), 0);
    padded.iter_mut().take(BLOCK_BYTES).for_each(|place| *place ^= byte);
    padded
}

/// Decodes the reply at the start of `bytes`. Returns its answers and its length, or `None` if it is incomplete.
///
/// # Errors
/// Returns [`ReplyError`] if the bytes are not a reply.
pub fn read_reply(bytes: &[u8]) -> Result<Option<(Vec<Reply>, usize)>, ReplyError> {
    let within = bytes.get(..REPLY_BYTES_MAX).unwrap_or(bytes);
    let (start, end) = if within.starts_with(b"-") { (1, &b"\r\n.\r\n"[..]) } else { (0, &b"\r\n"[..]) };
    let Some(place) = memmem::find(within, end) else {
        return if within.len() < REPLY_BYTES_MAX { Ok(None) } else { Err(ReplyError::TooLong) };
    };
    let lines = within.get(start..place).unwrap_or_default();
    let lines = lines
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty());
    let replies = lines.map(read_line).collect::<Option<Vec<_>>>().ok_or(ReplyError::Malformed)?;
    Ok(Some((replies, place + end.len())))
}

fn read_line(line: &[u8]) -> Option<Reply> {
    let value = |wanted: &[u8]| value(line, wanted);
    let number = |key| String::from_utf8(value(key)?).ok()?.parse::<u16>().ok();
    if let Some(code) = number(b"err") {
        return Some(Reply::Error(ErrorCode(code)));
    }
    match (number(b"p"), number(b"res"), value(b"achal")) {
        (Some(0), ..) => Some(Reply::NotSpam),
        (Some(_), ..) => {
            let confidence = number(b"cf").map_or(Some(100), |confidence| u8::try_from(confidence).ok())?;
            Some(Reply::Spam { confidence, contested: number(b"ct").is_some_and(|contested| contested != 0) })
        }
        (_, Some(0), _) => Some(Reply::Refused),
        (_, Some(_), _) => Some(match (value(b"user"), value(b"pass")) {
            (Some(user), Some(password)) => Reply::Registered { user, password },
            _ => Reply::Done,
        }),
        (_, _, Some(challenge)) => Some(Reply::Challenge(challenge)),
        _ => None,
    }
}

/// Appends one line per item. Several lines, or none, are framed as a batch; a single line is not.
fn write_all<T>(out: &mut Vec<u8>, things: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    if let [thing] = things {
        return put(out, thing);
    }
    out.push(b'-');
    things.iter().for_each(|thing| put(out, thing));
    out.extend_from_slice(b".\r\n");
}

fn put_signature(out: &mut Vec<u8>, action: &str, signature: &Signature, ep4: Option<&Ep4>) {
    let (engine, signature, ep4) = match signature {
        Signature::E4(e4) => ("4", e4.to_string(), ep4.map(Ep4::to_string)),
        Signature::E8(e8) => ("8", e8.to_string(), None),
    };
    let mut pairs = vec![("a", action.as_bytes()), ("e", engine.as_bytes())];
    pairs.extend(ep4.as_ref().map(|ep4| ("ep4", ep4.as_bytes())));
    pairs.push(("s", signature.as_bytes()));
    put_line(out, &pairs);
}

/// Appends a line of pairs.
fn put_line(out: &mut Vec<u8>, pairs: &[(&str, &[u8])]) {
    for (place, (key, value)) in pairs.iter().enumerate() {
        out.extend_from_slice(if place == 0 { b"" } else { b"&" });
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        value.iter().for_each(|&byte| put_escaped(out, byte));
    }
    out.extend_from_slice(b"\r\n");
}

fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'-' | b'.' | b'_' | b'~' => out.push(byte),
        _ if byte.is_ascii_alphanumeric() => out.push(byte),
        _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
    }
}

/// Returns the decoded value of the last pair with this key.
fn value(line: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut values = line.split(|&byte| byte == b'&').filter_map(|pair| match pair.strip_prefix(wanted)? {
        [] => Some(&[][..]),
        [b'=', value @ ..] => Some(value),
        _ => None,
    });
    values.next_back().map(unescape)
}

/// Decodes percent-escapes. A `%` not followed by two hex digits is literal.
fn unescape(mut value: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(value.len());
    while let [first, rest @ ..] = value {
        match rest {
            [high, low, behind @ ..] if *first == b'%' && digit(*high).is_some() && digit(*low).is_some() => {
                decoded.extend(digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low));
                value = behind;
            }
            _ => {
                decoded.push(*first);
                value = rest;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures() -> [Signature; 2] {
        let e4 = "16Zk7WBkwtND3NokefwLHWhxUAUA".parse().unwrap();
        [Signature::E4(e4), Signature::E8("A1X0JdhQilUA".parse().unwrap())]
    }

    #[test]
    fn requests_are_written_as_real_clients_write_them() {
        let mut out = Vec::new();
        write_checks(&mut out, &signatures(), &Ep4::default());
        let batch = "-a=c&e=4&ep4=7542-10&s=16Zk7WBkwtND3NokefwLHWhxUAUA\r\na=c&e=8&s=A1X0JdhQilUA\r\n.\r\n";
        assert_eq!(out, batch.as_bytes());
        out.clear();
        write_revocations(&mut out, &signatures()[1..]);
        assert_eq!(out, b"a=revoke&e=8&s=A1X0JdhQilUA\r\n");
    }

    #[test]
    fn responses_are_those_of_real_clients() {
        // The values are from transcripts of razor-agents 2.84. The exception is the value for a password of one block,
        // which the code of razor-agents computed.
        let block = "p".repeat(BLOCK_BYTES);
        for (password, challenge, expected) in [
            ("s3cret", "406d3e65e5946eebcd82", "oUsPU6zmreeHtaW3nBRkR6VNIAgA"),
            ("hunter2", "2e25b1778c78b9742b17", "VcBRuyO9Yo_M8pk48KFUgnHLkRAA"),
            (&block, "x", "whEO-6IgQ5XCkxhJ2ZIMt_y0NfEA"),
        ] {
            assert_eq!(response(password.as_bytes(), challenge.as_bytes()), expected);
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        assert_eq!(read_reply(b"cn=x\r\n"), Err(ReplyError::Malformed));
        assert_eq!(read_reply(&[b'x'; REPLY_BYTES_MAX - 1]), Ok(None));
        assert_eq!(read_reply(&[b'x'; REPLY_BYTES_MAX]), Err(ReplyError::TooLong));
    }
}
