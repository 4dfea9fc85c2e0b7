//! The stage `packages`: makes the packages, and installs, uses, upgrades and removes them in a minimal Debian system.

use std::time::Instant;

use anyhow::Result;

use super::{PROGRAMS, Release, archives, before};
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
    let began = Instant::now();
    let before = before::make(&release)?;
    println!("the package of the commit before took {:.0} s", began.elapsed().as_secs_f64());
    let [new, lab] = PROGRAMS.map(|name| release.out.join(format!("{name}_{}-1_amd64.deb", release.version)));
    for package in [&new, &lab] {
        run(program("lintian", &["--fail-on", "error", "--allow-root"]).arg(package))?;
    }
    for (unit, exposure) in UNITS {
        let options = ["security", "--offline=true", "--no-pager", "--threshold", exposure];
        run(program("systemd-analyze", &options).arg(unit))?;
    }
    check_alerts(&release)?;
    let mut install = program("sh", &["-eu", "packaging/tests/install.sh"]);
    install.arg(release.work.join("system")).arg(&before.package).args([&new, &lab]);
    run(install.arg(archives::archive_of(&release)))?;
    let current = release.root_of("bruit").join("usr/bin/bruit");
    let mut rolling = program("sh", &["-eu", "packaging/tests/rolling.sh"]);
    run(rolling.arg(&before.program).arg(&current))?;
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
