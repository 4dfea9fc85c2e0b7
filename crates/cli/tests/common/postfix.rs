//! A private Postfix: its own configuration, queue, mailboxes and port, stopped when the test ends.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User, chown};
use serde_json::Value;

use super::Folder;

/// Maximum time for Postfix to start, and for mail to be delivered.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval at which the mailboxes are checked.
const GLANCE: Duration = Duration::from_millis(10);

/// The user that mailboxes belong to.
const NOBODY: u32 = 65_534;

/// The domain of all mailboxes.
pub(crate) const DOMAIN: &str = "test.example";

/// The services that Postfix needs to receive and deliver.
const MASTER: &str = "\
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";

/// Waits for the end of the test, then stops Postfix. If Postfix hangs, kills all of its processes. It can hang because
/// its log daemon blocks when it writes to its own full socket.
const STOP: &str = "\
read -r _
timeout 20 postfix -c \"$0\" stop && exit
kill -s KILL -- -$(tr -d ' ' < \"$0/../spool/pid/master.pid\")
";

/// A running Postfix.
pub(crate) struct Postfix {
    folder: Folder,
    port: u16,
    /// Stops Postfix when its standard input is closed, even if the test is killed.
    watcher: Child,
}

/// A delivered message.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Postfix {
    /// Starts Postfix with a milter, such as `inet:127.0.0.1:8626`. `users` have mailboxes; `more` is appended to
    /// `main.cf`.
    pub(crate) fn start(milter: &str, users: &[&str], more: &str) -> Self {
        Self::start_with(milter, users, more, "")
    }

    /// Starts Postfix like [`start`](Self::start), with `services` in `master.cf`.
    pub(crate) fn start_with(milter: &str, users: &[&str], more: &str, services: &str) -> Self {
        assert!(Uid::effective().is_root(), "only root can start Postfix: run this test as root");
        super::program("postfix", "postfix");
        let folder = Folder::new();
        let port = free_port();
        prepare(&folder, milter, users, more);
        let master = format!("127.0.0.1:{port} inet n - n - - smtpd\n{MASTER}{services}");
        folder.write("etc/master.cf", master);
        let config = folder.path("etc");
        let started = Command::new("postfix").arg("-c").arg(&config).arg("start").output().unwrap();
        assert!(started.status.success(), "{started:?}\n{}", log(&folder));
        let mut watcher = Command::new("sh");
        watcher.args(["-c", STOP]).arg(&config).process_group(0);
        watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let postfix = Self { folder, port, watcher: watcher.spawn().unwrap() };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(postfix.address()).is_err() {
            assert!(Instant::now() < deadline, "Postfix did not start: {}", postfix.log());
            thread::sleep(GLANCE);
        }
        postfix
    }

    /// Returns the address for SMTP.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns Postfix's log.
    pub(crate) fn log(&self) -> String {
        log(&self.folder)
    }

    /// Returns the messages in a mailbox, oldest first.
    pub(crate) fn mailbox(&self, user: &str) -> Vec<Delivered> {
        let entries = fs::read_dir(self.folder.path("mail").join(user).join("new"));
        let mut paths: Vec<PathBuf> = entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut found: Vec<Delivered> =
            paths.into_iter().map(|path| Delivered { bytes: fs::read(&path).unwrap(), path }).collect();
        found.sort_by_key(|mail| fs::metadata(&mail.path).unwrap().modified().unwrap());
        found
    }

    /// Waits for the mailbox to have `count` messages, and returns the last one.
    #[track_caller]
    pub(crate) fn wait_for(&self, user: &str, count: usize) -> Delivered {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.mailbox(user);
            if found.len() >= count {
                assert_eq!(found.len(), count, "{user} got more mail than expected");
                return found.last().unwrap().clone();
            }
            assert!(Instant::now() < deadline, "{user} has {} messages: {}", found.len(), self.log());
            thread::sleep(GLANCE);
        }
    }

    /// Returns the queue, one JSON object per message.
    pub(crate) fn queue(&self) -> Vec<Value> {
        let output = Command::new("postqueue").arg("-c").arg(self.folder.path("etc")).arg("-j").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Delivered {
    /// Returns the values of the `X-Bruit` fields.
    pub(crate) fn fields(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let header = text.split("\n\n").next().unwrap_or_default().to_owned();
        let is_ours = |line: &&str| line.to_ascii_lowercase().starts_with("x-bruit");
        header
            .lines()
            .filter(is_ours)
            .map(|line| line.split_once(": ").map_or(line, |pair| pair.1).to_owned())
            .collect()
    }

    /// Returns the value of the only `X-Bruit` field, which is above all fields that the MTA received.
    #[track_caller]
    pub(crate) fn field(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name} in {text}"));
        assert!(at("\nX-Bruit: ") < at("\nReceived: "), "{text}");
        let fields = self.fields();
        assert_eq!(fields.len(), 1, "{text}");
        fields[0].clone()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

fn prepare(folder: &Folder, milter: &str, users: &[&str], more: &str) {
    let home = folder.path("");
    let home = home.to_str().unwrap().trim_end_matches('/');
    // Postfix's processes run as other users.
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["etc", "spool", "data", "mail"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let postfix = User::from_name("postfix").unwrap().expect("the package postfix creates this user");
    chown(&folder.path("data"), Some(postfix.uid), None).unwrap();
    chown(&folder.path("mail"), Some(NOBODY.into()), Some(NOBODY.into())).unwrap();
    let mut boxes = String::new();
    users.iter().for_each(|user| boxes.push_str(&format!("{user}@{DOMAIN} {user}/\n")));
    folder.write("etc/boxes", boxes);
    folder.write("etc/main.cf", main_cf(home, milter, more));
}

fn main_cf(home: &str, milter: &str, more: &str) -> String {
    format!(
        "compatibility_level = 3.6\nqueue_directory = {home}/spool\ndata_directory = {home}/data\n\
         mail_owner = postfix\nsetgid_group = postdrop\ndaemon_directory = /usr/lib/postfix/sbin\n\
         command_directory = /usr/sbin\nmaillog_file = {home}/maillog\nmaillog_file_prefixes = {home}\n\
         myhostname = mx.{DOMAIN}\nmynetworks = 127.0.0.0/8\ninet_interfaces = 127.0.0.1\ninet_protocols = ipv4\n\
         mydestination =\nalias_maps =\nlocal_recipient_maps =\nsmtp_dns_support_level = disabled\n\
         smtpd_peername_lookup = no\ndefault_transport = error:5.1.2 nothing leaves this machine\n\
         smtpd_relay_restrictions = reject_unauth_destination\nvirtual_mailbox_domains = {DOMAIN}\n\
         virtual_mailbox_base = {home}/mail\nvirtual_mailbox_maps = texthash:{home}/etc/boxes\n\
         virtual_uid_maps = static:{NOBODY}\nvirtual_gid_maps = static:{NOBODY}\nvirtual_minimum_uid = 1000\n\
         smtpd_authorized_xclient_hosts = 127.0.0.0/8\nsmtpd_milters = {milter}\nmilter_default_action = tempfail\n\
         {more}\n"
    )
}

fn log(folder: &Folder) -> String {
    fs::read_to_string(folder.path("maillog")).unwrap_or_default()
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
