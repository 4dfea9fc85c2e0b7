//! `bruit-lab flows` on captures and mailboxes with known contents.

mod common;

use std::collections::HashMap;
use std::process::{Command, Output, Stdio};

use bruit_forensics::generate::{CaptureWriter, Flow, Traffic, Truth};
use common::{Folder, json, lab, peak_memory_bytes, printed, refused};
use serde_json::Value;

/// Maximum memory that the program may use in addition to its memory option.
const EXTRA_BYTES: u64 = 32 << 20;

fn write(folder: &Folder, name: &str, traffic: &Traffic) -> Truth {
    let mut file = Vec::new();
    let truth = traffic.write(&mut file).unwrap();
    folder.write(name, file);
    truth
}

fn path(folder: &Folder, name: &str) -> String {
    folder.path(name).to_str().unwrap().to_owned()
}

fn describe(flow: &Flow) -> String {
    let name = if flow.protocol == 6 { "tcp" } else { "udp" };
    format!("{}:{} > {}:{} {name}", flow.source, flow.ports.0, flow.destination, flow.ports.1)
}

/// Runs `bruit-lab flows` with `input` as standard input.
fn run_with(arguments: &[&str], input: Vec<u8>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.arg("flows").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
    child.wait_with_output().unwrap()
}

/// Writes a capture of three flows with 5, 2 and 1 packets, and an ARP frame.
fn small(folder: &Folder) {
    let traffic = Traffic::default();
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    let mut frame = Vec::new();
    for (rank, packets) in [(0, 5), (1, 2), (2, 1)] {
        for number in 0..packets {
            traffic.flow(rank).frame(number, 64, b"payload", &mut frame);
            writer.write(u64::from(number), &frame).unwrap();
        }
    }
    frame[12..14].copy_from_slice(&[8, 6]);
    writer.write(9, &frame).unwrap();
    folder.write("small.pcap", writer.finish().unwrap());
}

#[test]
fn estimates_are_told_beside_exact_counts_with_their_error() {
    let folder = Folder::new();
    let traffic = Traffic { flows: 2000, packets: 100_000, payload_bytes: 0..=10, ..Traffic::default() };
    let truth = write(&folder, "traffic.pcap", &traffic);
    let file = path(&folder, "traffic.pcap");
    let summary = json(&["flows", "--json", "--exact", "--key", "five-tuple", "--top", "2000", "--seed", "1", &file]);
    assert_eq!(summary["packets"], 100_000);
    let expected: HashMap<String, u64> =
        (0..).zip(&truth.packets).map(|(rank, &n)| (describe(&traffic.flow(rank)), n)).collect();
    let flows = summary["flows"].as_array().unwrap();
    let seen = truth.packets.iter().filter(|&&packets| packets > 0).count();
    assert_eq!((flows.len(), summary["exact"]["flows"].as_u64().unwrap() as usize), (seen, seen));
    let mut covered = 0;
    for flow in flows {
        let packets = expected[flow["flow"].as_str().unwrap()];
        assert_eq!(flow["exact"], packets);
        let bound = |name: &str| flow[name].as_f64().unwrap();
        covered += usize::from((bound("low")..=bound("high")).contains(&(packets as f64)));
        assert!(bound("low") <= bound("estimate") && bound("estimate") <= bound("high"));
    }
    assert!(covered as f64 > 0.93 * seen as f64, "{covered} of {seen}");
    let errors = summary["exact"]["errors"].as_array().unwrap();
    assert_eq!(errors.iter().map(|band| band["flows"].as_u64().unwrap()).sum::<u64>(), seen as u64);
    assert!(errors.iter().all(|band| band["mean_error"].as_f64().unwrap() < 0.5), "{errors:?}");
    let memory = &summary["memory"];
    let counted = memory["filter"].as_u64().unwrap() + memory["names"].as_u64().unwrap();
    assert!((40 << 20..=64 << 20).contains(&counted), "{memory}");
    assert!(peak_memory_bytes() < (64 << 20) + EXTRA_BYTES, "{} bytes", peak_memory_bytes());
}

#[test]
fn the_report_is_what_people_read() {
    let folder = Folder::new();
    small(&folder);
    let report = printed(&["flows", "--exact", "--seed", "1", "--memory", "1M", &path(&folder, "small.pcap")]);
    let expected = "\
packets               8
left out              1 (1 not IP)
memory: filter        896.1 KiB
memory: names         55.0 KiB
fill of the filter    0.0 %
memory: exact counts  219 B
flows                 3

   estimate          95 % interval      exact    error  flow
          5                 5 to 7          5   +0.0 %  10.0.0.0 > 10.0.0.19
          2                 2 to 3          2   +0.0 %  10.0.0.1 > 10.0.0.18
          1                 1 to 2          1   +0.0 %  10.0.0.2 > 10.0.0.6

                packets      flows  mean error     bias  in the interval
                 1 to 9          3       0.0 %   +0.0 %          100.0 %
";
    assert_eq!(report, expected, "{report}");
}

