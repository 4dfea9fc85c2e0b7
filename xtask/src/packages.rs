//! Set-up: installs the packages, tools and modules that the stages need.
//!
//! [`PACKAGES`], [`ARCHIVES`], [`TOOLS`] and [`MODULES`] list what each stage needs. Missing items are installed if
//! that is possible without a password or a confirmation. Otherwise the chore fails and names them. Stages are never
//! skipped.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::test::Stage;

/// Debian packages that are needed besides a Rust toolchain and its linker. If a stage needs another program, add a
/// row.
const PACKAGES: &[Package] = &[
    Package {
        name: "g++",
        program: "c++",
        stage: Stage::Fuzz,
        reason: "libFuzzer is written in C++ and compiled with the fuzz targets",
    },
    Package {
        name: "razor",
        program: "razor-check",
        stage: Stage::Nextest,
        reason: "the original client checks our Razor signatures and our server",
    },
    Package {
        name: "pyzor",
        program: "pyzor",
        stage: Stage::Nextest,
        reason: "the original client checks our Pyzor digests and our server",
    },
    Package {
        name: "python3-pip",
        program: "pip3",
        stage: Stage::Nextest,
        reason: "installs Pyzor 1.1, which Debian does not have, to check our digests",
    },
    Package {
        name: "rspamd",
        program: "rspamd",
        stage: Stage::Nextest,
        reason: "its fuzzy_check module tests our server",
    },
    Package {
        name: "nats-server",
        program: "nats-server",
        stage: Stage::Nextest,
        reason: "servers exchange segments over real brokers",
    },
    Package {
        name: "iproute2",
        program: "ip",
        stage: Stage::Nextest,
        reason: "the commands in the documents run in a separate network",
    },
    Package {
        name: "strace",
        program: "strace",
        stage: Stage::Nextest,
        reason: "shows that a check answered by a local replica uses no network",
    },
    Package {
        name: "faketime",
        program: "faketime",
        stage: Stage::Nextest,
        reason: "sets the clock of one server while others run",
    },
    Package {
        name: "nginx-light",
        program: "nginx",
        stage: Stage::Nextest,
        reason: "requests through a proxy with the default configuration must be treated as foreign",
    },
    Package {
        name: "haproxy",
        program: "haproxy",
        stage: Stage::Nextest,
        reason: "requests through a proxy without forwarding headers must be treated as foreign",
    },
    Package {
        name: "curl",
        program: "curl",
        stage: Stage::Nextest,
        reason: "sends requests by host name, over TLS and to a Unix socket",
    },
    Package {
        name: "prometheus",
        program: "promtool",
        stage: Stage::Nextest,
        reason: "checks our metrics and alert rules",
    },
    Package {
        name: "postfix",
        program: "postfix",
        stage: Stage::Nextest,
        reason: "its mail passes through our milter",
    },
    Package {
        name: "m4",
        program: "m4",
        stage: Stage::Nextest,
        reason: "makes the configuration of Sendmail, whose mail passes through our milter",
    },
    Package {
        name: "dovecot-imapd",
        program: "dovecot",
        stage: Stage::Nextest,
        reason: "its users report mail by moving it to Junk",
    },
    Package {
        name: "dovecot-sieve",
        program: "sievec",
        stage: Stage::Nextest,
        reason: "runs our scripts when mail is moved",
    },
    Package {
        name: "spamassassin",
        program: "spamassassin",
        stage: Stage::Nextest,
        reason: "its Razor2 and Pyzor plugins test our server",
    },
    Package {
        name: "musl-tools",
        program: "musl-gcc",
        stage: Stage::Packages,
        reason: "compiles the C code in the static programs",
    },
    Package {
        name: "dpkg-dev",
        program: "dpkg-buildpackage",
        stage: Stage::Packages,
        reason: "makes the Debian packages",
    },
    Package { name: "debhelper", program: "dh", stage: Stage::Packages, reason: "makes the Debian packages" },
    Package { name: "lintian", program: "lintian", stage: Stage::Packages, reason: "checks the Debian packages" },
    Package {
        name: "mmdebstrap",
        program: "mmdebstrap",
        stage: Stage::Packages,
        reason: "makes a minimal system in which the packages are installed",
    },
    Package {
        name: "buildah",
        program: "buildah",
        stage: Stage::Packages,
        reason: "makes the container image, and runs it",
    },
    Package {
        name: "prometheus",
        program: "promtool",
        stage: Stage::Packages,
        reason: "checks the alert rules in the package",
    },
    Package { name: "systemd", program: "systemd-analyze", stage: Stage::Packages, reason: "checks the units" },
    Package { name: "chromium", program: "chromium", stage: Stage::Nextest, reason: "opens the dashboard" },
    Package { name: "chromium-driver", program: "chromedriver", stage: Stage::Nextest, reason: "drives Chromium" },
    Package {
        name: "npm",
        program: "npm",
        stage: Stage::Nextest,
        reason: "fetches axe-core, which checks that the dashboard is accessible",
    },
];

