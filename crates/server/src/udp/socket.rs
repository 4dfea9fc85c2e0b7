//! A socket that receives and sends datagrams in batches.

use std::array;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt,
    sockopt,
};
use socket2::{Domain, Protocol, Type};

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

/// A bound UDP socket.
pub(super) struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
}

/// The sender of a datagram, and the local address at which it arrived if the socket listens on all addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSource {
    storage: SockaddrStorage,
    pub(super) address: SocketAddr,
    local: Option<IpAddr>,
}

/// The receive buffers.
pub(super) struct Inbox {
    headers: MultiHeaders<SockaddrStorage>,
    buffers: Box<[[u8; BUFFER_BYTES]; BATCH]>,
    received: Vec<ReceivedDatagram>,
}

struct ReceivedDatagram {
    peer: DatagramSource,
    bytes: usize,
    /// The index of its buffer.
    buffer: usize,
}

/// Replies waiting to be sent.
pub(super) struct Outbox {
    headers: MultiHeaders<SockaddrStorage>,
    headers_with_source: MultiHeaders<SockaddrStorage>,
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    addresses: Vec<Option<SockaddrStorage>>,
    locals: Vec<Option<IpAddr>>,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr, is_shared: bool) -> io::Result<Self> {
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
        match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => setsockopt(&socket.as_fd(), sockopt::Ipv4PacketInfo, &true)?,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => setsockopt(&socket.as_fd(), sockopt::Ipv6RecvPacketInfo, &true)?,
            _ => {}
        }
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Inbox {
    pub(super) fn new() -> Self {
        let buffers = vec![[0; BUFFER_BYTES]; BATCH].into_boxed_slice();
        Self {
            headers: MultiHeaders::preallocate(BATCH, Some(control_space())),
            buffers: buffers.try_into().expect("BATCH buffers"),
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Waits a while for datagrams, and receives all that are available.
    pub(super) fn receive(&mut self, socket: &Socket) -> io::Result<()> {
        self.received.clear();
        let mut slices = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let descriptor = socket.socket.as_raw_fd();
        let messages = recvmmsg(descriptor, &mut self.headers, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None)?;
        for (buffer, message) in messages.enumerate() {
            let Some((storage, address)) = message.address.and_then(|storage| Some((storage, standard(&storage)?)))
            else {
                continue;
            };
            let local = if socket.address.ip().is_unspecified() {
                message.cmsgs().ok().and_then(|mut messages| messages.find_map(arrived_at))
            } else {
                None
            };
            self.received.push(ReceivedDatagram {
                peer: DatagramSource { storage, address, local },
                bytes: message.bytes,
                buffer,
            });
        }
        Ok(())
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
            headers: MultiHeaders::preallocate(BATCH, None),
            headers_with_source: MultiHeaders::preallocate(BATCH, Some(control_space())),
            bytes: Vec::new(),
            ranges: Vec::with_capacity(BATCH),
            addresses: Vec::with_capacity(BATCH),
            locals: Vec::with_capacity(BATCH),
        }
    }

    /// Returns the buffer that the next reply is appended to.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the number of bytes written since the last reply.
    pub(super) fn written(&self) -> usize {
        self.bytes.len() - self.end()
    }

    /// Discards the bytes written since the last reply.
    pub(super) fn discard(&mut self) {
        let end = self.end();
        self.bytes.truncate(end);
    }

    /// Completes a reply, which consists of the bytes written since the previous reply.
    pub(super) fn finish(&mut self, peer: &DatagramSource) {
        self.ranges.push(self.end()..self.bytes.len());
        self.addresses.push(Some(peer.storage));
        self.locals.push(peer.local);
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn end(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Sends all replies, each from the local address at which its request arrived. Replies that cannot be sent are
    /// lost, as UDP permits.
    pub(super) fn send(&mut self, socket: &Socket) {
        let mut from = 0;
        while let Some(local) = self.locals.get(from) {
            let alike = self.locals.iter().skip(from).take(BATCH).take_while(|other| *other == local).count();
            // Skip a reply that the system refuses, and try the replies after it again.
            from += self.send_alike(socket, from, alike).unwrap_or(1).max(1);
        }
        self.bytes.clear();
        self.ranges.clear();
        self.addresses.clear();
        self.locals.clear();
    }

    /// Sends `count` replies that leave from the same local address, starting at `from`. Returns the number sent.
    fn send_alike(&mut self, socket: &Socket, from: usize, count: usize) -> nix::Result<usize> {
        let Self { headers, headers_with_source, ranges, bytes, addresses, locals } = self;
        let slices: [[IoSlice<'_>; 1]; BATCH] = array::from_fn(|at| {
            let range = ranges.get(from + at).filter(|_| at < count);
            [IoSlice::new(range.and_then(|range| bytes.get(range.clone())).unwrap_or_default())]
        });
        let local = locals.get(from).copied().flatten();
        let addresses = addresses.get(from..from + count).unwrap_or_default();
        let descriptor = socket.socket.as_raw_fd();
        let slices = slices.iter().take(count);
        match local {
            None => {
                let none: [ControlMessage<'_>; 0] = [];
                Ok(sendmmsg(descriptor, headers, slices, addresses, none, MsgFlags::empty())?.count())
            }
            Some(IpAddr::V4(address)) => {
                let info = v4_source(address);
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                Ok(sendmmsg(descriptor, headers_with_source, slices, addresses, control, MsgFlags::empty())?.count())
            }
            Some(IpAddr::V6(address)) => {
                let info = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: address.octets() }, ipi6_ifindex: 0 };
                let control = [ControlMessage::Ipv6PacketInfo(&info)];
                Ok(sendmmsg(descriptor, headers_with_source, slices, addresses, control, MsgFlags::empty())?.count())
            }
        }
    }
}

/// Allocates a buffer for a datagram's local address.
fn control_space() -> Vec<u8> {
    nix::cmsg_space!(in6_pktinfo)
}

fn v4_source(address: Ipv4Addr) -> in_pktinfo {
    let address = in_addr { s_addr: address.to_bits().to_be() };
    in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address }
}

fn arrived_at(message: ControlMessageOwned) -> Option<IpAddr> {
    match message {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr)).into())
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into()),
        _ => None,
    }
}

fn standard(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(address) = storage.as_sockaddr_in() {
        return Some(SocketAddr::new(address.ip().into(), address.port()));
    }
    storage.as_sockaddr_in6().map(|address| SocketAddr::new(address.ip().into(), address.port()))
}
