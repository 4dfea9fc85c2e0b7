//! A clearinghouse as an operator runs it: `bruit serve` with a configuration file, on free ports of loopback.

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

/// A server that has not said `ready`, or has not ended, after this is taken for broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the end of a process is looked for.
const GLANCE: Duration = Duration::from_millis(5);

/// A running `bruit serve`; it goes when this goes.
pub(crate) struct Server {
    process: Child,
    config: PathBuf,
    log: PathBuf,
    /// What it printed up to `ready`, that line not included.
    pub(crate) greeting: String,
}

impl Server {
    /// Starts a server whose files are in `folder`. `more` goes to the end of the configuration: accounts, and sections.
    pub(crate) fn start(folder: &Folder, more: &str) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), more));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[])
    }

    /// Starts one that is founded in the realm of a file.
    pub(crate) fn start_in_realm(folder: &Folder, realm: &Path) -> Self {
        folder.write("bruit.toml", configuration(&folder.path("data"), ""));
        Self::open(folder.path("bruit.toml"), folder.path("server.log"), &[Path::new("--realm"), realm])
    }

    fn open(config: PathBuf, log: PathBuf, options: &[&Path]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.arg("serve").arg("--config").arg(&config).args(options);
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let greeting = greeting(&mut process);
        let server = Self { process, config, log, greeting: greeting.join("\n") };
        assert!(greeting.last().is_some_and(|line| line == "ready"), "never ready: {}", server.said());
        server
    }

    /// Where `protocol` (razor, dcc, pyzor, fuzzy, http) is served.
    pub(crate) fn address(&self, protocol: &str) -> SocketAddr {
        let mut words = self.listener(protocol);
        words.nth(2).unwrap().parse().unwrap()
    }

    /// The public key of the fuzzy protocol, as rspamd's configuration wants it.
    pub(crate) fn fuzzy_key(&self) -> String {
        self.listener("fuzzy").last().unwrap().trim_matches('"').to_owned()
    }

    /// The address that clients of the HTTP interface are given.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address("http"))
    }

    /// The words of the line about `protocol`.
    fn listener(&self, protocol: &str) -> impl Iterator<Item = &str> {
        let line = self.greeting.lines().find(|line| line.split_whitespace().next() == Some(protocol));
        line.unwrap_or_else(|| panic!("no word of {protocol}: {}", self.said())).split_whitespace()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        self.wait()
    }

    /// Ends it where it stands.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.wait();
    }

    /// A new process on the same files, after the old one has ended. Ports and addresses are new.
    pub(crate) fn restart(self) -> Self {
        Self::open(self.config.clone(), self.log.clone(), &[])
    }

    /// The memory that it has now, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Everything that it printed, for whoever wonders what went wrong.
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
            assert!(Instant::now() < deadline, "did not end: {}", self.said());
            thread::sleep(GLANCE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail for a process that has ended, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A configuration that takes any free port, and calls one address of loopback the site's own.
fn configuration(data: &Path, more: &str) -> String {
    let mut text = format!("data = {data:?}\nmemory = \"16MiB\"\nown_networks = [\"127.0.0.1/32\"]\n");
    for protocol in ["razor", "dcc", "pyzor", "fuzzy", "http"] {
        // A section that the test has things to say in is its own; it names the address, too.
        if !more.contains(&format!("[{protocol}]")) {
            write!(text, "\n[{protocol}]\nlisten = \"127.0.0.1:0\"\n").unwrap();
        }
    }
    text + "\n" + more
}

/// The lines up to `ready`; fewer if it ended before, or took too long.
fn greeting(process: &mut Child) -> Vec<String> {
    let output = BufReader::new(process.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    // The thread goes on reading, so that the server never waits for a reader.
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
