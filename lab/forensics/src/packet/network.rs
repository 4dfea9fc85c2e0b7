//! IP headers and tunnels.

use std::net::IpAddr;

use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::err::ipv6_exts::HeaderSliceError as ExtensionError;
use etherparse::{IpNumber, LaxIpSlice, LaxIpv4Slice, LaxIpv6Slice};

use super::link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ethernet, ethertype, skip};
use super::{Fragment, Ipv6Fragment, Undecoded};

const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;

/// Flags and version in the first two bytes of GRE (RFC 2784 and 2890).
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_VERSION: u16 = 0x0007;
const GRE_FIELD_BYTES: usize = 4;
const ETHERTYPE_FRAME: u16 = 0x6558;

/// The parts of an IP packet.
pub(super) struct Layer<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) header: &'a [u8],
    pub(super) payload: &'a [u8],
    /// Length of the payload on the wire.
    pub(super) payload_bytes: usize,
    pub(super) fragment: Fragment,
    pub(super) ipv6_fragment: Option<Ipv6Fragment>,
    /// The reason why the extension headers were not decoded completely.
    stopped: Option<Undecoded>,
}

/// Parses a packet. `cut_bytes` is the number of bytes of the frame that were not captured.
///
/// The length in the header is trusted, because routers drop packets that are longer than their frame.
pub(super) fn parse(bytes: &[u8], cut_bytes: usize) -> Result<Layer<'_>, Undecoded> {
    let (ip, error) = LaxIpSlice::from_slice(bytes).map_err(|error| reason(&error))?;
    let (header_bytes, extensions_bytes, declared) = match &ip {
        LaxIpSlice::Ipv4(ip) => (ip.header().slice().len(), ipv4_extensions(ip), ipv4_payload_bytes(ip)),
        LaxIpSlice::Ipv6(ip) => (ip.header().slice().len(), ip.extensions().slice().len(), ipv6_payload_bytes(ip)),
    };
    let payload = ip.payload().payload;
    let payload_bytes =
        declared.map_or(payload.len() + cut_bytes, |declared| declared.saturating_sub(extensions_bytes));
    let stopped = error.map(|(error, _)| match error {
        ExtensionError::Len(_) => Undecoded::Truncated,
        ExtensionError::Content(_) => Undecoded::Malformed,
    });
    let (fragment, ipv6_fragment) = fragments(&ip);
    Ok(Layer {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        protocol: ip.payload_ip_number().0,
        header: &bytes[..header_bytes],
        payload,
        payload_bytes,
        fragment,
        ipv6_fragment,
        stopped,
    })
}

/// Returns the length of the authentication header, the only extension header in IPv4.
fn ipv4_extensions(ip: &LaxIpv4Slice<'_>) -> usize {
    ip.extensions().auth.map_or(0, |auth| auth.slice().len())
}

/// Returns the length of the payload according to the header; `None` if the total length is shorter than the header. In
/// captures made at the sender, segments that the network card has not split yet have a length of 0.
fn ipv4_payload_bytes(ip: &LaxIpv4Slice<'_>) -> Option<usize> {
    usize::from(ip.header().total_len()).checked_sub(ip.header().slice().len())
}

/// Returns the length of the payload; `None` if the field is 0 and the packet is a jumbogram. The length of a jumbogram
/// is in a hop-by-hop option (RFC 2675).
fn ipv6_payload_bytes(ip: &LaxIpv6Slice<'_>) -> Option<usize> {
    let header = ip.header();
    let is_jumbogram = header.payload_length() == 0 && header.next_header() == IpNumber::IPV6_HEADER_HOP_BY_HOP;
    (!is_jumbogram).then_some(header.payload_length().into())
}

const fn reason(error: &LaxHeaderSliceError) -> Undecoded {
    match error {
        LaxHeaderSliceError::Len(_) => Undecoded::Truncated,
        LaxHeaderSliceError::Content(_) => Undecoded::Malformed,
    }
}

const fn fragment(is_fragment: bool, offset: u16) -> Fragment {
    match (is_fragment, offset) {
        (false, _) => Fragment::Whole,
        (true, 0) => Fragment::First,
        (true, _) => Fragment::Later,
    }
}

