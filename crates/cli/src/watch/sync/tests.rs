use std::path::PathBuf;

use bruit_client::Purpose;
use bruit_client::spool::SpoolEntry;
use clap::Parser as _;
use tempfile::TempDir;

use super::*;

/// Time of the first call.
const START: u64 = 1_700_000_000;

static RUNNING: AtomicBool = AtomicBool::new(false);
static STOPPING: AtomicBool = AtomicBool::new(true);

/// A Maildir with a spool.
struct Site {
    folder: TempDir,
    spool: Spool,
    signer: Signer,
    names: Names,
    ignored: Vec<Field>,
    maildir: Maildir,
    lesson: Option<LessonArgs>,
}

/// The options for rspamd.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    lesson: LessonArgs,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("Maildir");
        for name in ["", ".Junk", ".Spam", ".Trash", ".Archive"] {
            for part in ["cur", "new", "tmp"] {
                fs::create_dir_all(root.join(name).join(part)).unwrap();
            }
        }
        fs::create_dir(folder.path().join("state")).unwrap();
        Self {
            spool: Spool::open(&folder.path().join("spool")).unwrap(),
            signer: Signer::new(Purpose::Claim),
            names: Names { junk: vec!["Junk".into(), "Spam".into()], trash: vec!["Trash".into()] },
            ignored: vec!["X-Bruit: spam".parse().unwrap()],
            maildir: Maildir { root, reporter: Some("ann".into()) },
            lesson: None,
            folder,
        }
    }

    /// Returns a site after its first call.
    fn started() -> Self {
        let site = Self::new();
        site.sync(START);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.maildir.root.join(name)
    }

    fn put(&self, name: &str, number: u32) {
        fs::write(self.path(name), message(number)).unwrap();
    }

    fn claims<'a>(&'a self, state: &'a Path, is_stopping: &'a AtomicBool) -> Claims<'a> {
        let Self { spool, signer, names, ignored, .. } = self;
        Claims { spool, signer, names, ignored, lesson: self.lesson, state, is_stopping }
    }

    /// Returns the numbers of reports and revocations.
    fn try_sync(&self, now: u64) -> Result<(usize, usize)> {
        let state = self.folder.path().join("state");
        let counts = self.claims(&state, &RUNNING).sync(&self.maildir, now)?;
        Ok((counts.reported, counts.revoked))
    }

    #[track_caller]
    fn sync(&self, now: u64) -> (usize, usize) {
        self.try_sync(now).unwrap()
    }

    fn state_file(&self) -> PathBuf {
        let mut files = fs::read_dir(self.folder.path().join("state")).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "json")).unwrap()
    }

    /// Returns the paths of the messages for rspamd.
    fn lessons(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.spool.folder()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rspamd")).collect()
    }

    /// Returns the reports in the spool.
    fn spooled(&self) -> Vec<SpooledReport> {
        let entries = self.spool.list().unwrap().into_iter().map(|entry| match entry {
            SpoolEntry::Waiting(report) => report,
            other => panic!("{other:?}"),
        });
        entries.collect()
    }
}

fn message(number: u32) -> String {
    let line = |at| format!("Genuine watches of series {number} at wholesale prices, offer {at}, sent to your door.\n");
    let body: String = (0..12).map(line).collect();
    format!("From: sales@example.org\nSubject: watches {number}\n\n{body}")
}

#[test]
fn messages_that_appear_in_junk_are_reported_once() {
    let site = Site::new();
    site.put(".Junk/cur/1699999999.M1.host:2,S", 1);
    assert_eq!(site.sync(START), (0, 0), "known at the first start");
    site.put(".Junk/new/1700000010.M2.host", 2);
    site.put(".Spam/cur/1700000010.M3.host:2,", 3);
    assert_eq!(site.sync(START + 10), (2, 0));
    let reports = site.spooled();
    assert!(
        reports.iter().all(|report| report.claim == ClaimKind::Report && report.reporter.as_deref() == Some("ann"))
    );
    let subject = site.signer.subject(message(2).as_bytes());
    assert_eq!(reports.iter().filter(|report| report.subject == subject).count(), 1);
    fs::rename(site.path(".Junk/new/1700000010.M2.host"), site.path(".Junk/cur/1700000010.M2.host:2,S")).unwrap();
    // Dovecot gives a message another name when it moves it.
    fs::rename(site.path(".Spam/cur/1700000010.M3.host:2,"), site.path(".Junk/cur/1700000011.M4.host:2,")).unwrap();
    assert_eq!(site.sync(START + 11), (0, 0), "flags, and a move from one Junk folder to another");
    assert_eq!(site.sync(START + 12), (0, 0));
}

