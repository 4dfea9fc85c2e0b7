//! A private Dovecot with the files of `packaging/dovecot/`, and an IMAP client.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Folder, program};

/// Maximum time for Dovecot to accept connections.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user `nobody`, who owns the mailboxes.
const OWNER: u32 = 65534;
/// The token in the scripts.
pub(crate) const TOKEN: &str = "the-token-of-the-mail-site";

/// A running Dovecot, stopped on drop. All users have the password "secret".
pub(crate) struct Dovecot {
    process: Child,
    folder: Folder,
    port: u16,
}

impl Dovecot {
    /// Starts Dovecot for alice. The scripts report to `server`.
    pub(crate) fn start(server: &str) -> Self {
        Self::start_with(Some(server), &["alice"])
    }

    /// Starts Dovecot for these users.
    pub(crate) fn start_for(server: &str, users: &[&str]) -> Self {
        Self::start_with(Some(server), users)
    }

    /// Starts a Dovecot for alice that runs no scripts.
    pub(crate) fn start_without_sieve() -> Self {
        Self::start_with(None, &["alice"])
    }

    fn start_with(server: Option<&str>, users: &[&str]) -> Self {
        let folder = Folder::new();
        fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["run", "state", "mail", "bin", "spool"] {
            fs::create_dir(folder.path(name)).unwrap();
        }
        for name in ["mail", "spool"] {
            chown(folder.path(name), Some(OWNER), Some(OWNER)).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_bruit"), folder.path("bruit")).unwrap();
        folder.write("passwd", users.iter().map(|user| format!("{user}:{{PLAIN}}secret:::::\n")).collect::<String>());
        folder.write("token", TOKEN);
        for name in ["passwd", "token"] {
            fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let port = free_port();
        folder.write("dovecot.conf", configuration(&folder, port, server.is_some()));
        if let Some(server) = server {
            set_server(&folder, server);
            compile_scripts(&folder);
        }
        let mut command = Command::new("dovecot");
        command.arg("-F").arg("-c").arg(folder.path("dovecot.conf"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let dovecot = Self { process, folder, port };
        dovecot.wait();
        dovecot
    }

    /// Makes the scripts report to another server.
    pub(crate) fn set_server(&self, server: &str) {
        set_server(&self.folder, server);
    }

    /// Returns the spool of the scripts.
    pub(crate) fn spool(&self) -> PathBuf {
        self.folder.path("spool")
    }

    /// Returns the folder of the users' home directories, each with a folder `Maildir`.
    pub(crate) fn mail(&self) -> PathBuf {
        self.folder.path("mail")
    }

    /// Returns alice's Maildir.
    pub(crate) fn maildir(&self) -> PathBuf {
        self.mail().join("alice/Maildir")
    }

    /// Returns the socket at which Postfix authenticates users. Alice's password is "secret".
    pub(crate) fn sasl(&self) -> PathBuf {
        self.folder.path("run/auth-smtp")
    }

    /// Returns the command that cron runs to send the spool.
    pub(crate) fn send_spool(&self, server: &str) -> Command {
        let mut command = Command::new(self.folder.path("bruit"));
        command.args(["spool", "send", "--server", server, "--token-file"]).arg(self.folder.path("token"));
        command.arg(self.spool()).uid(OWNER).gid(OWNER).env_clear().stdin(Stdio::null());
        command
    }

    /// Returns the log.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.folder.path("dovecot.log")).unwrap_or_default()
    }

    /// Connects as alice.
    pub(crate) fn connect(&self) -> Imap {
        self.connect_as("alice")
    }

    /// Connects as a user.
    pub(crate) fn connect_as(&self, user: &str) -> Imap {
        let stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        let mut imap = Imap { stream };
        imap.line();
        imap.run(&format!("LOGIN {user} secret"));
        imap
    }

    fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "Dovecot does not start: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // The main process stops its children. Ignore errors: it may have exited.
        let _ = kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

/// An IMAP connection.
pub(crate) struct Imap {
    stream: BufReader<TcpStream>,
}

impl Imap {
    /// Stores a message in a mailbox.
    pub(crate) fn append(&mut self, mailbox: &str, message: &[u8]) {
        let text = String::from_utf8(message.to_vec()).unwrap().replace('\n', "\r\n");
        self.run(&format!("APPEND {mailbox} {{{}+}}\r\n{text}", text.len()));
    }

    /// Moves the first message of a mailbox to another one.
    pub(crate) fn move_first(&mut self, from: &str, to: &str) {
        self.move_one("1", from, to);
    }

    /// Moves the last message of a mailbox to another one.
    pub(crate) fn move_last(&mut self, from: &str, to: &str) {
        self.move_one("*", from, to);
    }

    fn move_one(&mut self, number: &str, from: &str, to: &str) {
        self.run(&format!("SELECT {from}"));
        self.run(&format!("MOVE {number} {to}"));
    }

    /// Returns the messages of a mailbox, oldest first, with LF at line ends.
    pub(crate) fn messages(&mut self, mailbox: &str) -> Vec<Vec<u8>> {
        self.run(&format!("SELECT {mailbox}"));
        self.stream.get_mut().write_all(b"a UID FETCH 1:* BODY.PEEK[]\r\n").unwrap();
        let mut messages = Vec::new();
        loop {
            let line = self.line();
            if line.starts_with("a ") {
                assert!(line.starts_with("a OK"), "{line}");
                return messages;
            }
            let literal = line.trim_end().strip_suffix('}').and_then(|line| line.rsplit_once('{'));
            let Some((_, length)) = literal else { continue };
            let mut bytes = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut bytes).unwrap();
            bytes.retain(|byte| *byte != b'\r');
            messages.push(bytes);
        }
    }

    /// Deletes the last message of a mailbox.
    pub(crate) fn delete_last(&mut self, mailbox: &str) {
        self.run(&format!("SELECT {mailbox}"));
        self.run("STORE * +FLAGS (\\Deleted)");
        self.run("EXPUNGE");
    }

    /// Runs a command, and asserts its success.
    fn run(&mut self, command: &str) {
        self.stream.get_mut().write_all(format!("a {command}\r\n").as_bytes()).unwrap();
        loop {
            let line = self.line();
            if line.starts_with("a ") {
                assert!(line.starts_with("a OK"), "{command}: {line}");
                return;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stream.read_line(&mut line).unwrap() > 0, "the connection was closed");
        line
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/dovecot").join(name);
    fs::read_to_string(path).unwrap()
}

/// Writes the scripts of the package, with the paths of this test.
fn set_server(folder: &Folder, server: &str) {
    let at = |name: &str| folder.path(name).display().to_string();
    for name in ["bruit-report", "bruit-revoke"] {
        let script = packaged(name)
            .replace("/usr/bin/bruit", &at("bruit"))
            .replace("/etc/bruit/dovecot.token", &at("token"))
            .replace("/var/spool/bruit", &at("spool"))
            .replace("--timeout", &format!("--server {server} --timeout"));
        let (path, written) = (folder.path("bin").join(name), folder.path("bin").join("new"));
        fs::write(&written, script).unwrap();
        fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(written, path).unwrap();
    }
}

fn compile_scripts(folder: &Folder) {
    for name in ["report.sieve", "revoke.sieve"] {
        fs::write(folder.path("bin").join(name), packaged(name)).unwrap();
        let mut compile = program("sievec", "dovecot-sieve");
        compile.arg("-c").arg(folder.path("dovecot.conf")).arg(folder.path("bin").join(name));
        assert!(compile.status().unwrap().success(), "{name}");
    }
}

fn configuration(folder: &Folder, port: u16, has_sieve: bool) -> String {
    let d = folder.path("").display().to_string();
    let d = d.trim_end_matches('/');
    let bruit = packaged("90-bruit.conf").replace("/etc/dovecot/bruit", &format!("{d}/bin"));
    let bruit = if has_sieve { bruit } else { String::new() };
    format!(
        "base_dir = {d}/run\nstate_dir = {d}/state\nlog_path = {d}/dovecot.log\nprotocols = imap\nssl = no\n\
         disable_plaintext_auth = no\nmail_location = maildir:~/Maildir\nfirst_valid_uid = 1000\n\
         passdb {{\n  driver = passwd-file\n  args = {d}/passwd\n}}\n\
         userdb {{\n  driver = static\n  args = uid={OWNER} gid={OWNER} home={d}/mail/%u\n}}\n\
         service imap-login {{\n  inet_listener imap {{\n    address = 127.0.0.1\n    port = {port}\n  }}\n  \
         inet_listener imaps {{\n    port = 0\n  }}\n}}\n\
         service auth {{\n  unix_listener auth-smtp {{\n    mode = 0666\n  }}\n}}\n\
         service stats {{\n  unix_listener stats-writer {{\n    mode = 0666\n  }}\n}}\n\
         namespace inbox {{\n  inbox = yes\n  separator = /\n  mailbox Junk {{\n    auto = create\n  }}\n  \
         mailbox Trash {{\n    auto = create\n  }}\n}}\n{bruit}"
    )
}