/// Debian packages that conflict with one of [`PACKAGES`]. Each is unpacked into a folder of the target directory.
const ARCHIVES: &[Archive] = &[Archive {
    folder: "sendmail",
    packages: &["sendmail-bin", "sendmail-cf"],
    program: "usr/libexec/sendmail/sendmail",
    stage: Stage::Nextest,
}];

/// Cargo subcommands that stages call.
const TOOLS: &[Tool] = &[
    Tool { subcommand: "fmt", stage: Stage::Fmt, install: &["rustup", "component", "add", "rustfmt"] },
    Tool { subcommand: "clippy", stage: Stage::Clippy, install: &["rustup", "component", "add", "clippy"] },
    Tool { subcommand: "clippy", stage: Stage::Fuzz, install: &["rustup", "component", "add", "clippy"] },
    Tool {
        subcommand: "nextest",
        stage: Stage::Nextest,
        install: &["cargo", "install", "--locked", "cargo-nextest@0.9.143"],
    },
    Tool {
        subcommand: "auditable",
        stage: Stage::Packages,
        install: &["cargo", "install", "--locked", "cargo-auditable@0.7.7"],
    },
    Tool {
        subcommand: "cyclonedx",
        stage: Stage::Packages,
        install: &["cargo", "install", "--locked", "cargo-cyclonedx@0.5.9"],
    },
];

/// Python modules that stages load, each from its own folder in the target directory.
const MODULES: &[Module] = &[Module { name: "pyzor", version: "1.1.2", stage: Stage::Nextest }];

/// The npm package that checks whether pages are accessible. Only tests use it.
const AXE: (&str, &str) = ("axe-core", "4.14.0");

/// Prefix of an apt-get command. It asks no questions and starts no daemons, whether under systemd or init.
const APT_GET: &[&str] = &["env", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_OFFLINE=1", "RUNLEVEL=1", "apt-get"];

/// Folders into which Debian installs daemons. For users other than root, they are not always in the path.
const DAEMON_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A Debian package. It is considered installed if its program is found.
struct Package {
    name: &'static str,
    program: &'static str,
    stage: Stage,
    reason: &'static str,
}

/// Debian packages that are unpacked. They are considered unpacked if their program exists.
struct Archive {
    folder: &'static str,
    packages: &'static [&'static str],
    program: &'static str,
    stage: Stage,
}

/// A cargo subcommand. It is considered installed if it prints its version.
struct Tool {
    subcommand: &'static str,
    stage: Stage,
    install: &'static [&'static str],
}

/// A version of a Python module. It is considered installed if its folder exists.
struct Module {
    name: &'static str,
    version: &'static str,
    stage: Stage,
}

/// Installs the missing dependencies of `stages`.
pub(crate) fn provide(stages: &[Stage]) -> Result<()> {
    let missing = missing(PACKAGES, stages, is_on_path);
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let needs_namespaces = stages.contains(&Stage::Nextest);
    ensure!(
        !needs_namespaces || has_namespaces(),
        "the commands in the documents need namespaces, which this system does not allow (unshare). Allow them with \
         `sysctl kernel.unprivileged_userns_clone=1` or, in a container, `--security-opt seccomp=unconfined`"
    );
    ARCHIVES.iter().filter(|archive| stages.contains(&archive.stage)).try_for_each(provide_archive)?;
    TOOLS.iter().filter(|tool| stages.contains(&tool.stage)).try_for_each(provide_tool)?;
    MODULES.iter().filter(|module| stages.contains(&module.stage)).try_for_each(provide_module)?;
    if stages.contains(&Stage::Nextest) { provide_axe() } else { Ok(()) }
}

