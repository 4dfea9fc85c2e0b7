//! A TCP forwarder that can cut the connection between two processes.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Interval at which a forwarder checks whether it has been cut.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A forwarder, which runs until the program ends.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts forwarding connections from a free local port to `target`.
    pub(crate) fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self { address: listener.local_addr()?, is_cut: Arc::default() };
        let is_cut = Arc::clone(&proxy.is_cut);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                if let Ok(far) = TcpStream::connect_timeout(&target, Duration::from_secs(1)) {
                    forward(&near, &far, &is_cut);
                }
            }
        });
        Ok(proxy)
    }

    /// Returns the address to connect to.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the connection, including open streams, or restores it.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

/// Copies in both directions until one side ends or the forwarder is cut.
fn forward(near: &TcpStream, far: &TcpStream, is_cut: &Arc<AtomicBool>) {
    for (from, to) in [(near, far), (far, near)] {
        if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
            let is_cut = Arc::clone(is_cut);
            thread::spawn(move || copy(from, to, &is_cut));
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    let _ = from.set_read_timeout(Some(POLL_INTERVAL));
    while !is_cut.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                if to.write_all(buffer.get(..length).unwrap_or_default()).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
