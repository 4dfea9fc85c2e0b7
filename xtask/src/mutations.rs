//! `cargo xtask endurance --mutations`: puts deliberate faults into a copy of the coordinator, one at a time, and shows
//! that simulated networks catch each of them.
//!
//! The copy is in the target directory, so that external crates are not built again. A fault replaces a text that must
//! occur exactly once in its file. A test checks that every such text still does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::command;

/// Maximum number of networks that are tried for each fault if the network of its `seed` does not catch it.
const NETWORKS: u64 = 2_000;

/// Folders that are not copied.
const NOT_COPIED: [&str; 2] = ["target", ".git"];

/// A deliberate fault.
struct Mutation {
    /// Name, as in docs/reliability.md.
    name: &'static str,
    /// Seed of a network that catches the fault. If that network no longer catches it, others are tried.
    seed: u64,
    /// File, relative to `crates/federation/src`.
    file: &'static str,
    /// Text that is replaced.
    from: &'static str,
    /// Replacement.
    to: &'static str,
    /// Tests in `crates/server/tests/battery` that the fault must make fail, too.
    battery: &'static [&'static str],
}

/// Creates a fault.
const fn fault(name: &'static str, seed: u64, file: &'static str, from: &'static str, to: &'static str) -> Mutation {
    Mutation { name, seed, file, from, to, battery: &[] }
}

const MUTATIONS: &[Mutation] = &[
    Mutation {
        battery: &[
            "over_nats::heads_are_accepted_when_generations_end",
            "simulated_network::heads_are_accepted_when_generations_end",
        ],
        ..fault(
            "expired heads",
            0,
            "heads.rs",
            "            has_ended || self.frontier(&chain)",
            "            self.frontier(&chain)",
        )
    },
    fault(
        "last segment",
        0,
        "coordinator/judge.rs",
        "want.to.sequence > want.from.sequence\n",
        "want.to.sequence > want.from.sequence + 1\n",
    ),
    fault(
        "own earlier incarnations",
        29,
        "coordinator/judge.rs",
        "    if frontiers.own() == Some(heads.origin()) {\n        return Vec::new();\n    }\n    let want",
        "    if frontiers.own().map(|own| own.key) == Some(heads.origin().key) {\n        return Vec::new();\n    }\n    let want",
    ),
    fault(
        "any lost segment",
        1,
        "coordinator/judge.rs",
        "heads.chains().any(is_ahead)",
        "heads.chains().all(is_ahead)",
    ),
    fault(
        "own shelf",
        8_469_388_475_555,
        "coordinator/receiver.rs",
        "if !progress.is_read && state.own()",
        "if false && state.own()",
    ),
    fault(
        "kept heads",
        6,
        "coordinator/receiver.rs",
        "(!kept.is_empty()).then_some(Request::KeepHeads(kept))",
        "(!kept.is_empty() && false).then_some(Request::KeepHeads(kept))",
    ),
    fault(
        "offset of a kept segment",
        10,
        "coordinator/receiver.rs",
        "(offset, rest) = (offset + bytes.len() as u64, behind);\n        }\n        match refusal",
        "rest = behind;\n        }\n        match refusal",
    ),
    fault(
        "new heads",
        0,
        "coordinator/heads_table.rs",
        "heads.is_news(kept.map(|kept| &kept.heads), &self.epochs)",
        "kept.is_none()",
    ),
    fault(
        "held exports",
        18,
        "coordinator/exporter.rs",
        "    has_nodes && !is_known\n",
        "    has_nodes && !is_known && false\n",
    ),
    fault(
        "unsynced segments",
        21,
        "coordinator/exporter.rs",
        "self.unreleased.is_none_or(|sequence| around.durable >= sequence)",
        "true",
    ),
    fault(
        "heartbeat",
        9,
        "coordinator/exporter.rs",
        "is_durable && (is_silent || self.unreleased.is_some())",
        "is_durable && self.unreleased.is_some()",
    ),
    fault(
        "sealed entries",
        10,
        "coordinator/export.rs",
        "        taken: sealable.taken,",
        "        taken: sealable.entries,",
    ),
    fault(
        "end of a log",
        6,
        "coordinator/rereader.rs",
        "sequence: part.until, ..Frontier",
        "sequence: part.until - 1, ..Frontier",
    ),
];

