use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use tempfile::{TempDir, tempdir};

use super::*;
use crate::Lesson;
use crate::http::{NamedSignature, Subject};
use crate::spool::SpoolEntry;

const LIMITS: SendLimits = SendLimits { reports: 10, time: Duration::from_secs(60) };

/// Returns a spool with reports of these ages in seconds, and a client whose server does not exist.
fn spool(ages: &[u64]) -> (TempDir, Spool, Client) {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for age in ages {
        let report = SpooledReport::new(ClaimKind::Report, None, Subject::default(), now - age).unwrap();
        spool.store(report).unwrap();
    }
    let client = Client::new("http://127.0.0.1:1", None, Duration::from_secs(5)).unwrap();
    (folder, spool, client)
}

#[test]
fn old_reports_are_dropped_and_counted() {
    let limit = REPORT_AGE_MAX.as_secs();
    let (_folder, spool, client) = spool(&[limit + 60, limit - 60]);
    let sent = spool.send(&client, LIMITS).unwrap();
    assert_eq!((sent.dropped, sent.sent, spool.waiting().unwrap().len()), (1, 0, 1));
}

#[test]
fn nothing_else_is_tried_if_the_server_cannot_be_reached() {
    let (_folder, spool, client) = spool(&[1, 2, 3]);
    assert!(matches!(spool.send(&client, LIMITS).unwrap().error, Some(ClientError::Unreachable { .. })));
    let attempts = spool.list().unwrap().into_iter().map(|entry| match entry {
        SpoolEntry::Waiting(report) => report.attempts,
        other => panic!("{other:?}"),
    });
    assert_eq!(attempts.sum::<u32>(), 1);
}

#[test]
fn each_server_gets_its_part_although_the_other_is_down() {
    let (_folder, spool, client) = spool(&[1]);
    let lesson = Lesson { message: b"Subject: x\n\ntext".to_vec(), flag: 1, weight: 10, trains_bayes: false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    spool.store(SpooledReport::for_rspamd(ClaimKind::Report, lesson, now).unwrap()).unwrap();
    let sent = spool.send(&client, LIMITS).unwrap();
    assert!(sent.error.is_some() && sent.rspamd_error.is_none(), "without an rspamd, the message waits: {sent:?}");
    let rspamd = Rspamd::new("http://127.0.0.1:1", None, Duration::from_secs(5)).unwrap();
    let sent = spool.send(Destinations { server: &client, rspamd: Some(&rspamd) }, LIMITS).unwrap();
    assert!(matches!(sent.error, Some(ClientError::Unreachable { .. })), "{sent:?}");
    assert!(matches!(sent.rspamd_error, Some(RspamdError::Unreachable { .. })), "{sent:?}");
    let attempts = spool.list().unwrap().into_iter().map(|entry| match entry {
        SpoolEntry::Waiting(report) => (report.rspamd.is_some(), report.attempts),
        other => panic!("{other:?}"),
    });
    let mut attempts: Vec<_> = attempts.collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(false, 2), (true, 1)]);
}

#[test]
fn a_full_disk_keeps_the_report_as_it_was() {
    let (folder, spool, client) = spool(&[1, 2]);
    for entry in spool.list().unwrap() {
        let SpoolEntry::Waiting(report) = entry else { panic!("{entry:?}") };
        fill_disk(folder.path(), &report);
    }
    let before = spool.list().unwrap();
    let sent = spool.send(&client, LIMITS).unwrap();
    assert!(matches!(&sent.faults[..], [SpoolError::DiskFull { .. }]), "{:?}", sent.faults);
    assert!(matches!(sent.error, Some(ClientError::Unreachable { .. })));
    assert_eq!(spool.list().unwrap(), before);
}

#[test]
fn a_report_is_kept_if_the_disk_fills_up_during_the_request() {
    let (folder, spool, client) = spool(&[]);
    let report = SpooledReport::new(ClaimKind::Report, None, Subject::default(), 7).unwrap();
    let stored = spool.store(report.clone()).unwrap();
    fill_disk(folder.path(), &report);
    let attempt = spool.send_one(&client, stored);
    assert!(matches!(attempt.result, Sending::Waits(ClientError::Unreachable { .. })), "{attempt:?}");
    assert!(matches!(attempt.fault, Some(SpoolError::DiskFull { .. })), "{attempt:?}");
    assert_eq!(spool.list().unwrap(), [SpoolEntry::Waiting(report)]);
}

/// Makes every later change of the report fail as on a full disk.
fn fill_disk(folder: &Path, report: &SpooledReport) {
    for number in 0..2_000 {
        let temporary = folder.join(format!(".tmp-{}-{}-{number}", report.id, std::process::id()));
        std::os::unix::fs::symlink("/dev/full", temporary).unwrap();
    }
}

