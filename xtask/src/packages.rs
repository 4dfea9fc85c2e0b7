//! What the stages need from the machine, and getting it.
//!
//! [`PACKAGES`], [`TOOLS`] and [`MODULES`] say which stage needs what, and why. What is missing is installed when that can be done
//! without asking anyone; otherwise the chore fails and says what to install. No stage is ever left out.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::test::Stage;

/// The Debian packages beyond a Rust toolchain and its linker. A stage that needs another program adds a row.
const PACKAGES: &[Package] = &[
    Package {
        name: "g++",
        program: "c++",
        stage: Stage::Fuzz,
        reason: "libFuzzer is C++, compiled with the fuzz targets",
    },
    Package {
        name: "razor",
        program: "razor-check",
        stage: Stage::Nextest,
        reason: "our Razor signatures are compared with those of the original client, and it talks to our server",
    },
    Package {
        name: "pyzor",
        program: "pyzor",
        stage: Stage::Nextest,
        reason: "digests are compared with those of Pyzor's own client, and it talks to our server",
    },
    Package {
        name: "python3-pip",
        program: "pip3",
        stage: Stage::Nextest,
        reason: "digests are compared with those of Pyzor 1.1, too, which Debian does not have",
    },
    Package { name: "rspamd", program: "rspamd", stage: Stage::Nextest, reason: "its fuzzy_check talks to our server" },
    Package {
        name: "nats-server",
        program: "nats-server",
        stage: Stage::Nextest,
        reason: "servers exchange segments over real brokers, which are killed meanwhile",
    },
    Package {
        name: "iproute2",
        program: "ip",
        stage: Stage::Nextest,
        reason: "the commands of the documents run on a network of their own",
    },
    Package {
        name: "strace",
        program: "strace",
        stage: Stage::Nextest,
        reason: "it shows that a check which a local replica answers asks nobody",
    },
    Package {
        name: "faketime",
        program: "faketime",
        stage: Stage::Nextest,
        reason: "it sets the clock of a running server, and of no other program",
    },
    Package {
        name: "nginx-light",
        program: "nginx",
        stage: Stage::Nextest,
        reason: "what comes through a proxy in its stock configuration must be a stranger's",
    },
    Package {
        name: "haproxy",
        program: "haproxy",
        stage: Stage::Nextest,
        reason: "what comes through a proxy that adds nothing to a request must be a stranger's",
    },
    Package {
        name: "curl",
        program: "curl",
        stage: Stage::Nextest,
        reason: "it asks by host name, over TLS and at a Unix socket, as operators do",
    },
    Package {
        name: "prometheus",
        program: "promtool",
        stage: Stage::Nextest,
        reason: "promtool checks our metrics and alert rules",
    },
    Package {
        name: "spamassassin",
        program: "spamassassin",
        stage: Stage::Nextest,
        reason: "its Razor2 and Pyzor plugins talk to our server",
    },
];

/// The extensions of cargo that stages call.
const TOOLS: &[Tool] = &[
    Tool { subcommand: "fmt", stage: Stage::Fmt, install: &["rustup", "component", "add", "rustfmt"] },
    Tool { subcommand: "clippy", stage: Stage::Clippy, install: &["rustup", "component", "add", "clippy"] },
    Tool { subcommand: "clippy", stage: Stage::Fuzz, install: &["rustup", "component", "add", "clippy"] },
    Tool { subcommand: "nextest", stage: Stage::Nextest, install: &["cargo", "install", "--locked", "cargo-nextest"] },
];

/// The Python modules that stages load, each from a folder of its own in the target directory.
const MODULES: &[Module] = &[Module { name: "pyzor", version: "1.1.2", stage: Stage::Nextest }];

/// What apt-get and the scripts of packages are told: ask nothing, and start no daemon, whether by systemd or by init.
const QUIETLY: &[&str] = &["env", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_OFFLINE=1", "RUNLEVEL=1", "apt-get"];

/// Where Debian puts daemons: not always on the path of those who are not root.
const DAEMON_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A Debian package, there if its program is.
struct Package {
    name: &'static str,
    program: &'static str,
    stage: Stage,
    reason: &'static str,
}

/// A subcommand of cargo, there if it can tell its version.
struct Tool {
    subcommand: &'static str,
    stage: Stage,
    install: &'static [&'static str],
}

/// A version of a Python module, there if its folder is.
struct Module {
    name: &'static str,
    version: &'static str,
    stage: Stage,
}

