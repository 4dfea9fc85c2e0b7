//! The time of events. It follows the system clock, but not its jumps.
//!
//! Books age by time, and ageing cannot be undone. So a system clock that is wrong for three seconds could empty all
//! books. [`Clock`] therefore follows the system clock only while the system clock advances as fast as the time since
//! boot, within a bound. A larger jump is ignored. Time then continues at the pace of the time since boot until the
//! jump ends or is confirmed. When a server starts, the system clock is compared with the last event instead.
//!
//! The operator can confirm a jump. A forward jump is also confirmed if, after [`CONFIRM_AFTER`], the kernel reports
//! that NTP keeps the clock synchronized. Setting a clock by hand marks it as unsynchronized until NTP has corrected
//! it, so a mistake is never confirmed automatically. A sandbox may forbid asking the kernel, as our systemd unit
//! does. In that case, a jump is confirmed only if systemd-timesyncd has synchronized the clock since the jump.
//!
//! Time never goes back. If the system clock goes back, time stands still. [`Judge`] implements all of this without
//! reading a clock, so tests can simulate time.

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use nix::time::{ClockId, clock_gettime};

use crate::config::{ClockSettings, Confirm};

/// Time that a forward jump must last before NTP confirms it.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_secs(600);

/// The file that systemd-timesyncd touches whenever it has synchronized the clock (systemd-timesyncd.service(8)). The
/// file disappears when systemd-timesyncd stops.
const SYNCHRONIZED_FILE: &str = "/run/systemd/timesync/synchronized";

/// The longest standstill without a warning. Time stands still after the system clock was set back a little.
const STANDSTILL_MS: i64 = 60_000;

/// A server's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The server's time minus the time since boot, in milliseconds.
    offset_ms: AtomicI64,
    /// The latest time that was returned, in seconds.
    latest: AtomicU64,
    /// Milliseconds by which the system clock was ahead of the server's time at the last reading. Negative if it was
    /// behind.
    ahead_ms: AtomicI64,
    /// The default bound on jumps.
    jump: Duration,
    judge: Mutex<Judge>,
}

/// The machine's clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The system clock, in milliseconds since 1970.
    system_ms: i64,
    /// The time since boot, in milliseconds. It includes suspended time and cannot be set.
    boot_ms: i64,
    ntp: NtpStatus,
}

/// What is known about the synchronization of the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NtpStatus {
    /// The kernel reports whether NTP keeps the clock synchronized.
    Kernel(bool),
    /// The kernel cannot be asked. The number is the time at which systemd-timesyncd last synchronized the clock, in
    /// milliseconds since 1970.
    LastSynchronized(i64),
    /// The kernel cannot be asked, and systemd-timesyncd does not run or has not synchronized the clock yet.
    Unknown,
}

impl Reading {
    fn take() -> Self {
        let system_ms = i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX);
        Self { system_ms, boot_ms: boot_ms(), ntp: NtpStatus::read(Path::new(SYNCHRONIZED_FILE)) }
    }
}

/// The effect of accepting the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The clearinghouse's time before the change.
    pub(crate) before: Time,
    /// The clearinghouse's time after the change.
    pub(crate) now: Time,
    /// The time of the system clock.
    pub(crate) system: Time,
}

impl Clock {
    /// Creates a clock that continues from the last event of a clearinghouse.
    pub(crate) fn new(last: Time, realm: &Realm, settings: &ClockSettings) -> Self {
        let shortest = realm.spam_epoch_seconds().min(realm.bulk_epoch_seconds());
        let reading = Reading::take();
        let clock = Self {
            offset_ms: AtomicI64::new(0),
            latest: AtomicU64::new(last.0),
            ahead_ms: AtomicI64::new(0),
            jump: Duration::from_millis(shortest.saturating_mul(500)).max(Duration::from_secs(1)),
            judge: Mutex::new(Judge::new(last, reading.boot_ms)),
        };
        clock.judge_by(reading, settings);
        clock
    }