/// Returns the packages that one of `stages` needs, but that are not installed.
fn missing<'a>(packages: &'a [Package], stages: &[Stage], is_there: impl Fn(&str) -> bool) -> Vec<&'a Package> {
    packages.iter().filter(|package| stages.contains(&package.stage) && !is_there(package.program)).collect()
}

/// Returns true if a program of this name is in the path.
fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(DAEMON_FOLDERS.iter().map(Into::into)).any(|folder| folder.join(program).is_file())
}

/// Returns true if programs can run in separate namespaces, which the tests of the documents need.
fn has_namespaces() -> bool {
    command::succeeds(&mut command::program(
        "unshare",
        &["--map-root-user", "--mount", "--net", "--pid", "--fork", "true"],
    ))
}

/// Installs `missing` without interaction. If that is not possible, fails with the names of all missing packages.
fn install_packages(missing: &[&Package]) -> Result<()> {
    let Some(privilege) = privilege() else { bail!(refusal(missing)) };
    println!("missing Debian packages:\n{}", reasons(missing));
    let install = install_words(missing);
    apt_get(privilege, &["update"]).and_then(|()| apt_get(privilege, &install)).with_context(|| refusal(missing))?;
    for package in missing {
        ensure!(is_on_path(package.program), "{} is installed, but provides no {}", package.name, package.program);
    }
    Ok(())
}

/// Runs apt-get without interaction and without starting daemons.
fn apt_get(privilege: &[&str], arguments: &[&str]) -> Result<()> {
    let words = [privilege, APT_GET, arguments].concat();
    let (program, arguments) = words.split_first().expect("the prefix contains apt-get");
    command::run(&mut command::program(program, arguments))
}

/// Downloads the packages of `archive` and unpacks them, unless that is already done.
fn provide_archive(archive: &Archive) -> Result<()> {
    let Archive { folder, packages, program, stage } = archive;
    let target = command::target_directory()?.join("debian").join(folder);
    if target.join(program).is_file() {
        return Ok(());
    }
    println!("{} are not unpacked (for stage {stage}); downloading them", packages.join(", "));
    let downloads = target.with_extension("download");
    fs::create_dir_all(&downloads)?;
    let download = || {
        let mut words = command::program("apt-get", &["download"]);
        command::run(words.args(*packages).current_dir(&downloads))
    };
    let updated = || apt_get(privilege().context("apt-get update needs root")?, &["update"]).and_then(|()| download());
    download().or_else(|_| updated()).with_context(|| format!("stage {stage} needs {}", packages.join(", ")))?;
    let unpacked = downloads.join("unpacked");
    let files = fs::read_dir(&downloads)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "deb")) {
        command::run(command::program("dpkg-deb", &["--extract"]).arg(file).arg(&unpacked))?;
    }
    ensure!(unpacked.join(program).is_file(), "{} has no {program}", packages.join(", "));
    fs::rename(&unpacked, &target)?;
    Ok(fs::remove_dir_all(&downloads)?)
}

/// Returns the prefix of a command that installs packages; `None` if packages cannot be installed.
fn privilege() -> Option<&'static [&'static str]> {
    if !is_on_path("apt-get") {
        return None;
    }
    if is_root() {
        return Some(&[]);
    }
    command::succeeds(&mut command::program("sudo", &["-n", "true"])).then_some(&["sudo", "-n"])
}

/// Returns true if the user is root.
fn is_root() -> bool {
    command::read(&mut command::program("id", &["-u"])).is_ok_and(|user| user.trim_ascii() == b"0")
}

/// Describes missing packages that could not be installed, and the command to install them.
fn refusal(missing: &[&Package]) -> String {
    format!(
        "missing Debian packages, which could not be installed automatically:\n{}\ninstall them with: apt-get {}",
        reasons(missing),
        install_words(missing).join(" ")
    )
}

