//! Other servers: where they reach us, who they are, and what they are to us.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bruit_engine::exchange::Relation;
use bruit_federation::keys::PublicKey;
use bruit_federation::transport::https::{HttpsSource, UrlError};
use bruit_federation::transport::nats::{Login, NatsSettings, REPLICAS_MAX};
use serde::Deserialize;

use super::raw::{RawListen, within};
use super::{ConfigError, MANY_NEVER, wrong};
use crate::units::{Bytes, Span};

/// Most other servers.
pub const PEERS_MAX: usize = 64;

/// The longest name of one.
pub const PEER_NAME_BYTES_MAX: usize = 64;

/// Recipients of a signature that are believed of a peer, unless told.
const BULK_CAP: u32 = 100;

/// Most addresses of a broker.
pub const BROKER_URLS_MAX: usize = 16;

/// How long a broker keeps segments, unless told: as long as the spam book remembers.
const BROKER_MAX_AGE: Duration = Duration::from_secs(30 * 86_400);

/// How many bytes of them, unless told.
const BROKER_MAX_BYTES: u64 = 4 << 30;

/// How this server shares what it learns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationSettings {
    /// A directory for a static file host.
    pub publish: Option<PathBuf>,
    /// A NATS JetStream broker.
    pub broker: Option<NatsSettings>,
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// What it is called here.
    pub name: String,
    /// Where it is asked for segments; nowhere if they come by a broker, or only go there.
    pub url: Option<String>,
    /// Its key.
    pub key: PublicKey,
    /// What it is to us.
    pub relation: Relation,
    /// Whether what it says counts from the first day; of servers of other operators.
    pub trust: PeerTrust,
    /// Servers of one group are one voice.
    pub group: String,
    /// Recipients of a signature that are believed of it.
    pub bulk_cap: u32,
    /// By what it is known at its URL.
    pub tls: PeerTls,
}

/// How much the word of another operator's server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerTrust {
    /// As that of a reporter whom the operator trusts.
    Pinned,
    /// As it turns out to be right.
    #[default]
    Earned,
}

/// By what a server is known at its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerTls {
    /// By its key, and it knows us by ours.
    Pinned,
    /// As any web server is, for static file hosts; by nothing without encryption.
    Web,
}

