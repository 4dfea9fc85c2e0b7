//! Wrong clocks: no data is lost, and the server reports the problem until the clock is right or confirmed.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bruit_engine::TICK_LINES;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_store::{Clearinghouse, Founding, Options};
use common::{FakeClock, Folder, Server, administer, printed, refused, run, testdata};
use serde_json::Value;

const DAY: i64 = 86_400;
const OLD: &str = "razor/text.eml";
const NEW: &str = "razor/base64.eml";

/// A server with its clock and one earlier report.
struct Site {
    folder: Folder,
    clock: FakeClock,
    server: Server,
}

impl Site {
    fn new() -> Self {
        let folder = Folder::new();
        let clock = FakeClock::new(&folder);
        let server = Server::start_by(&clock, &folder);
        let site = Self { folder, clock, server };
        site.ask("report", OLD, 0);
        site.assert_known(OLD);
        site
    }

    fn ask(&self, verb: &str, message: &str, code: i32) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        let message = fs::read(testdata(message)).unwrap();
        run(command.args([verb, "--server", &self.server.url()]), &message).expect(code, &self.server);
    }

    fn assert_known(&self, message: &str) {
        self.ask("check", message, 0);
    }

    fn assert_forgotten(&self, message: &str) {
        self.ask("check", message, 1);
    }

    /// Returns the text of the condition `clock_jump`, if it is active.
    fn warning(&self) -> Option<String> {
        let stats = serde_json::from_str::<Value>(&administer(&self.server, &["stats", "--json"])).unwrap();
        let conditions = stats["health"].as_array().unwrap();
        let jump = conditions.iter().find(|condition| condition["state"] == "clock_jump");
        jump.map(|jump| jump["text"].as_str().unwrap().to_owned())
    }

    /// Waits until the server reports a wrong clock, and returns the text.
    fn wait_for_warning(&self) -> String {
        wait(&self.server, || self.warning())
    }

    fn wait_for_no_warning(&self) {
        wait(&self.server, || self.warning().is_none().then_some(()));
    }

    fn accept(&self) -> Value {
        serde_json::from_str(&administer(
            &self.server,
            &["store", "accept-clock", "--json", "--server", &self.server.url()],
        ))
        .unwrap()
    }
}

fn wait<T>(server: &Server, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
}

fn seconds(answer: &Value, field: &str) -> i64 {
    answer[field].as_i64().unwrap()
}

#[test]
fn a_clock_40_days_ahead_for_5_seconds_is_named_and_loses_nothing() {
    let site = Site::new();
    let began = Instant::now();
    site.clock.set(40 * DAY);
    let warning = site.wait_for_warning();
    assert!(warning.contains("40 days ahead") && warning.contains("accept-clock"), "{warning}");
    site.ask("report", NEW, 0);
    while began.elapsed() < Duration::from_secs(5) {
        site.assert_known(OLD);
        site.assert_known(NEW);
    }
    site.clock.set(0);
    site.wait_for_no_warning();
    site.assert_known(OLD);
    site.assert_known(NEW);
    let said = site.server.said();
    assert_eq!(said.matches("degraded: the system clock").count(), 1, "{said}");
    assert!(!said.contains("generation ended"), "{said}");
}

#[test]
fn a_clock_two_days_behind_is_named_and_reports_go_on() {
    let site = Site::new();
    site.clock.set(-2 * DAY);
    let warning = site.wait_for_warning();
    assert!(warning.contains("2 days behind") || warning.contains("47 hours behind"), "{warning}");
    site.ask("report", NEW, 0);
    site.assert_known(OLD);
    site.assert_known(NEW);
    site.clock.set(0);
    site.wait_for_no_warning();
}

