//! From a frame to the packet in it: the innermost IP header, and what is behind it.
//!
//! Nothing is copied and nothing is trusted: every step looks at bytes that are there. Known are Ethernet with up to
//! [`VLAN_TAGS_MAX`] tags, Linux "cooked", loopback and bare IP; IPv4 and IPv6 with their extension headers; and IP in IP
//! or in GRE, [`ENCAPSULATION_MAX`] deep. All else is [`Undecoded`] for a reason, to be counted in a [`Tally`].
//!
//! Packets that were cut when they were captured are decoded as far as they go: a cut payload is a short payload, a cut
//! IP header is [`Undecoded::Truncated`].

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
    /// What is behind the header of TCP or UDP; of other protocols the same as `ip_payload`.
    pub payload: &'a [u8],
    /// Whether it is a part of a packet.
    pub fragment: Fragment,
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

/// The packet in a frame.
///
/// # Errors
/// [`Undecoded`] if there is none that we know; never fatal, the next frame may have one.
pub fn decode<'a>(frame: &Frame<'a>) -> Result<Packet<'a>, Undecoded> {
    let mut ip = link::strip(frame.link, frame.bytes)?;
    for _ in 0..=ENCAPSULATION_MAX {
        let layer = network::parse(ip)?;
        match layer.inside()? {
            Some(inner) => ip = inner,
            None => return Ok(transport::packet(&layer)),
        }
    }
    Err(Undecoded::TooDeep)
}
