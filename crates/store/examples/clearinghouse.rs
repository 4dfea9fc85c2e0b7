//! A clearinghouse without a server. The program creates it in a directory, and reports or checks a signature. A check
//! creates and changes nothing.
//!
//! ```sh
//! cargo run --release -p bruit-store --example clearinghouse -- DIR report "cheap pills"
//! cargo run --release -p bruit-store --example clearinghouse -- DIR check "cheap pills"
//! cargo run --release -p bruit-store --example clearinghouse -- DIR revoke "cheap pills"
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::event::{By, Event};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_store::{Clearinghouse, Founding, Options};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, verb, signature] = arguments.as_slice() else {
        return fail("usage: clearinghouse DIR report|revoke|check SIGNATURE".into());
    };
    let directory = Path::new(directory);
    let done = match verb.as_str() {
        "report" => claim(directory, Claim::Report, signature),
        "revoke" => claim(directory, Claim::Revoke, signature),
        "check" => check(directory, signature),
        other => Err(format!("unknown command {other}, expected report, revoke or check").into()),
    };
    done.map_or_else(fail, |()| ExitCode::SUCCESS)
}

/// Prints an error and its causes on one line.
fn fail(error: Box<dyn Error>) -> ExitCode {
    let (mut line, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    let _ = writeln!(io::stderr(), "clearinghouse: {line}");
    ExitCode::FAILURE
}

fn check(directory: &Path, signature: &str) -> Result<(), Box<dyn Error>> {
    let found = Clearinghouse::peek(directory, &mut |_| {})?;
    let (_, engine, recovery) = found.ok_or("no clearinghouse was founded there: report something first")?;
    let fingerprint = engine.realm().key().fingerprint(signature.as_bytes());
    writeln!(io::stdout(), "{recovery}\n{:?}", engine.check(&fingerprint, 0))?;
    Ok(())
}

fn claim(directory: &Path, claim: Claim, signature: &str) -> Result<(), Box<dyn Error>> {
    let now = Time(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let mut key = [0; 16];
    getrandom::fill(&mut key)?;
    let found = || Founding::new(key, BUDGET_DEFAULT, Policy::default(), now).expect("the default budget is in range");
    let store = Clearinghouse::open_or_found(directory, &Options::default(), found, &mut |_| {})?;
    let mut out = io::stdout();
    writeln!(out, "{}", store.recovery())?;

    let fingerprint = store.check(|engine| engine.realm().key().fingerprint(signature.as_bytes()));
    let by = By { now, reporter: Reporter { id: 1, standing: Standing::Own, group: 1 } };
    let claim = Event::Claim { by, claim, flag: 0, fingerprints: vec![fingerprint] };
    writeln!(out, "{:?}", store.catch_up(now)?)?;
    for outcome in store.submit(vec![claim])? {
        writeln!(out, "{outcome:?}")?;
    }
    writeln!(out, "{:?}", store.check(|engine| engine.check(&fingerprint, 0)))?;
    Ok(())
}