    /// Returns the current time of the clearinghouse. This is cheap enough to be called once per batch.
    pub(crate) fn now(&self) -> Time {
        let seconds = seconds(boot_ms().saturating_add(self.offset_ms.load(Ordering::Relaxed)));
        let latest = self.latest.load(Ordering::Relaxed);
        let latest = if seconds > latest { self.latest.fetch_max(seconds, Ordering::Relaxed) } else { latest };
        Time(seconds.max(latest))
    }

    /// Reads the system clock. The ticker calls this every second. If the clock deviates, returns a description with
    /// advice.
    pub(crate) fn look(&self, settings: &ClockSettings) -> Option<String> {
        self.judge_by(Reading::take(), settings)
    }

    /// Accepts the current system clock, on the operator's request.
    pub(crate) fn accept(&self, settings: &ClockSettings) -> Accepted {
        let (before, reading) = (self.now(), Reading::take());
        self.lock().accept(reading);
        self.judge_by(reading, settings);
        Accepted { before, now: self.now(), system: Time(seconds(reading.system_ms)) }
    }

    /// Returns the current bound on jumps.
    pub(crate) fn jump(&self, settings: &ClockSettings) -> Duration {
        settings.jump.unwrap_or(self.jump)
    }

    /// Returns the number of seconds by which the system clock is ahead of the server's time. Negative if it is behind.
    pub(crate) fn ahead_seconds(&self) -> f64 {
        self.ahead_ms.load(Ordering::Relaxed) as f64 / 1e3
    }

    fn judge_by(&self, reading: Reading, settings: &ClockSettings) -> Option<String> {
        let mut judge = self.lock();
        let deviation = judge.look(reading, self.jump(settings), settings.confirm);
        self.offset_ms.store(judge.time_ms - reading.boot_ms, Ordering::Relaxed);
        self.ahead_ms.store(reading.system_ms - judge.time_ms, Ordering::Relaxed);
        deviation.map(|deviation| describe(deviation, reading, &judge, settings.confirm))
    }

