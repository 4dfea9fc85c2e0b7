//! Tests of `bruit-lab trace` on the command line.

mod common;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use bruit_forensics::generate::{CaptureWriter, Flow, Traffic};
use common::Folder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The time of the first packet: 2023-11-14 22:13:20.
const START: u64 = 1_700_000_000;

const TOPOLOGY: &str = "\
[[router]]\nname = \"edge-1\"\npages = \"edge-1\"\nlinks = [\"core\"]\n
[[router]]\nname = \"core\"\npages = \"core\"\nlinks = [\"edge-2\", \"edge-3\", \"edge-4\"]\n
[[router]]\nname = \"edge-2\"\npages = \"edge-2\"\n
[[router]]\nname = \"edge-3\"\npages = \"edge-3\"\n
[[router]]\nname = \"edge-4\"\n";

/// Returns packet `number` as a router receives it after `hops` other routers have forwarded it.
fn frame(number: u16, hops: u8) -> Vec<u8> {
    let flow: Flow = Traffic::default().flow(number.into());
    let mut frame = Vec::new();
    flow.frame(number, 64 - hops, b"hello, world", &mut frame);
    frame
}

/// Returns a capture of packets. Each packet's number is also its time in seconds.
fn capture(numbers: impl Iterator<Item = u16>, hops: u8) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    for number in numbers {
        writer.write((START + u64::from(number)) * 1_000_000_000, &frame(number, hops)).unwrap();
    }
    writer.finish().unwrap()
}

