//! Settings: the configuration in force, where each value comes from, and warnings about it. Secrets are not shown.

use std::fmt::Display;
use std::net::SocketAddr;

use axum::extract::State;
use maud::{Markup, html};

use super::super::Http;
use super::super::caller::Right;
use super::super::fault::Fault;
use super::failure::Failure;
use super::format::{counted, duration, size};
use super::page::{self, View};
use super::viewer::Viewer;
use crate::config::{Config, Facts, MANY_NEVER, Settings, Warning};
use crate::limits::Rate;
use crate::policy;
use crate::rights::{Rights, Who};

/// A section with its values.
type Section = (&'static str, Vec<(&'static str, String)>);

/// Shows the settings.
pub(super) async fn show(State(http): State<Http>, viewer: Viewer) -> Result<Markup, Failure> {
    viewer.caller.require(Right::Administer)?;
    let service = &http.service;
    let started = service.started_with().ok_or_else(Fault::broken)?;
    let config = Config { settings: (*service.settings()).clone(), ..started.clone() };
    let (now, usual) = (sections(&config), sections(&Config::default()));
    let memory = http.compute(|service| Ok(service.store.check(|engine| engine.plan().bytes))).await?;
    let content = html! {
        (warnings(&config.warnings(&Facts::default())))
        section .card {
            p {
                "The configuration is a file, which only the server's administrator can change. After a change, SIGHUP \
                applies most settings; the others take effect at the next start. " code { "bruit.toml" }
                " in the repository describes every setting."
            }
            p .hint {
                "Data directory: " code { (service.directory().map_or_else(String::new, |path| path.display().to_string())) }
                ". Memory budget in force: " (size(memory)) "."
            }
        }
        @for ((name, values), (_, defaults)) in now.iter().zip(&usual) { (section(name, values, defaults)) }
        (tokens(&config.settings))
    };
    Ok(page::view(&viewer, View::Settings, &content))
}

fn warnings(warnings: &[Warning]) -> Markup {
    html! {
        @for Warning { key, text } in warnings {
            div .state.warning { strong { "Check " code { (key) } } p { (text) } }
        }
    }
}

