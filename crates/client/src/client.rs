//! An HTTP client for one server, with a connection pool.

use std::time::Duration;

use bruit_protocols::http::{
    AccountEntry, AccountName, AccountPage, AccountPatch, Checked, Claimed, ClockAccepted, Counted, Done, Explained,
    IDEMPOTENCY_BYTES_MAX, IDEMPOTENCY_FIELD, JSON, LearnAnswer, NewAccount, NewPeer, PROBLEM_JSON, PeerName, Peers,
    Problem, REPORTER_BYTES_MAX, REPORTER_FIELD, Ready, SITE_FIELD, SignInLink, SiteState, Stats, Subject, Whitelist,
    WhitelistEntry,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};
use ureq::http::{HeaderValue, Method, Request, Response};
use ureq::{Agent, AsSendBody, Body};

use crate::agent::{self, NoAnswer, is_address, shown};
use crate::error::ClientError;

/// Maximum length of a response body.
pub const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A client for one server.
///
/// It ignores redirects and proxies, so requests go only to that server.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// The base URL, without a trailing slash.
    server: String,
    /// The value of the `Authorization` header.
    authorization: Option<String>,
    /// The reporter on whose behalf claims are made.
    reporter: Option<HeaderValue>,
    /// The idempotency key for counts and claims.
    idempotency_key: Option<HeaderValue>,
    /// The description of the program, for the server's operator.
    site: Option<HeaderValue>,
    timeout: Duration,
}

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Number of recipients to count before the check.
    pub recipients: Option<u32>,
    /// The recipient count at which a message is bulk. Overrides the server's threshold.
    pub bulk_threshold: Option<u32>,
}

