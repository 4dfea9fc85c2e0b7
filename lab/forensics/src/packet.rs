//! Decoding of frames: the innermost IP header and its payload.
//!
//! Nothing is copied, and no length is trusted: every step checks that the bytes exist. The decoder supports Ethernet
//! with up to [`VLAN_TAGS_MAX`] tags, Linux "cooked", loopback and bare IP; IPv4 and IPv6 with their extension headers;
//! and IP in IP or in GRE, up to [`ENCAPSULATION_MAX`] deep. Everything else is [`Undecoded`] with a reason, which a
//! [`Tally`] counts.
//!
//! Only the outermost IP header decides whether the frame has a packet, so a malformed inner header cannot hide one. If
//! a tunnel or the extension headers cannot be decoded completely, the result is the packet of the last readable
//! header, and [`Packet::unopened`] is the reason.
//!
//! If the capture truncated a packet, the captured part is decoded. A truncated payload becomes a short payload. If the
//! outermost IP header is truncated, the result is [`Undecoded::Truncated`].

mod link;
mod network;
mod tally;
#[cfg(test)]
mod tests;
mod transport;

use std::net::IpAddr;

use crate::capture::Frame;
pub use tally::{Tally, Undecoded};

/// Maximum number of VLAN tags before a packet.
pub const VLAN_TAGS_MAX: u32 = 4;
/// Maximum number of tunnels around a packet.
pub const ENCAPSULATION_MAX: u32 = 8;

/// A packet, borrowed from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source address in the header, which may be forged.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol after the IP header and its extensions (IANA number): 6 is TCP, 17 is UDP.
    pub protocol: u8,
    /// Source and destination ports, if the protocol has them and they were captured.
    pub ports: Option<(u16, u16)>,
    /// The innermost IP header, including options but not extension headers.
    pub header: &'a [u8],
    /// Captured bytes after that header and its extensions.
    pub ip_payload: &'a [u8],
    /// Length of the payload on the wire. It exceeds the length of `ip_payload` if the capture truncated the packet.
    pub ip_payload_bytes: usize,
    /// Bytes after the TCP or UDP header. For other protocols, the same as `ip_payload`.
    pub payload: &'a [u8],
    /// Distinguishes whole packets from fragments.
    pub fragment: Fragment,
    /// Fields of the IPv6 fragment header, if there is one. (The fragment fields of IPv4 are in `header`.)
    pub ipv6_fragment: Option<Ipv6Fragment>,
    /// Reason why a possible inner packet was not decoded. It is [`Undecoded::Truncated`] only if the capture truncated
    /// the packet; with more of the packet captured, the inner packet might be decodable.
    pub unopened: Option<Undecoded>,
}

/// Fragmentation state of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// Not fragmented.
    Whole,
    /// The first fragment, which has the ports.
    First,
    /// A later fragment, which has no ports: its whole content is payload.
    Later,
}

/// The fragment header of IPv6 (RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fragment {
    /// Offset of this fragment in its packet, in units of 8 bytes.
    pub offset: u16,
    /// True if more fragments follow.
    pub has_more: bool,
    /// Identification of the fragmented packet.
    pub identification: u32,
}

/// Decodes the packet in a frame.
///
/// # Errors
/// [`Undecoded`] if there is no supported packet. The error concerns this frame only: the next one may have a packet.
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
