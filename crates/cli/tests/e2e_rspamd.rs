//! The unmodified rspamd of Debian against a running clearinghouse: its scanner, its controller and `rspamc`.

mod common;

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Answer, Folder, Server, program, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// An rspamd that does not answer after this never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is tried.
const GLANCE: Duration = Duration::from_millis(20);

/// A rule of rspamd's `fuzzy_check`: its name, the list that it writes, and what it calls what is on that.
struct Rule {
    name: &'static str,
    flag: &'static str,
    symbol: &'static str,
}

const PLAIN: Rule = Rule { name: "plain", flag: "1", symbol: "PLAIN_DENIED" };
const ENCRYPTED: Rule = Rule { name: "encrypted", flag: "11", symbol: "ENCRYPTED_DENIED" };

/// A running rspamd that loads nothing but `fuzzy_check`, and asks nobody but our server.
struct Rspamd<'a> {
    server: &'a Server,
    folder: Folder,
    process: Child,
}

impl<'a> Rspamd<'a> {
    fn start(server: &'a Server) -> Self {
        let folder = Folder::new();
        // Its own list takes some 20 s to compile.
        folder.write("tld.dat", "com\nexample\n");
        folder.write("rspamd.conf", configuration(server, &folder));
        let log = File::create(folder.path("output.log")).unwrap();
        // Not under a time limit, as the test ends it.
        drop(program("rspamd", "rspamd"));
        let mut command = std::process::Command::new("rspamd");
        command.args(["-f", "-i", "-c"]).arg(folder.path("rspamd.conf"));
        let process = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let rspamd = Self { server, folder, process };
        rspamd.wait_for("normal.sock");
        rspamd.wait_for("controller.sock");
        rspamd
    }

    fn wait_for(&self, socket: &str) {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(self.folder.path(socket)).is_err() {
            assert!(Instant::now() < deadline, "rspamd does not start: {}", self.said());
            thread::sleep(GLANCE);
        }
    }

    /// Everything that it noted, for whoever wonders what went wrong.
    fn said(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.path(name)).unwrap_or_default();
        format!("{}\n{}", read("output.log"), read("rspamd.log"))
    }

    fn mail(&self, text: &str) -> PathBuf {
        self.folder.write("mail.eml", format!("From: a@spam.example\nSubject: An offer\n\n{text}\n"));
        self.folder.path("mail.eml")
    }

    fn rspamc(&self, socket: &str, words: &[&str], text: &str) -> Answer {
        let mut command = program("rspamc", "rspamd");
        command.arg("-h").arg(self.folder.path(socket)).args(words).arg(self.mail(text));
        run(&mut command, b"").expect(0, self.server)
    }

    /// Teaches a rule a text (`fuzzy_add`), or makes it forget it (`fuzzy_del`).
    #[track_caller]
    fn teach(&self, rule: &Rule, operation: &str, text: &str) {
        let answer = self.rspamc("controller.sock", &["-f", rule.flag, "-w", "10", operation], text);
        assert!(answer.text.contains("success = true"), "{operation} by {}: {answer:?}\n{}", rule.name, self.said());
    }

    /// How similar a text is to what a rule knows, as rspamd shows it.
    fn scan(&self, rule: &Rule, text: &str) -> Option<f32> {
        let answer = self.rspamc("normal.sock", &[], text);
        assert!(answer.text.contains("Action:"), "{answer:?}\n{}", self.said());
        assert!(!answer.text.contains("FUZZY_BLOCKED"), "{answer:?}\n{}", self.said());
        let line = answer.text.lines().find(|line| line.contains(rule.symbol))?;
        // As in [1:d5d2ef1125:0.96:txt].
        Some(line.split(':').nth_back(1).unwrap().parse().unwrap())
    }
}

impl Drop for Rspamd<'_> {
    /// Lets it end its workers, which would live on.
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

