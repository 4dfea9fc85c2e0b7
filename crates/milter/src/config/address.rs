//! Listen addresses, as Postfix writes them: `inet:127.0.0.1:8626` and `unix:/path`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::{ADDRESSES_MAX, ConfigError, invalid};

/// Default mode of a Unix socket: the owner and the group may connect.
const SOCKET_MODE: u32 = 0o660;

/// A listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and port.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix(UnixSocket),
}

/// A Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// The path.
    pub path: PathBuf,
    /// The mode of the socket file. Connecting requires write permission.
    pub mode: u32,
    /// The group of the socket file, if it differs from the milter's.
    pub group: Option<String>,
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inet(address) => write!(out, "inet:{address}"),
            Self::Unix(socket) => write!(out, "unix:{}", socket.path.display()),
        }
    }
}

/// One address or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an address such as \"inet:127.0.0.1:8626\", or a list of them")]
pub(super) enum RawListen {
    One(RawAddress),
    Several(Vec<RawAddress>),
}

/// An address as text, or a Unix socket with its mode and group.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an address such as \"inet:127.0.0.1:8626\", or { path, mode, group }")]
pub(super) enum RawAddress {
    Text(String),
    Socket(RawSocket),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSocket {
    path: PathBuf,
    mode: Option<String>,
    group: Option<String>,
}

impl RawListen {
    pub(super) fn check(self) -> Result<Vec<Address>, ConfigError> {
        let raw = match self {
            Self::One(address) => vec![address],
            Self::Several(addresses) => addresses,
        };
        if !(1..=ADDRESSES_MAX).contains(&raw.len()) {
            return Err(invalid("listen", format!("expected 1 to {ADDRESSES_MAX} addresses")));
        }
        raw.into_iter().map(RawAddress::check).collect()
    }
}

impl RawAddress {
    fn check(self) -> Result<Address, ConfigError> {
        match self {
            Self::Text(text) => parse(&text)
                .ok_or_else(|| invalid("listen", format!("expected inet:ADDRESS:PORT or unix:PATH, not {text:?}"))),
            Self::Socket(socket) => socket.check(),
        }
    }
}

impl RawSocket {
    fn check(self) -> Result<Address, ConfigError> {
        let parse = |digits: &str| u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
        let mode = match &self.mode {
            None => SOCKET_MODE,
            Some(digits) => {
                parse(digits).ok_or_else(|| invalid("listen.mode", "expected octal digits such as \"0660\""))?
            }
        };
        Ok(Address::Unix(UnixSocket { path: self.path, mode, group: self.group }))
    }
}

fn parse(text: &str) -> Option<Address> {
    if let Some(address) = text.strip_prefix("inet:") {
        return address.parse().ok().map(Address::Inet);
    }
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty())?;
    Some(Address::Unix(UnixSocket { path: path.into(), mode: SOCKET_MODE, group: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn listen(value: &str) -> Vec<Address> {
        Config::parse(&format!("listen = {value}")).unwrap().listen
    }

    #[test]
    fn addresses_are_written_as_for_postfix() {
        assert_eq!(listen("\"inet:[::1]:8626\"")[0].to_string(), "inet:[::1]:8626");
        let several = listen("[\"inet:127.0.0.1:0\", \"unix:/run/bruit/milter.sock\"]");
        assert_eq!(several.len(), 2);
        let expected = UnixSocket { path: "/run/bruit/milter.sock".into(), mode: 0o660, group: None };
        assert_eq!(several[1], Address::Unix(expected));
    }

    #[test]
    fn a_socket_has_a_mode_and_a_group() {
        let Address::Unix(socket) = &listen("{ path = \"/s\", mode = \"0666\", group = \"postfix\" }")[0] else {
            panic!()
        };
        assert_eq!((socket.mode, socket.group.as_deref()), (0o666, Some("postfix")));
    }
}
