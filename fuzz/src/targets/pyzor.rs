//! Datagrams are decoded or dropped, requests are bounded, and encoded replies and requests can be decoded.

use bruit_protocols::pyzor::{Body, Code, DIGESTS_MAX, Reply, Request, THREAD_BYTES_MAX};
use bruit_testing::pyzor::{Answer, Outgoing};

pub(crate) fn fuzz(bytes: &[u8]) {
    let _ = Answer::decode(bytes);
    if let Some(request) = Request::decode(bytes) {
        check_bounds(&request, bytes.len());
        write_reply(&request);
        write_again(&request);
    }
}

fn check_bounds(request: &Request<'_>, length: usize) {
    let mut out = Vec::new();
    request.signed_text(&mut out);
    assert!(out.len() <= length);
    request.duplicate_key(&mut out);
    assert!(out.len() <= length + 4, "digests take fewer bytes than their digits");
    assert!(request.thread().len() <= THREAD_BYTES_MAX && request.digests().count() <= DIGESTS_MAX);
    assert!(request.fault().is_some() || request.digests().next().as_ref() == request.first_digest());
}

fn write_reply(request: &Request<'_>) {
    let code = request.fault().unwrap_or(Code::Ok);
    let body = Body::Counts { reports: 1, revokes: 2 };
    let mut out = Vec::new();
    Reply { code, thread: request.thread(), body }.encode(&mut out);
    let answer = Answer::decode(&out).expect("our own reply can be decoded");
    assert_eq!((answer.code, answer.body), (code.number().into(), body));
    assert_eq!(answer.thread, request.thread().trim_ascii());
}

/// Encodes the same request with our own client.
fn write_again(request: &Request<'_>) {
    let (Some(op), None) = (request.op(), request.fault()) else { return };
    let digests: Vec<_> = request.digests().collect();
    let time = request.time_seconds().unwrap_or_default();
    let mut out = Vec::new();
    Outgoing { op, digests: &digests, thread: 2000, user: "alice", time }.encode(&mut out, |_, _| [b'0'; 40]);
    let again = Request::decode(&out).expect("our own request can be decoded");
    // A client that writes requests more compactly than ours can fit more digests into a request.
    let is_equal = again.digests().eq(digests.iter().copied());
    assert!(is_equal || digests.len() > 150);
    assert_eq!((again.op(), again.first_digest()), (Some(op), digests.first()));
}
