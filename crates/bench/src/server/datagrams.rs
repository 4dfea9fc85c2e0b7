//! A UDP socket that is read and written in batches, one system call for up to [`BATCH`] datagrams.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};

/// Datagrams of one system call.
pub(crate) const BATCH: usize = 64;
/// Bytes that wait in a socket: several windows of requests.
const SOCKET_BYTES: usize = 4 << 20;

/// A socket with what batches need, made once.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    inbound: MultiHeaders<SockaddrIn>,
    outbound: MultiHeaders<SockaddrIn>,
}

/// Length and sender of each datagram of a batch.
pub(crate) struct Received {
    pub(crate) count: usize,
    pub(crate) lengths: [usize; BATCH],
    pub(crate) senders: [Option<SockaddrIn>; BATCH],
}

impl Datagrams {
    /// A socket on a free port of `address`.
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

    /// A socket that talks from `address` to `server` alone, and whose [`receive`](Self::receive) gives up after `patience`.
    pub(crate) fn connect(address: Ipv4Addr, server: SocketAddr, patience: Duration) -> io::Result<Self> {
        let datagrams = Self::bind(address)?;
        datagrams.socket.connect(server)?;
        datagrams.socket.set_read_timeout(Some(patience))?;
        Ok(datagrams)
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Waits for one datagram at least and takes what else is there, one into each of `buffers`; nothing when it gave up.
    pub(crate) fn receive<'a>(&mut self, buffers: impl Iterator<Item = &'a mut [u8]>) -> io::Result<Received> {
        self.receive_with(buffers, MsgFlags::MSG_WAITFORONE)
    }

    /// Takes what is there.
    pub(crate) fn receive_ready<'a>(&mut self, buffers: impl Iterator<Item = &'a mut [u8]>) -> io::Result<Received> {
        self.receive_with(buffers, MsgFlags::MSG_DONTWAIT)
    }

    fn receive_with<'a>(
        &mut self,
        mut buffers: impl Iterator<Item = &'a mut [u8]>,
        flags: MsgFlags,
    ) -> io::Result<Received> {
        let mut received = Received { count: 0, lengths: [0; BATCH], senders: [None; BATCH] };
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

    /// Sends `packets`, at most [`BATCH`] of them, to `to` each, or where the socket is connected to.
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