impl Client {
    /// Creates a client for the server at `url`. Requests contain `token`, if it is given. `timeout` is the time limit
    /// for a whole request, from the name lookup to the last byte of the response.
    ///
    /// # Errors
    /// Returns [`ClientError::Address`] or [`ClientError::Token`] if `url` or `token` is invalid. No connection is made
    /// yet.
    pub fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self, ClientError> {
        let server = url.trim_end_matches('/').to_owned();
        if !is_address(&server) {
            return Err(ClientError::Address(url.to_owned()));
        }
        if token.is_some_and(|token| token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(ClientError::Token);
        }
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Self {
            agent: agent::new(),
            server,
            authorization,
            reporter: None,
            idempotency_key: None,
            site: None,
            timeout,
        })
    }

    /// Sets the reporter on whose behalf claims are made.
    ///
    /// # Errors
    /// Returns [`ClientError::Reporter`] if the name is invalid.
    pub fn with_reporter(self, name: &str) -> Result<Self, ClientError> {
        let name = name.trim();
        let is_name = (1..=REPORTER_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        let value = HeaderValue::from_bytes(name.as_bytes()).ok().filter(|_| is_name).ok_or(ClientError::Reporter)?;
        Ok(Self { reporter: Some(value), ..self })
    }

    /// Sets the idempotency key for counts and claims. A server does not count a request whose key it has already seen.
    ///
    /// # Errors
    /// Returns [`ClientError::IdempotencyKey`] if the key is invalid.
    pub fn with_idempotency_key(self, name: &str) -> Result<Self, ClientError> {
        let is_name =
            (1..=IDEMPOTENCY_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::from_str(name).ok().filter(|_| is_name).ok_or(ClientError::IdempotencyKey)?;
        Ok(Self { idempotency_key: Some(value), ..self })
    }

    /// Describes the program to the server's operator.
    #[must_use]
    pub fn with_site(self, state: SiteState) -> Self {
        Self { site: HeaderValue::from_str(&state.to_string()).ok(), ..self }
    }

    /// Sets another time limit for a whole request. Connections are shared with the client that this one was cloned
    /// from.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns the time limit for a whole request.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the server's base URL.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Checks a message.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn check(&self, subject: &Subject) -> Result<Checked, ClientError> {
        self.send(Method::POST, "/v1/check", subject)
    }

    /// Checks a message. With `options`, recipients are counted first, or the threshold is overridden.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn check_with(&self, subject: &Subject, options: CheckOptions) -> Result<Checked, ClientError> {
        let given = [("recipients", options.recipients), ("bulk_threshold", options.bulk_threshold)];
        let given = given.iter().filter_map(|(name, number)| number.map(|number| format!("{name}={number}")));
        let query = given.collect::<Vec<_>>().join("&");
        let path = if query.is_empty() { "/v1/check".to_owned() } else { format!("/v1/check?{query}") };
        self.send(Method::POST, &path, subject)
    }

    /// Counts the recipients of a message.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the recipients were not counted, or if the result is unknown.
    pub fn count(&self, subject: &Subject, recipients: u32) -> Result<Counted, ClientError> {
        self.send(Method::POST, &format!("/v1/count?recipients={recipients}"), subject)
    }

    /// Reports a message as spam.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the claim was not accepted, or if the result is unknown.
    pub fn report(&self, subject: &Subject) -> Result<Claimed, ClientError> {
        self.send(Method::POST, "/v1/report", subject)
    }

    /// Revokes a message: claims that it is not spam.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the claim was not accepted, or if the result is unknown.
    pub fn revoke(&self, subject: &Subject) -> Result<Claimed, ClientError> {
        self.send(Method::POST, "/v1/revoke", subject)
    }

    /// Teaches the server that a message is good.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the message was not learned, or if the result is unknown.
    pub fn learn(&self, subject: &Subject) -> Result<LearnAnswer, ClientError> {
        self.send(Method::POST, "/v1/learn", subject)
    }

    /// Explains the verdict on a message.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn explain(&self, subject: &Subject) -> Result<Explained, ClientError> {
        self.send(Method::POST, "/v1/explain", subject)
    }

    /// Sends a request that only describes the program, so that the server's operator sees it without mail.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn announce(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, "/v1/health", ()).map_err(|cause| self.malformed(cause))?;
        self.body(self.run(request)).map(drop)
    }

    /// Returns the server's statistics.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.get("/v1/stats")
    }

    /// Returns the active conditions of the server, if it accepts reports. A server with a severe condition refuses the
    /// request.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the server accepts no reports, or if there is no valid response.
    pub fn ready(&self) -> Result<Ready, ClientError> {
        let request = self.request(Method::GET, "/v1/ready", ()).map_err(|cause| self.malformed(cause))?;
        let body = self.body(self.run(request))?;
        // A healthy server returns an empty body.
        if body.is_empty() {
            return Ok(Ready::default());
        }
        serde_json::from_slice(&body).map_err(|cause| self.malformed(cause))
    }

    /// Returns the server's peers and the state of each exchange.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn peers(&self) -> Result<Peers, ClientError> {
        self.get("/v1/peers")
    }

    /// Makes the server accept its system clock after a jump.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the server did not accept its clock, or if the result is unknown.
    pub fn accept_clock(&self) -> Result<ClockAccepted, ClientError> {
        self.send(Method::POST, "/v1/clock/accept", &())
    }

    /// Downloads the server's realm file, which contains the realm's secret key.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn realm(&self) -> Result<Vec<u8>, ClientError> {
        let request = self.request(Method::GET, "/v1/federation/realm", ()).map_err(|cause| self.malformed(cause))?;
        self.body(self.run(request))
    }

    /// Creates a link that signs in to the server's dashboard once.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the server created no link.
    pub fn sign_in_link(&self) -> Result<SignInLink, ClientError> {
        self.send(Method::POST, "/v1/dashboard/link", &())
    }

    /// Returns a page of the whitelist, starting at the sender with index `offset`.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn whitelist(&self, offset: u64) -> Result<Whitelist, ClientError> {
        self.get(&format!("/v1/whitelist?offset={offset}"))
    }

    /// Forgets a server: removes all its data, and refuses its data from then on. Returns once the decision is on disk;
    /// the data is removed afterwards.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn forget_peer(&self, named: &PeerName) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/peers/forget", named)
    }

    /// Accepts the data of a forgotten server again.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn restore_peer(&self, named: &PeerName) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/peers/restore", named)
    }

    /// Adds a peer while the server runs.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn add_peer(&self, new: &NewPeer) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/peers", new)
    }

    /// Removes a peer that was added while the server ran.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn remove_peer(&self, named: &PeerName) -> Result<Done, ClientError> {
        self.send(Method::DELETE, "/v1/peers", named)
    }

    /// Pauses a peer: the server requests no data from the peer until the peer is resumed or the server restarts.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn pause_peer(&self, named: &PeerName) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/peers/pause", named)
    }

    /// Resumes a paused peer: the server requests its data again.
    ///
    /// # Errors
    /// [`ClientError`] if the change failed, or if the result is unknown.
    pub fn resume_peer(&self, named: &PeerName) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/peers/resume", named)
    }

    /// Adds an entry to the whitelist.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the change failed, or if the result is unknown.
    pub fn add_to_whitelist(&self, entry: &WhitelistEntry) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/whitelist", entry)
    }

    /// Removes an entry from the whitelist.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the change failed, or if the result is unknown.
    pub fn remove_from_whitelist(&self, entry: &WhitelistEntry) -> Result<Done, ClientError> {
        self.send(Method::DELETE, "/v1/whitelist", entry)
    }

    /// Returns a page of the accounts, starting at the account with index `offset`.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response.
    pub fn accounts(&self, offset: u64) -> Result<AccountPage, ClientError> {
        self.get(&format!("/v1/accounts?offset={offset}"))
    }

    /// Returns one account.
    ///
    /// # Errors
    /// Returns [`ClientError`] if there is no valid response, or if the account does not exist.
    pub fn account(&self, named: &AccountName) -> Result<AccountEntry, ClientError> {
        let AccountName { protocol, name } = named;
        let path = format!("/v1/accounts?protocol={}&name={}", percent_encoded(protocol), percent_encoded(name));
        let page: AccountPage = self.get(&path)?;
        page.accounts.into_iter().next().ok_or_else(|| self.malformed("it does not contain the account"))
    }

    /// Registers an account.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the change failed, or if the result is unknown.
    pub fn add_account(&self, new: &NewAccount) -> Result<Done, ClientError> {
        self.send(Method::POST, "/v1/accounts", new)
    }

    /// Changes an account.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the change failed, or if the result is unknown.
    pub fn update_account(&self, patch: &AccountPatch) -> Result<Done, ClientError> {
        self.send(Method::PATCH, "/v1/accounts", patch)
    }

    /// Removes an account.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the change failed, or if the result is unknown.
    pub fn remove_account(&self, named: &AccountName) -> Result<Done, ClientError> {
        self.send(Method::DELETE, "/v1/accounts", named)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path, ()).map_err(|cause| self.malformed(cause))?;
        self.answer(self.run(request))
    }

    fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|cause| self.malformed(cause))?;
        let request = self.request(method, path, body).map_err(|cause| self.malformed(cause))?;
        self.answer(self.run(request))
    }

    fn run<B: AsSendBody>(&self, request: Request<B>) -> Result<Response<Body>, ureq::Error> {
        let configured = self.agent.configure_request(request).timeout_global(Some(self.timeout));
        self.agent.run(configured.allow_non_standard_methods(true).build())
    }

    fn request<B>(&self, method: Method, path: &str, body: B) -> Result<Request<B>, ureq::http::Error> {
        let mut request = Request::builder().method(&method).uri(format!("{}{path}", self.server));
        if method != Method::GET {
            request = request.header(CONTENT_TYPE, JSON);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(reporter) = &self.reporter {
            request = request.header(REPORTER_FIELD, reporter);
        }
        if let Some(name) = &self.idempotency_key {
            request = request.header(IDEMPOTENCY_FIELD, name);
        }
        if let Some(site) = &self.site {
            request = request.header(SITE_FIELD, site);
        }
        request.body(body)
    }

    fn answer<T: DeserializeOwned>(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body(answer)?).map_err(|cause| self.malformed(cause))
    }

    fn body(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<Vec<u8>, ClientError> {
        let mut answer = answer.map_err(|error| self.failure(error))?;
        // ureq fails as soon as a read reaches the limit, so allow one byte more than the longest valid body.
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX + 1).read_to_vec();
        let body = body.map_err(|error| self.failure(error))?;
        if !answer.status().is_success() {
            return Err(ClientError::Refused { server: self.server.clone(), problem: problem(&answer, &body) });
        }
        Ok(body)
    }

    fn failure(&self, error: ureq::Error) -> ClientError {
        let server = self.server.clone();
        match error.into() {
            NoAnswer::TimedOut => ClientError::TimedOut { server, timeout: self.timeout },
            NoAnswer::Unreachable(cause) => ClientError::Unreachable { server, cause },
            NoAnswer::Malformed(cause) => ClientError::Malformed { server, cause },
        }
    }

    fn malformed(&self, cause: impl std::fmt::Display) -> ClientError {
        ClientError::Malformed { server: self.server.clone(), cause: shown(&cause.to_string()) }
    }
}