impl PeerSettings {
    /// How it is asked for segments, by the server with this key; not at all if it has no URL.
    ///
    /// # Errors
    /// [`UrlError`], which was looked for when the configuration was read.
    pub fn source(&self, seed: &[u8; 32]) -> Result<Option<HttpsSource>, UrlError> {
        let Some(url) = &self.url else { return Ok(None) };
        match self.tls {
            PeerTls::Pinned => HttpsSource::pinned(url, *self.key.as_bytes(), Some(seed)).map(Some),
            PeerTls::Web => HttpsSource::web(url).map(Some),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawFederation {
    pub(super) listen: Option<RawListen>,
    pub(super) publish: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawRelation {
    Cluster,
    Peer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPeer {
    name: String,
    url: Option<String>,
    key: String,
    relation: RawRelation,
    trust: Option<PeerTrust>,
    group: Option<String>,
    bulk_cap: Option<u32>,
    tls: Option<PeerTls>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an address such as \"nats://127.0.0.1:4222\", or a list of them")]
enum RawUrls {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNats {
    url: RawUrls,
    credentials: Option<PathBuf>,
    nkey: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    tls_roots: Option<PathBuf>,
    domain: Option<String>,
    replicas: Option<u8>,
    max_age: Option<Span>,
    max_bytes: Option<Bytes>,
}

/// All other servers, each with a name and a key of its own.
pub(super) fn peers(given: Vec<RawPeer>) -> Result<Vec<PeerSettings>, ConfigError> {
    if given.len() > PEERS_MAX {
        return Err(wrong("peers", format!("at most {PEERS_MAX}, not {}", given.len())));
    }
    let peers = given.into_iter().map(RawPeer::check).collect::<Result<Vec<_>, _>>()?;
    let (mut names, mut keys) = (HashSet::new(), HashSet::new());
    for peer in &peers {
        let place = place(&peer.name);
        if !names.insert(&peer.name) {
            return Err(wrong(&place, "another peer has its name"));
        }
        if !keys.insert(peer.key) {
            return Err(wrong(&place, "another peer has its key"));
        }
    }
    Ok(peers)
}

fn place(name: &str) -> String {
    format!("peer {name:?}")
}

impl RawPeer {
    fn check(self) -> Result<PeerSettings, ConfigError> {
        let place = place(&self.name);
        if !is_name(&self.name) {
            let reason = format!("a name has 1 to {PEER_NAME_BYTES_MAX} letters, digits, '.', '_' and '-'");
            return Err(wrong(&place, reason));
        }
        let key = self.key.parse().map_err(|error| wrong(&place, format!("key: {error}")))?;
        let is_judged = self.trust.is_some() || self.group.is_some() || self.bulk_cap.is_some();
        if self.relation == RawRelation::Cluster && is_judged {
            return Err(wrong(&place, "trust, group and bulk_cap are of relation = \"peer\""));
        }
        let is_encrypted = self.url.as_ref().is_none_or(|url| !url.starts_with("http:"));
        let peer = PeerSettings {
            url: self.url,
            key,
            relation: if self.relation == RawRelation::Cluster { Relation::Cluster } else { Relation::Peer },
            trust: self.trust.unwrap_or_default(),
            group: self.group.unwrap_or_else(|| self.name.clone()),
            bulk_cap: within(&format!("{place}: bulk_cap"), self.bulk_cap.unwrap_or(BULK_CAP), 0, MANY_NEVER)?,
            tls: self.tls.unwrap_or(if is_encrypted { PeerTls::Pinned } else { PeerTls::Web }),
            name: self.name,
        };
        peer.source(&[0; 32]).map_err(|error| wrong(&place, format!("url: {error}")))?;
        Ok(peer)
    }
}

/// What can stand in a log, a table and a label.
fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=PEER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_usual)
}

impl RawNats {
    pub(super) fn check(self) -> Result<NatsSettings, ConfigError> {
        let urls = match self.url {
            RawUrls::One(url) => vec![url],
            RawUrls::Several(urls) => urls,
        };
        within("nats.url: addresses", urls.len(), 1, BROKER_URLS_MAX)?;
        if let Some(url) = urls.iter().find(|url| !is_broker(url)) {
            return Err(wrong("nats.url", format!("{url:?} is not an address such as \"nats://127.0.0.1:4222\"")));
        }
        let max_bytes = self.max_bytes.map_or(BROKER_MAX_BYTES, |given| given.0);
        let max_age = self.max_age.map_or(BROKER_MAX_AGE, |given| given.0);
        if max_age.is_zero() {
            return Err(wrong("nats.max_age", "more than nothing"));
        }
        let settings = NatsSettings {
            urls,
            login: login(self.credentials, self.nkey, self.user, self.password_file)?,
            tls_roots: self.tls_roots,
            domain: self.domain,
            replicas: within("nats.replicas", self.replicas.unwrap_or(1), 1, REPLICAS_MAX)?,
            max_age,
            max_bytes: within("nats.max_bytes", max_bytes, 1 << 20, i64::MAX as u64)?,
        };
        settings.check().map_err(|error| wrong("nats", error.to_string()))?;
        Ok(settings)
    }
}

fn is_broker(url: &str) -> bool {
    let rest = url.strip_prefix("nats://").or_else(|| url.strip_prefix("tls://"));
    rest.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
}

fn login(
    credentials: Option<PathBuf>,
    nkey: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
) -> Result<Login, ConfigError> {
    match (credentials, nkey, user, password_file) {
        (None, None, None, None) => Ok(Login::Anonymous),
        (Some(file), None, None, None) => Ok(Login::Credentials(file)),
        (None, Some(file), None, None) => Ok(Login::Nkey(file)),
        (None, None, Some(user), Some(file)) => Ok(Login::Password { user, file }),
        _ => Err(wrong("nats", "either credentials, or nkey, or user and password_file")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use bruit_federation::keys::NodeKey;

    fn key(number: u8) -> PublicKey {
        NodeKey::generate([number; 32]).public()
    }

    fn peer(number: u8, rest: &str) -> String {
        format!("[[peers]]\nname = \"p{number}\"\nkey = \"{}\"\nrelation = \"peer\"\n{rest}\n", key(number))
    }

    fn refused(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_peer_has_a_name_a_key_and_a_relation_and_the_rest_is_usual() {
        let config = Config::parse(&peer(1, "url = \"https://127.0.0.1:8626\"")).unwrap();
        let expected = PeerSettings {
            name: "p1".into(),
            url: Some("https://127.0.0.1:8626".into()),
            key: key(1),
            relation: Relation::Peer,
            trust: PeerTrust::Earned,
            group: "p1".into(),
            bulk_cap: 100,
            tls: PeerTls::Pinned,
        };
        assert_eq!(config.settings.peers, [expected]);
        let config = Config::parse(&peer(1, "url = \"http://127.0.0.1/files\"\ntrust = \"pinned\"")).unwrap();
        let peer = &config.settings.peers[0];
        assert_eq!((peer.tls, peer.trust), (PeerTls::Web, PeerTrust::Pinned));
        assert!(peer.source(&[1; 32]).unwrap().is_some());
    }

    #[test]
    fn peers_that_cannot_be_are_refused_with_their_name() {
        let cluster = peer(1, "trust = \"pinned\"").replace("relation = \"peer\"", "relation = \"cluster\"");
        for (text, expected) in [
            (peer(1, "url = \"bruit.example.org\""), "peer \"p1\": url: "),
            (peer(1, "url = \"http://x\"\ntls = \"pinned\""), "say https"),
            (peer(1, "bulk_cap = 16777201"), "peer \"p1\": bulk_cap: 0 to 16777200"),
            (peer(1, "port = 1"), "unknown field `port`"),
            (peer(1, "").replace("name = \"p1\"", "name = \"a b\""), "a name has 1 to 64"),
            (peer(1, "").replace(&key(1).to_string(), "abc"), "peer \"p1\": key: a public key is 64"),
            ([peer(1, ""), peer(1, "")].concat(), "another peer has its name"),
            ([peer(1, ""), peer(1, "").replace("p1", "p2")].concat(), "another peer has its key"),
            (cluster, "are of relation"),
        ] {
            let error = refused(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(Config::parse(&peer(1, "bulk_cap = 16777200")).is_ok());
    }

    #[test]
    fn there_are_so_many_peers_and_no_more() {
        let several = |count: u8| (0..count).map(|number| peer(number, "")).collect::<String>();
        assert!(Config::parse(&several(PEERS_MAX as u8)).is_ok());
        assert!(refused(&several(PEERS_MAX as u8 + 1)).contains("peers: at most 64, not 65"));
        let named = |length: usize| peer(1, "").replace("\"p1\"", &format!("\"{}\"", "a".repeat(length)));
        assert!(Config::parse(&named(PEER_NAME_BYTES_MAX)).is_ok());
        assert!(Config::parse(&named(PEER_NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_broker_is_reached_by_its_address_and_one_way_to_log_in() {
        let broker = |text: &str| Config::parse(&format!("[nats]\n{text}")).map(|config| config.federation.broker);
        assert_eq!(Config::default().federation.broker, None);
        let usual = broker("url = \"nats://127.0.0.1:4222\"").unwrap().unwrap();
        assert_eq!((usual.replicas, usual.login), (1, Login::Anonymous));
        let login = broker("url = [\"tls://a\", \"tls://b\"]\nuser = \"n1\"\npassword_file = \"f\"").unwrap().unwrap();
        assert_eq!(login.login, Login::Password { user: "n1".into(), file: "f".into() });
        for (text, expected) in [
            ("url = []", "nats.url: addresses: 1 to 16"),
            ("url = \"http://x\"", "is not an address such as"),
            ("url = \"nats://a\"\nreplicas = 6", "nats.replicas: 1 to 5"),
            ("url = \"nats://a\"\nreplicas = 0", "nats.replicas: 1 to 5"),
            ("url = \"nats://a\"\nmax_age = \"0s\"", "nats.max_age: "),
            ("url = \"nats://a\"\nmax_bytes = \"1B\"", "nats.max_bytes: "),
            ("url = \"nats://a\"\ndomain = \"a.b\"", "nats: a domain is"),
            ("url = \"nats://a\"\nuser = \"a\"", "nats: either"),
            ("url = \"nats://a\"\nnkey = \"a\"\ncredentials = \"b\"", "nats: either"),
            ("replicas = 1", "missing field `url`"),
        ] {
            let error = broker(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many = |count: usize| broker(&format!("url = [{}]", "\"nats://a\",".repeat(count)));
        assert!(many(BROKER_URLS_MAX).is_ok() && many(BROKER_URLS_MAX + 1).is_err());
    }
}
