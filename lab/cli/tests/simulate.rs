//! Tests of `bruit-lab simulate` on the command line.

mod common;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use common::{Folder, json, lab, printed, refused};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn tables_look_as_in_the_paper() {
    let text = printed(&["simulate", "--experiment", "1", "--rounds", "4"]);
    assert!(text.starts_with("Seed 2006, universal hash functions, counts drawn like the paper's in each round\n"));
    assert!(text.contains("\nExperiment 1: each key 20 times, in rounds; 4 rounds\n"));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = text.lines().map(words).filter(|words| words.first().is_some_and(|w| w == "80K")).collect();
    // Each extension has rows with a mean and a deviation for every k; the third table has three reduction rates.
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [7, 7, 4]);
    let number = |word: &str| word.parse::<f64>().unwrap();
    assert!((0.02..0.03).contains(&number(&rows[0][1])) && (0.004..0.008).contains(&number(&rows[1][1])));
    let ratio = number(&rows[0][1]) / number(&rows[1][1]);
    assert!((ratio / number(&rows[2][1]) - 1.0).abs() < 0.002);
    assert!(text.contains("intuitive extension") && text.contains("refined extension"));
}

#[test]
fn the_second_rate_is_there_where_it_differs() {
    let of = |experiment| printed(&["simulate", "--experiment", experiment, "--rounds", "1"]);
    assert!(!of("3").contains("Share of distinct keys") && of("4").contains("Share of distinct keys"));
}

#[test]
fn csv_does_not_depend_on_the_number_of_threads() {
    let folder = Folder::new();
    let write = |threads: &str, name: &str| {
        let path = folder.path(name);
        let path = path.to_str().unwrap();
        let text = printed(&["simulate", "--rounds", "9", "--threads", threads, "--csv", path]);
        assert!(text.ends_with(&format!("Written: {path}\n")));
    };
    write("1", "one.csv");
    write("2", "two.csv");
    assert_eq!(folder.read("one.csv"), folder.read("two.csv"));
    let text = String::from_utf8(folder.read("one.csv")).unwrap();
    let columns =
        "experiment,extension,m,k,rounds,mean,std_dev,distinct_mean,distinct_std_dev,reduction_rate,reduction_std_err";
    assert_eq!(text.lines().next(), Some(columns));
    // Seven experiments have 9 configurations and one has 15. Each runs with both extensions.
    assert_eq!(text.lines().count(), 1 + 2 * (7 * 9 + 15));
    assert!(text.lines().skip(1).all(|line| line.split(',').count() == 11));
    assert!(text.lines().any(|line| line.starts_with("8,refined,640000,8,9,")));
    assert_eq!(folder.names(), ["one.csv", "two.csv"]);
}

#[test]
fn another_seed_gives_other_figures() {
    let of = |seed| printed(&["simulate", "--experiment", "2", "--rounds", "2", "--seed", seed]);
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1"), of("2"));
}

#[test]
fn comparing_prints_the_papers_figures_and_a_verdict() {
    let text = printed(&["simulate", "--experiment", "2,5", "--rounds", "12", "--compare"]);
    let line = text.lines().find(|line| line.contains("refined    80K     4")).unwrap();
    assert!(line.contains("5.612e-3   7.312e-4") && line.contains(" s.e."));
    assert!(!text.contains("intuitive "), "the paper has no intuitive tables for these experiments");
    assert!(text.contains(" of 18 means differ from the paper's by at most 2 standard errors"));
    assert!(text.contains("18 of 18 by at most 4.5."), "{text}");
}

#[test]
fn the_compact_layout_counts_as_wide_cells_do_and_prints_both_memories() {
    let of = |layout: &[&str]| {
        let rest = ["--cell-bits", "16", "--counts", "zipf:1.1", "--rounds", "2", "--json"];
        json(&[&["simulate", "custom"], layout, &rest].concat())
    };
    let (wide, compact) = (of(&[]), of(&["--layout", "compact", "--low-bits", "2", "--chunk-cells", "500"]));
    for (wide, compact) in wide["systems"].as_array().unwrap().iter().zip(compact["systems"].as_array().unwrap()) {
        assert_eq!(wide["wrong_insertions"], compact["wrong_insertions"]);
        let bytes = |system: &serde_json::Value, name: &str| system[name].as_f64().unwrap();
        assert_eq!(bytes(wide, "bytes"), 320_000.0);
        assert!(bytes(compact, "bytes") < 160_000.0 && bytes(compact, "computed_bytes") < bytes(compact, "bytes"));
    }
    assert_eq!((&compact["low_bits"], &compact["chunk_cells"]), (&2.into(), &500.into()));
    let text = printed(&["simulate", "custom", "--layout", "compact", "--rounds", "2"]);
    assert!(text.contains("cells of 3 bits and a flag, one table of 13-bit high parts per 1,024 cells"), "{text}");
    assert!(text.contains("\nmemory without room to grow "), "{text}");
}

