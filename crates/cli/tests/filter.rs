//! Tests of `bruit filter`.

mod common;

use std::fs::File;
use std::io::{BufWriter, Write as _};

use common::{Folder, peak_memory_bytes};
use serde_json::Value;

/// Maximum memory that a verb may use in addition to the filter.
const EXTRA_BYTES: u64 = 64 << 20;

fn lines(names: std::ops::Range<u32>) -> Vec<u8> {
    names.flat_map(|name| format!("signature {name}\n").into_bytes()).collect()
}

/// Writes a file of keys in pieces, so that this process uses little memory. Its memory counts towards the measured
/// memory of the programs that it starts.
fn write_lines(folder: &Folder, name: &str, names: std::ops::Range<u32>) {
    let mut file = BufWriter::new(File::create(folder.path(name)).unwrap());
    names.for_each(|name| writeln!(file, "signature {name}").unwrap());
    file.flush().unwrap();
}

/// Creates a folder with two filters for 1000 keys and the same parameters: `a` contains 100 keys, and `b` contains
/// these and another 100. `d` is their delta.
fn small() -> Folder {
    let folder = Folder::new();
    folder.run("create a --signatures 1000");
    folder.printed("add a", &lines(0..100));
    folder.copy("a", "b");
    folder.printed("add b", &lines(100..200));
    folder.run("diff a b -o d");
    folder
}

