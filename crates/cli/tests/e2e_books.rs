//! Books that protect themselves, as clients and operators see it: a script that reports in a loop is told to come back later, in
//! each language, and health says so.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use bruit_client::http::{NamedSignature, SIGNATURES_MAX, Subject};
use bruit_client::{Client, ClientError};
use common::wire::Datagrams;
use common::{Folder, Server};

/// What does not show within this never will.
const SOON: Duration = Duration::from_secs(10);

fn subject(first: u64) -> Subject {
    let signature = |number: u64| NamedSignature { scheme: "pyzor".to_owned(), value: format!("{number:040x}") };
    Subject { signatures: (first..first + SIGNATURES_MAX as u64).map(signature).collect(), ..Subject::default() }
}

#[test]
fn a_looping_reporter_is_told_to_come_back_and_health_says_why() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let client = Client::new(&server.url(), None, SOON).unwrap();
    let mut accepted = 0;
    // A day's pace of the site is a fifth of what a generation of 16 MiB holds, some 18,700.
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
    assert_eq!(pyzor.pyzor("report", &format!("{:040x}", u64::MAX)).0, 503, "later, and not: you may not");
    assert_eq!(pyzor.pyzor("check", &format!("{:040x}", 1)).1, Some(5), "what was listed before is found");
    let deadline = Instant::now() + SOON;
    while !client.stats().unwrap().health.iter().any(|condition| condition.state == "reports_refused") {
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(server.said().contains("reports_refused"), "{}", server.said());
}
