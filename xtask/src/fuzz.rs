//! `cargo xtask fuzz`: libFuzzer on stable Rust.
//!
//! The targets are the modules in `fuzz/src/targets/`. They are compiled into one program, with the coverage counters
//! that guide libFuzzer ([`INSTRUMENTATION`]). Stable rustc supports these counters, although only nightly supports
//! sanitizers. Even without sanitizers, bounds checks, overflow checks and debug assertions turn wrong arithmetic into
//! a crash. A target named `decode` has these folders:
//!
//! - `fuzz/seeds/decode/` contains committed inputs that every run tries: valid files to start from, and inputs that
//!   reproduce fixed bugs. Some targets also start from test data ([`TEST_DATA`]).
//! - `fuzz/corpus/decode/` collects the inputs with which this machine reached new code.
//! - `fuzz/artifacts/decode/` receives the input that crashed the target.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{self, cargo, metadata, root, text};
use crate::packages;
use crate::test::Stage;

/// Default fuzzing time. All targets share it.
pub(crate) const SECONDS: u64 = 120;

/// The manifest of the fuzz targets.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// The folder of the targets. Each target is a module.
const TARGETS: &str = "fuzz/src/targets";

/// The program that contains all targets.
const PROGRAM: &str = "bruit-fuzz";

/// The environment variable that selects the program's target.
const TARGET_VARIABLE: &str = "BRUIT_FUZZ_TARGET";

/// Maximum length of an input. Longer seeds are truncated.
const INPUT_BYTES_MAX: u64 = 64 * 1024;

/// Memory limit of a target. A target that exceeds it fails.
const MEMORY_MIB_MAX: u64 = 2048;

/// Time limit for one input. A target that exceeds it fails.
const INPUT_SECONDS_MAX: u64 = 20;

/// Number of log lines shown when a target fails.
const LOG_LINES_SHOWN: usize = 60;

/// Targets that also start from test data, and the folders of that data.
const TEST_DATA: &[(&str, &[&str])] = &[
    ("message", &["testdata/malformed", "testdata/pyzor", "testdata/razor"]),
    ("segment", &["testdata/formats/segments-v1"]),
    ("heads", &["testdata/formats/segments-v1"]),
];

/// Compiler flags for the counters and comparison hooks that libFuzzer reads. LLVM's SanitizerCoverage inserts these.
///
/// The last two LLVM options turn off optimisations that would hide comparisons. A comparison with a magic string
/// remains a call, which libFuzzer intercepts to learn the string. Two conditions remain two branches. Without these
/// options, libFuzzer does not find an eleven-byte magic in 10⁸ runs. With them, it needs fewer than 10⁶.
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

/// The arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Targets to run [default: all]
    targets: Vec<String>,
    /// Total fuzzing time, divided among the targets.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
}

impl Options {
    /// Returns the options that run all targets, for `seconds` in total.
    pub(crate) const fn all(seconds: u64) -> Self {
        Self { targets: Vec::new(), seconds }
    }
}

/// Lints and builds the fuzz program, then runs the chosen targets, each for an equal share of the time.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::provide(&[Stage::Fuzz])?;
    let targets = chosen(discover()?, &options.targets)?;
    let build = Build::locate()?;
    build.lint()?;
    build.compile()?;
    let share = share(options.seconds, targets.len());
    targets.iter().try_for_each(|target| build.fuzz(target, share))
}