/// Merges filters, and returns the error output: a warning, or nothing.
fn merge(folder: &Folder, words: &str) -> String {
    let output = folder.run_with(words, b"");
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_million_keys_from_end_to_end() {
    let folder = Folder::new();
    folder.run("create whole --signatures 1000000 --false-positive-rate 0.001");
    let filter_bytes = folder.read("whole").len() as u64;
    for half in ["first", "second"] {
        folder.run(&format!("create {half} --like whole"));
        assert!(folder.read(half) == folder.read("whole"), "the copy is empty and has the same key");
    }
    write_lines(&folder, "1", 0..500_000);
    write_lines(&folder, "2", 500_000..1_000_000);
    write_lines(&folder, "others", 1_000_000..2_000_000);

    folder.run("add whole 1 2");
    folder.run("add first 1");
    folder.run("add second 2");
    assert_eq!(folder.run("contains whole 1 2 --count"), b"1000000\n", "no false negatives");
    assert_eq!(folder.run_with("contains whole 1 2 --missing", b"").status.code(), Some(1));

    let found: Value = serde_json::from_slice(&folder.run("contains whole others --count --json")).unwrap();
    let rate = found["found"].as_f64().unwrap() / 1e6;
    let standard_error = (0.001f64 / 1e6).sqrt();
    assert!((rate - 0.001).abs() < 5.0 * standard_error, "planned false-positive rate 0.001, measured {rate}");

    folder.run("merge first second -o merged");
    assert!(folder.read("merged") == folder.read("whole"), "the merged halves are the whole filter");
    folder.run("diff first whole -o delta");
    folder.run("apply delta first -o applied");
    assert!(folder.read("applied") == folder.read("whole"), "base + delta = target");
    folder.run("apply delta first");
    assert!(folder.read("first") == folder.read("whole"), "the delta can also be applied in place");
    folder.run("info whole");

    let peak = peak_memory_bytes();
    assert!(peak <= filter_bytes + EXTRA_BYTES, "{peak} bytes of memory for a filter of {filter_bytes} bytes");
}

#[test]
fn contains_prints_what_is_there_and_tells_it_by_its_exit_code() {
    let folder = small();
    assert_eq!(folder.printed("contains a", b"signature 3\nnever seen\nsignature 5\n"), b"signature 3\nsignature 5\n");
    assert_eq!(folder.printed("contains a --missing", b"signature 3\nnever seen\n"), b"never seen\n");
    assert_eq!(folder.printed("contains a -", b"signature 3"), b"signature 3\n");
    let nothing = folder.run_with("contains a", b"never seen\n");
    assert_eq!((nothing.status.code(), nothing.stdout, nothing.stderr), (Some(1), vec![], vec![]));
    let nothing = folder.run_with("contains a --count", b"never seen\n");
    assert_eq!((nothing.status.code(), nothing.stdout), (Some(1), b"0\n".to_vec()));
    let json: Value =
        serde_json::from_slice(&folder.printed("contains a --count --json --missing", b"x\n\nsignature 1\n")).unwrap();
    assert_eq!(json.to_string(), r#"{"empty_lines":1,"found":1,"keys":2,"missing":1}"#);
}

#[test]
fn line_endings_are_no_part_of_a_key_and_empty_lines_are_none() {
    let folder = small();
    let json = folder.printed("add a --json", b"dos\r\n\r\nunix\n\nlast");
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json.to_string(), r#"{"empty_lines":2,"file":"a","keys":3}"#);
    assert_eq!(folder.printed("contains a", b"unix\r\ndos\nlast\r\n"), b"unix\ndos\nlast\n");
    let binary = b"\xff\x00 not text\n";
    folder.printed("add a", binary);
    assert_eq!(folder.printed("contains a", binary), binary);
}

#[test]
fn a_line_that_is_too_long_is_named() {
    let folder = small();
    let longest = vec![b'x'; 65_536];
    folder.write("keys", [b"short\n", &longest[..], b"\n"].concat());
    folder.run("add a keys");
    folder.write("keys", [b"short\n", &longest[..], b"x\n"].concat());
    assert_eq!(folder.refused("add a keys", b""), "bruit: keys: line 2 is longer than 65536 bytes\n");
    let line = folder.refused("add a", &[longest, vec![b'x'; 1 << 20]].concat());
    assert_eq!(line, "bruit: standard input: line 1 is longer than 65536 bytes\n");
}

#[test]
fn counts_are_counted_and_added_up() {
    for layout in ["one-line", "classical"] {
        let folder = Folder::new();
        folder.run(&format!("create a --signatures 1000 --counts --layout {layout}"));
        folder.run("create b --like a");
        folder.printed("add a", b"once\ntwice\ntwice\n");
        folder.printed("add b", b"once\nnew\n");
        assert_eq!(folder.printed("count a", b"once\ntwice\nnever\n"), b"1\tonce\n2\ttwice\n0\tnever\n");
        merge(&folder, "merge a b -o sum");
        assert_eq!(folder.printed("count sum", b"once\ntwice\nnew\n"), b"2\tonce\n2\ttwice\n1\tnew\n");
        assert_eq!(folder.printed("contains sum", b"twice\nnever\n"), b"twice\n");
        let line = folder.refused("merge a b a -o sum", b"");
        assert!(line.starts_with("bruit: a: already merged: the filter includes origin "), "{line}");
        folder.copy("a", "later");
        folder.printed("add later", b"new\n");
        folder.run("diff a later -o d");
        folder.run("apply d a");
        assert!(folder.read("a") == folder.read("later"));
    }
}

#[test]
fn heavy_counts_survive_files_merges_and_deltas() {
    let folder = Folder::new();
    folder.run("create a --memory 64 --signatures 10 --counts");
    let keys: Vec<u8> = (0..400u32).flat_map(|i| format!("key {}\n", i % 7).into_bytes()).collect();
    folder.copy("a", "empty");
    folder.run("create b --like a");
    folder.printed("add a", &keys);
    folder.printed("add b", &keys);
    folder.run("diff empty a -o d");
    folder.run("apply d empty");
    assert!(folder.read("empty") == folder.read("a"));
    merge(&folder, "merge empty b -o sum");
    let counts = String::from_utf8(folder.printed("count sum", b"key 0\nkey 6\n")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    assert!(counts.iter().all(|&count| count >= 114), "{counts:?}");
}

#[test]
fn create_replaces_a_file_only_if_told() {
    let folder = small();
    assert_eq!(folder.refused("create a --signatures 5", b""), "bruit: a: file exists; use --force to replace it\n");
    let before = folder.read("a");
    folder.run("create a --signatures 1000 --force");
    assert!(folder.read("a") != before);
    assert_eq!(folder.names(), ["a", "b", "d"]);
}

#[test]
fn every_filter_gets_a_key_of_its_own() {
    let folder = Folder::new();
    folder.run("create a --signatures 1000");
    folder.run("create b --signatures 1000");
    let line = folder.refused("merge a b -o c", b"");
    assert!(line.starts_with("bruit: b: filter parameters differ: the key id is "), "{line}");
    assert_eq!(folder.names(), ["a", "b"]);
}

#[test]
fn unlike_filters_are_refused_with_the_difference() {
    let folder = small();
    folder.run("create large --signatures 5000");
    folder.run("create counts --signatures 1000 --counts");
    for verb in ["merge a large -o c", "diff a large -o c"] {
        let line = folder.refused(verb, b"");
        assert!(line.starts_with("bruit: large: filter parameters differ: the number of cells m is "), "{line}");
    }
    let line = folder.refused("merge a counts -o c", b"");
    assert_eq!(
        line,
        "bruit: counts: filter parameters differ: the kind is one-line counts, expected one-line membership\n"
    );
    let line = folder.refused("count a", b"x\n");
    assert_eq!(line, "bruit: a: contains no counts; use contains, or create a filter with --counts\n");
}

#[test]
fn foreign_cut_and_damaged_files_are_told_apart() {
    let folder = small();
    let sound = folder.read("a");
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut header = sound.clone();
    header[16] ^= 1;
    let mut later = sound.clone();
    later[8] = 9;
    for (bytes, what) in [
        (b"Dear Sir,\n".to_vec(), "not a filter file"),
        (vec![], "not a filter file"),
        (sound[..sound.len() - 1].to_vec(), "truncated: unexpected end of input"),
        (sound[..40].to_vec(), "truncated: unexpected end of input"),
        ([&sound[..], b"x"].concat(), "unexpected bytes after the end"),
        (damaged, "damaged: the checksum of the array does not match"),
        (header, "damaged: the checksum of the header does not match"),
        (later, "unsupported format version 9 (latest supported: 2)"),
        (folder.read("d"), "expected a filter file, found a delta"),
    ] {
        folder.write("bad", bytes);
        for verb in ["add bad", "contains bad", "merge bad a -o c", "merge a bad -o c", "merge a bad -o a"] {
            assert_eq!(folder.refused(verb, b"x\n"), format!("bruit: bad: {what}\n"), "{verb}");
        }
        for verb in ["diff bad a -o c", "diff a bad -o d", "apply d bad"] {
            assert_eq!(folder.refused(verb, b""), format!("bruit: bad: {what}\n"), "{verb}");
        }
    }
    let delta = folder.read("d");
    let mut damaged = delta.clone();
    damaged[100] ^= 1;
    for (bytes, what) in [
        (damaged, "damaged: the checksum of the changes does not match"),
        (delta[..97].to_vec(), "truncated: unexpected end of input"),
        (sound[..sound.len() - 1].to_vec(), "truncated: unexpected end of input"),
    ] {
        folder.write("bad", bytes);
        assert_eq!(folder.refused("info bad", b""), format!("bruit: bad: {what}\n"));
    }
    for (verb, what) in [
        ("info missing", "bruit: missing: No such file or directory"),
        ("info .", "bruit: .: not a regular file"),
        ("add a missing", "bruit: missing: No such file or directory"),
        ("diff a b -o missing/d", "bruit: missing/d: No such file or directory"),
    ] {
        assert!(folder.refused(verb, b"").starts_with(what), "{verb}");
    }
}

#[test]
fn a_delta_is_refused_by_every_other_base() {
    let folder = small();
    assert!(
        folder
            .refused("apply d b", b"")
            .starts_with("bruit: d: the delta was computed from another state of this filter")
    );
    folder.run("create other --signatures 1000");
    assert!(folder.refused("apply d other", b"").starts_with("bruit: d: filter parameters differ: the key id is "));
    let mut damaged = folder.read("d");
    damaged[100] ^= 1;
    folder.write("bad", damaged);
    folder.refused("apply bad a", b"");
    folder.write("bad", &folder.read("d")[..folder.read("d").len() - 1]);
    assert_eq!(folder.refused("apply bad a", b""), "bruit: bad: truncated: unexpected end of input\n");
    assert_eq!(folder.refused("apply a b", b""), "bruit: a: expected a delta, found a filter file\n");
}

#[test]
fn info_tells_parameters_and_estimates_and_never_the_key() {
    let folder = small();
    let info: Value = serde_json::from_slice(&folder.run("info a --json")).unwrap();
    assert_eq!(info["filter"]["kind"], "one-line membership");
    assert_eq!(info["file_bytes"], folder.read("a").len());
    assert_eq!(info["has_key"], true);
    let keys = info["estimated_keys"].as_f64().unwrap();
    assert!((keys - 100.0).abs() < 10.0, "{keys}");
    assert!(info["estimated_false_positive_rate"].as_f64().unwrap() < 1e-3);
    let info: Value = serde_json::from_slice(&folder.run("info d --json")).unwrap();
    assert_eq!(info["delta"]["encoding"], "blocks");
    assert_eq!(info["target"]["kind"], "one-line membership");
    let key: String = folder.read("a")[64..80].iter().map(|byte| format!("{byte:02x}")).collect();
    for words in ["info a", "info d", "info a --json"] {
        assert!(!String::from_utf8(folder.run(words)).unwrap().contains(&key));
    }
    folder.write("letter", "Dear Sir,\n");
    assert_eq!(folder.refused("info letter", b""), "bruit: letter: neither a filter file nor a delta\n");
}

#[test]
fn a_size_that_cannot_be_had_is_refused() {
    let folder = Folder::new();
    let line = folder.refused("create a --signatures 1000000 --memory 900TiB", b"");
    assert!(line.starts_with("bruit: a: not enough memory for a filter of 900"), "{line}");
    assert!(folder.names().is_empty());
}

#[cfg(unix)]
#[test]
fn a_new_filter_is_for_its_owner_and_an_old_one_keeps_its_rights() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    let folder = small();
    let mode = |name| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("a"), 0o600, "the key is inside");
    folder.write("usual", "");
    assert_eq!(mode("d"), mode("usual"), "a delta holds no key");
    fs::set_permissions(folder.path("a"), Permissions::from_mode(0o640)).unwrap();
    folder.printed("add a", b"x\n");
    assert_eq!(mode("a"), 0o640);
    fs::set_permissions(folder.path("a"), Permissions::from_mode(0o644)).unwrap();
    folder.run("create a --signatures 10 --force");
    assert_eq!(mode("a"), 0o600, "a new key is inside");
}

#[test]
fn nothing_is_replaced_but_by_what_it_was() {
    let folder = small();
    folder.write("letter", "Dear Sir,\n");
    for (verb, what) in [
        ("diff a b -o a", "a: file exists and is not a delta; choose another name for the delta"),
        ("diff a b -o letter", "letter: file exists and is not a delta; choose another name for the delta"),
        ("merge a b -o letter", "letter: file exists and is not a filter file; choose another name for the filter"),
        ("apply d a -o d", "d: file exists and is not a filter file; choose another name for the filter"),
    ] {
        assert_eq!(folder.refused(verb, b""), format!("bruit: {what}\n"));
    }
    folder.run("diff a b -o d");
    folder.run("merge a b -o b");
}

#[cfg(unix)]
#[test]
fn pipes_and_links_that_lead_nowhere_are_refused() {
    let folder = small();
    nix::unistd::mkfifo(&folder.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("link")).unwrap();
    let refused = |verb: &str| {
        let output = folder.run_with(verb, b"");
        assert_eq!(output.status.code(), Some(2), "{verb}");
        String::from_utf8(output.stderr).unwrap()
    };
    for verb in ["diff a b -o pipe", "merge a b -o pipe", "create pipe --signatures 10 --force", "info pipe"] {
        assert_eq!(refused(verb), "bruit: pipe: not a regular file\n", "{verb}");
    }
    for verb in ["diff a b -o link", "create link --signatures 10"] {
        assert!(refused(verb).starts_with("bruit: link: broken link"), "{verb}");
    }
}

#[test]
fn adds_at_the_same_time_all_count() {
    let folder = small();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let folder = &folder;
            scope.spawn(move || folder.printed("add a", &lines(1000 * (i + 1)..1000 * (i + 1) + 200)));
        }
    });
    for i in 0..4 {
        let found = folder.printed("contains a --count", &lines(1000 * (i + 1)..1000 * (i + 1) + 200));
        assert_eq!(found, b"200\n");
    }
}

