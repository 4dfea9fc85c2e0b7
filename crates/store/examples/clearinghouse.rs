//! A clearinghouse without a server: found one in a directory, report a signature, ask about it.
//!
//! ```sh
//! cargo run --release -p bruit-store --example clearinghouse -- DIR report "cheap pills"
//! cargo run --release -p bruit-store --example clearinghouse -- DIR check "cheap pills"
//! cargo run --release -p bruit-store --example clearinghouse -- DIR revoke "cheap pills"
//! ```

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bruit_engine::TICK_LINES;
use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::event::{By, Event};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_store::{Clearinghouse, Founding, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, verb, signature] = arguments.as_slice() else {
        return Err("usage: clearinghouse DIR report|revoke|check SIGNATURE".into());
    };
    let now = Time(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let mut key = [0; 16];
    getrandom::fill(&mut key)?;
    let found = || Founding::new(key, BUDGET_DEFAULT, Policy::default(), now).expect("the default");
    let store = Clearinghouse::open_or_found(Path::new(directory), &Options::default(), found, &mut |_| {})?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", store.recovery())?;

    let fingerprint = store.check(|engine| engine.realm().key().fingerprint(signature.as_bytes()));
    let reporter = Reporter { id: 1, standing: Standing::Own, group: 1 };
    let claim = |claim| Event::Claim { by: By { now, reporter }, claim, flag: 0, fingerprints: vec![fingerprint] };
    let events = match verb.as_str() {
        "report" => vec![Event::Tick { now, lines: TICK_LINES }, claim(Claim::Report)],
        "revoke" => vec![Event::Tick { now, lines: TICK_LINES }, claim(Claim::Revoke)],
        "check" => vec![],
        other => return Err(format!("{other} is not report, revoke or check").into()),
    };
    for outcome in store.submit(events)? {
        writeln!(out, "{outcome:?}")?;
    }
    writeln!(out, "{:?}", store.check(|engine| engine.check(&fingerprint, 0)))?;
    Ok(())
}
