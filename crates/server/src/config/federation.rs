//! The peers, with their keys, URLs and relations to this server, and the broker.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bruit_engine::exchange::Relation;
use bruit_federation::keys::PublicKey;
use bruit_federation::transport::https::{HttpsSource, UrlError};
use bruit_federation::transport::nats::{Login, NatsSettings, REPLICAS_MAX};
use serde::Deserialize;

use super::raw::{RawListen, within};
use super::{ConfigError, MANY_NEVER, invalid, syntax};
use crate::units::{Bytes, Span};

/// Maximum number of peers, which is the number of other servers that the engine can know.
pub const PEERS_MAX: usize = bruit_engine::exchange::MEMBERS_MAX;

/// Maximum length of a peer's name.
pub const PEER_NAME_BYTES_MAX: usize = 64;

/// Maximum length of the URL of a peer that is added while the server runs.
pub const PEER_URL_BYTES_MAX: usize = 2_048;

/// Default maximum recipient count accepted from a peer for one signature.
const BULK_CAP: u32 = 100;

/// Maximum number of broker addresses.
pub const BROKER_URLS_MAX: usize = 16;

/// Default time for which a broker keeps segments. It is equal to the retention time of the spam book.
const BROKER_MAX_AGE: Duration = Duration::from_secs(30 * 86_400);

/// Default maximum total size of the segments that a broker keeps.
const BROKER_MAX_BYTES: u64 = 4 << 30;

/// The exchange with other servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationSettings {
    /// The directory to publish segments in, for a static file host.
    pub publish: Option<PathBuf>,
    /// The NATS JetStream broker.
    pub broker: Option<NatsSettings>,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// The local name of the peer.
    pub name: String,
    /// The URL to request segments from. Unset if the segments come through a broker, or if the peer only receives.
    pub url: Option<String>,
    /// The public key of the peer.
    pub key: PublicKey,
    /// The relation of the peer to this server.
    pub relation: Relation,
    /// The initial trust in the peer's claims. It applies only to servers of other operators.
    pub trust: PeerTrust,
    /// The group of the peer. All servers of a group count as one voice.
    pub group: String,
    /// Maximum recipient count accepted from the peer for one signature.
    pub bulk_cap: u32,
    /// Authentication of the peer at its URL.
    pub tls: PeerTls,
    /// True if the peer was added while the server ran, and is not in the configuration file.
    pub is_added: bool,
}

/// The initial trust in a server of another operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerTrust {
    /// The peer is an anchor, so its claims count from the first day.
    Pinned,
    /// The peer must earn trust by correct claims.
    #[default]
    Earned,
}

/// Authentication of a peer at its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerTls {
    /// By its public key. This server authenticates with its own key.
    Pinned,
    /// By certificate, like any web server. This is intended for static file hosts. A host with plain HTTP is not
    /// authenticated.
    Web,
}

impl PeerSettings {
    /// Returns the source from which a server fetches the peer's segments, or `None` if the peer has no URL. `seed` is
    /// the seed of the server's own key.
    ///
    /// # Errors
    /// Returns [`UrlError`] if the URL is invalid. Such URLs are already rejected when the configuration is read.
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

/// The file with the peers that were added while the server ran.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddedFile {
    #[serde(default)]
    peers: Vec<NewPeerFields>,
}

/// Parses the file with the peers that were added while the server ran.
pub(crate) fn added_peers(text: &str) -> Result<Vec<PeerSettings>, ConfigError> {
    let file: AddedFile = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    let peers = file.peers.into_iter().map(new_peer).collect::<Result<Vec<_>, _>>()?;
    check_all(&peers)?;
    Ok(peers.into_iter().map(|peer| PeerSettings { is_added: true, ..peer }).collect())
}

/// The fields of a peer to add.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPeerFields {
    pub(crate) name: String,
    pub(crate) url: Option<String>,
    pub(crate) key: String,
    pub(crate) relation: String,
}