#[test]
fn standard_input_is_read_once() {
    let folder = small();
    let line = folder.refused("add a - -", b"x\n");
    assert_eq!(line, "bruit: standard input can be read only once, but - is given twice\n");
}

#[test]
fn the_smallest_filter_is_a_filter() {
    let folder = Folder::new();
    folder.run("create tiny --layout classical --signatures 1");
    folder.run("info tiny");
}

#[test]
fn merged_one_line_counts_come_with_a_warning_and_its_figure() {
    let folder = Folder::new();
    folder.run("create a --signatures 1000 --counts");
    folder.run("create b --like a");
    let line = merge(&folder, "merge a b -o sum");
    assert!(line.starts_with("bruit: warning: sum: merged one-line counts are upper bounds"), "{line}");
    assert!(line.contains("0.23 % with 2 servers") && line.contains("docs/paper/beyond.md"), "{line}");
    let page = include_str!("../../../docs/paper/beyond.md");
    assert!(
        page.contains("| 2e-4 | 2.3e-3 | 4.7e-3 | 1.2e-2 | 6.4e-2 |"),
        "the page must contain the figures of the warning"
    );
    folder.run("create c --signatures 1000 --counts --layout classical");
    folder.run("create d --like c");
    assert_eq!(merge(&folder, "merge c d -o sums"), "");
}

