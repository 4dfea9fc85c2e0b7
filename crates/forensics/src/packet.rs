//! From a frame to the packet in it: the innermost IP header, and what is behind it.
//!
//! Nothing is copied and nothing is trusted: every step looks at bytes that are there. Known are Ethernet with up to
//! [`VLAN_TAGS_MAX`] tags, Linux "cooked", loopback and bare IP; IPv4 and IPv6 with their extension headers; and IP in IP
//! or in GRE, [`ENCAPSULATION_MAX`] deep. All else is [`Undecoded`] for a reason, to be counted in a [`Tally`].
//!
//! The outermost IP header decides whether there is a packet: nobody gets past us by what is behind it. Where a tunnel
//! or the extension headers cannot be followed to the end, the last header that can be read is the packet's, and
//! [`Packet::unopened`] says why.
//!
//! Packets that were cut when they were captured are decoded as far as they go: a cut payload is a short payload, a cut
//! outermost IP header is [`Undecoded::Truncated`].

mod link;
mod network;
mod tally;
#[cfg(test)]
mod tests;
mod transport;

use std::net::IpAddr;

use crate::capture::Frame;
pub use tally::{Tally, Undecoded};

/// The most VLAN tags before a packet.
pub const VLAN_TAGS_MAX: u32 = 4;
/// The most tunnels around a packet.
pub const ENCAPSULATION_MAX: u32 = 8;

/// A packet, borrowed from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Who sent it, as it says itself.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What is behind the IP header and its extensions, by IANA's number: 6 is TCP, 17 is UDP.
    pub protocol: u8,
    /// Ports of source and destination, if the protocol has them and they were captured.
    pub ports: Option<(u16, u16)>,
    /// The innermost IP header, with options, without extension headers.
    pub header: &'a [u8],
    /// What is behind that header and its extensions, as far as it was captured.
    pub ip_payload: &'a [u8],
    /// How long that was on the wire: longer than `ip_payload` if the capture cut it.
    pub ip_payload_bytes: usize,
    /// What is behind the header of TCP or UDP; of other protocols the same as `ip_payload`.
    pub payload: &'a [u8],
    /// Whether it is a part of a packet.
    pub fragment: Fragment,
    /// What the fragment header of IPv6 says, if there is one. (That of IPv4 is in `header`.)
    pub ipv6_fragment: Option<Ipv6Fragment>,
    /// Why there may be another packet in it that was not looked at. It is [`Undecoded::Truncated`] only if the capture
    /// cut it, so that a longer capture would tell more.
    pub unopened: Option<Undecoded>,
}

/// Which part of a packet this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// The first part, which has the ports.
    First,
    /// Another part: it has no ports, and all of it is payload.
    Later,
}

/// The fragment header of IPv6 (RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fragment {
    /// Where in its packet this part begins, in units of 8 bytes.
    pub offset: u16,
    /// Whether there are parts behind it.
    pub has_more: bool,
    /// Of which packet it is a part.
    pub identification: u32,
}

/// The packet in a frame.
///
/// # Errors
/// [`Undecoded`] if there is none that we know; never fatal, the next frame may have one.
pub fn decode<'a>(frame: &Frame<'a>) -> Result<Packet<'a>, Undecoded> {
    let cut_bytes = (frame.original_bytes as usize).saturating_sub(frame.bytes.len());
    let mut layer = network::parse(link::strip(frame.link, frame.bytes)?, cut_bytes)?;
    for _ in 0..ENCAPSULATION_MAX {
        match layer.inside() {
            Ok(Some(inner)) => layer = inner,
            Ok(None) => return Ok(transport::packet(&layer, None)),
            Err(reason) => return Ok(transport::packet(&layer, Some(reason))),
        }
    }
    let unopened = layer.inside().map_or_else(Some, |inner| inner.map(|_| Undecoded::TooDeep));
    Ok(transport::packet(&layer, unopened))
}
