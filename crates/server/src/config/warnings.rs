//! Warnings about settings that are valid but have consequences that most operators would not want.
//!
//! Each rule inspects the configuration and facts about the machine. A warning describes a possible consequence and the
//! setting to write instead. The server logs the warnings at every start and reload, and `bruit serve --check-config`
//! prints them.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bruit_engine::budget::BUDGET_DEFAULT;
use ipnet::IpNet;

use super::{Config, MANY_NEVER};
use crate::rights::Who;

/// Minimum IPv4 prefix length of an own network. A shorter prefix covers more addresses than a single site has.
const V4_PREFIX_MIN: u8 = 8;
/// Minimum IPv6 prefix length of an own network. See [`V4_PREFIX_MIN`].
const V6_PREFIX_MIN: u8 = 16;

/// Mode bits that a file with secrets must not have. They grant access to others, or write access to the group.
const OPEN_MODE: u32 = 0o026;

/// Mode bits that no configuration file should have. They grant write access to the group or others.
const WRITABLE_MODE: u32 = 0o022;

/// A warning about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key of the setting.
    pub key: String,
    /// A possible consequence, and the setting to write instead.
    pub text: String,
}

/// Facts about the file and the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The mode of the configuration file, if there is one.
    pub file_mode: Option<u32>,
    /// The memory of the machine or of this process's control group in bytes, if known.
    pub machine_bytes: Option<u64>,
}

impl Facts {
    /// Reads the facts about the configuration file and the machine from the system.
    #[must_use]
    pub fn gather(file: Option<&Path>) -> Self {
        let mode = file.and_then(|file| fs::metadata(file).ok()).map(|metadata| metadata.permissions().mode() & 0o777);
        Self { file_mode: mode, machine_bytes: machine_bytes() }
    }
}

type Rule = fn(&Config, &Facts) -> Vec<Warning>;

/// All rules for warnings.
const RULES: [Rule; 6] = [wide_networks, fuzzy_strangers, counted_strangers, open_file, much_memory, in_the_clear];

impl Config {
    /// Returns the warnings about this configuration.
    #[must_use]
    pub fn warnings(&self, facts: &Facts) -> Vec<Warning> {
        RULES.iter().flat_map(|rule| rule(self, facts)).collect()
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.key, self.text)
    }
}

fn warning(key: &str, text: impl Into<String>) -> Warning {
    Warning { key: key.to_owned(), text: text.into() }
}

fn wide_networks(config: &Config, _facts: &Facts) -> Vec<Warning> {
    let is_wide = |network: &&IpNet| match network {
        IpNet::V4(network) => network.prefix_len() < V4_PREFIX_MIN,
        IpNet::V6(network) => network.prefix_len() < V6_PREFIX_MIN,
    };
    let proxies = config.settings.http.trusted_proxies.iter().filter(is_wide).map(|network| {
        warning(
            "http.trusted_proxies",
            format!(
                "{network} includes machines that are not the site's: anyone there can impersonate one of its own users. \
                 List only the proxies, such as \"192.0.2.7/32\""
            ),
        )
    });
    let wide = config.settings.own_networks.iter().filter(is_wide);
    let text = |network: &IpNet| {
        warning(
            "own_networks",
            format!(
                "{network} includes networks of other sites: everyone there counts as an own user, whose reports list mail \
                 at once and who has no limits. List only the site's own networks, such as \"192.0.2.0/24\""
            ),
        )
    };
    wide.map(text).chain(proxies).collect()
}

fn fuzzy_strangers(config: &Config, _facts: &Facts) -> Vec<Warning> {
    let rights = &config.settings.fuzzy.rights;
    let report = (rights.report > Who::Accounts).then(|| {
        let text = "\"anyone\" is treated as \"accounts\": strangers' texts are refused, because they would have no weight. Write \
                    report = \"accounts\", and give each client an account with a key";
        warning("fuzzy.rights.report", text)
    });
    let revoke = (rights.revoke > Who::Own).then(|| {
        let text =
            "any value beyond \"own\" is treated as \"own\": only the site's own users may delete texts. Write revoke = \"own\"";
        warning("fuzzy.rights.revoke", text)
    });
    report.into_iter().chain(revoke).collect()
}

