//! The books' limits, as clients and operators see them: a script that reports in a loop is refused in every protocol,
//! and the health conditions show it.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use bruit_client::http::{Claimed, NamedSignature, SIGNATURES_MAX, Subject, Verdict};
use bruit_client::{Client, ClientError};
use common::wire::Datagrams;
use common::{FakeClock, Folder, Server};

/// Maximum wait for an expected state.
const SOON: Duration = Duration::from_secs(10);

/// Returns consecutive signatures starting at `first`, as many as fit into one request.
fn subject(first: u64) -> Subject {
    let signature =
        |number: u64| NamedSignature { scheme: "pyzor".to_owned(), value: format!("{number:040x}"), piece: None };
    Subject { signatures: (first..first + SIGNATURES_MAX as u64).map(signature).collect(), ..Subject::default() }
}

#[test]
fn a_looping_reporter_is_told_to_come_back_and_health_says_why() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let client = Client::new(&server.url(), Some(&server.token()), SOON).unwrap();
    let mut accepted = 0;
    // The site's daily quota is a fifth of a generation: some 18,700 signatures with 16 MiB.
    let refusal = (0..200).find_map(|round| match client.report(&subject(1 + round * SIGNATURES_MAX as u64)) {
        Ok(claimed) => {
            accepted += claimed.accepted;
            None
        }
        Err(error) => Some(error),
    });
    let Some(ClientError::Refused { problem, .. }) = refusal else { panic!("{refusal:?} after {accepted}") };
    assert_eq!(problem.status, 429, "{problem}");
    assert!((15_000..25_000).contains(&accepted), "{accepted}");
    let mut pyzor = Datagrams::to(server.address("pyzor"));
    assert_eq!(
        pyzor.pyzor("report", &format!("{:040x}", u64::MAX)).0,
        503,
        "the reply says that the client may try again later, not that it lacks a right"
    );
    assert_eq!(pyzor.pyzor("check", &format!("{:040x}", 1)).1, Some(5), "earlier listings are still found");
    let deadline = Instant::now() + SOON;
    while !client.stats().unwrap().health.iter().any(|condition| condition.state == "reports_refused") {
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(server.said().contains("reports_refused"), "{}", server.said());
}

/// A looping script against a server with the default memory. Run this test by name, in an optimised build. Its figures
/// are in `docs/reliability.md`.
#[test]
#[ignore = "takes minutes, and needs an optimised build"]
#[allow(clippy::print_stdout, reason = "the purpose of the test is to print figures")]
fn forty_million_claims_at_a_default_server() {
    const BEFORE: u64 = 100_000;
    let folder = Folder::new();
    let clock = FakeClock::new(&folder);
    let server = Server::start_with_default_memory(&clock, &folder);
    let client = Client::new(&server.url(), Some(&server.token()), SOON).unwrap();
    let started = Instant::now();
    let before = send(BEFORE, |at| client.report(&subject(at)));
    let listed = send(30_000_000, |at| client.report(&subject((1 << 40) + at)));
    let revoked = send(10_000_000, |at| client.revoke(&subject((1 << 41) + at)));
    let seconds = started.elapsed().as_secs();
    let stats = client.stats().unwrap();
    let states: Vec<_> = stats.health.iter().map(|condition| (&condition.state, &condition.text)).collect();
    let found = known(&client, 0, before);
    let false_hits = known(&client, 1 << 42, 10_000_000);
    println!("{seconds} s: listed {before}, then {listed}; revoked {revoked}; found {found} of the first {before};");
    println!("{false_hits} false hits in 10,000,000 checks; health: {states:?}\n{}", server.said());
    assert!(found >= before - before / 1_000 && false_hits < 100);
    assert!(stats.health.iter().any(|condition| condition.state == "reports_refused"), "{states:?}");
    assert!(server.said().contains("reports_refused"));
    clock.set(86_400);
    thread::sleep(Duration::from_secs(2));
    client.accept_clock().unwrap();
    let deadline = Instant::now() + SOON;
    while client.report(&subject(1 << 43)).is_err() {
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends this many signatures in full requests. Ignores refusals, and returns the number of accepted signatures.
fn send(signatures: u64, claim: impl Fn(u64) -> Result<Claimed, ClientError>) -> u64 {
    let accepted = |first| match claim(first) {
        Ok(claimed) => u64::from(claimed.accepted),
        Err(ClientError::Refused { problem, .. }) if problem.status == 429 || problem.status == 503 => 0,
        Err(error) => panic!("{error}"),
    };
    (0..signatures).step_by(SIGNATURES_MAX).map(accepted).sum()
}

/// Returns the number of these signatures that are spam.
fn known(client: &Client, first: u64, signatures: u64) -> u64 {
    let spam = |at| {
        let checked = client.check(&subject(first + at)).unwrap();
        checked.signatures.iter().filter(|checked| checked.verdict == Verdict::Spam).count() as u64
    };
    (0..signatures).step_by(SIGNATURES_MAX).map(spam).sum()
}
