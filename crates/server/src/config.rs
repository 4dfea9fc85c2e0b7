//! The configuration: one TOML file, every key of which may be left out.
//!
//! `raw` is the file as it is written, which knows no key that is not documented; [`Config`] is what the server works with.
//! `bruit.toml` at the root of the repository has every key with its default.
//!
//! [`Settings`] is the part that can change while the server runs.

mod accounts;
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
pub use dcc_whitelist::DccWhitelist;
pub use federation::{
    BROKER_URLS_MAX, FederationSettings, PEER_NAME_BYTES_MAX, PEERS_MAX, PeerSettings, PeerTls, PeerTrust,
};
pub use http::{HttpSettings, HttpSocket};
pub use learning::LearningSettings;
pub use log::{LogFormat, LogSettings};
pub use warnings::{Facts, Warning};
pub use word_list::PasswordSettings;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most accounts of a file: they are compared with those of the clearinghouse at every reload.
pub const ACCOUNTS_MAX: usize = 10_000;

/// Most addresses of a protocol.
pub const ADDRESSES_MAX: usize = 16;

/// Most threads of a protocol.
pub const THREADS_MAX: u32 = 64;

/// What the server works with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the clearinghouse, if the file says.
    pub data: Option<PathBuf>,
    /// The memory budget of the clearinghouse, when it is founded or from this start on. Without it, an existing clearinghouse
    /// keeps its budget.
    pub memory_bytes: Option<u64>,
    /// Lets the memory budget become smaller at this start. An option of the command line, not of the file.
    pub shrink: bool,
    /// A file with the realm to found it in, instead of a new one.
    pub realm: Option<PathBuf>,
    /// When a report is answered.
    pub durability: Durability,
    /// Threads of each UDP protocol.
    pub threads: u32,
    /// Where to listen.
    pub listen: Listen,
    /// How it shares what it learns.
    pub federation: FederationSettings,
    /// What is logged.
    pub log: LogSettings,
    /// What can change while the server runs.
    pub settings: Settings,
}

/// Where to listen, by protocol. Nothing is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// TCP.
    pub razor: Vec<SocketAddr>,
    /// UDP.
    pub dcc: Vec<SocketAddr>,
    /// UDP.
    pub pyzor: Vec<SocketAddr>,
    /// UDP.
    pub fuzzy: Vec<SocketAddr>,
    /// TCP.
    pub http: Vec<SocketAddr>,
    /// HTTP over TLS.
    pub https: Vec<SocketAddr>,
    /// HTTP at a Unix socket.
    pub http_socket: Option<HttpSocket>,
    /// TCP with TLS, for other servers.
    pub federation: Vec<SocketAddr>,
}

/// What can change while the server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The site's own networks.
    pub own_networks: Vec<IpNet>,
    /// Trust in the system clock.
    pub clock: ClockSettings,
    /// How much a network that is not our own may ask for.
    pub limits: LimitSettings,
    /// Accounts that the file names.
    pub accounts: Vec<AccountSettings>,
    /// Words that are refused as passwords.
    pub passwords: PasswordSettings,
    /// Razor.
    pub razor: RazorSettings,
    /// DCC.
    pub dcc: DccSettings,
    /// Pyzor.
    pub pyzor: PyzorSettings,
    /// rspamd's fuzzy storage.
    pub fuzzy: FuzzySettings,
    /// HTTP.
    pub http: HttpSettings,
    /// Other servers.
    pub peers: Vec<PeerSettings>,
    /// How claims are weighed.
    pub trust: Policy,
    /// What is learnt from checks.
    pub learning: LearningSettings,
}

/// How much a network that is not our own may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSettings {
    /// Requests, of any kind.
    pub requests: Rate,
    /// Reports and revocations of strangers, each signature for itself.
    pub claims: Rate,
    /// The same of one account, wherever it is used.
    pub account_claims: Rate,
    /// Replies over UDP that are longer than their requests.
    pub longer_replies: Rate,
    /// Work that takes long: new keys of encryption, registrations, messages to sign.
    pub costly: Rate,
    /// Registrations of all networks together.
    pub registrations: Rate,
    /// TCP connections in all.
    pub connections: usize,
    /// TCP connections of one network that is not our own.
    pub connections_per_network: usize,
}

/// Trust in the system clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSettings {
    /// The largest jump that is believed; by default half of the shortest generation.
    pub jump: Option<Duration>,
    /// The authority that confirms a larger jump forwards.
    pub confirm: Confirm,
}

/// An authority that confirms a jump forwards of the system clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// NTP, if the kernel says that it keeps the clock; the operator otherwise.
    #[default]
    Ntp,
    /// The operator, always.
    Operator,
}

