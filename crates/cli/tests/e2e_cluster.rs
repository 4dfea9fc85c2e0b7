//! The cluster example works as its page describes: one script starts it, the nodes exchange data, and another script
//! stops it.

mod common;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, bruit, testdata};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(50);
/// Number of consecutive ports that the script uses.
const PORTS: u16 = 30;

#[test]
fn one_script_starts_three_nodes_that_share_and_another_ends_them() {
    let cluster = Cluster::start();
    let message = testdata("razor/text.eml");
    let message = message.to_str().unwrap();
    assert_eq!(cluster.run(1, "report", message).status.code(), Some(0));
    for node in 1..=3 {
        cluster.until(&format!("node {node} knows the report"), || {
            cluster.run(node, "check", message).status.code() == Some(0)
        });
    }
    // The cluster keeps working after a broker is killed.
    let pid = std::fs::read_to_string(cluster.directory().join("broker-2.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    let other = testdata("razor/html.eml");
    let other = other.to_str().unwrap();
    assert_eq!(cluster.run(2, "report", other).status.code(), Some(0));
    for node in 1..=3 {
        cluster.until(&format!("node {node} knows the report"), || {
            cluster.run(node, "check", other).status.code() == Some(0)
        });
    }
    let stopped = cluster.script("stop.sh");
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(std::fs::read_dir(cluster.directory()).unwrap().all(|file| !is_pid(&file.unwrap().path())));
}

/// Five checks count five recipients each. Two of the checks use `curl`, and none uses a DCC client.
#[test]
fn a_message_to_25_recipients_is_bulk_at_20_and_not_at_26_on_every_node() {
    let cluster = Cluster::start();
    let message = testdata("razor/text.eml");
    let message = message.to_str().unwrap();
    for (node, is_curl) in [(1, false), (2, true), (1, true), (2, false), (3, false)] {
        let counted = match is_curl {
            true => cluster.curl(node, "/v1/check?recipients=5", message),
            false => cluster.check(node, &["--count", "5"], message).1,
        };
        assert_eq!(counted["counted"], 5, "{counted}");
    }
    for node in 1..=3 {
        cluster.until(&format!("node {node} has counted all recipients"), || {
            cluster.check(node, &[], message).1["bulk_count"] == 25
        });
        assert_eq!(cluster.check(node, &["--bulk-threshold", "20"], message).0, Some(3));
        assert_eq!(cluster.check(node, &["--bulk-threshold", "26"], message).0, Some(1));
        assert_eq!(cluster.curl(node, "/v1/check?bulk_threshold=20", message)["verdict"], "bulk");
        assert_eq!(cluster.curl(node, "/v1/check?bulk_threshold=26", message)["verdict"], "unknown");
    }
}

fn is_pid(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "pid")
}

/// A cluster started by `start.sh`; stopped on drop.
struct Cluster {
    folder: Folder,
    port: u16,
}

impl Cluster {
    fn start() -> Self {
        let cluster = Self { folder: Folder::new(), port: free_ports() };
        let output = cluster.script("start.sh");
        assert!(output.status.success(), "{output:?}\n{}", cluster.said());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!((1..=3).all(|node| said.contains(&cluster.url(node))), "{said}");
        cluster
    }

    fn directory(&self) -> PathBuf {
        self.folder.path("cluster")
    }

    fn script(&self, name: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster").join(name);
        let mut command = Command::new(script);
        command.arg(self.directory()).env("BRUIT", env!("CARGO_BIN_EXE_bruit")).env("PORT", self.port.to_string());
        command.output().unwrap()
    }

    fn url(&self, node: u16) -> String {
        format!("http://127.0.0.1:{}", self.port + 20 + node)
    }

    fn run(&self, node: u16, verb: &str, message: &str) -> Output {
        bruit(&[verb, "--server", &self.url(node), message])
    }

    /// Returns the exit code and answer of `bruit check`.
    fn check(&self, node: u16, options: &[&str], message: &str) -> (Option<i32>, Value) {
        let url = self.url(node);
        let output = bruit(&[&["check", "--json", "--server", &url], options, &[message]].concat());
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Sends a message with `curl` and returns the answer.
    fn curl(&self, node: u16, path: &str, message: &str) -> Value {
        let mut command = Command::new("curl");
        command.args(["--silent", "--header", "Content-Type: message/rfc822", "--data-binary"]);
        let output = command.arg(format!("@{message}")).arg(format!("{}{path}", self.url(node))).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "timed out waiting until {what}: {}", self.said());
            thread::sleep(GLANCE);
        }
    }

    /// Returns all logs.
    fn said(&self) -> String {
        let files = std::fs::read_dir(self.directory()).into_iter().flatten().map(|file| file.unwrap().path());
        let logs = files.filter(|file| file.extension().is_some_and(|extension| extension == "log"));
        logs.map(|log| format!("--- {}\n{}", log.display(), std::fs::read_to_string(&log).unwrap_or_default()))
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.script("stop.sh");
    }
}

/// Returns the first of [`PORTS`] consecutive free ports.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let first = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let base = |_| Some(first()).filter(|port| port.checked_add(PORTS).is_some_and(|end| (*port..end).all(is_free)));
    (0..100).find_map(base).expect("the machine has enough consecutive free ports")
}