/// Returns the problem that a refusal describes. If the refusal comes from a proxy in front of the server, only its
/// status is known.
fn problem(answer: &Response<Body>, body: &[u8]) -> Problem {
    let status = answer.status();
    let is_problem =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PROBLEM_JSON.as_bytes()));
    let told = serde_json::from_slice::<Problem>(body).ok().filter(|_| is_problem);
    let told = told.map(|told| Problem { title: shown(&told.title), detail: shown(&told.detail), ..told });
    told.unwrap_or_else(|| {
        Problem::new(
            status.as_u16(),
            &format!("HTTP status {}", status.as_u16()),
            status.canonical_reason().unwrap_or("no reason given"),
        )
    })
}

/// Percent-encodes a text for use in a query.
fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_tokens_are_looked_at_before_anything_is_sent() {
        let client = |url: &str, token| Client::new(url, token, Duration::from_secs(1));
        for url in ["http://127.0.0.1:8625", "https://bruit.example.org/spam/", "http://[::1]:8625/", "http://a"] {
            assert!(client(url, Some("t0ken")).is_ok(), "{url}");
        }
        assert_eq!(client("http://a/b//", None).unwrap().server(), "http://a/b");
        for url in
            ["", "127.0.0.1:8625", "ftp://a", "http://", "http://a?b", "http://u:p@a", "http://a#b", "http://a b"]
        {
            assert!(matches!(client(url, None), Err(ClientError::Address(_))), "{url}");
        }
        let reporter = |name: &str| client("http://a", None).unwrap().with_reporter(name);
        assert!(reporter("ann@example.org").is_ok() && reporter(&"x".repeat(256)).is_ok() && reporter("Zoë").is_ok());
        for name in ["", " ", "a\r\nX: y", &"x".repeat(257)] {
            assert!(matches!(reporter(name), Err(ClientError::Reporter)), "{name:?}");
        }
        let named = |name: &str| client("http://a", None).unwrap().with_idempotency_key(name);
        assert!(named("4Zk1x2").is_ok() && named(&"x".repeat(128)).is_ok());
        for name in ["", "a b", "a\r\nX: y", "ä", &"x".repeat(129)] {
            assert!(matches!(named(name), Err(ClientError::IdempotencyKey)), "{name:?}");
        }
        for token in ["", "a b", "a\r\nX: y", "ä"] {
            assert!(matches!(client("http://a", Some(token)), Err(ClientError::Token)), "{token:?}");
        }
    }

    /// The request for the readiness of a server once had no time limit.
    #[test]
    fn a_silent_server_is_not_waited_for_when_asked_whether_it_is_ready() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::new(&url, None, Duration::from_millis(50)).unwrap();
        let (sender, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(client.ready()));
        let answer = answer.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(matches!(answer, Err(ClientError::TimedOut { .. })), "{answer:?}");
    }
}
