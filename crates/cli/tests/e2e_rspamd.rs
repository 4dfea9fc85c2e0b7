//! Debian's unmodified rspamd, its scanner and controller, with a running clearinghouse as fuzzy storage.
//!
//! There is only one test, because rspamd takes seconds to start.

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Answer, Folder, Server, program, run, testdata};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Maximum time for rspamd to start, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The controller's password. rspamd refuses its own examples, q1 and q2.
const PASSWORD: &str = "sesame";
/// Interval at which the start of rspamd is polled.
const GLANCE: Duration = Duration::from_millis(20);

#[test]
fn rspamd_learns_scans_and_forgets() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let rspamd = Rspamd::start(&server);
    let spam = fs::read_to_string(testdata("razor/text.eml")).unwrap();
    let altered = spam.replace("twenty of them", "thirty of them");
    let other = fs::read_to_string(testdata("pyzor/v2-plain-pieced.eml")).unwrap();
    assert_eq!(rspamd.scan(&spam), [""; 0]);

    rspamd.learn("fuzzy_add", "1", &spam);
    assert_eq!(rspamd.scan(&spam), ["PLAIN_DENIED"]);
    assert_eq!(rspamd.scan(&altered), ["PLAIN_DENIED"]);
    assert_eq!(rspamd.scan(&other), [""; 0]);

    rspamd.learn("fuzzy_add", "11", &spam);
    assert_eq!(rspamd.scan(&spam), ["ENC_DENIED", "PLAIN_DENIED"]);
    assert_eq!(rspamd.scan(&altered), ["ENC_DENIED", "PLAIN_DENIED"]);
    assert_eq!(rspamd.scan(&other), [""; 0]);

    rspamd.learn("fuzzy_add", "3", &other);
    assert_eq!(rspamd.scan(&other), ["PLAIN_WHITE"]);

    rspamd.learn("fuzzy_del", "1", &spam);
    assert_eq!(rspamd.scan(&spam), ["ENC_DENIED"]);
    rspamd.learn("fuzzy_del", "11", &spam);
    assert_eq!(rspamd.scan(&spam), [""; 0]);
    assert_eq!(rspamd.scan(&altered), [""; 0]);
    rspamd.learn("fuzzy_add", "1", &spam);
    assert_eq!(rspamd.scan(&spam), ["PLAIN_DENIED"], "a digest can be added again after it was deleted");

    one_report_reaches_both(&server, &rspamd, &folder, &spam);

    let stat = rspamd.control(&["stat"], "").text;
    assert!(
        stat.contains("Fuzzy hashes in storage \"plain\"") && stat.contains("Fuzzy hashes in storage \"enc\""),
        "{stat}"
    );
    both_parts_wait(&server, &rspamd, &folder, &spam);
}

/// `bruit report --rspamd` also trains rspamd, and `bruit revoke --rspamd` undoes this.
fn one_report_reaches_both(server: &Server, rspamd: &Rspamd<'_>, folder: &Folder, spam: &str) {
    folder.write("password", format!("{PASSWORD}\n"));
    let password = folder.path("password");
    let spool = folder.path("spool");
    let bruit = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.args(words).args(["--rspamd", &rspamd.controller]).env("BRUIT_SERVER", server.url());
        command.env_remove("BRUIT_TOKEN").env_remove("BRUIT_SPOOL");
        run(&mut command, spam.as_bytes())
    };
    rspamd.learn("fuzzy_del", "1", spam);
    assert_eq!(rspamd.scan(spam), [""; 0]);
    let file = ["--rspamd-password-file", password.to_str().unwrap()];
    let report = |options: &[&str]| bruit(&[&["report", "--timeout", "20s"], options].concat());

    let answer = report(&[&file[..], &["--rspamd-bayes"]].concat()).expect(0, server);
    assert!(answer.text.starts_with("reported: ") && answer.text.ends_with("\nlearned by rspamd\n"), "{answer:?}");
    assert_eq!(rspamd.scan(spam), ["PLAIN_DENIED"]);
    assert_eq!(rspamd.learned_spam(), 1);
    bruit(&["revoke", file[0], file[1]]).expect(0, server);
    assert_eq!(rspamd.scan(spam), [""; 0]);

    // A wrong password: Bruit gets the report, and the spool keeps the message.
    let answer = report(&[]).expect(3, server);
    assert!(answer.text.starts_with("reported: ") && answer.complaints.contains("refused: Unauthorized"), "{answer:?}");
    let at = spool.to_str().unwrap();
    report(&["--spool", at]).expect(0, server);
    assert_eq!(rspamd.scan(spam), [""; 0]);
    let answer = bruit(&["spool", "send", file[0], file[1], at]).expect(0, server);
    assert_eq!(answer.text, "0 reports sent, 1 message learned by rspamd, 0 waiting\n");
    assert_eq!(rspamd.scan(spam), ["PLAIN_DENIED"]);

    // The classifier knows the message, and no rule has this flag.
    report(&[&file[..], &["--rspamd-bayes"]].concat()).expect(0, server);
    let answer = report(&[&file[..], &["--rspamd-flag", "7"]].concat()).expect(3, server);
    assert!(answer.complaints.contains("refused: No fuzzy rules matched for flag 7"), "{answer:?}");
}

