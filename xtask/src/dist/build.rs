//! Builds the programs, without paths of this machine in them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::Release;
use crate::command;

/// The target of the published programs. They are linked statically, so that they run on any Linux system.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The target for tests if the toolchain cannot install [`TARGET`]. Its C library can be linked statically, too.
const OTHER_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The settings of `--quick`, with which a build takes a quarter of the time.
const QUICK: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];

/// Installs the target of the published programs, if it is missing, and returns it. Published programs are always built
/// for that target. Packages can be tested with programs for another target.
pub(super) fn target(is_quick: bool) -> Result<&'static str> {
    if command::run(&mut command::program("rustup", &["target", "add", TARGET])).is_ok() {
        return Ok(TARGET);
    }
    ensure!(is_quick, "the published programs need Rust's target {TARGET}, which could not be installed");
    println!("the target {TARGET} could not be installed; the packages are tested with programs for {OTHER_TARGET}");
    Ok(OTHER_TARGET)
}

/// Builds the programs of a release as static binaries that contain the list of their crates (`cargo auditable`). The
/// folder whose path is replaced in them is always `current`, because only builds with the same flags share compiled
/// crates.
pub(super) fn programs(release: &Release, current: &Path) -> Result<()> {
    let mut build = command::cargo(&["auditable", "build", "--release", "--locked", "--target", release.target]);
    for name in release.programs {
        build.args(["--package", name]);
    }
    let remapped = remapped(release, current)?;
    let mut rust_flags = flags("--remap-path-prefix=", &remapped);
    rust_flags.push("-Ctarget-feature=+crt-static".to_owned());
    build
        .current_dir(&release.source)
        .env("CARGO_TARGET_DIR", &release.build)
        .env("BRUIT_COMMIT", &release.commit)
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\u{1f}"))
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        .env("CFLAGS_x86_64_unknown_linux_musl", flags("-ffile-prefix-map=", &remapped).join(" "));
    if release.is_quick {
        build.envs(QUICK);
    }
    command::run(&mut build)
}

/// Returns the compilers' flags that replace paths.
fn flags(flag: &str, remapped: &[(PathBuf, &str)]) -> Vec<String> {
    remapped.iter().map(|(path, name)| format!("{flag}{}={name}", path.display())).collect()
}

/// Returns the folders of this machine whose paths compilers would write into the programs, and what to write instead.
fn remapped(release: &Release, source: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut folders = vec![(source.to_owned(), "/bruit"), (release.build.clone(), "/target")];
    // Each registry has a folder of its own, named after its address.
    for registry in fs::read_dir(cargo_home()?.join("registry/src")).into_iter().flatten() {
        folders.push((registry?.path(), "/crates"));
    }
    Ok(folders)
}

/// Returns cargo's own folder.
fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    Ok(env::home_dir().context("the user has no home directory")?.join(".cargo"))
}