#[test]
fn flows_are_keyed_by_any_list_of_fields() {
    let folder = Folder::new();
    small(&folder);
    let file = path(&folder, "small.pcap");
    let summary = json(&["flows", "--json", "--exact", "--key", "source/8, destination-port", "--seed", "1", &file]);
    assert_eq!(summary["key"], "source/8,destination-port");
    let flows: HashMap<_, _> = summary["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| (flow["flow"].as_str().unwrap(), &flow["exact"]))
        .collect();
    // The three flows of the capture use port 25 or 53.
    let ports = (0..3).map(|rank| Traffic::default().flow(rank).ports.1);
    let packets =
        |port| ports.clone().zip([5, 2, 1]).filter(|&(to, _)| to == port).map(|(_, packets)| packets).sum::<u64>();
    let expected = [25, 53].map(|port| (port, packets(port)));
    for (port, packets) in expected.into_iter().filter(|&(_, packets)| packets > 0) {
        assert_eq!(flows[format!("10.0.0.0/8 destination-port {port}").as_str()], packets, "{summary}");
    }
    assert!(refused(&["flows", "--key", "colour", &file]).contains("unknown field"));
}

#[test]
fn counters_are_saved_merged_and_asked_later() {
    let folder = Folder::new();
    let traffic = |seed| Traffic { flows: 100, packets: 20_000, payload_bytes: 0..=10, seed, ..Traffic::default() };
    let (monday, tuesday) = (write(&folder, "monday.pcap", &traffic(1)), write(&folder, "tuesday.pcap", &traffic(2)));
    let file = |name: &str| path(&folder, name);
    let flows = |arguments: &[&str]| json(&[&["flows", "--json", "--top", "4096"], arguments].concat());
    let [one, two, both] = ["monday.flows", "tuesday.flows", "both.flows"].map(file);
    flows(&["--key", "source", "--memory", "4M", &file("monday.pcap"), "--save", &one]);
    let counted = flows(&["--like", &one, &file("tuesday.pcap"), "--save", &two]);
    assert_eq!((&counted["key"], &counted["packets"]), (&"source".into(), &20_000.into()));
    // A saved file gives the same result as the counter itself. Two files together give the same result as one counter
    // of all packets.
    assert_eq!(flows(&[&two])["flows"], counted["flows"]);
    let merged = flows(&[&one, &two, "--save", &both]);
    assert_eq!(merged["packets"], 40_000);
    assert_eq!(flows(&[&both])["flows"], merged["flows"]);
    let mut truth: HashMap<String, u64> = HashMap::new();
    for (seed, counts) in [(1, &monday), (2, &tuesday)] {
        for (rank, packets) in (0..).zip(&counts.packets) {
            *truth.entry(traffic(seed).flow(rank).source.to_string()).or_default() += packets;
        }
    }
    let is_covered = |flow: &Value| {
        let packets = truth[flow["flow"].as_str().unwrap()] as f64;
        (flow["low"].as_f64().unwrap()..=flow["high"].as_f64().unwrap()).contains(&packets)
    };
    let summary = merged["flows"].as_array().unwrap();
    let covered = summary.iter().filter(|flow| is_covered(flow)).count();
    assert!(covered * 10 > summary.len() * 8, "{covered} of {}", summary.len());
    // Query one flow by the values of its fields.
    let name = summary[0]["flow"].as_str().unwrap();
    let asked = json(&["flows", "--json", &both, "--flow", name]);
    assert_eq!(asked["flows"], Value::Array(vec![summary[0].clone()]));
    // If a file and a capture are given, the packets of the capture are added to the counts of the file.
    assert_eq!(flows(&[&one, &file("tuesday.pcap")])["packets"], 40_000);
}

#[test]
fn counters_that_cannot_be_merged_or_read_are_refused() {
    let folder = Folder::new();
    small(&folder);
    let file = |name: &str| path(&folder, name);
    let capture = file("small.pcap");
    let save = |name: &str, more: &[&str]| {
        let saved = file(name);
        printed(&[&["flows", "--memory", "64K", &capture, "--save", &saved], more].concat());
        saved
    };
    let (ours, theirs, by_source) = (save("ours", &[]), save("theirs", &[]), save("by-source", &["--key", "source"]));
    assert!(refused(&["flows", &ours, &theirs]).contains("theirs: counted with another secret"));
    assert!(refused(&["flows", &ours, &by_source]).contains("counted by source, expected source,destination"));
    assert!(refused(&["flows", &ours, "--exact"]).contains("--exact cannot be used with saved counters"));
    assert!(refused(&["flows", &ours, "--key", "source"]).contains("--key cannot be used with saved counters"));
    assert!(refused(&["flows", &ours, "--flow", "10.0.0.1"]).contains("expected 2 values"));
    assert!(refused(&["flows", &capture, "--save", &capture]).contains("not replaced"));
    let bytes = folder.read("ours");
    folder.write("cut", &bytes[..bytes.len() - 1]);
    assert!(refused(&["flows", &file("cut")]).contains("damaged"));
}

#[test]
fn every_key_makes_flows_of_its_own() {
    let folder = Folder::new();
    small(&folder);
    for (key, first) in [
        ("pair", "10.0.0.0 > "),
        ("five-tuple", "10.0.0.0:1024 > "),
        ("source", "10.0.0.0"),
        ("destination", "10.0.0."),
    ] {
        let summary = json(&["flows", "--json", "--key", key, "--top", "1", &path(&folder, "small.pcap")]);
        let flow = summary["flows"][0]["flow"].as_str().unwrap().to_owned();
        assert!(flow.starts_with(first), "{key}: {flow}");
        assert_eq!(summary["left_out"], serde_json::json!({ "not IP": 1 }));
    }
}

#[test]
fn captures_come_from_standard_input_and_from_directories() {
    let folder = Folder::new();
    small(&folder);
    let output = run_with(&["--json", "-"], folder.read("small.pcap"));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["packets"].as_u64(), output.status.code()), (Some(8), Some(0)));
    folder.copy("small.pcap", "again.pcap");
    assert_eq!(json(&["flows", "--json", &path(&folder, "")])["packets"], 16);
    assert!(refused(&["flows", "-", "-"]).contains("- is given twice"));
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_counted() {
    let folder = Folder::new();
    small(&folder);
    let mut cut = folder.read("small.pcap");
    cut.truncate(cut.len() - 1);
    folder.write("cut.pcap", cut);
    folder.write("letter", "From: someone@example.org\n\nnot a capture");
    let mut long = folder.read("small.pcap");
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.write("long.pcap", long);
    for (name, packets, complaint) in [
        ("cut.pcap", 8, "cut.pcap: truncated: the part at byte 544 is incomplete\n"),
        ("letter", 0, "letter: neither pcap nor pcapng (compressed captures must be decompressed first)\n"),
        ("long.pcap", 0, "long.pcap: the frame at byte 24 is 4294967295 bytes long, over the limit of 262144\n"),
        ("missing", 0, "missing: No such file or directory (os error 2)\n"),
    ] {
        let output = lab(&["flows", "--json", &path(&folder, name)]);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.starts_with("bruit-lab: ") && line.ends_with(complaint), "{line}");
        assert_eq!((output.status.code(), summary["packets"].as_u64()), (Some(2), Some(packets)), "{name}");
    }
}