fn counted_strangers(config: &Config, _facts: &Facts) -> Vec<Warning> {
    let settings = &config.settings;
    let is_open = settings.dcc.rights.report == Who::Anyone && config.listen.dcc.iter().any(is_beyond_loopback);
    let thresholds =
        [("dcc.many", settings.dcc.many), ("http.bulk_threshold", settings.http.bulk_threshold)].into_iter();
    let counted = thresholds.filter(|(_, threshold)| is_open && *threshold < MANY_NEVER);
    let text = |(key, threshold)| {
        warning(
            key,
            format!(
                "any stranger can report a message {threshold} times over DCC and so make it bulk for everyone. Write report = \
                 \"accounts\" under [dcc.rights], or listen on loopback only"
            ),
        )
    };
    counted.map(text).collect()
}

fn open_file(config: &Config, facts: &Facts) -> Vec<Warning> {
    let Some(mode) = facts.file_mode else { return Vec::new() };
    let settings = &config.settings;
    let has_secrets =
        !settings.accounts.is_empty() || !settings.http.tokens.is_empty() || settings.dcc.password.is_some();
    let text = if mode & WRITABLE_MODE != 0 {
        format!("the file has mode {mode:04o}: other users can change what the server does. Run chmod 0640 on it")
    } else if has_secrets && mode & OPEN_MODE != 0 {
        format!(
            "the file has mode {mode:04o} and contains passwords or tokens: every user can read them. Run chmod 0640 on it"
        )
    } else {
        return Vec::new();
    };
    vec![warning("configuration file", text)]
}

fn much_memory(config: &Config, facts: &Facts) -> Vec<Warning> {
    let wanted = config.memory_bytes.unwrap_or(BUDGET_DEFAULT);
    let Some(has) = facts.machine_bytes.filter(|has| wanted > *has) else { return Vec::new() };
    let text = format!(
        "{} MiB exceeds the {} MiB that this machine or its control group allows: the server will swap, or be killed when \
         its books fill. Write memory = \"{}MiB\" or less",
        wanted >> 20,
        has >> 20,
        (has >> 20) / 4 * 3
    );
    vec![warning("memory", text)]
}

fn in_the_clear(config: &Config, _facts: &Facts) -> Vec<Warning> {
    let is_public = |addresses: &[SocketAddr]| addresses.iter().find(|address| is_public(address.ip())).copied();
    let razor = is_public(&config.listen.razor).map(|address| {
        warning(
            "razor.listen",
            format!(
                "Razor is not encrypted, and {address} may be reachable from the Internet: reported mail can be read in transit. \
                 Listen on loopback or a private network, or connect clients through a VPN"
            ),
        )
    });
    let http = is_public(&config.listen.http).map(|address| {
        warning(
            "http.listen",
            format!(
                "HTTP on {address} is not encrypted and may be reachable from the Internet: tokens and mail can be read in \
                 transit. Listen on loopback or a private network, or set a certificate (`tls` in [http])"
            ),
        )
    });
    razor.into_iter().chain(http).collect()
}

fn is_beyond_loopback(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Returns true if a listen address may be reachable from the Internet. The unspecified address may be, too.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let is_shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
            !(address.is_loopback() || address.is_private() || address.is_link_local() || is_shared)
        }
        IpAddr::V6(address) => !(address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()),
    }
}

