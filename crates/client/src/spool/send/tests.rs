use tempfile::{TempDir, tempdir};

use super::*;
use crate::Lesson;
use crate::http::Subject;
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
fn fill_disk(folder: &std::path::Path, report: &SpooledReport) {
    for number in 0..2_000 {
        let temporary = folder.join(format!(".tmp-{}-{}-{number}", report.id, std::process::id()));
        std::os::unix::fs::symlink("/dev/full", temporary).unwrap();
    }
}

/// A Sieve script has 10 seconds. Sending the spool took the timeout of one request longer than its limit.
#[test]
fn a_request_ends_with_the_time_limit() {
    let (_folder, spool, _) = spool(&[1, 2]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
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
