//! `cargo xtask fuzz`: libFuzzer on stable Rust.
//!
//! The targets are the programs of `fuzz/Cargo.toml`. They are compiled with the coverage counters that libFuzzer
//! steers by ([`INSTRUMENTATION`]), which stable rustc can place although only nightly has sanitizers; bounds, overflow
//! and debug assertions still turn wrong arithmetic into a crash. For a target `decode`:
//!
//! - `fuzz/seeds/decode/` holds committed inputs, all of which are tried on every run: good files to start from, and
//!   the reproducers of bugs since fixed; some targets also start from test data ([`TEST_DATA`]);
//! - `fuzz/corpus/decode/` gathers what reached new code, on this machine;
//! - `fuzz/artifacts/decode/` gets the input that broke it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{self, cargo, entries, metadata, root, text};
use crate::packages;
use crate::test::Stage;

/// How long to fuzz unless told, all targets together.
pub(crate) const SECONDS: u64 = 120;

/// The manifest of the fuzz targets.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// The longest input tried. Longer seeds are cut.
const INPUT_BYTES_MAX: u64 = 64 * 1024;

/// A target that holds more memory than this is broken.
const MEMORY_MIB_MAX: u64 = 2048;

/// A target that takes longer than this over one input is broken.
const INPUT_SECONDS_MAX: u64 = 20;

/// How much of a broken target's log is shown.
const LOG_LINES_SHOWN: usize = 60;

/// Targets that start from test data as well, and the folders of it.
const TEST_DATA: &[(&str, &[&str])] = &[
    ("message", &["testdata/malformed", "testdata/pyzor", "testdata/razor"]),
    ("segment", &["testdata/formats/segments-v1"]),
    ("heads", &["testdata/formats/segments-v1"]),
];

/// The counters and comparison hooks that libFuzzer reads, as placed by LLVM's SanitizerCoverage.
///
/// The last two keep LLVM from hiding what they show: a comparison with a magic string stays a call, which libFuzzer
/// intercepts to learn the string, and two conditions stay two branches. Without them an eleven-byte magic is not found
/// in 10⁸ runs; with them, in under 10⁶.
const INSTRUMENTATION: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-max-loads-per-memcmp=0",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "--cfg fuzzing",
];

/// What `cargo xtask fuzz` accepts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets to run; all if none is named.
    targets: Vec<String>,
    /// How long to fuzz, all targets together.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
}

impl Options {
    /// All targets, sharing `seconds`.
    pub(crate) const fn all(seconds: u64) -> Self {
        Self { targets: Vec::new(), seconds }
    }
}

/// Lints and builds all targets, then runs those asked for, each for its share of the time.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::provide(&[Stage::Fuzz])?;
    let targets = chosen(discover()?, &options.targets)?;
    let build = Build::locate()?;
    build.lint()?;
    build.compile()?;
    let share = share(options.seconds, targets.len());
    targets.iter().try_for_each(|target| build.fuzz(target, share))
}

/// The programs in the manifest.
fn discover() -> Result<Vec<String>> {
    let metadata = metadata(&["--no-deps", "--manifest-path", MANIFEST])?;
    let targets = entries(&metadata, "packages").flat_map(|package| entries(package, "targets"));
    targets
        .filter(|target| entries(target, "kind").any(|kind| kind == "bin"))
        .map(|target| Ok(text(target, "name")?.to_owned()))
        .collect()
}