#[test]
fn messages_that_leave_junk_for_another_folder_are_revoked() {
    let site = Site::started();
    for number in 1..=5 {
        site.put(&format!(".Junk/cur/17000000{number}0.M{number}.host:2,"), number);
    }
    assert_eq!(site.sync(START + 60), (5, 0));
    let junk = |number: u32| site.path(&format!(".Junk/cur/17000000{number}0.M{number}.host:2,"));
    fs::rename(junk(1), site.path("cur/1700000010.M1.host:2,S")).unwrap();
    fs::hard_link(junk(2), site.path(".Archive/cur/1700000070.M9.host:2,S")).unwrap();
    fs::copy(junk(3), site.path("new/1700000070.M8.host")).unwrap();
    fs::hard_link(junk(4), site.path(".Trash/cur/1700000070.M7.host:2,S")).unwrap();
    for number in 2..=5 {
        fs::remove_file(junk(number)).unwrap();
    }
    assert_eq!(site.sync(START + 80), (0, 3), "moved, linked, copied; but not thrown away or deleted");
    let revoked = site.spooled().into_iter().filter(|report| report.claim == ClaimKind::Revoke);
    let mut revoked: Vec<_> = revoked.map(|report| serde_json::to_string(&report.subject).unwrap()).collect();
    let subject = |number| serde_json::to_string(&site.signer.subject(message(number).as_bytes())).unwrap();
    let mut expected = [subject(1), subject(2), subject(3)];
    revoked.sort();
    expected.sort();
    assert_eq!(revoked, expected);
    assert_eq!(site.sync(START + 90), (0, 0));
    fs::rename(site.path("cur/1700000010.M1.host:2,S"), junk(1)).unwrap();
    assert_eq!(site.sync(START + 100), (1, 0), "it comes back");
}

#[test]
fn a_copy_that_was_there_before_is_no_revocation() {
    let site = Site::started();
    site.put("cur/1699999000.M1.host:2,S", 1);
    fs::hard_link(site.path("cur/1699999000.M1.host:2,S"), site.path(".Junk/cur/1700000010.M2.host:2,S")).unwrap();
    site.put("cur/1700000020.M3.host:2,T", 2);
    site.put(".Junk/cur/1700000010.M4.host:2,", 2);
    assert_eq!(site.sync(START + 10), (2, 0));
    fs::remove_file(site.path(".Junk/cur/1700000010.M2.host:2,S")).unwrap();
    fs::remove_file(site.path(".Junk/cur/1700000010.M4.host:2,")).unwrap();
    assert_eq!(site.sync(START + 30), (0, 0), "a message that was copied to Junk, and one that is marked as deleted");
}

#[test]
fn what_a_filter_puts_into_junk_is_not_reported_but_can_be_revoked() {
    let site = Site::started();
    let tagged = format!("X-Bruit: spam; confidence=80\n{}", message(1));
    fs::write(site.path(".Junk/new/1700000010.M1.host"), tagged).unwrap();
    fs::write(site.path(".Junk/new/1700000010.M2.host"), format!("X-Bruit: unknown\n{}", message(2))).unwrap();
    assert_eq!(site.sync(START + 10), (1, 0));
    fs::rename(site.path(".Junk/new/1700000010.M1.host"), site.path("cur/1700000010.M1.host:2,S")).unwrap();
    assert_eq!(site.sync(START + 20), (0, 1));
}

#[test]
fn a_claim_that_is_repeated_after_a_crash_has_the_same_id() {
    let site = Site::started();
    let state = site.state_file();
    let before = fs::read(&state).unwrap();
    site.put(".Junk/cur/1700000010.M1.host:2,", 1);
    assert_eq!(site.sync(START + 10), (1, 0));
    // The crash comes after the claim is stored and before the state is stored.
    fs::write(&state, before).unwrap();
    assert_eq!(site.sync(START + 11), (1, 0));
    let ids: Vec<String> = site.spooled().into_iter().map(|report| report.id).collect();
    assert!(ids.len() == 1 && ids[0].len() == 32, "the second replaces the first: {ids:?}");
}

#[test]
fn a_claim_that_cannot_be_stored_is_made_later() {
    let site = Site::started();
    let lock = site.spool.folder().join(".lock");
    fs::create_dir(&lock).unwrap();
    site.put(".Junk/cur/1700000010.M1.host:2,", 1);
    assert!(site.try_sync(START + 10).is_err());
    fs::remove_dir(&lock).unwrap();
    assert_eq!(site.sync(START + 20), (1, 0));
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    fs::rename(site.path(".Junk/cur/1700000010.M1.host:2,"), site.path("cur/1700000010.M1.host:2,S")).unwrap();
    assert!(site.try_sync(START + 30).is_err());
    fs::remove_dir(&lock).unwrap();
    assert_eq!(site.sync(START + 40), (0, 1));
}

