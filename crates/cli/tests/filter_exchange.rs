//! Two sites exchange counts as files, as described in §4 of the paper: whole filters first, then deltas.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Folder, bruit};
use serde_json::Value;

const ROUNDS: u32 = 10;

/// A site: a directory with its own filter, the last state that it sent, and the merged filter.
struct Site {
    name: &'static str,
    folder: Folder,
}

impl Site {
    fn add(&self, keys: &[String]) {
        self.folder.printed("add own", keys.join("\n").as_bytes());
    }

    /// Creates a delta from the state that was sent last, and applies it to the local merged filter.
    fn make_delta(&self, round: u32) -> String {
        let name = format!("{}-{round}.delta", self.name);
        self.folder.run(&format!("diff sent own -o {name}"));
        self.folder.copy("own", "sent");
        self.folder.run(&format!("apply {name} all"));
        name
    }

    fn receive(&self, name: &str, from: &Self) {
        fs::copy(from.folder.path(name), self.folder.path(name)).unwrap();
    }

    fn info(&self, name: &str) -> Value {
        serde_json::from_slice(&self.folder.run(&format!("info {name} --json"))).unwrap()
    }

    /// Returns the cells of a filter, without header, key and history.
    fn cells(&self, name: &str) -> Vec<u8> {
        let length = self.info(name)["array_bytes"].as_u64().unwrap() as usize;
        let bytes = self.folder.read(name);
        bytes[bytes.len() - length..].to_vec()
    }
}

/// Returns the keys that a site counts in a round. Some occur often, most only once.
fn reports(site: u32, round: u32) -> Vec<String> {
    (0..60).map(|i| format!("message {}", (i * i * 7 + round * 13 + site * 5) % (40 + 10 * site))).collect()
}

/// Creates two sites that have exchanged whole filters and are ready to count.
fn sites(counting: &str) -> [Site; 2] {
    let [a, b] = ["a", "b"].map(|name| Site { name, folder: Folder::new() });
    a.folder
        .run(&format!("create own --signatures 500 --false-positive-rate 1e-5 --cell-bits 6 --counting {counting}"));
    b.receive("own", &a);
    b.folder.copy("own", "like");
    b.folder.run("create own --like like --force");
    [(&a, 0), (&b, 1)].iter().for_each(|(site, number)| site.add(&reports(*number, 0)));
    for (site, other) in [(&a, &b), (&b, &a)] {
        fs::copy(other.folder.path("own"), site.folder.path("theirs")).unwrap();
        site.folder.run("merge own theirs -o all");
        site.folder.copy("own", "sent");
    }
    [a, b]
}

/// Runs ten rounds of reports. Every delta is sent to the other site: one arrives twice, another is lost and sent
/// again.
fn exchange([a, b]: &[Site; 2]) {
    let mut lost = None;
    for round in 1..=ROUNDS {
        a.add(&reports(0, round));
        b.add(&reports(1, round));
        let (from_a, from_b) = (a.make_delta(round), b.make_delta(round));
        b.receive(&from_a, a);
        a.receive(&from_b, b);
        b.folder.run(&format!("apply {from_a} all"));
        if round == 5 {
            lost = Some(from_b);
            continue;
        }
        if let Some(lost) = lost.take() {
            let line = a.folder.refused(&format!("apply {from_b} all"), b"");
            assert!(line.starts_with(&format!("bruit: {from_b}: out of order: it builds on revision ")), "{line}");
            a.folder.run(&format!("apply {lost} all"));
        }
        a.folder.run(&format!("apply {from_b} all"));
        if round == 3 {
            let line = b.folder.refused(&format!("apply {from_a} all"), b"");
            assert!(line.starts_with("bruit: a-3.delta: already applied: revisions 3 to 4 of origin "), "{line}");
        }
    }
    for (site, delta) in [(a, "b-5.delta"), (b, "a-3.delta"), (a, "a-10.delta")] {
        let line = site.folder.refused(&format!("apply {delta} all"), b"");
        assert!(line.starts_with(&format!("bruit: {delta}: already applied: ")), "{line}");
    }
}

/// Returns all reports of both sites.
fn all_reports() -> Vec<String> {
    (0..=ROUNDS).flat_map(|round| [reports(0, round), reports(1, round)].concat()).collect()
}

#[test]
fn two_sites_reach_the_filter_of_all_reports() {
    let sites = sites("intuitive");
    exchange(&sites);
    let a = &sites[0];
    a.folder.run("create everything --like own");
    a.folder.printed("add everything", all_reports().join("\n").as_bytes());
    let expected = a.cells("everything");
    for site in &sites {
        assert!(site.cells("all") == expected, "the merged filter of site {}", site.name);
        assert_eq!(site.info("all")["filter"]["checksum"], a.info("everything")["filter"]["checksum"]);
        let revisions: Vec<u64> =
            site.info("all")["origins"].as_array().unwrap().iter().map(|o| o["revision"].as_u64().unwrap()).collect();
        assert_eq!(revisions, [11, 11]);
    }
}

#[test]
fn two_sites_with_refined_counts_bound_all_reports() {
    let sites = sites("refined");
    exchange(&sites);
    let mut truth: BTreeMap<String, u32> = BTreeMap::new();
    all_reports().into_iter().for_each(|key| *truth.entry(key).or_default() += 1);
    let keys: Vec<&str> = truth.keys().map(String::as_str).collect();
    fs::copy(sites[1].folder.path("own"), sites[0].folder.path("theirs")).unwrap();
    sites[0].folder.run("merge own theirs -o whole");
    for site in &sites {
        assert!(site.cells("all") == sites[0].cells("whole"), "the deltas add up to the whole filter");
        let printed = String::from_utf8(site.folder.printed("count all", keys.join("\n").as_bytes())).unwrap();
        for (line, (key, &truth)) in printed.lines().zip(&truth) {
            let count: u32 = line.split('\t').next().unwrap().parse().unwrap();
            assert!(count >= truth.min(63), "{key}: counted {count}, reported {truth} times");
        }
    }
}

/// Returns the shell block of a page that contains `command`.
fn shell_block(page: &str, command: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = text.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.find(|block| block.contains(command)).unwrap().to_owned()
}

/// Runs the block in `folder`, asserts that it succeeds without error output, and returns its output.
fn run_block(folder: &Folder, block: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_bruit")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let output = shell.args(["-e", "-c", block]).env("PATH", path).current_dir(folder.path("")).output().unwrap();
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complaints.is_empty(), "{printed}\n{complaints}");
    printed.into_owned()
}

#[test]
fn the_commands_of_the_papers_page_run_as_printed() {
    let folder = Folder::new();
    let printed = run_block(&folder, &shell_block("paper/README.md", "bruit filter create"));
    assert!(printed.contains("added\noffer\n") && printed.ends_with("2\toffer\n0\tletter\n"), "{printed}");
    let refused = folder.refused("remove refined.bruit", b"offer\n");
    assert!(refused.contains("keys cannot be removed from refined counts"), "{refused}");
}

#[test]
fn the_commands_of_the_federation_page_run_as_printed() {
    let folder = Folder::new();
    let printed = run_block(&folder, &shell_block("federation.md", "bruit filter merge"));
    assert!(printed.ends_with("5\toffer\n"), "{printed}");
    let again = ["filter", "apply", "a1.delta", "site-b/all.bruit"].map(|word| match word {
        "a1.delta" | "site-b/all.bruit" => folder.path(word).into_os_string().into_string().unwrap(),
        word => word.to_owned(),
    });
    let refused = bruit(&again.each_ref().map(String::as_str));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already applied: revisions 1 to 2 of origin "));
}
