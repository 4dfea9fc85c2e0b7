//! Tests of Pyzor with transcripts of the real programs and with malformed input, and tests of properties that hold for
//! any input.

mod transcript;

use bruit_protocols::pyzor::{Body, Code, Digest, Op, Reply, Request, THREAD_BYTES_MAX, Times};
use bruit_testing::pyzor::{Answer, Outgoing};
use proptest::collection::vec;
use proptest::prelude::*;
use sha1::{Digest as _, Sha1};
use transcript::{Sender, sender, transcripts};

const ALICE_KEY: &str = "0123456789abcdef0123456789abcdef01234567";

/// Returns the frames of a transcript: each line is a line of the frame.
fn frames(text: &str) -> Vec<(Sender, String)> {
    let mut frames: Vec<(Sender, String)> = Vec::new();
    let mut last = None;
    for line in text.lines() {
        let Some((sender, rest)) = sender(line) else {
            last = None;
            continue;
        };
        if last.replace(sender) != Some(sender) {
            frames.push((sender, String::new()));
        }
        let frame = &mut frames.last_mut().unwrap().1;
        frame.push_str(rest);
        frame.push('\n');
    }
    frames
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Computes a signature without the code under test.
fn signature(user: &str, text: &[u8], time: &[u8]) -> [u8; 40] {
    let key = if user == "alice" { ALICE_KEY } else { "" };
    let key = hexadecimal(&Sha1::digest(format!("{user}:{key}")));
    let signed = [&Sha1::digest(text)[..], b":", time, b":", key.as_bytes()].concat();
    hexadecimal(&Sha1::digest(signed)).into_bytes().try_into().unwrap()
}

fn reencode_request(frame: &[u8]) -> Vec<u8> {
    let request = Request::decode(frame).unwrap();
    assert_eq!(request.fault(), None);
    let digests: Vec<Digest> = request.digests().collect();
    let is_perl = !frame.windows(5).any(|name| name == b"User:");
    let user = request.user().map_or(if is_perl { "" } else { "anonymous" }, |user| str::from_utf8(user).unwrap());
    let sent: [u8; 40] = request.signature().unwrap().try_into().unwrap();
    let mut signed = Vec::new();
    request.signed_text(&mut signed);
    let sign = |text: &[u8], time: &[u8]| {
        assert_eq!((text, Some(time)), (&signed[..], request.time()));
        if is_perl { sent } else { signature(user, text, time) }
    };
    let mut out = Vec::new();
    let thread = str::from_utf8(request.thread()).unwrap().parse().unwrap();
    let time = request.time_seconds().unwrap();
    Outgoing { op: request.op().unwrap(), digests: &digests, thread, user, time }.encode(&mut out, sign);
    out
}

fn reencode_reply(frame: &[u8]) -> Vec<u8> {
    let answer = Answer::decode(frame).unwrap();
    let code = Code::ALL.into_iter().find(|code| u64::from(code.number()) == answer.code).unwrap();
    let mut out = Vec::new();
    Reply { code, thread: answer.thread, body: answer.body }.encode(&mut out);
    out
}

#[test]
fn real_frames_are_written_as_they_were_read() {
    let mut count = 0;
    for (name, text) in transcripts("pyzor") {
        for (sender, frame) in frames(&text) {
            let again = match sender {
                Sender::Client => reencode_request(frame.as_bytes()),
                Sender::Server => reencode_reply(frame.as_bytes()),
            };
            assert_eq!(String::from_utf8(again).unwrap(), frame, "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 22, "twenty requests of the session, a batch, and one request of the Perl client");
}

#[test]
fn no_reply_to_a_real_request_is_longer_than_it() {
    let longest_thread = [b'9'; THREAD_BYTES_MAX];
    for (name, text) in transcripts("pyzor") {
        for (_, frame) in frames(&text).iter().filter(|(sender, _)| *sender == Sender::Client) {
            for code in Code::ALL {
                let mut reply = Vec::new();
                Reply { code, thread: b"65535", body: Body::Empty }.encode(&mut reply);
                assert!(reply.len() <= frame.len(), "{name} {code:?}");
            }
        }
    }
    let mut reply = Vec::new();
    Reply { code: Code::Forbidden, thread: &longest_thread, body: Body::Empty }.encode(&mut reply);
    assert!(reply.len() < 128);
}

fn requests() -> impl Strategy<Value = (Op, Vec<Digest>, u16, String, u64)> {
    let op = (0..Op::ALL.len()).prop_map(|index| Op::ALL[index]);
    (op, vec(any::<Digest>(), 0..150), any::<u16>(), "[!-~]{1,20}", any::<u64>())
}

proptest! {
    #[test]
    fn what_a_client_writes_is_read_back((op, digests, thread, user, time) in requests()) {
        let mut frame = Vec::new();
        Outgoing { op, digests: &digests, thread, user: &user, time }
            .encode(&mut frame, |text, time| signature(&user, text, time));
        let request = Request::decode(&frame).unwrap();
        prop_assert_eq!((request.op(), request.fault()), (Some(op), None));
        prop_assert_eq!(request.digests().collect::<Vec<_>>(), digests.clone());
        prop_assert_eq!(request.first_digest(), digests.first());
        prop_assert_eq!(request.thread(), &thread.to_string().into_bytes()[..]);
        prop_assert_eq!(request.user(), Some(user.as_bytes()).filter(|user| *user != b"anonymous"));
        prop_assert_eq!(request.time_seconds(), Some(time));
        let mut signed = Vec::new();
        request.signed_text(&mut signed);
        let expected = signature(&user, &signed, request.time().unwrap());
        prop_assert_eq!(request.signature(), Some(&expected[..]));
    }

    #[test]
    fn what_a_server_writes_is_read_back(
        index in 0..Code::ALL.len(),
        thread in "[!-~]{1,16}",
        times in any::<[u32; 4]>(),
        counts in any::<[u32; 2]>(),
        kind in 0..3,
    ) {
        let [entered, updated, first, last] = times.map(u64::from);
        let [reports, revokes] = counts.map(u64::from);
        let (reported, revoked) = (Times { entered, updated }, Times { entered: first, updated: last });
        let body = match kind {
            0 => Body::Empty,
            1 => Body::Counts { reports, revokes },
            _ => Body::Info { reported, revoked, reports, revokes },
        };
        let code = Code::ALL[index];
        let mut frame = Vec::new();
        Reply { code, thread: thread.as_bytes(), body }.encode(&mut frame);
        let answer = Answer::decode(&frame).unwrap();
        prop_assert_eq!((answer.code, answer.thread, answer.body), (code.number().into(), thread.as_bytes(), body));
    }

    #[test]
    fn any_bytes_are_read_or_dropped(bytes in vec(any::<u8>(), 0..2000), cut in 0..200_usize) {
        read_all(&bytes);
        let (_, text) = &transcripts("pyzor")[2];
        let mut frame = frames(text)[usize::from(bytes.len() as u8) % 20].1.clone().into_bytes();
        frame.truncate(cut);
        frame.extend(&bytes);
        read_all(&frame);
    }
}

/// Calls every accessor of a request and of a reply.
fn read_all(bytes: &[u8]) {
    let _ = Answer::decode(bytes);
    let Some(request) = Request::decode(bytes) else { return };
    let mut out = Vec::new();
    request.signed_text(&mut out);
    assert!(out.len() <= bytes.len());
    request.duplicate_key(&mut out);
    assert!(request.thread().len() <= THREAD_BYTES_MAX);
    let _ = (request.fault(), request.user(), request.time_seconds(), request.digests().count());
}
