//! The engine in a directory. It is founded once, recovered every time, and opened by one process only.

mod common;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bruit_engine::accounts::Protocol;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal};
use bruit_store::founding::FOUNDING_FILE;
use bruit_store::{Clearinghouse, Founding, LockError, OpenError, Options, survey};
use common::clearinghouse::*;
use common::{copy, options};
use tempfile::tempdir;

fn assert_holds_every_kind(engine: &Engine) {
    let kinds = [1, 2, 3, 4].map(|signature| engine.check(&fingerprint(signature), 0).kind);
    assert_eq!(kinds, [Kind::Spam, Kind::Ham, Kind::Ham, Kind::Unknown]);
    assert_eq!(recipients(engine, 5), 7);
    let mut scratch = CheckScratch::default();
    let found = engine.find_text(&features(), &mut scratch).map(|found| found.fingerprint);
    assert_eq!(found, Some(fingerprint(1)));
    assert!(engine.check_shingles(&DIGEST, None, &mut scratch).is_some());
    assert!(engine.check_shingles(&[0xD2; 64], None, &mut scratch).is_none());
    assert_eq!(engine.accounts().len(), 4);
    assert!(engine.accounts().get(Protocol::Dcc, b"32768").is_none());
    assert_eq!(engine.trust().policy().own_reports_needed, 2);
}

#[test]
fn events_of_every_kind_are_there_after_closing_and_opening_by_snapshot_or_by_replay() {
    let (folder, replayed) = (tempdir().unwrap(), tempdir().unwrap());
    let without_snapshots = options();
    for (directory, options) in [(folder.path(), &Options::default()), (replayed.path(), &without_snapshots)] {
        let store = open(directory, options);
        for event in events_of_every_kind() {
            let outcome = store.submit(vec![event.clone()]).unwrap().pop().unwrap();
            assert!(!matches!(outcome, Outcome::Refused(_)), "{event:?}: {outcome:?}");
        }
        drop(store);
        let store = open(directory, &without_snapshots);
        store.check(assert_holds_every_kind);
        assert_eq!(store.recovery().snapshot.is_some(), options.snapshot_on_close);
    }
    assert!(state(folder.path()) == state(replayed.path()), "a snapshot and a replay give the same bytes");
}

#[test]
fn a_clearinghouse_knows_when_it_was_founded_whether_from_a_snapshot_or_not() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &Options::default());
    assert_eq!(store.check(Engine::founded), FOUNDED);
    store.submit(vec![bulk(2, 5)]).unwrap();
    drop(store);
    let store = open(folder.path(), &Options::default());
    assert!(store.recovery().snapshot.is_some());
    assert_eq!(store.check(Engine::founded), FOUNDED);
}

#[test]
fn events_refused_by_the_engine_are_answered_and_not_in_the_journal() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    let refused = Event::Bulk { by: by(Standing::Stranger, 1), targets: 1, fingerprints: vec![fingerprint(1)] };
    let outcomes = store.submit(vec![bulk(2, 5), refused]).unwrap();
    assert!(matches!(outcomes[0], Outcome::Counted { .. }));
    assert_eq!(outcomes[1], Outcome::Refused(Refusal::Stranger));
    drop(store);
    let mut events = Events::default();
    survey(folder.path(), &mut events).unwrap();
    assert_eq!(events.0, [bulk(2, 5)]);
}

/// The events in a journal.
#[derive(Default)]
struct Events(Vec<Event>);

impl bruit_store::Observer for Events {
    fn event(&mut self, _: u64, bytes: &[u8]) -> Result<(), bruit_engine::codec::Malformed> {
        self.0.push(Event::decode(bytes)?);
        Ok(())
    }
}

#[test]
fn the_second_opener_is_refused_and_may_still_peek() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    let second = try_open(folder.path(), &options());
    assert!(matches!(second, Err(OpenError::Lock(LockError::Held { .. }))));
    store.submit(vec![bulk(2, 5)]).unwrap();
    let (found, engine, recovery) = Clearinghouse::peek(folder.path(), &mut |_| {}).unwrap().unwrap();
    assert_eq!((found, recovery.sequence, recipients(&engine, 5)), (founding(), 1, 2));
}

#[test]
fn a_directory_is_founded_once_and_unusable_without_its_founding() {
    let folder = tempdir().unwrap();
    assert!(Clearinghouse::peek(folder.path(), &mut |_| {}).unwrap().is_none());
    drop(open(folder.path(), &options()));
    let other = || Founding { founded: Time(0), ..founding() };
    drop(Clearinghouse::open_or_found(folder.path(), &options(), other, &mut |_| {}).unwrap());
    assert_eq!(Founding::read(folder.path()).unwrap(), Some(founding()), "the first founding is kept");

    fs::remove_file(folder.path().join(FOUNDING_FILE)).unwrap();
    let error = try_open(folder.path(), &options()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::FoundingMissing { .. }), "{error}");
    assert!(!folder.path().join(FOUNDING_FILE).exists(), "no store is founded next to a journal");
}

#[test]
fn a_copy_made_under_load_has_everything_confirmed_before_it_began() {
    let (folder, copies) = (tempdir().unwrap(), tempdir().unwrap());
    let options = Options { snapshot_after_bytes: 60_000, journal_file_bytes: 10_000, ..options() };
    let store = open(folder.path(), &options);
    store.submit(vec![claim(Standing::Own, Claim::Report, u64::MAX)]).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (store, stop) = (&store, &stop);
            let signatures = (thread << 32..).take_while(|_| !stop.load(Ordering::SeqCst));
            scope.spawn(move || signatures.for_each(|signature| drop(store.submit(vec![bulk(2, signature)]).unwrap())));
        }
        for round in 0..5 {
            while store.status().sequence < (round + 1) * 400 {
                thread::yield_now();
            }
            let confirmed: [u64; 3] =
                store.check(|engine| std::array::from_fn(|thread| counted(engine, thread as u64)));
            let directory = copies.path().join(round.to_string());
            copy(folder.path(), &directory);
            let copied = open(&directory, &common::options());
            copied.check(|engine| {
                assert_eq!(engine.check(&fingerprint(u64::MAX), 0).kind, Kind::Spam);
                for (thread, confirmed) in (0..).zip(confirmed) {
                    assert!(counted(engine, thread) >= confirmed, "copy {round}");
                }
            });
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Returns the number of a thread's signatures that were counted. Asserts that each was counted exactly once.
fn counted(engine: &Engine, thread: u64) -> u64 {
    let totals = (thread << 32..).map(|signature| recipients(engine, signature)).take_while(|total| *total > 0);
    totals.inspect(|total| assert_eq!(*total, 2)).count() as u64
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_directory_or_its_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempdir().unwrap();
    let directory = folder.path().join("above/clearinghouse");
    let store = open(&directory, &options());
    store.submit(vec![bulk(1, 1)]).unwrap();
    store.snapshot().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let files = common::files(&directory, "");
    assert_eq!(files.len(), 4, "lock, realm, journal, snapshot");
    files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
}

/// A server that was off for months catches up in a few writes, and only then accepts claims.
#[test]
fn a_clearinghouse_catches_up_before_it_takes_claims() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    let now = Time(FOUNDED.0 + 60 * Time::DAY);
    assert!(matches!(store.catch_up(now).unwrap(), Outcome::Ticked { arrived: true, .. }));
    assert!(store.status().records < 100, "{:?}", store.status());
    assert_eq!(store.check(|engine| engine.now()), now);
    let leap = store.catch_up(Time(u64::MAX)).unwrap();
    assert_eq!(leap, Outcome::Refused(Refusal::NoTime));
}
