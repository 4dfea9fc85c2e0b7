//! Offers and logs from a web server: another Bruit server, or any host of static files.
//!
//! There are three kinds of URL: `https` with a pinned key, where both sides know each other; `https` with a public
//! certificate, for static hosts; and `http`, for the same machine or network. Segments are signed, so an intermediary
//! can withhold but not change them. [`paths`] lists the paths below the URL. Redirects are not followed.

mod answer;
mod connection;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bruit_engine::exchange::Chain;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, ETAG, HOST, HeaderValue, IF_NONE_MATCH, RANGE, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::{FETCH_BYTES_MAX, OFFER_BYTES_MAX, Offer, Source, TransportError, paths, tls};
use answer::{OpenResponse, Overlong};
use connection::Connector;

/// Maximum time that a server may wait for news before it answers.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Polling interval for hosts that answer at once, such as static hosts.
pub const POLL: Duration = Duration::from_secs(5);

/// Maximum length of an offer's tag.
pub const TAG_BYTES_MAX: usize = 64;

/// Maximum length of a realm file.
const REALM_BYTES_MAX: usize = 4_096;

/// Maximum length of a token.
const TOKEN_BYTES_MAX: usize = 1_024;

/// A source of offers and logs at one URL.
pub struct HttpsSource {
    connector: Connector,
    /// The prefix of all paths, without a trailing slash.
    base: String,
    host: HeaderValue,
    token: Option<HeaderValue>,
    /// The last offer. If it has not changed, the host need not send it again.
    last: Mutex<Option<CachedOffer>>,
}

/// An offer and the tag assigned to it by its host.
#[derive(Clone)]
struct CachedOffer {
    offer: Offer,
    etag: HeaderValue,
}

/// The reason why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a valid URL.
    #[error("{0:?} is not a valid URL; expected one such as https://bruit.example.org:8626")]
    Malformed(String),
    /// The URL is `http`, but a key is pinned.
    #[error("{0:?} does not use encryption, so the server cannot prove its key; use https")]
    NotEncrypted(String),
    /// TLS cannot be set up.
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
    /// The token is invalid.
    #[error("invalid token: expected 1 to {TOKEN_BYTES_MAX} printable characters")]
    Token,
}

impl HttpsSource {
    /// Creates a source for a server with this key. Authenticates with our own key, if `seed` is given.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn pinned(url: &str, key: [u8; 32], seed: Option<&[u8; 32]>) -> Result<Self, UrlError> {
        let config = tls::client_config(seed, key)?;
        let uri = parse(url)?;
        if uri.scheme_str() != Some("https") {
            return Err(UrlError::NotEncrypted(url.to_owned()));
        }
        Self::new(url, &uri, Some(config))
    }

    /// Creates a source for a web server: `https` with a public certificate, or `http` without authentication.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn web(url: &str) -> Result<Self, UrlError> {
        let uri = parse(url)?;
        let is_encrypted = uri.scheme_str() == Some("https");
        let config = is_encrypted.then(tls::web_config).transpose()?;
        Self::new(url, &uri, config)
    }

    /// Adds a token to every request.
    ///
    /// # Errors
    /// [`UrlError::Token`].
    pub fn with_token(mut self, token: &str) -> Result<Self, UrlError> {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return Err(UrlError::Token);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| UrlError::Token)?;
        value.set_sensitive(true);
        self.token = Some(value);
        Ok(self)
    }

    /// Fetches the server's founding file, which contains the realm's secret key. Only authorised clients may read it.
    ///
    /// # Errors
    /// [`TransportError`], for example from static hosts, which should not have the file.
    pub async fn realm(&self) -> Result<Vec<u8>, TransportError> {
        let answer = self.connector.ask(|| self.request(paths::REALM), Duration::ZERO).await?;
        match answer.status() {
            StatusCode::OK => answer.read(0, REALM_BYTES_MAX, Overlong::Refuse).await,
            status => Err(refused(status)),
        }
    }

    fn new(url: &str, uri: &Uri, config: Option<rustls::ClientConfig>) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed(url.to_owned());
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(malformed)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| malformed())?;
        let usual_port = if config.is_some() { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual_port);
        let connector = Connector::new(authority.host(), port, config).ok_or_else(malformed)?;
        let path = uri.path().trim_end_matches('/');
        // A URL without a path means the default path of a Bruit server.
        let base = if path.is_empty() { paths::BASE } else { path }.to_owned();
        Ok(Self { connector, base, host, token: None, last: Mutex::new(None) })
    }

    /// Requests the offer once; the host waits for `wait`, if it supports that.
    async fn ask(&self, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        let known = self.known().filter(|known| known.offer.tag == seen);
        let path = offer_path(seen, wait);
        let request = || {
            let mut request = self.request(&path)?;
            if let Some(known) = &known {
                request.headers_mut().insert(IF_NONE_MATCH, known.etag.clone());
            }
            Ok(request)
        };
        let answer = self.connector.ask(request, wait).await?;
        match (answer.status(), known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => answer.drain().await.map(|()| known.offer),
            (StatusCode::OK, _) => self.take_offer(answer).await,
            (status, _) => Err(refused(status)),
        }
    }

    async fn take_offer(&self, answer: OpenResponse<'_>) -> Result<Offer, TransportError> {
        let etag = answer.header(ETAG).cloned();
        let heads = answer.read(0, OFFER_BYTES_MAX, Overlong::Refuse).await?;
        let offer = Offer { tag: tag(etag.as_ref(), &heads), heads };
        let known = etag.map(|etag| CachedOffer { offer: offer.clone(), etag });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(offer)
    }

    fn known(&self) -> Option<CachedOffer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, TransportError> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(format!("{}/{path}", self.base))
            .header(HOST, self.host.clone())
            .header(USER_AGENT, concat!("bruit/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT_ENCODING, "identity");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        request.body(Empty::new()).map_err(|error| TransportError::Unreachable(error.into()))
    }
}