/// Makes sure that everything `stages` need is there.
pub(crate) fn provide(stages: &[Stage]) -> Result<()> {
    let missing = missing(PACKAGES, stages, is_on_path);
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let needs_namespaces = stages.contains(&Stage::Nextest);
    ensure!(
        !needs_namespaces || has_namespaces(),
        "the commands of the documents cannot be run: this system allows no new namespaces (unshare). Allow them with \
         `sysctl kernel.unprivileged_userns_clone=1` or, in a container, `--security-opt seccomp=unconfined`"
    );
    TOOLS.iter().filter(|tool| stages.contains(&tool.stage)).try_for_each(provide_tool)?;
    MODULES.iter().filter(|module| stages.contains(&module.stage)).try_for_each(provide_module)
}

/// Those of `packages` that one of `stages` needs and whose program is not there.
fn missing<'a>(packages: &'a [Package], stages: &[Stage], is_there: impl Fn(&str) -> bool) -> Vec<&'a Package> {
    packages.iter().filter(|package| stages.contains(&package.stage) && !is_there(package.program)).collect()
}

/// Whether a program of that name can be started.
fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(DAEMON_FOLDERS.iter().map(Into::into)).any(|folder| folder.join(program).is_file())
}

/// Whether programs may run on a machine of their own, as those in the documents do.
fn has_namespaces() -> bool {
    command::succeeds(&mut command::program(
        "unshare",
        &["--map-root-user", "--mount", "--net", "--pid", "--fork", "true"],
    ))
}

/// Installs `missing` without asking, or fails naming all of them.
fn install_packages(missing: &[&Package]) -> Result<()> {
    let Some(privilege) = privilege() else { bail!(refusal(missing)) };
    println!("missing Debian packages:\n{}", reasons(missing));
    let install = install_words(missing);
    apt_get(privilege, &["update"]).and_then(|()| apt_get(privilege, &install)).with_context(|| refusal(missing))?;
    for package in missing {
        ensure!(is_on_path(package.program), "{} is installed, but brought no {}", package.name, package.program);
    }
    Ok(())
}

/// Runs apt-get so that it never asks, and no daemon runs afterwards that did not before.
fn apt_get(privilege: &[&str], arguments: &[&str]) -> Result<()> {
    let words = [privilege, QUIETLY, arguments].concat();
    let (program, arguments) = words.split_first().expect("apt-get is among the words");
    command::run(&mut command::program(program, arguments))
}

/// What to put before a command that installs packages; nothing does if there is no way to.
fn privilege() -> Option<&'static [&'static str]> {
    if !is_on_path("apt-get") {
        return None;
    }
    if is_root() {
        return Some(&[]);
    }
    command::succeeds(&mut command::program("sudo", &["-n", "true"])).then_some(&["sudo", "-n"])
}

/// Whether we may do everything.
fn is_root() -> bool {
    command::read(&mut command::program("id", &["-u"])).is_ok_and(|user| user.trim_ascii() == b"0")
}

/// Why the stages cannot run, and what to do about it.
fn refusal(missing: &[&Package]) -> String {
    format!(
        "Debian packages are missing and could not be installed from here:\n{}\ninstall them with: apt-get {}",
        reasons(missing),
        install_words(missing).join(" ")
    )
}

/// Each package on a line, with what it is for.
fn reasons(packages: &[&Package]) -> String {
    let line = |package: &&Package| format!("  {} (for stage {}: {})", package.name, package.stage, package.reason);
    packages.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What to tell apt-get.
fn install_words(packages: &[&Package]) -> Vec<&'static str> {
    let options = ["install", "--yes", "--no-install-recommends"];
    options.into_iter().chain(packages.iter().map(|package| package.name)).collect()
}

/// Installs `tool` unless it is there.
fn provide_tool(tool: &Tool) -> Result<()> {
    if command::succeeds(&mut command::cargo(&[tool.subcommand, "--version"])) {
        return Ok(());
    }
    println!("cargo {} is missing (for stage {}); installing it", tool.subcommand, tool.stage);
    let (program, arguments) = tool.install.split_first().expect("every tool says how to install it");
    command::run(&mut command::program(program, arguments)).with_context(|| {
        format!("stage {} needs cargo {}; install it with: {}", tool.stage, tool.subcommand, tool.install.join(" "))
    })
}

/// Installs `module` unless it is there. It goes to a folder that no Python looks into by itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    const DAEMON: Package =
        Package { name: "nats-server", program: "nats-server", stage: Stage::Nextest, reason: "federation over NATS" };
    const COMPILER: Package = Package { name: "g++", program: "c++", stage: Stage::Fuzz, reason: "libFuzzer is C++" };

    /// The names of what is missing on a machine without any of the programs.
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
