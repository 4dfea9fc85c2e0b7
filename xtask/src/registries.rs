//! Checks where the dependencies come from, and which crates occur in several versions.
//!
//! Every crate must come from crates.io, whose versions cannot be changed later and whose checksums are in the lock
//! file. A second version of a crate makes programs larger and must be listed in [`DUPLICATES`], with its reason.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::command::{entries, text};

/// The only source of crates besides this repository.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates with several versions, by the dependency that needs an older one.
const DUPLICATES: &[(&str, &[&str])] = &[
    // Signs the login to a NATS broker.
    (
        "nkeys",
        &[
            "block-buffer",
            "const-oid",
            "cpufeatures",
            "crypto-common",
            "curve25519-dalek",
            "digest",
            "ed25519",
            "ed25519-dalek",
            "fiat-crypto",
            "getrandom",
            "rand",
            "rand_chacha",
            "rand_core",
            "sha2",
            "signature",
        ],
    ),
    ("async-nats", &["base64"]),
    ("x509-parser", &["nom", "rusticata-macros", "synstructure"]),
    // Several macros of other crates, which run only when the program is built.
    ("tracing-attributes", &["syn"]),
    // Draws the plots of the laboratory.
    ("resvg", &["miniz_oxide"]),
    // A crate with which the benchmarks compare ours.
    ("count-min-sketch", &["r-efi"]),
    // Only on Windows.
    ("ring", &["windows-sys"]),
];

/// Checks the sources of the packages in the output of `cargo metadata`.
pub(crate) fn check(metadata: &Value) -> Result<()> {
    for package in entries(metadata, "packages") {
        let (name, version, source) = (text(package, "name")?, text(package, "version")?, package["source"].as_str());
        // The project's own packages have no source.
        let source = source.unwrap_or(CRATES_IO);
        ensure!(source == CRATES_IO, "{name} {version} comes from {source}, not from crates.io");
    }
    Ok(())
}

/// Compares the crates that have several versions with the list.
pub(crate) fn check_duplicates(metadata: &Value) -> Result<()> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in entries(metadata, "packages") {
        versions.entry(text(package, "name")?).or_default().insert(text(package, "version")?);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let faults = faults(&versions.keys().copied().collect());
    if !faults.is_empty() {
        bail!("the list of duplicates in xtask/src/registries.rs is wrong:\n  {}", faults.join("\n  "));
    }
    println!("all packages come from crates.io; {} of them have several versions, as listed", versions.len());
    Ok(())
}

/// Returns how the crates with several versions differ from the list.
fn faults(duplicates: &BTreeSet<&str>) -> Vec<String> {
    let listed: BTreeSet<_> = DUPLICATES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let new = duplicates.difference(&listed).map(|name| format!("{name} has several versions, but is not listed"));
    let old = listed.difference(duplicates).map(|name| format!("{name} is listed, but has one version or none"));
    new.chain(old).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_from_elsewhere_are_refused() {
        let package = json!({"name": "thing", "version": "1.0.0", "source": "git+https://example.org/thing"});
        let error = check(&json!({"packages": [package]})).unwrap_err();
        assert!(error.to_string().starts_with("thing 1.0.0 comes from git+"), "{error}");
    }

    #[test]
    fn a_new_duplicate_and_one_that_is_gone_are_named() {
        let listed: BTreeSet<_> = DUPLICATES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert!(faults(&listed).is_empty());
        let mut others = listed.clone();
        others.insert("thing");
        others.remove("syn");
        assert_eq!(
            faults(&others),
            ["thing has several versions, but is not listed", "syn is listed, but has one version or none"]
        );
    }
}