fn configuration(server: &Server, folder: &Folder) -> String {
    let (home, address, key) = (folder.path(""), server.address("fuzzy"), server.fuzzy_key());
    let home = home.display();
    // Rules that share keys would compute the same digests, and one text is on one list only.
    let rule = |rule: &Rule, more: &str| {
        let Rule { name, flag, symbol } = rule;
        format!(
            "rule \"{name}\" {{ servers = \"{address}\"; symbol = \"{symbol}_UNKNOWN\"; mime_types = [\"*\"]; \
             max_score = 20; read_only = no; skip_unknown = yes; short_text_direct_hash = yes; min_length = 32; \
             min_bytes = 64; fuzzy_map = {{ {symbol} {{ max_score = 20; flag = {flag}; }} }} {more} }}\n"
        )
    };
    let plain = rule(&PLAIN, "algorithm = \"siphash\";");
    let secret = "fuzzy_key = \"another\"; fuzzy_shingles_key = \"another\"; algorithm = \"mumhash\";";
    let encrypted = rule(&ENCRYPTED, &format!("{secret} encryption_key = \"{key}\";"));
    format!(
        "options {{ pidfile = \"{home}/rspamd.pid\"; filters = \"fuzzy_check\"; url_tld = \"{home}/tld.dat\"; \
         dns {{ nameserver = [\"127.0.0.1:9\"]; timeout = 0.1s; retransmits = 1; }} tempdir = \"{home}\"; \
         control_socket = \"{home}/control.sock mode=0600\"; }}\n\
         logging {{ type = \"file\"; filename = \"{home}/rspamd.log\"; level = \"info\"; }}\n\
         lang_detection {{ languages = \"/usr/share/rspamd/languages\"; }}\n\
         actions {{ reject = 15; add_header = 6; greylist = 4; }}\n\
         worker \"normal\" {{ bind_socket = \"{home}/normal.sock mode=0600\"; count = 1; }}\n\
         worker \"controller\" {{ bind_socket = \"{home}/controller.sock mode=0600\"; count = 1; }}\n\
         fuzzy_check {{ timeout = 5s; retransmits = 2;\n{plain}{encrypted}}}\n"
    )
}

/// A text of `words` words, of which those at `changed` are others.
fn text(seed: u32, words: u32, changed: &[u32]) -> String {
    let word = |at: u32| {
        let seed = if changed.contains(&at) { seed + 1_000 } else { seed };
        let mut number = (seed * 7_919 + at).wrapping_mul(2_654_435_761);
        let letter = |number: &mut u32| {
            *number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (*number >> 24) as u8 % 26)
        };
        (0..7).map(|_| letter(&mut number)).collect::<String>()
    };
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

fn learns_and_forgets(rule: &Rule, seed: u32) {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let rspamd = Rspamd::start(&server);
    let (spam, altered, other) = (text(seed, 120, &[]), text(seed, 120, &[10, 50, 90]), text(seed + 1, 120, &[]));
    let short = text(seed + 2, 20, &[]);

    assert_eq!(rspamd.scan(rule, &spam), None, "nothing is known yet");
    rspamd.teach(rule, "fuzzy_add", &spam);
    rspamd.teach(rule, "fuzzy_add", &short);
    assert_eq!(rspamd.scan(rule, &spam), Some(1.0));
    assert_eq!(rspamd.scan(rule, &short), Some(1.0));
    let similar = rspamd.scan(rule, &altered).expect("an altered copy is found");
    assert!((0.5..=1.0).contains(&similar), "{similar}");
    assert_eq!(rspamd.scan(rule, &other), None);

    rspamd.teach(rule, "fuzzy_del", &spam);
    assert_eq!(rspamd.scan(rule, &spam), None, "it was deleted");
    assert_eq!(rspamd.scan(rule, &altered), None, "and is not found by its shingles either");
    assert_eq!(rspamd.scan(rule, &short), Some(1.0), "the other is still there");
    rspamd.teach(rule, "fuzzy_add", &spam);
    assert_eq!(rspamd.scan(rule, &spam), Some(1.0), "it was written again");
}

#[test]
fn rspamd_learns_and_forgets_texts() {
    learns_and_forgets(&PLAIN, 1);
}

#[test]
fn rspamd_learns_and_forgets_texts_encrypted() {
    learns_and_forgets(&ENCRYPTED, 2);
}

#[test]
fn strangers_ask_but_do_not_teach() {
    let folder = Folder::new();
    // Loopback is another network's here.
    let server = Server::start(&folder, "");
    let rspamd = Rspamd::start(&server);
    let spam = text(3, 120, &[]);
    rspamd.teach(&PLAIN, "fuzzy_add", &spam);
    drop(rspamd);

    let configuration = fs::read_to_string(folder.path("bruit.toml")).unwrap();
    let mut server = server;
    server.terminate();
    fs::write(folder.path("bruit.toml"), configuration.replace("127.0.0.1/32", "127.0.0.2/32")).unwrap();
    let server = server.restart();
    let rspamd = Rspamd::start(&server);
    assert_eq!(rspamd.scan(&PLAIN, &spam), Some(1.0), "what was known is still known");
    for rule in [PLAIN, ENCRYPTED] {
        let answer = rspamd.rspamc("controller.sock", &["-f", rule.flag, "fuzzy_add"], &text(4, 120, &[]));
        assert!(answer.text.contains("403"), "{answer:?}");
    }
}
