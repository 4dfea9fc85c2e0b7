//! Packs the files: archive, Debian packages, container image, list of crates and checksums.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::roots::{copy, write};
use super::{PROGRAMS, Release};
use crate::command::{self, run};

/// The systemd units of the package `bruit`, each with the name that debhelper expects.
const UNITS: [(&str, &str); 3] = [
    ("bruit.service", "bruit.service"),
    ("bruit-milter.service", "bruit.bruit-milter.service"),
    ("bruit-watch@.service", "bruit.bruit-watch@.service"),
];

/// The ports of the container: Razor, DCC, Pyzor, rspamd and HTTP.
const PORTS: [&str; 5] = ["2703/tcp", "6277/udp", "24441/udp", "11335/udp", "8625/tcp"];

/// The user in the container. The user has no name there, because the image has no list of users.
const USER: &str = "65532:65532";

/// Makes all archives.
pub(super) fn make(release: &Release) -> Result<()> {
    make_archive(release)?;
    make_debian_packages(release, &format!("{}-1", release.version), &release.out)?;
    make_image(release)?;
    make_crate_lists(release)?;
    make_checksums(release)
}

/// Makes an archive of both programs for any Linux system.
fn make_archive(release: &Release) -> Result<()> {
    let roots = release.work.join("roots");
    let folder = roots.join(release.name());
    for program in PROGRAMS {
        copy(&release.root_of(program).join("usr"), &folder)?;
    }
    copy(&release.root_of("bruit").join("etc/bruit"), &folder.join("etc"))?;
    copy(&release.source.join("packaging/systemd"), &folder.join("lib/systemd/system"))?;
    copy(&release.source.join("packaging/debian/bruit.sysusers"), &folder.join("lib/sysusers.d/bruit.conf"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&release.source.join(licence), &folder.join(licence))?;
    }
    run(tar(release, &roots, &archive_of(release)).args(["--use-compress-program=gzip -9n", &release.name()]))
}

/// Returns the path of the archive.
pub(crate) fn archive_of(release: &Release) -> PathBuf {
    release.out.join(format!("{}.tar.gz", release.name()))
}

/// Returns a command that packs files of `folder`. Equal contents give equal bytes, whatever the times, the user, the
/// umask and the order in the folder.
fn tar(release: &Release, folder: &Path, archive: &Path) -> Command {
    let mut tar = release.program(folder, "tar", &["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=a+rX,u+w,go-w", "--format=ustar"]).arg(format!("--mtime=@{}", release.time));
    tar.arg("-cf").arg(archive);
    tar
}

/// Makes the Debian packages of `version` in `out`.
pub(super) fn make_debian_packages(release: &Release, version: &str, out: &Path) -> Result<()> {
    let folder = release.work.join("debian").join(version);
    let debian = folder.join("debian");
    copy(&release.source.join("packaging/debian"), &debian)?;
    for (unit, name) in UNITS {
        let Some(file) = release.file(&format!("packaging/systemd/{unit}")) else { continue };
        copy(&file, &debian.join(name))?;
    }
    for program in release.programs {
        copy(&release.root_of(program), &folder.join("roots").join(program))?;
    }
    write(&debian.join("changelog"), changelog(release, version)?.as_bytes())?;
    write(&debian.join("source/format"), b"3.0 (quilt)\n")?;
    let packages: String = release.programs.iter().map(|program| format!("-p{program} ")).collect();
    let mut build = release.program(&folder, "dpkg-buildpackage", &["-b", "-us", "-uc", "-d"]);
    run(build.env("DH_OPTIONS", packages.trim_end()))?;
    for program in release.programs {
        let file = format!("{program}_{version}_amd64.deb");
        copy(&release.work.join("debian").join(&file), &out.join(&file))?;
    }
    Ok(())
}

/// Returns Debian's changelog, which has the date of the commit and refers to `CHANGELOG.md`.
fn changelog(release: &Release, version: &str) -> Result<String> {
    let date = command::read(&mut command::program("date", &["-u", "-R", "-d", &format!("@{}", release.time)]))?;
    let control = fs::read_to_string(release.source.join("packaging/debian/control"))?;
    let maintainer = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    Ok(format!(
        "bruit ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md lists the changes. Commit:\n    {}\n\n -- {}  {}\n",
        release.commit,
        maintainer.context("packaging/debian/control names no maintainer")?,
        String::from_utf8_lossy(&date).trim()
    ))
}