/// Lists packages with their reasons, one line each.
fn reasons(packages: &[&Package]) -> String {
    let line = |package: &&Package| format!("  {} (for stage {}: {})", package.name, package.stage, package.reason);
    packages.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the arguments of apt-get.
fn install_words(packages: &[&Package]) -> Vec<&'static str> {
    let options = ["install", "--yes", "--no-install-recommends"];
    options.into_iter().chain(packages.iter().map(|package| package.name)).collect()
}

/// Installs `tool` if it is missing.
fn provide_tool(tool: &Tool) -> Result<()> {
    if command::succeeds(&mut command::cargo(&[tool.subcommand, "--version"])) {
        return Ok(());
    }
    println!("cargo {} is missing (for stage {}); installing it", tool.subcommand, tool.stage);
    let (program, arguments) = tool.install.split_first().expect("every tool has an install command");
    command::run(&mut command::program(program, arguments)).with_context(|| {
        format!("stage {} needs cargo {}; install it with: {}", tool.stage, tool.subcommand, tool.install.join(" "))
    })
}

/// Installs `module`, if it is missing, into a folder outside Python's default search path.
fn provide_module(module: &Module) -> Result<()> {
    let Module { name, version, stage } = module;
    let metadata = command::metadata(&["--no-deps"])?;
    let folder = Path::new(command::text(&metadata, "target_directory")?).join(format!("python/{name}-{version}"));
    if folder.join(name).is_dir() {
        return Ok(());
    }
    println!("the Python module {name} {version} is missing (for stage {stage}); installing it");
    let mut install = command::program("pip3", &["install", "--quiet", "--no-deps", "--target"]);
    install.arg(&folder).arg(format!("{name}=={version}"));
    command::run(&mut install)
        .with_context(|| format!("stage {stage} needs the Python module {name} {version} in {}", folder.display()))
}

/// Unpacks axe-core, if it is missing, into a folder of the target directory.
fn provide_axe() -> Result<()> {
    let (name, version) = AXE;
    let metadata = command::metadata(&["--no-deps"])?;
    let folder = Path::new(command::text(&metadata, "target_directory")?).join(format!("npm/{name}-{version}"));
    if folder.join("package/axe.min.js").is_file() {
        return Ok(());
    }
    println!("{name} {version} is missing (for stage {}); fetching it", Stage::Nextest);
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let package = format!("{name}@{version}");
    let wanted = || format!("stage {} needs {package} in {}", Stage::Nextest, folder.display());
    let mut pack = command::program("npm", &["pack", "--silent", &package, "--pack-destination"]);
    command::run(pack.arg(&folder)).with_context(wanted)?;
    let mut unpack = command::program("tar", &["-xzf"]);
    unpack.arg(folder.join(format!("{name}-{version}.tgz"))).arg("-C").arg(&folder);
    command::run(&mut unpack).with_context(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAEMON: Package =
        Package { name: "nats-server", program: "nats-server", stage: Stage::Nextest, reason: "federation over NATS" };
    const COMPILER: Package = Package { name: "g++", program: "c++", stage: Stage::Fuzz, reason: "libFuzzer is C++" };

    /// Returns the packages that would be installed on a machine without any of the programs.
    fn missing_for(stages: &[Stage]) -> Vec<&'static str> {
        missing(&[DAEMON, COMPILER], stages, |_| false).iter().map(|package| package.name).collect()
    }

    #[test]
    fn only_what_the_stages_need_is_missing() {
        assert_eq!(missing_for(&[Stage::Fuzz, Stage::Nextest]), ["nats-server", "g++"]);
        assert_eq!(missing_for(&[Stage::Fuzz]), ["g++"]);
        assert!(missing_for(&[Stage::Fmt]).is_empty());
        assert!(missing(&[COMPILER], &[Stage::Fuzz], |program| program == "c++").is_empty());
    }

    #[test]
    fn a_refusal_names_every_package_and_the_command() {
        let refusal = refusal(&[&DAEMON, &COMPILER]);
        assert!(refusal.contains("nats-server (for stage nextest: federation over NATS)"), "{refusal}");
        assert!(refusal.ends_with("apt-get install --yes --no-install-recommends nats-server g++"), "{refusal}");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_on_path("env"));
        assert!(!is_on_path("no-such-program"));
    }
}
