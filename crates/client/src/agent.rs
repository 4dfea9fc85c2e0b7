//! Settings and errors that all HTTP clients share.

use std::error::Error as _;
use std::io;

use ureq::Agent;
use ureq::http::Uri;

/// Maximum number of characters quoted in an error message, from a response or from an underlying error.
const SHOWN_CHARS_MAX: usize = 300;

/// The reason why there is no response.
pub(crate) enum NoAnswer {
    /// The request took longer than the timeout.
    TimedOut,
    /// The connection failed or was lost.
    Unreachable(String),
    /// The response is not valid HTTP, or too long.
    Malformed(String),
}

/// Creates an agent that ignores redirects and proxies, so that requests go only to the given server. The agent has no
/// time limit; each request has its own.
pub(crate) fn new() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("bruit/", env!("CARGO_PKG_VERSION")));
    config.build().new_agent()
}

impl From<ureq::Error> for NoAnswer {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Timeout(_) => Self::TimedOut,
            ureq::Error::Io(error) => Self::of_io(&error),
            ureq::Error::HostNotFound => Self::Unreachable("host not found".into()),
            ureq::Error::ConnectionFailed | ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
                Self::Unreachable(error.to_string())
            }
            error => Self::Malformed(shown(&error.to_string())),
        }
    }
}

impl NoAnswer {
    /// Converts an I/O error. For a truncated body, ureq returns an I/O error that wraps one of ureq's own errors.
    fn of_io(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        if error.kind() == io::ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_))) {
            return Self::TimedOut;
        }
        let cause = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
        Self::Unreachable(shown(&cause))
    }
}

/// Returns true if `text` is a valid HTTP base URL.
pub(crate) fn is_address(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    let has_name = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    is_known && has_host && !has_name && uri.query().is_none() && !text.contains('#')
}

/// Truncates a text for an error message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
