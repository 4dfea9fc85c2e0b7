//! The metrics of a real server and the alert rules that use them, checked with Prometheus' own `promtool`.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use common::wire::{self, Datagrams};
use common::{Folder, Server, program, run};

/// The Debian package that has promtool.
const PACKAGE: &str = "prometheus";

/// Metrics that exist only after an error, or after a peer has connected.
const RARE: [&str; 4] = [
    "bruit_refused_events_total",
    "bruit_peer_refused_segments_total",
    "bruit_peer_clock_skew_seconds",
    "bruit_peer_agreed_timestamp_seconds",
];

/// An unreachable peer, so that the peer metrics exist.
const PEER: &str = "[[peers]]\nname = \"anna\"\nurl = \"https://127.0.0.1:1\"\nrelation = \"cluster\"\n\
    key = \"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n";

#[test]
fn promtool_accepts_the_metrics_of_a_server_in_use() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, PEER);
    use_every_protocol(&server);
    // Stop the server, so that it writes a snapshot. The metric for the snapshot's age does not exist before.
    server.terminate();
    let server = server.restart();
    use_every_protocol(&server);
    let metrics = wait_for_peer(&server);
    let answer = run(program("promtool", PACKAGE).args(["check", "metrics"]), metrics.as_bytes());
    assert_eq!((answer.code, &*answer.text, &*answer.complaints), (Some(0), "", ""), "{metrics}");

    let build = format!("bruit_build_info{{version=\"{}\",", env!("CARGO_PKG_VERSION"));
    assert!(metrics.lines().any(|line| line.starts_with(&build) && line.ends_with(" 1")), "{metrics}");
    assert!(value(&metrics, "bruit_snapshot_age_seconds") < 600.0);
    assert!(value(&metrics, "process_resident_memory_bytes") > 16e6, "the books alone take 16 MiB");
    assert!(value(&metrics, "process_cpu_seconds_total") > 0.0);
    assert!(value(&metrics, "process_open_fds") < value(&metrics, "process_max_fds"));
    assert_eq!(wire::count(&metrics, "bruit_peer_state{peer=\"anna\",state=\"up_to_date\"}"), 0);
    assert!(metrics.contains("bruit_ring_fill_ratio{ring=\"listed_signatures\"}"), "{metrics}");
    assert!(metrics.contains("bruit_table_entries{table=\"counts_of_other_servers\"}"), "{metrics}");
    assert_documents_name_what_is_there(&metrics);
}

#[test]
fn every_request_is_counted_and_timed_once() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    for _ in 0..3 {
        use_every_protocol(&server);
    }
    // The minimum is three checks and three reports per protocol, or only three checks over HTTP and Razor. Clients may
    // have repeated requests.
    for (protocol, least) in [("pyzor", 6), ("dcc", 6), ("fuzzy", 6), ("razor", 3), ("http", 3)] {
        // Some requests are counted only after they have been answered.
        let is_so = || {
            let metrics = wire::metrics(&server);
            let name = format!("bruit_request_duration_seconds_count{{protocol=\"{protocol}\"}}");
            let (observed, counted) = (wire::count(&metrics, &name), requests_of(&metrics, protocol));
            (observed == counted && counted >= least).then_some(counted)
        };
        let counted = (0..50).find_map(|_| is_so().or_else(pause));
        assert!(counted.is_some(), "{protocol}: {}", wire::metrics(&server));
    }
}

#[test]
fn promtool_accepts_the_alert_rules_and_they_do_what_they_say() {
    let promtool = |arguments: &[&str]| {
        let answer =
            run(program("promtool", PACKAGE).args(arguments).current_dir(repository("packaging/prometheus")), b"");
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    };
    promtool(&["check", "rules", "bruit.rules.yml"]);
    promtool(&["test", "rules", "bruit.rules.test.yml"]);
    promtool(&["check", "config", "--syntax-only", "prometheus.yml"]);
}

