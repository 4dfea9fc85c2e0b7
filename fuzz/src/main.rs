//! All fuzz targets as one libFuzzer program. [`TARGET_VARIABLE`] selects the target to run.
//!
//! Building and linking one program is faster than one per target. A new target needs a module in `targets/` and a row
//! in `targets.rs`.
#![no_main]

mod targets;

use std::sync::LazyLock;
use std::{env, process};

use libfuzzer_sys::fuzz_target;

use crate::targets::Target;

/// The environment variable that names the target.
const TARGET_VARIABLE: &str = "BRUIT_FUZZ_TARGET";

static TARGET: LazyLock<Target> = LazyLock::new(choose);

// Choose the target before libFuzzer starts. A later exit would look like a crash of the target.
fuzz_target!(init: LazyLock::force(&TARGET), |input: &[u8]| TARGET(input));

/// Returns the selected target. If none is selected, ends the process.
fn choose() -> Target {
    let name = env::var(TARGET_VARIABLE).unwrap_or_default();
    targets::find(&name).unwrap_or_else(|| {
        eprintln!("no fuzz target \"{name}\": set {TARGET_VARIABLE} to the name of a module in fuzz/src/targets/");
        process::exit(2)
    })
}
