//! Debian's unmodified rspamd, its scanner and controller, with a running clearinghouse as fuzzy storage.
//!
//! There is only one test, because rspamd takes seconds to start.

mod common;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Answer, Folder, Server, program, run, testdata};

/// Maximum time for rspamd to start, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
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

    let stat = rspamd.control(&["stat"], "").text;
    assert!(
        stat.contains("Fuzzy hashes in storage \"plain\"") && stat.contains("Fuzzy hashes in storage \"enc\""),
        "{stat}"
    );
}

/// A running rspamd that has only the rules of fuzzy_check and connects only to `server`.
struct Rspamd<'a> {
    process: Child,
    folder: Folder,
    server: &'a Server,
}

impl<'a> Rspamd<'a> {
    fn start(server: &'a Server) -> Self {
        let folder = Folder::new();
        folder.write("rspamd.conf", configuration(&folder, server));
        // Replace the list of all top-level domains: it causes most of the start time, and no rule here uses it.
        folder.write("tlds", "com\norg\n");
        let mut command = program("rspamd", "rspamd");
        command.args(["-f", "-i", "-c"]).arg(folder.path("rspamd.conf"));
        for variable in ["DBDIR", "RUNDIR"] {
            command.arg(format!("--var={variable}={}", folder.path("").display()));
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let rspamd = Self { process, folder, server };
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

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("rspamd.log")).unwrap_or_default()
    }
}

impl Drop for Rspamd<'_> {
    fn drop(&mut self) {
        // Send SIGTERM, so that rspamd stops its workers, too.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

/// Returns a configuration with two rules, one unencrypted and one encrypted. Their keys differ, so that they do not
/// share digests.
fn configuration(folder: &Folder, server: &Server) -> String {
    let path = |name: &str| -> PathBuf { folder.path(name) };
    let (address, key) = (server.address("fuzzy"), server.fuzzy_key());
    let rule = format!(
        "servers = \"{address}\"; mime_types = [\"*\"]; max_score = 20; read_only = no; skip_unknown = yes;
         short_text_direct_hash = yes; min_length = 32; min_bytes = 64;"
    );
    format!(
        r#"
        options {{
          pidfile = {pidfile:?}; filters = "fuzzy_check"; url_tld = {tlds:?}; tempdir = {home:?};
          control_socket = "{control} mode=0600";
          dns {{ nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; }}
        }}
        logging {{ type = "file"; filename = {log:?}; level = "info"; }}
        lang_detection {{ languages = "/usr/share/rspamd/languages"; }}
        actions {{ reject = 15; add_header = 6; greylist = 4; }}
        worker "normal" {{ bind_socket = "{normal} mode=0600"; count = 1; }}
        worker "controller" {{ bind_socket = "{controller} mode=0600"; count = 1; }}
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
        home = path(""),
        control = path("control.sock").display(),
        log = path("rspamd.log"),
        normal = path("normal.sock").display(),
        controller = path("controller.sock").display(),
    )
}
