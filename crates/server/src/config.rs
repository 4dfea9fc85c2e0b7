//! The configuration, which is one TOML file in which every key is optional.
//!
//! `raw` is the file as written, and rejects undocumented keys. [`Config`] is the checked form that the server uses.
//! `bruit.toml` at the root of the repository lists every key with its default.
//!
//! [`Settings`] is the part that can change while the server runs.

mod accounts;
mod dashboard;
mod dcc_whitelist;
mod federation;
mod http;
mod learning;
mod log;
mod raw;
mod trust;
mod warnings;
mod word_list;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use bruit_engine::bulk::MANY;
use bruit_engine::trust::Policy;
use bruit_protocols::razor::{ServerList, Terms};
use bruit_signatures::razor::Ep4;
use bruit_store::Durability;
use ipnet::IpNet;

use crate::accounts::AccountError;
use crate::fuzzy_keys::Keyring;
use crate::limits::Rate;
use crate::rights::Rights;

pub use accounts::{AccountSecret, AccountSettings, Token};
pub(crate) use accounts::{TOKEN_BYTES_MIN, sha256};
pub use dashboard::DashboardSettings;
pub use dcc_whitelist::DccWhitelist;
pub use federation::{
    BROKER_URLS_MAX, FederationSettings, PEER_NAME_BYTES_MAX, PEER_URL_BYTES_MAX, PEERS_MAX, PeerSettings, PeerTls,
    PeerTrust,
};
pub(crate) use federation::{NewPeerFields, added_peers, new_peer};
pub use http::{HttpSettings, HttpSocket};
pub use learning::LearningSettings;
pub use log::{LogFormat, LogSettings};
pub use warnings::{Facts, Warning};
pub use word_list::PasswordSettings;

/// Maximum length of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of accounts in the file. Every reload compares all of them with the clearinghouse.
pub const ACCOUNTS_MAX: usize = 10_000;

/// Maximum number of listen addresses of a protocol.
pub const ADDRESSES_MAX: usize = 16;

/// Maximum number of threads of a protocol.
pub const THREADS_MAX: u32 = 64;

/// The server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory, if the file sets it.
    pub data: Option<PathBuf>,
    /// The memory budget. A new clearinghouse is created with it, and an existing one is resized to it. If unset, an
    /// existing clearinghouse keeps its budget.
    pub memory_bytes: Option<u64>,
    /// Allows this start to reduce the memory budget. This is a command-line option, not a key in the file.
    pub shrink: bool,
    /// A file with the realm of a new clearinghouse. If unset, a new realm is created.
    pub realm: Option<PathBuf>,
    /// Whether a report is acknowledged before or after it is on disk.
    pub durability: Durability,
    /// Number of threads of each UDP protocol.
    pub threads: u32,
    /// The listen addresses.
    pub listen: Listen,
    /// The exchange with other servers.
    pub federation: FederationSettings,
    /// The dashboard.
    pub dashboard: DashboardSettings,
    /// The log.
    pub log: LogSettings,
    /// The settings that can change while the server runs.
    pub settings: Settings,
}

/// The listen addresses by protocol. A protocol without addresses is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Addresses for Razor, over TCP.
    pub razor: Vec<SocketAddr>,
    /// Addresses for DCC, over UDP.
    pub dcc: Vec<SocketAddr>,
    /// Addresses for Pyzor, over UDP.
    pub pyzor: Vec<SocketAddr>,
    /// Addresses for rspamd's fuzzy storage, over UDP.
    pub fuzzy: Vec<SocketAddr>,
    /// Addresses for plain HTTP.
    pub http: Vec<SocketAddr>,
    /// Addresses for HTTP over TLS.
    pub https: Vec<SocketAddr>,
    /// The Unix socket for HTTP, if there is one.
    pub http_socket: Option<HttpSocket>,
    /// Addresses for peers, over TCP with TLS.
    pub federation: Vec<SocketAddr>,
}

/// The settings that can change while the server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The site's own networks.
    pub own_networks: Vec<IpNet>,
    /// The clock's settings.
    pub clock: ClockSettings,
    /// Limits on networks outside `own_networks`.
    pub limits: LimitSettings,
    /// The accounts in the file.
    pub accounts: Vec<AccountSettings>,
    /// The lists of words that are refused as passwords.
    pub passwords: PasswordSettings,
    /// Razor settings.
    pub razor: RazorSettings,
    /// DCC settings.
    pub dcc: DccSettings,
    /// Pyzor settings.
    pub pyzor: PyzorSettings,
    /// Settings of rspamd's fuzzy storage.
    pub fuzzy: FuzzySettings,
    /// HTTP settings.
    pub http: HttpSettings,
    /// The peers.
    pub peers: Vec<PeerSettings>,
    /// The weights and thresholds of claims.
    pub trust: Policy,
    /// Automatic learning from checks.
    pub learning: LearningSettings,
}