/// Puts each fault into the copy and runs networks. Prints the seeds that catch them.
///
/// # Errors
/// An error if a fault was not caught, or something could not be built.
pub(crate) fn run(first_seed: u64) -> Result<()> {
    let copy = command::target_directory()?.join("mutations");
    copy_sources(command::root(), &copy)?;
    // A test that fails for another reason, such as a missing broker, would seem to catch a fault.
    for test in MUTATIONS.iter().flat_map(|mutation| mutation.battery) {
        ensure!(run_battery(&copy, test)?.contains("1 passed"), "the battery's test {test} fails without a fault");
    }
    let mut missed = Vec::new();
    for mutation in MUTATIONS {
        let file = copy.join(mutation.path());
        let good = fs::read_to_string(&file)?;
        fs::write(&file, mutation.apply(&good)?)?;
        let caught = catch(&copy, mutation, first_seed).with_context(|| format!("fault {}", mutation.name));
        // Restore the file even after an error, because the copy is used again.
        fs::write(&file, good)?;
        match caught? {
            Some(failure) => println!("caught: {}: {failure}", mutation.name),
            None => missed.push(mutation.name),
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("faults that no network caught: {}", missed.join(", ")) }
}

impl Mutation {
    /// Returns the path of the file in the project.
    fn path(&self) -> String {
        format!("crates/federation/src/{}", self.file)
    }

    /// Returns the file's contents with the fault.
    fn apply(&self, good: &str) -> Result<String> {
        let count = good.matches(self.from).count();
        ensure!(count == 1, "fault {}: {} has the text to replace {count} times", self.name, self.path());
        Ok(good.replace(self.from, self.to))
    }
}

/// Builds the copy and runs networks until one fails. Returns its seed and the violated condition.
fn catch(copy: &Path, mutation: &Mutation, first_seed: u64) -> Result<Option<String>> {
    let mut build = command::cargo(&["build", "--quiet", "--package", "bruit-federation", "--features", "simulation"]);
    command::run(build.args(["--example", "networks"]).current_dir(copy).env_remove("CARGO_TARGET_DIR"))?;
    let program = copy.join("target/debug/examples/networks");
    mutation.battery.iter().try_for_each(|test| fails_battery(copy, test))?;
    let failure = first_failure(&program, 1, mutation.seed)?;
    if failure.is_some() { Ok(failure) } else { first_failure(&program, NETWORKS, first_seed) }
}

/// Checks that a test of the battery of transports fails in the copy.
fn fails_battery(copy: &Path, test: &str) -> Result<()> {
    let printed = run_battery(copy, test)?;
    ensure!(printed.contains("1 failed"), "the battery's test {test} does not fail:\n{printed}");
    println!("the battery's test {test} fails");
    Ok(())
}

/// Runs a test of the battery of transports in the copy. Returns what it printed.
fn run_battery(copy: &Path, test: &str) -> Result<String> {
    let arguments = ["test", "--quiet", "--package", "bruit-server", "--test", "battery"];
    let battery = || {
        let mut command = command::cargo(&arguments);
        command.current_dir(copy).env_remove("CARGO_TARGET_DIR");
        command
    };
    command::run(battery().arg("--no-run"))?;
    let output = battery().args(["--", "--exact", test]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs networks until one fails.
fn first_failure(program: &Path, count: u64, first_seed: u64) -> Result<Option<String>> {
    let (count, first) = (count.to_string(), first_seed.to_string());
    let mut networks = command::program(&program.to_string_lossy(), &[&count, &first, "--until-failure"]);
    let mut running = networks.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(running.stdout.take().context("no output")?).lines();
    let failure = lines.map_while(Result::ok).find(|line| line.starts_with("seed "));
    // Stop the program, because its other thread may still be simulating a network.
    let _ = running.kill();
    running.wait()?;
    Ok(failure.map(|line| line.split("; Summary").next().unwrap_or_default().to_owned()))
}

/// Copies the sources. Files with the same contents stay untouched, so that little is built again.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, source) = (entry.file_name(), entry.path());
        let target = to.join(&name);
        if entry.file_type()?.is_dir() {
            if !NOT_COPIED.iter().any(|folder| name == *folder) {
                copy_sources(&source, &target)?;
            }
        } else if fs::read(&source)? != fs::read(&target).unwrap_or_default() {
            fs::copy(&source, &target).with_context(|| format!("failed to copy {}", source.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_still_be_put_in() {
        for mutation in MUTATIONS {
            let good = fs::read_to_string(command::root().join(mutation.path())).unwrap();
            assert_ne!(mutation.apply(&good).unwrap(), good, "{}", mutation.name);
        }
    }

    #[test]
    fn every_fault_is_documented() {
        let page = fs::read_to_string(command::root().join("docs/reliability.md")).unwrap();
        for mutation in MUTATIONS {
            assert!(page.contains(&format!("| {} |", mutation.name)), "{}", mutation.name);
        }
    }
}
