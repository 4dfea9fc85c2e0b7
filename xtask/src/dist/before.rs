//! The package of the commit before, from which the tests upgrade.
//!
//! Only the server's program is built. The layout of its package is the current one, with the files of the older commit.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{
    NO_COMMIT, Origin, Release, archive_tree, archives, build, changed_tree, extract, git, make_empty, roots, version,
};

/// A package and its program.
pub(super) struct Before {
    /// The Debian package. Its version is lower than that of the current package.
    pub(super) package: PathBuf,
    pub(super) program: PathBuf,
}

/// Builds the package of the commit that precedes the sources of `current`.
pub(super) fn make(current: &Release) -> Result<Before> {
    let work = current.work.join("before");
    let [source, out, archive] = ["source", "out", "source.tar"].map(|name| work.join(name));
    [&source, &out, &work.join("roots"), &work.join("debian")].into_iter().try_for_each(|folder| make_empty(folder))?;
    let Origin { commit, time } = archive_before(&archive, current)?;
    extract(&archive, &source)?;
    let (target, build) = (current.target, current.build.clone());
    let version = version(&source)?;
    let release = Release {
        version,
        commit,
        time,
        source,
        work,
        build,
        out,
        target,
        programs: &["bruit"],
        is_older: true,
        is_quick: true,
    };
    build::programs(&release, &current.source)?;
    roots::lay_out(&release)?;
    let version = format!("{}-1~before", release.version);
    archives::make_debian_packages(&release, &version, &release.out)?;
    let package = release.out.join(format!("bruit_{version}_amd64.deb"));
    Ok(Before { package, program: release.root_of("bruit").join("usr/bin/bruit") })
}

/// Archives the sources of the commit before. Without git, archives the current sources.
fn archive_before(archive: &Path, current: &Release) -> Result<Origin> {
    if current.commit == NO_COMMIT {
        println!("without git, the upgrade is tested between two packages of the same sources");
        fs::copy(current.work.join("source.tar"), archive)?;
        return Ok(Origin { commit: current.commit.clone(), time: current.time.clone() });
    }
    let commit = revision()?;
    archive_tree(archive, commit, commit)
}

/// Returns the commit before the current sources: the last commit if files were changed since, and its first parent
/// otherwise.
fn revision() -> Result<&'static str> {
    if changed_tree()?.is_some() {
        return Ok("HEAD");
    }
    if git(&["rev-parse", "--verify", "--quiet", "HEAD^"]).is_ok() {
        return Ok("HEAD^");
    }
    let is_shallow = git(&["rev-parse", "--is-shallow-repository"]).context("upgrades are tested from git commits")?;
    if is_shallow == "true" && git(&["fetch", "--quiet", "--deepen=1"]).is_ok() && git(&["rev-parse", "HEAD^"]).is_ok()
    {
        return Ok("HEAD^");
    }
    // The first commit has none before it.
    println!("without the commit before, the upgrade is tested between two packages of the same commit");
    Ok("HEAD")
}
