//! Accounts and tokens in the file.

use bruit_engine::accounts::Protocol;
use bruit_engine::accounts::fuzzy::Flags;
use bruit_engine::trust::Standing;
use serde::Deserialize;

use super::{ConfigError, invalid};

/// Length of a SHA-256 hash.
const SHA256_BYTES: usize = 32;

/// Minimum length of a token. A shorter one could be guessed over HTTP.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

/// An account in the file.
#[derive(Clone, Debug)]
pub struct AccountSettings {
    /// The protocol.
    pub protocol: Protocol,
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: AccountSecret,
    /// The standing assigned by the operator.
    pub standing: Standing,
    /// The group of the account. If unset, the account is a group of its own.
    pub group: Option<String>,
}

/// The secret of an account.
#[derive(Clone)]
pub enum AccountSecret {
    /// A Razor password.
    Password(String),
    /// A DCC password and the next one.
    Passwords(String, Option<String>),
    /// A Pyzor key, in hexadecimal digits.
    Key(String),
    /// The private key for rspamd's fuzzy storage, and the flags of the lists that may be written with it.
    KeyPair(String, Flags),
}

impl std::fmt::Debug for AccountSecret {
    /// Omits the secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("AccountSecret")
    }
}

/// A token, which grants rights over HTTP.
#[derive(Clone, Debug)]
pub struct Token {
    /// The name of the reporter that makes claims with the token.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; SHA256_BYTES],
    /// The standing assigned by the operator.
    pub standing: Standing,
    /// True if the token grants administration.
    pub admin: bool,
    /// True if the token grants access to metrics and statistics.
    pub monitor: bool,
    /// True if the token grants access to the realm, for a replica.
    pub replica: bool,
    /// True if claims with the token may name another reporter.
    pub reporters: bool,
}

/// An account as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAccount {
    protocol: RawProtocol,
    name: String,
    password: Option<String>,
    next_password: Option<String>,
    key: Option<String>,
    secret: Option<String>,
    flags: Option<Vec<u8>>,
    #[serde(default)]
    standing: RawStanding,
    group: Option<String>,
}

/// A token as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawToken {
    name: String,
    token: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    standing: RawStanding,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    monitor: bool,
    #[serde(default)]
    replica: bool,
    #[serde(default)]
    reporters: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawProtocol {
    Razor,
    Pyzor,
    Dcc,
    Fuzzy,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawStanding {
    Trap,
    Own,
    Pinned,
    #[default]
    Account,
}

impl From<RawStanding> for Standing {
    fn from(raw: RawStanding) -> Self {
        match raw {
            RawStanding::Trap => Self::Trap,
            RawStanding::Own => Self::Own,
            RawStanding::Pinned => Self::Pinned,
            RawStanding::Account => Self::Account,
        }
    }
}

impl RawAccount {
    pub(super) fn check(self) -> Result<AccountSettings, ConfigError> {
        let key = format!("account {:?}", self.name);
        let missing =
            |what: &str| invalid(&key, format!("{what} is missing, or an option of another protocol is given"));
        let given = (self.password, self.next_password, self.key, self.secret, self.flags);
        let (protocol, secret) = match (self.protocol, given) {
            (RawProtocol::Razor, (Some(password), None, None, None, None)) => {
                (Protocol::Razor, AccountSecret::Password(password))
            }
            (RawProtocol::Dcc, (Some(password), next, None, None, None)) => {
                (Protocol::Dcc, AccountSecret::Passwords(password, next))
            }
            (RawProtocol::Pyzor, (None, None, Some(key), None, None)) => (Protocol::Pyzor, AccountSecret::Key(key)),
            (RawProtocol::Fuzzy, (None, None, None, Some(secret), flags)) => {
                let flags = flags.map_or(Flags::ALL, |flags| flags.into_iter().collect());
                (Protocol::Fuzzy, AccountSecret::KeyPair(secret, flags))
            }
            (RawProtocol::Razor | RawProtocol::Dcc, _) => return Err(missing("password")),
            (RawProtocol::Pyzor, _) => return Err(missing("key")),
            (RawProtocol::Fuzzy, _) => return Err(missing("secret")),
        };
        protocol.check_name(self.name.as_bytes()).map_err(|error| invalid(&key, error.to_string()))?;
        Ok(AccountSettings { protocol, name: self.name, secret, standing: self.standing.into(), group: self.group })
    }
}

impl RawToken {
    pub(super) fn check(self) -> Result<Token, ConfigError> {
        let key = format!("token {:?}", self.name);
        let sha256 = match (&self.token, &self.sha256) {
            (Some(token), None) if token.len() >= TOKEN_BYTES_MIN => sha256(token.as_bytes()),
            (Some(_), None) => {
                return Err(invalid(&key, format!("token: expected at least {TOKEN_BYTES_MIN} characters")));
            }
            (None, Some(digits)) => bruit_signatures::hex::read(digits)
                .ok_or_else(|| invalid(&key, "sha256: expected 64 hexadecimal digits"))?,
            _ => return Err(invalid(&key, "expected either token or sha256")),
        };
        let Self { name, standing, admin, monitor, replica, reporters, .. } = self;
        Ok(Token { name, sha256, standing: standing.into(), admin, monitor, replica, reporters })
    }
}

/// Returns the SHA-256 of a token. Tokens are stored only in this form.
pub(crate) fn sha256(token: &[u8]) -> [u8; SHA256_BYTES] {
    use sha2::Digest as _;
    sha2::Sha256::digest(token).into()
}