    /// Locks the judge. Ignores poisoning, because no panic can leave a judgement half done.
    fn lock(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A difference between the system clock and our time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deviation {
    /// The system clock is ahead and is ignored.
    Ahead,
    /// The system clock is behind and is ignored.
    Behind,
    /// The system clock is behind, and time stands still until it has caught up.
    Standstill,
}

/// Follows the system clock within the bound.
#[derive(Debug)]
struct Judge {
    /// Our time at the last update.
    time_ms: i64,
    /// The time since boot at the last update.
    boot_ms: i64,
    state: ClockState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockState {
    Following,
    /// The system clock is behind and was accepted.
    Standing,
    Jumped(Jump),
}

/// An unconfirmed jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump {
    /// The system clock minus the time since boot. It is constant as long as both advance at the same pace.
    offset_ms: i64,
    /// The time since boot when the jump began.
    since_boot_ms: i64,
}

impl Judge {
    /// Creates the judge of a server whose last event was at `last`.
    fn new(last: Time, boot_ms: i64) -> Self {
        let time_ms = i64::try_from(last.0.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self { time_ms, boot_ms, state: ClockState::Following }
    }

    fn look(&mut self, reading: Reading, jump: Duration, confirm: Confirm) -> Option<Deviation> {
        let jump_ms = i64::try_from(jump.as_millis()).unwrap_or(i64::MAX);
        self.advance(reading.boot_ms, |judge, expected_ms| {
            let ahead_ms = reading.system_ms.saturating_sub(expected_ms);
            let is_believed = ahead_ms <= jump_ms && (ahead_ms >= -jump_ms || judge.state == ClockState::Standing);
            if is_believed || judge.is_confirmed(reading, ahead_ms, jump_ms, confirm) {
                return judge.follow(reading.system_ms);
            }
            judge.time_ms = expected_ms;
            Some(if ahead_ms > 0 { Deviation::Ahead } else { Deviation::Behind })
        })
    }

    /// Accepts the current system clock.
    fn accept(&mut self, reading: Reading) {
        self.advance(reading.boot_ms, |judge, _| {
            judge.state = ClockState::Standing;
            judge.follow(reading.system_ms)
        });
    }

    /// Calls `decide` with the time that our clock should have now, given the time since boot.
    fn advance(&mut self, boot_ms: i64, decide: impl FnOnce(&mut Self, i64) -> Option<Deviation>) -> Option<Deviation> {
        let expected_ms = self.time_ms.saturating_add((boot_ms - self.boot_ms).max(0));
        self.boot_ms = boot_ms;
        decide(self, expected_ms)
    }

    /// Follows the system clock, without going back. Returns a deviation if time has to stand still for long.
    fn follow(&mut self, system_ms: i64) -> Option<Deviation> {
        let behind_ms = self.time_ms.saturating_sub(system_ms);
        self.time_ms = self.time_ms.max(system_ms);
        if behind_ms <= 0 || self.state != ClockState::Standing {
            self.state = ClockState::Following;
        }
        (behind_ms > STANDSTILL_MS).then_some(Deviation::Standstill)
    }

    /// Returns true if NTP keeps the clock synchronized. Without an answer of the kernel, systemd-timesyncd must have
    /// synchronized the clock since the jump began.
    fn is_synchronized(&self, reading: Reading) -> bool {
        let since_ms = match self.state {
            ClockState::Jumped(jump) => reading.system_ms - (reading.boot_ms - jump.since_boot_ms),
            ClockState::Following | ClockState::Standing => reading.system_ms,
        };
        match reading.ntp {
            NtpStatus::Kernel(is_synchronized) => is_synchronized,
            NtpStatus::LastSynchronized(at_ms) => (since_ms..=reading.system_ms).contains(&at_ms),
            NtpStatus::Unknown => false,
        }
    }

    /// Returns true if a forward jump has lasted long enough and NTP keeps the clock synchronized.
    fn is_confirmed(&mut self, reading: Reading, ahead_ms: i64, jump_ms: i64, confirm: Confirm) -> bool {
        let offset_ms = reading.system_ms.saturating_sub(reading.boot_ms);
        let begun = Jump { offset_ms, since_boot_ms: reading.boot_ms };
        let jump = match self.state {
            ClockState::Jumped(jump) if jump.offset_ms.abs_diff(offset_ms) <= jump_ms.unsigned_abs() => jump,
            _ => begun,
        };
        self.state = ClockState::Jumped(jump);
        let lasted_ms = reading.boot_ms - jump.since_boot_ms;
        let has_lasted = u128::try_from(lasted_ms).is_ok_and(|lasted_ms| lasted_ms >= CONFIRM_AFTER.as_millis());
        ahead_ms > 0 && has_lasted && self.is_synchronized(reading) && confirm == Confirm::Ntp
    }
}

/// Describes the condition and what to do.
fn describe(deviation: Deviation, reading: Reading, judge: &Judge, confirm: Confirm) -> String {
    let system = Time(seconds(reading.system_ms));
    let off = span(reading.system_ms.abs_diff(judge.time_ms) / 1_000);
    let accept = "`bruit store accept-clock --server URL` (POST /v1/clock/accept)";
    match deviation {
        Deviation::Ahead => {
            let ntp = match (confirm, reading.ntp) {
                (Confirm::Operator, _) => "",
                (Confirm::Ntp, _) if judge.is_synchronized(reading) => {
                    "; NTP keeps it synchronized, so it is accepted within ten minutes"
                }
                (Confirm::Ntp, NtpStatus::Kernel(_)) => "; the kernel reports that NTP does not synchronize it",
                (Confirm::Ntp, NtpStatus::LastSynchronized(_)) => {
                    "; systemd-timesyncd has not synchronized it since the jump"
                }
                (Confirm::Ntp, NtpStatus::Unknown) => {
                    "; the server cannot find out whether NTP synchronizes it (docs/operators/clock.md)"
                }
            };
            format!(
                "the system clock says {system} UTC, {off} ahead of this server's time. The server ignores it until the jump is confirmed: \
                 correct the clock, or accept it with {accept}{ntp}"
            )
        }
        Deviation::Behind => format!(
            "the system clock says {system} UTC, {off} behind this server's time. The server ignores it: correct the clock, or \
             accept it with {accept}. If you accept it, time stands still until the clock has caught up"
        ),
        Deviation::Standstill => format!(
            "the system clock says {system} UTC, {off} behind this server's time. Time stands still until the clock has caught up: \
             nothing ages, and daily quotas are not renewed"
        ),
    }
}

/// Formats a duration in a readable unit.
fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let rounded = |unit: u64| seconds.saturating_add(unit / 2) / unit;
    let unit = UNITS.iter().find(|(unit, _)| rounded(*unit) >= 2);
    unit.map_or_else(|| format!("{seconds} seconds"), |(unit, name)| format!("{} {name}", rounded(*unit)))
}

fn seconds(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds / 1_000).unwrap_or(0)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the unchecked time of the system clock. Used to create a clearinghouse.
pub(crate) fn system_time() -> Time {
    Time(since_1970().as_secs())
}

/// The clock of the time since boot, including suspended time.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
/// The clock of the time since boot. It includes suspended time on macOS.
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// Returns the time since boot, including suspended time.
fn boot_ms() -> i64 {
    let since_boot = clock_gettime(SINCE_BOOT).expect("every system has this clock");
    i64::try_from(Duration::from(since_boot).as_millis()).unwrap_or(i64::MAX)
}

impl NtpStatus {
    /// Asks the kernel. If that is forbidden, reads the time of `synchronized`, the file of systemd-timesyncd.
    fn read(synchronized: &Path) -> Self {
        is_synchronized().map_or_else(|| Self::of_timesyncd(synchronized), Self::Kernel)
    }

    fn of_timesyncd(synchronized: &Path) -> Self {
        let touched = std::fs::metadata(synchronized).and_then(|file| file.modified()).ok();
        let since_1970 = touched.and_then(|touched| touched.duration_since(UNIX_EPOCH).ok());
        let at_ms = since_1970.and_then(|since_1970| i64::try_from(since_1970.as_millis()).ok());
        at_ms.map_or(Self::Unknown, Self::LastSynchronized)
    }
}

/// Returns whether the kernel reports that NTP keeps the system clock synchronized, or `None` if it refuses to answer.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate in use wraps adjtimex")]
fn is_synchronized() -> Option<bool> {
    use nix::libc::{STA_UNSYNC, TIME_ERROR, adjtimex, timex};
    // SAFETY: the struct consists of numbers, so a value with only zero bytes is valid. It requests no change.
    let mut state: timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to the struct passed in and keeps no pointer to it.
    let result = unsafe { adjtimex(&raw mut state) };
    (result >= 0).then_some(result != TIME_ERROR && state.status & STA_UNSYNC == 0)
}

/// Returns `None`: only the kernel of Linux can be asked.
#[cfg(not(target_os = "linux"))]
const fn is_synchronized() -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;
    const SECOND: i64 = 1_000;
    const HALF_A_DAY: Duration = Duration::from_secs(43_200);
    /// The boot time of the simulated machine, and the time of the server's last event.
    const START: Time = Time(1_800_000_000);

    /// A machine whose clock can be set, and its server's judge.
    struct Machine {
        judge: Judge,
        boot_ms: i64,
        /// The system clock minus the true time.
        wrong_ms: i64,
        ntp: NtpStatus,
        confirm: Confirm,
        deviation: Option<Deviation>,
    }

    impl Machine {
        fn new() -> Self {
            let judge = Judge::new(START, 0);
            Self {
                judge,
                boot_ms: 0,
                wrong_ms: 0,
                ntp: NtpStatus::Kernel(false),
                confirm: Confirm::Ntp,
                deviation: None,
            }
        }

        fn true_ms(&self) -> i64 {
            START.0 as i64 * SECOND + self.boot_ms
        }

        fn reading(&self) -> Reading {
            let system_ms = self.true_ms() + self.wrong_ms;
            Reading { system_ms, boot_ms: self.boot_ms, ntp: self.ntp }
        }

        /// Advances time and updates the clock every second. Returns the server's deviation from the true time.
        fn run(&mut self, seconds: i64) -> i64 {
            for _ in 0..seconds {
                let before = self.judge.time_ms;
                self.boot_ms += SECOND;
                self.deviation = self.judge.look(self.reading(), HALF_A_DAY, self.confirm);
                assert!(self.judge.time_ms >= before, "time went back");
            }
            self.judge.time_ms - self.true_ms()
        }
    }

    #[test]
    fn a_clock_40_days_ahead_for_5_seconds_changes_nothing() {
        let mut machine = Machine::new();
        machine.run(10);
        machine.wrong_ms = 40 * DAY;
        assert_eq!((machine.run(5), machine.deviation), (0, Some(Deviation::Ahead)));
        machine.wrong_ms = 0;
        assert_eq!((machine.run(1), machine.deviation), (0, None));
    }

    #[test]
    fn a_clock_400_days_ahead_for_an_hour_changes_nothing_unless_ntp_keeps_it() {
        let mut machine = Machine::new();
        machine.wrong_ms = 400 * DAY;
        assert_eq!((machine.run(3_600), machine.deviation), (0, Some(Deviation::Ahead)));
        machine.ntp = NtpStatus::Kernel(true);
        assert_eq!(
            (machine.run(1), machine.deviation),
            (400 * DAY, None),
            "the jump has lasted long enough, and NTP confirms it"
        );
    }

    #[test]
    fn ntp_confirms_only_a_jump_that_has_lasted() {
        let mut machine = Machine { ntp: NtpStatus::Kernel(true), ..Machine::new() };
        machine.wrong_ms = 40 * DAY;
        assert_eq!(machine.run(500), 0);
        machine.wrong_ms = 80 * DAY;
        assert_eq!(machine.run(600), 0, "a different jump must last ten minutes again");
        assert_eq!(machine.run(1), 80 * DAY);
    }

    #[test]
    fn without_the_kernel_timesyncd_must_have_synchronized_the_clock_since_the_jump() {
        let mut machine = Machine { ntp: NtpStatus::Unknown, ..Machine::new() };
        machine.run(10);
        let before_ms = machine.true_ms();
        machine.wrong_ms = 40 * DAY;
        assert_eq!(machine.run(700), 0, "nothing is known");
        machine.ntp = NtpStatus::LastSynchronized(before_ms);
        assert_eq!(machine.run(1), 0, "the clock was synchronized before the jump");
        machine.ntp = NtpStatus::LastSynchronized(machine.true_ms() + 80 * DAY);
        assert_eq!(machine.run(1), 0, "the file is from the future");
        machine.ntp = NtpStatus::LastSynchronized(machine.true_ms() + machine.wrong_ms);
        assert_eq!((machine.run(1), machine.deviation), (40 * DAY, None));
    }

    #[test]
    fn the_time_of_timesyncds_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("synchronized");
        assert_eq!(NtpStatus::of_timesyncd(&file), NtpStatus::Unknown);
        let touched = UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        std::fs::File::create(&file).unwrap().set_modified(touched).unwrap();
        assert_eq!(NtpStatus::of_timesyncd(&file), NtpStatus::LastSynchronized(1_800_000_000_500));
    }

