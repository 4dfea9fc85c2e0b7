//! The cost of a request, relative to that of the echo server, and its latency.

use std::io;
use std::time::Duration;

use super::footprint::Known;
use super::process::Processors;
use super::requests::dcc::Sums;
use super::requests::{Kind, SignatureRange, fuzzy, pyzor};
use super::rounds::{Echo, Round, Rounds};
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of rounds. The result is the median of the rounds.
const ROUNDS: usize = 7;
/// Number of requests in a round.
pub(crate) const REQUESTS: usize = 30_000;
/// Number of requests before the first round. They warm up both servers and show the length of the replies.
const WARM_UP: usize = 2_000;
/// Number of the first signature that rounds report.
const REPORTED_FROM: u64 = 1 << 36;

/// One line of the table.
pub(crate) struct Case {
    name: &'static str,
    protocol: &'static str,
    kind: Box<dyn Kind>,
    /// Number of known signatures for checks; `None` for reports, which use new signatures.
    known: Option<u64>,
    target: Target,
}

impl Case {
    fn new(
        name: &'static str,
        protocol: &'static str,
        kind: Box<dyn Kind>,
        known: Option<u64>,
        target: Target,
    ) -> Self {
        Self { name, protocol, kind, known, target }
    }
}

fn sums(is_report: bool, is_signed: bool) -> Box<dyn Kind> {
    Box::new(Sums { is_report, is_signed })
}

/// Returns the cases for checks over UDP. The server knows the signatures `known`.
pub(crate) fn checks(known: Known) -> Vec<Case> {
    let (plain, sealed, none) = (Target::AtLeast(0.8), Target::AtLeast(0.15), Target::None);
    let (digests, near, texts) = (fuzzy::Digests, fuzzy::NearCopies, Some(known.texts));
    vec![
        Case::new("Pyzor check", "pyzor", Box::new(pyzor::Check), Some(known.pyzor), plain),
        Case::new("DCC query, 3 sums, anonymous", "dcc", sums(false, false), Some(known.dcc), plain),
        Case::new("DCC query, 3 sums, signed", "dcc", sums(false, true), Some(known.dcc), none),
        Case::new("fuzzy check by digest", "fuzzy", Box::new(digests), texts, plain),
        Case::new("fuzzy check by 32 shingles", "fuzzy", Box::new(near), texts, none),
        Case::new("fuzzy check by digest, encrypted", "fuzzy", fuzzy::sealed(digests), texts, sealed),
        Case::new("fuzzy check by 32 shingles, encrypted", "fuzzy", fuzzy::sealed(near), texts, sealed),
    ]
}

/// Returns the cases for reports over UDP.
pub(crate) fn claims() -> Vec<Case> {
    let case = |name, protocol, kind| Case::new(name, protocol, kind, None, Target::None);
    vec![
        case("Pyzor report", "pyzor", Box::new(pyzor::Report { digests: 1 })),
        case("DCC report, 3 sums, anonymous", "dcc", sums(true, false)),
        case("DCC report, 3 sums, signed", "dcc", sums(true, true)),
        case("fuzzy write, 32 shingles", "fuzzy", Box::new(fuzzy::Write)),
    ]
}

/// Returns the signatures of `case` in round number `round`.
fn about(case: &Case, round: usize) -> SignatureRange {
    case.known.map_or(SignatureRange::From(REPORTED_FROM + (round * REQUESTS) as u64), SignatureRange::HalfBelow)
}

/// Measures cost and latency of every case.
pub(crate) fn figures(
    report: &mut Report,
    rounds: &Rounds,
    processors: &Processors,
    subject: &Subject,
    cases: &[Case],
) -> io::Result<()> {
    cases.iter().try_for_each(|case| compare(report, rounds, processors, subject, case))
}

fn compare(
    report: &mut Report,
    rounds: &Rounds,
    processors: &Processors,
    subject: &Subject,
    case: &Case,
) -> io::Result<()> {
    let address = subject.address(case.protocol)?;
    let warm_up = rounds.saturate(address, &rounds.requests(&*case.kind, WARM_UP, about(case, ROUNDS)))?;
    let reply_bytes = warm_up.iter().map(|(reply, _)| reply.len()).max().unwrap_or_default();
    let echo = Echo::start(processors, reply_bytes)?;
    let lost = rounds.lost.get();
    let mut found = Vec::new();
    for round in 0..ROUNDS {
        let requests = rounds.requests(&*case.kind, REQUESTS, about(case, round));
        found.push((echo.measure(&requests)?, rounds.measure(address, &requests, || subject.cpu_time())?));
    }
    let (echoed, served): (Vec<Round>, Vec<Round>) = found.into_iter().unzip();
    let ratios = echoed.iter().zip(&served).map(|(echo, subject)| subject.per_cpu_second / echo.per_cpu_second);
    let ratio = median(ratios);
    let (echoed, served) = (Round::median(&echoed), Round::median(&served));
    let note = format!(
        "{:.2} us of CPU, echo server {:.2} us; {:.0} requests/s, {} lost",
        1e6 / served.per_cpu_second,
        1e6 / echoed.per_cpu_second,
        served.per_second,
        rounds.lost.get() - lost
    );
    report.add(Figure::new(
        format!("requests per CPU second, relative to an echo server: {}", case.name),
        ratio,
        case.target,
        note,
    ))?;
    latency(report, rounds, subject, case, served.per_second / 2.0)
}

/// Measures latencies at half the maximum rate.
fn latency(report: &mut Report, rounds: &Rounds, subject: &Subject, case: &Case, per_second: f64) -> io::Result<()> {
    let lost = rounds.lost.get();
    let requests = rounds.requests(&*case.kind, REQUESTS, about(case, ROUNDS + 1));
    let mut waits = rounds.pace(subject.address(case.protocol)?, &requests, per_second)?;
    let (half, most) = (percentile(&mut waits, 50), percentile(&mut waits, 99));
    let (half, lost) = (half.as_secs_f64() * 1e6, rounds.lost.get() - lost);
    let note = format!("p50 {half:.0} us, at {per_second:.0} requests/s, {lost} lost");
    let name = format!("p99 latency at half load, in us: {}", case.name);
    report.add(Figure::new(name, most.as_secs_f64() * 1e6, Target::None, note))
}

/// Returns a percentile of the waiting times.
fn percentile(waits: &mut [Duration], percent: usize) -> Duration {
    let at = (waits.len() * percent / 100).min(waits.len().saturating_sub(1));
    if waits.is_empty() { Duration::ZERO } else { *waits.select_nth_unstable(at).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_waits() {
        let mut waits: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&mut waits, 50), Duration::from_micros(51));
        assert_eq!(percentile(&mut waits, 99), Duration::from_micros(100));
        assert_eq!(percentile(&mut [], 99), Duration::ZERO);
    }
}
