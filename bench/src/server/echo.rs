//! The reference server: a process that only answers datagrams.

use std::io::{self, Write};
use std::net::Ipv4Addr;

use super::datagrams::{BATCH, Datagrams};

/// Size of the receive buffer, larger than any request in the benchmarks.
const DATAGRAM_BYTES_MAX: usize = 2048;

/// Runs the echo server. Prints its port, and answers every datagram with `reply_bytes` bytes until the process is
/// killed.
pub(crate) fn run(reply_bytes: usize) -> io::Result<()> {
    let mut datagrams = Datagrams::bind(Ipv4Addr::LOCALHOST)?;
    writeln!(io::stdout(), "{}", datagrams.port()?)?;
    io::stdout().flush()?;
    let mut buffers = vec![[0; DATAGRAM_BYTES_MAX]; BATCH];
    loop {
        let received = datagrams.receive(buffers.iter_mut().map(<[u8; _]>::as_mut_slice))?;
        let replies = buffers[..received.count].iter().map(|buffer| &buffer[..reply_bytes]);
        datagrams.send(replies, &received.senders)?;
    }
}
