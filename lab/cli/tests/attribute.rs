//! Tests of `bruit-lab attribute` on the command line: it reads captures and mail, and prints who carried an excerpt.

mod common;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use bruit_forensics::generate::{Plant, PlantedExcerpt, Traffic, Truth};
use common::{Folder, json, lab, printed, refused};

/// The excerpt to search for. Random payloads do not contain it.
const EXCERPT: &str =
    "This program must not be run in a mailbox, and nobody should answer to it; 96 bytes are enough, are they";

/// Creates a folder with `capture`, a file in which two packets carry the excerpt. Also returns the expected results.
fn with_capture() -> (Folder, Truth) {
    let folder = Folder::new();
    let plant = |packet, offset| Plant { packet, offset, excerpt: EXCERPT.into() };
    let traffic = Traffic { packets: 3000, planted: vec![plant(500, 10), plant(2500, 300)], ..Traffic::default() };
    let mut file = Vec::new();
    let truth = traffic.write(&mut file).unwrap();
    folder.write("capture", file);
    (folder, truth)
}

/// Like [`with_capture`], but also builds `pages` from the capture.
fn with_pages() -> (Folder, Truth) {
    let (folder, truth) = with_capture();
    printed(&["attribute", "build", &path(&folder, "capture"), "-o", &path(&folder, "pages")]);
    (folder, truth)
}

fn path(folder: &Folder, name: &str) -> String {
    folder.path(name).to_str().unwrap().to_owned()
}

fn pair(planted: &PlantedExcerpt) -> (String, String) {
    (planted.flow.source.to_string(), planted.flow.destination.to_string())
}

#[test]
fn those_who_carried_an_excerpt_are_named_with_time_and_confidence() {
    let (folder, truth) = with_capture();
    let (capture, pages) = (path(&folder, "capture"), path(&folder, "pages"));
    let summary = printed(&["attribute", "build", &capture, "-o", &pages]);
    assert!(summary.starts_with("3,000 packets with ") && summary.contains(" of payload in 1 page, "), "{summary}");

    let value = json(&["attribute", "query", &pages, "--text", EXCERPT, "--json"]);
    let found = value["found"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["part"]["is_whole"]), (1, &true.into()));
    let pairs = found[0]["pairs"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut named: Vec<_> = pairs.iter().map(|pair| (text(&pair["source"]), text(&pair["destination"]))).collect();
    let mut expected: Vec<_> = truth.planted.iter().map(pair).collect();
    named.sort();
    expected.sort();
    expected.dedup();
    assert_eq!(named, expected);
    assert!(pairs.iter().all(|pair| pair["part"]["confidence"].as_f64().unwrap() > 0.98), "{value}");

    let text = printed(&["attribute", "query", &pages, "--text", EXCERPT]);
    assert!(text.starts_with("2023-11-14 22:10:00 to 22:19:59: all of it from byte "), "{text}");
    for (source, destination) in &expected {
        assert!(text.contains(&format!("\n  {source} -> {destination}: all its blocks from byte ")), "{text}");
    }
    assert!(
        text.contains(" from byte 10 on (bytes 22 to 85 of 104 compared)"),
        "expected the offset of the excerpt, not of a block: {text}"
    );
    assert!(text.contains(" from byte 300 on (bytes 20 to 83 of 104 compared)"), "{text}");
}

#[test]
fn an_excerpt_may_come_as_a_file_as_digits_or_on_standard_input() {
    let (folder, _) = with_pages();
    let pages = path(&folder, "pages");
    folder.write("excerpt", EXCERPT);
    let digits: String = EXCERPT.bytes().map(|byte| format!("{byte:02x} ")).collect();
    let by_text = printed(&["attribute", "query", &pages, "--text", EXCERPT]);
    assert_eq!(printed(&["attribute", "query", &pages, "--excerpt", &path(&folder, "excerpt")]), by_text);
    assert_eq!(printed(&["attribute", "query", &pages, "--hex", &digits]), by_text);

    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["attribute", "query", &pages, "--excerpt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(EXCERPT.as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, by_text.as_bytes());
}

#[test]
fn what_nobody_carried_is_not_found_and_the_exit_code_says_so() {
    let (folder, _) = with_pages();
    let output = lab(&["attribute", "query", &path(&folder, "pages"), "--text", &"never seen ".repeat(20)]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"not found in 1 page\n"[..]));
}

