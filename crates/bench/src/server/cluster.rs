//! What a cluster of two real nodes answers, beside one server alone.
//!
//! A machine is one processor here, with a node and the clients that ask it. So the second node brings a processor of its own,
//! and what both together answer shows what nodes cost each other: each also looks at what the other has counted.

use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::Client;

use super::process::Processors;
use super::requests::About;
use super::requests::dcc::Sums;
use super::rounds::{Rounds, WINDOW};
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Rounds of which the median counts.
const ROUNDS: usize = 5;
/// Checks of a round and node.
const CHECKS: usize = 100_000;
/// Reports of three signatures that each node is sent beforehand, so many at a time, as a network has a limit.
const REPORTS: usize = 60_000;
const REPORTS_TOGETHER: usize = 20_000;
/// How long nodes may take to learn each other's reports.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);
const MEMORY: &str = "256MiB";

/// What to write into a node's configuration, by its number.
pub(crate) struct Founded {
    /// Where each node has its data.
    pub(crate) folders: [PathBuf; 2],
    /// What makes them nodes of one cluster.
    pub(crate) texts: [String; 2],
}

/// Checks of two nodes together, in units of what one answers alone.
pub(crate) fn figure(report: &mut Report, folder: &Path, founded: &Founded) -> io::Result<()> {
    let alone = Subject::start(&Processors::only(0)?, folder, MEMORY, "")?;
    let nodes = [0, 1].map(|number| {
        let (folder, text) = (&founded.folders[number], &founded.texts[number]);
        Subject::start(&Processors::only(number)?, folder, MEMORY, text)
    });
    let [first, second] = nodes;
    let nodes = [first?, second?];
    [&alone, &nodes[0], &nodes[1]].into_iter().try_for_each(report_to)?;
    wait_for_exchange(&nodes)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let one = answered(&[&alone])?;
        rounds.push((one, answered(&[&nodes[0], &nodes[1]])?));
    }
    let ratio = median(rounds.iter().map(|(one, two)| two / one));
    let note = format!(
        "DCC queries of 3 sums; node and clients of each on one processor; {:.0} and {:.0} checks/s",
        median(rounds.iter().map(|(one, _)| *one)),
        median(rounds.iter().map(|(_, two)| *two)),
    );
    report.add(Figure::new("checks of a cluster of 2 nodes / 1 node", ratio, Target::AtLeast(1.8), note))
}

fn report_to(subject: &Subject) -> io::Result<()> {
    let rounds = Rounds::with_window(WINDOW);
    let sums = Sums { is_report: true, is_signed: false };
    for first in (0..REPORTS).step_by(REPORTS_TOGETHER) {
        rounds
            .saturate(subject.address("dcc")?, &rounds.requests(&sums, REPORTS_TOGETHER, About::From(first as u64)))?;
    }
    Ok(())
}

fn wait_for_exchange(nodes: &[Subject]) -> io::Result<()> {
    let begin = Instant::now();
    for node in nodes {
        let url = format!("http://{}", node.address("http")?);
        let client = Client::new(&url, Some(&node.token()?), Duration::from_secs(10)).map_err(Error::other)?;
        loop {
            let peers = client.peers().map_err(Error::other)?.peers;
            if peers.iter().all(|peer| peer.signatures_learned >= REPORTS as u64 && peer.lag_segments == 0) {
                break;
            }
            if begin.elapsed() > EXCHANGE_MAX {
                return Err(Error::other(format!("the nodes do not learn from each other: {peers:?}")));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Checks per second that servers answer together, the clients of each on its processor.
fn answered(subjects: &[&Subject]) -> io::Result<f64> {
    thread::scope(|scope| {
        let asking: Vec<_> = subjects.iter().enumerate().map(|(cpu, s)| scope.spawn(move || ask(s, cpu))).collect();
        asking.into_iter().map(|thread| thread.join().expect("it counts")).sum()
    })
}

fn ask(subject: &Subject, cpu: usize) -> io::Result<f64> {
    let _here = Processors::only(cpu)?;
    let rounds = Rounds::with_window(WINDOW);
    let sums = Sums { is_report: false, is_signed: false };
    let requests = rounds.requests(&sums, CHECKS, About::HalfBelow(REPORTS as u64));
    let answers = rounds.saturate(subject.address("dcc")?, &requests)?;
    if answers.lost + rounds.forgotten.get() > 0 {
        let (lost, forgotten) = (answers.lost, rounds.forgotten.get());
        return Err(Error::other(format!("{lost} checks lost, {forgotten} signatures forgotten")));
    }
    Ok(CHECKS as f64 / answers.elapsed.as_secs_f64())
}
