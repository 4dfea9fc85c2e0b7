//! A socket, and the buffers for received datagrams and for replies.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use socket2::{Domain, Protocol, Type};

#[cfg(target_os = "linux")]
use super::batched;
use super::plain;

/// Maximum number of datagrams in a batch.
pub(crate) const BATCH: usize = 64;

/// Maximum length of a datagram, equal to the limit of Pyzor's server. Datagrams of the other protocols are far
/// shorter. A longer datagram is truncated.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 8_192;

/// Size of a receive buffer. With a power of two, all datagrams would begin in the same set of the processor's cache.
const BUFFER_BYTES: usize = DATAGRAM_BYTES_MAX + 64;

/// Size of the kernel's receive buffer, which holds datagrams while a batch is processed.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

/// Time that a thread waits for a datagram before it checks the stop signal.
const PATIENCE: Duration = Duration::from_millis(200);

/// The receive buffers.
pub(super) type Buffers = [[u8; BUFFER_BYTES]; BATCH];

/// The system calls that receive and send datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Many datagrams in one call.
    #[cfg(target_os = "linux")]
    Batched,
    /// One datagram in one call.
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "on Linux, only tests use it"))]
    Plain,
}

impl Transfer {
    /// The fastest calls of this system.
    #[cfg(target_os = "linux")]
    pub(crate) const FASTEST: Self = Self::Batched;
    /// The fastest calls of this system.
    #[cfg(not(target_os = "linux"))]
    pub(crate) const FASTEST: Self = Self::Plain;
}

/// A bound UDP socket.
pub(super) struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
    transfer: Transfer,
}

/// The sender of a datagram, and the local address at which it arrived. That address is known only if the socket
/// listens on all addresses and the system reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSource {
    pub(super) address: SocketAddr,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux can choose it for a reply"))]
    pub(super) local: Option<IpAddr>,
}

/// The received datagrams.
pub(super) struct Inbox {
    #[cfg(target_os = "linux")]
    batched: batched::Receiver,
    buffers: Box<Buffers>,
    received: Vec<ReceivedDatagram>,
}

pub(super) struct ReceivedDatagram {
    pub(super) peer: DatagramSource,
    pub(super) bytes: usize,
    /// The index of its buffer.
    pub(super) buffer: usize,
}

/// Replies waiting to be sent, and the reply that is being written.
pub(super) struct Outbox {
    #[cfg(target_os = "linux")]
    batched: batched::Sender,
    replies: Replies,
}

/// Replies and their receivers.
pub(super) struct Replies {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    pub(super) peers: Vec<DatagramSource>,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr, is_shared: bool, transfer: Transfer) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_port(is_shared)?;
        // The kernel may grant less, which is not an error.
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(KERNEL_BUFFER_BYTES);
        socket.bind(&address.into())?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let socket = UdpSocket::from(socket);
        #[cfg(target_os = "linux")]
        if transfer == Transfer::Batched {
            batched::report_local_addresses(&socket, address.ip())?;
        }
        let address = socket.local_addr()?;
        Ok(Self { socket, address, transfer })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Inbox {
    pub(super) fn new() -> Self {
        let buffers = vec![[0; BUFFER_BYTES]; BATCH].into_boxed_slice();
        Self {
            #[cfg(target_os = "linux")]
            batched: batched::Receiver::new(),
            buffers: buffers.try_into().expect("BATCH buffers"),
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Waits a while for datagrams, and receives one, or all that are available.
    pub(super) fn receive(&mut self, socket: &Socket) -> io::Result<()> {
        self.received.clear();
        match socket.transfer {
            #[cfg(target_os = "linux")]
            Transfer::Batched => {
                let has_local = socket.address.ip().is_unspecified();
                self.batched.receive(&socket.socket, has_local, &mut self.buffers, &mut self.received)
            }
            Transfer::Plain => plain::receive(&socket.socket, &mut self.buffers, &mut self.received),
        }
    }

    /// Returns the received datagrams.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (&DatagramSource, &[u8])> {
        (0..self.received.len()).filter_map(|at| self.datagram(at))
    }

    /// Returns one received datagram.
    pub(super) fn datagram(&self, at: usize) -> Option<(&DatagramSource, &[u8])> {
        let received = self.received.get(at)?;
        let buffer = self.buffers.get(received.buffer)?;
        Some((&received.peer, buffer.get(..received.bytes.min(DATAGRAM_BYTES_MAX)).unwrap_or_default()))
    }

    pub(super) fn len(&self) -> usize {
        self.received.len()
    }
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            batched: batched::Sender::new(),
            replies: Replies { bytes: Vec::new(), ranges: Vec::with_capacity(BATCH), peers: Vec::with_capacity(BATCH) },
        }
    }

    /// Returns the buffer that the next reply is appended to.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        &mut self.replies.bytes
    }

    /// Returns the number of bytes written since the last reply.
    pub(super) fn written(&self) -> usize {
        self.replies.bytes.len() - self.replies.end()
    }

    /// Discards the bytes written since the last reply.
    pub(super) fn discard(&mut self) {
        let end = self.replies.end();
        self.replies.bytes.truncate(end);
    }

    /// Completes a reply, which consists of the bytes written since the previous reply.
    pub(super) fn finish(&mut self, peer: &DatagramSource) {
        self.replies.ranges.push(self.replies.end()..self.replies.bytes.len());
        self.replies.peers.push(*peer);
    }

    pub(super) fn len(&self) -> usize {
        self.replies.ranges.len()
    }

    /// Sends all replies.
    pub(super) fn send(&mut self, socket: &Socket) {
        match socket.transfer {
            #[cfg(target_os = "linux")]
            Transfer::Batched => self.batched.send(&socket.socket, &self.replies),
            Transfer::Plain => plain::send(&socket.socket, &self.replies),
        }
        self.replies.bytes.clear();
        self.replies.ranges.clear();
        self.replies.peers.clear();
    }
}

impl Replies {
    /// Returns the bytes of a reply.
    pub(super) fn bytes(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(self.ranges.get(at)?.clone())
    }

    fn end(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }
}
