//! IP headers, and the tunnels behind them.

use std::net::IpAddr;

use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::err::ipv6_exts::HeaderSliceError as ExtensionError;
use etherparse::{Ipv6ExtensionSlice, LaxIpSlice, LaxIpv6Slice};

use super::link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ethernet, ethertype, skip};
use super::{Fragment, Undecoded};

const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;

/// In the first two bytes of GRE (RFC 2784 and 2890): fields that are there, and the version.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_VERSION: u16 = 0x0007;
const GRE_FIELD_BYTES: usize = 4;
const ETHERTYPE_FRAME: u16 = 0x6558;

/// An IP packet in its parts.
pub(super) struct Layer<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) header: &'a [u8],
    pub(super) payload: &'a [u8],
    pub(super) fragment: Fragment,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Layer<'_>, Undecoded> {
    let (ip, stopped) = LaxIpSlice::from_slice(bytes).map_err(|error| reason(&error))?;
    if let Some((error, _)) = stopped {
        return Err(match error {
            ExtensionError::Len(_) => Undecoded::Truncated,
            ExtensionError::Content(_) => Undecoded::Malformed,
        });
    }
    let (header_bytes, fragment) = match &ip {
        LaxIpSlice::Ipv4(ip) => {
            let header = ip.header();
            let offset = header.fragments_offset().value();
            (header.slice().len(), fragment(ip.is_payload_fragmented(), offset))
        }
        LaxIpSlice::Ipv6(ip) => (ip.header().slice().len(), fragment(ip.is_payload_fragmented(), offset(ip))),
    };
    Ok(Layer {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        protocol: ip.payload_ip_number().0,
        header: &bytes[..header_bytes],
        payload: ip.payload().payload,
        fragment,
    })
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

/// Where in its packet an IPv6 fragment begins.
fn offset(ip: &LaxIpv6Slice<'_>) -> u16 {
    let offset = |extension| match extension {
        Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment.fragment_offset().value()),
        _ => None,
    };
    ip.extensions().clone().into_iter().find_map(offset).unwrap_or(0)
}

impl<'a> Layer<'a> {
    /// The IP packet that this one carries, if it is a tunnel. Fragments are not looked into.
    pub(super) fn inside(&self) -> Result<Option<&'a [u8]>, Undecoded> {
        match self.protocol {
            _ if self.fragment != Fragment::Whole => Ok(None),
            PROTOCOL_IPV4 | PROTOCOL_IPV6 => Ok(Some(self.payload)),
            PROTOCOL_GRE => inside_gre(self.payload),
            _ => Ok(None),
        }
    }
}

/// Nothing if what is inside is not IP: the packet that carries it is then the innermost one.
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
