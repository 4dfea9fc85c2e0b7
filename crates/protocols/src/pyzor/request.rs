//! Requests.

use super::digest::{self, Digest};
use super::fields::{Field, fields, lines, number};
use super::reply::Code;
use super::{DIGESTS_MAX, FRAME_BYTES_MAX, THREAD_BYTES_MAX};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// No operation. Used to test whether the server responds.
    Ping,
    /// No operation. Used to test how a client handles counts.
    Pong,
    /// A check.
    Check,
    /// A check that also returns times.
    Info,
    /// A report.
    Report,
    /// A revocation.
    Whitelist,
}

/// A request. It borrows from its frame and does not allocate.
#[derive(Clone, Debug)]
pub struct Request<'f> {
    /// The datagram, without the part that is ignored.
    frame: &'f [u8],
    op: Option<Op>,
    version: Option<Version>,
    thread: Option<&'f [u8]>,
    user: Option<&'f [u8]>,
    time: Option<&'f [u8]>,
    signature: Option<&'f [u8]>,
    first_digest: Option<Digest>,
    /// Number of `Op-Digest` lines, valid or not.
    digest_lines: usize,
    has_bad_digest: bool,
}

/// The version in the `PV` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// A supported version: any 2.x.
    Spoken,
    /// An unsupported version.
    Other,
    /// The version is not a number.
    Malformed,
}

impl<'f> Request<'f> {
    /// Decodes a datagram. Returns `None` if it has no `Op` line. Such datagrams must not be answered.
    #[must_use]
    pub fn decode(datagram: &'f [u8]) -> Option<Self> {
        let mut request = Self::empty(whole_lines(datagram));
        let mut op = None;
        for field in fields(request.frame) {
            match field.name.len() {
                2 if field.is("Op") => op = op.or(Some(field.value)),
                _ => request.take(&field),
            }
        }
        request.op = Op::read(op?);
        Some(request)
    }

    const fn empty(frame: &'f [u8]) -> Self {
        Self {
            frame,
            op: None,
            version: None,
            thread: None,
            user: None,
            time: None,
            signature: None,
            first_digest: None,
            digest_lines: 0,
            has_bad_digest: false,
        }
    }

    /// Stores a field. If a field is repeated, its first value counts, unless it is a digest.
    fn take(&mut self, field: &Field<'f>) {
        let value = match field.name.len() {
            9 if field.is("Op-Digest") => return self.take_digest(field.value),
            6 if field.is("Thread") => &mut self.thread,
            4 if field.is("User") => &mut self.user,
            4 if field.is("Time") => &mut self.time,
            3 if field.is("Sig") => &mut self.signature,
            2 if field.is("PV") => {
                self.version.get_or_insert_with(|| Version::read(field.value));
                return;
            }
            _ => return,
        };
        value.get_or_insert(field.value);
    }

    fn take_digest(&mut self, digits: &[u8]) {
        let digest = digest::read(digits);
        self.has_bad_digest |= digest.is_none();
        self.first_digest = self.first_digest.or(digest);
        self.digest_lines += 1;
    }

    /// Returns the operation, or `None` if it is unknown.
    #[must_use]
    pub const fn op(&self) -> Option<Op> {
        self.op
    }

    /// Returns the error code if the request is invalid for every user. Call this after verifying the signature. Errors
    /// have the same precedence as in the original server: malformed version, unsupported version, unknown operation,
    /// invalid digest.
    #[must_use]
    pub const fn fault(&self) -> Option<Code> {
        match self {
            Self { version: None | Some(Version::Malformed), .. } => Some(Code::BadRequest),
            Self { version: Some(Version::Other), .. } => Some(Code::VersionNotSupported),
            Self { op: None, .. } => Some(Code::Forbidden),
            Self { has_bad_digest: true, .. } => Some(Code::BadRequest),
            _ => None,
        }
    }