/// Runs `bruit-lab trace` in a folder.
fn trace_with(folder: &Folder, words: &str, input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.arg("trace").args(words.split_whitespace()).current_dir(folder.path(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Ignore errors: a program that rejects its arguments does not read its input.
    drop(child.stdin.take().unwrap().write_all(input));
    child.wait_with_output().unwrap()
}

fn trace(folder: &Folder, words: &str) -> Output {
    trace_with(folder, words, b"")
}

/// Runs `bruit-lab trace`, asserts that it succeeds without error output, and returns its output.
fn printed(folder: &Folder, words: &str) -> String {
    let output = trace(folder, words);
    assert!(output.status.success() && output.stderr.is_empty(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts exit code 2 and one line on stderr, and returns that line.
fn refused(folder: &Folder, words: &str) -> String {
    let output = trace(folder, words);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{words}: {line}");
    line
}

/// Creates the records of a network. 20 packets went via core to edge-1: the even ones from edge-2, the odd ones from
/// edge-3. edge-4 has recorded nothing.
fn network() -> Folder {
    let folder = Folder::new();
    folder.write("net.toml", TOPOLOGY);
    folder.write("edge-2.pcap", capture((0..20).step_by(2), 1));
    folder.write("edge-3.pcap", capture((1..20).step_by(2), 1));
    folder.write("core.pcap", capture(0..20, 2));
    folder.write("edge-1.pcap", capture(0..20, 3));
    for name in ["edge-1", "edge-2", "edge-3", "core"] {
        printed(&folder, &format!("record {name}.pcap --as {name} -o {name} --false-positive-rate 0.000001"));
    }
    folder
}

#[test]
fn a_packet_is_traced_from_the_victim_to_where_it_came_in() {
    let folder = network();
    let text = printed(&folder, "query --topology net.toml --packet edge-1.pcap --frame 11 --at edge-1");
    let Flow { source, destination, protocol, .. } = Traffic::default().flow(10);
    let title = format!("packet {source} → {destination}, protocol {protocol}, 2023-11-14 22:13:30");
    assert!(text.starts_with(&format!("{title}\n\nrouter  hops  answer    pages  false positive  when\n")), "{text}");
    // Compare all columns except the rate, which depends on the random key.
    let row = |line: &str| [line.get(..29).unwrap(), line.get(45..).unwrap_or_default()].concat();
    let rows: Vec<String> = text.lines().skip(3).take(5).map(row).collect();
    let expected = [
        "edge-1     0  seen          1  2023-11-14 22:13:20 to 22:13:39",
        "core       1  seen          1  2023-11-14 22:13:20 to 22:13:39",
        "edge-2     2  seen          1  2023-11-14 22:13:20 to 22:13:38",
        "edge-3     2  not seen      1",
        "edge-4     2  unknown       0  nothing was recorded at that time",
    ];
    assert_eq!(rows, expected, "{text}");
    assert!(text.contains("\n\npath: edge-2 → core → edge-1\nfalse sightings by routers: "), "{text}");
}

/// Returns a capture of three frames, with this frame in the middle. The other two are ten seconds before and after it,
/// so that the time between them counts as recorded.
fn second(frame: &[u8]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    for (second, frame) in [(START - 10, &self::frame(500, 0)[..]), (START, frame), (START + 10, &self::frame(501, 0))]
    {
        writer.write(second * 1_000_000_000, frame).unwrap();
    }
    writer.finish().unwrap()
}

/// Creates the records of a packet that changes on its way: edge-2 and core see the frame `before`, then edge-1 sees
/// the frame `behind`. edge-3 has seen another packet.
fn rewriting_network(topology: &str, before: &[u8], behind: &[u8]) -> Folder {
    let folder = Folder::new();
    folder.write("net.toml", topology);
    for (name, seen) in [("edge-2", before), ("core", before), ("edge-1", behind), ("edge-3", &frame(99, 0))] {
        folder.write(&format!("{name}.pcap"), second(seen));
        printed(&folder, &format!("record {name}.pcap --as {name} -o {name} --false-positive-rate 0.000001"));
    }
    folder
}

/// Returns the topology without edge-4, which has no records, so that every router has records.
fn complete_topology() -> String {
    TOPOLOGY.replace(", \"edge-4\"", "").replace("[[router]]\nname = \"edge-4\"\n", "")
}

/// Returns the first fragment of a packet, with 24 bytes after its header. The packet begins at byte 14 of the frame.
fn fragment_of(frame: &[u8]) -> Vec<u8> {
    let mut fragment = frame[..14 + 20 + 16].to_vec();
    fragment[14 + 3] = 36;
    fragment[14 + 6] = 0x20;
    fragment
}

/// Regression test: core fragments a packet from edge-2, and edge-1 sees a fragment. The walk ended at edge-1, which
/// was reported as the origin.
#[test]
fn a_fragment_is_reported_as_not_traceable_and_its_path_is_never_closed() {
    let whole = frame(7, 1);
    let fragment = fragment_of(&whole);
    let folder = rewriting_network(&complete_topology(), &whole, &fragment);
    let query = "query --topology net.toml --packet edge-1.pcap --frame 2 --at edge-1";
    let text = printed(&folder, query);
    assert!(text.contains("\ncannot be traced to its origin: it is a fragment: "), "{text}");
    assert!(text.contains("\npath: … → edge-1 (its digest cannot be trusted)\n"), "{text}");
    let value: Value = serde_json::from_str(&printed(&folder, &format!("{query} --json"))).unwrap();
    assert_eq!((&value["is_trusted"], &value["untrusted"]["reason"]), (&false.into(), &"fragment".into()));
    assert_eq!((&value["paths"][0]["is_open"], &value["seen"]), (&true.into(), &true.into()), "{value}");
    // Not finding a fragment anywhere proves nothing.
    let output = trace(&folder, "query --topology net.toml --packet edge-1.pcap --frame 2 --at edge-2");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = trace(&folder, "query --topology net.toml --packet edge-3.pcap --frame 2 --at edge-2");
    assert_eq!(output.status.code(), Some(1), "the answer for a whole packet is certain: {output:?}");
    // Recording prints how many fragments there were.
    let summary = printed(&folder, "record edge-1.pcap --as edge-1 -o again");
    assert!(summary.ends_with("1 packet not traceable to the origin (1 fragment)\n"), "{summary}");
    let value: Value =
        serde_json::from_str(&printed(&folder, "record edge-1.pcap --as edge-1 -o json --json")).unwrap();
    assert_eq!(value["untrusted"], serde_json::json!({ "fragment": 1 }));
}

/// core translates addresses, so edge-1 and edge-2 see different packets.
#[test]
fn a_path_that_ends_beside_a_router_that_rewrites_packets_is_open() {
    let before = frame(7, 1);
    let mut behind = before.clone();
    // Change the source address.
    behind[14 + 12..14 + 16].copy_from_slice(&[192, 0, 2, 1]);
    let plain = complete_topology();
    let query = "query --topology net.toml --packet edge-1.pcap --frame 2 --at edge-1";
    let text = printed(&rewriting_network(&plain, &before, &behind), query);
    assert!(text.contains("\npath: edge-1\n"), "without `rewrites`, the path ends at edge-1: {text}");
    let telling = plain.replace("pages = \"core\"", "pages = \"core\"\nrewrites = true");
    let folder = rewriting_network(&telling, &before, &behind);
    let text = printed(&folder, query);
    let path = "path: … → edge-1 (it may have looked different before core, which rewrites packets)";
    assert!(text.contains(path), "{text}");
    let value: Value = serde_json::from_str(&printed(&folder, &format!("{query} --json"))).unwrap();
    let path = &value["paths"][0];
    assert_eq!((&path["is_open"], &path["may_be_rewritten_at"]), (&true.into(), &serde_json::json!(["core"])));
}

/// edge-1 receives an ICMP error about a packet that came from edge-2 via core.
#[test]
fn the_packet_that_an_icmp_error_quotes_can_be_traced() {
    let cause = frame(7, 1);
    let mut error = cause[..14 + 20].to_vec();
    error[14 + 3] = 20 + 8 + 28;
    error[14 + 9] = 1;
    error.extend([3, 1, 0, 0, 0, 0, 0, 0]);
    error.extend(&cause[14..14 + 28]);
    let folder = rewriting_network(&complete_topology(), &cause, &cause);
    folder.write("error.pcap", second(&error));
    let query = "query --topology net.toml --packet error.pcap --frame 2 --at edge-1";
    let output = trace(&folder, query);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "no router recorded the error itself: {text}");
    assert!(text.contains("it is an ICMP error: "), "{text}");
    let text = printed(&folder, &format!("{query} --quoted"));
    assert!(text.contains("\npath: edge-2 → core → edge-1\n"), "{text}");
    assert!(
        refused(&folder, "query --topology net.toml --packet edge-1.pcap --frame 2 --quoted --at edge-1")
            .contains("--quoted")
    );
}

#[test]
fn programs_get_all_of_it() {
    let folder = network();
    let text = printed(&folder, "query --topology net.toml --packet edge-1.pcap --frame 14 --at edge-1 --json");
    let value: Value = serde_json::from_str(&text).unwrap();
    let hops = ["edge-3", "core", "edge-1"];
    let path = serde_json::json!({ "hops": hops, "is_open": false, "may_come_from": [], "may_be_rewritten_at": [] });
    assert_eq!(value["paths"], serde_json::json!([path]));
    assert_eq!((&value["is_trusted"], &value["untrusted"]), (&true.into(), &Value::Null));
    assert_eq!(value["window"], serde_json::json!({ "from": START + 8, "to": START + 18 }));
    assert!(value["false_positive"].as_f64().unwrap() < 1e-4, "{text}");
    let hop = |at: usize, field: &str| value["hops"][at][field].clone();
    assert_eq!((hop(0, "name"), hop(0, "behind")), ("edge-1".into(), Value::Null));
    assert_eq!(
        (hop(2, "name"), hop(2, "answer"), hop(2, "behind")),
        ("edge-2".into(), "not_seen".into(), "core".into())
    );
    assert_eq!((hop(2, "is_covered"), hop(4, "is_covered")), (true.into(), false.into()));
    assert_eq!(hop(4, "answer"), "unknown");
}

#[test]
fn a_path_says_from_where_else_it_may_have_come() {
    let folder = network();
    // Packet 25 came via core. edge-1 and edge-4 recorded nothing at that time.
    folder.write("edge-2.pcap", capture((20..30).step_by(2), 1));
    folder.write("edge-3.pcap", capture((20..30).step_by(3), 1));
    folder.write("core.pcap", capture(20..30, 2));
    for name in ["edge-2", "edge-3", "core"] {
        printed(&folder, &format!("record {name}.pcap --as {name} -o {name} --false-positive-rate 0.000001"));
    }
    let query = "query --topology net.toml --packet core.pcap --frame 6 --at core --within 1ms";
    let text = printed(&folder, query);
    assert!(
        text.contains(
            "\npath: … → core (it may have come from edge-1 or edge-4, whose record is missing or incomplete)\n"
        ),
        "{text}"
    );
    let value: Value = serde_json::from_str(&printed(&folder, &format!("{query} --json"))).unwrap();
    let from = ["edge-1", "edge-4"];
    let path =
        serde_json::json!({ "hops": ["core"], "is_open": true, "may_come_from": from, "may_be_rewritten_at": [] });
    assert_eq!(value["paths"], serde_json::json!([path]));
}

#[test]
fn a_damaged_page_is_told_and_the_others_are_summed_up() {
    let folder = Folder::new();
    folder.write("a.pcap", capture(0..130, 0));
    printed(&folder, "record a.pcap --as edge-1 -o pages");
    let mut pages: Vec<_> =
        std::fs::read_dir(folder.path("pages")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.metadata().unwrap().len() > 100);
    pages.sort();
    let mut bytes = std::fs::read(&pages[1]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&pages[1], bytes).unwrap();
    let output = trace(&folder, "info pages --json");
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rest = info["packets"].as_u64().unwrap();
    assert!(rest > 0 && rest < 130 && info["pages"] == pages.len() - 1, "{info}");
    assert_eq!(info["faults"].as_array().unwrap().len(), 1);
}

#[test]
fn a_packet_may_come_in_digits() {
    let folder = network();
    let digits: String = frame(4, 3)[14..].iter().map(|byte| format!("{byte:02x}")).collect();
    let query = format!("query --topology net.toml --hex {digits} --at edge-1");
    assert!(printed(&folder, &query).contains("path: edge-2 → core → edge-1"));
    let later = trace(&folder, &format!("{query} --time {}", START + 3600));
    assert_eq!(later.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&later.stdout).contains("unknown"), "{later:?}");
}

#[test]
fn what_nobody_saw_is_told_by_the_exit_code() {
    let folder = network();
    folder.write("stranger.pcap", capture(30..31, 0));
    let time = START + 10;
    let output = trace(&folder, &format!("query --topology net.toml --packet stranger.pcap --at core --time {time}"));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("core       0  not seen") && !text.contains("path"), "{text}");
}

#[test]
fn a_capture_may_come_through_a_pipe() {
    let folder = Folder::new();
    let output = trace_with(&folder, "record - --as edge-1 -o pages", &capture(0..70, 0));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("edge-1: 70 packets in 2 pages, "), "{text}");
    let info: Value = serde_json::from_str(&printed(&folder, "info pages --json")).unwrap();
    assert_eq!((&info["packets"], &info["pages"], &info["names"][0]), (&70.into(), &2.into(), &"edge-1".into()));
    assert_eq!(info["span"], serde_json::json!({ "from": START, "to": START + 69 }));
    let text = printed(&folder, "info pages");
    assert!(text.contains("when          2023-11-14 22:13:20 to 22:14:29\n"), "{text}");
}

#[test]
fn a_capture_that_breaks_off_is_recorded_up_to_there_and_told() {
    let folder = Folder::new();
    let whole = capture(0..10, 0);
    folder.write("cut.pcap", &whole[..whole.len() - 5]);
    folder.write("none.pcap", "not a capture, but long enough to be one");
    let output = trace(&folder, "record none.pcap cut.pcap --as edge-1 -o pages");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("edge-1: 9 packets in 1 page, "), "{output:?}");
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(
        complaints.starts_with("bruit-lab: none.pcap: ") && complaints.contains("\nbruit-lab: cut.pcap: "),
        "{complaints}"
    );
}

