//! Runs other programs. Each command is printed, starts in the project root, and has no standard input.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The root of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in a subfolder of the workspace")
}

/// Returns a command that starts in the root of the project.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Returns a command for the same cargo that runs this program.
///
/// Incremental compilation is off, because its state for all test programs takes 15 GB.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = incremental_cargo(arguments);
    command.env("CARGO_INCREMENTAL", "0");
    command
}

/// Returns the same command as [`cargo`], but with cargo's default for incremental compilation.
pub(crate) fn incremental_cargo(arguments: &[&str]) -> Command {
    program(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// Prints `command` and runs it.
///
/// # Errors
///
/// An error if it cannot be started, or exits with a failure.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", describe(command));
    let status = command.status().with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", describe(command));
    Ok(())
}

/// Returns true if `command` starts and succeeds. Prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the standard output of `command`.
pub(crate) fn read(command: &mut Command) -> Result<Vec<u8>> {
    let Output { status, stdout, .. } =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", describe(command));
    Ok(stdout)
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(text(&metadata(&["--no-deps"])?, "target_directory")?.into())
}

/// Returns the output of `cargo metadata`.
pub(crate) fn metadata(arguments: &[&str]) -> Result<Value> {
    metadata_of(root(), arguments)
}

/// Returns the output of `cargo metadata` for the workspace in `folder`.
pub(crate) fn metadata_of(folder: &Path, arguments: &[&str]) -> Result<Value> {
    let output = read(cargo(&["metadata", "--format-version", "1"]).args(arguments).current_dir(folder))?;
    serde_json::from_slice(&output).context("failed to parse the output of cargo metadata")
}

/// Returns the entries of the array `field` of `value`, or no entries if the field is missing or not an array.
pub(crate) fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Returns the string `field` of `value`.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("cargo metadata: field \"{field}\" is missing or not a string"))
}

/// Formats `command` as one would type it in the project root.
fn describe(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(&value?.to_string_lossy()))));
    let words = [short(command.get_program())].into_iter().chain(command.get_args());
    environment.chain(words.map(|word| quoted(&word.to_string_lossy()).into_owned())).collect::<Vec<_>>().join(" ")
}

/// Returns the relative path of a program inside the project. For any other program, returns its name.
fn short(program: &OsStr) -> &OsStr {
    let path = Path::new(program);
    path.strip_prefix(root()).ok().map(Path::as_os_str).or_else(|| path.file_name()).unwrap_or(program)
}

/// Quotes `word` for a shell if it contains a space.
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
        assert!(error.starts_with("`false` failed: "), "{error}");
    }
}