#[test]
fn the_papers_filters_are_made_with_any_width_and_both_extensions() {
    let folder = Folder::new();
    let info = |name: &str| -> Value { serde_json::from_slice(&folder.run(&format!("info {name} --json"))).unwrap() };
    for bits in 1..=16 {
        for counting in ["intuitive", "refined"] {
            let name = format!("{counting}-{bits}");
            folder.run(&format!("create {name} --signatures 500 --counting {counting} --cell-bits {bits}"));
            let keys = b"x\n".repeat(70_000.min((1 << bits) + 3));
            folder.printed(&format!("add {name}"), &keys);
            let top = (1u32 << bits) - 1;
            assert_eq!(folder.printed(&format!("count {name}"), b"x\n"), format!("{top}\tx\n").as_bytes());
            let filter = &info(&name)["filter"];
            assert_eq!((&filter["kind"], &filter["cell_bits"]), (&"classical counts".into(), &bits.into()));
            assert_eq!(filter["extension"], counting);
        }
    }
    folder.run("create production --signatures 500 --counting refined --layout one-line");
    assert_eq!(info("production")["filter"]["kind"], "one-line counts");
    for (options, what) in [
        ("--cell-bits 6", "bruit: --cell-bits requires --counts or --counting\n"),
        ("--counting intuitive --layout one-line", "bruit: one-line counts are refined, "),
        ("--counts --cell-bits 6 --layout one-line", "bruit: one-line counts are refined, "),
        ("--counts --cell-bits 17", "bruit: invalid value '17' for '--cell-bits <BITS>'"),
        ("--counts --pair", "bruit: the argument '--counts' cannot be used with '--pair'"),
    ] {
        let line = folder.refused(&format!("create refused --signatures 500 {options}"), b"");
        assert!(line.starts_with(what), "{line}");
    }
}

