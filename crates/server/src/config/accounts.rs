//! Accounts and tokens as the file names them.

use bruit_engine::accounts::Protocol;
use bruit_engine::accounts::fuzzy::Flags;
use bruit_engine::trust::Standing;
use serde::Deserialize;

use super::{ConfigError, wrong};

/// The bytes of a SHA-256.
const SHA256_BYTES: usize = 32;

/// The shortest token: what can be tried at the speed of HTTP must not be found.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

/// An account that the file names.
#[derive(Clone, Debug)]
pub struct AccountSettings {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its name.
    pub name: String,
    /// What it proves itself with.
    pub secret: AccountSecret,
    /// What the operator knows of it.
    pub standing: Standing,
    /// Whose voice it is, if it is not one by itself.
    pub group: Option<String>,
}

/// What an account proves itself with.
#[derive(Clone)]
pub enum AccountSecret {
    /// Razor's.
    Password(String),
    /// DCC's, with the one that will be.
    Passwords(String, Option<String>),
    /// Pyzor's, in hexadecimal digits.
    Key(String),
    /// The secret half of a key pair of rspamd's fuzzy storage, and the flags that may be written with it.
    KeyPair(String, Flags),
}

impl std::fmt::Debug for AccountSecret {
    /// Keeps the secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("AccountSecret")
    }
}

/// Someone who may do more over HTTP.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is called in the books.
    pub name: String,
    /// The SHA-256 of what a request carries.
    pub sha256: [u8; SHA256_BYTES],
    /// What the operator knows of its holder.
    pub standing: Standing,
    /// Whether its holder may administer the server.
    pub admin: bool,
    /// Whether its holder may see how the server is doing.
    pub monitor: bool,
    /// Whether its holder may have the realm, for a replica.
    pub replica: bool,
    /// Whether its holder may claim on behalf of people it names.
    pub reporters: bool,
}

/// An account as it is written.
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

/// A token as it is written.
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
            |what: &str| wrong(&key, format!("{what} is missing, or something that does not belong here is given"));
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
        protocol.check_name(self.name.as_bytes()).map_err(|error| wrong(&key, error.to_string()))?;
        Ok(AccountSettings { protocol, name: self.name, secret, standing: self.standing.into(), group: self.group })
    }
}

impl RawToken {
    pub(super) fn check(self) -> Result<Token, ConfigError> {
        let key = format!("token {:?}", self.name);
        let sha256 = match (&self.token, &self.sha256) {
            (Some(token), None) if token.len() >= TOKEN_BYTES_MIN => sha256(token.as_bytes()),
            (Some(_), None) => return Err(wrong(&key, format!("a token has at least {TOKEN_BYTES_MIN} characters"))),
            (None, Some(digits)) => {
                bruit_signatures::hex::read(digits).ok_or_else(|| wrong(&key, "sha256 is 64 hexadecimal digits"))?
            }
            _ => return Err(wrong(&key, "either token or sha256")),
        };
        let Self { name, standing, admin, monitor, replica, reporters, .. } = self;
        Ok(Token { name, sha256, standing: standing.into(), admin, monitor, replica, reporters })
    }
}

/// The SHA-256 of a token, which is what is kept of it.
pub(crate) fn sha256(token: &[u8]) -> [u8; SHA256_BYTES] {
    use sha2::Digest as _;
    sha2::Sha256::digest(token).into()
}