/// Checks the fields of a peer to add. All other settings have their defaults.
pub(crate) fn new_peer(fields: NewPeerFields) -> Result<PeerSettings, ConfigError> {
    let NewPeerFields { name, url, key, relation } = fields;
    let relation = match &*relation {
        "cluster" => RawRelation::Cluster,
        "peer" => RawRelation::Peer,
        _ => return Err(invalid(&place(&name), "relation: expected \"peer\" or \"cluster\"")),
    };
    let is_plain = |url: &String| {
        url.len() <= PEER_URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    if !url.as_ref().is_none_or(is_plain) {
        let reason = format!("url: expected at most {PEER_URL_BYTES_MAX} visible ASCII characters without quotes");
        return Err(invalid(&place(&name), reason));
    }
    RawPeer { name, url, key, relation, trust: None, group: None, bulk_cap: None, tls: None }.check()
}

/// Checks the peers and requires distinct names and keys.
pub(super) fn peers(given: Vec<RawPeer>) -> Result<Vec<PeerSettings>, ConfigError> {
    let peers = given.into_iter().map(RawPeer::check).collect::<Result<Vec<_>, _>>()?;
    check_all(&peers)?;
    Ok(peers)
}

/// Checks the number of peers, and requires distinct names and keys.
fn check_all(peers: &[PeerSettings]) -> Result<(), ConfigError> {
    if peers.len() > PEERS_MAX {
        return Err(invalid("peers", format!("expected at most {PEERS_MAX}, found {}", peers.len())));
    }
    let (mut names, mut keys) = (HashSet::new(), HashSet::new());
    for peer in peers {
        let place = place(&peer.name);
        if !names.insert(&peer.name) {
            return Err(invalid(&place, "another peer has the same name"));
        }
        if !keys.insert(peer.key) {
            return Err(invalid(&place, "another peer has the same key"));
        }
    }
    Ok(())
}

fn place(name: &str) -> String {
    format!("peer {name:?}")
}

impl RawPeer {
    fn check(self) -> Result<PeerSettings, ConfigError> {
        let place = place(&self.name);
        if !is_name(&self.name) {
            let reason = format!("invalid name: expected 1 to {PEER_NAME_BYTES_MAX} letters, digits, '.', '_' or '-'");
            return Err(invalid(&place, reason));
        }
        let key = self.key.parse().map_err(|error| invalid(&place, format!("key: {error}")))?;
        let is_judged = self.trust.is_some() || self.group.is_some() || self.bulk_cap.is_some();
        if self.relation == RawRelation::Cluster && is_judged {
            return Err(invalid(&place, "trust, group and bulk_cap require relation = \"peer\""));
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
            is_added: false,
            name: self.name,
        };
        peer.source(&[0; 32]).map_err(|error| invalid(&place, format!("url: {error}")))?;
        Ok(peer)
    }
}

/// Returns true if the name is valid in logs, tables and metric labels.
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
            return Err(invalid(
                "nats.url",
                format!("invalid URL {url:?}: expected a URL such as \"nats://127.0.0.1:4222\""),
            ));
        }
        let max_bytes = self.max_bytes.map_or(BROKER_MAX_BYTES, |given| given.0);
        let max_age = self.max_age.map_or(BROKER_MAX_AGE, |given| given.0);
        if max_age.is_zero() {
            return Err(invalid("nats.max_age", "expected a duration above 0"));
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
        settings.check().map_err(|error| invalid("nats", error.to_string()))?;
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
        _ => Err(invalid("nats", "expected either credentials, or nkey, or user and password_file")),
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
            is_added: false,
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
            (peer(1, "url = \"http://x\"\ntls = \"pinned\""), "use https"),
            (peer(1, "bulk_cap = 16777201"), "peer \"p1\": bulk_cap: expected 0 to 16777200"),
            (peer(1, "port = 1"), "unknown field `port`"),
            (peer(1, "").replace("name = \"p1\"", "name = \"a b\""), "expected 1 to 64"),
            (peer(1, "").replace(&key(1).to_string(), "abc"), "peer \"p1\": key: "),
            ([peer(1, ""), peer(1, "")].concat(), "another peer has the same name"),
            ([peer(1, ""), peer(1, "").replace("p1", "p2")].concat(), "another peer has the same key"),
            (cluster, "require relation"),
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
        assert!(refused(&several(PEERS_MAX as u8 + 1)).contains("peers: expected at most 128, found 129"));
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
            ("url = []", "nats.url: addresses: expected 1 to 16"),
            ("url = \"http://x\"", "invalid URL"),
            ("url = \"nats://a\"\nreplicas = 6", "nats.replicas: expected 1 to 5"),
            ("url = \"nats://a\"\nreplicas = 0", "nats.replicas: expected 1 to 5"),
            ("url = \"nats://a\"\nmax_age = \"0s\"", "nats.max_age: "),
            ("url = \"nats://a\"\nmax_bytes = \"1B\"", "nats.max_bytes: "),
            ("url = \"nats://a\"\ndomain = \"a.b\"", "nats: a domain may"),
            ("url = \"nats://a\"\nuser = \"a\"", "nats: expected either"),
            ("url = \"nats://a\"\nnkey = \"a\"\ncredentials = \"b\"", "nats: expected either"),
            ("replicas = 1", "missing field `url`"),
        ] {
            let error = broker(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many = |count: usize| broker(&format!("url = [{}]", "\"nats://a\",".repeat(count)));
        assert!(many(BROKER_URLS_MAX).is_ok() && many(BROKER_URLS_MAX + 1).is_err());
    }
}
