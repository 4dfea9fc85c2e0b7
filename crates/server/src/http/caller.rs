//! The caller of a request and its rights.
//!
//! An address in the site's own networks grants only checks, reports and revocations. Everything else requires a token,
//! or a connection over the Unix socket, where the kernel identifies the user.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Version;
use axum::http::header::{AUTHORIZATION, HeaderMap, USER_AGENT};
use axum::http::request::Parts;
use bruit_engine::trust::{Reporter, Standing};
use bruit_filters::FingerprintKey;
use bruit_protocols::http::{REPORTER_BYTES_MAX, REPORTER_FIELD, SITE_FIELD, SiteState};

use super::Http;
use super::fault::Fault;
use super::names::{check_host, check_origin};
use super::note::Note;
use super::proxies::{self, Ends};
use crate::admin_token::AdminToken;
use crate::audit::Actor;
use crate::config::{Settings, Token, sha256};
use crate::connections::{Class, Permit};
use crate::service::{Limited, Service};
use crate::sites::Sender;
use crate::sources::Source;

/// The group of all users of the Unix socket.
const LOCAL_USERS: &[u8] = b"local users";

/// The other end of a connection, attached to its requests as an extension.
#[derive(Clone, Copy, Debug)]
pub(super) enum RemoteEnd {
    /// A network connection.
    Network(Ends),
    /// A user of this machine, over the Unix socket.
    User(LocalUser),
}

/// Returns the source of a request.
pub(super) fn source_of(peer: RemoteEnd, version: Version, headers: &HeaderMap, settings: &Settings) -> Source {
    match peer {
        RemoteEnd::Network(ends) => proxies::source(ends, version, headers, settings),
        RemoteEnd::User(_) => Source { address: peer.address(), is_own: proxies::is_direct_local(version, headers) },
    }
}

impl RemoteEnd {
    /// Returns the address, which is loopback for users of the Unix socket.
    pub(super) const fn address(&self) -> IpAddr {
        match self {
            Self::Network(ends) => ends.remote,
            Self::User(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// A user of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalUser {
    pub(super) id: u32,
    /// True if the user is root or the user that runs the server.
    pub(super) is_admin: bool,
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The settings in force when the request arrived.
    pub(super) settings: Arc<Settings>,
    /// The reporter to whom limits and claims are attributed.
    reporter: Reporter,
    source: Source,
    grant: Grant,
    /// The name of the token or of the user at the Unix socket, if there is one.
    name: Option<String>,
    /// The request's log line, if requests are logged.
    pub(super) note: Option<Note>,
    on_behalf: OnBehalf,
}

/// The person on whose behalf a request makes a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OnBehalf {
    /// The request does not name a person.
    Nobody,
    /// A person named by the holder of this token.
    Person { token: String, name: String },
    /// The request names a person, but the caller may not name one.
    Forbidden,
    /// The header is malformed.
    Malformed,
}

/// An operation that needs a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Check,
    Report,
    Revoke,
    /// Teaching good mail.
    Learn,
    /// Reading metrics and statistics.
    Monitor,
    /// Reading the realm's secret, for a replica.
    Realm,
    Administer,
}

/// The rights of a token or a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Grant {
    /// True if checks, reports and revocations are allowed.
    can_use: bool,
    can_monitor: bool,
    can_read_realm: bool,
    can_administer: bool,
}

impl FromRequestParts<Http> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        Self::authenticate(parts, http, shown_token(&parts.headers))
    }
}

impl Caller {
    /// Returns the caller of a request. `shown` is the hash of the request's token, if it has one.
    pub(super) fn authenticate(
        parts: &Parts,
        http: &Http,
        shown: Result<Option<[u8; 32]>, Fault>,
    ) -> Result<Self, Fault> {
        let Some(&peer) = parts.extensions.get::<RemoteEnd>() else { return Err(Fault::broken()) };
        let service = &*http.service;
        let settings = service.settings();
        let source = source_of(peer, parts.version, &parts.headers, &settings);
        let permit = parts.extensions.get::<Arc<Permit>>();
        match Self::of(peer, source, parts, shown, &settings, service).inspect(|caller| caller.prove(permit)) {
            Ok(caller) => {
                let caller = Self { note: Note::of(&parts.extensions), ..caller };
                if let (Some(note), Some(name)) = (&caller.note, &caller.name) {
                    note.set_account(name);
                }
                caller.take(Limited::Request, service)?;
                caller.describe_site(&parts.headers, service);
                Ok(caller)
            }
            // Failed attempts to guess a token count towards the limit on requests.
            Err(fault) if service.admits(&source, Limited::Request, &settings, service.uptime()) => Err(fault),
            Err(_) => Err(Fault::limited("requests")),
        }
    }

