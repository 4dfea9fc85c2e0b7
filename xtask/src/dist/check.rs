//! The stage `packages`: makes the packages, and installs, uses, upgrades and removes them in a minimal Debian system.

use std::fs;

use anyhow::Result;

use super::{PROGRAMS, Release, archives};
use crate::command::{self, program, run};

/// The systemd units, each with the highest exposure level that `systemd-analyze security` may report. The levels are
/// in tenths, and 100 is the worst.
const UNITS: [(&str, &str); 3] = [
    ("packaging/systemd/bruit.service", "11"),
    ("packaging/systemd/bruit-milter.service", "11"),
    ("packaging/systemd/bruit-watch@.service", "17"),
];

/// Makes all packages quickly, checks them, and runs them.
pub(crate) fn check() -> Result<()> {
    let release = super::make(Some(command::target_directory()?.join("dist-quick")), true)?;
    let before = release.work.join("before");
    fs::create_dir_all(&before)?;
    let [old, new] = ["0", "1"].map(|revision| format!("{}-{revision}", release.version));
    archives::make_debian_packages(&release, &old, &before)?;
    for name in PROGRAMS {
        let package = release.out.join(format!("{name}_{new}_amd64.deb"));
        run(program("lintian", &["--fail-on", "error", "--allow-root"]).arg(package))?;
    }
    for (unit, exposure) in UNITS {
        let options = ["security", "--offline=true", "--no-pager", "--threshold", exposure];
        run(program("systemd-analyze", &options).arg(unit))?;
    }
    check_alerts(&release)?;
    let mut install = program("sh", &["-eu", "packaging/tests/install.sh"]);
    install.arg(release.work.join("system")).arg(before.join(format!("bruit_{old}_amd64.deb")));
    install.args(PROGRAMS.map(|name| release.out.join(format!("{name}_{new}_amd64.deb"))));
    run(install.arg(archives::archive_of(&release)))?;
    run_container(&release)
}

/// Runs Prometheus' own tool on the files that the package installs for Prometheus.
fn check_alerts(release: &Release) -> Result<()> {
    let folder = release.root_of("bruit").join("usr/share/bruit/prometheus");
    let commands: [&[&str]; 3] = [
        &["check", "rules", "bruit.rules.yml"],
        &["test", "rules", "bruit.rules.test.yml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
    ];
    commands.iter().try_for_each(|arguments| run(program("promtool", arguments).current_dir(&folder)))
}

/// Runs the container image.
fn run_container(release: &Release) -> Result<()> {
    let mut container = program("sh", &["-eu", "packaging/tests/container.sh"]);
    run(container.arg(archives::image_of(release)).arg(release.root_of("bruit").join("usr/bin/bruit")))
}