#[test]
fn what_has_no_packet_is_counted() {
    let folder = Folder::new();
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    let whole = frame(1, 0);
    let arp = [&whole[..12], &[8, 6], &[0; 28]].concat();
    for frame in [&whole[..], &arp, &whole[..14 + 20 + 7]] {
        writer.write(START * 1_000_000_000, frame).unwrap();
    }
    folder.write("mixed.pcap", writer.finish().unwrap());
    let text = printed(&folder, "record mixed.pcap --as edge-1 -o pages");
    assert!(text.contains("\n1 frame contained no supported packet (1 not IP)\n"), "{text}");
    assert!(text.contains("\n1 frame skipped: too little was captured\n"), "{text}");
}

#[test]
fn the_oldest_pages_go_and_that_is_told() {
    let folder = Folder::new();
    folder.write("a.pcap", capture(0..600, 0));
    let text = printed(&folder, "record a.pcap --as edge-1 -o pages --page-items 1000 --disk 12KiB");
    assert!(text.contains("older pages deleted to free space\n"), "{text}");
    let info: Value = serde_json::from_str(&printed(&folder, "info pages --json")).unwrap();
    assert!(info["bytes"].as_u64().unwrap() <= 12 * 1024, "{info}");
}

#[test]
fn a_directory_is_followed_until_ctrl_c() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("captures")).unwrap();
    for (name, second) in [("captures/1", 1), ("captures/2", 2)] {
        folder.write(name, capture(0..10, 0));
        set_modified(&folder.path(name), second);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["trace", "record", "--follow", "captures", "--as", "edge-1", "-o", "pages"]);
    let mut child = command.current_dir(folder.path("")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    // The second file may still be written to. It is complete once a third file exists.
    assert_eq!(next(), "captures/1: 10 packets");
    folder.write("later", capture(20..30, 0));
    set_modified(&folder.path("later"), 3);
    std::fs::rename(folder.path("later"), folder.path("captures/3")).unwrap();
    assert_eq!(next(), "captures/2: 10 packets");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(next(), "captures/3: 10 packets");
    assert!(next().starts_with("edge-1: 30 packets in "));
    assert!(child.wait().unwrap().success());
    let info: Value = serde_json::from_str(&printed(&folder, "info pages --json")).unwrap();
    assert_eq!(info["packets"], 30);
}