/// Regression test: if an excerpt contained fewer than two whole blocks, it was reported as "not found" although
/// packets had carried it.
#[test]
fn an_excerpt_too_short_to_tell_is_never_reported_as_absent() {
    let (folder, _) = with_pages();
    let pages = path(&folder, "pages");
    let query = |text: &str| lab(&["attribute", "query", &pages, "--text", text, "--json"]);
    let verdict = |text: &str| {
        let output = query(text);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["bytes_to_tell"], 95, "{value}");
        (value["verdict"].as_str().unwrap().to_owned(), output.status.code().unwrap())
    };
    // The packets carry every prefix of the excerpt. A prefix of 95 bytes or more is found; a shorter one may be
    // reported as too short.
    let mut short = 0;
    for bytes in [1, 40, 63, 64, 70, 94, 95, EXCERPT.len()] {
        for start in 0..=(EXCERPT.len() - bytes).min(9) {
            let (verdict, code) = verdict(&EXCERPT[start..start + bytes]);
            match code {
                3 => assert!(verdict == "too_short" && bytes < 95, "{bytes} bytes from {start}: {verdict}"),
                code => assert_eq!((verdict.as_str(), code), ("found", 0), "{bytes} bytes from {start}"),
            }
            short += u32::from(code == 3 && bytes >= 64);
        }
    }
    assert!(short > 0, "some excerpts of 64 to 94 bytes are too short to tell");
    // If a short excerpt is found, some of its carriers may still be missing.
    let found = printed(&["attribute", "query", &pages, "--text", &EXCERPT[..94]]);
    let note = "the excerpt is shorter than 95 bytes: other pairs may also have carried it\n";
    assert!(found.ends_with(note), "{found}");
    let found = json(&["attribute", "query", &pages, "--text", &EXCERPT[..95], "--json"]);
    assert_eq!(found["is_long_enough"], true);
    // An excerpt that no packet carries is reported as not found if it is at least 95 bytes long.
    let never = "never seen in any of these packets, ".repeat(3);
    assert_eq!(verdict(&never[..94]), ("too_short".to_owned(), 3));
    assert_eq!(verdict(&never[..95]), ("not_found".to_owned(), 1));
    let output = lab(&["attribute", "query", &pages, "--text", "brief"]);
    let summary = String::from_utf8(output.stdout).unwrap();
    assert_eq!(summary, "too short to tell: 5 bytes not found in 1 page; it takes 95 bytes to tell\n");
}

