//! Measurements of a running `bruit serve`: the cost of a request, compared with an echo server and with the servers
//! that Bruit can replace.
//!
//! The cost is the processor time of the server's process, so it hardly varies even on a busy machine. The server and
//! the load generator run on separate processors. The load generator expects an answer to every request, and decodes
//! the answers.

pub(crate) mod cluster;
pub(crate) mod dashboard;
mod datagrams;
pub(crate) mod echo;
mod footprint;
pub(crate) mod linking;
mod load;
mod peers;
pub(crate) mod process;
mod razor;
mod requests;
mod rounds;
mod speed;
pub(crate) mod subject;

use std::{fs, io};

use crate::report::{Figure, Report, Target};
use footprint::Known;
use peers::Baseline;
use process::Processors;
use rounds::{Rounds, WINDOW};
use subject::Subject;

/// Signatures that the server knows while its speed is measured.
const KNOWN: Known = Known { pyzor: 500_000, dcc: 200_000, texts: 30_000 };
/// Memory budget. A site may add only a fifth of a generation per day. With this budget, that is enough for all reports
/// of the benchmark.
const MEMORY: &str = "4GiB";

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let processors = Processors::divide()?;
    let rounds = Rounds::with_window(WINDOW);
    let (of_speed, of_footprint) = (folder.path().join("speed"), folder.path().join("footprint"));
    fs::create_dir_all(&of_speed)?;
    fs::create_dir_all(&of_footprint)?;
    let subject = Subject::start(&processors, &of_speed, MEMORY, "")?;
    KNOWN.report_to(&subject, &rounds, |_, _| Ok(()))?;
    let note = format!("{} bytes on disk; {KNOWN:?}; {} requests lost", subject.disk_bytes()?, rounds.lost.get());
    let resident = subject.server.resident_bytes()? as f64 / (1 << 20) as f64;
    report.add(Figure::new(
        format!("resident memory of a server in MiB, with a budget of {MEMORY}"),
        resident,
        Target::None,
        note,
    ))?;
    let compare = |report: &mut _, cases: Vec<_>| speed::figures(report, &rounds, &processors, &subject, &cases);
    compare(report, speed::checks(KNOWN))?;
    razor::figures(report, &subject)?;
    peers::figures(report, &processors, folder.path(), &Baseline { subject: &subject, known: KNOWN, rounds: &rounds })?;
    // Measure claims last, because new texts displace old ones.
    compare(report, speed::claims())?;
    drop(subject);
    footprint::figures(report, &rounds, &processors, &of_footprint)?;
    for (name, count) in [
        ("requests that the server did not answer", &rounds.lost),
        ("checks of reported signatures that the server did not know", &rounds.forgotten),
    ] {
        let note = format!("of {} requests", rounds.requests.get());
        report.add(Figure::new(name, count.get() as f64, Target::AtMost(0.0), note))?;
    }
    Ok(())
}