#[test]
fn what_was_followed_is_not_taken_again_by_the_next_run() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("captures")).unwrap();
    folder.write("captures/1", capture(0..10, 0));
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
        command.args(["trace", "record", "--follow", "captures", "--as", "edge-1", "-o", "pages"]);
        let mut child = command.current_dir(folder.path("")).stdout(Stdio::piped()).spawn().unwrap();
        ended(&folder, &mut child, Signal::SIGTERM)
    };
    assert!(run().starts_with("captures/1: 10 packets\nedge-1: 10 packets in 1 page, "));
    assert!(run().starts_with("edge-1: 0 packets in 0 pages, "));
    folder.write("captures/1", capture(0..20, 0));
    assert!(run().starts_with("captures/1: 20 packets\n"), "the file has grown");
}

/// Sends a signal to a program that runs with --follow, once it handles the signal. Returns the program's output.
fn ended(folder: &Folder, child: &mut std::process::Child, signal: Signal) -> String {
    wait_for(|| folder.path("pages/pages.bruit").exists() && catches(child.id(), signal));
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    text
}

#[test]
fn a_pipe_in_which_nothing_comes_is_recorded_when_the_program_is_asked_to_end() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = Folder::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
        command.args(["trace", "record", "-", "--as", "edge-1", "-o", "pages"]).current_dir(folder.path(""));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The input ends with half a frame, and the pipe stays open. A page is written when a frame arrives whose time
        // is past the end of the page.
        let whole = capture((0..130).step_by(10), 0);
        child.stdin.as_mut().unwrap().write_all(&whole[..whole.len() - 5]).unwrap();
        wait_for(|| pages(&folder) == 1);
        let text = ended(&folder, &mut child, signal);
        assert!(text.starts_with("edge-1: 12 packets in "), "{text}");
        let info: Value = serde_json::from_str(&printed(&folder, "info pages --json")).unwrap();
        assert_eq!(info["packets"], 12);
    }
}

