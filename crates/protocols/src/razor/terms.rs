//! The values that a server announces to every client: its greeting, its state and its addresses.

use std::net::SocketAddr;

use bruit_signatures::razor::Ep4;

use super::frame::{BATCH_LINES_MAX, BLOB_KIB};
use super::reply::REPLY_BYTES_MAX;
use super::sis;

/// Maximum number of `ep4` values, including the current one. Each reported part is signed with all of them.
pub const EPOCHS_MAX: usize = 8;

/// Maximum number of names in a server list.
pub const SERVERS_MAX: usize = 16;

/// Default port of servers.
const PORT: u16 = 2703;

/// The only valid engine for reports. If the server announces any other, clients send garbage.
const REPORT_ENGINE: &str = "4";

/// Engines 4 and 8, as a bit mask in hexadecimal: bit n − 1 stands for engine n.
const ENGINES: &str = "88";

/// Role letter of a catalogue server. Clients only log it. They use every server in all three roles.
const ROLE: &str = "C";

/// The values that a server announces on every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    epochs: Vec<Ep4>,
    greeting: Vec<u8>,
    state: Vec<u8>,
}

/// Servers announced to clients that run a discovery. Each is an address or a name with a dot, followed by the port if
/// that is not 2703.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerList(Vec<String>);

/// Reason why values cannot be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    /// The confidence exceeds 100.
    #[error("invalid recommended confidence: expected 0 to 100")]
    Confidence,
    /// There are no `ep4` values, or too many.
    #[error("expected 1 to {EPOCHS_MAX} ep4 values, the current one first")]
    Epochs,
    /// There are no servers, or too many.
    #[error("expected 1 to {SERVERS_MAX} Razor servers")]
    Servers,
    /// A name is not a valid server name for clients.
    #[error(
        "invalid Razor server: expected an IPv4 address or a name with a dot, followed by a colon and the port if it is not 2703"
    )]
    Name,
    /// The list of servers is too long for a reply.
    #[error("list of Razor servers does not fit into a reply of {REPLY_BYTES_MAX} bytes")]
    TooLong,
}

impl Terms {
    /// Creates terms from the recommended confidence threshold, the e4 parameters (current ones first) and the
    /// revision. The revision must increase whenever another value changes. Otherwise, clients do not fetch the terms
    /// again.
    ///
    /// # Errors
    /// Returns [`TermsError`] if the values cannot be announced to clients.
    pub fn new(confidence: u8, epochs: Vec<Ep4>, revision: u32) -> Result<Self, TermsError> {
        if confidence > 100 {
            return Err(TermsError::Confidence);
        }
        let current = epochs.first().filter(|_| epochs.len() <= EPOCHS_MAX).ok_or(TermsError::Epochs)?;
        let greeting = greeting(current, revision);
        let state = state(confidence, current, revision);
        Ok(Self { epochs, greeting, state })
    }

    /// Returns the server's greeting.
    #[must_use]
    pub fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    /// Returns the e4 parameters, current ones first.
    #[must_use]
    pub fn epochs(&self) -> &[Ep4] {
        &self.epochs
    }

    pub(super) fn state(&self) -> &[u8] {
        &self.state
    }
}

impl ServerList {
    /// Creates a list of servers. It is sent in this order, but clients shuffle it themselves.
    ///
    /// # Errors
    /// Returns [`TermsError`] if the list does not fit into a reply, or has a name that clients reject.
    pub fn new(names: Vec<String>) -> Result<Self, TermsError> {
        if !(1..=SERVERS_MAX).contains(&names.len()) {
            return Err(TermsError::Servers);
        }
        if !names.iter().all(|name| is_server(name)) {
            return Err(TermsError::Name);
        }
        let list = Self(names);
        if list.encode("csl").len() > REPLY_BYTES_MAX { Err(TermsError::TooLong) } else { Ok(list) }
    }

    /// Creates the list for a server that has no name but is reachable at this address. At Razor's default port, the
    /// list contains the address in two spellings, because clients with only one server repeat the discovery before
    /// every check.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        let host = address.ip().to_canonical();
        let whole = SocketAddr::new(host, address.port()).to_string();
        Self(if address.port() == PORT { vec![host.to_string(), whole] } else { vec![whole] })
    }

    /// Encodes the list, with `key` as the key of each entry. A list of one server must be a plain line. Otherwise, the
    /// client misreads it.
    pub(super) fn encode(&self, key: &str) -> Vec<u8> {
        let Self(names) = self;
        let lines: Vec<_> = names.iter().map(|name| (key, name.as_str())).collect();
        if names.len() == 1 { plain(&lines) } else { listed(&lines) }
    }
}