#[test]
fn a_stop_leaves_the_rest_for_the_next_start() {
    let site = Site::started();
    site.put(".Junk/cur/1700000010.M1.host:2,", 1);
    let state = site.folder.path().join("state");
    let counts = site.claims(&state, &STOPPING).sync(&site.maildir, START + 10).unwrap();
    assert_eq!(counts, Counts::default());
    assert_eq!(site.sync(START + 20), (1, 0));
}

/// Makes `new` from a file, with the same inode but other contents, like a file system that reuses an inode.
fn use_inode_again(site: &Site, old: &str, new: &str, contents: &str) {
    fs::rename(site.path(old), site.path(new)).unwrap();
    fs::write(site.path(new), contents).unwrap();
}

#[test]
fn new_mail_with_the_inode_of_a_deleted_message_is_no_revocation() {
    let site = Site::new();
    site.put(".Junk/cur/1699999999.M1.host:2,S", 1);
    assert_eq!(site.sync(START), (0, 0));
    site.put(".Junk/cur/1700000010.M2.host:2,", 2);
    site.put(".Junk/cur/1700000010.M3.host:2,", 3);
    assert_eq!(site.sync(START + 10), (2, 0));
    use_inode_again(&site, ".Junk/cur/1699999999.M1.host:2,S", "new/1700000020.M4.host", &message(4));
    use_inode_again(&site, ".Junk/cur/1700000010.M2.host:2,", "new/1700000020.M5.host", &message(5));
    use_inode_again(&site, ".Junk/cur/1700000010.M3.host:2,", "new/1700000020.M6.host", "Subject: short\n\nA word.\n");
    assert_eq!(site.sync(START + 30), (0, 0), "the old messages were deleted");
    assert_eq!(site.sync(START + 40), (0, 0));
}

#[test]
fn a_new_message_in_junk_with_the_inode_of_a_deleted_one_is_reported() {
    let site = Site::new();
    site.put(".Junk/cur/1699999999.M1.host:2,S", 1);
    assert_eq!(site.sync(START), (0, 0));
    site.put(".Junk/cur/1700000010.M2.host:2,", 2);
    assert_eq!(site.sync(START + 10), (1, 0));
    use_inode_again(&site, ".Junk/cur/1699999999.M1.host:2,S", ".Junk/cur/1700000020.M3.host:2,", &message(3));
    use_inode_again(&site, ".Junk/cur/1700000010.M2.host:2,", ".Junk/cur/1700000020.M4.host:2,", &message(4));
    assert_eq!(site.sync(START + 30), (2, 0));
    assert_eq!(site.sync(START + 40), (0, 0));
}

#[test]
fn messages_from_the_first_start_can_be_moved_within_junk_and_revoked() {
    let site = Site::new();
    site.put(".Junk/cur/1699999999.M1.host:2,S", 1);
    assert_eq!(site.sync(START), (0, 0));
    fs::rename(site.path(".Junk/cur/1699999999.M1.host:2,S"), site.path(".Spam/cur/1700000010.M2.host:2,S")).unwrap();
    assert_eq!(site.sync(START + 10), (0, 0));
    fs::rename(site.path(".Spam/cur/1700000010.M2.host:2,S"), site.path("cur/1700000020.M3.host:2,S")).unwrap();
    assert_eq!(site.sync(START + 20), (0, 1));
}

/// The directory for new mail is replaced by a file, which not even root can list.
#[test]
fn a_message_is_not_deleted_while_a_folder_cannot_be_searched() {
    let site = Site::started();
    site.put(".Junk/cur/1700000010.M1.host:2,", 1);
    site.put(".Junk/cur/1700000010.M2.host:2,", 2);
    assert_eq!(site.sync(START + 10), (2, 0));
    fs::rename(site.path(".Junk/cur/1700000010.M1.host:2,"), site.path("cur/1700000010.M1.host:2,")).unwrap();
    fs::rename(site.path(".Junk/cur/1700000010.M2.host:2,"), site.path(".Archive/cur/1700000010.M2.host:2,")).unwrap();
    fs::rename(site.path(".Archive/new"), site.path(".Archive/hidden")).unwrap();
    fs::write(site.path(".Archive/new"), "").unwrap();
    assert!(site.try_sync(START + 20).is_err());
    assert_eq!(site.spooled().len(), 3, "the message that was found is revoked");
    fs::remove_file(site.path(".Archive/new")).unwrap();
    assert_eq!(site.sync(START + 30), (0, 1));
}

#[test]
fn rspamd_learns_a_message_once_after_a_crash() {
    let site = Site { lesson: Some(Options::parse_from(["test"]).lesson), ..Site::started() };
    let before = fs::read(site.state_file()).unwrap();
    site.put(".Junk/cur/1700000010.M1.host:2,", 1);
    assert_eq!(site.sync(START + 10), (1, 0));
    fs::write(site.state_file(), &before).unwrap();
    assert_eq!(site.sync(START + 11), (1, 0));
    assert_eq!(site.lessons().len(), 1);
}