    #[test]
    fn the_operator_can_insist_on_confirming() {
        let mut machine = Machine { ntp: NtpStatus::Kernel(true), confirm: Confirm::Operator, ..Machine::new() };
        machine.wrong_ms = 40 * DAY;
        assert_eq!(machine.run(3_600), 0);
        machine.judge.accept(machine.reading());
        assert_eq!((machine.run(1), machine.deviation), (40 * DAY, None));
    }

    #[test]
    fn a_clock_two_days_behind_does_not_stop_time_and_never_confirms_itself() {
        let mut machine = Machine { ntp: NtpStatus::Kernel(true), wrong_ms: -2 * DAY, ..Machine::new() };
        assert_eq!((machine.run(3_600), machine.deviation), (0, Some(Deviation::Behind)));
        machine.wrong_ms = 0;
        assert_eq!((machine.run(1), machine.deviation), (0, None));
    }

    #[test]
    fn an_accepted_clock_that_is_behind_makes_time_stand_still_until_it_has_caught_up() {
        let mut machine = Machine { wrong_ms: -2 * DAY, ..Machine::new() };
        machine.run(10);
        machine.judge.accept(machine.reading());
        assert_eq!((machine.run(3_600), machine.deviation), (-3_600 * SECOND, Some(Deviation::Standstill)));
        machine.wrong_ms = -40 * DAY;
        machine.run(10);
        assert_eq!(machine.deviation, Some(Deviation::Standstill), "time stands still while the clock is behind");
        machine.wrong_ms = 0;
        assert_eq!((machine.run(1), machine.deviation), (0, None));
        machine.wrong_ms = -2 * DAY;
        machine.run(1);
        assert_eq!(machine.deviation, Some(Deviation::Behind), "the accepted jump is over");
    }

