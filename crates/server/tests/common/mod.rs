//! A server on free ports with its own clearinghouse, and a UDP client.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use bruit_server::{Config, Server};
use tempfile::TempDir;

/// Time limit for a reply. [`Asker::gets_nothing`] does not need to wait for this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A small memory budget.
const BASE: &str = "memory = \"8MiB\"\n";

pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
    config: String,
}

/// Returns a configuration in which every protocol listens on a free port, unless `text` sets the port.
pub(crate) fn config(text: &str) -> Config {
    let mut whole = format!("{BASE}{text}\n");
    for protocol in ["razor", "dcc", "pyzor", "fuzzy", "http"] {
        let table = format!("[{protocol}]\n");
        let listen = "listen = \"127.0.0.1:0\"\n";
        match whole.find(&table) {
            Some(at) if !whole[at..].starts_with(&format!("{table}listen")) => {
                whole.insert_str(at + table.len(), listen);
            }
            Some(_) => {}
            None => whole.push_str(&format!("{table}{listen}")),
        }
    }
    Config::parse(&whole).expect("a configuration")
}

pub(crate) fn start_in(directory: &Path, text: &str) -> Server {
    Server::start(&config(text), directory, &mut |_| {}).expect("a server")
}

impl Running {
    pub(crate) fn start(text: &str) -> Self {
        let directory = TempDir::new().expect("a directory");
        let server = start_in(directory.path(), text);
        Self { server, directory, config: text.to_owned() }
    }

    pub(crate) fn address(&self, protocol: &str) -> SocketAddr {
        let found = self.server.listening().iter().find(|listening| listening.protocol == protocol);
        found.expect("it listens").address
    }

    pub(crate) fn restart(self) -> Self {
        let Self { server, directory, config } = self;
        let status = server.stop();
        assert!(status.poisoned.is_none());
        let server = start_in(directory.path(), &config);
        Self { server, directory, config }
    }
}

/// A UDP client.
pub(crate) struct Asker(UdpSocket);

impl Asker {
    pub(crate) fn of(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(socket)
    }

    pub(crate) fn send(&self, packet: &[u8]) {
        self.0.send(packet).expect("loopback accepts datagrams");
    }

    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut buffer = [0; 16_384];
        let length = self.0.recv(&mut buffer).expect("a reply");
        buffer[..length].to_vec()
    }

    pub(crate) fn ask(&self, packet: &[u8]) -> Vec<u8> {
        self.send(packet);
        self.receive()
    }

    /// Returns true if `packet` gets no reply. To find out, sends `probe` after it, and expects the next datagram to be
    /// the reply to `probe`.
    pub(crate) fn gets_nothing(&self, packet: &[u8], probe: &[u8], is_answer: impl Fn(&[u8]) -> bool) -> bool {
        self.send(packet);
        self.send(probe);
        is_answer(&self.receive())
    }
}
