//! Accounts and whitelists, for whoever may administer a server.

use serde::{Deserialize, Serialize};

use super::subject::NamedSignature;

/// A page of the accounts, sorted by protocol and name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountPage {
    /// Some of them.
    pub accounts: Vec<AccountEntry>,
    /// All that there are.
    pub total: u64,
    /// Where the next page begins, as `?offset=` of the next request; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountEntry {
    /// Its protocol: `razor`, `pyzor`, `dcc` or `fuzzy`.
    pub protocol: String,
    /// Its name there.
    pub name: String,
    /// What the operator knows of it: `trap`, `own`, `pinned` or `account`.
    pub standing: String,
    /// The group whose members count as one voice, 16 hexadecimal digits.
    pub group: String,
    /// Whether its claims are accepted.
    pub enabled: bool,
    /// When it was registered.
    pub created: u64,
    /// Who registered it: `operator`, `itself`, or `unknown` if it is from before this was kept.
    pub registered_by: String,
    /// When it last claimed something, since the server was started; absent if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
    /// How its claims have fared; absent before one of them was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<AccountTrust>,
}

/// How the claims of an account have fared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountTrust {
    /// The lower bound of how often it is right.
    pub precision: f64,
    /// What its claims weigh.
    pub weight: f64,
    /// Claims that anchors of other groups confirmed, and that were made before it was known.
    pub confirmed: u32,
    /// Claims they refuted.
    pub refuted: u32,
    /// Claims they said nothing of.
    pub unconfirmed: u32,
}

/// An account to be registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Its protocol: `razor`, `pyzor` or `dcc`. Key pairs of `fuzzy` are named in the server's configuration.
    pub protocol: String,
    /// Its name there; for `dcc` the number of the client.
    pub name: String,
    /// A password for `razor` and `dcc`; for `pyzor` the key that `pyzor genkey` prints behind the comma.
    pub secret: String,
    /// What the operator knows of it: `trap`, `own`, `pinned` or `account`, which it is unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// A word for the group whose members count as one voice; a group of its own unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Changes of an account; what is absent stays. It stays the same account, with the weight it has earned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountPatch {
    /// Its protocol.
    pub protocol: String,
    /// Its name there.
    pub name: String,
    /// What it proves itself with from now on, as in [`NewAccount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether its claims are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// What the operator knows of it, as in [`NewAccount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// A word for the group whose members count as one voice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// An account by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountName {
    /// Its protocol.
    pub protocol: String,
    /// Its name there.
    pub name: String,
}

/// What is whitelisted: all signatures, and a page of the senders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whitelist {
    /// Senders: addresses, domains (`example.org`), everything below a domain (`.example.org`).
    pub senders: Vec<String>,
    /// All senders that there are.
    pub sender_count: u64,
    /// Where the next page of senders begins, as `?offset=` of the next request; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// How many signatures there are. Only keyed hashes are kept, so they cannot be listed.
    pub signature_count: u64,
}

/// Something to be put on the whitelist, or to be taken off: a sender or a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhitelistEntry {
    /// An address, `example.org` for everybody there, `.example.org` for everybody below it.
    Sender(String),
    /// A signature.
    Signature(NamedSignature),
}

/// The answer to a change: it is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Whether anything is other than before.
    pub changed: bool,
}

/// The answer to a request to accept the system clock. All times are in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAccepted {
    /// The server's time before.
    pub before: u64,
    /// Its time from now on. It does not go back: if the system clock is behind, time stands still until it has caught up.
    pub now: u64,
    /// The time of the system clock.
    pub system: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_whitelist_is_one_thing() {
        let read = |text: &str| serde_json::from_str::<WhitelistEntry>(text);
        assert_eq!(read(r#"{"sender": ".example.org"}"#).unwrap(), WhitelistEntry::Sender(".example.org".into()));
        let signature = r#"{"signature": {"scheme": "pyzor", "value": "00"}}"#;
        assert!(matches!(read(signature).unwrap(), WhitelistEntry::Signature(named) if named.scheme == "pyzor"));
        for text in [r#"{}"#, r#"{"domain": "example.org"}"#, r#"{"sender": "a", "signature": {}}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