impl Source for HttpsSource {
    async fn offer(&self, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        let end = Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let offer = self.ask(seen, left.min(WAIT_MAX)).await?;
            let left = end.saturating_duration_since(Instant::now());
            if offer.tag != seen || left.is_zero() {
                return Ok(offer);
            }
            // A host that answers at once without news does not support waiting.
            sleep(left.min(POLL)).await;
        }
    }

    async fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        let path = paths::log(chain);
        let last = offset.saturating_add(FETCH_BYTES_MAX as u64 - 1);
        let request = || {
            let mut request = self.request(&path)?;
            let range = HeaderValue::try_from(format!("bytes={offset}-{last}"));
            request.headers_mut().insert(RANGE, range.map_err(|error| TransportError::Unreachable(error.into()))?);
            Ok(request)
        };
        let answer = self.connector.ask(request, Duration::ZERO).await?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT => {
                answer.ensure_range_begins_at(offset)?;
                answer.read(0, FETCH_BYTES_MAX, Overlong::Refuse).await
            }
            // A host without support for ranges sends everything.
            StatusCode::OK => answer.read(offset, FETCH_BYTES_MAX, Overlong::Leave).await,
            StatusCode::RANGE_NOT_SATISFIABLE => answer.drain().await.map(|()| Vec::new()),
            status => Err(refused(status)),
        }
    }
}

fn parse(url: &str) -> Result<Uri, UrlError> {
    let uri: Option<Uri> = url.parse().ok();
    let is_usable = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none();
    uri.filter(is_usable).ok_or_else(|| UrlError::Malformed(url.to_owned()))
}

/// Returns the path of an offer, with the wait in whole seconds, rounded up.
fn offer_path(seen: &[u8], wait: Duration) -> String {
    if seen.is_empty() {
        return paths::OFFER.to_owned();
    }
    let seconds = wait.as_millis().div_ceil(1_000);
    format!("{}?seen={}&wait={seconds}", paths::OFFER, paths::digits(seen))
}

/// Returns the tag of an offer: its entity tag, or a hash of the contents if it has no usable entity tag.
fn tag(etag: Option<&HeaderValue>, heads: &[u8]) -> Vec<u8> {
    let text = etag.and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    let digits = quoted.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')).unwrap_or_default();
    let named = paths::bytes(digits, TAG_BYTES_MAX).filter(|tag| !tag.is_empty());
    named.unwrap_or_else(|| Sha256::digest(heads).to_vec())
}

/// Returns the error for a response with an unexpected status.
fn refused(status: StatusCode) -> TransportError {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => TransportError::Missing,
        status if status.is_client_error() || status.is_server_error() => TransportError::Refused(status.to_string()),
        status => TransportError::Malformed(format!("status {status}")),
    }
}

#[cfg(test)]
mod tests;