#[test]
fn several_directories_are_asked_at_once() {
    let (folder, _) = with_pages();
    let (pages, other) = (path(&folder, "pages"), path(&folder, "other"));
    let traffic = Traffic { packets: 500, seed: 9, ..Traffic::default() };
    let mut file = Vec::new();
    traffic.write(&mut file).unwrap();
    folder.write("capture-2", file);
    printed(&["attribute", "build", &path(&folder, "capture-2"), "-o", &other, "--block-bytes", "16"]);
    let value = json(&["attribute", "query", &other, &pages, "--text", EXCERPT, "--json"]);
    assert_eq!((&value["pages_asked"], &value["bytes_to_tell"]), (&2.into(), &95.into()), "{value}");
    let found = value["found"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["directory"]), (1, &pages.clone().into()));
    let text = printed(&["attribute", "query", &other, &pages, "--text", EXCERPT]);
    assert!(text.starts_with(&format!("{pages}: 2023-11-14 22:10:00 to 22:19:59: all of it")), "{text}");
    // With 16-byte blocks, 47 bytes are enough for a result; with 32-byte blocks, they are not.
    let output = lab(&["attribute", "query", &other, &pages, "--text", &"x".repeat(50)]);
    assert_eq!(output.status.code(), Some(3));
    let output = lab(&["attribute", "query", &other, "--text", &"x".repeat(47)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(refused(&["attribute", "query", &pages, "nowhere", "--text", EXCERPT]).contains("nowhere"));
}

/// Regression test: the command in the help and in docs/survey failed, because a day of packets needs more than the
/// default `--disk`.
#[test]
fn mail_is_recorded_in_pages_of_a_day_with_the_default_disk() {
    let folder = Folder::new();
    let date = "Received: by mx.example.org; Tue, 14 Nov 2023 22:13:20 +0000";
    folder.write("1.eml", format!("{date}\nFrom: a@bad.example\nTo: b@example.org\n\n{EXCERPT}\n"));
    let (mail, pages) = (path(&folder, "1.eml"), path(&folder, "pages"));
    let summary = printed(&["attribute", "build", "--mail", &mail, "-o", &pages, "--page", "1d"]);
    assert!(summary.starts_with("1 message with ") && summary.contains(" in 1 page, "), "{summary}");
    let text = printed(&["attribute", "query", &pages, "--text", EXCERPT]);
    assert!(text.starts_with("2023-11-14 00:00:00 to 23:59:59: all of it"), "{text}");
    let (old, earlier) = (path(&folder, "old"), ["--page-minutes", "1440"]);
    let summary = printed(&[&["attribute", "build", "--mail", &mail, "-o", &old], &earlier[..]].concat());
    assert!(summary.contains(" in 1 page, "), "{summary}");
}

#[test]
fn no_more_than_chance_shows_is_not_found_and_told_as_doubt() {
    let folder = Folder::new();
    let traffic = Traffic { packets: 20_000, payload_bytes: 1000..=1000, ..Traffic::default() };
    let mut file = Vec::new();
    traffic.write(&mut file).unwrap();
    folder.write("capture", file);
    let (capture, pages) = (path(&folder, "capture"), path(&folder, "pages"));
    // With 0.7 MB for 600,000 blocks, there are false hits: any two consecutive blocks of any text match some pair of
    // hosts.
    printed(&["attribute", "build", &capture, "-o", &pages, "--bytes-per-hour", "4M"]);
    let query = |text: &str, more: &[&str]| lab(&[&["attribute", "query", &pages, "--text", text], more].concat());
    let never = &EXCERPT[..64];
    let output = query(never, &[]);
    let summary = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{summary}");
    let end = "too short to tell: 64 bytes not found in 1 page, 1 of them in doubt; it takes 95 bytes to tell\n";
    assert!(summary.contains(": in doubt: ") && summary.ends_with(end), "{summary}");
    let output = query(never, &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lengths = ["found", "doubtful"].map(|name| value[name].as_array().unwrap().len());
    assert_eq!((output.status.code(), lengths), (Some(3), [0, 1]), "{value}");
}

#[test]
fn pages_of_other_times_are_not_asked() {
    let (folder, _) = with_pages();
    let pages = path(&folder, "pages");
    let asked = |limits: &[&str]| {
        let output = lab(&[&["attribute", "query", &pages, "--text", EXCERPT, "--json"], limits].concat());
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (value["pages_asked"].as_u64().unwrap(), output.status.code().unwrap())
    };
    assert_eq!(asked(&["--from", "2023-11-14 22:19:59", "--to", "2023-11-15"]), (1, 0));
    assert_eq!(asked(&["--to", "2023-11-14 22:10"]), (1, 0));
    assert_eq!(asked(&["--from", "2023-11-14 22:20"]), (0, 1));
    assert_eq!(asked(&["--to", "2023-11-14T22:09:59"]), (0, 1));
    assert!(
        refused(&["attribute", "query", &pages, "--text", EXCERPT, "--from", "noon"]).contains("seconds since 1970")
    );
}

#[test]
fn a_damaged_page_is_told_and_the_others_are_asked() {
    let (folder, _) = with_pages();
    let pages = path(&folder, "pages");
    let whole = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).find(|path| is_page(path)).unwrap();
    // Add a page of the previous ten minutes, with a byte changed.
    let name = whole
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .replace("1699999800", "1699999200")
        .replace("1700000399", "1699999799");
    let mut bytes = fs::read(&whole).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(folder.path("pages").join(&name), bytes).unwrap();
    for verb in [&["query", &pages, "--text", EXCERPT, "--json"][..], &["info", &pages, "--json"]] {
        let output = lab(&[&["attribute"], verb].concat());
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
        assert!(complaint.contains(&name), "{complaint}");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let asked = [&value["pages_asked"], &value["pages_not_asked"], &value["unread_pages"]];
        match verb[0] {
            "query" => {
                assert_eq!((asked[0], asked[1], value["found"].as_array().unwrap().len()), (&1.into(), &1.into(), 1))
            }
            _ => assert_eq!((asked[2], told_payloads(&value)), (&1.into(), 3000)),
        }
    }
}

/// Returns the number of payloads in the output of `info`.
fn told_payloads(value: &serde_json::Value) -> u64 {
    ["payloads", "short_payloads"].iter().map(|name| value[name].as_u64().unwrap()).sum()
}

/// Returns true if a file is a page, false if it is the directory's marker file.
fn is_page(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension == "page")
}

