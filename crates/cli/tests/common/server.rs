//! Runs `bruit serve` with a configuration file, on free loopback ports.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Folder;

/// Maximum time for a server to print `ready` or to exit.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which the exit of a process is polled.
const GLANCE: Duration = Duration::from_millis(5);

/// A running `bruit serve`, killed on drop.
pub(crate) struct Server {
    process: Child,
    config: PathBuf,
    log: PathBuf,
    clock: Option<FakeClock>,
    /// True if the server has a mount namespace of its own.
    is_mounted: bool,
    /// Output before the line `ready`.
    pub(crate) greeting: String,
}

impl Server {
    /// Starts a server with its files in `folder`. `more` contains accounts and sections, which are appended to the
    /// configuration.
    pub(crate) fn start(folder: &Folder, more: &str) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), more));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[], None)
    }

    /// Starts a server with exactly this configuration, whose data directory is `data` in `folder`.
    pub(crate) fn start_configured(folder: &Folder, configuration: &str) -> Self {
        folder.write("bruit.toml", configuration);
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[], None)
    }

    /// Starts a server whose system clock follows `clock`, but whose monotonic clock does not. Only the operator can
    /// confirm jumps, so the result does not depend on this machine's NTP.
    pub(crate) fn start_by(clock: &FakeClock, folder: &Folder) -> Self {
        folder.write("bruit.toml", by_hand(&folder.path("data")));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[], Some(clock.clone()))
    }

    /// Starts a server whose system clock follows `clock`, with `more` in its configuration. The server accepts clock
    /// jumps of up to an hour.
    pub(crate) fn start_with_clock(clock: &FakeClock, folder: &Folder, more: &str) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), more));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[], Some(clock.clone()))
    }

    /// Starts a server that uses `clock` and the default memory.
    pub(crate) fn start_with_default_memory(clock: &FakeClock, folder: &Folder) -> Self {
        let config = by_hand(&folder.path("data"));
        let without: String =
            config.lines().filter(|line| !line.starts_with("memory")).map(|line| format!("{line}\n")).collect();
        folder.write("bruit.toml", without);
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[], Some(clock.clone()))
    }

    /// Returns the output of a server that refuses to start with this `clock`.
    pub(crate) fn refused_by(clock: &FakeClock, folder: &Folder) -> String {
        folder.write("bruit.toml", by_hand(&folder.path("data")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.arg("serve").arg("--config").arg(folder.path("bruit.toml")).envs(clock.environment());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts a new server in the realm that a realm file contains.
    pub(crate) fn start_in_realm(folder: &Folder, realm: &Path) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), ""));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[Path::new("--realm"), realm], None)
    }

    /// Starts a server whose data directory is a disk of this size in MiB, in a mount namespace of its own.
    pub(crate) fn start_on_small_disk(folder: &Folder, size_mib: u32) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), ""));
        fs::create_dir(folder.path("data")).unwrap();
        let mount = format!("mount -t tmpfs -o size={size_mib}m,mode=700 tmpfs \"$0\"; exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc", &mount]).arg(folder.path("data"));
        command.arg(env!("CARGO_BIN_EXE_bruit"));
        let mut server = Self::open_with(command, folder.path("bruit.toml"), folder.path("server.log"), &[], None);
        server.is_mounted = true;
        server
    }

    fn open(config: PathBuf, log: PathBuf, options: &[&Path], clock: Option<FakeClock>) -> Self {
        Self::open_with(Command::new(env!("CARGO_BIN_EXE_bruit")), config, log, options, clock)
    }

    /// Starts a server with `command`, which runs `bruit` with the arguments that are added to it.
    fn open_with(
        mut command: Command,
        config: PathBuf,
        log: PathBuf,
        options: &[&Path],
        clock: Option<FakeClock>,
    ) -> Self {
        command.arg("serve").arg("--config").arg(&config).args(options);
        command.envs(clock.iter().flat_map(FakeClock::environment)).env("BRUIT_SIGN_IN_LINK", "true");
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let greeting = greeting(&mut process);
        let server = Self { process, config, log, clock, is_mounted: false, greeting: greeting.join("\n") };
        assert!(
            greeting.last().is_some_and(|line| line == "ready"),
            "the server did not become ready: {}",
            server.said()
        );
        server
    }

    /// Returns the address of a protocol: razor, dcc, pyzor, fuzzy or http.
    pub(crate) fn address(&self, protocol: &str) -> SocketAddr {
        let mut words = self.listener(protocol);
        words.nth(2).unwrap().parse().unwrap()
    }

    /// Returns the public key of the fuzzy protocol, as written in rspamd's configuration.
    pub(crate) fn fuzzy_key(&self) -> String {
        self.listener("fuzzy").last().unwrap().trim_matches('"').to_owned()
    }

    /// Returns the URL for HTTP clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address("http"))
    }

    /// Returns the data directory.
    pub(crate) fn data(&self) -> PathBuf {
        let data = self.config.with_file_name("data");
        if !self.is_mounted {
            return data;
        }
        let root = PathBuf::from(format!("/proc/{}/root", self.process.id()));
        root.join(data.strip_prefix("/").unwrap())
    }

    /// Returns the administrator's token.
    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.data().join("admin.token")).unwrap().trim().to_owned()
    }

    /// Returns the words of the line that the server printed about `protocol`.
    fn listener(&self, protocol: &str) -> impl Iterator<Item = &str> {
        let line = self.greeting.lines().find(|line| line.split_whitespace().next() == Some(protocol));
        line.unwrap_or_else(|| panic!("the server prints no line about {protocol}: {}", self.said())).split_whitespace()
    }

    /// Stops the server and waits for its exit.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        self.wait()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.wait();
    }

    /// Starts a new process on the same files, after the old one has exited. Ports and addresses change.
    pub(crate) fn restart(self) -> Self {
        Self::open(self.config.clone(), self.log.clone(), &[], self.clock.clone())
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Returns the complete output, for failure messages.
    pub(crate) fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        format!("{}\n--- its log ---\n{log}", self.greeting)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not exit: {}", self.said());
            thread::sleep(GLANCE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ignore errors: both calls fail for a process that has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A system clock that can be set for one process while the process runs. It is a file that libfaketime reads.
#[derive(Clone)]
pub(crate) struct FakeClock(PathBuf);

impl FakeClock {
    /// Creates a clock that shows the true time.
    pub(crate) fn new(folder: &Folder) -> Self {
        let clock = Self(folder.path("clock"));
        clock.set(0);
        clock
    }

    /// Sets the clock this many seconds ahead of the true time.
    pub(crate) fn set(&self, ahead_seconds: i64) {
        let written = self.0.with_extension("new");
        fs::write(&written, format!("{ahead_seconds:+}\n")).unwrap();
        fs::rename(written, &self.0).unwrap();
    }

    /// Returns the environment for a process that uses this clock.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", library().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.0.clone().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}

/// Returns the path of libfaketime from the Debian package. The name of its folder depends on the processor.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file());
    library.expect("libfaketime is missing; `cargo xtask test` installs it, or: apt-get install faketime")
}

/// Returns a configuration that listens on free ports and has one loopback address in `own_networks`.
fn configuration(data: &Path, more: &str) -> String {
    // Set `clock_jump`: test realms may have epochs of a few seconds, and a restart on a busy machine can take longer
    // than half an epoch.
    let mut text =
        format!("data = {data:?}\nmemory = \"16MiB\"\nown_networks = [\"127.0.0.1/32\"]\nclock_jump = \"1h\"\n");
    for protocol in ["razor", "dcc", "pyzor", "fuzzy", "http"] {
        // A section in `more` replaces the default section, including its address.
        if !more.contains(&format!("[{protocol}]")) {
            write!(text, "\n[{protocol}]\nlisten = \"127.0.0.1:0\"\n").unwrap();
        }
    }
    text + "\n" + more
}

/// Returns a configuration in which only the operator confirms clock jumps.
fn by_hand(data: &Path) -> String {
    format!("clock_confirm = \"operator\"\n{}", configuration(data, ""))
}

/// Returns the lines before `ready`, or all lines if the server exits or is too slow.
fn greeting(process: &mut Child) -> Vec<String> {
    let output = BufReader::new(process.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    // The thread keeps reading, so that the server never blocks on writing its output.
    thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let deadline = Instant::now() + PATIENCE;
    let mut lines = Vec::new();
    while let Ok(line) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        lines.push(line);
        if lines.last().is_some_and(|line| line == "ready") {
            break;
        }
    }
    lines
}
