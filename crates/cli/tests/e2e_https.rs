//! Three nodes exchange data over HTTPS while nodes are killed and restarted. Every acknowledged report must be counted
//! exactly once on every node.

mod agreement;
mod common;

use std::net::{SocketAddr, TcpListener};

use agreement::{NODES, endure, found, kill};
use common::{Folder, Server};

/// Nodes to kill, in this order.
const BLOWS: [usize; 5] = [0, 1, 2, 0, 1];

#[test]
fn every_acknowledged_report_is_counted_once_whichever_node_is_killed() {
    let folders: Vec<Folder> = (0..NODES).map(|_| Folder::new()).collect();
    let mut nodes = start_nodes(&folders);
    endure(&mut nodes, |nodes, load| {
        for index in BLOWS {
            load.wait_for_more();
            kill(nodes, index, load);
        }
    });
}

/// Starts three servers of one realm. Each has the others' keys and addresses.
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
        let others: String = (0..NODES).filter(|other| *other != index).map(peer).collect();
        format!("[federation]\nlisten = \"{}\"\n{others}", addresses[index])
    };
    folders.iter().enumerate().map(|(index, folder)| Server::start(folder, &more(index))).collect()
}

/// Returns free addresses. Nodes must know each other's addresses before they start, and keep their own after a
/// restart.
fn free_addresses() -> Vec<SocketAddr> {
    let listeners: Vec<_> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}