fn fragments(ip: &LaxIpSlice<'_>) -> (Fragment, Option<Ipv6Fragment>) {
    match ip {
        LaxIpSlice::Ipv4(ip) => (fragment(ip.is_payload_fragmented(), ip.header().fragments_offset().value()), None),
        LaxIpSlice::Ipv6(ip) => {
            let header = ipv6_fragment(ip);
            (fragment(ip.is_payload_fragmented(), header.map_or(0, |header| header.offset)), header)
        }
    }
}

/// Returns the first fragment header. Walks the extension headers itself, because the library's iterator assumes that
/// all of them were decoded.
fn ipv6_fragment(ip: &LaxIpv6Slice<'_>) -> Option<Ipv6Fragment> {
    let (mut kind, mut rest) = (ip.header().next_header(), ip.extensions().slice());
    loop {
        let &[next, length, offset_high, offset_low, a, b, c, d, ..] = rest else { return None };
        if kind == IpNumber::IPV6_FRAGMENTATION_HEADER {
            let field = u16::from_be_bytes([offset_high, offset_low]);
            let identification = u32::from_be_bytes([a, b, c, d]);
            return Some(Ipv6Fragment { offset: field >> 3, has_more: field & 1 == 1, identification });
        }
        let units = usize::from(length);
        let bytes = if kind == IpNumber::AUTHENTICATION_HEADER { (units + 2) * 4 } else { (units + 1) * 8 };
        (kind, rest) = (IpNumber(next), rest.get(bytes..)?);
    }
}

impl<'a> Layer<'a> {
    /// Returns the IP packet carried by this one, if it is a tunnel. Fragments are not opened.
    ///
    /// The error is [`Undecoded::Truncated`] only if the capture truncated the packet. If the frame was captured
    /// completely, a packet that ends early is malformed.
    pub(super) fn inside(&self) -> Result<Option<Self>, Undecoded> {
        let reason = |reason| match reason {
            Undecoded::Truncated if self.cut_bytes() == 0 => Undecoded::Malformed,
            reason => reason,
        };
        let carried = self.stopped.map_or_else(|| self.carried(), Err).map_err(reason)?;
        carried.map(|bytes| self.parse_carried(bytes).map_err(reason)).transpose()
    }

    /// Parses a carried packet. Its length is limited to that of the carrier, even if its header claims more: routers
    /// on the path do not check the inner length.
    fn parse_carried(&self, bytes: &'a [u8]) -> Result<Self, Undecoded> {
        let cut_bytes = self.cut_bytes();
        let inner = parse(bytes, cut_bytes)?;
        Ok(Layer { payload_bytes: inner.payload_bytes.min(inner.payload.len() + cut_bytes), ..inner })
    }

    /// Returns the bytes of the carried packet.
    fn carried(&self) -> Result<Option<&'a [u8]>, Undecoded> {
        match self.protocol {
            _ if self.fragment != Fragment::Whole => Ok(None),
            PROTOCOL_IPV4 | PROTOCOL_IPV6 => Ok(Some(self.payload)),
            PROTOCOL_GRE => inside_gre(self.payload),
            _ => Ok(None),
        }
    }

    const fn cut_bytes(&self) -> usize {
        self.payload_bytes.saturating_sub(self.payload.len())
    }
}

/// Returns the IP packet inside GRE. `None` means that the content is not IP: then the carrier is the innermost packet.
fn inside_gre(bytes: &[u8]) -> Result<Option<&[u8]>, Undecoded> {
    let (flags, rest) = ethertype(bytes)?;
    let (kind, rest) = ethertype(rest)?;
    if flags & (GRE_VERSION | GRE_ROUTING) != 0 {
        return Ok(None);
    }
    let fields = (flags & (GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE)).count_ones() as usize;
    let inner = skip(rest, fields * GRE_FIELD_BYTES)?;
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(Some(inner)),
        ETHERTYPE_FRAME => match ethernet(inner) {
            Err(Undecoded::NotIp) => Ok(None),
            inner => inner.map(Some),
        },
        _ => Ok(None),
    }
}