fn pages(folder: &Folder) -> usize {
    let Ok(entries) = std::fs::read_dir(folder.path("pages")) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|name| name == "page")).count()
}

/// Returns true if a process has a handler for a signal, according to the system.
fn catches(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as i32 - 1) & 1 == 1
}

fn wait_for(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "nothing happened for a minute");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_gathered_is_written_even_if_nobody_reads_what_is_printed() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("captures")).unwrap();
    folder.write("captures/1", capture(0..10, 0));
    folder.write("captures/2", capture(10..20, 0));
    set_modified(&folder.path("captures/1"), 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["trace", "record", "--follow", "captures", "--as", "edge-1", "-o", "pages"]);
    let mut child = command.current_dir(folder.path("")).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    let info: Value = serde_json::from_str(&printed(&folder, "info pages --json")).unwrap();
    assert_eq!(info["packets"], 10);
}

#[test]
fn times_more_than_a_day_ahead_are_left_out_and_told() {
    let folder = Folder::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    // A capture stores seconds in 32 bits.
    for second in [now, now + 2 * 86_400, u64::from(u32::MAX)] {
        writer.write(second * 1_000_000_000, &frame(1, 0)).unwrap();
    }
    folder.write("odd.pcap", writer.finish().unwrap());
    let text = printed(&folder, "record odd.pcap --as edge-1 -o pages");
    assert!(text.starts_with("edge-1: 1 packet in 1 page, "), "{text}");
    assert!(text.contains("\n2 frames dated more than a day in the future, skipped\n"), "{text}");
}

