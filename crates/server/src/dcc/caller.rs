//! The caller of a DCC request, and the detection of repeated requests.

use std::net::IpAddr;

use bruit_engine::accounts::Credential;
use bruit_engine::accounts::dcc::DccPassword;
use bruit_engine::trust::Reporter;
use bruit_filters::Fingerprint;
use bruit_protocols::dcc::{ANONYMOUS, Request as DccRequest};

use crate::udp::{NamedAccount, Request};

/// The caller of a request.
#[derive(Clone, Copy)]
pub(super) struct DccCaller {
    pub(super) reporter: Reporter,
    /// The password that verified the request. `None` if the request is anonymous or handled as anonymous.
    pub(super) password: Option<DccPassword>,
    /// True if the request has proven the server's own ID.
    pub(super) is_self: bool,
    /// True if the request names an ID that it has not proven.
    pub(super) is_unverified: bool,
}

impl DccCaller {
    /// Identifies the caller of a request. The ID of a server grants administration, but does not allow claims.
    pub(super) fn of(asked: &DccRequest<'_>, request: &Request<'_>) -> Self {
        let is_named = asked.header.sender != ANONYMOUS;
        let reporter = request.source.reporter(&request.service.key);
        let nobody = Self { reporter, password: None, is_self: false, is_unverified: is_named };
        if !asked.is_signed() {
            return nobody;
        }
        if asked.header.sender == request.settings.dcc.server_id {
            let known = request.settings.dcc.password.as_ref().and_then(|word| DccPassword::new(word.as_bytes()));
            let password = known.filter(|password| password.verify(asked.frame()));
            return Self { password, is_self: password.is_some(), is_unverified: password.is_none(), ..nobody };
        }
        Self::client(asked, request).unwrap_or(nobody)
    }

    /// Returns the account of this client ID if the signature is correct.
    fn client(asked: &DccRequest<'_>, request: &Request<'_>) -> Option<Self> {
        let NamedAccount { name, account } = request.account.filter(|named| named.account.enabled)?;
        let Credential::Dcc(verifier) = &account.credential else { return None };
        let password = verifier.verify(asked.frame()).copied();
        let reporter = request.source.reporter_as(name, account, &request.service.key);
        password.map(|_| Self { reporter, password, is_self: false, is_unverified: false })
    }
}

/// Formats a number in decimal without allocating.
pub(super) fn decimal(number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let (mut rest, mut start) = (number, digits.len());
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        start -= 1;
        if rest == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// Returns a keyed hash of the data that all copies of a request share: most of the header, and the source.
pub(super) fn identity(asked: &DccRequest<'_>, request: &Request<'_>) -> Fingerprint {
    let address = match request.source.address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let port = request.from.port().to_be_bytes();
    request.service.key.fingerprint(&[asked.duplicate_key(), &address.octets(), &port].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_without_leading_zeros() {
        for number in [0, 9, 32_768, 16_777_215, u32::MAX] {
            assert_eq!(decimal(number, &mut [0; 10]), number.to_string().as_bytes());
        }
    }
}