#[test]
fn every_alert_says_what_to_do_and_is_tested() {
    let rules = fs::read_to_string(repository("packaging/prometheus/bruit.rules.yml")).unwrap();
    let tests = fs::read_to_string(repository("packaging/prometheus/bruit.rules.test.yml")).unwrap();
    let page = fs::read_to_string(repository("docs/operators/monitoring.md")).unwrap();
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 10);
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        for part in ["severity: ", "summary: ", "description: ", "runbook: "] {
            assert!(alert.contains(part), "{name} has no {part}");
        }
        let runbook = alert.split("runbook: ").nth(1).unwrap().lines().next().unwrap();
        assert!(repository(runbook).is_file(), "{name} names {runbook}");
        assert!(tests.contains(name), "{name} is not tested");
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/operators/monitoring.md");
    }
}

/// Sends a check and a report over Pyzor, DCC and the fuzzy protocol, and a check over HTTP and Razor.
fn use_every_protocol(server: &Server) {
    let mut pyzor = Datagrams::to(server.address("pyzor"));
    let digest = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(pyzor.pyzor("report", digest).0, 200);
    assert_eq!(pyzor.pyzor("check", digest).0, 200);
    let mut dcc = Datagrams::to(server.address("dcc"));
    dcc.dcc_report_spam([7; 16]);
    assert!(dcc.dcc_is_many([7; 16]));
    let mut fuzzy = Datagrams::to(server.address("fuzzy"));
    fuzzy.fuzzy_add([9; 64]);
    assert!(fuzzy.fuzzy_check([9; 64]).1 > 0.5);
    assert_eq!(wire::razor_check(server.address("razor"), "A1X0JdhQilUA"), "p=0");
    wire::http_check(server.address("http"), digest);
}

/// Returns the metrics once they include the peer. The server polls its peers every second.
fn wait_for_peer(server: &Server) -> String {
    let heard = || Some(wire::metrics(server)).filter(|text| text.contains("bruit_peer_up{peer=\"anna\"}"));
    let metrics = (0..100).find_map(|_| heard().or_else(pause));
    metrics.unwrap_or_else(|| panic!("no metrics of the peer: {}", server.said()))
}

/// Returns the number of requests of a protocol, with any outcome.
fn requests_of(metrics: &str, protocol: &str) -> u64 {
    let name = format!("bruit_requests_total{{protocol=\"{protocol}\",");
    metrics.lines().filter(|line| line.starts_with(&name)).map(|line| last_word(line) as u64).sum()
}

/// Sleeps briefly and returns `None`.
fn pause<T>() -> Option<T> {
    thread::sleep(Duration::from_millis(100));
    None
}

/// Returns the value of a metric without labels.
#[track_caller]
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    last_word(line.unwrap_or_else(|| panic!("no {name} in {metrics}")))
}

fn last_word(line: &str) -> f64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Asserts that alert rules and operator pages name only existing metrics.
fn assert_documents_name_what_is_there(metrics: &str) {
    let files = fs::read_dir(repository("docs/operators")).unwrap().map(|file| file.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    let mut named = BTreeSet::new();
    for file in pages.chain([repository("packaging/prometheus/bruit.rules.yml")]) {
        named.extend(metric_names(&fs::read_to_string(file).unwrap()));
    }
    assert!(named.len() > 10, "{named:?}");
    for name in named.iter().filter(|name| !RARE.contains(&name.as_str())) {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(metrics.contains(&format!("# TYPE {family} ")), "there is no metric {name}");
    }
}

/// Returns the words that begin with `bruit_`, except the names of crates, packages and the milter's metrics.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let words = text.split(|letter| !is_part(letter)).filter(|word| word.starts_with("bruit_"));
    // The name of a package is followed by its version.
    let is_other = |word: &str| word.starts_with("bruit_milter_") || word.starts_with("bruit_0");
    let is_metric = |word: &&str| !["bruit_server", "bruit_filters"].contains(word) && !is_other(word);
    words.filter(is_metric).map(ToOwned::to_owned).collect()
}

/// Returns the path of a file in the repository.
fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}