/// Returns the names of all targets, in alphabetical order.
fn discover() -> Result<Vec<String>> {
    let files = fs::read_dir(root().join(TARGETS)).with_context(|| format!("failed to list {TARGETS}"))?;
    let paths: Vec<PathBuf> = files.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        sources.filter_map(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the targets named in `wanted`, or all of `known` if it is empty.
fn chosen(known: Vec<String>, wanted: &[String]) -> Result<Vec<String>> {
    ensure!(!known.is_empty(), "{TARGETS} contains no targets");
    for name in wanted {
        ensure!(known.contains(name), "unknown fuzz target {name}; expected one of: {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known } else { wanted.to_vec() })
}

/// Returns the seconds for each target. The minimum is 1, because libFuzzer treats 0 as no limit.
fn share(seconds: u64, targets: usize) -> u64 {
    (seconds / targets.max(1) as u64).max(1)
}

/// The instrumented build. It has a separate folder: in a shared one, its flags would make cargo rebuild everything.
struct Build {
    folder: PathBuf,
    /// The host's target triple. With an explicit `--target`, cargo does not apply the flags to build scripts and
    /// procedural macros.
    triple: String,
}

impl Build {
    /// Locates the build folder inside the workspace's target directory.
    fn locate() -> Result<Self> {
        let metadata = metadata(&["--no-deps"])?;
        let target = Path::new(text(&metadata, "target_directory")?);
        let folder = target.strip_prefix(root()).unwrap_or(target).join("fuzz");
        Ok(Self { folder, triple: host()? })
    }

    /// Lints the targets, which are not part of the workspace.
    fn lint(&self) -> Result<()> {
        command::run(self.cargo("clippy").args(["--no-deps", "--", "-D", "warnings"]))
    }

    /// Builds the program.
    fn compile(&self) -> Result<()> {
        command::run(&mut self.cargo("build"))
    }

    /// Returns the command `cargo SUBCOMMAND` for the fuzz program, with instrumentation.
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

    /// Returns the command that fuzzes `target` and writes to `log`.
    fn libfuzzer(&self, target: &str, seconds: u64, folders: &Folders, log: &Path) -> Result<Command> {
        let program = root().join(&self.folder).join(&self.triple).join("release").join(PROGRAM);
        let program = program.to_str().context("the path of the project is not valid UTF-8")?;
        let mut command = command::program(program, &["-print_final_stats=1"]);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        command.arg(format!("-artifact_prefix={}/", folders.artifacts));
        command.arg(&folders.corpus).args(&folders.seeds);
        let log = File::create(root().join(log)).context("failed to create the log of the fuzz target")?;
        command.env(TARGET_VARIABLE, target).env("RUST_BACKTRACE", "1").stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}

/// Returns the target triple of this machine.
fn host() -> Result<String> {
    let version = String::from_utf8(command::read(&mut command::program("rustc", &["-vV"]))?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("the output of rustc -vV has no host line")?.to_owned())
}

/// The input folders of a target, relative to the root.
struct Folders {
    corpus: String,
    artifacts: String,
    seeds: Vec<String>,
}

impl Folders {
    /// Returns the folders of `target`, and creates the folders to which libFuzzer writes.
    fn prepare(target: &str) -> Result<Self> {
        let [corpus, artifacts, seeds] = ["corpus", "artifacts", "seeds"].map(|kind| format!("fuzz/{kind}/{target}"));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(root().join(folder)).with_context(|| format!("failed to create {folder}"))?;
        }
        let own = root().join(&seeds).is_dir().then_some(seeds);
        Ok(Self { corpus, artifacts, seeds: own.into_iter().chain(test_data(target)).collect() })
    }
}

/// Returns the folders of test data for `target`.
fn test_data(target: &str) -> impl Iterator<Item = String> {
    let rows = TEST_DATA.iter().filter(move |(name, _)| *name == target);
    rows.flat_map(|(_, folders)| folders.iter().map(|&folder| folder.to_owned()))
}

/// Describes a failure, and how to reproduce it.
fn broken(target: &str, log: &str, path: &Path) -> String {
    let path = path.display();
    match reproducer(log) {
        Some(input) => {
            format!("fuzz target {target} failed on {input}; once fixed, move it to fuzz/seeds/{target}/ (log: {path})")
        }
        None => format!("fuzz target {target} failed without a reproducer (log: {path})"),
    }
}

/// Returns the path of the failing input, as found in libFuzzer's log.
fn reproducer(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim())
}

/// Describes the failure of a target that ran without coverage counters.
fn not_steered(target: &str, log: &Path) -> String {
    format!("fuzz target {target} ran without coverage guidance: libFuzzer found no counters (log: {})", log.display())
}

/// Returns a text with the number of inputs and the growth of coverage; `None` if libFuzzer found no counters.
fn summary(log: &str) -> Option<String> {
    let coverage: Vec<u64> = log.lines().filter_map(|line| number_after(line, "cov: ")).collect();
    let (first, last) = (coverage.first()?, coverage.last()?);
    let runs = log.lines().find_map(|line| number_after(line, "stat::number_of_executed_units: "))?;
    Some(format!("{runs} inputs, coverage {first} to {last}"))
}

/// Returns the number that follows `label` in `line`.
fn number_after(line: &str, label: &str) -> Option<u64> {
    line.split_once(label)?.1.split_whitespace().next()?.parse().ok()
}

/// Returns the end of a log, without progress lines.
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
    fn all_targets_get_equal_shares_of_the_time() {
        assert_eq!(share(120, 3), 40);
        assert_eq!(share(2, 3), 1);
    }

    #[test]
    fn an_unknown_target_is_named_in_the_error() {
        let known = vec!["decode".to_owned(), "delta".to_owned()];
        assert_eq!(chosen(known.clone(), &[]).unwrap(), known);
        assert_eq!(chosen(known.clone(), &["delta".to_owned()]).unwrap(), ["delta"]);
        let error = chosen(known, &["detla".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "unknown fuzz target detla; expected one of: decode, delta");
    }

    #[test]
    fn every_target_is_in_the_table_of_the_program() {
        let table = fs::read_to_string(root().join("fuzz/src/targets.rs")).unwrap();
        let known = discover().unwrap();
        assert!(!known.is_empty());
        for name in known {
            assert!(table.contains(&format!("(\"{name}\", {name}::fuzz)")), "{name}");
        }
    }

    #[test]
    fn test_data_belongs_to_targets_and_exists() {
        let known = discover().unwrap();
        for (target, _) in TEST_DATA {
            assert!(known.iter().any(|name| name == target), "{target}");
            assert!(test_data(target).all(|folder| root().join(folder).is_dir()), "{target}");
        }
    }

    #[test]
    fn a_summary_shows_how_coverage_grew() {
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
        assert!(broken("x", log, Path::new("x.log")).contains("failed on fuzz/artifacts/x/crash-1"));
        assert!(last_lines(log).starts_with("thread panicked"));
    }
}
