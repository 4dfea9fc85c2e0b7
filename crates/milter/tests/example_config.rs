//! The example configuration: every default in it is the milter's default, and every setting in it is accepted.

use bruit_milter::Config;
use bruit_milter::config::Settings;

fn example() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/milter.toml")).unwrap()
}

/// Returns the example with every setting enabled, except the settings for which the example names no default.
fn enabled(text: &str) -> String {
    let is_setting = |line: &str| line.starts_with('#') && line.contains(" = ") && !line.starts_with("# ");
    let mut seen = std::collections::HashSet::new();
    let mut section = String::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if bare.starts_with('[') {
            section = bare.to_owned();
        }
        let is_optional = ["no default", "required with", "token", "/var/lib/bruit-milter/replica\"", "metrics ="];
        let key = (section.clone(), bare.split(" = ").next().unwrap_or_default().to_owned());
        let is_usable = is_setting(line) && !is_optional.iter().any(|word| line.contains(word));
        lines.push(if is_usable && section != "[greylist]" && seen.insert(key) { bare } else { line });
    }
    lines.join("\n")
}

#[test]
fn the_example_shows_the_defaults() {
    let usual = format!("{:?}", Config::default());
    assert_eq!(format!("{:?}", Config::parse(&example()).unwrap()), usual);
    let text = enabled(&example());
    assert!(text.contains("\nlisten = ") && text.contains("\nstop = "), "{text}");
    assert_eq!(format!("{:?}", Config::parse(&text).unwrap()), usual, "{text}");
}

#[test]
fn greylisting_has_the_defaults_of_the_example() {
    let text = example();
    let section: String = text
        .lines()
        .skip_while(|line| *line != "#[greylist]")
        .take(4)
        .map(|line| format!("{}\n", &line[1..]))
        .collect();
    let Settings { greylist: shown, .. } = Config::parse(&section).unwrap().settings;
    let Settings { greylist: usual, .. } = Config::parse("[greylist]\nrecipients = 20").unwrap().settings;
    assert!(shown.is_some() && shown == usual, "{section}");
}

#[test]
fn the_service_can_write_where_the_example_keeps_files() {
    let unit =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/bruit-milter.service"))
            .unwrap();
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key}"));
    let state = format!("/var/lib/{}/", value("StateDirectory="));
    for key in ["spool", "retry_key"] {
        assert!(example().contains(&format!("\n#{key} = \"{state}")), "{key}");
    }
    assert_eq!(value("RuntimeDirectory="), "bruit-milter", "docs/operators/sendmail.md names a socket there");
}