#[test]
fn keys_are_removed_from_intuitive_counts_only() {
    let folder = Folder::new();
    folder.run("create a --signatures 500 --counting intuitive --cell-bits 4");
    folder.printed("add a", b"x\nx\ny\n");
    assert_eq!(folder.printed("remove a", b"x\n"), b"a: 1 key removed\n");
    assert_eq!(folder.printed("count a", b"x\ny\n"), b"1\tx\n1\ty\n");
    let line = folder.refused("remove a", b"y\nnever\n");
    assert_eq!(line, "bruit: a: the key was never inserted: never\n");
    folder.printed("add a", &b"y\n".repeat(20));
    let json = folder.printed("remove a --json", b"y\n");
    assert_eq!(json, b"{\"file\":\"a\",\"keys\":1,\"saturated\":1}\n");
    assert_eq!(folder.printed("count a", b"y\n"), b"15\ty\n", "a saturated cell may stand for a higher count");
    for (options, what) in [
        (
            "--counting refined --layout classical",
            "keys cannot be removed from refined counts: an addition increments only",
        ),
        ("--counts", "keys cannot be removed from refined counts: an addition increments only"),
        ("", "keys cannot be removed from a membership filter: "),
    ] {
        folder.run(&format!("create other --force --signatures 500 {options}"));
        folder.printed("add other", b"x\n");
        let line = folder.refused("remove other", b"x\n");
        assert!(line.starts_with(&format!("bruit: other: {what}")), "{line}");
    }
}

