//! Manual pages and completions, which packages install: there for every verb, and free of faults.

mod common;

use std::process::Command;

use common::{Folder, bruit, printed, program, run};

/// The verbs that `bruit`, or one of its verbs, lists in its help.
fn verbs(of: &[&str]) -> Vec<String> {
    let help = printed(&[of, &["--help"]].concat());
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

/// The names of all pages that there should be.
fn expected_pages() -> Vec<String> {
    let mut pages = vec!["bruit.1".to_owned()];
    for verb in verbs(&[]) {
        pages.extend(verbs(&[&verb]).iter().map(|inner| format!("bruit-{verb}-{inner}.1")));
        pages.push(format!("bruit-{verb}.1"));
    }
    pages.sort();
    pages
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = Folder::new();
    printed(&["man", folder.path("").to_str().unwrap()]);
    assert_eq!(folder.names(), expected_pages());
    assert!(folder.names().contains(&"bruit-store-verify.1".to_owned()));
}

#[test]
fn manual_pages_show_what_the_help_says() {
    let folder = Folder::new();
    printed(&["man", folder.path("").to_str().unwrap()]);
    let page = String::from_utf8(folder.read("bruit-plan.1")).unwrap();
    assert!(page.contains(".SH SYNOPSIS") && page.contains("How large a filter must be"), "{page}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    folder.write("file", "");
    let path = folder.path("file/inner");
    let output = bruit(&["man", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file/inner"), "{output:?}");
}

#[test]
fn completions_for_bash_are_valid_and_know_every_verb() {
    let script = printed(&["completions", "bash"]);
    let answer = run(program("bash", "bash").arg("-n"), script.as_bytes());
    assert!(answer.code == Some(0) && answer.complaints.is_empty(), "{answer:?}");
    let completed = run(program("bash", "bash").args(["-c", COMPLETE]), script.as_bytes());
    for verb in verbs(&[]) {
        assert!(completed.text.split_whitespace().any(|word| word == verb), "{verb}: {completed:?}");
    }
}

/// Loads the script from stdin, then completes `bruit `.
const COMPLETE: &str =
    r#"eval "$(cat)"; COMP_WORDS=(bruit ""); COMP_CWORD=1; _bruit bruit "" bruit; echo "${COMPREPLY[@]}""#;

#[test]
fn completions_are_there_for_other_shells() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(printed(&["completions", shell]).contains("bruit"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let command = format!("{} completions bash | head -c 10", env!("CARGO_BIN_EXE_bruit"));
    let output = Command::new("bash").args(["-o", "pipefail", "-c", &command]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
