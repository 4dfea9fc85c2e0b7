//! A private Sendmail that keeps all mail in its queue. Its program is only unpacked, because its package cannot be
//! installed beside Postfix.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Uid;

use super::postfix::free_port;
use super::{Folder, output_of, program};

/// Maximum time for Sendmail to start, and to queue a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval at which the queue is checked.
const GLANCE: Duration = Duration::from_millis(10);

/// The host's name. Sendmail would wait a minute for a name with a dot.
const HOST: &str = "mx.test.example";

/// A running Sendmail, stopped on drop. It accepts mail for `root@test.example`, the only user that every system has.
pub(crate) struct Sendmail {
    process: Child,
    folder: Folder,
    port: u16,
}

/// A message in the queue.
#[derive(Debug)]
pub(crate) struct Queued {
    /// True if the message is held.
    pub(crate) is_held: bool,
    /// The envelope and the header, one field per element.
    pub(crate) lines: Vec<String>,
}

impl Sendmail {
    /// Starts Sendmail with a milter, such as `inet:127.0.0.1:8626`.
    pub(crate) fn start(milter: &str) -> Self {
        assert!(Uid::effective().is_root(), "only root can start Sendmail: run this test as root");
        let unpacked = unpacked();
        let folder = Folder::new();
        let port = free_port();
        fs::create_dir(folder.path("queue")).unwrap();
        fs::set_permissions(folder.path("queue"), fs::Permissions::from_mode(0o700)).unwrap();
        folder.write("sendmail.cf", configuration(&unpacked, &folder, port, milter));
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", HOST]);
        command
            .arg(unpacked.join("usr/libexec/sendmail/sendmail"))
            .arg("-C")
            .arg(folder.path("sendmail.cf"))
            .arg("-bD");
        let log = File::create(folder.path("log")).unwrap();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let sendmail = Self { process, folder, port };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(sendmail.address()).is_err() {
            assert!(Instant::now() < deadline, "Sendmail did not start: {}", sendmail.log());
            thread::sleep(GLANCE);
        }
        sendmail
    }

    /// Returns the address for SMTP.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Waits for the queue to have a message, removes it, and returns it.
    #[track_caller]
    pub(crate) fn take(&self) -> Queued {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(path) = self.queue().into_iter().next() {
                let lines = fields(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
                let is_held = name(&path).starts_with("hf");
                fs::remove_file(&path).unwrap();
                return Queued { is_held, lines };
            }
            assert!(Instant::now() < deadline, "nothing is queued: {}", self.log());
            thread::sleep(GLANCE);
        }
    }

    /// Returns the control files of the queue.
    pub(crate) fn queue(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path("queue")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            entries.filter(|path| ["qf", "hf"].iter().any(|kind| name(path).starts_with(kind))).collect();
        files.sort();
        files
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }
}

impl Queued {
    /// Returns the header fields, in the order of delivery.
    pub(crate) fn header(&self) -> Vec<&str> {
        // A field has the letter H and, between question marks, the conditions under which it is delivered.
        self.lines.iter().filter_map(|line| line.strip_prefix("H?")?.split_once('?')).map(|(_, field)| field).collect()
    }
}

impl Drop for Sendmail {
    fn drop(&mut self) {
        // Ignore errors: both calls fail for a process that has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the folder into which `cargo xtask test` unpacks Sendmail.
fn unpacked() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("debian/sendmail");
    let program = folder.join("usr/libexec/sendmail/sendmail");
    assert!(program.is_file(), "{} is missing; `cargo xtask test` unpacks it", program.display());
    folder
}

/// Makes the configuration with Sendmail's own macros.
fn configuration(unpacked: &Path, folder: &Folder, port: u16, milter: &str) -> Vec<u8> {
    let macros = unpacked.join("usr/share/sendmail/cf");
    let (macros, home) = (macros.display(), folder.path(""));
    let home = home.display();
    let (kind, address) = milter.split_once(':').unwrap();
    let (host, milter_port) = address.rsplit_once(':').unwrap();
    let text = format!(
        "define(`_CF_DIR_', `{macros}/')dnl\ninclude(`{macros}/m4/cf.m4')dnl\nOSTYPE(`linux')dnl\n\
         define(`confDOMAIN_NAME', `{HOST}')dnl\ndefine(`QUEUE_DIR', `{home}queue')dnl\n\
         define(`confPID_FILE', `{home}pid')dnl\ndefine(`confCW_FILE', `/dev/null')dnl\n\
         define(`confDELIVERY_MODE', `queueonly')dnl\nFEATURE(`nocanonify')dnl\n\
         FEATURE(`accept_unresolvable_domains')dnl\nDAEMON_OPTIONS(`Name=MTA, Addr=127.0.0.1, Port={port}')dnl\n\
         INPUT_MAIL_FILTER(`bruit', `S={kind}:{milter_port}@{host}, T=C:2s;S:5s;R:5s;E:30s')dnl\n\
         LOCAL_CONFIG\nCwtest.example\nMAILER(`local')dnl\nMAILER(`smtp')dnl\n"
    );
    let output = output_of(&mut program("m4", "m4"), text.as_bytes());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // The system's aliases are not ours.
    let lines = text.lines().filter(|line| !line.starts_with("O AliasFile"));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// Returns the lines of a control file, with continued lines joined.
fn fields(text: &str) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for line in text.lines() {
        match fields.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => last.push_str(&format!("\n{line}")),
            _ => fields.push(line.to_owned()),
        }
    }
    fields
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}
