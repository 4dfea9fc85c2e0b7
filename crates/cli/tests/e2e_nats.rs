//! Three nodes exchange data over three brokers while nodes and brokers are killed and restarted. Every acknowledged
//! report must be counted once on every node.

mod agreement;
#[path = "../../federation/tests/brokers/mod.rs"]
mod brokers;
mod common;

use agreement::{Load, NODES, endure, found, kill};
use brokers::Brokers;
use common::{Folder, Server};

/// Faults to inject while reports arrive. One of the faults stops all brokers at once. Even then, the nodes must
/// accept reports.
const BLOWS: [Blow; 7] =
    [Blow::Node(0), Blow::Broker(0), Blow::Node(1), Blow::Broker(1), Blow::Node(2), Blow::AllBrokers, Blow::Node(0)];

#[derive(Clone, Copy, Debug)]
enum Blow {
    Node(usize),
    Broker(usize),
    AllBrokers,
}

#[test]
fn every_acknowledged_report_is_counted_once_whatever_is_killed() {
    let mut brokers = Brokers::start(NODES);
    let folders: Vec<Folder> = (0..NODES).map(|_| Folder::new()).collect();
    let mut nodes = start_nodes(&folders, &brokers);
    endure(&mut nodes, |nodes, load| {
        for blow in BLOWS {
            load.wait_for_more();
            strike(blow, &mut brokers, nodes, load);
        }
    });
}

/// Starts three servers of one realm. Each has the others' keys.
fn start_nodes(folders: &[Folder], brokers: &Brokers) -> Vec<Server> {
    let keys = found(folders);
    let broker = format!("[nats]\nurl = {:?}\nreplicas = 3\nmax_bytes = \"64MiB\"\n", brokers.urls());
    let peer = |other: usize| {
        format!("\n[[peers]]\nname = \"node-{other}\"\nkey = \"{}\"\nrelation = \"cluster\"\n", keys[other])
    };
    let more = |index: usize| {
        let others: String = (0..NODES).filter(|other| *other != index).map(peer).collect();
        format!("{broker}{others}")
    };
    folders.iter().enumerate().map(|(index, folder)| Server::start(folder, &more(index))).collect()
}

/// Kills a broker or node, and restarts it after the others have continued without it.
fn strike(blow: Blow, brokers: &mut Brokers, nodes: &mut Vec<Server>, load: &Load) {
    match blow {
        Blow::Node(index) => kill(nodes, index, load),
        Blow::Broker(index) => {
            brokers.kill(index);
            load.wait_for_more();
            brokers.launch(index);
            brokers.wait_until_ready();
        }
        Blow::AllBrokers => {
            (0..NODES).for_each(|index| brokers.kill(index));
            load.wait_for_more();
            (0..NODES).for_each(|index| brokers.launch(index));
            brokers.wait_until_ready();
        }
    }
}
