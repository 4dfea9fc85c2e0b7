//! Rules for recipients: a text file with one address or domain per line.
//!
//! ```text
//! # address or @domain      settings
//! postmaster@example.org    off
//! alice@example.org         spam=reject spam_confidence=95
//! @lists.example.org        bulk=accept
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use bruit_protocols::http::RECIPIENTS_MAX;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;

use crate::policy::{Action, Policy};

/// Maximum number of rules.
pub const RULES_MAX: usize = 1_000_000;

/// Rules for one recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The recipient's mail is not checked.
    Off,
    /// The recipient has this policy.
    Policy(Policy),
}

/// The rules for recipients, and the rule for everyone else.
#[derive(Clone, Debug)]
pub struct Rules {
    named: HashMap<Box<[u8]>, Arc<Rule>>,
    other: Arc<Rule>,
}

impl Rules {
    /// Creates rules under which everyone has the same policy.
    pub(crate) fn new(policy: Policy) -> Self {
        Self { named: HashMap::new(), other: Arc::new(Rule::Policy(policy)) }
    }

    /// Parses the text of a file. If a line does not name a setting, the value in `policy` applies.
    pub(super) fn parse(text: &str, policy: Policy) -> Result<Self, String> {
        let mut rules = Self::new(policy);
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            rules.add(line, policy).map_err(|reason| format!("line {}: {reason}", number + 1))?;
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str, policy: Policy) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if !is_address(name) {
            return Err(format!("{name:?}: expected an address or @domain"));
        }
        let settings: Vec<&str> = words.collect();
        let rule = match settings.as_slice() {
            [] => return Err(format!("{name}: expected off, or settings such as spam=reject")),
            ["off"] => Rule::Off,
            settings => Rule::Policy(settings.iter().try_fold(policy, |policy, setting| with(policy, setting))?),
        };
        if self.named.len() >= RULES_MAX {
            return Err(format!("more than {RULES_MAX} rules"));
        }
        let name = name.to_ascii_lowercase().into_bytes().into_boxed_slice();
        match self.named.insert(name, Arc::new(rule)) {
            None => Ok(()),
            Some(_) => Err("the address has a rule already".to_owned()),
        }
    }

    /// Returns the rule for a recipient: the rule for its address, for its address without `+extension`, for its
    /// domain, or for everyone.
    pub(crate) fn of(&self, address: &[u8]) -> &Arc<Rule> {
        if self.named.is_empty() {
            return &self.other;
        }
        let address = address.to_ascii_lowercase();
        let (local, domain) = split(&address);
        let base = local.split(|byte| *byte == b'+').next().unwrap_or_default();
        let plain = [base, domain].concat();
        let found = [&address[..], &plain, domain].into_iter().find_map(|name| self.named.get(name));
        found.unwrap_or(&self.other)
    }
}

/// Splits an address before its last `@`.
fn split(address: &[u8]) -> (&[u8], &[u8]) {
    let at = address.iter().rposition(|byte| *byte == b'@').unwrap_or(address.len());
    address.split_at_checked(at).unwrap_or((address, &[]))
}

/// Returns true if `text` is an address, or a domain after `@`.
pub(super) fn is_address(text: &str) -> bool {
    let Some((_, domain)) = text.rsplit_once('@') else { return false };
    !domain.is_empty() && text.chars().all(|char| !char.is_whitespace() && !char.is_control() && !"<>".contains(char))
}

/// Returns `policy` with one setting changed.
fn with(policy: Policy, setting: &str) -> Result<Policy, String> {
    let unknown = || {
        format!(
            "unknown setting {setting:?}: expected spam, bulk or suspect = accept, tag, quarantine, defer or reject; \
             or spam_confidence, suspect_confidence or bulk_recipients = a number"
        )
    };
    let (key, value) = setting.split_once('=').ok_or_else(unknown)?;
    let action =
        || Action::deserialize(IntoDeserializer::<ValueError>::into_deserializer(value)).map_err(|_| unknown());
    let confidence = || value.parse().ok().filter(|number| *number <= 100).ok_or_else(unknown);
    let recipients = || value.parse().ok().filter(|number| (1..=RECIPIENTS_MAX).contains(number)).ok_or_else(unknown);
    Ok(match key {
        "spam" => Policy { spam: action()?, ..policy },
        "bulk" => Policy { bulk: action()?, ..policy },
        "suspect" => Policy { suspect: action()?, ..policy },
        "spam_confidence" => Policy { spam_confidence: confidence()?, ..policy },
        "suspect_confidence" => Policy { suspect_confidence: confidence()?, ..policy },
        "bulk_recipients" => Policy { bulk_recipients: Some(recipients()?), ..policy },
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\nAlice@Example.org  spam=reject spam_confidence=95\n\npostmaster@example.org off\n\
        @example.org bulk=defer bulk_recipients=50\n";

    #[test]
    fn the_most_specific_rule_applies() {
        let usual = Policy { spam: Action::Quarantine, ..Policy::default() };
        let rules = Rules::parse(TEXT, usual).unwrap();
        let alice = Rule::Policy(Policy { spam: Action::Reject, spam_confidence: 95, ..usual });
        let domain = Rule::Policy(Policy { bulk: Action::Defer, bulk_recipients: Some(50), ..usual });
        for (address, rule) in [
            ("alice@example.org", alice),
            ("ALICE@example.ORG", alice),
            ("alice+list@example.org", alice),
            ("postmaster@example.org", Rule::Off),
            ("bob@example.org", domain),
            ("bob@example.com", Rule::Policy(usual)),
            ("postmaster", Rule::Policy(usual)),
        ] {
            assert_eq!(**rules.of(address.as_bytes()), rule, "{address}");
        }
    }

    #[test]
    fn lines_that_are_no_rules_are_refused_with_their_number() {
        for (text, expected) in [
            ("\nexample.org off", "line 2: \"example.org\": expected an address or @domain"),
            ("a@b", "line 1: a@b: expected off, or settings"),
            ("a@b spam", "unknown setting \"spam\""),
            ("a@b spam=drop", "unknown setting \"spam=drop\""),
            ("a@b spam_confidence=101", "unknown setting"),
            ("a@b bulk_recipients=0", "unknown setting"),
            ("a@b off\nA@B off", "line 2: the address has a rule already"),
        ] {
            let error = Rules::parse(text, Policy::default()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let mut rules = Rules::new(Policy::default());
        let rule = Arc::new(Rule::Off);
        rules.named = (0..RULES_MAX).map(|number| (number.to_le_bytes().into(), Arc::clone(&rule))).collect();
        let error = rules.add("a@b off", Policy::default()).unwrap_err();
        assert!(error.contains("more than"), "{error}");
    }
}