    /// Applies the limit on requests to a request whose caller need not be known.
    pub(super) fn admit(parts: &Parts, http: &Http) -> Result<(), Fault> {
        let Some(&peer) = parts.extensions.get::<RemoteEnd>() else { return Err(Fault::broken()) };
        let service = &*http.service;
        let settings = service.settings();
        let source = source_of(peer, parts.version, &parts.headers, &settings);
        let is_admitted = service.admits(&source, Limited::Request, &settings, service.uptime());
        if is_admitted { Ok(()) } else { Err(Fault::limited("requests")) }
    }

    fn of(
        peer: RemoteEnd,
        source: Source,
        parts: &Parts,
        shown: Result<Option<[u8; 32]>, Fault>,
        settings: &Arc<Settings>,
        service: &Service,
    ) -> Result<Self, Fault> {
        check_host(&parts.headers, &settings.http.hosts)?;
        check_origin(&parts.headers)?;
        let key = &service.key;
        let known = shown?.map(|shown| known(&shown, &service.admin_token, settings)).transpose()?;
        let on_behalf = on_behalf(&parts.headers, known.as_ref());
        let (reporter, grant, name) = match (known, peer) {
            (Some(token), _) => (holder(&token, &source, key), Grant::of(&token), Some(token.name)),
            // A proxy that connects to the socket has the rights of the user that runs it, but the proxy's clients have
            // none.
            (None, RemoteEnd::User(user)) if source.is_own => {
                (local_user(user, key), Grant::of_user(user), Some(format!("user {} on this machine", user.id)))
            }
            (None, _) => (source.reporter(key), Grant::default(), None),
        };
        Ok(Self { settings: Arc::clone(settings), reporter, source, grant, name, note: None, on_behalf })
    }

    /// Returns the reporter of a claim: the caller, or the person that the caller named. All persons named with one
    /// token form one group and have the token's standing.
    pub(super) fn claimant(&self, key: &FingerprintKey) -> Result<Reporter, Fault> {
        match &self.on_behalf {
            OnBehalf::Nobody => Ok(self.reporter),
            OnBehalf::Person { token, name } => Ok(Reporter { id: person_id(token, name, key), ..self.reporter }),
            OnBehalf::Forbidden => {
                Err(Fault::forbidden("Bruit-Reporter requires a token with reporters = true in [[http.tokens]]"))
            }
            OnBehalf::Malformed => {
                Err(Fault::malformed("Bruit-Reporter: expected one name of 1 to 256 bytes without control characters"))
            }
        }
    }

    /// Notes the program that a request describes, unless a stranger sent the request.
    fn describe_site(&self, headers: &HeaderMap, service: &Service) {
        let field = headers.get(SITE_FIELD).and_then(|field| field.to_str().ok());
        if let Some(state) = field.and_then(|field| field.parse().ok()) {
            self.note_site(state, headers, service);
        }
    }

    /// Notes a request of a mail site's program, unless a stranger sent it.
    pub(super) fn note_site(&self, state: SiteState, headers: &HeaderMap, service: &Service) {
        if self.is_stranger() {
            return;
        }
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let sender = Sender { name: self.name(), address: self.source.address, agent };
        service.sites.note(state, sender, service.now());
    }

    /// Returns the caller for the audit trail.
    pub(super) fn who(&self) -> Actor<'_> {
        Actor { from: self.source.address, name: self.name.as_deref() }
    }

    /// Returns the name of the token or user, if there is one.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Moves the connection of a token's holder to the class of own users.
    fn prove(&self, permit: Option<&Arc<Permit>>) {
        if let Some(permit) = permit.filter(|_| self.grant.can_use) {
            permit.prove(Class::Own);
        }
    }

    /// Refuses an operation if the caller lacks the right.
    pub(super) fn require(&self, right: Right) -> Result<(), Fault> {
        let rights = &self.settings.http.rights;
        let standing = self.reporter.standing;
        let grant = self.grant;
        let (is_allowed, needed) = match right {
            Right::Check => (grant.can_use || rights.check.includes(standing), USE_NEEDED),
            Right::Report => (grant.can_use || rights.report.includes(standing), USE_NEEDED),
            Right::Revoke => (grant.can_use || rights.revoke.includes(standing), USE_NEEDED),
            Right::Learn => {
                (standing == Standing::Own && (grant.can_use || rights.revoke.includes(standing)), LEARN_NEEDED)
            }
            Right::Monitor => (grant.can_monitor, MONITOR_NEEDED),
            Right::Realm => (grant.can_read_realm, REALM_NEEDED),
            Right::Administer => (grant.can_administer, ADMIN_NEEDED),
        };
        if is_allowed { Ok(()) } else { Err(Fault::forbidden(needed).for_token(self.name.as_deref())) }
    }

    /// Refuses a request that exceeds the caller's limit. Own networks have no limit.
    pub(super) fn take(&self, kind: Limited, service: &Service) -> Result<(), Fault> {
        let what = match kind {
            Limited::Request | Limited::LongerReply => "requests",
            Limited::Costly => "messages to sign (send signatures instead)",
        };
        let is_admitted = match self.reporter.standing {
            Standing::Stranger => service.admits(&self.source, kind, &self.settings, service.uptime()),
            _ if self.source.is_own => true,
            _ => service.admits_hash(self.reporter.id, kind, &self.settings, service.uptime()),
        };
        if is_admitted { Ok(()) } else { Err(Fault::limited(what)) }
    }

    /// Refuses claims about more signatures than the caller's limit allows.
    pub(super) fn take_claims(&self, count: u32, service: &Service) -> Result<(), Fault> {
        let Self { reporter, source, settings, .. } = self;
        let is_admitted = service.admits_claims(reporter, source, count, settings, service.uptime());
        if is_admitted { Ok(()) } else { Err(Fault::limited("reports and revocations")) }
    }

    /// Returns true if the server may learn from the mail that the caller checks. This requires that learning is
    /// enabled and that the caller has the standing `own`.
    pub(super) fn teaches_by_checks(&self) -> bool {
        self.settings.learning.checks && self.reporter.standing == Standing::Own
    }

    /// Returns true if the caller is a stranger.
    pub(super) const fn is_stranger(&self) -> bool {
        matches!(self.reporter.standing, Standing::Stranger)
    }
}

