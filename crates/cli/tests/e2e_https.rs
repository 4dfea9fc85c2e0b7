//! Three nodes that ask each other over HTTPS. Whichever is killed meanwhile, every report that was acknowledged is counted exactly
//! once, by all; and a peer is heard as one reporter.

mod agreement;
mod common;

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use agreement::{EndsOnDrop, Load, agree, found};
use common::{Folder, Server};

const NODES: usize = 3;

/// Which node is killed, one after the other.
const BLOWS: [usize; 5] = [0, 1, 2, 0, 1];

#[test]
fn every_acknowledged_report_is_counted_once_whichever_node_is_killed() {
    let folders: Vec<Folder> = (0..NODES).map(|_| Folder::new()).collect();
    let mut nodes = start_nodes(&folders);
    let load = Load::new(&nodes);
    thread::scope(|scope| {
        let ends = EndsOnDrop(&load.is_over);
        (0..NODES).for_each(|index| drop(scope.spawn(|| load.run(index))));
        for index in BLOWS {
            load.wait_for_more();
            let mut node = nodes.remove(index);
            node.kill();
            load.wait_for_more();
            nodes.insert(index, node.restart());
            *load.urls[index].lock().unwrap() = nodes[index].url();
        }
        load.wait_for_more();
        drop(ends);
    });
    let told = load.told.into_inner().unwrap();
    let begin = Instant::now();
    let agreed = agree(&nodes, &told);
    let shown = nodes.iter().map(Server::said).collect::<Vec<_>>().join("\n");
    assert!(agreed.is_ok(), "after {:?}: {}\n{shown}", begin.elapsed(), agreed.unwrap_err());
}

/// Three servers of one realm that know each other's keys and addresses.
fn start_nodes(folders: &[Folder]) -> Vec<Server> {
    let keys = found(folders);
    let addresses: Vec<SocketAddr> = free_addresses();
    let more = |index: usize| {
        let peer = |other: usize| {
            let (key, address) = (&keys[other], addresses[other]);
            format!(
                "\n[[peers]]\nname = \"node-{other}\"\nurl = \"https://{address}\"\nkey = \"{key}\"\nrelation = \"cluster\"\n"
            )
        };
        let others = (0..NODES).filter(|other| *other != index);
        format!("[federation]\nlisten = \"{}\"\n", addresses[index]) + &others.map(peer).collect::<String>()
    };
    folders.iter().enumerate().map(|(index, folder)| Server::start(folder, &more(index))).collect()
}

/// Addresses that nobody has at the moment: nodes must know each other's before they start, and keep them when they are killed.
fn free_addresses() -> Vec<SocketAddr> {
    let listeners: Vec<_> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}