#[test]
fn messages_are_counted_by_sender() {
    let folder = Folder::new();
    let mut mbox = String::new();
    for from in ["a@example.org", "Bee <B@example.org>", "b@Example.org", "(nobody)"] {
        mbox.push_str(&format!("From x Thu Jan  1 00:00:00 1970\nFrom: {from}\nSubject: hello\n\nbody\n\n"));
    }
    folder.write("mbox", mbox);
    let summary = json(&["flows", "--json", "--exact", "--key", "sender", &path(&folder, "mbox")]);
    assert_eq!((summary["messages"].as_u64(), &summary["left_out"]), (Some(3), &serde_json::json!({ "no sender": 1 })));
    let exact: HashMap<&str, u64> = summary["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| (flow["flow"].as_str().unwrap(), flow["exact"].as_u64().unwrap()))
        .collect();
    assert_eq!(exact, HashMap::from([("a@example.org", 1), ("b@example.org", 2)]));
}

#[test]
fn runs_with_one_seed_are_alike() {
    let folder = Folder::new();
    write(&folder, "traffic.pcap", &Traffic::default());
    let run = |seed: &str| printed(&["flows", "--seed", seed, &path(&folder, "traffic.pcap")]);
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn too_little_memory_is_refused() {
    assert!(refused(&["flows", "--memory", "1K", "x"]).contains("at least 64.0 KiB"));
    assert!(refused(&["flows", "--top", "4097", "x"]).contains("at most 4096"));
    assert!(refused(&["flows", "--follow", "missing"]).contains("only directories can be followed"));
}

#[test]
fn a_pipe_that_is_ended_by_ctrl_c_is_told() {
    let folder = Folder::new();
    small(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["flows", "-", "--exact", "--memory", "1M", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let capture = std::fs::read(folder.path("small.pcap")).unwrap();
    // Keep the input open, like a program that waits for packets.
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &capture).unwrap();
    let status = format!("/proc/{}/status", child.id());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let catches = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> 1 & 1 == 1
    };
    while !catches() {
        assert!(std::time::Instant::now() < end, "the program did not install its signal handler");
        std::thread::yield_now();
    }
    let process = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &summary["packets"]), (Some(0), &8.into()), "{summary}");
}

#[test]
fn memory_that_is_not_there_is_refused_in_one_line() {
    let folder = Folder::new();
    small(&folder);
    let line = refused(&["flows", "--memory", "60GiB", &path(&folder, "small.pcap")]);
    assert!(line.contains("memory"), "{line}");
}
