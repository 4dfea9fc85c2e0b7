//! The settings of the connection to the broker, and of its streams.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ConnectOptions;

/// Maximum length of a secret file.
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Maximum pause between two attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Increase of the pause after each attempt.
const RECONNECT_PAUSE_STEP: Duration = Duration::from_millis(50);
/// Timeout of an attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between pings; two without a reply end the connection.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of replicas that JetStream keeps of a stream.
pub const REPLICAS_MAX: u8 = 5;

/// The broker's addresses and credentials, and the limits of its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    /// Addresses of the broker's servers, such as `nats://127.0.0.1:4222` or `tls://…`; at least one, and the nearest
    /// first.
    pub urls: Vec<String>,
    /// The credentials of this node.
    pub login: Login,
    /// A file with the root certificates for the broker. Without one, the system's root certificates are used.
    pub tls_roots: Option<PathBuf>,
    /// The JetStream domain of the servers that keep the streams, for nodes behind a leaf node. By default, it is the
    /// domain of the connected server.
    pub domain: Option<String>,
    /// Number of the broker's servers that keep each message: 1 to [`REPLICAS_MAX`], preferably odd.
    pub replicas: u8,
    /// Time for which the broker keeps a segment. Nodes that were away for longer ask other nodes.
    pub max_age: Duration,
    /// Maximum number of bytes of segments that the broker keeps. The same limit applies separately to snapshots. The
    /// oldest segments are removed first.
    pub max_bytes: u64,
}

/// The credentials of a node for the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// No credentials, for brokers on loopback.
    #[default]
    Anonymous,
    /// A credentials file as written by `nsc`: a JWT and the seed of its key.
    Credentials(PathBuf),
    /// A file with the seed of an NKey.
    Nkey(PathBuf),
    /// A name, and a file whose first line is the password.
    Password {
        /// User name.
        user: String,
        /// File with the password.
        file: PathBuf,
    },
}