/// What is Razor's own.
#[derive(Clone, Debug)]
pub struct RazorSettings {
    /// Who may do what.
    pub rights: Rights,
    /// Who may register an account.
    pub register: crate::rights::Who,
    /// The confidence from which clients take a part for spam.
    pub confidence: u8,
    /// The parameters of e4: the current ones, and earlier ones that still arrive.
    pub ep4: Vec<Ep4>,
    /// What clients are told of these, with a revision; they ask anew when it rises.
    pub terms: Arc<Terms>,
    /// Names under which clients reach the server; the address they did, if there are none.
    pub servers: Option<ServerList>,
    /// Whether each check counts one recipient.
    pub count_checks: bool,
}

/// What is DCC's own.
#[derive(Clone, Debug)]
pub struct DccSettings {
    /// Who may do what.
    pub rights: Rights,
    /// What the server calls itself in replies, 100 to 32,767.
    pub server_id: u32,
    /// The password of that id, for administration.
    pub password: Option<String>,
    /// What clients call us in their header field.
    pub brand: String,
    /// Recipients from which a checksum is answered "many".
    pub many: u32,
    /// What is never counted, or always answered "many", from a file in DCC's format.
    pub whitelist: DccWhitelist,
}

/// What is Pyzor's own.
#[derive(Clone, Debug)]
pub struct PyzorSettings {
    /// Who may do what.
    pub rights: Rights,
    /// The least count that a check of a listed signature is answered: SpamAssassin believes 5.
    pub listed_count: u32,
    /// Whether each check counts one recipient.
    pub count_checks: bool,
}

/// What is the fuzzy storage's own.
#[derive(Clone, Debug)]
pub struct FuzzySettings {
    /// Who may do what.
    pub rights: Rights,
    /// Whether requests that are not encrypted are refused.
    pub encrypted_only: bool,
    /// Whether each check counts one recipient.
    pub count_checks: bool,
    /// The answer for bulk mail, if there is one.
    pub bulk: Option<FuzzyBulk>,
    /// The key pairs of accounts.
    pub(crate) keys: Keyring,
}

/// What rspamd is answered about bulk mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuzzyBulk {
    /// The list under which it is answered.
    pub flag: u8,
    /// Recipients from which a text is bulk.
    pub threshold: u32,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {}", .file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is longer than any configuration.
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// It is not TOML, or has a key or value that there is not.
    #[error("{0}")]
    Syntax(String),
    /// An account that cannot be.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A value that cannot be.
    #[error("{key}: {reason}")]
    Value {
        /// Where it stands.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`], with the place in the file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { file: file.to_owned(), source };
        if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong(file.to_owned()));
        }
        Self::parse(&fs::read_to_string(file).map_err(failed)?)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: raw::File = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        raw.check()
    }
}

impl Config {
    /// The settings that need a new start and differ in `other`.
    pub(crate) fn unlike(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        let differs = [
            ("data", self.data != other.data),
            ("realm", self.realm != other.realm),
            ("memory", self.memory_bytes != other.memory_bytes),
            ("durability", self.durability != other.durability),
            ("threads", self.threads != other.threads),
            ("listen", self.listen != other.listen),
            ("federation", self.federation != other.federation),
            ("log", self.log != other.log),
        ];
        differs.into_iter().filter_map(|(setting, differs)| differs.then_some(setting))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::parse("").expect("an empty file is the defaults")
    }
}

/// In one line: where, and what.
fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    let place = line.map_or_else(String::new, |line| format!("line {line}: "));
    ConfigError::Syntax(format!("{place}{}", error.message().replace('\n', " ")))
}

fn wrong(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), reason: reason.into() }
}

/// Never "many", however many recipients.
pub const MANY_NEVER: u32 = MANY;

/// How long a machine that crashes may lose under `durability = "relaxed"`, unless told.
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
        assert!(federation.is_empty() && https.is_empty() && http_socket.is_none(), "these are a decision");
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
            ("threads = 0", "threads: 1 to 64"),
            ("threads = 65", "threads: 1 to 64"),
            ("clock_jump = \"10ms\"", "clock_jump: 1s to 3650d"),
            ("clock_jump = \"9999d\"", "clock_jump: 1s to 3650d"),
            ("clock_confirm = \"me\"", "unknown variant `me`"),
            ("[dcc]\nserver_id = 99", "dcc.server_id: 100 to 32767"),
            ("[razor]\nep4 = []", "razor.ep4: "),
            ("[razor]\nhosts = [\"localhost\"]", "razor.hosts: a Razor server is"),
            ("[razor]\nconfidence = 101", "razor.confidence: 1 to 100"),
            ("[pyzor.rights]\nreport = \"everyone\"", "unknown variant `everyone`"),
            ("relaxed_window = \"1s\"", "relaxed_window: "),
            ("[log]\nformat = \"xml\"", "unknown variant `xml`"),
            ("[log]\nfile = \"x\"", "unknown field `file`"),
            ("[[accounts]]\nprotocol = \"dcc\"\nname = \"32768\"\npassword = \"has blanks\"", "account \"32768\": "),
            (&twice, "another account has its name"),
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
