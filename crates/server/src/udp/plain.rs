//! One datagram in one system call, on any system. The system chooses the local address from which a reply leaves. If
//! the machine has several addresses and the socket listens on all of them, a reply may leave from another address than
//! the one to which the request was sent.

use std::io;
use std::net::UdpSocket;

use super::socket::{Buffers, DatagramSource, ReceivedDatagram, Replies};

/// Waits a while for a datagram, and receives it.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut Buffers,
    received: &mut Vec<ReceivedDatagram>,
) -> io::Result<()> {
    let [buffer, ..] = buffers;
    let (bytes, address) = socket.recv_from(buffer)?;
    received.push(ReceivedDatagram { peer: DatagramSource { address, local: None }, bytes, buffer: 0 });
    Ok(())
}

/// Sends all replies. Replies that cannot be sent are lost, as UDP permits.
pub(super) fn send(socket: &UdpSocket, replies: &Replies) {
    for (at, peer) in replies.peers.iter().enumerate() {
        let bytes = replies.bytes(at).unwrap_or_default();
        let _ = socket.send_to(bytes, peer.address);
    }
}