/// The reason why a node cannot start connecting to the broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// An address is missing or malformed.
    #[error("malformed broker address")]
    Address(#[source] io::Error),
    /// A setting is out of range: replicas must be 1 to 5, sizes and ages positive.
    #[error("{0}")]
    Settings(&'static str),
    /// A secret file cannot be read.
    #[error("failed to read {path}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The client library refuses the settings.
    #[error("failed to prepare the connection to the broker")]
    Connect(#[source] async_nats::ConnectError),
}

impl NatsSettings {
    /// Checks that the broker will accept the settings.
    ///
    /// # Errors
    /// [`NatsError::Settings`] or [`NatsError::Address`].
    pub fn check(&self) -> Result<(), NatsError> {
        self.addresses()?;
        let wrong = if self.replicas == 0 || self.replicas > REPLICAS_MAX {
            "the number of replicas must be 1 to 5"
        } else if !self.domain.as_deref().is_none_or(is_word) {
            "a domain may contain only letters, digits, - and _"
        } else if self.max_age.is_zero() {
            "the maximum age of segments must not be zero"
        } else if self.max_bytes == 0 || i64::try_from(self.max_bytes).is_err() {
            "the maximum size of the stream must be at least 1 byte"
        } else {
            return Ok(());
        };
        Err(NatsError::Settings(wrong))
    }

    /// Returns the broker's name in the log: its addresses without user names and passwords.
    #[must_use]
    pub fn name(&self) -> String {
        self.urls.iter().map(|url| without_login(url)).collect::<Vec<_>>().join(", ")
    }

    /// Parses the addresses.
    pub(super) fn addresses(&self) -> Result<Vec<async_nats::ServerAddr>, NatsError> {
        if self.urls.is_empty() {
            return Err(NatsError::Settings("the broker needs an address"));
        }
        self.urls.iter().map(|url| url.parse().map_err(NatsError::Address)).collect()
    }

    /// Returns the options of the client. Reads the secret files, once.
    pub(super) fn options(&self) -> Result<ConnectOptions, NatsError> {
        let options = self.login.options()?;
        let options = match &self.tls_roots {
            Some(path) => options.add_root_certificates(path.clone()).require_tls(true),
            None => options,
        };
        Ok(options
            .name("bruit")
            // A node neither asks itself nor receives its own heads.
            .no_echo()
            .retain_servers_order()
            .retry_on_initial_connect()
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(pause))
    }
}

impl Login {
    fn options(&self) -> Result<ConnectOptions, NatsError> {
        Ok(match self {
            Self::Anonymous => ConnectOptions::new(),
            Self::Credentials(path) => ConnectOptions::with_credentials(&secret(path)?)
                .map_err(|source| NatsError::Secret { path: path.clone(), source })?,
            Self::Nkey(path) => ConnectOptions::with_nkey(first_line(&secret(path)?)),
            Self::Password { user, file } => {
                ConnectOptions::with_user_and_password(user.clone(), first_line(&secret(file)?))
            }
        })
    }
}

/// Returns a URL without user name and password.
fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// Returns true if the text can be a token of a subject.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Returns the pause before the next attempt.
fn pause(attempts: usize) -> Duration {
    let steps = u32::try_from(attempts).unwrap_or(u32::MAX);
    RECONNECT_PAUSE_STEP.saturating_mul(steps).min(RECONNECT_PAUSE_MAX)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn secret(path: &Path) -> Result<String, NatsError> {
    let failed = |source| NatsError::Secret { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > SECRET_BYTES_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any secret")));
    }
    fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> NatsSettings {
        NatsSettings {
            urls: vec!["nats://127.0.0.1:4222".to_owned()],
            login: Login::Anonymous,
            tls_roots: None,
            domain: None,
            replicas: 1,
            max_age: Duration::from_secs(1),
            max_bytes: 1,
        }
    }

    #[test]
    fn a_broker_is_named_without_its_password() {
        let urls = ["nats://anna:pa@ss@10.0.0.1:4222", "tls://broker.example.org"].map(ToOwned::to_owned).to_vec();
        assert_eq!(NatsSettings { urls, ..settings() }.name(), "nats://10.0.0.1:4222, tls://broker.example.org");
    }

    #[test]
    fn settings_at_the_bounds_are_accepted_and_those_beyond_refused() {
        assert!(settings().check().is_ok());
        assert!(NatsSettings { replicas: REPLICAS_MAX, max_bytes: i64::MAX as u64, ..settings() }.check().is_ok());
        assert!(NatsSettings { domain: Some("hub-1".to_owned()), ..settings() }.check().is_ok());
        for wrong in [
            NatsSettings { domain: Some("a.>".to_owned()), ..settings() },
            NatsSettings { domain: Some(String::new()), ..settings() },
            NatsSettings { replicas: 0, ..settings() },
            NatsSettings { replicas: REPLICAS_MAX + 1, ..settings() },
            NatsSettings { max_age: Duration::ZERO, ..settings() },
            NatsSettings { max_bytes: 0, ..settings() },
            NatsSettings { max_bytes: i64::MAX as u64 + 1, ..settings() },
        ] {
            assert!(matches!(wrong.check(), Err(NatsError::Settings(_))), "{wrong:?}");
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        assert!(settings().addresses().is_ok());
        assert!(NatsSettings { urls: Vec::new(), ..settings() }.addresses().is_err());
        assert!(NatsSettings { urls: vec!["nats://[".to_owned()], ..settings() }.addresses().is_err());
    }

    #[test]
    fn a_secret_is_the_first_line_of_a_file_of_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        assert!(matches!(secret(&path), Err(NatsError::Secret { .. })));
        fs::write(&path, "correct horse\nnot this\n").unwrap();
        assert_eq!(first_line(&secret(&path).unwrap()), "correct horse");
        fs::write(&path, vec![b'x'; SECRET_BYTES_MAX as usize]).unwrap();
        assert!(secret(&path).is_ok());
        fs::write(&path, vec![b'x'; SECRET_BYTES_MAX as usize + 1]).unwrap();
        assert!(secret(&path).is_err());
    }

    #[test]
    fn pauses_between_attempts_grow_to_a_second() {
        assert_eq!(pause(1), Duration::from_millis(50));
        assert_eq!(pause(20), RECONNECT_PAUSE_MAX);
        assert_eq!(pause(usize::MAX), RECONNECT_PAUSE_MAX);
    }
}
