//! `cargo xtask layers`: checks that crates depend only on lower layers.
//!
//! [`TABLE`] is the architecture as data. Each row lists the crates that one crate may use. That crate may also use
//! everything that the listed crates may use. Dev-dependencies are not restricted, so that a test may use the whole
//! system. There are two exceptions: nothing may depend on the chores or the benchmarks, and no crate of the product
//! may depend on the laboratory.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::command::{entries, metadata, text};

/// The allowed dependencies of each crate. Put the row of a new crate below the rows of all crates that it uses.
const TABLE: &[Row] = &[
    Row { name: "bruit-filters", uses: Uses::Only(&[]) },
    Row { name: "bruit-signatures", uses: Uses::Only(&[]) },
    Row { name: "bruit-protocols", uses: Uses::Only(&["bruit-signatures"]) },
    Row { name: "bruit-engine", uses: Uses::Only(&["bruit-filters", "bruit-signatures"]) },
    Row { name: "bruit-store", uses: Uses::Only(&["bruit-engine"]) },
    Row { name: "bruit-federation", uses: Uses::Only(&["bruit-engine", "bruit-store"]) },
    Row { name: "bruit-server", uses: Uses::Above },
    Row { name: "bruit-client", uses: Uses::Only(&["bruit-protocols", "bruit-signatures", "bruit-filters"]) },
    Row { name: "bruit-milter", uses: Uses::Only(&["bruit-client", "bruit-engine"]) },
    Row { name: "bruit-console", uses: Uses::Only(&["bruit-engine", "bruit-filters"]) },
    Row { name: "bruit-endurance", uses: Uses::Only(&["bruit-client", "bruit-store"]) },
    Row { name: "bruit", uses: Uses::Above },
    Row { name: "bruit-structures", uses: Uses::Only(&["bruit-filters"]) },
    Row { name: "bruit-simulation", uses: Uses::Only(&["bruit-filters", "bruit-structures"]) },
    Row { name: "bruit-forensics", uses: Uses::Only(&["bruit-filters", "bruit-signatures", "bruit-structures"]) },
    Row {
        name: "bruit-lab",
        uses: Uses::Only(&["bruit-console", "bruit-engine", "bruit-forensics", "bruit-simulation", "bruit-structures"]),
    },
    Row { name: "bruit-testing", uses: Uses::Only(&["bruit-protocols"]) },
    Row { name: "bruit-bench", uses: Uses::Above },
    Row { name: "xtask", uses: Uses::Above },
];

/// Crates that may be used only by tests and by the crates in [`FOR_NOBODY`].
const FOR_TESTS: &[&str] = &["bruit-endurance", "bruit-testing"];

/// The crates of the laboratory. No crate of the product may use them, not even in tests.
const LABORATORY: &[&str] = &["bruit-structures", "bruit-simulation", "bruit-forensics", "bruit-lab"];

/// Crates that no other crate may use, not even in tests.
const FOR_NOBODY: &[&str] = &["bruit-bench", "xtask"];

/// A crate of [`TABLE`].
struct Row {
    name: &'static str,
    uses: Uses,
}

/// The allowed dependencies of a crate.
enum Uses {
    /// These crates, and all crates that they may use.
    Only(&'static [&'static str]),
    /// The crates of every row above.
    Above,
}

/// A dependency between two crates of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dependency {
    from: String,
    to: String,
    for_tests: bool,
}

/// Checks the manifests of the workspace.
pub(crate) fn run() -> Result<()> {
    let metadata = metadata(&["--no-deps"])?;
    let crates = crates(&metadata)?;
    let dependencies = dependencies(&metadata, &crates)?;
    let faults = faults(&crates, &dependencies);
    if !faults.is_empty() {
        bail!("layer violations:\n  {}", faults.join("\n  "));
    }
    println!("layers ok: {} crates, {} dependencies between them", crates.len(), dependencies.len());
    Ok(())
}

/// Returns the names of the crates in the workspace.
fn crates(metadata: &Value) -> Result<BTreeSet<String>> {
    entries(metadata, "packages").map(|package| Ok(text(package, "name")?.to_owned())).collect()
}

/// Returns all dependencies between `crates`, including optional and build dependencies.
fn dependencies(metadata: &Value, crates: &BTreeSet<String>) -> Result<Vec<Dependency>> {
    let mut found = Vec::new();
    for package in entries(metadata, "packages") {
        for dependency in entries(package, "dependencies") {
            found.push(Dependency {
                from: text(package, "name")?.to_owned(),
                to: text(dependency, "name")?.to_owned(),
                for_tests: dependency["kind"] == "dev",
            });
        }
    }
    found.retain(|dependency| crates.contains(&dependency.to));
    Ok(found)
}

/// Returns all violations, one per line.
fn faults(crates: &BTreeSet<String>, dependencies: &[Dependency]) -> Vec<String> {
    let unknown = crates
        .iter()
        .filter(|name| position(name).is_none())
        .map(|name| format!("{name} has no layer: add a row to TABLE in xtask/src/layers.rs and to ARCHITECTURE.md"));
    unknown.chain(dependencies.iter().filter_map(fault)).collect()
}