#[test]
fn who_received_this_phish() {
    let folder = Folder::new();
    let phish =
        "Dear customer, your account will be closed today unless you confirm your password at the address below:\n";
    let message = |to: &str, body: &str| {
        format!(
            "Received: by mx.example.org; Tue, 14 Nov 2023 22:13:20 +0000\nFrom: Bank <bank@bad.example>\nTo: {to}\n\
            Content-Transfer-Encoding: quoted-printable\n\n{body}\n"
        )
    };
    fs::create_dir(folder.path("mail")).unwrap();
    folder.write("mail/1", message("ann@example.org", &phish.replace('o', "=6F")));
    folder.write("mail/2", message("bob@example.org, Carl <carl@example.org>", &format!("Hello!\n\n{phish}")));
    folder.write("mail/3", message("dora@example.org", &"Shall we meet for lunch? I know a good place.\n".repeat(5)));
    let (mail, pages) = (path(&folder, "mail"), path(&folder, "pages"));
    let built = printed(&["attribute", "build", "--mail", &mail, "-o", &pages, "--block-bytes", "16"]);
    assert!(built.starts_with("3 messages with "), "{built}");
    let value = json(&["attribute", "query", &pages, "--text", phish, "--json"]);
    let pairs = value["found"][0]["pairs"].as_array().unwrap();
    let mut received: Vec<_> = pairs.iter().map(|pair| pair["destination"].as_str().unwrap()).collect();
    received.sort_unstable();
    assert_eq!(received, ["ann@example.org", "bob@example.org", "carl@example.org"]);
    assert!(pairs.iter().all(|pair| pair["source"] == "bank@bad.example"));
}

#[test]
fn info_tells_what_was_recorded() {
    let (folder, _) = with_capture();
    let (capture, pages) = (path(&folder, "capture"), path(&folder, "pages"));
    let built = json(&["attribute", "build", &capture, "-o", &pages, "--json"]);
    let summary = json(&["attribute", "info", &pages, "--json"]);
    for name in ["payloads", "payload_bytes", "short_payloads", "unlisted_payloads", "pages"] {
        assert_eq!(summary[name], built[name], "{name}");
    }
    assert!(summary["payload_digest_rate_max"].as_f64().unwrap() <= 0.01, "{summary}");
    let text = printed(&["attribute", "info", &pages]);
    assert!(text.contains("when                   2023-11-14 22:10:00 to 22:19:59\n"), "{text}");
}

#[test]
fn a_broken_capture_is_recorded_as_far_as_it_goes_and_told() {
    let (folder, _) = with_capture();
    let whole = folder.read("capture");
    folder.write("cut", &whole[..whole.len() - 5]);
    let pages = path(&folder, "pages");
    let output = lab(&["attribute", "build", &path(&folder, "cut"), "-o", &pages]);
    let (summary, complaint) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(summary.starts_with("2,999 packets with "), "{summary}");
    assert!(complaint.contains("cut: truncated: the part at byte "), "{complaint}");
    printed(&["attribute", "query", &pages, "--text", EXCERPT]);
}

