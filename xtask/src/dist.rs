//! `cargo xtask dist`: builds the release files of the last commit.
//!
//! Everything is made from a copy of the committed sources. Times are taken from the commit, and paths of this machine
//! are left out. So two runs should give the same bytes.

mod archives;
mod before;
mod build;
mod check;
mod roots;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{self, program, root};
use crate::packages;
use crate::test::Stage;

pub(crate) use check::check;

/// The published programs, and the packages that contain them.
pub(crate) const PROGRAMS: [&str; 2] = ["bruit", "bruit-lab"];

/// The commit of packages that are made without git.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// The arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder for the result [default: dist in cargo's target directory]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Build quickly, with little optimisation and with the changes since the last commit, to test the packages.
    #[arg(long)]
    quick: bool,
}

/// A release: its version, its sources and its folders.
pub(crate) struct Release {
    /// The version in the workspace's manifest.
    pub(crate) version: String,
    /// The commit, as a full hash.
    commit: String,
    /// The time of the commit, in seconds since 1970. Every file gets this time.
    time: String,
    /// A copy of the committed sources.
    source: PathBuf,
    /// Intermediate files.
    work: PathBuf,
    /// Cargo's target directory.
    build: PathBuf,
    /// The finished files.
    pub(crate) out: PathBuf,
    /// Rust's name of the system that the programs run on.
    target: &'static str,
    /// The programs to build, and their packages.
    programs: &'static [&'static str],
    /// True if the sources may be those of an older commit, which may lack files of the packages.
    is_older: bool,
    is_quick: bool,
}

/// Builds everything, and prints where it is.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::provide(&[Stage::Packages]).context("set-up failed")?;
    let release = make(options.out.clone(), options.quick)?;
    println!("\n{} is in {}:", release.name(), release.out.display());
    command::run(program("cat", &["SHA256SUMS"]).current_dir(&release.out))
}

/// Builds everything in `out`, which is emptied first. A quick build includes the changes since the last commit.
pub(crate) fn make(out: Option<PathBuf>, is_quick: bool) -> Result<Release> {
    let release = Release::prepare(out, is_quick)?;
    build::programs(&release, &release.source)?;
    roots::lay_out(&release)?;
    archives::make(&release)?;
    Ok(release)
}

impl Release {
    /// Copies the committed sources, and empties the folders.
    fn prepare(out: Option<PathBuf>, is_quick: bool) -> Result<Self> {
        let work = command::target_directory()?.join("dist-work");
        let source = work.join("source");
        let out = match out {
            Some(out) => std::path::absolute(out)?,
            None => command::target_directory()?.join("dist"),
        };
        for folder in [&source, &out, &work.join("roots"), &work.join("debian"), &work.join("image")] {
            make_empty(folder)?;
        }
        let archive = work.join("source.tar");
        let Origin { commit, time } = match archive_current(&archive, is_quick) {
            // The packages can be tested without git, too.
            Err(error) if is_quick => archive_folder(&archive, &error)?,
            result => result?,
        };
        extract(&archive, &source)?;
        let (version, target, build) = (version(&source)?, build::target(is_quick)?, work.join("build"));
        Ok(Self {
            version,
            commit,
            time,
            source,
            work,
            build,
            out,
            target,
            programs: &PROGRAMS,
            is_older: false,
            is_quick,
        })
    }

    /// Returns the name of the release, which is also the name of the folder in the archive.
    fn name(&self) -> String {
        format!("bruit-{}-x86_64-linux", self.version)
    }

    /// Returns the folder that holds the files of a package as they are installed.
    fn root_of(&self, package: &str) -> PathBuf {
        self.work.join("roots").join(package)
    }

    /// Returns the path of a file of the sources, or `None` if older sources lack it.
    fn file(&self, path: &str) -> Option<PathBuf> {
        Some(self.source.join(path)).filter(|path| !self.is_older || path.exists())
    }

    /// Returns the path of a built program.
    fn built(&self, name: &str) -> PathBuf {
        self.build.join(self.target).join("release").join(name)
    }

    /// Returns a command that starts in `folder` and uses the time of the commit as the current time.
    fn program(&self, folder: &Path, name: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = program(name, arguments);
        command.current_dir(folder).env("SOURCE_DATE_EPOCH", &self.time);
        command
    }
}

/// The commit that is packed, and its time in seconds since 1970.
struct Origin {
    commit: String,
    time: String,
}

/// Archives the files of the last commit, or with `has_changes` the files of the project's folder.
fn archive_current(archive: &Path, has_changes: bool) -> Result<Origin> {
    match if has_changes { changed_tree()? } else { None } {
        Some(tree) => archive_tree(archive, &tree, "HEAD"),
        None => archive_tree(archive, "HEAD", "HEAD"),
    }
}

/// Records the files of the project's folder as a tree, without the ignored ones, and returns it. Returns `None` if it is
/// the tree of the last commit.
fn changed_tree() -> Result<Option<String>> {
    // A separate index, so that the user's own does not change.
    let index = command::target_directory()?.join("dist-work").join("index");
    fs::create_dir_all(index.with_file_name(""))?;
    let with_index = |arguments: &[&str]| command::read(program("git", arguments).env("GIT_INDEX_FILE", &index));
    with_index(&["read-tree", "HEAD"]).context("packages are made from a git checkout")?;
    with_index(&["add", "--all"])?;
    let tree = String::from_utf8(with_index(&["write-tree"])?)?.trim().to_owned();
    Ok(Some(tree).filter(|tree| git(&["rev-parse", "HEAD^{tree}"]).is_ok_and(|last| last != *tree)))
}

/// Archives a tree, with the name and the time of `commit`.
fn archive_tree(archive: &Path, tree: &str, commit: &str) -> Result<Origin> {
    command::run(program("git", &["archive", tree, "--output"]).arg(archive))?;
    Ok(Origin { commit: git(&["rev-parse", commit])?, time: git(&["log", "-1", "--format=%ct", commit])? })
}

/// Archives the files of the project's folder, because git failed with `error`.
fn archive_folder(archive: &Path, error: &anyhow::Error) -> Result<Origin> {
    println!("the packages are made from the files in this folder: {error:#}");
    let options = ["--exclude=./target", "--exclude=./fuzz/target", "--exclude=./.git", "-cf"];
    command::run(program("tar", &options).arg(archive).arg("."))?;
    Ok(Origin { commit: NO_COMMIT.to_owned(), time: "1000000000".to_owned() })
}

/// Extracts the sources. Their times are set to the time of extraction (-m). Otherwise, cargo could treat older artifacts
/// as current.
fn extract(archive: &Path, folder: &Path) -> Result<()> {
    command::run(program("tar", &["-xmf"]).arg(archive).arg("-C").arg(folder))
}

/// Creates a folder, or empties it.
fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to empty {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Returns the version in the manifest of a workspace.
fn version(source: &Path) -> Result<String> {
    let metadata = command::metadata_of(source, &["--no-deps"])?;
    let package = command::entries(&metadata, "packages").find(|package| package["name"] == "bruit");
    Ok(command::text(package.context("the workspace has no package bruit")?, "version")?.to_owned())
}

/// Returns the output of a git command, without the final line end.
fn git(arguments: &[&str]) -> Result<String> {
    let output = command::read(&mut program("git", arguments)).with_context(|| {
        format!("git {} failed in {}; packages are made from a git checkout", arguments.join(" "), root().display())
    })?;
    Ok(String::from_utf8(output)?.trim().to_owned())
}
