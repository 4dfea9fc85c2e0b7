//! Tests of `bruit sign`.

mod common;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{Folder, bruit, output_of, printed, refused};
use serde_json::Value;

const MESSAGE: &str = "From: a@example.org\nMessage-ID: <1@example.org>\n\nDear friend,\n\
    Genuine watches at wholesale prices, delivered within seven days.\n\
    See http://shop.example.com/watches?id=7 for the whole list.\n";

/// Maximum length of a message.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

fn path(folder: &Folder, name: &str) -> String {
    folder.path(name).into_os_string().into_string().unwrap()
}

fn with(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, contents) in files {
        fs::create_dir_all(folder.path(name).parent().unwrap()).unwrap();
        folder.write(name, contents);
    }
    folder
}

/// Runs `bruit sign` with `input` as standard input.
fn sign_input(arguments: &[&str], input: &[u8]) -> Output {
    output_of(Command::new(env!("CARGO_BIN_EXE_bruit")).arg("sign").args(arguments), input)
}

/// Parses the printed objects, one per line.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn schemes(object: &Value) -> Vec<&str> {
    object["signatures"].as_array().unwrap().iter().map(|found| found["scheme"].as_str().unwrap()).collect()
}

#[test]
fn one_message_a_line_for_each_signature() {
    let folder = with(&[("mail", MESSAGE)]);
    let text = printed(&["sign", &path(&folder, "mail")]);
    let names: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    let expected = "exact url pyzor razor_e4 razor_e8 dcc_from dcc_message_id dcc_body dcc_fuz1 bruit";
    assert_eq!(names.join(" "), expected);
    assert!(text.contains("  shop.example.com/watches\n"), "a link is shown beside its signature: {text}");
    assert!(text.contains("features 29 (pairs 27, links 2), whole "), "{text}");
    let columns: Vec<_> = text.lines().map(|line| line.char_indices().nth(21).unwrap().1).collect();
    assert!(columns.iter().all(|char| *char != ' '), "{text}");
}

#[test]
fn standard_input_is_read_if_nothing_is_named() {
    let folder = with(&[("mail", MESSAGE)]);
    let expected = printed(&["sign", &path(&folder, "mail")]).into_bytes();
    for arguments in [&[][..], &["-"]] {
        let output = sign_input(arguments, MESSAGE.as_bytes());
        assert_eq!((output.status.code(), output.stdout), (Some(0), expected.clone()));
    }
    assert!(refused(&["sign", "-", "-"]).contains("only once"));
}

#[test]
fn schemes_are_chosen_by_name() {
    let folder = with(&[("mail", MESSAGE)]);
    let of = |list: &str| objects(&printed(&["sign", "--json", "--scheme", list, &path(&folder, "mail")])).remove(0);
    assert_eq!(schemes(&of("pyzor,exact")), ["exact", "pyzor"]);
    assert!(of("pyzor").get("features").is_none());
    assert_eq!(schemes(&of("bruit")), [""; 0]);
    let line = refused(&["sign", "--scheme", "pyzor,sha1", &path(&folder, "mail")]);
    assert!(line.contains("sha1") && line.contains("possible values"), "{line}");
}

#[test]
fn razor_and_dcc_take_what_they_need_to_know() {
    let folder = with(&[("mail", MESSAGE)]);
    let file = path(&folder, "mail");
    let razor = |ep4: &str| printed(&["sign", "--scheme", "razor", "--ep4", ep4, &file]);
    assert_eq!(razor("7542-10"), printed(&["sign", "--scheme", "razor", &file]));
    assert_ne!(razor("7542-10"), razor("9911-10"));
    assert!(refused(&["sign", "--ep4", "0-10", &file]).contains("seed"));
    let dcc = ["sign", "--scheme", "dcc", "--json", "--client-ip", "192.0.2.1", "--sender", "a@b.example", &file];
    let found = objects(&printed(&dcc)).remove(0);
    assert_eq!(schemes(&found)[..2], ["dcc_ip", "dcc_env_from"]);
    refused(&["sign", "--client-ip", "nowhere", &file]);
}

#[test]
fn json_has_an_object_a_line() {
    let mbox = format!("From a\n{MESSAGE}\nFrom b\n{MESSAGE}");
    let folder = with(&[("mbox", &mbox), ("mail", MESSAGE)]);
    let (one, other) = (path(&folder, "mbox"), path(&folder, "mail"));
    let found = objects(&printed(&["sign", "--json", &one, &other]));
    let places: Vec<_> =
        found.iter().map(|object| (object["file"].as_str().unwrap(), object["message"].as_u64())).collect();
    assert_eq!(places, [(&*one, Some(1)), (&*one, Some(2)), (&*other, None)]);
    assert_eq!(found[0]["signatures"], found[2]["signatures"]);
    let features = &found[0]["features"];
    assert_eq!(features["pairs"].as_array().unwrap().len(), 27);
    assert!(features["pairs"][0].as_str().unwrap().len() == 16 && features["whole"].is_null());
    let link = found[0]["signatures"].as_array().unwrap().iter().find(|found| found["scheme"] == "url").unwrap();
    assert_eq!(link["link"], "shop.example.com/watches");
}