#[test]
fn a_jump_that_the_operator_accepts_ends_what_is_too_old() {
    let site = Site::new();
    site.clock.set(40 * DAY);
    site.wait_for_warning();
    let directory = site.folder.path("data");
    let line = refused(&["store", "accept-clock", directory.to_str().unwrap()]);
    assert!(line.contains("--server"), "{line}");
    let answer = site.accept();
    assert!((seconds(&answer, "now") - seconds(&answer, "before") - 40 * DAY).abs() < 60, "{answer}");
    assert_eq!(answer["now"], answer["system"]);
    site.wait_for_no_warning();
    wait(&site.server, || site.server.said().contains("generation ended").then_some(()));
    site.assert_forgotten(OLD);
    wait(&site.server, || {
        let stats = serde_json::from_str::<Value>(&administer(&site.server, &["stats", "--json"])).unwrap();
        stats["health"].as_array().unwrap().is_empty().then_some(())
    });
    site.ask("report", NEW, 0);
    site.assert_known(NEW);
}

#[test]
fn a_server_that_starts_with_a_clock_400_days_ahead_goes_on_where_it_was() {
    let mut site = Site::new();
    assert!(site.server.terminate().success());
    site.clock.set(400 * DAY);
    site.server = Server::start_by(&site.clock, &site.folder);
    assert!(site.wait_for_warning().contains("400 days ahead"));
    site.ask("report", NEW, 0);
    site.assert_known(OLD);
    site.server.kill();
    site.clock.set(0);
    site.server = Server::start_by(&site.clock, &site.folder);
    site.assert_known(OLD);
    site.assert_known(NEW);
    assert_eq!(site.warning(), None);
}

#[test]
fn nothing_is_founded_while_the_clock_says_1970() {
    let folder = Folder::new();
    let clock = FakeClock::new(&folder);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    clock.set(DAY - i64::try_from(now).unwrap());
    let error = Server::refused_by(&clock, &folder);
    assert!(error.contains("1970-01-02") && error.contains("before this program was released"), "{error}");
    assert!(!folder.path("data").join("realm.bruit").exists());
}

/// Creates a directory as an earlier version would have done while the system clock showed 1970.
fn found_in_1970(directory: &Path) {
    let found = || Founding::new([7; 16], 16 << 20, Policy::default(), Time(1_000)).unwrap();
    let store = Clearinghouse::open_or_found(directory, &Options::default(), found, &mut |_| {}).unwrap();
    store.submit(vec![Event::Tick { now: Time(2_000), lines: TICK_LINES }]).unwrap();
}

#[test]
fn a_directory_founded_in_1970_can_be_used_once_the_clock_is_accepted() {
    let folder = Folder::new();
    found_in_1970(&folder.path("data"));
    let clock = FakeClock::new(&folder);
    let server = Server::start_by(&clock, &folder);
    let site = Site { folder, clock, server };
    assert!(site.wait_for_warning().contains("days ahead"));
    site.ask("report", OLD, 0);
    site.assert_known(OLD);
    assert!(seconds(&site.accept(), "before") < DAY);
    site.wait_for_no_warning();
    wait(&site.server, || {
        let stats = serde_json::from_str::<Value>(&administer(&site.server, &["stats", "--json"])).unwrap();
        stats["health"].as_array().unwrap().is_empty().then_some(())
    });
    site.ask("report", NEW, 0);
    site.assert_known(NEW);
}

#[test]
fn the_clock_is_accepted_for_a_directory_whose_server_does_not_run() {
    let folder = Folder::new();
    let directory = folder.path("data");
    let name = directory.to_str().unwrap();
    assert!(refused(&["store", "accept-clock", name]).contains("no clearinghouse"));
    found_in_1970(&directory);
    let text = printed(&["store", "accept-clock", name]);
    assert!(text.contains("1970-01-01 00:33:20 UTC"), "{text}");
    let clock = FakeClock::new(&folder);
    let server = Server::start_by(&clock, &folder);
    let site = Site { folder, clock, server };
    assert_eq!(site.warning(), None);
    site.ask("report", NEW, 0);
    site.assert_known(NEW);
}
