//! Runs `bruit milter` with a configuration file.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bruit_testing::milter::{Answer, Mta};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Folder;

/// Maximum time to wait for the milter.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `bruit milter`, killed on drop.
pub(crate) struct Milter {
    process: Child,
    folder: Folder,
    /// The first listen address, in Postfix's notation.
    pub(crate) address: String,
    metrics: SocketAddr,
    reloads: usize,
}

impl Milter {
    /// Starts a milter that asks the server at `url` and checks mail from every network. `more` is appended to the
    /// configuration.
    pub(crate) fn start(url: &str, more: &str) -> Self {
        Self::start_with(&configuration(url, more))
    }

    /// Starts a milter with this configuration, which includes `metrics`.
    pub(crate) fn start_with(text: &str) -> Self {
        let folder = Folder::new();
        folder.write("milter.toml", text);
        let (process, address, metrics) = spawn(&folder);
        Self { process, folder, address, metrics, reloads: 0 }
    }

    /// Kills the milter.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts a new process with the same configuration and log, after the old one was killed.
    pub(crate) fn restart(&mut self) {
        (self.process, self.address, self.metrics) = spawn(&self.folder);
    }

    /// Returns the address of an `inet:` listener.
    pub(crate) fn socket(&self) -> SocketAddr {
        self.address.strip_prefix("inet:").unwrap().parse().unwrap()
    }

    /// Replaces the configuration and waits until it is in force.
    pub(crate) fn reload(&mut self, url: &str, more: &str) {
        self.folder.write("milter.toml", configuration(url, more));
        self.signal(Signal::SIGHUP);
        self.reloads += 1;
        let expected = self.reloads;
        self.wait(|milter| milter.log().matches("configuration reloaded").count() == expected);
    }

    /// Makes the configuration unreadable and asks for a reload.
    pub(crate) fn break_configuration(&self) {
        self.folder.write("milter.toml", "nonsense");
        self.signal(Signal::SIGHUP);
    }

    /// Returns the log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path("milter.log")).unwrap()
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> String {
        get(self.metrics, "/metrics")
    }

    /// Returns the value of a metric.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("bruit_milter_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Returns the value of the `X-Bruit` field that the milter adds to a message.
    #[track_caller]
    pub(crate) fn field(&self, recipients: &[&str], message: &[u8]) -> String {
        let answers = deliver(self.socket(), recipients, message).unwrap();
        let [Answer::InsertHeader(0, _, value), Answer::Accept] = &answers[..] else {
            panic!("{answers:?}: {}", self.log())
        };
        value.trim().to_owned()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(crate) fn wait(&self, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{}\n{}", self.log(), self.metrics());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks the milter to stop and waits for its end. Returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.process.wait().unwrap().code()
    }
}

impl Drop for Milter {
    fn drop(&mut self) {
        // Ignore errors: both calls fail for a process that has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a message to a milter, as an MTA does for an unknown client. Returns the milter's answers to the end of the
/// message.
pub(crate) fn deliver(milter: SocketAddr, recipients: &[&str], message: &[u8]) -> io::Result<Vec<Answer>> {
    let stream = TcpStream::connect(milter)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut mta = Mta::open(stream)?;
    mta.announce("192.0.2.77")?;
    mta.deliver("sender@mail.example", recipients, message)
}

/// Starts a process with the configuration in `folder`. Returns its addresses for the MTA and for metrics.
fn spawn(folder: &Folder) -> (Child, String, SocketAddr) {
    let log = File::options().create(true).append(true).open(folder.path("milter.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.arg("milter").arg("--config").arg(folder.path("milter.toml")).env_remove("BRUIT_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut process = command.spawn().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().map_while(Result::ok).take_while(|line| line != "ready").collect();
    let find = |name: &str| lines.iter().find_map(|line| line.trim().strip_prefix(name).map(str::trim));
    let said = fs::read_to_string(folder.path("milter.log")).unwrap();
    let address = find("milter ").unwrap_or_else(|| panic!("the milter did not start: {said}")).to_owned();
    let metrics = find("metrics http://").unwrap().trim_end_matches("/metrics").parse().unwrap();
    (process, address, metrics)
}

/// Returns a configuration. `more` may begin with keys outside sections.
fn configuration(url: &str, more: &str) -> String {
    let mut text = "metrics = \"127.0.0.1:0\"\n".to_owned();
    if !more.contains("listen = ") {
        text.push_str("listen = \"inet:127.0.0.1:0\"\n");
    }
    if !more.contains("own_networks") {
        text.push_str("own_networks = []\n");
    }
    text.push_str(more);
    if !more.contains("[server]") {
        write!(text, "\n[server]\nurl = {url:?}\n").unwrap();
    }
    text
}

/// Returns the answer to an HTTP request.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
