//! Runs `bruit serve` as a child process.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Error};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{Processors, Server, disk_bytes};
use super::requests::{dcc, fuzzy};

/// Name of the program. It is built into the same folder as the benchmark.
const PROGRAM: &str = "bruit";

/// A running `bruit serve`.
pub(crate) struct Subject {
    pub(crate) server: Server,
    /// The lines that the server printed when it started to listen.
    announced: Vec<String>,
    data: PathBuf,
}

impl Subject {
    /// Starts a server with the memory budget `memory` and all its files in `folder`. Waits until it is ready. `more`
    /// is appended to its configuration.
    pub(crate) fn start(processors: &Processors, folder: &Path, memory: &str, more: &str) -> io::Result<Self> {
        let program = std::env::current_exe()?.with_file_name(PROGRAM);
        Self::start_program(&program, processors, folder, memory, more)
    }

    /// Starts a server like [`start`](Self::start), but runs this program.
    pub(crate) fn start_program(
        program: &Path,
        processors: &Processors,
        folder: &Path,
        memory: &str,
        more: &str,
    ) -> io::Result<Self> {
        let (data, config, log) = (folder.join("data"), folder.join("bruit.toml"), folder.join("log"));
        fs::write(&config, configuration(memory) + more)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&config).arg("--data").arg(&data);
        command.stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut server = processors.start(&mut command).map_err(|error| {
            Error::other(format!("{error}: there is no {}; `cargo xtask bench` builds it", program.display()))
        })?;
        let lines = BufReader::new(server.output()?).lines();
        let announced: Vec<String> = lines.map_while(Result::ok).take_while(|line| line != "ready").collect();
        server.must_run().map_err(|error| Error::other(format!("{error}\n{}", read_log(&log))))?;
        Ok(Self { server, announced, data })
    }

    /// Returns the address of the server's listener for `protocol`.
    pub(crate) fn address(&self, protocol: &str) -> io::Result<SocketAddr> {
        let words = self.announced.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let address =
            words.filter(|words| words.first() == Some(&protocol)).find_map(|words| words.get(2)?.parse().ok());
        address.ok_or_else(|| Error::other(format!("the server has no {protocol} listener")))
    }

    /// Returns the administrator's HTTP token.
    pub(crate) fn token(&self) -> io::Result<String> {
        Ok(fs::read_to_string(self.data.join("admin.token"))?.trim().to_owned())
    }

    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        self.server.cpu_time()
    }

    /// Returns the total size of the server's files.
    pub(crate) fn disk_bytes(&self) -> io::Result<u64> {
        disk_bytes(&self.data)
    }
}

/// Returns a configuration with free ports for all protocols, and with the accounts for signed or encrypted requests.
fn configuration(memory: &str) -> String {
    let listen = ["razor", "dcc", "pyzor", "fuzzy", "http"].map(|name| format!("[{name}]\nlisten = \"127.0.0.1:0\"\n"));
    let dcc = format!("protocol = \"dcc\"\nname = \"{}\"\npassword = \"{}\"\n", dcc::CLIENT, dcc::PASSWORD);
    let fuzzy =
        format!("protocol = \"fuzzy\"\nname = \"bench\"\nsecret = \"{}\"\n", fuzzy::server_keys().secret_text());
    let accounts = [dcc, fuzzy].map(|account| format!("[[accounts]]\n{account}standing = \"own\"\n"));
    format!("memory = \"{memory}\"\n{}{}", accounts.concat(), listen.concat())
}

fn read_log(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}
