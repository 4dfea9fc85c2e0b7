//! Tests of the commented example configuration. Every key must exist, and every value must be the default.

use std::time::Duration;

use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::realm::Realm;
use bruit_server::Config;
use bruit_server::config::Token;

fn example() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bruit.toml")).expect("the example file exists")
}

/// Returns the example with its settings uncommented. These are the lines that begin with `#` and a key or a table.
fn uncommented() -> String {
    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
    let line = |line: &str| if is_setting(line) { line[1..].to_owned() } else { line.to_owned() };
    example().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_as_it_stands_is_the_defaults() {
    let config = Config::parse(&example()).expect("the example is valid");
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

/// Returns the configuration with all settings of the example.
fn all_settings() -> Config {
    let text = uncommented()
        .replace("durability = \"strict\"", "durability = \"relaxed\"")
        // Keys without a default.
        .replace("whitelist = \"whitelist\"", "")
        .replace("refuse = [\"words.txt\"]", "")
        .replace("bulk = { flag = 20, threshold = 50 }", "")
        .replace("tls = { certificate = \"cert.pem\", key = \"key.pem\", listen = \"0.0.0.0:8627\" }", "")
        .replace("socket = { path = \"/run/bruit/http.sock\", mode = \"0660\", group = \"mail\" }", "")
        .replace("sha256 = \"...\"", &format!("sha256 = \"{}\"", "5a".repeat(32)))
        .replace("secret = \"...\"", "secret = \"opfr9epmoe9ufaqcwkozo7qhafyrsmzw7naxiiyqth4fzobz7poy\"");
    Config::parse(&text).expect("all settings are known")
}

#[test]
fn every_setting_of_the_example_is_known_and_has_its_default() {
    let config = all_settings();
    let (settings, default) = (&config.settings, Config::default());
    assert_eq!((settings.accounts.len(), settings.http.tokens.len()), (4, 1));
    assert_eq!(config.listen, default.listen);
    assert_eq!(
        (config.memory_bytes, default.memory_bytes),
        (Some(BUDGET_DEFAULT), None),
        "the default for a new clearinghouse"
    );
    assert_eq!(config.threads, default.threads);
    assert_eq!(settings.limits, default.settings.limits);
    assert_eq!(settings.trust, default.settings.trust);
    assert_eq!(settings.learning, default.settings.learning);
    let is_usual = |token: &Token| !token.admin && !token.reporters && !token.monitor && !token.replica;
    assert!(settings.http.tokens.iter().all(is_usual));
    assert_eq!(settings.own_networks, default.settings.own_networks);
    assert_eq!((config.log.level.as_deref(), config.log.format), (Some("info"), default.log.format));
    let half_a_generation = Duration::from_secs(Realm::BULK_EPOCH_SECONDS / 2);
    assert_eq!(
        (settings.clock.jump, settings.clock.confirm),
        (Some(half_a_generation), default.settings.clock.confirm)
    );
    assert_eq!(format!("{:?}", settings.razor), format!("{:?}", default.settings.razor));
    assert_eq!(format!("{:?}", settings.pyzor), format!("{:?}", default.settings.pyzor));
    let (fuzzy, default_fuzzy) = (&settings.fuzzy, &default.settings.fuzzy);
    assert_eq!((fuzzy.rights, fuzzy.encrypted_only), (default_fuzzy.rights, default_fuzzy.encrypted_only));
    let (dcc, default_dcc) = (&settings.dcc, &default.settings.dcc);
    assert_eq!((dcc.rights, dcc.many, dcc.server_id), (default_dcc.rights, default_dcc.many, default_dcc.server_id));
    let (http, default_http) = (&settings.http, &default.settings.http);
    assert_eq!((http.rights, http.body_bytes_max), (default_http.rights, default_http.body_bytes_max));
}

#[test]
fn other_servers_and_the_broker_of_the_example_have_their_defaults() {
    let config = all_settings();
    let peer = &config.settings.peers[0];
    let (name, key) = (&peer.name, peer.key);
    let url = "https://bruit.example.org:8626";
    let least = format!(
        "[[peers]]\nname = \"{name}\"\nkey = \"{key}\"\nrelation = \"peer\"\nurl = \"{url}\"\n\
         [nats]\nurl = \"nats://127.0.0.1:4222\""
    );
    let usual = Config::parse(&least).expect("these settings are enough");
    assert_eq!(config.settings.peers, usual.settings.peers);
    let broker = config.federation.broker.expect("a broker");
    let usual = usual.federation.broker.expect("a broker");
    assert_eq!((broker.replicas, broker.max_age, broker.max_bytes), (usual.replicas, usual.max_age, usual.max_bytes));
}
