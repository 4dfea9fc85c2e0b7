//! Tests of `bruit-lab map` on the command line.

mod common;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use common::Folder;
use serde_json::Value;

/// Runs `bruit-lab map` in `folder`, with `input` as standard input.
fn map_with(folder: &Folder, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.arg("map").args(arguments).current_dir(folder.path(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Runs `bruit-lab map`, asserts that it succeeds, and returns its output.
fn map(folder: &Folder, arguments: &[&str]) -> String {
    let output = map_with(folder, arguments, b"");
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts exit code 2, no output, and one line on stderr. Returns that line.
fn refused(folder: &Folder, arguments: &[&str], input: &[u8]) -> String {
    let output = map_with(folder, arguments, input);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty() && line.lines().count() == 1, "{arguments:?}: {line}");
    line
}

/// Creates a folder with `flags`, a file of 1,000 keys and values, and `flags.map`, built from it.
fn small(options: &[&str]) -> (Folder, String) {
    let folder = Folder::new();
    let lines: String = (0..1000).map(|i| format!("key {i}\t{}\n", i % 37)).collect();
    folder.write("flags", &lines);
    map(&folder, &[&["build", "flags", "-o", "flags.map", "--false-positives", "1e-9"], options].concat());
    (folder, lines)
}

#[test]
fn a_map_gives_back_the_lines_it_was_built_from_and_nothing_else() {
    for options in [&[][..], &["--mutable"], &["--value-bits", "32"]] {
        let (folder, lines) = small(options);
        let keys: String = (0..2000).map(|i| format!("key {i}\n")).collect();
        let output = map_with(&folder, &["get", "flags.map", "-"], keys.as_bytes());
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap() == lines, "{options:?}");
        assert_eq!(map(&folder, &["get", "flags.map", "key 40", "no key", "key 36"]), "key 40\t3\nkey 36\t36\n");
        let none = map_with(&folder, &["get", "flags.map", "no key"], b"");
        assert_eq!((none.status.code(), none.stdout, none.stderr), (Some(1), vec![], vec![]));
    }
}

#[test]
fn answers_are_told_to_programs_one_by_one() {
    let (folder, _) = small(&[]);
    let printed = map(&folder, &["get", "flags.map", "--json", "key 40", "no key"]);
    let lines = r#"{"found":true,"key":"key 40","value":3}
{"found":false,"key":"no key","value":null}
"#;
    assert_eq!(printed, lines);
}

#[test]
fn keys_alone_make_a_set() {
    let folder = Folder::new();
    let built = map_with(&folder, &["build", "-", "-o", "set", "--json"], b"spam\nmore\tspam\n");
    assert_eq!(built.status.code(), Some(2), "the second line has a tab");
    let built = map_with(&folder, &["build", "-", "-o", "set", "--json"], b"spam\r\n\nmore spam\nspam\n");
    let built: Value = serde_json::from_slice(&built.stdout).unwrap();
    assert_eq!(
        built.to_string(),
        r#"{"bits":1344,"check_bits":10,"empty_lines":1,"false_positive_rate":0.0009765625,"file":"set","file_bytes":252,"keys":2,"value_bits":0}"#
    );
    assert_eq!(folder.read("set").len(), 252);
    assert_eq!(map(&folder, &["get", "set", "spam", "more spam"]), "spam\nmore spam\n");
    let json = map(&folder, &["get", "set", "--json", "spam"]);
    assert_eq!(json, "{\"found\":true,\"key\":\"spam\",\"value\":null}\n");
}

#[test]
fn values_of_a_mutable_map_can_be_changed_and_its_keys_cannot() {
    let (folder, _) = small(&["--mutable", "--value-bits", "8"]);
    assert_eq!(map(&folder, &["set", "flags.map", "key 40", "200"]), "flags.map: 1 value changed\n");
    assert_eq!(
        map(&folder, &["get", "flags.map", "key 39", "key 40", "key 41"]),
        "key 39\t2\nkey 40\t200\nkey 41\t4\n"
    );
    let before = folder.read("flags.map");
    let foreign = map_with(&folder, &["set", "flags.map", "no key", "1"], b"");
    let line = "bruit-lab: flags.map: unknown key: the map does not contain it\n";
    assert_eq!((foreign.status.code(), String::from_utf8(foreign.stderr).unwrap()), (Some(1), line.to_owned()));
    let foreign = map_with(&folder, &["set", "flags.map", "no key", "1", "--json"], b"");
    let line = "{\"changed\":false,\"file\":\"flags.map\",\"key\":\"no key\",\"value\":1}\n";
    assert_eq!((foreign.status.code(), String::from_utf8(foreign.stdout).unwrap()), (Some(1), line.to_owned()));
    let line = refused(&folder, &["set", "flags.map", "key 40", "256"], b"");
    assert_eq!(line, "bruit-lab: flags.map: the value 256 does not fit in 8 bits\n");
    assert!(folder.read("flags.map") == before);
    let changed = map(&folder, &["set", "flags.map", "key 40", "201", "--json"]);
    assert_eq!(changed, "{\"changed\":true,\"file\":\"flags.map\",\"key\":\"key 40\",\"value\":201}\n");
    assert_eq!(map(&folder, &["get", "flags.map", "key 40"]), "key 40\t201\n");

    let (folder, _) = small(&[]);
    let line = refused(&folder, &["set", "flags.map", "key 40", "1"], b"");
    assert_eq!(line, "bruit-lab: flags.map: the values of this map cannot be changed; build it with --mutable\n");
}

#[test]
fn a_mistyped_key_hits_a_map_whose_values_change_once_in_a_thousand_million_times_unless_told() {
    let folder = Folder::new();
    folder.write("flags", "a\t1\n");
    for (options, check_bits) in
        [(&[][..], 10), (&["--mutable"], 30), (&["--mutable", "--false-positives", "1e-3"], 10)]
    {
        let built = map(&folder, &[&["build", "flags", "-o", "map", "--force", "--json"], options].concat());
        let built: Value = serde_json::from_str(&built).unwrap();
        assert_eq!(built["check_bits"], check_bits, "{options:?}");
    }
    assert!(map(&folder, &["set", "--help"]).contains("the value of another key may change"));
}

#[test]
fn a_file_without_keys_makes_a_map_of_every_kind() {
    for options in [&[][..], &["--mutable"], &["--value-bits", "8"], &["--mutable", "--value-bits", "8"]] {
        let folder = Folder::new();
        folder.write("none", "\n");
        map(&folder, &[&["build", "none", "-o", "map"], options].concat());
        let info: Value = serde_json::from_str(&map(&folder, &["info", "map", "--json"])).unwrap();
        assert_eq!(info["keys"], 0);
        assert_eq!(map_with(&folder, &["get", "map", "a"], b"").status.code(), Some(1), "{options:?}");
    }
}

#[test]
fn an_output_that_may_not_be_replaced_is_refused_before_anything_is_read() {
    let (folder, _) = small(&[]);
    // The input contains a line that would be rejected if it were read.
    let summary = refused(&folder, &["build", "-", "-o", "flags.map"], b"\t3\n");
    assert_eq!(summary, "bruit-lab: flags.map: file exists; use --force to replace it\n");
}

#[test]
#[cfg(target_os = "linux")]
fn more_keys_than_there_is_memory_for_are_told_and_do_not_abort() {
    let folder = Folder::new();
    let lines: String = (0..3_000_000).map(|i| format!("{i}\n")).collect();
    folder.write("many", &lines);
    // With the first limit, not all lines can be read. With the second, all can be read, but the map cannot be built.
    for kilobytes in [80_000, 180_000] {
        let script = format!("ulimit -v {kilobytes} && exec \"$0\" map build many -o new");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_bruit-lab")]).current_dir(folder.path(""));
        let output = command.output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains("memory for") || line.contains("out of memory after"), "{line}");
    }
}

#[test]
fn info_tells_kind_size_and_rate() {
    let (folder, _) = small(&[]);
    let info: Value = serde_json::from_str(&map(&folder, &["info", "flags.map", "--json"])).unwrap();
    assert_eq!((&info["kind"], &info["keys"], &info["value_bits"]), (&"ribbon".into(), &1000.into(), &6.into()));
    assert_eq!((&info["check_bits"], &info["has_key"]), (&30.into(), &true.into()));
    assert_eq!(info["file_bytes"].as_u64(), Some(folder.read("flags.map").len() as u64));
    let text = map(&folder, &["info", "flags.map"]);
    assert!(
        text.starts_with("kind                  ribbon\nkeys                  1,000\nvalue bits            6\n"),
        "{text}"
    );
    assert!(text.contains("\nfalse positives       9.313e-10\n"), "{text}");
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let (folder, _) = small(&[]);
    let build = ["build", "-", "-o", "new"];
    for (input, line) in [
        (&b"a\t1\nb\n"[..], "line 2: some keys have a value and some do not; give a value to all keys or to none"),
        (b"a\t1\na\t2\n", "a key has two values, 1 and 2"),
        (b"a\t+1\n", "line 1: expected a whole number from 0 to 4294967295 after the last tab"),
        (b"a\tx\n", "line 1: expected a whole number from 0 to 4294967295 after the last tab"),
        (b"\n\t3\n", "line 2: no key before the tab"),
    ] {
        let summary = refused(&folder, &build, input);
        assert!(summary.ends_with(&format!(": {line}\n")), "{summary}");
    }
    let summary = refused(&folder, &["build", "-", "-o", "new", "--mutable"], b"a\nb\n");
    assert!(summary.contains("keys have no values"), "{summary}");
    let summary = refused(&folder, &["build", "flags", "-o", "new", "--value-bits", "5"], b"");
    assert_eq!(summary, "bruit-lab: flags: line 33: the value 32 does not fit in 5 bits\n");
    folder.write("unsure", "a\t1\n\nb\t2\na\t1\nb\t2\na\t3\n");
    let summary = refused(&folder, &["build", "unsure", "-o", "new"], b"");
    assert_eq!(summary, "bruit-lab: unsure: line 6: the key 'a' has the value 3 here, but 1 in line 1\n");
    let summary = refused(&folder, &["build", "flags", "-o", "new", "--false-positives", "1e-10"], b"");
    assert!(summary.contains("the false-positive rate must be between 2^-32 (2.33e-10) and 1, not 1e-10"), "{summary}");
    let summary = refused(&folder, &["get", "flags.map", "-", "key 1", "-"], b"");
    assert_eq!(summary, "bruit-lab: standard input can be read only once, but - is given twice\n");
    let summary = refused(&folder, &["build", "flags", "-o", "flags.map"], b"");
    assert_eq!(summary, "bruit-lab: flags.map: file exists; use --force to replace it\n");
    assert_eq!(refused(&folder, &["get", "flags", "a"], b""), "bruit-lab: flags: not a map file\n");
    assert!(!folder.names().contains(&"new".to_owned()));

    let bytes = folder.read("flags.map");
    folder.write("cut", &bytes[..bytes.len() - 1]);
    assert_eq!(refused(&folder, &["info", "cut"], b""), "bruit-lab: cut: truncated: unexpected end of input\n");
}

#[test]
fn a_map_of_a_million_keys_takes_a_hundredth_more_than_its_answers_have() {
    let folder = Folder::new();
    let lines: String = (0..1_000_000).map(|i| format!("signature {i}\t{}\n", i % 256)).collect();
    folder.write("many", &lines);
    map(&folder, &["build", "many", "-o", "many.map"]);
    let info: Value = serde_json::from_str(&map(&folder, &["info", "many.map", "--json"])).unwrap();
    assert!(info["bits_per_key"].as_f64().unwrap() < 18.0 * 1.01, "{info}");
    let keys: String = (0..1_000_000).map(|i| format!("signature {i}\n")).collect();
    assert!(map_with(&folder, &["get", "many.map", "-"], keys.as_bytes()).stdout == lines.as_bytes());
}
