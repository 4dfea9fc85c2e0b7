//! The configuration: one TOML file in which every key is optional.
//!
//! `raw` is the file as written and rejects unknown keys; [`Config`] is the checked form that the milter uses.
//! `packaging/milter.toml` lists every key with its default. All keys except `listen`, `metrics` and `retry_key` can
//! change while the milter runs.

mod address;
mod raw;
mod recipient_rules;
mod units;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use bruit_client::Rspamd;
use ipnet::IpNet;

pub use address::{Address, UnixSocket};
pub use recipient_rules::{RULES_MAX, Rule, Rules};

use crate::policy::Policy;

/// Maximum length of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a list file: rules for recipients, or traps.
pub const LIST_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of traps.
pub const TRAPS_MAX: usize = 1_000_000;

/// Maximum number of listen addresses.
pub const ADDRESSES_MAX: usize = 16;

/// Maximum length of the text of a refusal. An SMTP reply has at most 512 bytes.
pub const REFUSAL_BYTES_MAX: usize = 300;

/// The milter's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listen addresses.
    pub listen: Vec<Address>,
    /// The address at which the metrics can be read over HTTP. Off by default.
    pub metrics: Option<SocketAddr>,
    /// The file with the key by which retries are recognised. Without the file, each start creates a new key.
    pub retry_key: Option<PathBuf>,
    /// The settings that can change while the milter runs.
    pub settings: Settings,
}

/// The settings that can change while the milter runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Networks whose mail is not checked.
    pub own_networks: Vec<IpNet>,
    /// True to leave the mail of authenticated senders unchecked.
    pub skip_authenticated: bool,
    /// The clearinghouse.
    pub server: ServerSettings,
    /// The policy for recipients without a rule.
    pub policy: Policy,
    /// The text of a refusal, after the codes. `{verdict}` and `{signature}` are replaced.
    pub refusal: String,
    /// The rules for recipients.
    pub rules: Rules,
    /// Treatment of a message whose recipients have different actions.
    pub disagreement: Disagreement,
    /// Mail that is never checked.
    pub whitelist: Whitelist,
    /// Greylisting of unknown bulk mail. Off by default.
    pub greylist: Option<GreylistSettings>,
    /// The traps.
    pub traps: Traps,
    /// The limits.
    pub limits: Limits,
}

/// The clearinghouse.
#[derive(Clone)]
pub struct ServerSettings {
    /// The URL.
    pub url: String,
    /// The token.
    pub token: Option<String>,
    /// Maximum time for a request.
    pub timeout: Duration,
    /// A replica of the listings, used while the server does not answer.
    pub replica: Option<PathBuf>,
    /// Maximum age of the replica.
    pub replica_max_age: Duration,
}

/// Treatment of a message whose recipients have different actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Disagreement {
    /// Tag the message for all recipients.
    #[default]
    Tag,
    /// Remove the recipients with the action `quarantine`, send a copy to this address instead, and tag the message for
    /// the others.
    Split(String),
}

/// Mail that is never checked.
#[derive(Clone, Debug, Default)]
pub struct Whitelist {
    /// Envelope senders, in lower case: addresses, or domains that begin with `@`.
    pub senders: HashSet<Vec<u8>>,
    /// Networks of clients.
    pub clients: Vec<IpNet>,
}

/// Greylisting: a message that nobody has reported is deferred once, if many recipients got it in a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GreylistSettings {
    /// Minimum number of recipients of a message that is deferred.
    pub recipients: u32,
    /// Period in which the recipients are counted.
    pub within: Duration,
    /// Minimum time from the first deferral to a retry that is accepted. An earlier retry is deferred again.
    pub delay: Duration,
}

/// The traps: addresses and domains that receive nothing but spam.
#[derive(Clone, Default)]
pub struct Traps {
    /// The traps, in lower case: addresses, or domains that begin with `@`.
    pub addresses: HashSet<Vec<u8>>,
    /// The token for reports. The server gives it the standing of a trap.
    pub token: Option<String>,
    /// The folder for reports that the server did not receive.
    pub spool: Option<PathBuf>,
    /// The rspamd that learns reported mail. The spool keeps the messages for it.
    pub rspamd: Option<TrapRspamd>,
    /// True to report a message even if some of its recipients are not traps.
    pub any: bool,
    /// True to discard mail whose recipients are all traps.
    pub discard: bool,
}

