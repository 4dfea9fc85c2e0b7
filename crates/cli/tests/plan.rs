//! Tests of `bruit plan`.

mod common;

use std::process::{Command, Stdio};

use common::{bruit, json, printed, refused};
use serde_json::Value;

#[test]
fn table_1_is_printed_as_in_the_paper() {
    let text = printed(&["plan", "--table1"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = text.lines().map(words).filter(|words| words.len() == 4 && words[3].contains("e-")).collect();
    let paper = ["16 4 10 2.394e-3", "10 8 16 8.455e-3", "16 8 10 5.745e-4", "40 8 4 1.166e-6", "40 16 4 1.948e-8"];
    assert_eq!(rows, paper.map(words));

    let rows = json(&["plan", "--table1", "--json"]);
    assert_eq!(rows["table1"].as_array().unwrap().len(), 5);
    assert_eq!(rows["table1"][4]["hashes"], 16);
}

#[test]
fn without_arguments_it_says_what_it_assumed_and_what_to_try() {
    let text = printed(&["plan"]);
    assert!(text.contains("10,000,000 signatures"));
    assert!(text.contains("Assumed: --signatures 10_000_000; --false-positive-rate 1e-3."));
    assert!(text.contains("Try next: "));
    for label in ["cells (m)", "hash functions (k)", "memory", "bits per signature", "compression rate"] {
        assert!(text.lines().any(|line| line.starts_with(label)), "{label}");
    }
    assert!(!printed(&["plan", "--signatures", "5", "--memory", "1K"]).contains("Assumed"));
}

#[test]
fn json_holds_the_plan_of_every_layout() {
    let plan = json(&["plan", "--signatures", "4e5", "--false-positive-rate", "1e-3", "--json"]);
    assert_eq!(plan["signatures"], 400_000);
    assert_eq!(plan["wanted"]["false_positive_rate"], 1e-3);
    assert_eq!(plan["bulk"], Value::Null);
    for (purpose, index, layout) in [
        ("membership", 0, "classical"),
        ("membership", 1, "one_line"),
        ("counting", 0, "classical"),
        ("counting", 1, "one_line"),
    ] {
        let filter = &plan[purpose][index];
        assert_eq!(filter["layout"], layout);
        assert!(filter["false_positive_rate"].as_f64().unwrap() <= 1e-3);
        let bits = filter["cells"].as_u64().unwrap() * filter["cell_bits"].as_u64().unwrap();
        assert_eq!(filter["bytes"].as_u64().unwrap() * 8, bits);
        assert!(filter["fingerprint_bits"].as_u64().unwrap() >= 32);
    }
}

#[test]
fn a_memory_budget_is_kept() {
    let plan = json(&["plan", "--signatures", "10_000_000", "--memory", "64M", "--json"]);
    assert_eq!(plan["wanted"]["memory_bytes"], 64 << 20);
    for purpose in ["membership", "counting"] {
        for index in 0..2 {
            assert_eq!(plan[purpose][index]["bytes"], 64 << 20);
        }
    }
}

#[test]
fn a_threshold_adds_bulk_rates_with_the_estimate_named_as_one() {
    let text = printed(&["plan", "--signatures", "1M", "--memory", "8MiB", "--threshold", "20"]);
    assert!(text.contains("threshold 20") && text.contains("equation (4)") && text.contains("refined, estimate"));
    let bulk = &json(&["plan", "--signatures", "1M", "--memory", "8MiB", "--threshold", "20", "--json"])["bulk"];
    let refined = |field: &str| bulk["refined_error_estimate"][field].as_f64().unwrap();
    assert!(refined("low") < refined("rate") && refined("rate") < refined("high"));
    assert!(refined("high") <= bulk["intuitive_error"].as_f64().unwrap());
    assert!(bulk["equation_4_log10"].as_f64().unwrap() < -50.0);
}

#[test]
fn bad_numbers_get_one_clear_line() {
    for signatures in ["0", "-3", "1.5", "many", "1e30", "NaN", "", "10Q"] {
        assert!(refused(&["plan", "--signatures", signatures]).contains("--signatures"), "{signatures}");
    }
    for rate in ["0", "1", "1.5", "-0.1", "NaN", "inf", "often"] {
        assert!(refused(&["plan", "--false-positive-rate", rate]).contains("--false-positive-rate"), "{rate}");
    }
    for memory in ["0", "-1", "64Q", "MiB", "NaN", "1e40"] {
        assert!(refused(&["plan", "--memory", memory]).contains("--memory"), "{memory}");
    }
    for threshold in ["0", "1.5", "5G", "-1"] {
        assert!(refused(&["plan", "--threshold", threshold]).contains("--threshold"), "{threshold}");
    }
}

#[test]
fn contradictions_and_absurd_sizes_get_one_clear_line() {
    refused(&["plan", "--memory", "1M", "--false-positive-rate", "0.1"]);
    refused(&["plan", "--table1", "--signatures", "5"]);
    refused(&["plan", "--frobnicate"]);
    refused(&["frobnicate"]);
    assert!(refused(&["plan", "--signatures", "9e15", "--false-positive-rate", "1e-9"]).contains("PiB"));
    assert!(refused(&["plan", "--memory", "2PiB"]).contains("PiB"));
    assert!(refused(&["plan", "--memory", "63"]).contains("too few"));
}

#[test]
fn help_is_no_error_and_shows_examples() {
    let text = printed(&["plan", "--help"]);
    assert!(text.contains("Examples:") && text.contains("--memory 64MiB"));
    assert_eq!(bruit(&[]).status.code(), Some(2));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bruit"))
        .args(["plan", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