/// Returns the violation that a dependency causes, if there is one. Crates without a row are reported by [`faults`].
fn fault(dependency: &Dependency) -> Option<String> {
    let Dependency { from, to, for_tests } = dependency;
    position(from).zip(position(to))?;
    if FOR_NOBODY.contains(&to.as_str()) {
        return Some(format!("{from} uses {to}, but no crate may use it"));
    }
    let is_outside = |name: &String| !LABORATORY.contains(&name.as_str()) && !FOR_NOBODY.contains(&name.as_str());
    if LABORATORY.contains(&to.as_str()) && is_outside(from) {
        return Some(format!("{from} uses {to}, which belongs to the laboratory"));
    }
    if *for_tests {
        return None;
    }
    if FOR_TESTS.contains(&to.as_str()) {
        if FOR_NOBODY.contains(&from.as_str()) {
            return None;
        }
        return Some(format!("{from} uses {to}, which may only be a dev-dependency"));
    }
    let allowed = allowed(from);
    (!allowed.contains(to.as_str())).then(|| format!("{from} uses {to}, but may use {}", listed(&allowed)))
}

/// Returns all crates that `name` may use.
fn allowed(name: &str) -> BTreeSet<&'static str> {
    let Some(index) = position(name) else { return BTreeSet::new() };
    match TABLE[index].uses {
        Uses::Only(direct) => direct.iter().flat_map(|used| allowed(used).into_iter().chain([*used])).collect(),
        Uses::Above => TABLE[..index].iter().map(|row| row.name).collect(),
    }
}

/// Returns the index of `name` in the table.
fn position(name: &str) -> Option<usize> {
    TABLE.iter().position(|row| row.name == name)
}

/// Formats `names` as a list.
fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "none of our crates".to_owned();
    }
    let names: Vec<_> = names.iter().copied().collect();
    format!("only {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the violations in a workspace of two crates, where `from` depends on `to`.
    fn faults_of(from: &str, to: &str, for_tests: bool) -> Vec<String> {
        let dependency = Dependency { from: from.to_owned(), to: to.to_owned(), for_tests };
        faults(&[from.to_owned(), to.to_owned()].into(), &[dependency])
    }

    #[test]
    fn a_lower_crate_may_not_use_a_higher_one() {
        assert_eq!(
            faults_of("bruit-filters", "bruit", false),
            ["bruit-filters uses bruit, but may use none of our crates"]
        );
        assert_eq!(
            faults_of("bruit-engine", "bruit-store", false),
            ["bruit-engine uses bruit-store, but may use only bruit-filters, bruit-signatures"]
        );
    }

    #[test]
    fn a_crate_may_not_use_one_beside_it() {
        assert_eq!(faults_of("bruit-signatures", "bruit-filters", false).len(), 1);
        assert_eq!(faults_of("bruit-engine", "bruit-protocols", false).len(), 1);
        assert_eq!(faults_of("bruit-console", "bruit-server", false).len(), 1);
    }

    #[test]
    fn what_a_used_crate_uses_may_be_used_too() {
        assert!(faults_of("bruit-federation", "bruit-filters", false).is_empty());
        assert!(faults_of("bruit-console", "bruit-signatures", false).is_empty());
        assert!(faults_of("bruit", "bruit-server", false).is_empty());
    }

    #[test]
    fn test_helpers_stay_in_tests_and_benchmarks() {
        assert!(faults_of("bruit-filters", "bruit-testing", true).is_empty());
        for user in ["bruit-filters", "bruit"] {
            assert_eq!(faults_of(user, "bruit-testing", false).len(), 1, "{user}");
        }
        assert!(faults_of("bruit-bench", "bruit-testing", false).is_empty());
    }

    #[test]
    fn the_product_does_not_use_the_laboratory_even_in_tests() {
        for (user, for_tests) in [("bruit", false), ("bruit", true), ("bruit-filters", true)] {
            let fault = format!("{user} uses bruit-forensics, which belongs to the laboratory");
            assert_eq!(faults_of(user, "bruit-forensics", for_tests), [fault]);
        }
        assert!(faults_of("bruit-lab", "bruit-forensics", false).is_empty());
        assert!(faults_of("bruit-bench", "bruit-forensics", false).is_empty());
    }

    #[test]
    fn nothing_uses_chores_or_benchmarks() {
        for (used, for_tests) in [("xtask", false), ("xtask", true), ("bruit-bench", false), ("bruit-bench", true)] {
            assert_eq!(faults_of("bruit", used, for_tests), [format!("bruit uses {used}, but no crate may use it")]);
        }
    }

    #[test]
    fn an_unknown_crate_is_sent_to_the_table() {
        let faults = faults_of("bruit-common", "bruit-filters", false);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("xtask/src/layers.rs"), "{faults:?}");
    }

    #[test]
    fn the_table_itself_only_points_up() {
        for (index, row) in TABLE.iter().enumerate() {
            let Uses::Only(direct) = row.uses else { continue };
            assert!(direct.iter().all(|used| position(used).is_some_and(|above| above < index)), "{}", row.name);
        }
    }

    #[test]
    fn the_present_tree_follows_the_layers() {
        run().unwrap();
    }
}
