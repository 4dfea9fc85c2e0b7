//! A `nats-server` with JetStream on a free loopback port, which can be killed and restarted.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Time within which a broker must be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running broker. Its process is killed on drop.
pub(crate) struct Broker {
    folder: PathBuf,
    address: SocketAddr,
    process: Option<Child>,
}

impl Broker {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let folder = folder.join("broker");
        fs::create_dir_all(&folder)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let store = folder.join("store");
        let text = format!("server_name: broker\nlisten: \"{address}\"\njetstream {{ store_dir: {store:?} }}\n");
        fs::write(folder.join("nats.conf"), text)?;
        let mut broker = Self { folder, address, process: None };
        broker.launch()?;
        Ok(broker)
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the broker.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Removes the broker's data.
    pub(crate) fn lose_disk(&self) {
        let _ = fs::remove_dir_all(self.folder.join("store"));
    }

    /// Starts the broker again, on the same port.
    pub(crate) fn launch(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let mut command = Command::new(daemon());
        command.arg("--config").arg(self.folder.join("nats.conf"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn().context("failed to start nats-server (Debian's package nats-server)")?);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            if Instant::now() > deadline {
                bail!("nats-server does not listen on {}", self.address);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the path of `nats-server`. Debian installs it in a folder for daemons, which is not in every user's PATH.
fn daemon() -> PathBuf {
    let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join("nats-server")).find(|path| path.exists());
    found.unwrap_or_else(|| "nats-server".into())
}
