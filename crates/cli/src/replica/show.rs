//! `bruit replica --show`: contents and age of a replica.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bruit_federation::keys::PublicKey;
use bruit_federation::replica::{FALSE_HIT_RATE, Replica};
use serde_json::{Value, json};

use super::{failure, overfull};
use bruit_console::Failure;
use bruit_console::date::now;
use bruit_console::quantity::{grouped, human_bytes};
use bruit_console::terminal::complain;

pub(super) fn run(
    path: &Path,
    stale_after: Duration,
    is_json: bool,
    output: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let replica = Replica::open(path).map_err(failure)?;
    let shown = shown(path, &replica, stale_after)?;
    if let Some(warning) = overfull(path, &replica.status().map_err(failure)?) {
        complain(&warning);
    }
    let mut output = BufWriter::new(output);
    if is_json {
        writeln!(output, "{shown:#}")?;
    } else {
        print(&shown, &mut output)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn shown(path: &Path, replica: &Replica, stale_after: Duration) -> Result<Value, Failure> {
    let status = replica.status().map_err(failure)?;
    let age = status.age_seconds(now());
    let origins = replica.origins().map_err(failure)?;
    let origin = |(origin, entries): (&bruit_engine::exchange::Origin, &u64)| {
        // The origin's signature was verified, so the key is valid.
        let key = PublicKey::from_bytes(&origin.key).map(|key| key.to_string()).unwrap_or_default();
        json!({ "key": key, "incarnation": origin.incarnation, "entries": entries })
    };
    Ok(json!({
        "file": path.to_string_lossy(),
        "realm": status.realm.id().to_string(),
        "capacity": status.capacity,
        "listed": status.listed,
        "bulk": status.bulk,
        "bytes": status.bytes,
        "false_hit_rate": status.false_hit_rate,
        "planned_false_hit_rate": FALSE_HIT_RATE,
        "is_overfull": status.is_overfull(),
        "heard": status.heard.map(|heard| heard.0),
        "age_seconds": age,
        "stale_after_seconds": stale_after.as_secs(),
        "is_stale": age.is_none_or(|age| Duration::from_secs(age) > stale_after),
        "origins": origins.iter().map(origin).collect::<Vec<_>>(),
    }))
}

fn print(shown: &Value, output: &mut impl Write) -> Result<(), Failure> {
    let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| shown[name].as_u64().unwrap_or_default();
    writeln!(output, "{}, {}", text("file"), human_bytes(number("bytes")))?;
    writeln!(output, "realm       {}", text("realm"))?;
    writeln!(output, "listed      {} of {}", grouped(number("listed")), grouped(number("capacity")))?;
    writeln!(output, "bulk        {}", grouped(number("bulk")))?;
    let rate = shown["false_hit_rate"].as_f64().unwrap_or_default();
    let overfull = if shown["is_overfull"] == true { ": overfull" } else { "" };
    let planned = 100.0 * FALSE_HIT_RATE;
    writeln!(output, "false hits  {:.2} % of unknown signatures (planned: {planned:.0} %){overfull}", 100.0 * rate)?;
    let age = shown["age_seconds"].as_u64().map_or_else(|| "never".to_owned(), |age| format!("{} s ago", grouped(age)));
    let stale = if shown["is_stale"] == true { "stale" } else { "fresh" };
    writeln!(output, "updated     {age}: {stale} (maximum age {} s)", grouped(number("stale_after_seconds")))?;
    for origin in shown["origins"].as_array().into_iter().flatten() {
        let [incarnation, entries] = ["incarnation", "entries"].map(|name| origin[name].as_u64().unwrap_or_default());
        let key = origin["key"].as_str().unwrap_or_default();
        writeln!(output, "origin      {key}, incarnation {incarnation}: entries {}", grouped(entries))?;
    }
    Ok(())
}
