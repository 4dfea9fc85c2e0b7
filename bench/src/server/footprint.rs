//! Memory and disk use of a server with many signatures.

use std::io;
use std::path::Path;

use super::process::Processors;
use super::requests::dcc::{SUMS, Sums};
use super::requests::{Kind, SignatureRange, fuzzy, pyzor};
use super::rounds::Rounds;
use super::subject::Subject;
use crate::report::{Figure, Report, Target};

/// Number of signatures of each kind.
const SIGNATURES: u64 = 1_000_000;
/// Memory budget. Texts with shingles get a twentieth of it, which is enough for [`SIGNATURES`] texts.
const MEMORY: &str = "4GiB";
/// Number of digests in one Pyzor report.
const DIGESTS: u64 = 100;
/// Number of requests created at a time.
const AT_ONCE: u64 = 20_000;
const MIB: f64 = (1 << 20) as f64;

/// The signatures that a server knows. Each field is for one kind: the server knows the signatures of this kind with
/// numbers below the field's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) pyzor: u64,
    /// Number of known messages. Each has three DCC checksums.
    pub(crate) dcc: u64,
    pub(crate) texts: u64,
}

impl Known {
    /// Reports all known signatures to `subject`. After each kind, calls `then` with the name of the kind and its
    /// number of signatures.
    pub(crate) fn report_to(
        self,
        subject: &Subject,
        rounds: &Rounds,
        mut then: impl FnMut(&str, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let fill = |protocol: &str, kind: &dyn Kind, requests: u64| fill(subject, rounds, protocol, kind, requests);
        fill("pyzor", &pyzor::Report { digests: DIGESTS }, self.pyzor / DIGESTS)?;
        then("Pyzor digest", self.pyzor)?;
        fill("dcc", &Sums { is_report: true, is_signed: false }, self.dcc)?;
        then("DCC sum", self.dcc * SUMS as u64)?;
        fill("fuzzy", &fuzzy::Write, self.texts)?;
        then("text with 32 shingles", self.texts)
    }
}

fn fill(subject: &Subject, rounds: &Rounds, protocol: &str, kind: &dyn Kind, requests: u64) -> io::Result<()> {
    let address = subject.address(protocol)?;
    for first in (0..requests).step_by(AT_ONCE as usize) {
        let count = AT_ONCE.min(requests - first) as usize;
        rounds.saturate(address, &rounds.requests(kind, count, SignatureRange::From(first)))?;
    }
    Ok(())
}

/// Measures the memory and disk use of a server with [`SIGNATURES`] of each kind.
pub(crate) fn figures(report: &mut Report, rounds: &Rounds, processors: &Processors, folder: &Path) -> io::Result<()> {
    let subject = Subject::start(processors, folder, MEMORY, "")?;
    let size = || Ok::<_, io::Error>((subject.server.resident_bytes()?, subject.disk_bytes()?));
    let start = size()?;
    let mut before = start;
    let known = Known { pyzor: SIGNATURES, dcc: SIGNATURES.div_ceil(SUMS as u64), texts: SIGNATURES };
    known.report_to(&subject, rounds, |kind, signatures| {
        let after = size()?;
        let more = after.0.saturating_sub(before.0) as f64 / MIB;
        let note =
            format!("{more:.0} MiB of additional memory, budget {MEMORY}; {} requests lost so far", rounds.lost.get());
        let disk = after.1.saturating_sub(before.1) as f64 / signatures as f64;
        report.add(Figure::new(
            format!("bytes on disk per {kind}, for {signatures} of them"),
            disk,
            Target::None,
            note,
        ))?;
        before = after;
        Ok(())
    })?;
    let end = size()?;
    let note = format!(
        "{:.0} MiB at the start; {:.0} MiB on disk, {:.0} MiB at the start",
        start.0 as f64 / MIB,
        end.1 as f64 / MIB,
        start.1 as f64 / MIB
    );
    let name = format!("resident memory in MiB with {SIGNATURES} signatures of each kind, budget {MEMORY}");
    report.add(Figure::new(name, end.0 as f64 / MIB, Target::None, note))
}
