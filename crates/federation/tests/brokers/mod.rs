//! Real brokers: one or more `nats-server` processes with JetStream on free loopback ports, killed and started on
//! demand.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout until a broker must be ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Folders in which Debian installs daemons. They are not always on the path of users other than root.
const DAEMON_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The servers of one broker, stopped on drop.
pub(crate) struct Brokers {
    folder: TempDir,
    ports: Vec<Ports>,
    processes: Vec<Option<Child>>,
}

/// The ports of a server: for clients, for the other servers, for leaf nodes, and for monitoring.
#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    route: u16,
    leaf: u16,
    monitor: u16,
}

impl Brokers {
    /// Starts `count` servers, clustered if more than one, and waits until all are ready.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, "")
    }

    /// Starts servers with `more` appended to every configuration.
    pub(crate) fn start_with(count: usize, more: &str) -> Self {
        Self::open(free_ports(count), |folder, ports, index| configuration(folder, ports, index) + more)
    }

    /// Starts one server that accepts leaf nodes of other sites; its streams are in a named domain.
    pub(crate) fn start_hub() -> Self {
        let named = |text: String| text.replace("jetstream {", "jetstream { domain: hub,");
        Self::open(free_ports(1), |folder, ports, index| named(configuration(folder, ports, index)))
    }

    /// Starts a leaf node of this broker: a server of another site without streams of its own.
    pub(crate) fn start_leaf(&self) -> Self {
        let urls: Vec<String> =
            self.ports.iter().map(|ports| format!("\"nats-leaf://127.0.0.1:{}\"", ports.leaf)).collect();
        Self::open(free_ports(1), |_, ports, index| {
            let Ports { client, monitor, .. } = ports[index];
            let urls = urls.join(", ");
            format!(
                "server_name: leaf\nlisten: \"127.0.0.1:{client}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
                 leafnodes {{ remotes: [{{ urls: [{urls}] }}] }}\n"
            )
        })
    }

    fn open(ports: Vec<Ports>, configuration: impl Fn(&Path, &[Ports], usize) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..ports.len() {
            let text = configuration(folder.path(), &ports, index);
            fs::write(config_path(folder.path(), index), text).unwrap();
        }
        let processes = ports.iter().map(|_| None).collect();
        let mut brokers = Self { folder, ports, processes };
        (0..brokers.ports.len()).for_each(|index| brokers.launch(index));
        brokers.wait_until_ready();
        brokers
    }

    /// Returns the client URL of each server.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|ports| format!("nats://127.0.0.1:{}", ports.client)).collect()
    }

    /// Returns the name of a server within the cluster.
    pub(crate) fn name(index: usize) -> String {
        format!("broker-{index}")
    }

    /// Kills a server without a clean shutdown.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut process = self.processes[index].take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts a killed server again, with the same ports and files.
    pub(crate) fn launch(&mut self, index: usize) {
        assert!(self.processes[index].is_none(), "the server is already running");
        let log = File::options().create(true).append(true).open(self.log_path(index)).unwrap();
        let mut command = Command::new(daemon());
        command.arg("--config").arg(config_path(self.folder.path(), index));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.processes[index] = Some(command.spawn().unwrap());
    }

    /// Waits until every running server reports that it is healthy, including its streams.
    pub(crate) fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        for index in 0..self.processes.len() {
            while self.processes[index].is_some() && !is_well(self.ports[index].monitor) {
                let ended = self.processes[index].as_mut().and_then(|process| process.try_wait().unwrap());
                assert!(ended.is_none() && Instant::now() < deadline, "never ready: {}", self.output(index));
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Returns a server's output, for diagnosis.
    pub(crate) fn output(&self, index: usize) -> String {
        fs::read_to_string(self.log_path(index)).unwrap_or_default()
    }

    fn log_path(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{index}.log"))
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            // Both calls fail if the process has already ended, which is fine.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns the path of `nats-server`, which must be installed.
fn daemon() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(DAEMON_FOLDERS.iter().map(Into::into));
    let found = folders.find_map(|folder| Some(folder.join("nats-server")).filter(|program| program.is_file()));
    found.expect("nats-server is missing; `cargo xtask test` installs it, or: apt-get install nats-server")
}

/// Returns free ports. All are bound at once, so that they differ, and then released.
fn free_ports(count: usize) -> Vec<Ports> {
    let listener = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listeners: Vec<[TcpListener; 4]> = (0..count).map(|_| [0; 4].map(listener)).collect();
    let ports = |listeners: &[TcpListener; 4]| {
        let [client, route, leaf, monitor] = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
        Ports { client, route, leaf, monitor }
    };
    listeners.iter().map(ports).collect()
}

fn config_path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("{index}.conf"))
}

fn configuration(folder: &Path, ports: &[Ports], index: usize) -> String {
    let Ports { client, route, leaf, monitor } = ports[index];
    let (name, data) = (Brokers::name(index), folder.join(format!("{index}.data")));
    let mut text = format!(
        "server_name: {name}\nlisten: \"127.0.0.1:{client}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
         jetstream {{ store_dir: {data:?}, max_memory_store: 64MB, max_file_store: 1GB }}\n\
         leafnodes {{ listen: \"127.0.0.1:{leaf}\" }}\n"
    );
    if ports.len() > 1 {
        let route_url = |ports: &Ports| format!("\"nats-route://127.0.0.1:{}\"", ports.route);
        let routes: Vec<String> = ports.iter().map(route_url).collect();
        let routes = routes.join(", ");
        writeln!(text, "cluster {{ name: bruit, listen: \"127.0.0.1:{route}\", routes: [{routes}] }}").unwrap();
    }
    text
}

/// Returns true if a server's monitor reports `ok`.
fn is_well(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(r#""status":"ok""#))
}