/// Limits on networks outside `own_networks`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSettings {
    /// Requests of any kind.
    pub requests: Rate,
    /// Reports and revocations by strangers. Each signature counts as one claim.
    pub claims: Rate,
    /// Reports and revocations by one account, from any network.
    pub account_claims: Rate,
    /// UDP replies that are longer than their requests.
    pub longer_replies: Rate,
    /// Expensive requests, such as new encryption keys, registrations, and messages to sign.
    pub costly: Rate,
    /// Registrations from all networks together.
    pub registrations: Rate,
    /// Maximum number of TCP connections.
    pub connections: usize,
    /// Maximum number of TCP connections from one network outside `own_networks`.
    pub connections_per_network: usize,
}

/// The clock's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSettings {
    /// The largest jump that is accepted without confirmation. The default is half of the shortest generation.
    pub jump: Option<Duration>,
    /// The authority that confirms a larger forward jump.
    pub confirm: Confirm,
}

/// An authority that confirms a forward jump of the system clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// NTP or the operator. NTP confirms a jump if the kernel reports that the clock is synchronized.
    #[default]
    Ntp,
    /// Only the operator.
    Operator,
}

/// Razor settings.
#[derive(Clone, Debug)]
pub struct RazorSettings {
    /// The rights of Razor clients.
    pub rights: Rights,
    /// The callers who may register an account.
    pub register: crate::rights::Who,
    /// The minimum confidence at which clients treat a part as spam.
    pub confidence: u8,
    /// The e4 parameters. The current ones come first, followed by earlier ones that clients may still use.
    pub ep4: Vec<Ep4>,
    /// The parameters sent to clients, with their revision. Clients fetch them again when the revision rises.
    pub terms: Arc<Terms>,
    /// Host names of the server for clients. If none is set, the server sends clients the address that they connected
    /// to.
    pub servers: Option<ServerList>,
    /// True if each check counts one recipient.
    pub count_checks: bool,
}

/// DCC settings.
#[derive(Clone, Debug)]
pub struct DccSettings {
    /// The rights of DCC clients.
    pub rights: Rights,
    /// The server ID in replies, 100 to 32,767.
    pub server_id: u32,
    /// The password of that server ID, for administration.
    pub password: Option<String>,
    /// The brand that clients write into their header field.
    pub brand: String,
    /// The recipient count at and above which the reply for a checksum is "many".
    pub many: u32,
    /// Checksums that are never counted, and checksums whose reply is always "many", from a file in DCC's format.
    pub whitelist: DccWhitelist,
}

/// Pyzor settings.
#[derive(Clone, Debug)]
pub struct PyzorSettings {
    /// The rights of Pyzor clients.
    pub rights: Rights,
    /// The minimum count in a reply about a listed signature. Clients compare it with a threshold of their own, which
    /// is 5 in SpamAssassin.
    pub listed_count: u32,
    /// True if each check counts one recipient.
    pub count_checks: bool,
}

/// Settings of rspamd's fuzzy storage.
#[derive(Clone, Debug)]
pub struct FuzzySettings {
    /// The rights of rspamd's fuzzy clients.
    pub rights: Rights,
    /// True if unencrypted requests are refused.
    pub encrypted_only: bool,
    /// True if each check counts one recipient.
    pub count_checks: bool,
    /// The reply for bulk mail, if it is enabled.
    pub bulk: Option<FuzzyBulk>,
    /// The key pairs of accounts.
    pub(crate) keys: Keyring,
}

/// The reply to rspamd about bulk mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuzzyBulk {
    /// The list number (flag) in the reply.
    pub flag: u8,
    /// The minimum recipient count of a bulk text.
    pub threshold: u32,
}

/// An error in the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is too long.
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// The file is not TOML, or contains an unknown key or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// An account is invalid.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A value is invalid.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The reason.
        reason: String,
    },
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns [`ConfigError`] with the position in the file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { file: file.to_owned(), source };
        if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong(file.to_owned()));
        }
        Self::parse(&fs::read_to_string(file).map_err(failed)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if the text is not TOML, or a key or value is invalid.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: raw::File = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        raw.check()
    }
}

