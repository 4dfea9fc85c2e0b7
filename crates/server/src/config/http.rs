//! HTTP: listen addresses, host names and rights.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bruit_store::ADMIN_TOKEN_FILE;
use ipnet::IpNet;
use serde::Deserialize;

use super::accounts::RawToken;
use super::raw::{RawListen, RawRights, addresses, within};
use super::{ConfigError, MANY_NEVER, Token, invalid, sha256};
use crate::certificate::Certificate;
use crate::http;
use crate::rights::{Rights, Who};
use crate::units::Bytes;

/// Default mode of the Unix socket. It allows the owner and the group to connect.
const SOCKET_MODE: u32 = 0o660;

/// HTTP settings.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The rights of callers without a token.
    pub rights: Rights,
    /// The tokens that grant more rights.
    pub tokens: Vec<Token>,
    /// Maximum length of a request body.
    pub body_bytes_max: usize,
    /// The minimum recipient count of a bulk message.
    pub bulk_threshold: u32,
    /// Host names that requests may use in addition to IP addresses: the names of the machine and those in the file.
    pub hosts: Vec<String>,
    /// Networks of trusted proxies, which state the address of the client.
    pub trusted_proxies: Vec<IpNet>,
    /// The certificate and key, if TLS is enabled.
    pub tls: Option<Arc<Certificate>>,
}

/// A Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSocket {
    /// The path of the socket.
    pub path: PathBuf,
    /// The mode of the socket file. Connecting requires write permission.
    pub mode: u32,
    /// The group of the socket file, if it is not the server's group.
    pub group: Option<String>,
}