/// The rspamd that learns mail to traps, and how.
#[derive(Clone, Debug)]
pub struct TrapRspamd {
    /// The controller.
    pub controller: Rspamd,
    /// Flag of the fuzzy storage.
    pub flag: u32,
    /// Weight of a message in the fuzzy storage.
    pub weight: u32,
    /// True to train the Bayes classifier, too.
    pub trains_bayes: bool,
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum size of a message that is checked.
    pub message_bytes: u64,
    /// Maximum size of all messages that are being received.
    pub memory_bytes: u64,
    /// Maximum time without a command.
    pub idle: Duration,
    /// Maximum time from the first byte of a command to its last byte.
    pub command: Duration,
    /// Maximum time from the first header field of a message to its end.
    pub content: Duration,
    /// Maximum time to wait for the messages in progress when the milter is asked to stop.
    pub stop: Duration,
}

/// The reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("failed to read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is too long.
    #[error("{} is longer than {max} bytes", .file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The maximum length.
        max: u64,
    },
    /// The file is not TOML, or has unknown keys.
    #[error("{0}")]
    Syntax(String),
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
    /// Reads a file, and the files that it names.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read_file(file, FILE_BYTES_MAX)?)
    }

    /// Parses the text of a file, and reads the files that it names.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: raw::File = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        raw.check()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::parse("").expect("an empty file is valid")
    }
}

impl Settings {
    /// Returns true if the client is in one of the site's own networks, so that its mail is not checked.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        contains(&self.own_networks, address)
    }
}

impl Whitelist {
    /// Returns true if the client is in the list.
    pub(crate) fn has_client(&self, address: IpAddr) -> bool {
        contains(&self.clients, address)
    }

    /// Returns true if the envelope sender or its domain is in the list.
    pub(crate) fn has_sender(&self, address: &[u8]) -> bool {
        lists(&self.senders, address)
    }
}

impl Traps {
    /// Returns true if the address or its domain is in the list.
    pub(crate) fn has(&self, address: &[u8]) -> bool {
        lists(&self.addresses, address)
    }
}

/// Returns true if a list of addresses, and of domains that begin with `@`, contains the address.
fn lists(list: &HashSet<Vec<u8>>, address: &[u8]) -> bool {
    if list.is_empty() || address.is_empty() {
        return false;
    }
    let address = address.to_ascii_lowercase();
    let domain = address.iter().rposition(|byte| *byte == b'@').and_then(|at| address.get(at..));
    list.contains(&address) || domain.is_some_and(|domain| list.contains(domain))
}

/// Returns true if one of the networks contains the address. An IPv4 address may be mapped into IPv6.
fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

impl std::fmt::Debug for ServerSettings {
    /// Omits the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServerSettings")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Traps {
    /// Omits the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Traps").field("addresses", &self.addresses.len()).finish_non_exhaustive()
    }
}

/// Reads a text file of limited length.
fn read_file(file: &Path, max: u64) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { file: file.to_owned(), source };
    if fs::metadata(file).map_err(failed)?.len() > max {
        return Err(ConfigError::TooLong { file: file.to_owned(), max });
    }
    fs::read_to_string(file).map_err(failed)
}

/// Formats a TOML error as one line: position, then message.
fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    let place = line.map_or_else(String::new, |line| format!("line {line}: "));
    ConfigError::Syntax(format!("{place}{}", error.message().replace('\n', " ")))
}