/// While the server is down, neither the report nor the message for rspamd is lost. The server is also rspamd's
/// storage, so rspamd fails, too: its HTTP status is then an error number of the operating system.
fn both_parts_wait(server: &Server, rspamd: &Rspamd<'_>, folder: &Folder, spam: &str) {
    server.signal(Signal::SIGKILL);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["report", "--timeout", "20s", "--rspamd", &rspamd.controller]);
    command.env("BRUIT_SERVER", server.url()).env("BRUIT_RSPAMD_PASSWORD", PASSWORD).env_remove("BRUIT_TOKEN");
    command.arg("--spool").arg(folder.path("later"));
    let answer = run(&mut command, spam.as_bytes()).expect(0, server);
    let lines: Vec<&str> = answer.text.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("spooled: "), "{answer:?}");
    assert!(lines[1].starts_with("spooled for rspamd: rspamd at "), "{answer:?}");
}

/// A running rspamd that has only the rules of fuzzy_check and connects only to `server`.
struct Rspamd<'a> {
    process: Child,
    folder: Folder,
    server: &'a Server,
    /// URL of the controller. Unlike its Unix socket, it needs the password.
    controller: String,
}

impl<'a> Rspamd<'a> {
    fn start(server: &'a Server) -> Self {
        let folder = Folder::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        folder.write("rspamd.conf", configuration(&folder, server, port));
        // Replace the list of all top-level domains: it causes most of the start time, and no rule here uses it.
        folder.write("tlds", "com\norg\n");
        let mut command = program("rspamd", "rspamd");
        command.args(["-f", "-i", "-c"]).arg(folder.path("rspamd.conf"));
        for variable in ["DBDIR", "RUNDIR"] {
            command.arg(format!("--var={variable}={}", folder.path("").display()));
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let rspamd = Self { process, folder, server, controller: format!("http://127.0.0.1:{port}") };
        rspamd.wait();
        rspamd
    }

    /// Waits until both workers answer.
    fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        for socket in ["controller.sock", "normal.sock"] {
            while UnixStream::connect(self.folder.path(socket)).is_err() {
                assert!(Instant::now() < deadline, "rspamd does not start: {}", self.log());
                thread::sleep(GLANCE);
            }
        }
    }

    /// Scans `message` and returns the symbols, sorted.
    #[track_caller]
    fn scan(&self, message: &str) -> Vec<String> {
        let text = self.rspamc("normal.sock", &[], message).expect(0, self.server).text;
        assert!(text.contains("Action:"), "{text}\n{}", self.log());
        let symbol = |line: &str| Some(line.strip_prefix("Symbol: ")?.split_whitespace().next()?.to_owned());
        let mut symbols: Vec<String> = text.lines().filter_map(symbol).collect();
        symbols.sort();
        symbols
    }