/// The listen addresses: plain HTTP, TLS, and the Unix socket.
type Addresses = (Vec<SocketAddr>, Vec<SocketAddr>, Option<HttpSocket>);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHttp {
    listen: Option<RawListen>,
    rights: RawRights,
    tokens: Vec<RawToken>,
    body_max: Option<Bytes>,
    bulk_threshold: Option<u32>,
    hosts: Vec<String>,
    trusted_proxies: Vec<IpNet>,
    tls: Option<RawTls>,
    socket: Option<RawSocket>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    certificate: PathBuf,
    key: PathBuf,
    listen: Option<RawListen>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSocket {
    path: PathBuf,
    mode: Option<String>,
    group: Option<String>,
}

impl RawHttp {
    /// Returns the listen addresses. If TLS has no addresses of its own, it takes over the addresses of plain HTTP.
    pub(super) fn addresses(&self) -> Result<Addresses, ConfigError> {
        let plain = addresses("http.listen", self.listen.as_ref(), 8625)?;
        let (plain, secure) = match &self.tls {
            None => (plain, Vec::new()),
            Some(RawTls { listen: None, .. }) => (Vec::new(), plain),
            Some(RawTls { listen, .. }) => (plain, addresses("http.tls.listen", listen.as_ref(), 0)?),
        };
        Ok((plain, secure, self.socket.as_ref().map(RawSocket::check).transpose()?))
    }

    pub(super) fn check(self) -> Result<HttpSettings, ConfigError> {
        if self.rights.admin.is_some() {
            return Err(invalid("http.rights.admin", "administration always requires a token: remove this key"));
        }
        let body_max = self.body_max.map_or(16 << 20, |given| given.0);
        // Callers outside our own networks need a token to make claims, just as they need an account in other
        // protocols.
        let usual = Rights { report: Who::Own, revoke: Who::Own, admin: Who::Nobody, ..Rights::default() };
        let tokens = self.tokens.into_iter().map(RawToken::check).collect::<Result<Vec<_>, _>>()?;
        ensure_distinct(&tokens)?;
        let mut hosts = self.hosts;
        hosts.extend(http::names_of_this_machine());
        Ok(HttpSettings {
            rights: self.rights.check_over(usual),
            tokens,
            body_bytes_max: within("http.body_max", body_max, 1 << 10, 64 << 20)? as usize,
            bulk_threshold: self.bulk_threshold.unwrap_or(MANY_NEVER).max(1),
            hosts,
            trusted_proxies: self.trusted_proxies,
            tls: self.tls.map(|tls| RawTls::check(&tls)).transpose()?,
        })
    }
}

/// Rejects tokens with equal names or secrets. Also rejects the hash of an empty token, because it is the result of
/// hashing an unset variable.
fn ensure_distinct(tokens: &[Token]) -> Result<(), ConfigError> {
    let nothing = [sha256(b""), sha256(b"\n")];
    for (at, token) in tokens.iter().enumerate() {
        let key = format!("token {:?}", token.name);
        let is_taken = |other: &Token| other.name == token.name || other.sha256 == token.sha256;
        if token.name == ADMIN_TOKEN_FILE || tokens.iter().take(at).any(is_taken) {
            return Err(invalid(&key, "another token has the same name or secret"));
        }
        if nothing.contains(&token.sha256) {
            return Err(invalid(&key, "sha256 is the hash of an empty token"));
        }
    }
    Ok(())
}

impl RawTls {
    fn check(&self) -> Result<Arc<Certificate>, ConfigError> {
        let read = Certificate::read(&self.certificate, &self.key);
        read.map(Arc::new).map_err(|error| invalid("http.tls", error.to_string()))
    }
}

impl RawSocket {
    fn check(&self) -> Result<HttpSocket, ConfigError> {
        let mode = match &self.mode {
            None => SOCKET_MODE,
            Some(digits) => u32::from_str_radix(digits, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or_else(|| invalid("http.socket.mode", "expected octal digits such as \"0660\""))?,
        };
        Ok(HttpSocket { path: self.path.clone(), mode, group: self.group.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn tls_takes_over_the_addresses_of_plain_http_unless_it_has_its_own() {
        let raw = |text: &str| toml::from_str::<RawHttp>(text).unwrap().addresses().unwrap();
        let tls = "tls = { certificate = \"c\", key = \"k\"";
        let (plain, secure, _) = raw(&format!("{tls} }}"));
        assert_eq!((plain.len(), secure[0].port()), (0, 8625));
        let (plain, secure, _) = raw(&format!("{tls}, listen = \"0.0.0.0:443\" }}"));
        assert_eq!((plain[0].port(), secure[0].port()), (8625, 443));
    }

    #[test]
    fn a_socket_has_a_mode_and_a_group() {
        let socket = |text: &str| Config::parse(&format!("[http]\nsocket = {{ path = \"s\"{text} }}"));
        assert_eq!(socket("").unwrap().listen.http_socket.unwrap().mode, 0o660);
        let given = socket(", mode = \"0666\", group = \"mail\"").unwrap().listen.http_socket.unwrap();
        assert_eq!((given.mode, given.group.as_deref()), (0o666, Some("mail")));
        for wrong in ["9", "01000", "rw", ""] {
            let error = socket(&format!(", mode = {wrong:?}")).unwrap_err().to_string();
            assert!(error.contains("http.socket.mode"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let error = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(error("[http.rights]\nadmin = \"own\"").contains("administration always requires a token"));
        let token = |name: &str, sha256: &str| format!("[[http.tokens]]\nname = {name:?}\nsha256 = {sha256:?}\n");
        let (one, two, empty) =
            ("11".repeat(32), "22".repeat(32), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert!(Config::parse(&[token("a", &one), token("b", &two)].concat()).is_ok());
        for text in [
            [token("a", &one), token("a", &two)].concat(),
            [token("a", &one), token("b", &one)].concat(),
            token("admin.token", &one),
        ] {
            assert!(error(&text).contains("another token"), "{text}");
        }
        assert!(error(&token("a", empty)).contains("empty token"));
        assert!(error("[http]\nbehind_proxy = true").contains("unknown field `behind_proxy`"));
        assert!(error("[http]\ntls = { certificate = \"none.pem\", key = \"none.pem\" }").contains("none.pem"));
    }
}
