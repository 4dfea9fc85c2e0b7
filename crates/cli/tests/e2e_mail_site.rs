//! A whole mail site: Postfix, `bruit milter`, `bruit serve` and Dovecot. Its users read mail and report it over IMAP.

mod common;

use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::dovecot::{Dovecot, TOKEN};
use common::milter::Milter;
use common::postfix::{Delivered, Postfix, free_port};
use common::smtp::{Reply, Smtp};
use common::{Folder, Server, bruit};
use serde_json::Value;

/// The address of a client that the site does not know.
const STRANGER: &str = "192.0.2.77";

/// Maximum time for a message to be delivered.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum time to send a message while the server is away: the milter's own bound, and time for Postfix on a busy
/// machine.
const AWAY_MAX: Duration = Duration::from_secs(3 + 5);

const WATCHES: &str = "Genuine watches at wholesale prices are delivered within seven days to your own door, and every \
    one of them comes with a certificate and an elegant box. Order two before Friday and receive a third as a gift \
    from our workshop in the mountains: http://watches.example/offer\n";

const LOANS: &str = "Your business can borrow up to two hundred thousand without a visit to any bank. We ask neither \
    for papers nor for guarantees, and the money arrives on the day after your signature. Call our advisers now, or \
    answer this message with your number and the best hour for a short talk.\n";

const BULLETIN: &str = "The autumn issue of the gardening bulletin is out. Read how to prune apple trees, which bulbs \
    to plant before the frost, and why hedgehogs need a heap of leaves in a quiet corner. The next meeting of the \
    society takes place on the first Sunday of December in the old greenhouse.\n";

/// A running mail site.
struct Site {
    /// The server's address, the same after a restart.
    url: String,
    milter: Milter,
    postfix: Postfix,
    dovecot: Dovecot,
    /// The milter's reports of traps that the server did not receive.
    traps: PathBuf,
    server: Option<Server>,
    folder: Folder,
}

impl Site {
    fn start(users: &[&str]) -> Self {
        let folder = Folder::new();
        let http = format!("[http]\nlisten = \"127.0.0.1:{}\"\n", free_port());
        let token =
            format!("[[http.tokens]]\nname = \"dovecot\"\ntoken = {TOKEN:?}\nstanding = \"own\"\nreporters = true\n");
        let server = Server::start(&folder, &format!("{http}{token}"));
        let (url, traps) = (server.url(), folder.path("traps"));
        let dovecot = Dovecot::start_for(&url, users);
        let listen = format!("listen = \"inet:127.0.0.1:{}\"\n", free_port());
        let milter = Milter::start(&url, &format!("{listen}{}", policy(&traps, "")));
        let boxes: Vec<_> = users.iter().map(|user| format!("{user}@test.example={user}/Maildir/")).collect();
        let more = format!(
            "virtual_mailbox_base = {}\nvirtual_mailbox_maps = inline:{{ {} }}\nsmtpd_sasl_auth_enable = yes\n\
             smtpd_sasl_type = dovecot\nsmtpd_sasl_path = {}",
            dovecot.mail().display(),
            boxes.join(", "),
            dovecot.sasl().display()
        );
        let postfix = Postfix::start(&milter.address, users, &more);
        Self { url, milter, postfix, dovecot, traps, server: Some(server), folder }
    }

    /// Replaces the milter's policy for spam.
    fn set_spam(&mut self, action: &str) {
        let more = policy(&self.traps, &format!("[spam]\naction = {action:?}\n"));
        self.milter.reload(&self.url, &more);
    }

    /// Sends a message from a stranger to users of the site.
    fn send(&self, users: &[&str], message: &[u8]) -> Reply {
        self.send_on(&mut Smtp::open_as(self.postfix.address(), STRANGER, None), users, message)
    }

    fn send_on(&self, smtp: &mut Smtp, users: &[&str], message: &[u8]) -> Reply {
        let recipients: Vec<String> = users.iter().map(|user| format!("{user}@test.example")).collect();
        let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
        smtp.send("sender@mail.example", &recipients, message)
    }