impl Config {
    /// Returns the settings that differ in `other` and take effect only after a restart.
    pub(crate) fn unlike(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        let differs = [
            ("data", self.data != other.data),
            ("realm", self.realm != other.realm),
            ("memory", self.memory_bytes != other.memory_bytes),
            ("durability", self.durability != other.durability),
            ("threads", self.threads != other.threads),
            ("listen", self.listen != other.listen),
            ("federation", self.federation != other.federation),
            ("dashboard", self.dashboard != other.dashboard),
            ("log", self.log != other.log),
        ];
        differs.into_iter().filter_map(|(setting, differs)| differs.then_some(setting))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::parse("").expect("an empty file is valid")
    }
}

/// Formats a TOML error as one line that begins with the position.
fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    let place = line.map_or_else(String::new, |line| format!("line {line}: "));
    ConfigError::Syntax(format!("{place}{}", error.message().replace('\n', " ")))
}

fn invalid(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), reason: reason.into() }
}

/// A threshold that no recipient count reaches.
pub const MANY_NEVER: u32 = MANY;

/// Default of `relaxed_window`. With `durability = "relaxed"`, a crash of the machine may lose the events that were
/// confirmed within this time.
const RELAXED_WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_a_configuration_that_listens_on_loopback() {
        let config = Config::default();
        let Listen { razor, dcc, pyzor, fuzzy, http, federation, https, http_socket } = &config.listen;
        let all = [razor, dcc, pyzor, fuzzy, http];
        assert!(all.iter().all(|addresses| addresses.len() == 1 && addresses[0].ip().is_loopback()));
        assert_eq!(all.map(|addresses| addresses[0].port()), [2703, 6277, 24441, 11335, 8625]);
        assert!(federation.is_empty() && https.is_empty() && http_socket.is_none(), "these are off by default");
        assert_eq!(config.durability, Durability::Strict);
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_refused_with_their_place() {
        let twice =
            format!("[[accounts]]\nprotocol = \"pyzor\"\nname = \"a\"\nkey = \"{}\"\n", "0a".repeat(20)).repeat(2);
        for (text, expected) in [
            ("memory = \"256MiB\"\nmemroy = 1", "line 2: unknown field `memroy`"),
            ("[pyzor]\nport = 1", "line 2: unknown field `port`"),
            ("memory = \"256\"", "is not a size"),
            ("memory = \"1MiB\"", "memory: "),
            ("own_networks = [\"127.0.0.1/33\"]", "line 1"),
            ("threads = 0", "threads: expected 1 to 64"),
            ("threads = 65", "threads: expected 1 to 64"),
            ("clock_jump = \"10ms\"", "clock_jump: expected 1s to 3650d"),
            ("clock_jump = \"9999d\"", "clock_jump: expected 1s to 3650d"),
            ("clock_confirm = \"me\"", "unknown variant `me`"),
            ("[dcc]\nserver_id = 99", "dcc.server_id: expected 100 to 32767"),
            ("[razor]\nep4 = []", "razor.ep4: "),
            ("[razor]\nhosts = [\"localhost\"]", "razor.hosts: invalid Razor server"),
            ("[razor]\nconfidence = 101", "razor.confidence: expected 1 to 100"),
            ("[pyzor.rights]\nreport = \"everyone\"", "unknown variant `everyone`"),
            ("relaxed_window = \"1s\"", "relaxed_window: "),
            ("[log]\nformat = \"xml\"", "unknown variant `xml`"),
            ("[log]\nfile = \"x\"", "unknown field `file`"),
            ("[[accounts]]\nprotocol = \"dcc\"\nname = \"32768\"\npassword = \"has blanks\"", "account \"32768\": "),
            (&twice, "another account has the same name"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn a_protocol_is_turned_off_by_listening_nowhere() {
        let config = Config::parse("[razor]\nlisten = []\n[dcc]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]").unwrap();
        assert!(config.listen.razor.is_empty() && config.listen.dcc.len() == 2);
    }

    #[test]
    fn what_needs_a_new_start_is_told_apart() {
        let other = Config::parse("threads = 2\nmemory = \"64MiB\"\n[razor]\nlisten = []\nconfidence = 60").unwrap();
        assert_eq!(Config::default().unlike(&other).collect::<Vec<_>>(), ["memory", "threads", "listen"]);
        let log = Config::parse("[log]\nlevel = \"debug\"\nformat = \"json\"").unwrap();
        assert_eq!(Config::default().unlike(&log).collect::<Vec<_>>(), ["log"]);
        assert_eq!(other.unlike(&other).count(), 0);
    }

    #[test]
    fn relaxed_durability_has_to_be_asked_for() {
        let config = Config::parse("durability = \"relaxed\"\nrelaxed_window = \"200ms\"").unwrap();
        assert_eq!(config.durability, Durability::Relaxed { window: Duration::from_millis(200) });
    }
}
