//! `cargo xtask licences`: checks that every dependency may be used under a permissive licence, and
//! where it comes from ([`registries`]).
//!
//! A licence expression (SPDX, annex D) passes if, for some choice of its `OR`s, all required licences are in
//! [`PERMISSIVE`]. The fuzz targets are a separate workspace, which is also checked.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::SplitWhitespace;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::{entries, metadata, text};
use crate::registries;

/// Permissive licences. They require at most a notice, and do not extend to linked code.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // A licence for data. The client's root certificates have it.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The manifests whose dependencies are checked.
const MANIFESTS: &[&str] = &["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks the dependencies for all platforms.
pub(crate) fn run() -> Result<()> {
    let read = |manifest: &&str| metadata(&["--locked", "--manifest-path", manifest]);
    let workspaces: Vec<_> = MANIFESTS.iter().map(read).collect::<Result<_>>()?;
    let mut packages = BTreeMap::new();
    for workspace in &workspaces {
        packages.append(&mut licences(workspace)?);
        registries::check(workspace)?;
    }
    let faults: Vec<_> = packages.iter().filter_map(|(package, licence)| fault(package, licence)).collect();
    if !faults.is_empty() {
        bail!("dependencies without a permissive licence (see xtask/src/licences.rs):\n  {}", faults.join("\n  "));
    }
    println!("{} packages have permissive licences", packages.len());
    // The other workspace, that of the fuzz targets, uses some of the same crates, so it need not be checked for
    // duplicates.
    registries::check_duplicates(&workspaces[0])
}

/// Returns the licence expression of each package, keyed by name and version. The expression is empty if the package
/// states none.
fn licences(metadata: &Value) -> Result<BTreeMap<String, String>> {
    entries(metadata, "packages")
        .map(|package| {
            let name = format!("{} {}", text(package, "name")?, text(package, "version")?);
            Ok((name, package["license"].as_str().unwrap_or_default().to_owned()))
        })
        .collect()
}

/// Returns the problem with a package's licence, if there is one.
fn fault(package: &str, licence: &str) -> Option<String> {
    if licence.is_empty() {
        return Some(format!("{package}: has no licence expression"));
    }
    match is_permissive(licence) {
        Ok(true) => None,
        Ok(false) => Some(format!("{package}: {licence}")),
        Err(error) => Some(format!("{package}: {licence}: {error:#}")),
    }
}

/// Returns true if `expression` can be satisfied from [`PERMISSIVE`]. The slash in old manifests means `OR`.
fn is_permissive(expression: &str) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words(spaced.split_whitespace().peekable());
    let permissive = words.any_of()?;
    match words.0.next() {
        Some(word) => bail!("unexpected {word}"),
        None => Ok(permissive),
    }
}

/// The words of an expression that have not been read yet.
struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl Words<'_> {
    /// Reads alternatives, at least one of which must be permissive. `OR` binds less tightly than `AND`.
    fn any_of(&mut self) -> Result<bool> {
        let mut permissive = self.all_of()?;
        while self.accept("OR") {
            permissive |= self.all_of()?;
        }
        Ok(permissive)
    }

    /// Reads requirements, all of which must be permissive.
    fn all_of(&mut self) -> Result<bool> {
        let mut permissive = self.one()?;
        while self.accept("AND") {
            permissive &= self.one()?;
        }
        Ok(permissive)
    }

    /// Reads a licence, with an optional exception, or an expression in parentheses.
    fn one(&mut self) -> Result<bool> {
        if self.accept("(") {
            let permissive = self.any_of()?;
            ensure!(self.accept(")"), "unclosed parenthesis");
            return Ok(permissive);
        }
        let licence = self.name()?;
        if self.accept("WITH") {
            let exception = self.name()?;
            return Ok(PERMISSIVE.contains(&format!("{licence} WITH {exception}").as_str()));
        }
        Ok(PERMISSIVE.contains(&licence.as_str()))
    }

    /// Reads the name of a licence or of an exception.
    fn name(&mut self) -> Result<String> {
        let word = self.0.next().context("expected a licence at the end")?;
        ensure!(!["AND", "OR", "WITH", "(", ")"].contains(&word), "expected a licence before {word}");
        Ok(word.to_owned())
    }

    /// Reads the next word if it is `word`. Returns true if it was.
    fn accept(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_permissive_alternative_is_enough() {
        for expression in ["MIT", "MIT OR GPL-3.0-only", "GPL-2.0/MIT", "LGPL-3.0 OR (MIT AND ISC)", "Unlicense/MIT"] {
            assert!(is_permissive(expression).unwrap(), "{expression}");
        }
    }

    #[test]
    fn every_requirement_must_be_permissive() {
        assert!(is_permissive("(MIT OR Apache-2.0) AND NCSA").unwrap());
        for expression in ["MPL-2.0", "MIT AND GPL-3.0-only", "(MIT OR ISC) AND MPL-2.0", "GPL-2.0+"] {
            assert!(!is_permissive(expression).unwrap(), "{expression}");
        }
    }

    #[test]
    fn and_binds_stronger_than_or() {
        assert!(is_permissive("MIT OR ISC AND MPL-2.0").unwrap());
        assert!(is_permissive("MPL-2.0 AND ISC OR MIT").unwrap());
        assert!(!is_permissive("(MIT OR ISC) AND MPL-2.0").unwrap());
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert!(is_permissive("Apache-2.0 WITH LLVM-exception").unwrap());
        assert!(!is_permissive("GPL-2.0 WITH Classpath-exception-2.0").unwrap());
        assert!(!is_permissive("MIT WITH LLVM-exception").unwrap());
    }

    #[test]
    fn malformed_expressions_are_refused() {
        for expression in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "()"] {
            assert!(is_permissive(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn a_package_without_licence_is_named() {
        assert_eq!(fault("thing 1.0.0", "").unwrap(), "thing 1.0.0: has no licence expression");
        assert_eq!(fault("thing 1.0.0", "MPL-2.0").unwrap(), "thing 1.0.0: MPL-2.0");
        assert_eq!(fault("thing 1.0.0", "MIT"), None);
    }
}