/// Sieve stops a script after 10 seconds, so sending must end within [`SendLimits::time`]. An earlier version of `send`
/// took longer, by the timeout of one request.
#[test]
fn a_request_ends_with_the_time_limit() {
    let (_folder, spool, _) = spool(&[1, 2]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::new(&url, None, Duration::from_secs(600)).unwrap();
    let sent = spool.send(&client, SendLimits { reports: 10, time: Duration::from_millis(10) }).unwrap();
    let Some(ClientError::TimedOut { timeout, .. }) = sent.error else { panic!("{:?}", sent.error) };
    assert_eq!(timeout, REQUEST_TIME_MIN);
}

#[test]
fn a_report_without_right_waits_and_a_malformed_one_does_not() {
    let refused =
        |status| ClientError::Refused { server: "s".into(), problem: crate::http::Problem::new(status, "no", "no") };
    assert!([401, 403, 429, 500, 503].into_iter().all(|status| waits(&refused(status))));
    assert!(![400, 413, 422].into_iter().any(|status| waits(&refused(status))));
}

/// A server that answers each claim with the status set for its path, and keeps the paths of the claims that it
/// accepts.
struct StandIn {
    client: Client,
    accepted: Receiver<String>,
}

impl StandIn {
    fn start(status: impl Fn(&str, usize) -> u16 + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, accepted) = channel();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let path = request(&stream);
                let status = status(&path, number);
                if status == 200 {
                    sender.send(path).unwrap();
                }
                let body = r#"{"accepted":1,"listed":0,"revoked":0,"ignored":0,"refused":0}"#;
                let head = format!("Connection: close\r\nContent-Length: {}", body.len());
                write!(&stream, "HTTP/1.1 {status} Scripted\r\n{head}\r\n\r\n{body}").unwrap();
            }
        });
        Self { client: Client::new(&url, None, Duration::from_secs(30)).unwrap(), accepted }
    }

    fn accepted(&self) -> Vec<String> {
        self.accepted.try_iter().collect()
    }
}

/// Reads a request. Returns its path.
fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0);
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    reader.read_exact(&mut vec![0; length.unwrap()]).unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

/// Returns a claim of one person about a message with this signature.
fn about(claim: ClaimKind, value: &str) -> SpooledReport {
    let signature = NamedSignature { scheme: "exact".into(), value: value.into(), piece: None };
    let subject = Subject { signatures: vec![signature], ..Subject::default() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    SpooledReport::new(claim, Some("ann"), subject, now).unwrap()
}

/// Each failed attempt once moved a report behind the others, so that a revocation arrived before its report.
#[test]
fn a_report_arrives_before_its_revocation_after_an_outage() {
    let (_folder, spool, nobody) = spool(&[]);
    for claim in [ClaimKind::Report, ClaimKind::Revoke] {
        spool.store(about(claim, "aa")).unwrap();
    }
    assert!(spool.send(&nobody, LIMITS).unwrap().error.is_some());
    let server = StandIn::start(|_, _| 200);
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 2);
    assert_eq!(server.accepted(), ["/v1/report", "/v1/revoke"]);
}

#[test]
fn a_revocation_does_not_overtake_a_report_that_was_refused_for_now() {
    let (_folder, spool, _) = spool(&[]);
    for (claim, value) in [(ClaimKind::Report, "aa"), (ClaimKind::Revoke, "aa"), (ClaimKind::Revoke, "bb")] {
        spool.store(about(claim, value)).unwrap();
    }
    let server = StandIn::start(|_, number| if matches!(number, 0 | 2) { 429 } else { 200 });
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 1, "the revocation of the other message");
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 0, "the report is refused again");
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 2);
    assert_eq!(server.accepted(), ["/v1/revoke", "/v1/report", "/v1/revoke"]);
}

#[test]
fn a_new_revocation_does_not_overtake_a_report_that_waits() {
    let (_folder, spool, nobody) = spool(&[]);
    let report = spool.store(about(ClaimKind::Report, "aa")).unwrap();
    assert!(matches!(spool.send_one(&nobody, report).result, Sending::Waits(_)));
    let server = StandIn::start(|_, _| 200);
    let claim = |claim, value| spool.send_one(&server.client, spool.store(about(claim, value)).unwrap()).result;
    assert!(matches!(claim(ClaimKind::Revoke, "bb"), Sending::Answered(_)), "another message");
    assert!(matches!(claim(ClaimKind::Revoke, "aa"), Sending::Held));
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 2);
    assert_eq!(server.accepted(), ["/v1/revoke", "/v1/report", "/v1/revoke"]);
}

/// Reports that a server temporarily refuses, for example because one person lacks a right, must not block other
/// reports.
#[test]
fn reports_refused_for_now_do_not_block_others() {
    let (_folder, spool, _) = spool(&[]);
    for number in 0..=FAILURES_MAX {
        spool.store(about(ClaimKind::Report, &number.to_string())).unwrap();
    }
    let server = StandIn::start(|_, number| if number < FAILURES_MAX { 403 } else { 200 });
    assert_eq!(spool.send(&server.client, LIMITS).unwrap().sent, 0);
    let first = SendLimits { reports: 1, ..LIMITS };
    assert_eq!(spool.send(&server.client, first).unwrap().sent, 1);
    let entries = spool.list().unwrap();
    assert!(entries.iter().all(|entry| matches!(entry, SpoolEntry::Waiting(report) if report.attempts == 1)));
}

/// Messages for rspamd once stayed in the spool forever if no rspamd was configured any more.
#[test]
fn old_messages_for_rspamd_are_dropped_without_an_rspamd() {
    let (folder, spool, client) = spool(&[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let lesson = || Lesson { message: b"Subject: x\n\ntext".to_vec(), flag: 1, weight: 10, trains_bayes: false };
    for time in [now - REPORT_AGE_MAX.as_secs() - 60, now] {
        let report = SpooledReport::for_rspamd(ClaimKind::Report, lesson(), time).unwrap();
        let stored = spool.store(report).unwrap();
        std::fs::rename(&stored.path, folder.path().join(format!("{time:010}-{}.rspamd", stored.report.id))).unwrap();
    }
    let sent = spool.send(&client, LIMITS).unwrap();
    assert_eq!((sent.dropped, spool.waiting_count().unwrap()), (1, 1));
}