    /// Returns the `Thread` value for the reply. It is the request's value, or `0` if that is absent or invalid.
    #[must_use]
    pub fn thread(&self) -> &'f [u8] {
        let is_echoed = |thread: &&[u8]| {
            (1..=THREAD_BYTES_MAX).contains(&thread.len()) && thread.iter().all(|byte| matches!(byte, b' '..=b'~'))
        };
        self.thread.filter(is_echoed).unwrap_or(b"0")
    }

    /// Returns the user name, or `None` if it is absent or `anonymous`. Without a user, the signature is meaningless.
    #[must_use]
    pub fn user(&self) -> Option<&'f [u8]> {
        self.user.filter(|user| !user.is_empty() && *user != b"anonymous")
    }

    /// Returns the time of signing, as sent.
    #[must_use]
    pub const fn time(&self) -> Option<&'f [u8]> {
        self.time
    }

    /// Returns the time of signing in Unix seconds, or `None` if it is absent or not a number.
    #[must_use]
    pub fn time_seconds(&self) -> Option<u64> {
        self.time.and_then(number)
    }

    /// Returns the signature, as sent.
    #[must_use]
    pub const fn signature(&self) -> Option<&'f [u8]> {
        self.signature
    }

    /// Replaces `out` with the signed text: all lines except `Sig`, joined by line feeds, without surrounding white
    /// space.
    pub fn signed_text(&self, out: &mut Vec<u8>) {
        out.clear();
        let is_signed = |line: &&[u8]| !fields(line).any(|field| field.is("Sig"));
        for line in lines(self.frame).filter(is_signed) {
            let line = if out.is_empty() { line.trim_ascii_start() } else { line };
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        out.truncate(out.trim_ascii_end().len());
    }

    /// Returns the digest to check, which is the first one.
    #[must_use]
    pub const fn first_digest(&self) -> Option<&Digest> {
        self.first_digest.as_ref()
    }

    /// Iterates over the digests, at most [`DIGESTS_MAX`].
    pub fn digests(&self) -> impl Iterator<Item = Digest> + 'f {
        let is_digest = |field: &Field<'_>| field.is("Op-Digest");
        let only_one = self.digest_lines == 1;
        let rest = if only_one { &[][..] } else { self.frame };
        let digests = fields(rest).filter(is_digest).filter_map(|field| digest::read(field.value));
        self.first_digest.filter(|_| only_one).into_iter().chain(digests).take(DIGESTS_MAX)
    }

    /// Replaces `out` with a key that a request shares with its retransmissions: operation, user, time, thread and
    /// digests. If the request is anonymous, the caller adds the source address, because unrelated clients may send the
    /// same values. If it is signed, the address does not matter.
    pub fn duplicate_key(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(self.op.map_or(0, |op| op as u8 + 1));
        // Values cannot contain line feeds, so the key is unambiguous.
        for value in [self.user(), self.time, self.thread] {
            out.extend_from_slice(value.unwrap_or_default());
            out.push(b'\n');
        }
        self.digests().for_each(|digest| out.extend_from_slice(&digest));
    }
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 6] = [Self::Ping, Self::Pong, Self::Check, Self::Info, Self::Report, Self::Whitelist];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Check => "check",
            Self::Info => "info",
            Self::Report => "report",
            Self::Whitelist => "whitelist",
        }
    }

    fn read(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name().as_bytes() == name)
    }
}

impl Version {
    fn read(value: &[u8]) -> Self {
        if value == b"2.1" {
            return Self::Spoken;
        }
        match str::from_utf8(value).ok().and_then(|value| value.parse::<f64>().ok()).map(f64::trunc) {
            Some(2.0) => Self::Spoken,
            Some(other) if other.is_finite() => Self::Other,
            _ => Self::Malformed,
        }
    }
}

