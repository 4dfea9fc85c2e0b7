use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::tempdir;

use super::*;
use crate::Lesson;
use crate::http::{NamedSignature, Subject};
use crate::spool::ClaimKind;

fn report(time: u64) -> SpooledReport {
    let signature = NamedSignature { scheme: "exact".into(), value: "00".into(), piece: None };
    let subject = Subject { signatures: vec![signature], ..Subject::default() };
    SpooledReport::new(ClaimKind::Report, Some("ann"), subject, time).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn claim(spool: &Spool, path: &Path) -> Option<Stored> {
    spool.claim(path, &mut Vec::new()).unwrap()
}

#[test]
fn a_stored_report_can_be_read_by_its_owner_only() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(&folder.path().join("a/b")).unwrap();
    let stored = spool.store(report(7)).unwrap();
    assert_eq!((mode(spool.folder()), mode(&stored.path)), (0o700, 0o600));
    assert_eq!(spool.list().unwrap(), [SpoolEntry::Waiting(stored.report.clone())]);
    assert!(spool.entries().unwrap().iter().all(|(path, _)| !name(path).starts_with(TEMPORARY)));
    spool.remove(&stored).unwrap();
    assert_eq!(spool.list().unwrap(), []);
}

#[test]
fn a_report_is_sent_by_one_process_at_a_time() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let stored = spool.store(report(7)).unwrap();
    let path = stored.path.clone();
    assert!(claim(&spool, &path).is_none(), "locked since it was stored");
    let stored = spool.note_failure(stored, "no answer").unwrap();
    assert!(claim(&spool, &path).is_none(), "the lock survives a change of the file");
    drop(stored);
    let claimed = claim(&spool, &path).unwrap();
    assert_eq!((claimed.report.attempts, claimed.report.error.as_deref()), (1, Some("no answer")));
    spool.remove(&claimed).unwrap();
    drop(claimed);
    assert!(claim(&spool, &path).is_none(), "sent by another process");
}

/// A process may open a file just before another process replaces or removes it.
#[test]
fn a_lock_on_a_replaced_file_does_not_count() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let stored = spool.store(report(7)).unwrap();
    let old = File::open(&stored.path).unwrap();
    let path = stored.path.clone();
    let stored = spool.note_failure(stored, "no answer").unwrap();
    old.try_lock().unwrap();
    assert!(claim(&spool, &path).is_none());
    drop(stored);
    assert!(claim(&spool, &path).is_some(), "the lock on the old file does not protect the new one");
}

#[test]
fn a_damaged_file_is_set_aside() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let path = spool.store(report(7)).unwrap().path;
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut damaged = Vec::new();
    assert!(spool.claim(&path, &mut damaged).unwrap().is_none());
    assert_eq!(damaged, [path.with_extension(DAMAGED)]);
    assert_eq!(
        (spool.waiting().unwrap(), spool.list().unwrap()),
        (vec![], vec![SpoolEntry::Damaged(damaged[0].clone())])
    );
}

#[test]
fn a_file_with_the_name_of_another_report_is_damaged() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let path = spool.store(report(7)).unwrap().path;
    let copy = folder.path().join(format!("0000000007-{}.{WAITING}", "0".repeat(32)));
    fs::copy(&path, &copy).unwrap();
    assert!(claim(&spool, &copy).is_none() && claim(&spool, &path).is_some());
}

#[test]
fn a_full_spool_accepts_no_report() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let fill = |count| {
        (0..count).for_each(|at| drop(File::create(folder.path().join(format!("{at}.{REFUSED}"))).unwrap()));
    };
    fill(REPORTS_MAX - 1);
    let stored = spool.store(report(7)).unwrap();
    let full = spool.store(report(8));
    assert!(matches!(full, Err(SpoolError::Full { reports: REPORTS_MAX, .. })), "{full:?}");
    spool.remove(&stored).unwrap();
    File::create(folder.path().join(format!("0.{REFUSED}"))).unwrap().set_len(SPOOL_BYTES_MAX).unwrap();
    assert!(matches!(spool.store(report(8)), Err(SpoolError::Full { .. })), "too many bytes");
}