fn greeting(current: &Ep4, revision: u32) -> Vec<u8> {
    plain(&[("a", "cg"), ("ep4", &current.to_string()), ("sn", ROLE), ("srl", &revision.to_string())])
}

fn state(confidence: u8, current: &Ep4, revision: u32) -> Vec<u8> {
    listed(&[
        ("ac", &confidence.to_string()),
        ("bql", &BATCH_LINES_MAX.to_string()),
        ("bqs", &BLOB_KIB.to_string()),
        ("dre", REPORT_ENGINE),
        ("ep4", &current.to_string()),
        ("se", ENGINES),
        ("sn", ROLE),
        ("srl", &revision.to_string()),
    ])
}

/// Writes all pairs in one line.
fn plain(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
    sis::put_line(&mut out, &pairs);
    out
}

/// Writes one line per pair, framed as a batch.
fn listed(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = b"-".to_vec();
    pairs.iter().for_each(|(key, value)| sis::put_line(&mut out, &[(key, value.as_bytes())]));
    out.extend_from_slice(b".\r\n");
    out
}

/// Returns true if clients accept this as a server name: letters, digits and hyphens, with at least one dot.
fn is_server(name: &str) -> bool {
    let (host, port) = name.split_once(':').map_or((name, None), |(host, port)| (host, Some(port)));
    let is_host = host.contains('.') && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    is_host && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Result<ServerList, TermsError> {
        ServerList::new(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn a_state_has_all_that_clients_need() {
        let terms = Terms::new(50, vec!["9911-10".parse().unwrap(), Ep4::default()], 2).unwrap();
        assert_eq!(terms.greeting(), b"a=cg&ep4=9911-10&sn=C&srl=2\r\n");
        let state = b"-ac=50\r\nbql=50\r\nbqs=128\r\ndre=4\r\nep4=9911-10\r\nse=88\r\nsn=C\r\nsrl=2\r\n.\r\n";
        assert_eq!(terms.state(), state);
    }

    #[test]
    fn terms_that_cannot_be_announced_are_refused() {
        let terms = |confidence, epochs| Terms::new(confidence, vec![Ep4::default(); epochs], 1).map(|_| ());
        assert_eq!([terms(100, 1), terms(0, EPOCHS_MAX)], [Ok(()); 2]);
        assert_eq!(terms(101, 1), Err(TermsError::Confidence));
        assert_eq!([terms(50, 0), terms(50, EPOCHS_MAX + 1)], [Err(TermsError::Epochs); 2]);
    }

    #[test]
    fn one_server_is_a_line_and_several_are_framed() {
        assert_eq!(list(&["127.0.0.1"]).unwrap().encode("csl"), b"csl=127.0.0.1\r\n");
        let two = list(&["127.0.0.1:2704", "razor.example.org"]).unwrap();
        assert_eq!(two.encode("nsl"), b"-nsl=127.0.0.1%3A2704\r\nnsl=razor.example.org\r\n.\r\n");
    }

    #[test]
    fn a_server_without_a_name_is_found_at_its_address() {
        let names = |address: &str| ServerList::at(address.parse().unwrap()).0;
        assert_eq!(names("127.0.0.1:2703"), ["127.0.0.1", "127.0.0.1:2703"]);
        assert_eq!(names("[::ffff:192.0.2.7]:2704"), ["192.0.2.7:2704"]);
        assert_eq!(names("[2001:db8::1]:2703"), ["2001:db8::1", "[2001:db8::1]:2703"]);
    }

    #[test]
    fn names_that_clients_do_not_take_are_refused() {
        for name in ["localhost", "", ".:", "a.b:0", "a.b:65536", "a.b:x", "::1", "a b.c", "a.b:1:2"] {
            assert_eq!(list(&[name]), Err(TermsError::Name), "{name:?}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(list(&[]), Err(TermsError::Servers));
        assert!(list(&["a.b"; SERVERS_MAX]).is_ok());
        assert_eq!(list(&["a.b"; SERVERS_MAX + 1]), Err(TermsError::Servers));
        let most = REPLY_BYTES_MAX - b"csl=\r\n".len();
        let name = |bytes: usize| format!("a.{}", "b".repeat(bytes - 2));
        assert!(list(&[&name(most)]).is_ok());
        assert_eq!(list(&[&name(most + 1)]), Err(TermsError::TooLong));
    }
}