/// Returns the memory limit of this process.
fn machine_bytes() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| total_memory(&text));
    let group = read("/proc/self/cgroup").and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned))?;
        read(&format!("/sys/fs/cgroup{path}/memory.max"))
    });
    let older = || read("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    let group = group.or_else(|| read("/sys/fs/cgroup/memory.max")).or_else(older);
    let group = group.and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// Returns the memory of the machine according to `/proc/meminfo`.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str, facts: Facts) -> Vec<String> {
        let config = Config::parse(text).unwrap();
        config.warnings(&facts).into_iter().map(|warning| warning.key).collect()
    }

    fn keys_of(text: &str) -> Vec<String> {
        keys(text, Facts::default())
    }

    #[test]
    fn the_defaults_are_nothing_to_warn_about() {
        let facts = Facts { file_mode: Some(0o644), machine_bytes: Some(1 << 30) };
        assert_eq!(keys("", facts), [""; 0]);
    }

    #[test]
    fn proxies_that_may_be_anybodys_are_named() {
        assert_eq!(keys_of("[http]\ntrusted_proxies = [\"0.0.0.0/0\"]"), ["http.trusted_proxies"]);
        assert!(keys_of("[http]\ntrusted_proxies = [\"127.0.0.1/32\"]").is_empty());
    }

    #[test]
    fn own_networks_that_contain_others_are_named() {
        for (network, is_wide) in [
            ("0.0.0.0/0", true),
            ("::/0", true),
            ("10.0.0.0/7", true),
            ("10.0.0.0/8", false),
            ("2001::/15", true),
            ("2001:db8::/32", false),
        ] {
            let found = keys_of(&format!("own_networks = [\"127.0.0.0/8\", \"{network}\"]"));
            assert_eq!(found.len(), usize::from(is_wide), "{network}: {found:?}");
        }
        let config = Config::parse("own_networks = [\"0.0.0.0/0\"]").unwrap();
        let text = config.warnings(&Facts::default())[0].to_string();
        assert!(text.starts_with("own_networks: 0.0.0.0/0 ") && text.contains("192.0.2.0/24"), "{text}");
    }

    #[test]
    fn a_right_that_is_not_given_is_named() {
        assert_eq!(keys_of("[fuzzy.rights]\nreport = \"anyone\""), ["fuzzy.rights.report"]);
        assert_eq!(keys_of("[fuzzy.rights]\nrevoke = \"accounts\""), ["fuzzy.rights.revoke"]);
        assert_eq!(keys_of("[fuzzy.rights]\nreport = \"accounts\"\nrevoke = \"own\""), [""; 0]);
    }

    #[test]
    fn strangers_who_decide_what_is_bulk_are_named() {
        let open = "[dcc]\nlisten = \"0.0.0.0:6277\"\nmany = 200\n[http]\nbulk_threshold = 100\n";
        assert_eq!(keys_of(open), ["dcc.many", "http.bulk_threshold"]);
        assert_eq!(keys_of(&format!("{open}[dcc.rights]\nreport = \"accounts\"")), [""; 0]);
        assert_eq!(keys_of("[dcc]\nmany = 200"), [""; 0], "loopback");
        assert_eq!(keys_of("[dcc]\nlisten = \"0.0.0.0:6277\""), [""; 0], "no threshold to reach");
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_named() {
        let secret = "[dcc]\npassword = \"a-long-password\"";
        for (text, mode, is_open) in [
            ("", 0o644, false),
            ("", 0o666, true),
            ("", 0o660, true),
            (secret, 0o644, true),
            (secret, 0o640, false),
            (secret, 0o600, false),
            (secret, 0o666, true),
        ] {
            let found = keys(text, Facts { file_mode: Some(mode), ..Facts::default() });
            assert_eq!(found.len(), usize::from(is_open), "{text} {mode:o}: {found:?}");
        }
    }

    #[test]
    fn more_memory_than_there_is_is_named() {
        let facts = Facts { machine_bytes: Some(1 << 30), ..Facts::default() };
        assert_eq!(keys("memory = \"2GiB\"", facts), ["memory"]);
        assert_eq!(keys("memory = \"1GiB\"", facts), [""; 0]);
        let little = Facts { machine_bytes: Some(128 << 20), ..Facts::default() };
        assert_eq!(keys("", little), ["memory"], "the default also exceeds the memory of this machine");
    }

    #[test]
    fn what_the_internet_can_reach_without_encryption_is_named() {
        for (address, is_named) in [
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("192.168.0.1", false),
            ("100.64.0.1", false),
            ("[::1]", false),
            ("[fd00::1]", false),
            ("0.0.0.0", true),
            ("[::]", true),
            ("192.0.2.1", true),
            ("[2001:db8::1]", true),
        ] {
            for protocol in ["razor", "http"] {
                let found = keys_of(&format!("[{protocol}]\nlisten = \"{address}:2000\""));
                assert_eq!(found.len(), usize::from(is_named), "{protocol} {address}: {found:?}");
            }
        }
    }

    #[test]
    fn the_machine_says_how_much_memory_it_has() {
        assert_eq!(total_memory("MemTotal:       24000 kB\nMemFree: 1 kB\n"), Some(24_000 * 1024));
        assert_eq!([total_memory(""), total_memory("MemTotal: x kB"), total_memory("MemTotal: 1")], [None; 3]);
        assert!(machine_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