#[test]
fn several_messages_have_a_heading_each() {
    let mbox = format!("From a\n{MESSAGE}\nFrom b\n{MESSAGE}");
    let folder = with(&[("box/cur/1:2,S", MESSAGE), ("box/new/2", MESSAGE), ("box/tmp/3", "x"), ("mbox", &mbox)]);
    let text = printed(&["sign", "--scheme", "exact", &path(&folder, "box"), &path(&folder, "mbox")]);
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(':')?.rsplit('/').next()).collect();
    assert_eq!(headings, ["1:2,S", "2", "mbox, message 1", "mbox, message 2"]);
    assert_eq!(text.lines().count(), 8);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_signed() {
    let folder = with(&[("1", MESSAGE), ("3", MESSAGE)]);
    folder.write("2", vec![b'x'; MESSAGE_BYTES_MAX + 1]);
    let (first, second, third) = (path(&folder, "1"), path(&folder, "2"), path(&folder, "3"));
    let output = bruit(&["sign", "--json", "--scheme", "exact", &first, &second, &path(&folder, "none"), &third]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(objects(std::str::from_utf8(&output.stdout).unwrap()).len(), 2);
    let complaints = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = complaints.lines().collect();
    assert_eq!(lines[0], format!("bruit: {second}: the message is longer than 64 MiB"));
    assert!(lines[1].contains("none: No such file"), "{complaints}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_message_at_the_limit_is_signed() {
    let folder = Folder::new();
    folder.write("mail", [b"\n".as_slice(), &vec![b'x'; MESSAGE_BYTES_MAX - 1]].concat());
    assert!(printed(&["sign", "--scheme", "exact", &path(&folder, "mail")]).starts_with("exact"));
}

#[test]
fn a_folder_that_may_not_be_read_is_told() {
    let folder = with(&[("in/1", MESSAGE), ("in/shut/2", MESSAGE)]);
    let shut = folder.path("in/shut");
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    let is_refused = fs::read_dir(&shut).is_err();
    let output = bruit(&["sign", "--json", "--scheme", "exact", &path(&folder, "in")]);
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o755)).unwrap();
    // Root may read every file.
    assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }));
    assert_eq!(output.stdout.split(|&byte| byte == b'\n').count(), if is_refused { 2 } else { 3 });
}

#[test]
fn an_explanation_tells_what_was_used() {
    let page =
        "Content-Type: text/html\n\nHello you,<p>Genuine watches at wholesale prices<p style='display:none'>poetry</p>";
    let folder = with(&[("mail", page)]);
    let file = path(&folder, "mail");
    let text = printed(&["sign", "--explain", &file]);
    for line in [
        "      0  text/html, 82 bytes",
        "    - greeting     hello (you)",
        "    + body         genulne watches wholesale prlces (at)",
        "    poetry",
        "    Helloyou,Genuinewatchesatwholesalepricespoetry",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
    }
    let json = objects(&printed(&["sign", "--explain", "--json", &file])).remove(0);
    let explanation = &json["explanation"];
    assert_eq!(explanation["lines"][0]["kind"], "greeting");
    assert_eq!(explanation["lines"][1]["counts"], true);
    assert_eq!(explanation["parts"][0]["media"], "text/html");
    assert_eq!(explanation["hidden"], "poetry\n");
    assert_eq!(explanation["pyzor"].as_array().unwrap().len(), 1);
}

#[test]
fn nothing_from_a_message_acts_on_a_terminal() {
    let controls = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/malformed/controls.eml");
    let folder = with(&[("\x1b[31mname", MESSAGE)]);
    let output = bruit(&["sign", "--explain", controls.to_str().unwrap(), &path(&folder, ""), "\x1b]0;gone"]);
    for bytes in [&output.stdout, &output.stderr] {
        assert!(!bytes.is_empty());
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.chars().all(|char| !char.is_control() || char == '\n'), "{text:?}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let folder = Folder::new();
    let mbox: String = (0..2000).map(|_| format!("From a\n{MESSAGE}\n")).collect();
    folder.write("mbox", mbox);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["sign", &path(&folder, "mbox")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}