#[test]
fn messages_for_rspamd_leave_room_for_reports() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let lesson = || Lesson { message: b"Subject: x\n\ntext".to_vec(), flag: 1, weight: 10, trains_bayes: false };
    let lesson = || SpooledReport::for_rspamd(ClaimKind::Report, lesson(), 7).unwrap();
    let stored = spool.store(lesson()).unwrap();
    assert!(is_lesson(&stored.path) && !is_lesson(&spool.store(report(7)).unwrap().path));
    let listed = spool.list().unwrap();
    let lengths = listed.iter().map(|entry| match entry {
        SpoolEntry::Waiting(report) => report.rspamd.as_ref().map(|lesson| lesson.message.len()),
        other => panic!("{other:?}"),
    });
    let mut lengths: Vec<_> = lengths.collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [None, Some(0)], "the message is not part of a list");
    for at in 0..REPORTS_MAX / 2 {
        File::create(folder.path().join(format!("{at}.{LESSON}"))).unwrap();
    }
    assert!(matches!(spool.store(lesson()), Err(SpoolError::Full { .. })));
    spool.store(report(8)).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_file() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let report = report(7);
    for number in 0..2_000 {
        let temporary = folder.path().join(format!("{TEMPORARY}{}-{}-{number}", report.id, std::process::id()));
        std::os::unix::fs::symlink("/dev/full", temporary).unwrap();
    }
    let error = spool.store(report).unwrap_err();
    assert!(matches!(error, SpoolError::DiskFull { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("no space left for the spool {}: {}", folder.path().display(), no_space()));
    assert_eq!(spool.list().unwrap(), []);
    assert!(spool.entries().unwrap().iter().all(|(path, _)| name(path) == LOCK));
}

fn no_space() -> io::Error {
    File::create("/dev/full").unwrap().write_all(b"x").unwrap_err()
}

#[test]
fn a_lock_that_is_never_released_is_an_error() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let held = spool.lock().unwrap();
    assert!(matches!(spool.store(report(7)), Err(SpoolError::Busy { .. })));
    drop(held);
    spool.store(report(7)).unwrap();
}

#[test]
fn reports_come_in_the_order_in_which_they_were_stored() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let stored: Vec<_> = (0..9).map(|_| spool.store(report(7)).unwrap()).collect();
    let paths: Vec<_> = stored.iter().map(|stored| stored.path.clone()).collect();
    assert_eq!(spool.waiting().unwrap(), paths, "although they have the same second");
    let mut stored = stored.into_iter();
    drop(spool.note_failure(stored.next().unwrap(), "no answer").unwrap());
    assert_eq!(spool.waiting().unwrap(), paths, "a server that is down changes nothing");
    let later = spool.postpone(stored.next().unwrap(), "refused").unwrap().path;
    let expected = [&paths[..1], &paths[2..], std::slice::from_ref(&later)].concat();
    assert_eq!((spool.waiting().unwrap(), place(&later)), (expected, name(&paths[1])));
    assert!(claim(&spool, &later).is_some());
}

/// A report is sent after those that were stored before it, even if their names have a later time. The clock may have
/// been set back, and earlier versions wrote whole seconds.
#[test]
fn a_report_comes_after_those_with_a_later_time() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let first = folder.path().join(format!("4000000000-{}.{WAITING}", "0".repeat(32)));
    fs::write(&first, "").unwrap();
    let second = spool.store(report(7)).unwrap().path;
    assert_eq!(spool.waiting().unwrap(), [first, second]);
}

#[test]
fn a_report_replaces_one_with_the_same_id_and_destination() {
    let folder = tempdir().unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    let report = report(7);
    let path = spool.store(report.clone()).unwrap().path;
    assert_eq!(spool.store(SpooledReport { time: 8, ..report.clone() }).unwrap().path, path);
    let lesson = Lesson { message: b"Subject: x\n\ntext".to_vec(), flag: 1, weight: 10, trains_bayes: false };
    spool.store(SpooledReport { rspamd: Some(lesson), ..report }).unwrap();
    assert_eq!((spool.waiting_count().unwrap(), spool.waiting_for_server_count().unwrap()), (2, 1));
    assert!(!spool.contains("0").unwrap());
}
