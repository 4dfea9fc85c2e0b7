//! Checks answered by a cluster of two real nodes, compared with a single server.
//!
//! Each machine is represented by one processor, which a node and its clients share. So the second node adds a
//! processor, and without overhead, two nodes would answer twice as many checks. The overhead is that each node also
//! looks up the counts of the other.

use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::Client;

use super::process::Processors;
use super::requests::SignatureRange;
use super::requests::dcc::Sums;
use super::rounds::{Rounds, WINDOW};
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of rounds. The result is the median of the rounds.
const ROUNDS: usize = 5;
/// Number of checks per round and node.
const CHECKS: usize = 100_000;
/// Number of reports sent to each node before the measurement. Each report has three signatures. The reports are sent
/// in batches, because the number of reports per client network is limited.
const REPORTS: usize = 60_000;
const REPORTS_TOGETHER: usize = 20_000;
/// Maximum time for the nodes to exchange their reports.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);
const MEMORY: &str = "256MiB";

/// Folders and configuration of the nodes, by number.
pub(crate) struct ClusterConfig {
    /// Data folders of the nodes.
    pub(crate) folders: [PathBuf; 2],
    /// Configurations of the nodes, which join them into one cluster.
    pub(crate) texts: [String; 2],
}

/// Compares the checks per second of two nodes together with those of a single node.
pub(crate) fn figure(report: &mut Report, folder: &Path, founded: &ClusterConfig) -> io::Result<()> {
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
        "DCC queries with 3 checksums, each node on one processor with its clients; \
         {:.0} checks/s on 1 node, {:.0} on 2",
        median(rounds.iter().map(|(one, _)| *one)),
        median(rounds.iter().map(|(_, two)| *two)),
    );
    report.add(Figure::new("checks per second, cluster of 2 nodes / 1 node", ratio, Target::AtLeast(1.8), note))
}

fn report_to(subject: &Subject) -> io::Result<()> {
    let rounds = Rounds::with_window(WINDOW);
    let sums = Sums { is_report: true, is_signed: false };
    for first in (0..REPORTS).step_by(REPORTS_TOGETHER) {
        rounds.saturate(
            subject.address("dcc")?,
            &rounds.requests(&sums, REPORTS_TOGETHER, SignatureRange::From(first as u64)),
        )?;
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
                return Err(Error::other(format!("the nodes have not exchanged their reports: {peers:?}")));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Returns the checks per second that the servers answer together. The clients of a server run on the server's
/// processor.
fn answered(subjects: &[&Subject]) -> io::Result<f64> {
    thread::scope(|scope| {
        let asking: Vec<_> = subjects.iter().enumerate().map(|(cpu, s)| scope.spawn(move || ask(s, cpu))).collect();
        asking.into_iter().map(|thread| thread.join().expect("client threads do not panic")).sum()
    })
}

fn ask(subject: &Subject, cpu: usize) -> io::Result<f64> {
    let _here = Processors::only(cpu)?;
    let rounds = Rounds::with_window(WINDOW);
    let sums = Sums { is_report: false, is_signed: false };
    let requests = rounds.requests(&sums, CHECKS, SignatureRange::HalfBelow(REPORTS as u64));
    let answers = rounds.saturate(subject.address("dcc")?, &requests)?;
    if answers.lost + rounds.forgotten.get() > 0 {
        let (lost, forgotten) = (answers.lost, rounds.forgotten.get());
        return Err(Error::other(format!("{lost} checks lost, {forgotten} signatures forgotten")));
    }
    Ok(CHECKS as f64 / answers.elapsed.as_secs_f64())
}
