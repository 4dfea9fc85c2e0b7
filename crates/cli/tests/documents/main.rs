//! Runs the commands of the README and of every page in `docs/` exactly as written.
//!
//! Each page has an isolated environment and runs from top to bottom in one shell, as a reader would run it. Every
//! command must print the output that the page shows. It must succeed, or exit with the code that its comment names.
//! `page` documents the comments with which a page prepares its environment. At most sixteen blocks may be skipped, each
//! with a reason.
#![allow(clippy::print_stdout, reason = "a test lists the blocks that are not run")]

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod machine;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use page::Item;

/// Maximum number of skipped blocks in all pages together.
const SKIPS_MAX: usize = 16;

/// Number of pages of a folder that run in parallel. Pages wait more than they compute.
const MACHINES: usize = 3;

/// The folders with pages. Each folder has a test.
const FOLDERS: [&str; 5] = ["docs", "docs/design", "docs/operators", "docs/paper", "docs/survey"];

#[test]
fn the_commands_of_the_readme_work() {
    run(&[PathBuf::from("README.md")]);
}

#[test]
fn the_commands_of_the_laboratorys_front_page_work() {
    run(&[PathBuf::from("lab/README.md")]);
}

#[test]
fn the_commands_of_the_pages_about_the_whole_work() {
    run(&pages("docs"));
}

#[test]
fn the_commands_of_the_pages_about_formats_work() {
    run(&pages("docs/design"));
}

#[test]
fn the_commands_of_the_pages_for_operators_work() {
    run(&pages("docs/operators"));
}

#[test]
fn the_commands_of_the_pages_about_the_paper_work() {
    run(&pages("docs/paper"));
}

#[test]
fn the_commands_of_the_pages_about_the_survey_work() {
    run(&pages("docs/survey"));
}

#[test]
fn every_folder_of_pages_has_a_test() {
    let repository = machine::repository();
    let mut waiting = vec![PathBuf::from("docs")];
    while let Some(folder) = waiting.pop() {
        let name = folder.to_str().unwrap();
        assert!(FOLDERS.contains(&name) || pages(name).is_empty(), "{name} has pages but no test");
        let entries = fs::read_dir(repository.join(&folder)).unwrap().map(|entry| entry.unwrap());
        let folders = entries.filter(|entry| entry.path().is_dir());
        waiting.extend(folders.map(|entry| folder.join(entry.file_name())));
    }
}

#[test]
fn few_blocks_are_left_out_each_with_a_reason() {
    let skips: Vec<String> = all_pages().iter().flat_map(|page| skips(page)).collect();
    println!("{} blocks are skipped:\n{}", skips.len(), skips.join("\n"));
    assert!(skips.len() <= SKIPS_MAX, "more than {SKIPS_MAX} blocks are skipped:\n{}", skips.join("\n"));
}

#[test]
fn a_page_with_a_command_that_fails_is_found_out() {
    machine::ensure_available();
    let fails = |text: &str| machine::run("page.md", &page::parse(text).unwrap()).unwrap_err();
    let fault = fails("```sh\ntrue\nbruit plan --no-such-option\ntrue\n```\n");
    assert!(fault.starts_with("page.md:3: bruit plan") && fault.contains("exit code: 2; expected 0"), "{fault}");
    let fault = fails("```console\n$ echo one\none\n$ echo two\nthree\n```\n");
    assert!(fault.starts_with("page.md:4: echo two") && fault.contains("the page shows"), "{fault}");
    let fault = fails("```sh\ntrue     # exit code 1: it does not\n```\n");
    assert!(fault.contains("exit code: 0; expected 1"), "{fault}");
}

#[test]
fn a_page_cannot_change_the_system() {
    machine::ensure_available();
    let mark = format!("bruit-test-{}", std::process::id());
    let page = format!("```sh\ntouch /etc/{mark} /usr/bin/{mark} /var/lib/{mark} /tmp/{mark} ~/{mark}\n```\n");
    machine::run("page.md", &page::parse(&page).unwrap()).unwrap();
    for folder in ["/etc", "/usr/bin", "/var/lib", "/tmp"] {
        assert!(!Path::new(folder).join(&mark).exists(), "{folder}");
    }
    // Existing files are reachable through links, but read-only. Nothing is appended, so no harm is done if the file is
    // writable after all.
    for path in ["README.md", "crates/cli/Cargo.toml", "/usr/bin/bruit", "/usr/bin/env"] {
        let page = format!("```sh\n: >> {path}     # exit code 1: read-only\n```\n");
        machine::run("page.md", &page::parse(&page).unwrap()).unwrap();
    }
}

#[test]
fn comments_and_blocks_are_read() {
    let page = "<!-- test: setup\ncp a b\n-->\n<!-- test: skip systemctl: no\n  systemd -->\n1. x\n\n   ```sh\n   one \\\n     two\n   systemctl x\n   three    # exit code 3: so\n   ```\n";
    let items = page::parse(page).unwrap();
    let texts: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
    assert!(texts[0].contains("cp a b") && texts[1].contains("no systemd"), "{texts:?}");
    assert!(
        matches!(&items[2], Item::Command(command) if command.line == 9 && command.text == "one \\\n  two"),
        "{texts:?}"
    );
    assert!(matches!(&items[3], Item::Command(command) if command.line == 12 && command.code == 3), "{texts:?}");
    assert!(page::parse("<!-- test: skip -->").is_err() && page::parse("<!-- test: skp: x -->").is_err());
    assert!(page::parse("```text\n$ bruit check\n```\n").is_err());
}

/// Runs all commands of `pages`. Panics with the errors of all pages.
fn run(pages: &[PathBuf]) {
    machine::ensure_available();
    let run = |page: &PathBuf| {
        let items = page::read(&machine::repository().join(page));
        let is_left_out = |item: &Item| matches!(item, Item::Skip { .. });
        if items.iter().all(is_left_out) { Ok(()) } else { machine::run(page.to_str().unwrap(), &items) }
    };
    let run_all = |pages: &[PathBuf]| pages.iter().filter_map(|page| run(page).err()).collect::<Vec<String>>();
    let faults: Vec<String> = thread::scope(|scope| {
        let shares = pages.chunks(pages.len().div_ceil(MACHINES).max(1));
        let threads: Vec<_> = shares.map(|share| scope.spawn(move || run_all(share))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Returns the pages in a folder, but not in its subfolders.
fn pages(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(machine::repository().join(folder)).unwrap();
    let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
    let mut pages: Vec<_> = names.filter(|name| name.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

fn all_pages() -> Vec<PathBuf> {
    let readme = ["README.md", "lab/README.md"].map(PathBuf::from);
    readme.into_iter().chain(FOLDERS.iter().flat_map(|folder| pages(folder))).collect()
}

/// Returns the position and reason of each skip on a page.
fn skips(page: &Path) -> Vec<String> {
    let items = page::read(&machine::repository().join(page));
    let skip = |item: &Item| match item {
        Item::Skip { line, reason } => Some(format!("{}:{line}: {reason}", page.display())),
        _ => None,
    };
    items.iter().filter_map(skip).collect()
}