#[test]
fn a_pair_finds_what_is_in_the_first_and_not_in_the_second() {
    let folder = Folder::new();
    folder.run("create spam --signatures 1000 --pair");
    assert_eq!(folder.names(), ["spam", "spam.revoked"]);
    folder.printed("add spam", b"offer\nnewsletter\n");
    assert_eq!(folder.printed("revoke spam", b"newsletter\n"), b"spam.revoked: 1 key added\n");
    let suspects = b"offer\nnewsletter\nletter\n";
    assert_eq!(folder.printed("contains spam --pair", suspects), b"offer\n");
    assert_eq!(folder.printed("contains spam --pair --missing", suspects), b"newsletter\nletter\n");
    assert_eq!(folder.printed("contains spam", suspects), b"offer\nnewsletter\n", "the spam filter by itself");
    folder.printed("revoke spam", b"offer\n");
    let nothing = folder.run_with("contains spam --pair --count", suspects);
    assert_eq!((nothing.status.code(), nothing.stdout), (Some(1), b"0\n".to_vec()));

    folder.run("create other --like spam --pair");
    folder.printed("add other", b"pills\n");
    folder.run("merge spam other -o spam");
    folder.run("merge spam.revoked other.revoked -o spam.revoked");
    assert_eq!(folder.printed("contains spam --pair", b"pills\noffer\n"), b"pills\n");

    assert_eq!(folder.refused("create spam --signatures 5 --pair", b"").lines().count(), 1);
    folder.run("create alone --signatures 1000");
    for verb in ["revoke alone", "contains alone --pair"] {
        let line = folder.refused(verb, b"x\n");
        assert_eq!(line, "bruit: alone: no revocation filter alone.revoked; create both with --pair\n");
    }
    folder.copy("spam.revoked", "alone.revoked");
    let line = folder.refused("contains alone --pair", b"x\n");
    assert_eq!(line, "bruit: alone.revoked: its key differs from that of alone\n");
}

#[test]
fn merged_counts_are_neither_added_to_nor_compared() {
    let folder = Folder::new();
    folder.run("create a --signatures 500 --counting intuitive");
    folder.run("create b --like a");
    folder.printed("add a", b"x\n");
    folder.run("merge a b -o all");
    for verb in ["add all", "diff a all -o d", "diff all a -o d"] {
        let line = folder.refused(verb, b"x\n");
        assert!(line.contains("the filter is merged from several sites"), "{line}");
    }
    folder.copy("a", "before");
    folder.printed("add a", b"y\n");
    let line = folder.refused("diff a before -o d", b"");
    assert_eq!(
        line,
        "bruit: before: the base (revision 2) is later than the target (revision 1); name the older file first\n"
    );
    folder.run("diff before a -o d");
    let line = folder.refused("apply d b", b"");
    assert!(line.contains("but the filter belongs to origin"), "{line}");
    let info: Value = serde_json::from_slice(&folder.run("info d --json")).unwrap();
    assert_eq!((&info["delta"]["base_revision"], &info["delta"]["target_revision"]), (&1.into(), &2.into()));
    folder.printed("remove a", b"x\n");
    let line = folder.refused("diff before a -o d", b"");
    assert_eq!(line, "bruit: a: keys were removed since the base, but a delta can only add; send the whole filter\n");
}