#[test]
fn comparing_prints_the_papers_reduction_rates_with_their_errors_and_its_slip() {
    let text = printed(&["simulate", "--experiment", "7,8", "--rounds", "40", "--compare"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = |start: [&str; 2], theirs: &str| {
        let rows = text.lines().map(words);
        let mut rows = rows.filter(|words| words.len() >= 7 && words[..2] == start && words[4] == theirs);
        rows.next().unwrap_or_else(|| panic!("missing: {start:?} {theirs}: {text}"))
    };
    let number = |word: &str| word.parse::<f64>().unwrap();
    let row_80 = row(["80K", "8"], "2.298");
    // Both values are close to 2.3. After forty rounds, the error is about five times as large as after a thousand.
    assert!((number(&row_80[2]) / 2.298 - 1.0).abs() < 0.1, "{row_80:?}");
    assert!((3.0..8.0).contains(&(number(&row_80[3]) / number(&row_80[5]))), "{row_80:?}");
    let slip = text.lines().position(|line| line.contains("  2.725 ")).unwrap();
    assert!(text.lines().nth(slip + 1).unwrap().contains("its own means give 2.753"), "{text}");
    let tie = text.lines().map(words).find(|words| words[..2.min(words.len())] == ["640K", "8"]).unwrap();
    assert_eq!(tie, ["640K", "8", "-", "-", "-", "-", "-"]);
    assert!(text.contains(" reduction rates differ from the paper's by at most 2 standard errors"), "{text}");
}

#[test]
fn json_has_what_the_plots_show() {
    let study = json(&["simulate", "--experiment", "1", "--rounds", "3", "--json"]);
    assert_eq!((&study["rounds"], &study["seed"], &study["hash"]), (&3.into(), &2006.into(), &"universal".into()));
    let first = &study["experiments"][0]["configurations"][0];
    assert_eq!((&first["m"], &first["k"]), (&80_000.into(), &4.into()));
    let refined = &first["refined"];
    assert_eq!(
        (refined["growth_mean"].as_array().unwrap().len(), refined["cells_by_value"].as_array().unwrap().len()),
        (20, 64)
    );
    assert_eq!(refined["paper"]["mean"], 5.84e-3);
    let rounds: u64 = refined["rounds_by_wrong_keys"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(rounds, 3);
}

#[test]
fn plots_are_drawn_in_both_formats() {
    let folder = Folder::new();
    let plots = folder.path("new/plots");
    let text = printed(&["simulate", "--experiment", "1", "--rounds", "2", "--plots", plots.to_str().unwrap()]);
    let mut names: Vec<_> =
        fs::read_dir(&plots).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for stem in ["rate-experiment-1", "reduction-rates", "cells-experiment-1", "growth-experiment-1", "wrong-keys"] {
        for extension in ["svg", "png"] {
            let name = format!("{stem}.{extension}");
            assert!(names.contains(&name) && text.contains(&name), "{name}: {names:?}");
        }
    }
    assert_eq!(names.len(), 10, "{names:?}");
}

#[test]
fn other_draws_and_families_can_be_asked_for() {
    let usual = printed(&["simulate", "--experiment", "4", "--rounds", "2"]);
    for other in [&["--free-counts"] as &[_], &["--one-draw"], &["--hash", "polynomial"], &["--hash", "fingerprint"]] {
        let text = printed(&[&["simulate", "--experiment", "4", "--rounds", "2"], other].concat());
        assert_eq!(text.lines().count(), usual.lines().count());
        assert_ne!(text, usual);
    }
}

#[test]
fn bad_input_is_refused_before_any_work() {
    let folder = Folder::new();
    folder.write("file", "");
    let inside = folder.path("file/x");
    let (inside, file) = (inside.to_str().unwrap(), folder.path("file"));
    let dir = folder.path("");
    let long = "a".repeat(300);
    let [slash, broken, to_dir] = ["x.csv/", "broken", "to-dir"].map(|name| folder.path(name));
    symlink("nowhere", &broken).unwrap();
    symlink(folder.path(""), &to_dir).unwrap();
    let [slash, broken, to_dir] = [&slash, &broken, &to_dir].map(|path| path.to_str().unwrap());
    let (both, plot) = (folder.path("both"), folder.path("both/rate-experiment-1.svg"));
    let (both, plot) = (both.to_str().unwrap(), plot.to_str().unwrap());
    let cases: &[(&[&str], &str)] = &[
        (&["--experiment", "9"], "1 to 8"),
        (&["--experiment", "0"], "1 to 8"),
        (&["--experiment", "1,x"], "1 to 8"),
        (&["--experiment", ""], "1 to 8"),
        (&["--rounds", "0"], "at least 1"),
        (&["--rounds", "-5"], "at least 1"),
        (&["--rounds", "1e15"], "at most 100,000,000"),
        (&["--rounds", "99999999999999999999"], "at most"),
        (&["--threads", "0"], "at least 1"),
        (&["--threads", "1025"], "at most 1024"),
        (&["--seed", "x"], "whole number"),
        (&["--seed", "-1"], "whole number"),
        (&["--csv", "missing/x.csv"], "missing/x.csv: No such file"),
        (&["--csv", "name\nof two lines/x.csv"], "of two lines"),
        (&["--csv", &long], "too long"),
        (&["--csv", slash], "x.csv/"),
        (&["--csv", broken], "broken"),
        (&["--csv", to_dir], "not a regular file"),
        (&["--csv", "/dev/stdout"], "results cannot be written to a device"),
        (&["--csv", both, "--plots", both], "this is where the plots will be written"),
        (&["--csv", plot, "--plots", both], "this is where the plots will be written"),
        (&["--csv", inside], "file/x"),
        (&["--csv", dir.to_str().unwrap()], "not a file name"),
        (&["--plots", inside], "file/x"),
        (&["--plots", file.to_str().unwrap()], "file"),
        (&["--free-counts", "--one-draw"], "cannot be used with"),
        (&["--rounds", "1", "--compare"], "two rounds"),
        (&["--hash", "md5"], "md5"),
    ];
    for (arguments, what) in cases {
        // With a million rounds, the program would run for hours if it started to simulate.
        let rounds: &[&str] = if arguments.contains(&"--rounds") { &[] } else { &["--rounds", "1000000"] };
        let line = refused(&[&["simulate"], *arguments, rounds].concat());
        assert!(line.contains(what), "{arguments:?}: {line}");
    }
    assert_eq!(folder.names(), ["broken", "file", "to-dir"]);
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.write("results.csv", "old");
    fs::set_permissions(folder.path("results.csv"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("results.csv", folder.path("link")).unwrap();
    let link = folder.path("link");
    printed(&["simulate", "--experiment", "2", "--rounds", "1", "--csv", link.to_str().unwrap()]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(folder.read("results.csv").starts_with(b"experiment,"));
    let mode = fs::metadata(folder.path("results.csv")).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, folder.names()), (0o640, vec!["link".to_owned(), "results.csv".to_owned()]));
}

#[test]
fn a_custom_run_answers_for_both_extensions_and_the_merged_servers() {
    let arguments = [
        "simulate",
        "custom",
        "--counts",
        "zipf:1.1",
        "--servers",
        "3",
        "--threshold",
        "20",
        "--rounds",
        "5",
        "--m",
        "40K",
    ];
    let text = printed(&arguments);
    assert!(
        text.starts_with(
            "10,000 keys, Zipf counts with exponent 1.1 and mean 10, shuffled: 100,000 insertions a round\n"
        )
    );
    let heads = "intuitive             intuitive, 3 merged   refined               refined, 3 merged";
    assert!(text.contains(heads) && text.contains("keys below 20 that reach it") && text.contains("equation (4)"));

    let result = json(&[&arguments as &[_], &["--json"]].concat());
    assert_eq!((result["systems"].as_array().unwrap().len(), &result["rounds"]), (4, &5.into()));
    assert_eq!(result["systems"][3]["servers"], 3);
    let run = ["counts", "order", "hash", "layout"].map(|name| result[name].as_str().unwrap().to_owned());
    assert_eq!(run, ["zipf:1.1:10", "shuffled", "universal", "classical"]);
    assert_eq!((&result["k"], &result["cell_bits"], &result["m"]), (&6.into(), &6.into(), &40_000.into()));
    assert!(result["ln_equation_4"].as_f64().unwrap() < 0.0);
    let refined = &result["systems"][2];
    assert!(refined["wrong_insertions"]["mean"].as_f64().unwrap() > 0.0 && !refined["false_bulk_keys"].is_null());
}

#[test]
fn a_custom_run_knows_the_one_line_layout() {
    let text = printed(&["simulate", "custom", "--layout", "one-line", "--rounds", "2", "--counts", "constant:50"]);
    assert!(text.contains("160,000 cells of 4 bits in 1,250 lines") && !text.contains("intuitive"));
}

#[test]
fn a_custom_run_refuses_what_it_cannot_do() {
    let cases: &[(&[&str], &str)] = &[
        (&["--k", "0"], "at least 1"),
        (&["--k", "65"], "from 1 to 64"),
        (&["--m", "0"], "at least 1"),
        (&["--m", "5G"], "from 1 to 4294967296"),
        (&["--keys", "0"], "at least 1"),
        (&["--keys", "11M"], "from 1 to 10000000"),
        (&["--cell-bits", "17"], "from 1 to 16"),
        (&["--servers", "1001"], "from 1 to 1000"),
        (&["--counts", "normal:3"], "expected constant:20"),
        (&["--counts", "uniform:5:2"], "not a valid range"),
        (&["--threshold", "64"], "cells of 6 bits count only up to 63"),
        (&["--m", "4G", "--servers", "100"], "memory"),
        (&["--keys", "10M", "--threads", "100"], "memory"),
        (&["--keys", "10M", "--counts", "constant:1000000", "--order", "runs"], "insertions"),
        (&["--counts", "zipf:10:1000000", "--order", "runs"], "insertions"),
        (&["--low-bits", "4"], "--layout compact only"),
        (&["--layout", "one-line", "--chunk-cells", "64"], "--layout compact only"),
        (&["--layout", "compact", "--low-bits", "16"], "low bits s must be from 1 to 15"),
        (&["--layout", "one-line", "--k", "4"], "do not apply"),
        (&["--order", "sorted"], "sorted"),
    ];
    for (arguments, what) in cases {
        let line = refused(&[&["simulate", "custom"], *arguments, &["--rounds", "1000000"]].concat());
        assert!(line.contains(what), "{arguments:?}: {line}");
    }
}

/// Starts `bruit-lab simulate` and waits until its Ctrl-C handler is installed.
fn start(arguments: &[&str], stderr: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.arg("simulate").args(arguments).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watches = || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::SIGINT as u32 - 1) != 0
    };
    while !watches() {
        assert_eq!(child.try_wait().unwrap(), None, "the program ended before its Ctrl-C handler was installed");
        std::thread::yield_now();
    }
    child
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
}

#[test]
fn ctrl_c_ends_a_run_and_says_what_was_done() {
    let folder = Folder::new();
    let csv = folder.path("never.csv");
    let child = start(&["--rounds", "1000000", "--csv", csv.to_str().unwrap()], Stdio::piped());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{line}");
    assert!(
        line.starts_with("bruit-lab: interrupted after ")
            && line.contains(" of 1,000,000 rounds")
            && line.ends_with("no file was written\n"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    assert!(folder.names().is_empty(), "no results are written, complete or partial");
}

#[test]
fn a_second_ctrl_c_leaves_at_once_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let csv = folder.path("never.csv");
    let child = start(&["--rounds", "1000000", "--csv", csv.to_str().unwrap()], Stdio::piped());
    interrupt(&child);
    interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(folder.names().is_empty());
}

#[test]
fn files_are_written_though_nobody_reads_the_tables() {
    let folder = Folder::new();
    let csv = folder.path("results.csv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["simulate", "--rounds", "2", "--csv", csv.to_str().unwrap()]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.names(), ["results.csv"]);
}

#[test]
fn tables_are_printed_though_a_file_cannot_be_written() {
    let folder = Folder::new();
    let plots = folder.path("plots");
    fs::create_dir_all(plots.join("rate-experiment-2.svg")).unwrap();
    let output = lab(&["simulate", "--experiment", "2", "--rounds", "1", "--plots", plots.to_str().unwrap()]);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.starts_with("bruit-lab: failed to write ") && line.lines().count() == 1, "{line}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Reduction rate"));
}

#[test]
fn a_file_that_cannot_be_written_is_told_though_nobody_reads_the_tables() {
    let folder = Folder::new();
    let plots = folder.path("plots");
    fs::create_dir_all(plots.join("rate-experiment-2.svg")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit-lab"));
    command.args(["simulate", "--experiment", "2", "--rounds", "1", "--plots", plots.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
}

#[test]
fn ctrl_c_ends_a_custom_run_too() {
    let child = start(&["custom", "--rounds", "1000000", "--json"], Stdio::piped());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["rounds"].as_u64().unwrap() < 1_000_000);
    assert_eq!(result["rounds_asked"], 1_000_000);
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    let terminal = openpty(None, None).unwrap();
    let child = start(&["--rounds", "1000000"], terminal.slave.into());
    let mut screen = File::from(terminal.master);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("of 1,000,000 rounds, ") {
        let mut bytes = [0; 1024];
        let read = screen.read(&mut bytes).unwrap();
        seen.extend_from_slice(&bytes[..read]);
    }
    interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
}
