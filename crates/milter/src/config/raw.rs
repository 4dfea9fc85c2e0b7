//! The file as written, and its conversion to the checked configuration.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bruit_client::{Client, Rspamd};
use bruit_engine::units::parse_span;
use bruit_protocols::http::RECIPIENTS_MAX;
use ipnet::IpNet;
use serde::Deserialize;

use super::address::{Address, RawListen};
use super::recipient_rules::{Rules, is_address};
use super::units::{Bytes, Span};
use super::{
    Config, ConfigError, Disagreement, GreylistSettings, LIST_BYTES_MAX, Limits, REFUSAL_BYTES_MAX, ServerSettings,
    Settings, TRAPS_MAX, TrapRspamd, Traps, Whitelist, invalid, read_file,
};
use crate::policy::{Action, Policy};

/// Maximum length of a token file.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Time limit of a request to rspamd. No SMTP session waits for it.
const RSPAMD_TIMEOUT: Duration = Duration::from_secs(10);

/// The default text of a refusal.
const REFUSAL: &str = "message refused: {verdict} ({signature})";

/// The largest message that can be signed.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    listen: Option<RawListen>,
    metrics: Option<SocketAddr>,
    retry_key: Option<PathBuf>,
    own_networks: Option<Vec<IpNet>>,
    skip_authenticated: Option<bool>,
    refusal: Option<String>,
    server: RawServer,
    spam: RawRule,
    bulk: RawBulk,
    suspect: RawRule,
    recipients: RawRecipients,
    whitelist: RawWhitelist,
    greylist: Option<RawGreylist>,
    traps: RawTraps,
    limits: RawLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawServer {
    url: Option<String>,
    token_file: Option<PathBuf>,
    timeout: Option<Span>,
    replica: Option<PathBuf>,
    replica_max_age: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRule {
    action: Action,
    confidence: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawBulk {
    action: Action,
    recipients: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRecipients {
    file: Option<PathBuf>,
    disagreement: RawDisagreement,
    split_to: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawDisagreement {
    #[default]
    Tag,
    Split,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawWhitelist {
    senders: Vec<String>,
    clients: Vec<IpNet>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGreylist {
    recipients: u32,
    within: Option<Span>,
    delay: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTraps {
    addresses: Vec<String>,
    file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    spool: Option<PathBuf>,
    rspamd: Option<RawRspamd>,
    when: RawWhen,
    action: RawTrapAction,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRspamd {
    url: String,
    password_file: Option<PathBuf>,
    flag: Option<u32>,
    weight: Option<u32>,
    #[serde(default)]
    bayes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawWhen {
    #[default]
    All,
    Any,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawTrapAction {
    #[default]
    Accept,
    Discard,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawLimits {
    connections: Option<usize>,
    message: Option<Bytes>,
    memory: Option<Bytes>,
    idle: Option<Span>,
    command: Option<Span>,
    content: Option<Span>,
    stop: Option<Span>,
}

impl File {
    pub(super) fn check(self) -> Result<Config, ConfigError> {
        let policy = self.policy()?;
        let listen = match self.listen {
            None => vec![Address::Inet(SocketAddr::from(([127, 0, 0, 1], 8626)))],
            Some(listen) => listen.check()?,
        };
        let own =
            || vec![network([127, 0, 0, 0], 8), IpNet::from(std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST))];
        let (rules, disagreement) = self.recipients.check(policy)?;
        let settings = Settings {
            own_networks: self.own_networks.unwrap_or_else(own),
            skip_authenticated: self.skip_authenticated.unwrap_or(true),
            server: self.server.check()?,
            policy,
            refusal: refusal(self.refusal)?,
            rules,
            disagreement,
            whitelist: self.whitelist.check()?,
            greylist: self.greylist.map(|raw| raw.check()).transpose()?,
            traps: self.traps.check()?,
            limits: self.limits.check()?,
        };
        Ok(Config { listen, metrics: self.metrics, retry_key: self.retry_key, settings })
    }

    fn policy(&self) -> Result<Policy, ConfigError> {
        Ok(Policy {
            spam: self.spam.action,
            spam_confidence: within("spam.confidence", self.spam.confidence, 0, 100)?,
            bulk: self.bulk.action,
            bulk_recipients: self
                .bulk
                .recipients
                .map(|number| within("bulk.recipients", number, 1, RECIPIENTS_MAX))
                .transpose()?,
            suspect: self.suspect.action,
            suspect_confidence: within("suspect.confidence", self.suspect.confidence, 0, 100)?,
        })
    }
}

impl RawServer {
    fn check(self) -> Result<ServerSettings, ConfigError> {
        let url = self.url.unwrap_or_else(|| "http://127.0.0.1:8625".to_owned());
        let timeout = span("server.timeout", self.timeout, "3s", "10ms", "60s")?;
        let token = self.token_file.map(|file| token("server.token_file", &file)).transpose()?;
        Client::new(&url, token.as_deref(), timeout).map_err(|error| invalid("server.url", error.to_string()))?;
        Ok(ServerSettings {
            url,
            token,
            timeout,
            replica: self.replica,
            replica_max_age: span("server.replica_max_age", self.replica_max_age, "10m", "1s", "30d")?,
        })
    }
}

impl RawRecipients {
    fn check(self, policy: Policy) -> Result<(Rules, Disagreement), ConfigError> {
        let rules = match &self.file {
            None => Rules::new(policy),
            Some(file) => Rules::parse(&read_file(file, LIST_BYTES_MAX)?, policy)
                .map_err(|reason| invalid("recipients.file", format!("{}: {reason}", file.display())))?,
        };
        let disagreement = match (self.disagreement, self.split_to) {
            (RawDisagreement::Tag, None) => Disagreement::Tag,
            (RawDisagreement::Split, Some(address)) if is_address(&address) && !address.starts_with('@') => {
                Disagreement::Split(address)
            }
            (RawDisagreement::Split, Some(address)) => {
                return Err(invalid("recipients.split_to", format!("invalid address {address:?}")));
            }
            (RawDisagreement::Split, None) => {
                return Err(invalid("recipients.split_to", "required with disagreement = \"split\""));
            }
            (RawDisagreement::Tag, Some(_)) => {
                return Err(invalid("recipients.split_to", "allowed only with disagreement = \"split\""));
            }
        };
        Ok((rules, disagreement))
    }
}

impl RawWhitelist {
    fn check(self) -> Result<Whitelist, ConfigError> {
        let senders = self.senders.iter().map(|sender| address("whitelist.senders", sender));
        Ok(Whitelist { senders: senders.collect::<Result<_, _>>()?, clients: self.clients })
    }
}

impl RawGreylist {
    fn check(self) -> Result<GreylistSettings, ConfigError> {
        Ok(GreylistSettings {
            recipients: within("greylist.recipients", self.recipients, 1, RECIPIENTS_MAX)?,
            within: span("greylist.within", self.within, "10m", "1s", "1d")?,
            delay: span("greylist.delay", self.delay, "1m", "0s", "1h")?,
        })
    }
}

impl RawTraps {
    fn check(self) -> Result<Traps, ConfigError> {
        let text = self.file.as_deref().map(|file| read_file(file, LIST_BYTES_MAX)).transpose()?.unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let named = self.addresses.iter().map(String::as_str).chain(lines);
        let addresses: HashSet<Vec<u8>> = named.map(|text| address("traps", text)).collect::<Result<_, _>>()?;
        if addresses.len() > TRAPS_MAX {
            return Err(invalid("traps", format!("more than {TRAPS_MAX} addresses")));
        }
        if self.rspamd.is_some() && self.spool.is_none() {
            return Err(invalid("traps.rspamd", "requires traps.spool, which keeps the messages"));
        }
        Ok(Traps {
            addresses,
            token: self.token_file.map(|file| token("traps.token_file", &file)).transpose()?,
            spool: self.spool,
            rspamd: self.rspamd.map(RawRspamd::check).transpose()?,
            any: self.when == RawWhen::Any,
            discard: self.action == RawTrapAction::Discard,
        })
    }
}

impl RawRspamd {
    fn check(self) -> Result<TrapRspamd, ConfigError> {
        let password = self.password_file.map(|file| token("traps.rspamd.password_file", &file)).transpose()?;
        let controller = Rspamd::new(&self.url, password.as_deref(), RSPAMD_TIMEOUT);
        let controller = controller.map_err(|error| invalid("traps.rspamd", error.to_string()))?;
        let flag = within("traps.rspamd.flag", self.flag.unwrap_or(1), 1, u32::MAX)?;
        let weight = within("traps.rspamd.weight", self.weight.unwrap_or(10), 1, u32::MAX)?;
        Ok(TrapRspamd { controller, flag, weight, trains_bayes: self.bayes })
    }
}

impl RawLimits {
    fn check(self) -> Result<Limits, ConfigError> {
        let message = self.message.map_or(MESSAGE_BYTES_MAX, |given| given.0);
        if !(1 << 10..=MESSAGE_BYTES_MAX).contains(&message) {
            return Err(invalid("limits.message", "expected 1KiB to 64MiB"));
        }
        let memory = self.memory.map_or(256 << 20, |given| given.0);
        if memory < message {
            return Err(invalid("limits.memory", "expected at least limits.message"));
        }
        Ok(Limits {
            connections: within("limits.connections", self.connections.unwrap_or(500), 1, 10_000)?,
            message_bytes: message,
            memory_bytes: memory,
            idle: span("limits.idle", self.idle, "1h", "1s", "1d")?,
            command: span("limits.command", self.command, "30s", "100ms", "1h")?,
            content: span("limits.content", self.content, "5m", "100ms", "1h")?,
            stop: span("limits.stop", self.stop, "30s", "0s", "10m")?,
        })
    }
}

/// Returns an address, or a domain after `@`, in lower case.
fn address(key: &str, text: &str) -> Result<Vec<u8>, ConfigError> {
    let is_valid = is_address(text);
    is_valid
        .then(|| text.to_ascii_lowercase().into_bytes())
        .ok_or_else(|| invalid(key, format!("{text:?}: expected an address")))
}

/// Reads a token from the first line of a file.
fn token(key: &str, file: &Path) -> Result<String, ConfigError> {
    let text = read_file(file, TOKEN_FILE_BYTES_MAX)?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(invalid(key, format!("the first line is empty: {}", file.display())));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid(key, "expected printable ASCII characters without blanks"));
    }
    Ok(token.to_owned())
}

fn refusal(given: Option<String>) -> Result<String, ConfigError> {
    let text = given.unwrap_or_else(|| REFUSAL.to_owned());
    if !(1..=REFUSAL_BYTES_MAX).contains(&text.len()) {
        return Err(invalid("refusal", format!("expected 1 to {REFUSAL_BYTES_MAX} bytes")));
    }
    // Sendmail treats the text as a format.
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'%') {
        return Err(invalid("refusal", "expected printable ASCII characters without %"));
    }
    Ok(text)
}

fn within<N: PartialOrd + std::fmt::Display>(key: &str, number: N, least: N, most: N) -> Result<N, ConfigError> {
    let is_within = number >= least && number <= most;
    if is_within { Ok(number) } else { Err(invalid(key, format!("expected {least} to {most}"))) }
}

/// Returns the duration `given`, or `usual` if none is given. Fails if it is not between `least` and `most`.
fn span(key: &str, given: Option<Span>, usual: &str, least: &str, most: &str) -> Result<Duration, ConfigError> {
    let constant = |text: &str| parse_span(text).unwrap_or_default();
    let value = given.map_or_else(|| constant(usual), |span| span.0);
    let is_within = (constant(least)..=constant(most)).contains(&value);
    if is_within { Ok(value) } else { Err(invalid(key, format!("expected {least} to {most}"))) }
}

fn network(octets: [u8; 4], bits: u8) -> IpNet {
    let network = ipnet::Ipv4Net::new(octets.into(), bits);
    network.map_or_else(|_| IpNet::from(std::net::IpAddr::from(octets)), IpNet::V4)
}