/// Error detail for callers that may not check, report or revoke.
const USE_NEEDED: &str = "this requires a token, or an address in the site's own networks without a proxy";
/// Error detail for callers that may not teach good mail.
const LEARN_NEEDED: &str = "only the site's own users may teach good mail: use a token with \
    `standing = \"own\"`, or connect from the site's own networks without a proxy";
/// Error detail for callers that may not read metrics and statistics.
const MONITOR_NEEDED: &str = "this requires a token with `monitor = true`, or an administrator's token, such as the \
    one in admin.token in the server's data directory (bruit ... --token-file FILE)";
/// Error detail for callers that may not read the realm.
const REALM_NEEDED: &str = "this requires a token with `replica = true`, or an administrator's token, such as the \
    one in admin.token in the server's data directory (bruit ... --token-file FILE)";
/// Error detail for callers that may not make changes.
const ADMIN_NEEDED: &str = "this requires an administrator's token, such as the one in admin.token in the \
    server's data directory (bruit ... --token-file FILE)";

impl Grant {
    /// Returns the rights of a token. Every token grants checks, reports and revocations.
    const fn of(token: &Token) -> Self {
        Self {
            can_use: true,
            can_monitor: token.admin || token.monitor,
            can_read_realm: token.admin || token.replica,
            can_administer: token.admin,
        }
    }

    const fn of_user(user: LocalUser) -> Self {
        Self { can_use: true, can_monitor: user.is_admin, can_read_realm: user.is_admin, can_administer: user.is_admin }
    }
}

/// Returns the reporter for a user of the Unix socket. It is an own user. All users of the socket form one group.
fn local_user(user: LocalUser, key: &FingerprintKey) -> Reporter {
    let id = key.fingerprint(format!("user:{}", user.id).as_bytes()).high();
    Reporter { id, standing: Standing::Own, group: local_users(key) }
}

/// Returns the group of all users of the Unix socket.
pub(super) fn local_users(key: &FingerprintKey) -> u64 {
    key.fingerprint(LOCAL_USERS).high()
}

/// Returns the reporter ID of the holders of a token.
pub(super) fn token_id(name: &str, key: &FingerprintKey) -> u64 {
    key.fingerprint(format!("token:{name}").as_bytes()).high()
}

/// Returns the reporter for the holder of a token. Like an account, a token has the standing `own` if it is used from
/// an own network.
fn holder(token: &Token, source: &Source, key: &FingerprintKey) -> Reporter {
    let id = token_id(&token.name, key);
    let standing = match token.standing {
        Standing::Account | Standing::Stranger if source.is_own => Standing::Own,
        standing => standing,
    };
    Reporter { id, standing, group: id }
}

