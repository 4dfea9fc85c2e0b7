//! The file as written, and its conversion to the checked configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bruit_engine::budget::Plan;
use bruit_protocols::dcc::{BRAND_BYTES_MAX, Brand};
use bruit_protocols::razor::{ServerList, Terms};
use bruit_signatures::razor::Ep4;
use bruit_store::Durability;
use ipnet::IpNet;
use serde::Deserialize;

use super::accounts::RawAccount;
use super::dashboard::RawDashboard;
use super::federation::{self, RawFederation, RawNats, RawPeer};
use super::http::RawHttp;
use super::learning::RawLearning;
use super::trust::RawTrust;
use super::word_list::RawPasswords;
use super::{
    ACCOUNTS_MAX, ADDRESSES_MAX, ClockSettings, Config, ConfigError, Confirm, DccSettings, DccWhitelist,
    FederationSettings, FuzzyBulk, FuzzySettings, LimitSettings, Listen, LogSettings, MANY_NEVER, PyzorSettings,
    RELAXED_WINDOW, RazorSettings, Settings, THREADS_MAX, invalid,
};
use crate::accounts;
use crate::fuzzy_keys::Keyring;
use crate::limits::Rate;
use crate::rights::{Rights, Who};
use crate::units::{Bytes, Span};

/// The range of `clock_jump`. One second is the smallest routine correction of a clock, and ten years is longer than
/// any real outage.
const CLOCK_JUMP_MIN: Duration = Duration::from_secs(1);
const CLOCK_JUMP_MAX: Duration = Duration::from_secs(3_650 * 86_400);

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    data: Option<PathBuf>,
    realm: Option<PathBuf>,
    memory: Option<Bytes>,
    durability: RawDurability,
    relaxed_window: Option<Span>,
    threads: Option<u32>,
    clock_jump: Option<Span>,
    clock_confirm: Confirm,
    own_networks: Option<Vec<IpNet>>,
    limits: RawLimits,
    accounts: Vec<RawAccount>,
    passwords: RawPasswords,
    log: LogSettings,
    razor: RawRazor,
    dcc: RawDcc,
    pyzor: RawPyzor,
    fuzzy: RawFuzzy,
    http: RawHttp,
    federation: RawFederation,
    nats: Option<RawNats>,
    peers: Vec<RawPeer>,
    trust: RawTrust,
    learning: RawLearning,
    dashboard: RawDashboard,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawDurability {
    #[default]
    Strict,
    Relaxed,
}