    /// Waits for a user's inbox to have `count` messages, and returns the last one.
    #[track_caller]
    fn wait_for(&self, user: &str, count: usize) -> Delivered {
        let mut imap = self.dovecot.connect_as(user);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut messages = imap.messages("INBOX");
            assert!(messages.len() <= count, "{user} has {} messages", messages.len());
            if messages.len() == count {
                return Delivered { path: PathBuf::new(), bytes: messages.pop().unwrap() };
            }
            assert!(Instant::now() < deadline, "{user} has {} messages: {}", messages.len(), self.postfix.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a message that must arrive as message number `count` of the user, and returns the value of `X-Bruit`.
    #[track_caller]
    fn verdict(&self, user: &str, count: usize, message: &[u8]) -> String {
        let reply = self.send(&[user], message);
        assert_eq!(reply.code, 250, "{reply:?}");
        self.wait_for(user, count).field()
    }

    /// Returns how often the message was reported and revoked.
    fn counts(&self, message: &[u8]) -> (u64, u64) {
        self.folder.write("message", message);
        let file = self.folder.path("message");
        let output = bruit(&["check", "--json", "--server", &self.url, file.to_str().unwrap()]);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let signatures = checked["signatures"].as_array().unwrap();
        let exact = signatures.iter().find(|signature| signature["scheme"] == "exact").unwrap();
        let count = |name: &str| exact[name].as_u64().unwrap();
        (count("report_count"), count("revoke_count"))
    }

    /// Returns the number of reports waiting in the spools of Dovecot and of the milter.
    fn waiting(&self) -> [usize; 2] {
        [self.dovecot.spool(), self.traps.clone()].map(|spool| {
            let output = bruit(&["spool", "--json", spool.to_str().unwrap()]);
            assert!(output.stderr.is_empty(), "{output:?}");
            output.stdout.split_inclusive(|byte| *byte == b'\n').count()
        })
    }

    /// Kills the milter and the server, if they run.
    fn kill(&mut self) {
        self.milter.kill();
        self.server.as_mut().unwrap().kill();
    }

    /// Starts the server and the milter again.
    fn restart(&mut self) {
        self.server = self.server.take().map(Server::restart);
        self.milter.restart();
    }
}

/// Returns the milter's configuration: a threshold for bulk mail, a trap, and `more`.
fn policy(traps: &std::path::Path, more: &str) -> String {
    format!("[bulk]\nrecipients = 20\n[traps]\naddresses = [\"trap@test.example\"]\nspool = {traps:?}\n{more}")
}

fn message(text: &str) -> Vec<u8> {
    format!(
        "From: Sender <sender@mail.example>\nTo: you@test.example\nSubject: an offer\nMessage-ID: <1@mail.example>\n\
         Date: Thu, 19 Nov 2026 10:00:00 +0000\n\n{text}"
    )
    .into_bytes()
}

#[test]
fn what_one_user_moves_to_junk_is_stopped_for_all() {
    let mut site = Site::start(&["alice", "bob", "trap"]);
    let spam = message(WATCHES);
    let forged = [b"X-Bruit: ham\nx-bruit : ham; forged\n ham\n", &spam[..]].concat();
    assert_eq!(site.verdict("alice", 1, &forged), "unknown; confidence=0; reason=not_reported");
    let received = String::from_utf8(site.wait_for("alice", 1).bytes).unwrap();
    assert!(!received.contains("ham"), "forged fields are removed: {received}");

    site.dovecot.connect().move_last("INBOX", "Junk");
    assert_eq!(site.counts(&spam), (1, 0), "{}", site.dovecot.said());
    let altered = message(&WATCHES.replace("two before Friday", "four before Sunday").replace("Genuine", "Original"));
    assert_eq!(site.verdict("bob", 1, &spam), "spam; confidence=80; reason=own_reports");
    assert!(site.verdict("bob", 2, &altered).starts_with("spam; confidence="), "near replica");

    site.set_spam("reject");
    for copy in [&spam, &altered] {
        let reply = site.send(&["bob"], copy);
        assert!(reply.code == 550 && reply.text.starts_with("550 5.7.1 message refused: spam ("), "{reply:?}");
    }
    let mut user = Smtp::open_as(site.postfix.address(), STRANGER, None);
    user.authenticate();
    assert_eq!(site.send_on(&mut user, &["bob"], &spam).code, 250, "mail of users is not checked");
    assert_eq!(site.wait_for("bob", 3).fields(), Vec::<String>::new());
    assert_eq!(site.milter.count("skipped_total{reason=\"authenticated\"}"), 1);

    site.set_spam("quarantine");
    assert_eq!(site.send(&["bob"], &spam).code, 250);
    let held = site.postfix.queue();
    assert_eq!((held.len(), held[0]["queue_name"].as_str()), (1, Some("hold")), "{held:?}");

    site.set_spam("reject");
    site.dovecot.connect().move_last("Junk", "INBOX");
    assert_eq!(site.counts(&spam), (1, 1), "{}", site.dovecot.said());
    assert!(site.verdict("bob", 4, &spam).starts_with("ham; "));

    let to_trap = message(LOANS);
    assert_eq!(site.verdict("trap", 1, &to_trap), "unchecked; reason=trap");
    assert_eq!(site.counts(&to_trap), (1, 0), "{}", site.milter.log());
    assert_eq!(site.send(&["alice"], &to_trap).code, 550);
}

#[test]
fn the_twentieth_recipient_makes_a_message_bulk() {
    let users: Vec<String> = (0..25).map(|number| format!("r{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let site = Site::start(&users);
    let mut verdicts = Vec::new();
    for five in users.chunks(5) {
        assert_eq!(site.send(five, &message(BULLETIN)).code, 250);
        let field = site.wait_for(five[0], 1).field();
        verdicts.push(field.split(';').next().unwrap().to_owned());
    }
    assert_eq!(verdicts, ["unknown", "unknown", "unknown", "bulk", "bulk"]);
}

#[test]
fn reports_arrive_once_although_all_programs_are_killed_while_they_are_sent() {
    let mut site = Site::start(&["alice", "trap"]);
    let (moved, trapped) = (message(WATCHES), message(LOANS));
    assert!(site.verdict("alice", 1, &moved).starts_with("unknown; "));
    site.server.as_mut().unwrap().kill();

    let begun = Instant::now();
    assert_eq!(site.verdict("alice", 2, &message(BULLETIN)), "unchecked; reason=unreachable");
    assert!(begun.elapsed() < AWAY_MAX, "{:?}", begun.elapsed());
    site.dovecot.connect().move_first("INBOX", "Junk");
    assert_eq!(site.verdict("trap", 1, &trapped), "unchecked; reason=trap");
    assert_eq!(site.waiting(), [1, 1], "{}", site.milter.log());

    // The milter sends its spool when it starts. Kill all programs at different points of the sending.
    site.milter.kill();
    for delay_ms in [0, 5, 20, 60] {
        site.restart();
        let mut cron = site.dovecot.send_spool(&site.url).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        site.kill();
        // Ignore errors: it may have ended.
        let _ = cron.kill();
        cron.wait().unwrap();
    }
    site.restart();
    let deadline = Instant::now() + PATIENCE;
    while site.waiting() != [0, 0] {
        assert!(Instant::now() < deadline, "{:?}\n{}", site.waiting(), site.milter.log());
        site.dovecot.send_spool(&site.url).stdout(Stdio::null()).status().unwrap();
    }
    assert_eq!((site.counts(&moved), site.counts(&trapped)), ((1, 0), (1, 0)));
    assert!(site.verdict("alice", 2, &moved).starts_with("spam; "), "mail is checked again");
}
