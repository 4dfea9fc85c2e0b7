//! A UDP socket that reads and writes in batches. One system call handles up to [`BATCH`] datagrams.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};

/// Maximum number of datagrams per system call.
pub(crate) const BATCH: usize = 64;
/// Buffer size of a socket, enough for several windows of requests.
const SOCKET_BYTES: usize = 4 << 20;

/// A socket, with reusable structures for batches.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    inbound: MultiHeaders<SockaddrIn>,
    outbound: MultiHeaders<SockaddrIn>,
}

/// Length and sender of each datagram in a batch.
pub(crate) struct ReceivedBatch {
    pub(crate) count: usize,
    pub(crate) lengths: [usize; BATCH],
    pub(crate) senders: [Option<SockaddrIn>; BATCH],
}

impl Datagrams {
    /// Binds to a free port of `address`.
    pub(crate) fn bind(address: Ipv4Addr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BYTES)?;
        setsockopt(&socket, sockopt::SndBuf, &SOCKET_BYTES)?;
        Ok(Self {
            socket,
            inbound: MultiHeaders::preallocate(BATCH, None),
            outbound: MultiHeaders::preallocate(BATCH, None),
        })
    }

    /// Binds to `address` and connects to `server`. [`receive`](Self::receive) times out after `patience`.
    pub(crate) fn connect(address: Ipv4Addr, server: SocketAddr, patience: Duration) -> io::Result<Self> {
        let datagrams = Self::bind(address)?;
        datagrams.socket.connect(server)?;
        datagrams.socket.set_read_timeout(Some(patience))?;
        Ok(datagrams)
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Waits for at least one datagram, and receives all that are available, one into each of `buffers`. Returns an
    /// empty batch after a timeout.
    pub(crate) fn receive<'a>(&mut self, buffers: impl Iterator<Item = &'a mut [u8]>) -> io::Result<ReceivedBatch> {
        self.receive_with(buffers, MsgFlags::MSG_WAITFORONE)
    }

    /// Receives the datagrams that are available, without waiting.
    pub(crate) fn receive_ready<'a>(
        &mut self,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<ReceivedBatch> {
        self.receive_with(buffers, MsgFlags::MSG_DONTWAIT)
    }

    fn receive_with<'a>(
        &mut self,
        mut buffers: impl Iterator<Item = &'a mut [u8]>,
        flags: MsgFlags,
    ) -> io::Result<ReceivedBatch> {
        let mut received = ReceivedBatch { count: 0, lengths: [0; BATCH], senders: [None; BATCH] };
        let mut slices: [_; BATCH] = std::array::from_fn(|_| [IoSliceMut::new(buffers.next().unwrap_or_default())]);
        let messages = match recvmmsg(self.socket.as_raw_fd(), &mut self.inbound, slices.iter_mut(), flags, None) {
            Ok(messages) => messages,
            Err(error) if io::Error::from(error).kind() == ErrorKind::WouldBlock => return Ok(received),
            Err(error) => return Err(error.into()),
        };
        for (at, message) in messages.enumerate() {
            received.lengths[at] = message.bytes;
            received.senders[at] = message.address;
            received.count += 1;
        }
        Ok(received)
    }

    /// Sends up to [`BATCH`] `packets`, each to its address in `to`, or to the connected address if it has none.
    pub(crate) fn send<'a>(
        &mut self,
        mut packets: impl ExactSizeIterator<Item = &'a [u8]>,
        to: &[Option<SockaddrIn>],
    ) -> io::Result<()> {
        let count = packets.len();
        let slices: [_; BATCH] = std::array::from_fn(|_| [IoSlice::new(packets.next().unwrap_or_default())]);
        let mut sent = 0;
        while sent < count {
            let (packets, to) = (slices[sent..count].iter(), &to[sent..count]);
            sent += sendmmsg(self.socket.as_raw_fd(), &mut self.outbound, packets, to, [], MsgFlags::empty())?.count();
        }
        Ok(())
    }
}