    /// Makes the controller report `message` to the storage.
    #[track_caller]
    fn learn(&self, verb: &str, flag: &str, message: &str) {
        let text = self.control(&["-f", flag, "-w", "10", verb], message).text;
        assert!(text.contains("success = true"), "{text}\n{}\n{}", self.log(), self.server.said());
    }

    #[track_caller]
    fn control(&self, arguments: &[&str], message: &str) -> Answer {
        self.rspamc("controller.sock", arguments, message).expect(0, self.server)
    }

    fn rspamc(&self, socket: &str, arguments: &[&str], message: &str) -> Answer {
        run(program("rspamc", "rspamd").arg("-h").arg(self.folder.path(socket)).args(arguments), message.as_bytes())
    }

    /// Returns how many messages the classifier has learned as spam.
    fn learned_spam(&self) -> u64 {
        let text = self.control(&["-j", "stat"], "").text;
        let stat: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let statfiles = stat["statfiles"].as_array().unwrap();
        let spam = statfiles.iter().find(|file| file["symbol"] == "BAYES_SPAM").unwrap();
        spam["revision"].as_u64().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("rspamd.log")).unwrap_or_default()
    }
}

impl Drop for Rspamd<'_> {
    fn drop(&mut self) {
        // Send SIGTERM, so that rspamd stops its workers, too.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

/// Returns a configuration with two rules, one unencrypted and one encrypted. Their keys differ, so that they do not
/// share digests.
fn configuration(folder: &Folder, server: &Server, port: u16) -> String {
    let path = |name: &str| -> PathBuf { folder.path(name) };
    let (address, key) = (server.address("fuzzy"), server.fuzzy_key());
    let rule = format!(
        "servers = \"{address}\"; mime_types = [\"*\"]; max_score = 20; read_only = no; skip_unknown = yes;
         short_text_direct_hash = yes; min_length = 32; min_bytes = 64;"
    );
    format!(
        r#"
        options {{
          pidfile = {pidfile:?}; filters = "fuzzy_check"; url_tld = {tlds:?}; tempdir = "{home}";
          control_socket = "{control} mode=0600";
          dns {{ nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; }}
        }}
        logging {{ type = "file"; filename = {log:?}; level = "info"; }}
        lang_detection {{ languages = "/usr/share/rspamd/languages"; }}
        actions {{ reject = 15; add_header = 6; greylist = 4; }}
        worker "normal" {{ bind_socket = "{normal} mode=0600"; count = 1; }}
        worker "controller" {{
          bind_socket = "{controller} mode=0600"; bind_socket = "127.0.0.1:{port}"; count = 1; password = "{PASSWORD}";
        }}
        classifier "bayes" {{
          tokenizer {{ name = "osb"; }} cache {{ path = "{home}cache.sqlite"; }} backend = "sqlite3"; min_learns = 100;
          statfile {{ symbol = "BAYES_HAM"; path = "{home}ham.sqlite"; spam = false; }}
          statfile {{ symbol = "BAYES_SPAM"; path = "{home}spam.sqlite"; spam = true; }}
        }}
        fuzzy_check {{
          min_bytes = 1k; timeout = 5s; retransmits = 1;
          rule "plain" {{
            algorithm = "siphash"; symbol = "PLAIN_UNKNOWN"; {rule}
            fuzzy_map = {{ PLAIN_DENIED {{ max_score = 20; flag = 1; }} PLAIN_WHITE {{ max_score = 2; flag = 3; }} }}
          }}
          rule "enc" {{
            algorithm = "mumhash"; symbol = "ENC_UNKNOWN"; {rule} encryption_key = "{key}";
            fuzzy_key = "another"; fuzzy_shingles_key = "another";
            fuzzy_map = {{ ENC_DENIED {{ max_score = 20; flag = 11; }} }}
          }}
        }}
        "#,
        pidfile = path("rspamd.pid"),
        tlds = path("tlds"),
        home = path("").display(),
        control = path("control.sock").display(),
        log = path("rspamd.log"),
        normal = path("normal.sock").display(),
        controller = path("controller.sock").display(),
    )
}