fn section(name: &str, values: &[(&str, String)], defaults: &[(&str, String)]) -> Markup {
    html! {
        section .card {
            h2 { (name) }
            div .scroll tabindex="0" role="region" aria-label=(name) {
                table {
                    thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "From" } } }
                    tbody {
                        @for ((key, value), (_, default)) in values.iter().zip(defaults) {
                            tr {
                                th scope="row" { code { (key) } }
                                td .break { (value) }
                                td { @if value == default { span .soft { "default" } } @else { "configuration" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn tokens(settings: &Settings) -> Markup {
    html! {
        section .card {
            h2 { "Tokens" }
            @if settings.http.tokens.is_empty() {
                p { "Only the administrator's token in " code { "admin.token" } " exists. To let a colleague look without \
                    administering, add a section " code { "[[http.tokens]]" } " with " code { "monitor = true" } "." }
            } @else {
                div .scroll tabindex="0" role="region" aria-label="Tokens" {
                    table {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "Rights" } } }
                        tbody {
                            @for token in &settings.http.tokens {
                                @let rights = [(token.admin, "administer"), (token.monitor, "monitor"), (token.replica, "replica"), (token.reporters, "name reporters")];
                                @let held: Vec<&str> = rights.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
                                tr { th .break scope="row" { (token.name) } td { (listed(&["check, report, revoke"])) @if !held.is_empty() { ", " (listed(&held)) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns all sections, in the same order for every configuration.
fn sections(config: &Config) -> Vec<Section> {
    let settings = &config.settings;
    vec![
        ("Server", general(config)),
        ("Limits on strangers", limits(settings)),
        ("Trust", policy::shown(&settings.trust).fields().to_vec()),
        ("Razor", razor(config)),
        ("DCC", dcc(config)),
        ("Pyzor", pyzor(config)),
        ("rspamd (fuzzy)", fuzzy(config)),
        ("HTTP and dashboard", http(config)),
        ("Exchange and learning", exchange(config)),
    ]
}

fn general(config: &Config) -> Vec<(&'static str, String)> {
    let settings = &config.settings;
    vec![
        ("memory", config.memory_bytes.map_or_else(|| "as stored in the data directory".to_owned(), size)),
        ("durability", format!("{:?}", config.durability).to_lowercase()),
        ("threads", config.threads.to_string()),
        ("own_networks", listed(&settings.own_networks)),
        ("accounts", counted(settings.accounts.len() as u64, "account")),
        ("log.level", config.log.level.clone().unwrap_or_else(|| "info".to_owned())),
    ]
}

fn limits(settings: &Settings) -> Vec<(&'static str, String)> {
    let limits = &settings.limits;
    vec![
        ("requests", rate(limits.requests)),
        ("claims", rate(limits.claims)),
        ("account_claims", rate(limits.account_claims)),
        ("longer_replies", rate(limits.longer_replies)),
        ("costly", rate(limits.costly)),
        ("registrations", rate(limits.registrations)),
        ("connections", limits.connections.to_string()),
        ("connections_per_network", limits.connections_per_network.to_string()),
    ]
}

fn razor(config: &Config) -> Vec<(&'static str, String)> {
    let razor = &config.settings.razor;
    vec![
        ("listen", addresses(&config.listen.razor)),
        ("rights", rights(razor.rights)),
        ("register", who(razor.register).to_owned()),
        ("confidence", razor.confidence.to_string()),
        ("count_checks", yes(razor.count_checks)),
    ]
}

fn dcc(config: &Config) -> Vec<(&'static str, String)> {
    let dcc = &config.settings.dcc;
    vec![
        ("listen", addresses(&config.listen.dcc)),
        ("rights", format!("{}, administer: {}", rights(dcc.rights), who(dcc.rights.admin))),
        ("server_id", dcc.server_id.to_string()),
        ("password", if dcc.password.is_some() { "set, not shown" } else { "none" }.to_owned()),
        ("brand", dcc.brand.clone()),
        ("many", threshold(dcc.many)),
    ]
}

fn pyzor(config: &Config) -> Vec<(&'static str, String)> {
    let pyzor = &config.settings.pyzor;
    vec![
        ("listen", addresses(&config.listen.pyzor)),
        ("rights", rights(pyzor.rights)),
        ("listed_count", pyzor.listed_count.to_string()),
        ("count_checks", yes(pyzor.count_checks)),
    ]
}

fn fuzzy(config: &Config) -> Vec<(&'static str, String)> {
    let fuzzy = &config.settings.fuzzy;
    let bulk = fuzzy.bulk.map(|bulk| format!("flag {} from {} recipients", bulk.flag, bulk.threshold));
    vec![
        ("listen", addresses(&config.listen.fuzzy)),
        ("rights", rights(fuzzy.rights)),
        ("encrypted_only", yes(fuzzy.encrypted_only)),
        ("count_checks", yes(fuzzy.count_checks)),
        ("bulk", bulk.unwrap_or_else(|| "off".to_owned())),
    ]
}

fn http(config: &Config) -> Vec<(&'static str, String)> {
    let http = &config.settings.http;
    let socket = config.listen.http_socket.as_ref().map(|socket| socket.path.display().to_string());
    vec![
        ("http.listen", addresses(&config.listen.http)),
        ("http.tls.listen", addresses(&config.listen.https)),
        ("http.socket", socket.unwrap_or_else(|| "off".to_owned())),
        ("http.rights", rights(http.rights)),
        ("http.body_max", size(http.body_bytes_max as u64)),
        ("http.bulk_threshold", threshold(http.bulk_threshold)),
        ("http.trusted_proxies", listed(&http.trusted_proxies)),
        (
            "dashboard.listen",
            if config.dashboard.listen.is_empty() {
                "same as http".to_owned()
            } else {
                addresses(&config.dashboard.listen)
            },
        ),
    ]
}

fn exchange(config: &Config) -> Vec<(&'static str, String)> {
    let learning = config.settings.learning;
    vec![
        ("federation.listen", addresses(&config.listen.federation)),
        ("peers", counted(config.settings.peers.len() as u64, "server")),
        ("nats", if config.federation.broker.is_some() { "configured" } else { "off" }.to_owned()),
        ("learning.checks", yes(learning.checks)),
        ("learning.days", learning.days.to_string()),
        (
            "clock_jump",
            config
                .settings
                .clock
                .jump
                .map_or_else(|| "half of the shortest generation".to_owned(), |jump| duration(jump.as_secs())),
        ),
    ]
}

fn addresses(addresses: &[SocketAddr]) -> String {
    if addresses.is_empty() { "off".to_owned() } else { listed(addresses) }
}

fn listed(values: &[impl Display]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn threshold(count: u32) -> String {
    if count >= MANY_NEVER { "never".to_owned() } else { counted(count.into(), "recipient") }
}

fn rate(rate: Rate) -> String {
    format!("{} per second, bursts of {}", rate.per_second, rate.burst)
}

fn rights(rights: Rights) -> String {
    format!("check: {}, report: {}, revoke: {}", who(rights.check), who(rights.report), who(rights.revoke))
}

const fn who(who: Who) -> &'static str {
    match who {
        Who::Nobody => "nobody",
        Who::Own => "own",
        Who::Accounts => "accounts",
        Who::Anyone => "anyone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_their_origin_and_secrets_are_hidden() {
        let text = "threads = 3\n[dcc]\npassword = \"very-secret\"\n[[http.tokens]]\nname = \"<b>mail\"\n\
            token = \"a-secret-token-for-mail\"\nmonitor = true\n";
        let config = Config::parse(text).unwrap();
        let (now, usual) = (sections(&config), sections(&Config::default()));
        let shown: String = now
            .iter()
            .zip(&usual)
            .map(|((name, values), (_, defaults))| section(name, values, defaults).into_string())
            .chain([tokens(&config.settings).into_string()])
            .collect();
        assert!(
            !shown.contains("very-secret") && !shown.contains("a-secret-token") && !shown.contains("<b>"),
            "{shown}"
        );
        assert!(shown.contains("set, not shown") && shown.contains("&lt;b&gt;mail") && shown.contains("monitor"));
        assert_eq!(shown.matches("<td>configuration</td>").count(), 2, "threads and password: {shown}");
    }

    #[test]
    fn every_configuration_has_the_same_keys() {
        let keys = |config: &Config| -> Vec<&str> {
            sections(config).into_iter().flat_map(|(_, values)| values).map(|(key, _)| key).collect()
        };
        let other = Config::parse("memory = \"64MiB\"\n[razor]\nlisten = []\n[learning]\nchecks = true").unwrap();
        assert_eq!(keys(&other), keys(&Config::default()));
    }
}
