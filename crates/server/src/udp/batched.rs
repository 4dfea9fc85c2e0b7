//! Many datagrams in one system call: `recvmmsg` and `sendmmsg`, which only Linux has.

use std::array;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt,
    sockopt,
};

use super::socket::{BATCH, Buffers, DatagramSource, ReceivedDatagram, Replies};

/// The headers for receiving a batch.
pub(super) struct Receiver(MultiHeaders<SockaddrStorage>);

/// The headers for sending a batch, without and with a local address.
pub(super) struct Sender {
    headers: MultiHeaders<SockaddrStorage>,
    headers_with_source: MultiHeaders<SockaddrStorage>,
}

/// Makes a socket that listens on all addresses report the address at which each datagram arrived.
pub(super) fn report_local_addresses(socket: &UdpSocket, listens_on: IpAddr) -> io::Result<()> {
    match listens_on {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => setsockopt(&socket.as_fd(), sockopt::Ipv4PacketInfo, &true)?,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => setsockopt(&socket.as_fd(), sockopt::Ipv6RecvPacketInfo, &true)?,
        _ => {}
    }
    Ok(())
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self(MultiHeaders::preallocate(BATCH, Some(control_space())))
    }

    /// Waits a while for datagrams, and receives all that are available. `has_local` is true if the socket reports local
    /// addresses.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        has_local: bool,
        buffers: &mut Buffers,
        received: &mut Vec<ReceivedDatagram>,
    ) -> io::Result<()> {
        let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let descriptor = socket.as_raw_fd();
        let messages = recvmmsg(descriptor, &mut self.0, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None)?;
        for (buffer, message) in messages.enumerate() {
            let Some(address) = message.address.and_then(|storage| standard(&storage)) else { continue };
            let local = if has_local {
                message.cmsgs().ok().and_then(|mut messages| messages.find_map(arrived_at))
            } else {
                None
            };
            received.push(ReceivedDatagram { peer: DatagramSource { address, local }, bytes: message.bytes, buffer });
        }
        Ok(())
    }
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            headers_with_source: MultiHeaders::preallocate(BATCH, Some(control_space())),
        }
    }

    /// Sends all replies, each from the local address at which its request arrived. Replies that cannot be sent are
    /// lost, as UDP permits.
    pub(super) fn send(&mut self, socket: &UdpSocket, replies: &Replies) {
        let mut from = 0;
        while let Some(local) = replies.peers.get(from).map(|peer| peer.local) {
            let rest = replies.peers.iter().skip(from).take(BATCH);
            let alike = rest.take_while(|other| other.local == local).count();
            // Skip a reply that the system refuses, and try the replies after it again.
            from += self.send_alike(socket, replies, from, alike).unwrap_or(1).max(1);
        }
    }

    /// Sends `count` replies, beginning with number `from`. All leave from the same local address. Returns how many
    /// were sent.
    fn send_alike(&mut self, socket: &UdpSocket, replies: &Replies, from: usize, count: usize) -> nix::Result<usize> {
        let Self { headers, headers_with_source } = self;
        let at = |at: usize| replies.bytes(from + at).filter(|_| at < count).unwrap_or_default();
        let slices: [[IoSlice<'_>; 1]; BATCH] = array::from_fn(|number| [IoSlice::new(at(number))]);
        let peer = |at: usize| replies.peers.get(from + at).filter(|_| at < count);
        let addresses: [Option<SockaddrStorage>; BATCH] =
            array::from_fn(|number| peer(number).map(|peer| peer.address.into()));
        let addresses = addresses.get(..count).unwrap_or_default();
        let local = replies.peers.get(from).and_then(|peer| peer.local);
        let descriptor = socket.as_raw_fd();
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
    storage.as_sockaddr_in6().map(|address| SocketAddr::from(*address))
}
