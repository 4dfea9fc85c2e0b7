//! Running other programs: echoed, from the root of the project, without standard input.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The root of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// A command that starts in the root of the project.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this program, with other arguments.
///
/// It keeps no state for incremental builds: for all test programs together that is 15 GB.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = program(&cargo, arguments);
    command.env("CARGO_INCREMENTAL", "0");
    command
}

/// Shows `command`, runs it, and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", describe(command));
    let status = command.status().with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(status.success(), "`{}` ended with {status}", describe(command));
    Ok(())
}

/// Whether `command` starts and succeeds; shows nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What `command` writes to standard output.
pub(crate) fn read(command: &mut Command) -> Result<Vec<u8>> {
    let Output { status, stdout, .. } =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(status.success(), "`{}` ended with {status}", describe(command));
    Ok(stdout)
}

/// The directory of cargo's build output.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(text(&metadata(&["--no-deps"])?, "target_directory")?.into())
}

/// What `cargo metadata` says of a workspace.
pub(crate) fn metadata(arguments: &[&str]) -> Result<Value> {
    let output = read(cargo(&["metadata", "--format-version", "1"]).args(arguments))?;
    serde_json::from_slice(&output).context("failed to understand cargo metadata")
}

/// The entries of the array `field` of `value`; none if there is no such array.
pub(crate) fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// The string `field` of `value`.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("cargo metadata has no {field} where one belongs"))
}

/// `command` as one would type it in the root of the project.
fn describe(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(&value?.to_string_lossy()))));
    let words = [short(command.get_program())].into_iter().chain(command.get_args());
    environment.chain(words.map(|word| quoted(&word.to_string_lossy()).into_owned())).collect::<Vec<_>>().join(" ")
}

/// The path of a program of ours, or the name of any other.
fn short(program: &OsStr) -> &OsStr {
    let path = Path::new(program);
    path.strip_prefix(root()).ok().map(Path::as_os_str).or_else(|| path.file_name()).unwrap_or(program)
}

/// `word` for a shell: in quotes if it holds a space.
fn quoted(word: &str) -> Cow<'_, str> {
    if word.contains(' ') { format!("'{word}'").into() } else { word.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = program("/usr/bin/cargo", &["doc", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(describe(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
        let ours = root().join("target/fuzz/decode");
        assert_eq!(describe(&Command::new(ours)), "target/fuzz/decode");
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = run(&mut program("false", &[])).unwrap_err().to_string();
        assert!(error.starts_with("`false` ended with"), "{error}");
    }
}
