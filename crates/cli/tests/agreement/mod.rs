//! Several nodes under load. Each node receives reports. In the end, every acknowledged report must be counted once on
//! every node.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::Client;
use bruit_client::http::{NamedSignature, SIGNATURES_MAX, Subject};
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_store::Founding;

use crate::common::{Folder, Server, printed};

pub(crate) const NODES: usize = 3;
/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a report. A killed node does not answer.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(20);
/// Pause between two reports.
const PACE: Duration = Duration::from_millis(15);
/// Key of the realm. Filters can count too high, but with this key and these signatures they do not.
const REALM_KEY: [u8; 16] = [7; 16];
const MEMORY_BYTES: u64 = 64 << 20;
/// Number of acknowledged reports between two faults.
const REPORTS_BETWEEN: u64 = 100;
/// Number of signatures that every node reports repeatedly.
const SHARED: u64 = 8;

/// Creates a server in each folder, all in the same realm, and returns their public keys.
pub(crate) fn found(folders: &[Folder]) -> Vec<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let founding = Founding::new(REALM_KEY, MEMORY_BYTES, Policy::default(), Time(now)).unwrap();
    folders[0].write("realm.bruit", founding.encode());
    for folder in folders {
        let mut server = Server::start_in_realm(folder, &folders[0].path("realm.bruit"));
        assert!(server.terminate().success(), "{}", server.said());
    }
    folders.iter().map(public_key).collect()
}

fn public_key(folder: &Folder) -> String {
    printed(&["keys", "show", "--data", folder.path("data").to_str().unwrap()]).trim().to_owned()
}

/// Puts nodes under load while `strike` injects faults, and asserts that they agree afterwards.
pub(crate) fn endure(nodes: &mut Vec<Server>, strike: impl FnOnce(&mut Vec<Server>, &Load)) {
    let load = Load::new(nodes);
    thread::scope(|scope| {
        let ends = EndsOnDrop(&load.is_over);
        for index in 0..NODES {
            let load = &load;
            scope.spawn(move || load.run(index));
        }
        strike(nodes, &load);
        load.wait_for_more();
        drop(ends);
    });
    let reports = load.reports.into_inner().unwrap();
    let begin = Instant::now();
    let agreed = agree(nodes, &reports);
    let shown = nodes.iter().map(Server::said).collect::<Vec<_>>().join("\n");
    assert!(agreed.is_ok(), "after {:?}: {}\n{shown}", begin.elapsed(), agreed.unwrap_err());
}

/// Kills a node, and restarts it after the others have continued without it.
pub(crate) fn kill(nodes: &mut Vec<Server>, index: usize, load: &Load) {
    let mut node = nodes.remove(index);
    node.kill();
    load.wait_for_more();
    nodes.insert(index, node.restart());
    *load.urls[index].lock().unwrap() = nodes[index].url();
}

/// A load of reports on all nodes, shared by the threads that send them.
pub(crate) struct Load {
    urls: Vec<Mutex<String>>,
    next: AtomicU64,
    acknowledged: AtomicU64,
    is_over: AtomicBool,
    reports: Mutex<SentReports>,
}

/// Reports sent to the nodes.
#[derive(Default)]
struct SentReports {
    /// Signatures that were reported once, and whether each report was acknowledged.
    once: Vec<(u64, bool)>,
    /// For each shared signature, the number of acknowledged reports, and the number of reports without an
    /// acknowledgement, which may have been accepted nevertheless.
    shared: [(u32, u32); SHARED as usize],
}

impl Load {
    fn new(nodes: &[Server]) -> Self {
        Self {
            urls: nodes.iter().map(|node| Mutex::new(node.url())).collect(),
            next: AtomicU64::new(SHARED),
            acknowledged: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            reports: Mutex::default(),
        }
    }

    fn run(&self, node: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let is_acknowledged = self.report(node, number);
            self.reports.lock().unwrap().once.push((number, is_acknowledged));
            let shared = number % SHARED;
            let is_acknowledged = self.report(node, shared);
            let (sure, perhaps) = &mut self.reports.lock().unwrap().shared[shared as usize];
            *(if is_acknowledged { sure } else { perhaps }) += 1;
        }
    }

    /// Reports a signature. Returns true if it was acknowledged.
    fn report(&self, node: usize, number: u64) -> bool {
        let url = self.urls[node].lock().unwrap().clone();
        let client = Client::new(&url, None, REPORT_TIMEOUT).unwrap();
        let is_acknowledged = client.report(&subject(&[number])).is_ok_and(|claimed| claimed.accepted == 1);
        if is_acknowledged {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(PACE);
        is_acknowledged
    }

    /// Waits for more acknowledged reports.
    pub(crate) fn wait_for_more(&self) {
        let target = self.acknowledged.load(Ordering::Relaxed) + REPORTS_BETWEEN;
        let deadline = Instant::now() + PATIENCE;
        while self.acknowledged.load(Ordering::Relaxed) < target {
            assert!(Instant::now() < deadline, "the nodes acknowledge too few reports");
            thread::sleep(GLANCE);
        }
    }
}

/// Ends the load on drop, even if an assertion fails.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until all nodes have the same, correct counts. Describes a wrong count if this does not happen in time.
fn agree(nodes: &[Server], reports: &SentReports) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let wrong = match compare(nodes, reports) {
            Ok(()) => return Ok(()),
            Err(wrong) => wrong,
        };
        // Missing counts may still arrive, but surplus counts never disappear.
        if wrong.contains("too often") || Instant::now() > deadline {
            return Err(wrong);
        }
        thread::sleep(GLANCE);
    }
}

fn compare(nodes: &[Server], reports: &SentReports) -> Result<(), String> {
    let numbers: Vec<u64> = (0..SHARED).chain(reports.once.iter().map(|(number, _)| *number)).collect();
    let bounds = reports.shared.iter().map(|(sure, perhaps)| (*sure, sure + perhaps));
    let bounds = bounds.chain(reports.once.iter().map(|(_, is_acknowledged)| (u32::from(*is_acknowledged), 1)));
    let counts: Vec<Vec<u32>> = nodes.iter().map(|node| counts(node, &numbers)).collect();
    for (index, (least, most)) in bounds.enumerate() {
        let found: Vec<u32> = counts.iter().map(|counts| counts[index]).collect();
        let number = numbers[index];
        if found.iter().any(|count| *count > most) {
            return Err(format!(
                "signature {number} is counted too often: the counts are {found:?}, but it was reported {most} times"
            ));
        }
        if found.iter().any(|count| *count < least || *count != found[0]) {
            return Err(format!("signature {number} has the counts {found:?}, but {least} reports were acknowledged"));
        }
    }
    Ok(())
}

/// Returns the number of reports that a node counts for each signature.
fn counts(node: &Server, numbers: &[u64]) -> Vec<u32> {
    let client = Client::new(&node.url(), None, PATIENCE).unwrap();
    let check = |numbers: &[u64]| client.check(&subject(numbers)).unwrap().signatures;
    numbers.chunks(SIGNATURES_MAX).flat_map(check).map(|signature| signature.report_count).collect()
}

fn subject(numbers: &[u64]) -> Subject {
    let signature = |number: &u64| NamedSignature {
        scheme: "pyzor".to_owned(),
        value: format!("{:040x}", number + 1),
        piece: None,
    };
    Subject { signatures: numbers.iter().map(signature).collect(), ..Subject::default() }
}