    #[test]
    fn small_steps_are_taken_and_small_steps_back_waited_out() {
        let mut machine = Machine { wrong_ms: 11 * 3_600 * SECOND, ..Machine::new() };
        assert_eq!(machine.run(1), 11 * 3_600 * SECOND);
        machine.wrong_ms -= 30 * SECOND;
        assert_eq!((machine.run(1), machine.deviation), (11 * 3_600 * SECOND - SECOND, None));
        assert_eq!(machine.run(60), machine.wrong_ms, "time continues with the clock");
        machine.wrong_ms = 0;
        machine.run(1);
        assert_eq!(machine.deviation, Some(Deviation::Standstill), "a standstill of hours needs a warning");
    }

    #[test]
    fn a_server_that_was_off_for_days_goes_on_from_its_last_event_until_that_is_confirmed() {
        let mut machine = Machine { wrong_ms: 3 * DAY, ..Machine::new() };
        assert_eq!((machine.run(1), machine.deviation), (0, Some(Deviation::Ahead)));
        let mut machine = Machine { wrong_ms: DAY / 4, ..Machine::new() };
        assert_eq!((machine.run(1), machine.deviation), (DAY / 4, None), "the machine was off for six hours");
    }

    #[test]
    fn texts_say_what_the_clock_says_and_what_to_do() {
        let machine = Machine { wrong_ms: 40 * DAY, ..Machine::new() };
        let text = describe(Deviation::Ahead, machine.reading(), &machine.judge, Confirm::Ntp);
        assert!(text.contains("says 2027-02-24 08:00:00 UTC, 40 days ahead"), "{text}");
        assert!(text.contains("POST /v1/clock/accept") && text.contains("NTP does not synchronize it"), "{text}");
        let ends = [
            (NtpStatus::Kernel(true), "it is accepted within ten minutes"),
            (NtpStatus::LastSynchronized(0), "systemd-timesyncd has not synchronized it since the jump"),
            (NtpStatus::Unknown, "cannot find out whether NTP synchronizes it (docs/operators/clock.md)"),
        ];
        for (ntp, end) in ends {
            let text = describe(Deviation::Ahead, Reading { ntp, ..machine.reading() }, &machine.judge, Confirm::Ntp);
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn a_clock_of_this_machine_goes_on() {
        let realm = bruit_store::Founding::new([1; 16], 8 << 20, Default::default(), Time(0)).unwrap().realm;
        let settings = ClockSettings::default();
        let clock = Clock::new(system_time(), &realm, &settings);
        let now = clock.now();
        assert!(clock.look(&settings).is_none() && clock.now() >= now && now.since(system_time()) <= 1);
        let stale = Clock::new(START, &realm, &ClockSettings { jump: Some(Duration::from_secs(5)), ..settings });
        assert!(stale.now().since(START) <= 5, "time continues from the last event");
    }
}
