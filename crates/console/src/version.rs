//! The version that `--version` prints.

use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// The commit that a published program was built from; missing in a program built by hand. `cargo xtask dist` sets it.
const COMMIT: Option<&str> = option_env!("BRUIT_COMMIT");

/// The C library that the program was linked with.
const LIBRARY: &str = if cfg!(target_env = "musl") {
    "-musl"
} else if cfg!(target_env = "gnu") {
    "-gnu"
} else {
    ""
};

/// Returns version, commit and target, such as `0.1.0 (commit 1a2b3c4d5e6f, x86_64-linux-musl)`.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| described(COMMIT));
    &VERSION
}

fn described(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit.and_then(|commit| commit.get(..12)) {
        Some(commit) => format!("{version} (commit {commit}, {ARCH}-{OS}{LIBRARY})"),
        None => format!("{version} (built from source, {ARCH}-{OS}{LIBRARY})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_program_names_its_commit() {
        let published = described(Some("6b1f0a2c9e57d384aa01b2c3d4e5f60718293a4b"));
        assert!(published.contains(" (commit 6b1f0a2c9e57, "), "{published}");
        assert!(described(None).contains(" (built from source, "), "{}", described(None));
    }
}