fn invalid(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Action;

    #[test]
    fn an_empty_file_tags_mail_and_fails_open() {
        let config = Config::default();
        assert_eq!(config.listen, [Address::Inet(SocketAddr::from(([127, 0, 0, 1], 8626)))]);
        let Settings { policy, server, greylist, traps, skip_authenticated, .. } = &config.settings;
        assert_eq!([policy.spam, policy.bulk, policy.suspect], [Action::Tag; 3]);
        assert_eq!((server.url.as_str(), server.timeout), ("http://127.0.0.1:8625", Duration::from_secs(3)));
        assert!(greylist.is_none() && traps.addresses.is_empty() && *skip_authenticated && config.metrics.is_none());
        assert!(config.settings.is_own(IpAddr::from([127, 0, 0, 9])));
        assert!(config.settings.is_own("::ffff:127.0.0.9".parse().unwrap()));
        assert!(!config.settings.is_own(IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_refused_with_their_place() {
        for (text, expected) in [
            ("own_networks = []\nlisen = 1", "line 2: unknown field `lisen`"),
            ("[spam]\nacton = \"tag\"", "line 2: unknown field `acton`"),
            ("[spam]\naction = \"drop\"", "unknown variant `drop`"),
            ("[spam]\nconfidence = 101", "spam.confidence: expected 0 to 100"),
            ("[bulk]\nrecipients = 0", "bulk.recipients: expected 1 to 16777200"),
            ("listen = \"127.0.0.1:8626\"", "listen: expected inet:ADDRESS:PORT or unix:PATH"),
            ("listen = []", "listen: expected 1 to 16 addresses"),
            ("listen = { path = \"/x\", mode = \"999\" }", "listen.mode: expected octal digits"),
            ("own_networks = [\"127.0.0.0/99\"]", "line 1"),
            ("[server]\ntimeout = \"3\"", "is not a duration"),
            ("[server]\ntimeout = \"61s\"", "server.timeout: expected 10ms to 60s"),
            ("[server]\nurl = \"localhost\"", "server.url: invalid server URL"),
            ("[server]\ntoken_file = \"/nonexistent\"", "failed to read /nonexistent"),
            ("refusal = \"100 % spam\"", "refusal: expected printable ASCII characters without %"),
            ("refusal = \"\"", "refusal: expected 1 to 300 bytes"),
            ("[recipients]\ndisagreement = \"split\"", "recipients.split_to: required with disagreement = \"split\""),
            ("[recipients]\nsplit_to = \"a@b\"", "recipients.split_to: allowed only with disagreement = \"split\""),
            ("[recipients]\ndisagreement = \"split\"\nsplit_to = \"a b@c\"", "recipients.split_to: invalid address"),
            ("[whitelist]\nsenders = [\"example.org\"]", "whitelist.senders: \"example.org\": expected an address"),
            ("[greylist]\nwithin = \"1m\"", "missing field `recipients`"),
            ("[traps]\naddresses = [\"a\"]", "traps: \"a\": expected an address"),
            ("[traps]\nrspamd = { url = \"http://a\" }", "traps.rspamd: requires traps.spool"),
            ("[traps]\nspool = \"s\"\nrspamd = { url = \"a\" }", "traps.rspamd: invalid rspamd URL"),
            ("[traps]\nspool = \"s\"\nrspamd = { url = \"http://a\", flag = 0 }", "traps.rspamd.flag: expected 1 to"),
            (
                "[traps]\nspool = \"s\"\nrspamd = { url = \"http://a\", weight = 0 }",
                "traps.rspamd.weight: expected 1 to",
            ),
            ("[limits]\nconnections = 0", "limits.connections: expected 1 to 10000"),
            ("[limits]\nmessage = \"65MiB\"", "limits.message: expected 1KiB to 64MiB"),
            ("[limits]\nmemory = \"1MiB\"", "limits.memory: expected at least limits.message"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn senders_are_found_by_address_and_domain() {
        let text = "[whitelist]\nsenders = [\"News@Example.org\", \"@partner.example\"]\nclients = [\"192.0.2.0/24\"]";
        let whitelist = Config::parse(text).unwrap().settings.whitelist;
        for known in ["news@example.org", "NEWS@EXAMPLE.ORG", "anyone@partner.example"] {
            assert!(whitelist.has_sender(known.as_bytes()), "{known}");
        }
        for unknown in ["", "other@example.org", "a@sub.partner.example", "partner.example", "@"] {
            assert!(!whitelist.has_sender(unknown.as_bytes()), "{unknown}");
        }
        assert!(whitelist.has_client(IpAddr::from([192, 0, 2, 9])));
    }

    /// A domain was once accepted as a trap, although no address could match it.
    #[test]
    fn a_trap_is_an_address_or_a_whole_domain() {
        let text = "[traps]\naddresses = [\"Old@example.org\", \"@Trap.example\"]";
        let traps = Config::parse(text).unwrap().settings.traps;
        for trap in ["old@example.org", "anyone@trap.example", "ANYONE@TRAP.EXAMPLE"] {
            assert!(traps.has(trap.as_bytes()), "{trap}");
        }
        for other in ["", "new@example.org", "a@sub.trap.example", "trap.example", "@example.org"] {
            assert!(!traps.has(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn tokens_and_lists_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (token, traps) = (write("token", "secret-token\n"), write("traps", "# comment\nTrap@example.org\n\n"));
        let text = format!("[server]\ntoken_file = {token:?}\n[traps]\nfile = {traps:?}\ntoken_file = {token:?}");
        let settings = Config::parse(&text).unwrap().settings;
        assert_eq!(settings.server.token.as_deref(), Some("secret-token"));
        assert!(settings.traps.addresses.contains(&b"trap@example.org"[..]));
        assert!(!format!("{settings:?}").contains("secret-token"));
        let empty = write("empty", "\n");
        let error = Config::parse(&format!("[server]\ntoken_file = {empty:?}")).unwrap_err().to_string();
        assert!(error.contains("server.token_file: the first line is empty"), "{error}");
        let long = write("long", &"x".repeat(FILE_BYTES_MAX as usize + 1));
        assert!(matches!(Config::read(&long), Err(ConfigError::TooLong { .. })));
    }
}
