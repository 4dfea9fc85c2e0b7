//! Lays out the files of each package as they are installed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Release;
use crate::command;

/// Files and folders of the sources, and where they are installed.
const FILES: &[(&str, &str, &str)] = &[
    ("bruit", "bruit.toml", "etc/bruit/bruit.toml"),
    ("bruit", "packaging/milter.toml", "etc/bruit/milter.toml"),
    ("bruit", "packaging/dovecot", "usr/share/bruit/dovecot"),
    ("bruit", "packaging/prometheus", "usr/share/bruit/prometheus"),
    ("bruit", "README.md", "usr/share/doc/bruit/README.md"),
    ("bruit", "CHANGELOG.md", "usr/share/doc/bruit/CHANGELOG.md"),
    ("bruit", "docs/operators", "usr/share/doc/bruit/operators"),
    ("bruit-lab", "lab/README.md", "usr/share/doc/bruit-lab/README.md"),
];

/// The shells for which completions are installed, and the paths where these shells look for them. `{}` is the program.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/{}"),
    ("zsh", "usr/share/zsh/vendor-completions/_{}"),
    ("fish", "usr/share/fish/vendor_completions.d/{}.fish"),
];

/// Fills the folders of all packages.
pub(super) fn lay_out(release: &Release) -> Result<()> {
    for (package, from, to) in FILES.iter().filter(|(package, ..)| release.programs.contains(package)) {
        let Some(file) = release.file(from) else { continue };
        copy(&file, &release.root_of(package).join(to))?;
    }
    release.programs.iter().try_for_each(|name| add_program(release, name))
}

/// Adds a program, and the manual pages and completions that it prints.
fn add_program(release: &Release, name: &str) -> Result<()> {
    let root = release.root_of(name);
    let installed = root.join("usr/bin").join(name);
    copy(&release.built(name), &installed)?;
    let installed = installed.to_str().context("the path of the target directory is not UTF-8")?;
    let pages = root.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    command::run(release.program(&release.work, installed, &["man"]).arg(&pages))?;
    for (shell, place) in COMPLETIONS {
        let completions = command::read(&mut release.program(&release.work, installed, &["completions", shell]))?;
        write(&root.join(place.replace("{}", name)), &completions)?;
    }
    Ok(())
}

/// Copies a file, or a folder with everything in it, without following links.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Writes a file. Creates its folder if necessary.
pub(super) fn write(path: &Path, contents: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, contents).with_context(|| format!("failed to write {}", path.display()))
}