#[test]
fn a_directory_is_followed_until_the_program_is_asked_to_end_and_the_output_is_one_object() {
    let (folder, _) = with_capture();
    fs::create_dir(folder.path("captures")).unwrap();
    fs::rename(folder.path("capture"), folder.path("captures/1")).unwrap();
    let (captures, pages) = (path(&folder, "captures"), path(&folder, "pages"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["attribute", "build", "--follow", &captures, "-o", &pages, "--json"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let process = nix::unistd::Pid::from_raw(child.id() as i32);
    // The program installs its signal handler before it reads directories.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let status = || fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let catches = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim).map(str::to_owned));
        u64::from_str_radix(&mask.unwrap(), 16).unwrap() >> 14 & 1 == 1
    };
    while !catches(status()) {
        assert!(std::time::Instant::now() < end, "the program did not install its signal handler");
        std::thread::yield_now();
    }
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &value["taken"], &value["pages"]), (Some(0), &3000.into(), &1.into()));
    printed(&["attribute", "query", &pages, "--text", EXCERPT]);
}

#[test]
fn packets_that_the_capture_cut_are_told() {
    let (folder, _) = with_capture();
    let mut capture = fs::read(folder.path("capture")).unwrap();
    // Position of the length on the wire: it is in the header of the first frame, after the file header.
    let length = u32::from_le_bytes(capture[36..40].try_into().unwrap());
    capture[36..40].copy_from_slice(&(length + 100).to_le_bytes());
    folder.write("cut", capture);
    let summary = printed(&["attribute", "build", &path(&folder, "cut"), "-o", &path(&folder, "pages")]);
    assert!(
        summary.contains("\n1 packet truncated by the capture; only the captured part was recorded\n"),
        "{summary}"
    );
}

#[test]
fn mail_that_claims_to_be_of_the_far_future_is_left_out_and_told() {
    let folder = Folder::new();
    let body = "Nothing that anybody would look for, but long enough for a block.\n".repeat(3);
    folder.write("future.eml", format!("From: a@bad.example\nDate: Tue, 14 Nov 2500 22:13:20 +0000\n\n{body}"));
    let (mail, pages) = (path(&folder, "future.eml"), path(&folder, "pages"));
    let summary = printed(&["attribute", "build", "--mail", &mail, "-o", &pages]);
    assert!(summary.ends_with("1 message dated more than a day in the future, skipped\n"), "{summary}");
}

#[test]
fn what_cannot_be_done_is_told_in_one_line() {
    let (folder, _) = with_pages();
    let (capture, pages) = (path(&folder, "capture"), path(&folder, "pages"));
    let query = |arguments: &[&str]| refused(&[&["attribute", "query", &pages], arguments].concat());
    assert!(query(&["--hex", "0g"]).contains("'g' is not a hexadecimal digit"));
    assert!(query(&["--excerpt", "nowhere"]).contains("nowhere: "));
    assert!(query(&[]).contains("--excerpt"));
    folder.write("long", vec![0; 65_537]);
    assert!(query(&["--excerpt", &path(&folder, "long")]).contains("at most 65536 bytes"));
    let build = |arguments: &[&str]| refused(&[&["attribute", "build", &capture, "-o"], arguments].concat());
    assert!(build(&[&pages, "--bytes-per-hour", "1k"]).contains("allow more bytes per hour"));
    let small = path(&folder, "small");
    assert!(build(&[&small, "--disk", "8M"]).contains("--disk: a page needs 1118"));
    assert!(!folder.path("small").exists(), "the arguments are checked before the directory is created");
    folder.write("file", "x");
    assert!(build(&[&path(&folder, "file")]).contains("file"));
    assert!(refused(&["attribute", "info", &path(&folder, "nothing")]).contains("not a directory of pages"));
}