/// Those of `known` that `wanted` names; all if it names none.
fn chosen(known: Vec<String>, wanted: &[String]) -> Result<Vec<String>> {
    ensure!(!known.is_empty(), "{MANIFEST} has no targets");
    for name in wanted {
        ensure!(known.contains(name), "no fuzz target {name}; there are: {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known } else { wanted.to_vec() })
}

/// The seconds of one target; libFuzzer takes 0 for no limit.
fn share(seconds: u64, targets: usize) -> u64 {
    (seconds / targets.max(1) as u64).max(1)
}

/// Where instrumented programs are built. Apart from all others: other flags would build everything anew.
struct Build {
    folder: PathBuf,
    /// Named to cargo even though it is the host, as flags then spare build scripts and procedural macros.
    triple: String,
}

impl Build {
    /// Finds the folder inside the workspace's own.
    fn locate() -> Result<Self> {
        let metadata = metadata(&["--no-deps"])?;
        let target = Path::new(text(&metadata, "target_directory")?);
        let folder = target.strip_prefix(root()).unwrap_or(target).join("fuzz");
        Ok(Self { folder, triple: host()? })
    }

    /// Lints the targets, which are no part of the workspace.
    fn lint(&self) -> Result<()> {
        command::run(self.cargo("clippy").args(["--no-deps", "--", "-D", "warnings"]))
    }

    /// Builds the targets.
    fn compile(&self) -> Result<()> {
        command::run(&mut self.cargo("build"))
    }

    /// `cargo subcommand` on the targets, instrumented.
    fn cargo(&self, subcommand: &str) -> Command {
        let mut command = cargo(&[subcommand, "--release", "--manifest-path", MANIFEST, "--target", &self.triple]);
        command.arg("--target-dir").arg(&self.folder);
        command.env("RUSTFLAGS", INSTRUMENTATION.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }

    /// Runs one target for `seconds`.
    fn fuzz(&self, target: &str, seconds: u64) -> Result<()> {
        let folders = Folders::prepare(target)?;
        let log = self.folder.join(format!("{target}.log"));
        let outcome = command::run(&mut self.libfuzzer(target, seconds, &folders, &log)?);
        let text = String::from_utf8_lossy(&fs::read(root().join(&log))?).into_owned();
        if let Err(error) = outcome {
            println!("{}", last_lines(&text));
            return Err(error.context(broken(target, &text, &log)));
        }
        println!("{target}: {}", summary(&text).with_context(|| not_steered(target, &log))?);
        Ok(())
    }

    /// The command that fuzzes `target`, writing to `log`.
    fn libfuzzer(&self, target: &str, seconds: u64, folders: &Folders, log: &Path) -> Result<Command> {
        let program = root().join(&self.folder).join(&self.triple).join("release").join(target);
        let program = program.to_str().context("the project lies in a folder whose name is not text")?;
        let mut command = command::program(program, &["-print_final_stats=1"]);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        command.arg(format!("-artifact_prefix={}/", folders.artifacts));
        command.arg(&folders.corpus).args(&folders.seeds);
        let log = File::create(root().join(log)).context("failed to create the log of the fuzz target")?;
        command.env("RUST_BACKTRACE", "1").stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}

/// The triple of this machine.
fn host() -> Result<String> {
    let version = String::from_utf8(command::read(&mut command::program("rustc", &["-vV"]))?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Where a target's inputs are, relative to the root.
struct Folders {
    corpus: String,
    artifacts: String,
    seeds: Vec<String>,
}

impl Folders {
    /// Names the folders of `target` and creates those that are written to.
    fn prepare(target: &str) -> Result<Self> {
        let [corpus, artifacts, seeds] = ["corpus", "artifacts", "seeds"].map(|kind| format!("fuzz/{kind}/{target}"));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(root().join(folder)).with_context(|| format!("failed to create {folder}"))?;
        }
        let own = root().join(&seeds).is_dir().then_some(seeds);
        Ok(Self { corpus, artifacts, seeds: own.into_iter().chain(test_data(target)).collect() })
    }
}

/// The folders of test data that `target` starts from.
fn test_data(target: &str) -> impl Iterator<Item = String> {
    let rows = TEST_DATA.iter().filter(move |(name, _)| *name == target);
    rows.flat_map(|(_, folders)| folders.iter().map(|&folder| folder.to_owned()))
}

/// What went wrong and how to see it again.
fn broken(target: &str, log: &str, path: &Path) -> String {
    let path = path.display();
    match reproducer(log) {
        Some(input) => {
            format!("fuzz target {target} broke on {input}; once mended, move it to fuzz/seeds/{target}/ (log: {path})")
        }
        None => format!("fuzz target {target} failed without a reproducer (log: {path})"),
    }
}

/// The input that broke the target, as libFuzzer names it.
fn reproducer(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim())
}

/// What a log without coverage means.
fn not_steered(target: &str, log: &Path) -> String {
    format!("fuzz target {target} ran blind: libFuzzer saw no coverage (log: {})", log.display())
}

/// How much was tried and reached; nothing if libFuzzer saw no counters and so only guessed.
fn summary(log: &str) -> Option<String> {
    let coverage: Vec<u64> = log.lines().filter_map(|line| number_after(line, "cov: ")).collect();
    let (first, last) = (coverage.first()?, coverage.last()?);
    let runs = log.lines().find_map(|line| number_after(line, "stat::number_of_executed_units: "))?;
    Some(format!("{runs} inputs, coverage {first} to {last}"))
}

/// The number that follows `label` in `line`.
fn number_after(line: &str, label: &str) -> Option<u64> {
    line.split_once(label)?.1.split_whitespace().next()?.parse().ok()
}

/// The end of a log, without the lines that only tell progress.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEERED: &str = "INFO: Loaded 1 modules\n#2\tINITED cov: 21 ft: 21 corp: 1/1b\n#90\tNEW    cov: 31 ft: 36\n\
        Done 90 runs in 1 second(s)\nstat::number_of_executed_units: 90\n";

    #[test]
    fn every_target_gets_an_equal_share_of_the_time() {
        assert_eq!(share(120, 3), 40);
        assert_eq!(share(2, 3), 1);
    }

    #[test]
    fn an_unknown_target_is_refused_by_name() {
        let known = vec!["decode".to_owned(), "delta".to_owned()];
        assert_eq!(chosen(known.clone(), &[]).unwrap(), known);
        assert_eq!(chosen(known.clone(), &["delta".to_owned()]).unwrap(), ["delta"]);
        let error = chosen(known, &["detla".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "no fuzz target detla; there are: decode, delta");
    }

    #[test]
    fn the_present_targets_are_found() {
        assert!(!discover().unwrap().is_empty());
    }

    #[test]
    fn test_data_belongs_to_targets_and_is_there() {
        let known = discover().unwrap();
        for (target, _) in TEST_DATA {
            assert!(known.iter().any(|name| name == target), "{target}");
            assert!(test_data(target).all(|folder| root().join(folder).is_dir()), "{target}");
        }
    }

    #[test]
    fn a_summary_tells_how_coverage_grew() {
        assert_eq!(summary(STEERED).unwrap(), "90 inputs, coverage 21 to 31");
    }

    #[test]
    fn fuzzing_without_coverage_has_no_summary() {
        assert_eq!(summary("#2\tINITED ft: 1 corp: 1/1b\nstat::number_of_executed_units: 90\n"), None);
    }

    #[test]
    fn a_crash_is_reported_with_its_input() {
        let log =
            "#7\tNEW cov: 3\nthread panicked\nartifact_prefix='a/'; Test unit written to fuzz/artifacts/x/crash-1\n";
        assert_eq!(reproducer(log), Some("fuzz/artifacts/x/crash-1"));
        assert!(broken("x", log, Path::new("x.log")).contains("broke on fuzz/artifacts/x/crash-1"));
        assert!(last_lines(log).starts_with("thread panicked"));
    }
}
