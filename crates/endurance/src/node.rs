//! A `bruit serve` process, run as an operator would run it, and the requests of its clients.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bruit_client::http::{CheckedSignature, Condition, NamedSignature, Problem, Reason, Subject, Verdict};
use bruit_client::{Client, ClientError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time within which a server must print `ready` or exit.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a request. A killed node does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a DCC request.
const DATAGRAM_TIMEOUT: Duration = Duration::from_secs(2);

/// A server, running or not.
pub(crate) struct Node {
    pub(crate) folder: PathBuf,
    bruit: PathBuf,
    faketime: PathBuf,
    /// The configuration of the server, except for its memory budget.
    config: String,
    memory_mib: Mutex<u64>,
    process: Mutex<Option<Child>>,
    http: SocketAddr,
    dcc: SocketAddr,
    transaction: AtomicU32,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The request was acknowledged.
    Acknowledged,
    /// The request was refused; nothing changed.
    Refused,
    /// It is unknown whether the request was accepted.
    Unknown,
}

/// The answer to a check of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    /// The signature is spam.
    Listed,
    /// The signature was revoked, or it is a false positive of the revocation filter.
    Revoked,
    /// The signature is neither listed nor revoked.
    Unknown,
}

impl Node {
    /// Creates a node without starting it. `config` contains additional sections of its configuration.
    pub(crate) fn new(folder: PathBuf, bruit: PathBuf, config: &str) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("clock"), "+0\n")?;
        let (http, dcc) = (free_tcp()?, free_udp()?);
        let mut text = format!(
            "data = {:?}\nown_networks = [\"127.0.0.1/32\"]\nclock_confirm = \"operator\"\n\n[http]\nlisten = \"{http}\"\n\n[dcc]\nlisten = \"{dcc}\"\n",
            folder.join("data")
        );
        for protocol in ["razor", "pyzor", "fuzzy"] {
            write!(text, "\n[{protocol}]\nlisten = \"127.0.0.1:0\"\n")?;
        }
        text.push_str(config);
        Ok(Self {
            bruit,
            faketime: crate::faketime()?,
            config: text,
            memory_mib: Mutex::new(8),
            process: Mutex::new(None),
            http,
            dcc,
            transaction: AtomicU32::new(1),
            folder,
        })
    }

    /// Returns the data directory of the server.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts the server, and waits until it is ready.
    pub(crate) fn start(&self, realm: &Path) -> Result<()> {
        let memory = *self.memory_mib.lock().expect("no holder of the lock panics");
        let config = self.folder.join("bruit.toml");
        fs::write(&config, format!("memory = \"{memory}MiB\"\n{}", self.config))?;
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let mut command = Command::new(&self.bruit);
        command.arg("serve").arg("--config").arg(&config).arg("--realm").arg(realm);
        command.env("LD_PRELOAD", &self.faketime).env("FAKETIME_TIMESTAMP_FILE", self.folder.join("clock"));
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let is_ready = wait_for_ready(&mut process);
        *self.process.lock().expect("no holder of the lock panics") = Some(process);
        if is_ready { Ok(()) } else { bail!("{} did not start: {}", self.folder.display(), self.log_tail()) }
    }

    /// Kills the server.
    pub(crate) fn kill(&self) {
        if let Some(mut process) = self.process.lock().expect("no holder of the lock panics").take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks the server to stop, and waits until it has stopped.
    pub(crate) fn stop(&self) -> Result<()> {
        let Some(mut process) = self.process.lock().expect("no holder of the lock panics").take() else {
            return Ok(());
        };
        kill(Pid::from_raw(i32::try_from(process.id())?), Signal::SIGTERM)?;
        let deadline = Instant::now() + PATIENCE;
        while process.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("{} did not stop", self.folder.display());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns true if the server's process is running.
    pub(crate) fn is_running(&self) -> bool {
        let mut process = self.process.lock().expect("no holder of the lock panics");
        process.as_mut().is_some_and(|process| process.try_wait().is_ok_and(|ended| ended.is_none()))
    }

    /// Shifts the server's wall clock by `seconds` from the real time.
    pub(crate) fn set_clock(&self, seconds: i64) -> Result<()> {
        // Rename the file into place, so that the process never reads a partial file.
        let file = self.folder.join("clock.new");
        fs::write(&file, format!("{seconds:+}\n"))?;
        Ok(fs::rename(file, self.folder.join("clock"))?)
    }

    /// Returns the memory budget that the next start of the server uses.
    pub(crate) fn memory_mib(&self) -> u64 {
        *self.memory_mib.lock().expect("no holder of the lock panics")
    }

    /// Doubles the memory budget that the next start of the server uses.
    pub(crate) fn double_memory(&self) {
        *self.memory_mib.lock().expect("no holder of the lock panics") *= 2;
    }

    /// Removes the server's data, except for its key.
    pub(crate) fn lose_disk(&self) -> Result<()> {
        // The folder itself may be a mount point.
        for entry in fs::read_dir(self.data())? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path)?;
            } else if !path.ends_with("node.key") {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.http), None, TIMEOUT).expect("an address is a URL")
    }

    /// Returns a client with the administrator's token.
    fn admin(&self) -> Result<Client> {
        let token = fs::read_to_string(self.data().join("admin.token"))?;
        Ok(Client::new(&format!("http://{}", self.http), Some(token.trim()), TIMEOUT)?)
    }

    /// Reports signatures.
    pub(crate) fn report(&self, numbers: &[u64]) -> Answer {
        answer(self.client().report(&subject(numbers)).map(|claimed| claimed.refused))
    }

    /// Revokes a signature.
    pub(crate) fn revoke(&self, number: u64) -> Answer {
        self.revoke_all(&[number])
    }

    /// Revokes signatures.
    pub(crate) fn revoke_all(&self, numbers: &[u64]) -> Answer {
        answer(self.client().revoke(&subject(numbers)).map(|claimed| claimed.refused))
    }

    /// Checks signatures.
    pub(crate) fn check(&self, numbers: &[u64]) -> Result<Vec<CheckResult>> {
        let checked = self.client().check(&subject(numbers))?;
        let found = |signature: &CheckedSignature| match (signature.verdict, &signature.reason) {
            (Verdict::Spam, _) => CheckResult::Listed,
            (_, Reason::Revoked) => CheckResult::Revoked,
            _ => CheckResult::Unknown,
        };
        Ok(checked.signatures.iter().map(found).collect())
    }

    /// Returns the health conditions of the server.
    pub(crate) fn health(&self) -> Result<Vec<Condition>> {
        Ok(self.admin()?.stats()?.health)
    }

    /// Confirms the server's clock with `bruit store accept-clock`, as an operator does.
    pub(crate) fn accept_clock(&self) -> Result<()> {
        let program = Command::new(&self.bruit)
            .args(["store", "accept-clock", "--server", &format!("http://{}", self.http)])
            .env("BRUIT_DATA", self.data())
            .output()
            .context("failed to run bruit store accept-clock")?;
        if program.status.success() { Ok(()) } else { bail!("{}", String::from_utf8_lossy(&program.stderr)) }
    }

    /// Reports `targets` recipients of message `number` over DCC.
    pub(crate) fn count(&self, number: u64, targets: u32) -> Answer {
        match self.dcc(2, targets, number) {
            Some([current, previous]) if current == previous => Answer::Refused,
            Some(_) => Answer::Acknowledged,
            None => Answer::Unknown,
        }
    }

    /// Queries the number of recipients of message `number` over DCC. Tries three times, because datagrams may be lost.
    pub(crate) fn total(&self, number: u64) -> Result<u32> {
        let found = (0..3).find_map(|_| self.dcc(3, 0, number));
        found.map(|[current, _]| current).with_context(|| format!("{} did not answer", self.folder.display()))
    }

    /// Returns the totals after and before a DCC request, or `None` if no answer arrives.
    fn dcc(&self, operation: u8, targets: u32, number: u64) -> Option<[u32; 2]> {
        let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
        socket.connect(self.dcc).ok()?;
        socket.set_read_timeout(Some(DATAGRAM_TIMEOUT)).ok()?;
        let transaction = self.transaction.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        // Length, version and operation, then the IDs of client, host, process, request and transmission.
        let mut request = vec![0, 62, 12, operation];
        request.extend([1_u32.to_be_bytes(), *b"test", *b"proc", transaction, [0; 4]].concat());
        request.extend(targets.to_be_bytes());
        // The checksum of a body, in 18 bytes.
        request.extend([7, 18]);
        request.extend(u128::from(number).to_be_bytes());
        request.extend([0; 16]);
        socket.send(&request).ok()?;
        let mut reply = [0; 512];
        let length = socket.recv(&mut reply).ok()?;
        let reply = reply.get(..length).filter(|reply| reply.len() == 48 && reply.get(16..20) == Some(&transaction))?;
        let total = |at: usize| Some(u32::from_be_bytes(*reply.get(at..)?.first_chunk()?));
        Some([total(24)?, total(28)?])
    }

    /// Returns the end of the server's log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answer(refused: Result<u32, ClientError>) -> Answer {
    match refused {
        Ok(0) => Answer::Acknowledged,
        Ok(_) => Answer::Refused,
        Err(ClientError::Refused { problem, .. }) if is_refusal(&problem) => Answer::Refused,
        // The result is unknown: a server that fails may have stored the request.
        Err(_) => Answer::Unknown,
    }
}

/// Returns true if the server refused the request, and false if it failed. Both a failure and a full book have status
/// 503, but the detail for a full book says that its generation is full.
fn is_refusal(problem: &Problem) -> bool {
    problem.status < 500 || problem.detail.contains("generation is full")
}

fn subject(numbers: &[u64]) -> Subject {
    let signature = |number: &u64| NamedSignature {
        scheme: "pyzor".to_owned(),
        value: format!("{:040x}", number + 1),
        piece: None,
    };
    Subject { signatures: numbers.iter().map(signature).collect(), ..Subject::default() }
}

/// Reads a server's output up to `ready`. Then keeps reading in the background, so that the server never blocks on a
/// full pipe.
fn wait_for_ready(process: &mut Child) -> bool {
    let Some(output) = process.stdout.take() else { return false };
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let deadline = Instant::now() + PATIENCE;
    while let Ok(line) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if line == "ready" {
            return true;
        }
    }
    false
}

fn free_tcp() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn free_udp() -> Result<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}