/// Truncates a datagram to [`FRAME_BYTES_MAX`] bytes. Drops the last line if it may extend beyond them.
fn whole_lines(datagram: &[u8]) -> &[u8] {
    let Some((head, rest)) = datagram.split_at_checked(FRAME_BYTES_MAX) else { return datagram };
    if matches!(rest, [b'\r' | b'\n', ..]) {
        return head;
    }
    let end = memchr::memrchr(b'\n', head).map_or(0, |newline| newline + 1);
    head.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "eb2a0e84c910ecae205eba635c8e442e85f5ee9a";

    fn fault(text: &str) -> Option<Code> {
        Request::decode(text.as_bytes()).unwrap().fault()
    }

    /// Returns a check request with this additional line.
    fn with(line: &str) -> String {
        format!("Op: check\nOp-Digest: {DIGITS}\n{line}\n\n")
    }

    /// The original server was observed to accept these edge cases.
    #[test]
    fn edge_cases_of_the_original_server_are_accepted() {
        let usual = with("Thread: 4242\nPV: 2.1");
        let spellings = [
            usual.clone(),
            usual.to_ascii_uppercase().replace("CHECK", "check"),
            usual.replace('\n', "\r\n"),
            usual.trim_end().to_owned(),
            format!("{usual}\n"),
            usual.replace('\n', "\n\n"),
            usual.replace("2.1", "2.0"),
            usual.replace(": ", ":"),
            format!("{}\nUser: anonymous\nTime: 0\nSig: wrong\n\n", usual.trim_end()),
        ];
        for spelling in spellings {
            let request = Request::decode(spelling.as_bytes()).unwrap();
            assert_eq!((request.op(), request.fault(), request.user()), (Some(Op::Check), None, None), "{spelling:?}");
            assert_eq!(request.thread(), b"4242");
            assert_eq!(request.digests().collect::<Vec<_>>(), [digest::read(DIGITS.as_bytes()).unwrap()]);
        }
    }

    #[test]
    fn datagrams_without_op_are_dropped() {
        for garbage in [&b""[..], b"\n\n", b"Thread: 1\nPV: 2.1\n\n", b"\xff\xfe\0", b" Op: check\n", b"Op check\n"] {
            assert!(Request::decode(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn versions_are_judged_as_in_the_original() {
        for (line, expected) in [
            ("PV: 2.1", None),
            ("PV: 2", None),
            ("PV: 2.999\nPV: 3.0", None),
            ("X: y", Some(Code::BadRequest)),
            ("PV: abc\nPV: 2.1", Some(Code::BadRequest)),
            ("PV:", Some(Code::BadRequest)),
            ("PV: nan", Some(Code::BadRequest)),
            ("PV: inf", Some(Code::BadRequest)),
            ("PV: 3.1", Some(Code::VersionNotSupported)),
            ("PV: 1.9", Some(Code::VersionNotSupported)),
            ("PV: -2", Some(Code::VersionNotSupported)),
        ] {
            assert_eq!(fault(&with(line)), expected, "{line}");
        }
    }

    #[test]
    fn an_unknown_op_is_forbidden() {
        for op in ["", "Check", "delete", "check report"] {
            assert_eq!(fault(&format!("Op: {op}\nPV: 2.1\n\n")), Some(Code::Forbidden), "{op}");
        }
    }

    #[test]
    fn a_digest_that_is_none_is_a_bad_request() {
        for digits in [&DIGITS[1..], "", "many", &format!("{DIGITS}0")] {
            assert_eq!(fault(&with(&format!("PV: 2.1\nOp-Digest: {digits}"))), Some(Code::BadRequest), "{digits}");
        }
        assert_eq!(fault("Op: check\nPV: 2.1\n\n"), None, "no digest is not an invalid digest");
    }

    #[test]
    fn threads_are_echoed_up_to_their_bound() {
        let thread_of = |value: &str| {
            let text = with(&format!("Thread: {value}"));
            Request::decode(text.as_bytes()).unwrap().thread().to_vec()
        };
        let longest = "9".repeat(THREAD_BYTES_MAX);
        for echoed in ["4242", "no number", &longest] {
            assert_eq!(thread_of(echoed), echoed.as_bytes());
        }
        for other in ["", &format!("{longest}9"), "a\rCode: 200", "\u{e9}", "\u{7f}"] {
            assert_eq!(thread_of(other), b"0", "{other:?}");
        }
        assert_eq!(Request::decode(with("X: y").as_bytes()).unwrap().thread(), b"0");
    }

    #[test]
    fn the_first_of_several_values_counts() {
        let text = with("User: alice\nUser: bob\nTime: 1\nTime: 2\nSig: a\nSig: b");
        let request = Request::decode(text.as_bytes()).unwrap();
        assert_eq!((request.user(), request.time_seconds()), (Some(&b"alice"[..]), Some(1)));
        assert_eq!((request.time(), request.signature()), (Some(&b"1"[..]), Some(&b"a"[..])));
    }

    #[test]
    fn nobody_is_anonymous_in_three_ways() {
        for line in ["X: y", "User:", "User: anonymous"] {
            assert_eq!(Request::decode(with(line).as_bytes()).unwrap().user(), None);
        }
    }

    #[test]
    fn the_signed_text_is_all_but_the_signature() {
        let mut signed = Vec::new();
        for text in [
            " \nOp: ping\nSig: a\nTime: 1\n\n",
            "\r\nOp: ping\r\nsig: a\r\nTime: 1\r\n\r\n",
            "Op: ping\n\nTime: 1\nSIG:",
        ] {
            Request::decode(text.as_bytes()).unwrap().signed_text(&mut signed);
            assert_eq!(signed, b"Op: ping\nTime: 1", "{text:?}");
        }
    }

    /// Returns a frame of this length whose last line is a digest.
    fn ending_in_a_digest(length: usize) -> Vec<u8> {
        let last = format!("Op-Digest: {DIGITS}");
        let head = "Op: report\nPV: 2.1\n";
        let filling = length - head.len() - last.len() - "X:\n".len();
        format!("{head}X:{}\n{last}", "x".repeat(filling)).into_bytes()
    }

    #[test]
    fn a_digest_that_is_cut_is_not_counted() {
        let count = |datagram: &[u8]| Request::decode(datagram).unwrap().digests().count();
        assert_eq!(count(&ending_in_a_digest(FRAME_BYTES_MAX - 1)), 1);
        // At exactly the limit, the last line may be incomplete, because the listener may have truncated the datagram.
        for length in FRAME_BYTES_MAX..FRAME_BYTES_MAX + 60 {
            let request = ending_in_a_digest(length);
            let request = Request::decode(&request).unwrap();
            assert_eq!((request.digests().count(), request.fault()), (0, None), "{length}");
        }
        for (behind, expected) in [(&b"\n\n"[..], 1), (b"\r\n", 1), (b"0", 0), (b" ", 0)] {
            assert_eq!(count(&[&ending_in_a_digest(FRAME_BYTES_MAX)[..], behind].concat()), expected);
        }
        assert!(Request::decode(&vec![b'x'; 2 * FRAME_BYTES_MAX]).is_none());
    }

    #[test]
    fn as_many_digests_are_read_as_fit() {
        let line = format!("op-digest:{DIGITS}\n");
        let text = format!("Op: report\nPV: 2.1\n{}", line.repeat(2 * DIGESTS_MAX));
        let count = Request::decode(text.as_bytes()).unwrap().digests().count();
        assert!((150..=DIGESTS_MAX).contains(&count), "{count}");
        assert_eq!(DIGESTS_MAX, 160);
    }

    #[test]
    fn repetitions_have_one_key_and_others_another() {
        let key_of = |text: &str| {
            let mut key = vec![1, 2, 3];
            Request::decode(text.as_bytes()).unwrap().duplicate_key(&mut key);
            key
        };
        let text = format!("Op: report\nOp-Digest: {DIGITS}\nThread: 2000\nPV: 2.1\nUser: alice\nTime: 5\nSig: a\n\n");
        assert_eq!(key_of(&text), key_of(&text.replace('\n', "\r\n")));
        assert_eq!(key_of(&text), key_of(&text.replace("Sig: a", "Sig: b")));
        for (from, to) in
            [("report", "check"), ("eb2a", "eb2b"), ("2000", "2001"), ("alice", "bob"), ("Time: 5", "Time: 6")]
        {
            assert_ne!(key_of(&text), key_of(&text.replace(from, to)), "{to}");
        }
        assert_ne!(key_of("Op: ping\nThread: 1\n"), key_of("Op: ping\nTime: 1\n"));
    }
}