fn set_modified(path: &Path, second: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(START + second);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

const MESSAGE: &str = "From: ann@example.org\nDate: Tue, 14 Nov 2023 22:10:00 +0000\nMessage-ID: <1@example.org>\n\
    Subject: hello\n\nSee you at noon.\n";

#[test]
fn a_message_is_found_at_the_servers_that_had_it() {
    let folder = Folder::new();
    folder.write("message.eml", MESSAGE);
    let relayed = |second: u32| format!("Received: by mx; Tue, 14 Nov 2023 22:13:{second} +0000\n{MESSAGE}");
    folder.write("mx-1.eml", relayed(20));
    folder.write("mx-2.eml", relayed(40).replace('\n', "\r\n"));
    folder.write("mx-3.eml", relayed(30).replace("noon", "nine"));
    let mut topology = String::new();
    for name in ["mx-1", "mx-2", "mx-3"] {
        printed(&folder, &format!("record --mail {name}.eml --as {name} -o {name} --false-positive-rate 0.000001"));
        topology.push_str(&format!("[[server]]\nname = \"{name}\"\npages = \"{name}\"\n"));
    }
    folder.write("servers.toml", topology);
    let text = printed(&folder, "query --topology servers.toml --message message.eml");
    assert!(text.starts_with("message <1@example.org>\n\nserver  hops  answer "), "{text}");
    let rows: Vec<_> = text.lines().skip(3).collect();
    assert_eq!(rows[4], "time searched: 2023-11-14 21:10:00 to 2023-11-21 22:10:00");
    assert!(rows[5].starts_with("false sightings by servers: probability of one or more ≤ 0.000 %"));
    assert!(rows[0].starts_with("mx-1       0  seen ") && rows[0].ends_with("2023-11-14 22:13:20"), "{text}");
    assert!(rows[1].starts_with("mx-2       0  seen ") && rows[1].ends_with("2023-11-14 22:13:40"), "{text}");
    assert!(rows[2].starts_with("mx-3       0  not seen "), "{text}");
    let info = printed(&folder, "info mx-1");
    assert!(info.contains("\nmessages      1\n"), "{info}");
}

#[test]
fn a_message_is_asked_for_in_its_own_time_and_an_answer_that_means_little_is_told() {
    let folder = Folder::new();
    folder.write("message.eml", MESSAGE);
    folder.write("servers.toml", "[[server]]\nname = \"mx\"\npages = \"mx\"\n");
    // There are 16 pages of one day each, with a false-positive rate of 0.1. The message is in the first.
    let received = |day: u64, message: &str| format!("Received: by mx; {day} Nov 2023 22:13:20 +0000\n{message}");
    folder.write("1.eml", received(14, MESSAGE));
    (15..30)
        .for_each(|day| folder.write(&format!("{day}.eml"), received(day, &MESSAGE.replace("noon", &day.to_string()))));
    let days: Vec<_> = (15..30).map(|day| format!("{day}.eml")).collect();
    let record = format!("record --mail 1.eml {} --as mx -o mx --false-positive-rate 0.1", days.join(" "));
    printed(&folder, &record);
    let query =
        |words: &str| trace(&folder, &format!("query --topology servers.toml --message message.eml --json{words}"));
    let (week, day) = (query(""), query(" --time 1700000000"));
    let pages = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap()["hops"][0]["pages"].clone();
    assert_eq!((pages(&week), pages(&day)), (8.into(), 1.into()));
    let warning = String::from_utf8(week.stderr).unwrap();
    assert!(week.status.success() && warning.contains("narrow the time with --time"), "{warning}");
}

#[test]
fn faults_are_told_in_one_line() {
    let folder = network();
    folder.write("message.eml", MESSAGE);
    let query = |words: &str| refused(&folder, &format!("query --topology net.toml {words}"));
    assert_eq!(query("--packet edge-1.pcap --at nowhere"), "bruit-lab: the topology has no router nowhere\n");
    assert_eq!(
        query("--packet edge-2.pcap --frame 11 --at core"),
        "bruit-lab: edge-2.pcap: has only 10 frames, so there is no frame 11\n"
    );
    assert!(query("--message message.eml").contains("has trace-packets pages, expected trace-messages pages"));
    let mbox = format!("From a\n{MESSAGE}\nFrom b\n{MESSAGE}");
    folder.write("mbox", mbox);
    assert_eq!(query("--message mbox"), "bruit-lab: mbox: more than one message\n");
    assert!(query("--hex 45 --at core").contains("truncated within a header"));
    assert!(query("--hex 4 --at core").contains("odd number of hexadecimal digits"));
    assert!(query("").contains("required"));
    let record = |words: &str| refused(&folder, &format!("record edge-1.pcap {words}"));
    assert!(record("--as edge-1 -o net.toml").contains("net.toml"));
    assert!(record("--as edge-1 -o .").contains("is not a directory of pages"));
    assert!(record("--as edge-1 -o new --page 500ms").contains("1 to 86400 seconds"));
    assert!(record("--as edge-1 -o edge-1 --mail").contains("has trace-packets pages"));
    assert!(record("--as edge-1 -o new3 --disk 1M").contains("--disk: a page needs "));
    assert!(record("--as edge-1 -o new2 --follow").contains("only directories can be followed"));
    assert!(refused(&folder, "info .").contains("is not a directory of pages"));
}