/// Makes a container image with nothing but the program, its configuration and a folder for data.
fn make_image(release: &Release) -> Result<()> {
    let data = release.work.join("roots/data");
    fs::create_dir_all(&data)?;
    let container = buildah(release, &["from", "scratch"])?;
    let program = release.root_of("bruit").join("usr/bin/bruit");
    let configuration = release.source.join("packaging/oci/bruit.toml");
    let copies: [(&Path, &str, &[&str]); 3] = [
        (&program, "/bruit", &["--chmod", "755"]),
        (&configuration, "/etc/bruit/bruit.toml", &["--chmod", "644"]),
        (&data, "/data", &["--chmod", "755", "--chown", USER]),
    ];
    for (from, to, options) in copies {
        let from = from.to_str().context("the path of the target directory is not UTF-8")?;
        buildah(release, &[&["copy", "--quiet"], options, &[&container, from, to]].concat())?;
    }
    let version = format!("org.opencontainers.image.version={}", release.version);
    let commit = format!("org.opencontainers.image.revision={}", release.commit);
    let mut config = vec!["config", "--entrypoint", "[\"/bruit\"]", "--user", USER, "--volume", "/data"];
    config.extend(["--cmd", "serve --config /etc/bruit/bruit.toml", "--label", &version, "--label", &commit]);
    config.extend(["--env", "PATH=/", "--stop-signal", "SIGTERM"]);
    config.extend(PORTS.iter().flat_map(|port| ["--port", port]));
    config.push(&container);
    buildah(release, &config)?;
    // Buildah could write the archive itself, but would put the current time into it.
    let folder = release.work.join("image");
    let place = format!("oci:{}:bruit:{}", folder.display(), release.version);
    buildah(
        release,
        &["commit", "--quiet", "--rm", "--timestamp", &release.time, "--format", "oci", &container, &place],
    )?;
    run(tar(release, &folder, &image_of(release)).args(["blobs", "index.json", "oci-layout"]))
}

/// Returns the path of the image.
pub(crate) fn image_of(release: &Release) -> PathBuf {
    release.out.join(format!("{}.oci.tar", release.name()))
}

/// Runs buildah without a daemon and without privileges for file systems. Returns its output.
fn buildah(release: &Release, arguments: &[&str]) -> Result<String> {
    let mut command = release.program(&release.work, "buildah", arguments);
    command.env("BUILDAH_ISOLATION", "chroot").env("STORAGE_DRIVER", "vfs");
    Ok(String::from_utf8(command::read(&mut command)?)?.trim().to_owned())
}

/// Writes each program's crates as a list in CycloneDX's format.
fn make_crate_lists(release: &Release) -> Result<()> {
    let options = ["cyclonedx", "--format", "json", "--no-build-deps", "--target", release.target];
    // The tool writes a file beside each manifest of the sources, which are a copy.
    run(command::cargo(&options).current_dir(&release.source).env("SOURCE_DATE_EPOCH", &release.time))?;
    for (program, folder) in [("bruit", "crates/cli"), ("bruit-lab", "lab/cli")] {
        let list = fs::read_to_string(release.source.join(folder).join(format!("{program}.cdx.json")))?;
        let list: Value = serde_json::from_str(&without_paths(&list, release))?;
        write(
            &release.out.join(format!("{program}-{}.cdx.json", release.version)),
            &serde_json::to_vec_pretty(&list)?,
        )?;
    }
    Ok(())
}

/// Replaces the path of the sources, which differs between machines.
fn without_paths(list: &str, release: &Release) -> String {
    list.replace(&*release.source.to_string_lossy(), "/bruit")
}

/// Writes the checksums of all files.
fn make_checksums(release: &Release) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(&release.out)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    names.sort();
    let sums =
        command::read(release.program(&release.out, "sha256sum", &[]).args(names.iter().map(AsRef::<OsStr>::as_ref)))?;
    write(&release.out.join("SHA256SUMS"), &sums)
}
