//! Accounts and whitelists, for administrators.

use serde::{Deserialize, Serialize};

use super::subject::NamedSignature;

/// A page of the accounts, sorted by protocol and name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountPage {
    /// Accounts on this page.
    pub accounts: Vec<AccountEntry>,
    /// Total number of accounts.
    pub total: u64,
    /// Start of the next page: the value of `?offset=` in the next request. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountEntry {
    /// Protocol: `razor`, `pyzor`, `dcc` or `fuzzy`.
    pub protocol: String,
    /// Name within the protocol.
    pub name: String,
    /// Standing assigned by the operator: `trap`, `own`, `pinned` or `account`.
    pub standing: String,
    /// The account's group, as 16 hex digits. The members of a group count as one voice.
    pub group: String,
    /// True if claims of the account are accepted.
    pub enabled: bool,
    /// Time of registration.
    pub created: u64,
    /// Registrant of the account: `operator`, `itself`, or `unknown` for accounts that are older than this field.
    pub registered_by: String,
    /// Time of the account's last claim. Absent if it has made none since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
    /// Track record of the account's claims. Absent until the first claim is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<AccountTrust>,
}

/// Track record of an account's claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountTrust {
    /// Lower bound for the share of the account's claims that are correct.
    pub precision: f64,
    /// Weight of the account's claims.
    pub weight: f64,
    /// Number of claims confirmed by anchors of other groups. Claims that repeated a listing are not included.
    pub confirmed: u32,
    /// Number of claims refuted by anchors.
    pub refuted: u32,
    /// Number of claims neither confirmed nor refuted.
    pub unconfirmed: u32,
}

/// Track record of an account by the day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountHistory {
    /// Protocol of the account.
    pub protocol: String,
    /// Name within the protocol.
    pub name: String,
    /// Days of the last two years, oldest first. Days before the first settled claim, and days on which the server did
    /// not run, are missing.
    pub days: Vec<AccountDay>,
}

/// Track record of an account at the end of a day, or at present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountDay {
    /// Start of the day in UTC.
    pub start: u64,
    /// Lower bound for the fraction of right claims among the account's claims.
    pub precision: f64,
    /// Weight of the account's claims.
    pub weight: f64,
    /// Number of confirmed claims since the account was registered.
    pub confirmed: u32,
    /// Number of refuted claims since the account was registered.
    pub refuted: u32,
    /// Number of claims neither confirmed nor refuted since the account was registered.
    pub unconfirmed: u32,
}

/// An account to register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Protocol: `razor`, `pyzor` or `dcc`. Key pairs for `fuzzy` can be added only in the server's configuration.
    pub protocol: String,
    /// Name within the protocol; for `dcc` the client number.
    pub name: String,
    /// For `razor` and `dcc`, a password. For `pyzor`, the key that `pyzor genkey` prints after the comma.
    pub secret: String,
    /// Standing assigned by the operator: `trap`, `own`, `pinned` or `account` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// Name of the account's group, whose members count as one voice. By default, the account has a group of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Changes to an account. Properties whose field is absent stay unchanged. The account keeps its identity and the
/// weight that it has earned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountPatch {
    /// Protocol.
    pub protocol: String,
    /// Name within the protocol.
    pub name: String,
    /// New secret, as in [`NewAccount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// True to accept claims of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Standing assigned by the operator, as in [`NewAccount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// Name of the group whose members count as one voice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Identifies an account by protocol and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountName {
    /// Protocol.
    pub protocol: String,
    /// Name within the protocol.
    pub name: String,
}

/// The whitelist: the number of signatures and a page of the senders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whitelist {
    /// Senders: addresses, domains (`example.org`), or all subdomains of a domain (`.example.org`).
    pub senders: Vec<String>,
    /// Total number of senders.
    pub sender_count: u64,
    /// Start of the next page of senders: the value of `?offset=` in the next request. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Number of signatures. They cannot be listed, because only keyed hashes of them are kept.
    pub signature_count: u64,
}

/// A sender or signature to add to or remove from the whitelist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhitelistEntry {
    /// An address, a domain (`example.org`), or all subdomains of a domain (`.example.org`).
    Sender(String),
    /// A signature.
    Signature(NamedSignature),
}

/// The answer to a change, sent once the change is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// True if the request changed anything.
    pub changed: bool,
}

/// The answer to a request to accept the system clock. All times are in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAccepted {
    /// Server time before the request.
    pub before: u64,
    /// Server time after the request. Server time never goes back. If the system clock is behind it, server time stands
    /// still until the system clock catches up.
    pub now: u64,
    /// Time of the system clock.
    pub system: u64,
}

/// A link that signs in to the dashboard once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInLink {
    /// The link, with an address of the server's own machine.
    pub url: String,
    /// Seconds after which the link no longer works.
    pub seconds: u64,
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