/// One address or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an address and port such as \"127.0.0.1:2703\", or a list of them")]
pub(super) enum RawListen {
    One(SocketAddr),
    Several(Vec<SocketAddr>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRights {
    check: Option<Who>,
    report: Option<Who>,
    revoke: Option<Who>,
    pub(super) admin: Option<Who>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawLimits {
    requests: Option<RawRate>,
    claims: Option<RawRate>,
    account_claims: Option<RawRate>,
    longer_replies: Option<RawRate>,
    costly: Option<RawRate>,
    registrations: Option<RawRate>,
    connections: Option<usize>,
    connections_per_network: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRate {
    per_second: f64,
    burst: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRazor {
    listen: Option<RawListen>,
    rights: RawRights,
    register: Option<Who>,
    confidence: Option<u8>,
    ep4: Option<Vec<String>>,
    revision: Option<u32>,
    hosts: Vec<String>,
    count_checks: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawDcc {
    listen: Option<RawListen>,
    rights: RawRights,
    server_id: Option<u32>,
    password: Option<String>,
    brand: Option<String>,
    many: Option<u32>,
    whitelist: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawPyzor {
    listen: Option<RawListen>,
    rights: RawRights,
    listed_count: Option<u32>,
    count_checks: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFuzzy {
    listen: Option<RawListen>,
    rights: RawRights,
    encrypted_only: bool,
    count_checks: bool,
    bulk: Option<FuzzyBulk>,
}

/// The valid server IDs of DCC.
const SERVER_IDS: std::ops::RangeInclusive<u32> = 100..=32_767;

/// The default server ID of DCC, for a server without a registered ID.
const SERVER_ID: u32 = 1_024;

/// The default minimum count in replies about listed signatures. It is SpamAssassin's threshold.
const LISTED_COUNT: u32 = 5;

impl File {
    pub(super) fn check(self) -> Result<Config, ConfigError> {
        let (http, https, http_socket) = self.http.addresses()?;
        let listen = Listen {
            razor: addresses("razor.listen", self.razor.listen.as_ref(), 2703)?,
            dcc: addresses("dcc.listen", self.dcc.listen.as_ref(), 6277)?,
            pyzor: addresses("pyzor.listen", self.pyzor.listen.as_ref(), 24441)?,
            fuzzy: addresses("fuzzy.listen", self.fuzzy.listen.as_ref(), 11335)?,
            http,
            https,
            http_socket,
            // Federation is off by default.
            federation: match &self.federation.listen {
                None => Vec::new(),
                given => addresses("federation.listen", given.as_ref(), 0)?,
            },
        };
        if self.accounts.len() > ACCOUNTS_MAX {
            return Err(invalid("accounts", format!("expected at most {ACCOUNTS_MAX}, found {}", self.accounts.len())));
        }
        let accounts = self.accounts.into_iter().map(RawAccount::check).collect::<Result<Vec<_>, _>>()?;
        let passwords = self.passwords.check()?;
        accounts::check(&accounts, &passwords)?;
        let settings = Settings {
            own_networks: self.own_networks.unwrap_or_else(loopback),
            clock: ClockSettings { jump: clock_jump(self.clock_jump)?, confirm: self.clock_confirm },
            limits: self.limits.check()?,
            razor: self.razor.check()?,
            dcc: self.dcc.check()?,
            pyzor: self.pyzor.check()?,
            fuzzy: FuzzySettings {
                // Strangers' texts are not stored, and only own users may delete.
                rights: self.fuzzy.rights.check_over(Rights {
                    report: Who::Accounts,
                    revoke: Who::Own,
                    ..Rights::default()
                }),
                encrypted_only: self.fuzzy.encrypted_only,
                count_checks: self.fuzzy.count_checks,
                bulk: self.fuzzy.bulk.map(check_bulk).transpose()?,
                keys: Keyring::of(&accounts),
            },
            accounts,
            passwords,
            http: self.http.check()?,
            peers: federation::peers(self.peers)?,
            trust: self.trust.check()?,
            learning: self.learning.check()?,
        };
        let broker = self.nats.map(RawNats::check).transpose()?;
        Ok(Config {
            data: self.data,
            realm: self.realm,
            federation: FederationSettings { publish: self.federation.publish, broker },
            memory_bytes: self.memory.map(memory).transpose()?,
            shrink: false,
            dashboard: self.dashboard.check()?,
            log: self.log,
            durability: durability(self.durability, self.relaxed_window)?,
            threads: within("threads", self.threads.unwrap_or(1), 1, THREADS_MAX)?,
            listen,
            settings,
        })
    }
}

fn memory(Bytes(bytes): Bytes) -> Result<u64, ConfigError> {
    Plan::for_budget(bytes).map(|_| bytes).map_err(|error| invalid("memory", error.to_string()))
}

fn durability(kind: RawDurability, window: Option<Span>) -> Result<Durability, ConfigError> {
    match (kind, window) {
        (RawDurability::Strict, None) => Ok(Durability::Strict),
        (RawDurability::Strict, Some(_)) => Err(invalid("relaxed_window", "requires durability = \"relaxed\"")),
        (RawDurability::Relaxed, window) => {
            Ok(Durability::Relaxed { window: window.map_or(RELAXED_WINDOW, |window| window.0) })
        }
    }
}

fn clock_jump(given: Option<Span>) -> Result<Option<Duration>, ConfigError> {
    let Some(Span(jump)) = given else { return Ok(None) };
    if !(CLOCK_JUMP_MIN..=CLOCK_JUMP_MAX).contains(&jump) {
        return Err(invalid("clock_jump", "expected 1s to 3650d"));
    }
    Ok(Some(jump))
}

pub(super) fn addresses(key: &str, given: Option<&RawListen>, port: u16) -> Result<Vec<SocketAddr>, ConfigError> {
    match given {
        None => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
        Some(RawListen::One(address)) => Ok(vec![*address]),
        Some(RawListen::Several(addresses)) if addresses.len() <= ADDRESSES_MAX => Ok(addresses.clone()),
        Some(RawListen::Several(addresses)) => {
            Err(invalid(key, format!("expected at most {ADDRESSES_MAX} addresses, found {}", addresses.len())))
        }
    }
}

fn loopback() -> Vec<IpNet> {
    ["127.0.0.0/8", "::1/128"].iter().map(|network| network.parse().expect("a valid network")).collect()
}

pub(super) fn within<N: PartialOrd + std::fmt::Display>(
    key: &str,
    value: N,
    least: N,
    most: N,
) -> Result<N, ConfigError> {
    if value < least || value > most {
        return Err(invalid(key, format!("expected {least} to {most}, found {value}")));
    }
    Ok(value)
}

impl RawRights {
    fn check(&self) -> Rights {
        self.check_over(Rights::default())
    }

    pub(super) fn check_over(&self, usual: Rights) -> Rights {
        Rights {
            check: self.check.unwrap_or(usual.check),
            report: self.report.unwrap_or(usual.report),
            revoke: self.revoke.unwrap_or(usual.revoke),
            admin: self.admin.unwrap_or(usual.admin),
        }
    }
}

impl RawLimits {
    fn check(self) -> Result<LimitSettings, ConfigError> {
        Ok(LimitSettings {
            requests: rate("limits.requests", self.requests, Rate { per_second: 50.0, burst: 500 })?,
            claims: rate("limits.claims", self.claims, Rate { per_second: 10.0, burst: 100 })?,
            account_claims: rate(
                "limits.account_claims",
                self.account_claims,
                Rate { per_second: 400.0, burst: 4_000 },
            )?,
            longer_replies: rate("limits.longer_replies", self.longer_replies, Rate { per_second: 10.0, burst: 50 })?,
            costly: rate("limits.costly", self.costly, Rate { per_second: 0.1, burst: 20 })?,
            // With 256 MiB, the account table has 6,291 entries for self-registered accounts. At this rate, it
            // takes five weeks to fill them.
            registrations: rate("limits.registrations", self.registrations, Rate { per_second: 0.002, burst: 100 })?,
            connections: within("limits.connections", self.connections.unwrap_or(1_024), 1, 65_536)?,
            connections_per_network: within(
                "limits.connections_per_network",
                self.connections_per_network.unwrap_or(32),
                1,
                65_536,
            )?,
        })
    }
}

fn rate(key: &str, given: Option<RawRate>, usual: Rate) -> Result<Rate, ConfigError> {
    let rate = given.map_or(usual, |given| Rate { per_second: given.per_second, burst: given.burst });
    if !(0.0..=1e9).contains(&rate.per_second) {
        return Err(invalid(key, format!("expected 0 to 1e9 per second, found {}", rate.per_second)));
    }
    Ok(rate)
}

impl RawRazor {
    fn check(self) -> Result<RazorSettings, ConfigError> {
        let ep4 = self.ep4.map_or_else(|| Ok(vec![Ep4::default()]), |given| epochs(&given))?;
        let confidence = within("razor.confidence", self.confidence.unwrap_or(50), 1, 100)?;
        // The default revision is the length of the list, so it rises whenever new parameters are added.
        let revision = self.revision.unwrap_or(ep4.len() as u32);
        let terms =
            Terms::new(confidence, ep4.clone(), revision).map_err(|error| invalid("razor.ep4", error.to_string()))?;
        let hosts = Some(self.hosts).filter(|hosts| !hosts.is_empty());
        let servers =
            hosts.map(ServerList::new).transpose().map_err(|error| invalid("razor.hosts", error.to_string()))?;
        Ok(RazorSettings {
            rights: self.rights.check(),
            register: self.register.unwrap_or(Who::Anyone),
            confidence,
            ep4,
            terms: Arc::new(terms),
            servers,
            count_checks: self.count_checks,
        })
    }
}

fn check_bulk(bulk: FuzzyBulk) -> Result<FuzzyBulk, ConfigError> {
    within("fuzzy.bulk.flag", bulk.flag, 1, u8::MAX)?;
    within("fuzzy.bulk.threshold", bulk.threshold, 1, MANY_NEVER)?;
    Ok(bulk)
}

fn epochs(given: &[String]) -> Result<Vec<Ep4>, ConfigError> {
    let parse = |text: &String| text.parse().map_err(|error| invalid("razor.ep4", format!("{text:?}: {error}")));
    given.iter().map(parse).collect()
}

impl RawDcc {
    fn check(self) -> Result<DccSettings, ConfigError> {
        let brand = self.brand.unwrap_or_else(|| "bruit".into());
        if Brand::new(&brand).is_none() {
            return Err(invalid(
                "dcc.brand",
                format!("expected 1 to {BRAND_BYTES_MAX} printable characters without ':'"),
            ));
        }
        if self
            .password
            .as_ref()
            .is_some_and(|password| bruit_engine::accounts::dcc::DccPassword::new(password.as_bytes()).is_none())
        {
            return Err(invalid("dcc.password", "expected 1 to 32 bytes without blanks"));
        }
        Ok(DccSettings {
            rights: self.rights.check(),
            server_id: within(
                "dcc.server_id",
                self.server_id.unwrap_or(SERVER_ID),
                *SERVER_IDS.start(),
                *SERVER_IDS.end(),
            )?,
            password: self.password,
            brand,
            many: within("dcc.many", self.many.unwrap_or(MANY_NEVER), 1, MANY_NEVER)?,
            whitelist: self.whitelist.map_or_else(|| Ok(DccWhitelist::default()), |file| DccWhitelist::read(&file))?,
        })
    }
}

impl RawPyzor {
    fn check(self) -> Result<PyzorSettings, ConfigError> {
        let listed_count = within("pyzor.listed_count", self.listed_count.unwrap_or(LISTED_COUNT), 1, 999_999)?;
        Ok(PyzorSettings { rights: self.rights.check(), listed_count, count_checks: self.count_checks })
    }
}