/// Returns the person named in a request.
fn on_behalf(headers: &HeaderMap, token: Option<&Token>) -> OnBehalf {
    let mut fields = headers.get_all(REPORTER_FIELD).iter();
    let Some(field) = fields.next() else { return OnBehalf::Nobody };
    let Some(token) = token.filter(|token| token.reporters) else { return OnBehalf::Forbidden };
    let name = std::str::from_utf8(field.as_bytes()).map(str::trim).unwrap_or_default();
    let is_name = (1..=REPORTER_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if !is_name || fields.next().is_some() {
        return OnBehalf::Malformed;
    }
    // Ignore case, because a capitalized address means the same person.
    OnBehalf::Person { token: token.name.clone(), name: name.to_lowercase() }
}

/// Returns a person's reporter ID. The hash includes the lengths, so that ("a", "bc") and ("ab", "c") have different
/// IDs.
fn person_id(token: &str, name: &str, key: &FingerprintKey) -> u64 {
    key.fingerprint(format!("person:{}:{token}:{name}", token.len()).as_bytes()).high()
}

/// Returns the hash of the token in a request, if it has one.
pub(super) fn shown_token(headers: &HeaderMap) -> Result<Option<[u8; 32]>, Fault> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let (scheme, shown) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Fault::unknown_token());
    }
    Ok(Some(sha256(shown.trim().as_bytes())))
}

/// Returns the token with this hash. Comparing hashes instead of tokens leaks nothing through timing.
fn known(hash: &[u8; 32], admin: &AdminToken, settings: &Settings) -> Result<Token, Fault> {
    if admin.is(hash) {
        return Ok(AdminToken::as_token(*hash));
    }
    settings.http.tokens.iter().find(|token| token.sha256 == *hash).cloned().ok_or_else(Fault::unknown_token)
}

/// Returns true if the token with this hash exists and may read statistics.
pub(super) fn may_monitor(hash: &[u8; 32], service: &Service) -> bool {
    known(hash, &service.admin_token, &service.settings()).is_ok_and(|token| Grant::of(&token).can_monitor)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;
    use crate::config::Config;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn people_are_named_by_tokens_that_may_and_within_bounds() {
        let name = HeaderName::from_static(REPORTER_FIELD);
        let mut gateway = Token { name: "gateway".into(), reporters: true, ..AdminToken::as_token([0; 32]) };
        let of = |value: &str, token: &Token| on_behalf(&headers(&[(name.clone(), value)]), Some(token));
        let person = |name: &str| OnBehalf::Person { token: "gateway".into(), name: name.into() };
        assert_eq!(of("Ann@Example.org ", &gateway), person("ann@example.org"));
        assert_eq!(of("x", &gateway), person("x"));
        assert_eq!(of(&"x".repeat(256), &gateway), person(&"x".repeat(256)));
        for value in ["", " ", &"x".repeat(257)] {
            assert_eq!(of(value, &gateway), OnBehalf::Malformed, "{value:?}");
        }
        let bytes = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
        let mut two: HeaderMap = [(name.clone(), bytes)].into_iter().collect();
        assert_eq!(on_behalf(&two, Some(&gateway)), OnBehalf::Malformed);
        two.insert(&name, HeaderValue::from_static("ann"));
        two.append(&name, HeaderValue::from_static("bob"));
        assert_eq!(
            on_behalf(&two, Some(&gateway)),
            OnBehalf::Malformed,
            "a claim is made on behalf of one person only"
        );
        assert_eq!(on_behalf(&headers(&[(name.clone(), "ann")]), None), OnBehalf::Forbidden);
        assert_eq!(on_behalf(&headers(&[]), None), OnBehalf::Nobody);
        gateway.reporters = false;
        assert_eq!(of("ann", &gateway), OnBehalf::Forbidden);
    }

    #[test]
    fn people_of_two_tokens_are_two_people() {
        let key = FingerprintKey::new([3; 16]);
        assert_ne!(person_id("a", "b:c", &key), person_id("a:b", "c", &key));
        assert_ne!(person_id("a", "x", &key), person_id("b", "x", &key));
    }

    #[test]
    fn a_token_is_found_by_its_hash() {
        let text = "[[http.tokens]]\nname = \"one\"\ntoken = \"token-of-number-one\"\nmonitor = true\n\
            [[http.tokens]]\nname = \"two\"\ntoken = \"token-of-number-two\"\n";
        let settings = Config::parse(text).unwrap().settings;
        let admin = AdminToken::default();
        let found = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
            shown_token(&headers).and_then(|hash| known(&hash.unwrap(), &admin, &settings)).map(|token| token.name)
        };
        assert_eq!(found("Bearer token-of-number-two").unwrap(), "two");
        assert_eq!(found("bearer token-of-number-one").unwrap(), "one");
        for value in
            ["Bearer token-of-number-three", "Basic token-of-number-two", "token-of-number-two", "Bearer", "Bearer "]
        {
            assert!(found(value).is_err(), "{value}");
        }
        assert!(shown_token(&HeaderMap::new()).unwrap().is_none());
        let grants: Vec<_> = settings.http.tokens.iter().map(Grant::of).collect();
        assert!(grants[0].can_monitor && !grants[0].can_administer && !grants[0].can_read_realm);
        assert!(grants[1].can_use && !grants[1].can_monitor);
    }
}
