//! Help texts, manual pages and completions exist for every verb and are correct.

mod common;

use std::process::Command;

use common::{Folder, bruit, printed, program, refused, run};

/// Headings of the groups of verbs in `bruit --help`.
const GROUPS: [&str; 5] = ["Server:", "Mail:", "Administration:", "Filters:", "Shell:"];

/// Returns the verbs that `bruit`, or one of its verbs, lists in its help.
fn verbs(of: &[&str]) -> Vec<String> {
    let help = printed(&[of, &["--help"]].concat());
    let lists = help.split("\n\n").filter_map(|section| section.trim_start().split_once('\n'));
    let lists = lists.filter(|(heading, _)| *heading == "Commands:" || GROUPS.contains(heading));
    let lines = lists.flat_map(|(_, list)| list.lines());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

/// Returns the arguments of all verbs and their subcommands.
fn all_verbs() -> Vec<Vec<String>> {
    let inner = |verb: &String| verbs(&[verb]).into_iter().map(|inner| vec![verb.clone(), inner]).collect::<Vec<_>>();
    verbs(&[]).iter().flat_map(|verb| [vec![vec![verb.clone()]], inner(verb)].concat()).collect()
}

fn help_of(verb: &[String]) -> String {
    printed(&verb.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>())
}

#[test]
fn the_help_lists_verbs_by_purpose_with_the_server_first() {
    let help = printed(&["--help"]);
    let positions = GROUPS.map(|group| help.find(group).unwrap_or_else(|| panic!("{group} {help}")));
    assert!(positions.is_sorted(), "{help}");
    assert_eq!(verbs(&[]).first().unwrap(), "serve");
    assert!(verbs(&[]).len() >= 19 && !help.contains("Commands:"), "{help}");
}

#[test]
fn the_help_of_every_verb_has_an_example() {
    for verb in all_verbs() {
        let help = help_of(&verb);
        let command = format!("bruit {}", verb.join(" "));
        let (_, examples) = help.split_once("\nExample").unwrap_or_else(|| panic!("{command}: {help}"));
        assert!(examples.contains(&command), "{command}: {help}");
    }
}

#[test]
fn help_texts_are_wrapped_only_at_the_width_of_the_terminal() {
    for verb in all_verbs() {
        let help = help_of(&verb);
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = pair else { continue };
            let is_prose = |line: &str| line.starts_with(|first: char| first.is_alphabetic()) && !line.ends_with(':');
            let word = next.split(' ').next().unwrap_or_default();
            let fits = line.chars().count() + 1 + word.chars().count() <= 100;
            assert!(!(is_prose(line) && is_prose(next) && fits), "{verb:?} is wrapped by hand:\n{line}\n{next}");
        }
    }
}

#[test]
fn a_mistyped_verb_or_option_is_answered_with_a_suggestion() {
    for (arguments, suggestion) in [(&["chekc"][..], "'check'"), (&["stats", "--jsno"], "'--json'")] {
        let output = bruit(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(suggestion), "{error}");
    }
}

/// Returns the names of all expected pages.
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
    assert!(page.contains(".SH SYNOPSIS") && page.contains("Calculate the size of a filter"), "{page}");
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

/// Load the script from stdin, then complete `bruit `.
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

#[test]
fn a_moved_verb_is_refused_with_the_name_of_its_program() {
    for verb in ["attribute", "flows", "map", "match", "simulate", "trace"] {
        let line = refused(&[verb, "--help"]);
        assert_eq!(line, format!("bruit: '{verb}' has moved to another program: run `bruit-lab {verb}`\n"));
    }
    assert!(!refused(&["filter", "map"]).contains("moved"), "subcommands did not move");
}
