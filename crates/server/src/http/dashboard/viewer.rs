//! The viewer of a page: a browser with a session.
//!
//! A session has the rights of the token that opened it, and the token is looked up again for each request. A session
//! therefore ends when its token is removed or replaced. Cookies count only here; the API ignores them.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Method, Version};

use super::super::Http;
use super::super::caller::{Caller, RemoteEnd, Right, may_monitor, source_of};
use super::super::fault::Fault;
use super::super::names::{check_host, check_origin};
use super::super::proxies::{self, Ends};
use super::failure::Failure;
use super::form::Form;
use super::sessions::{SESSION_LIFETIME, form_token};
use crate::config::Settings;

/// The field of a form that contains the session's form token.
pub(super) const FORM_TOKEN_FIELD: &str = "form_token";

/// The header in which a trusted proxy states the protocol that its client used.
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Names of query parameters in which a secret must never be sent, because addresses are stored in histories and logs.
const SECRET_PARAMETERS: [&str; 4] = ["token", "access_token", "password", "session"];

/// The way in which a browser reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// TLS, directly or up to a trusted proxy.
    Encrypted,
    /// Plain HTTP on this machine. The port distinguishes the cookies of several servers.
    Local(u16),
    /// Plain HTTP over a network. Nobody can sign in this way.
    Plain,
}

/// A request by a browser that may not have a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    pub(super) channel: Channel,
    pub(super) address: IpAddr,
}

/// A request by a browser with a session.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) caller: Caller,
    pub(super) can_administer: bool,
    /// The secret of the session.
    secret: String,
    pub(super) form_token: String,
}

impl Channel {
    fn of(peer: RemoteEnd, version: Version, headers: &HeaderMap, settings: &Settings) -> Self {
        let RemoteEnd::Network(ends) = peer else {
            // A proxy may forward requests from a network to the Unix socket.
            let is_local = proxies::is_direct_local(version, headers);
            return if is_local { Self::Local(port(headers)) } else { Self::Plain };
        };
        let Ends { remote, is_tls, .. } = ends;
        let is_proxied = settings.http.trusted_proxies.iter().any(|network| network.contains(&remote.to_canonical()));
        let is_encrypted = headers.get(X_FORWARDED_PROTO).is_some_and(|value| value == "https");
        match (is_tls, is_proxied) {
            (_, true) if is_encrypted => Self::Encrypted,
            (true, false) => Self::Encrypted,
            (false, false) if remote.to_canonical().is_loopback() && proxies::is_direct(ends, version, headers) => {
                Self::Local(port(headers))
            }
            _ => Self::Plain,
        }
    }

    /// Returns the name of the session's cookie. Browsers accept `__Host-` only over TLS, and only from this host.
    fn cookie_name(self) -> Option<String> {
        match self {
            Self::Encrypted => Some("__Host-bruit".to_owned()),
            Self::Local(port) => Some(format!("bruit-{port}")),
            Self::Plain => None,
        }
    }

    /// Returns the header field that stores a session's secret in the browser, or removes it if there is no secret.
    pub(super) fn cookie(self, secret: Option<&str>) -> Option<HeaderValue> {
        let name = self.cookie_name()?;
        let secure = if self == Self::Encrypted { "; Secure" } else { "" };
        let age = secret.map_or(0, |_| SESSION_LIFETIME.as_secs());
        let value = secret.unwrap_or_default();
        let text = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).ok()
    }

    /// Returns the session's secret in a request, if there is exactly one.
    fn secret(self, headers: &HeaderMap) -> Option<String> {
        let name = self.cookie_name()?;
        let fields = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut secrets = pairs.filter(|(of, _)| *of == name).map(|(_, value)| value.to_owned());
        let secret = secrets.next()?;
        secrets.next().is_none().then_some(secret)
    }
}

/// Returns the port that the browser addresses.
fn port(headers: &HeaderMap) -> u16 {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(80)
}

impl Visitor {
    fn of(parts: &Parts, http: &Http) -> Result<Self, Fault> {
        let Some(&peer) = parts.extensions.get::<RemoteEnd>() else { return Err(Fault::broken()) };
        let service = &*http.service;
        let settings = service.settings();
        let source = source_of(peer, parts.version, &parts.headers, &settings);
        check_host(&parts.headers, &settings.http.hosts)?;
        check_query(parts)?;
        check_change(parts)?;
        let channel = Channel::of(peer, parts.version, &parts.headers, &settings);
        Ok(Self { channel, address: source.address })
    }
}

/// Refuses a secret in the address of a page.
fn check_query(parts: &Parts) -> Result<(), Fault> {
    let names = parts.uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let is_secret = |name: &str| SECRET_PARAMETERS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
    if names.into_iter().any(is_secret) {
        return Err(Fault::malformed(
            "the address contains a token. Addresses are stored in browsers and logs: replace the token, and enter the \
             new one in the form",
        ));
    }
    Ok(())
}

/// Refuses a change that does not come from a page of this server. Browsers send `Origin` with every change.
fn check_change(parts: &Parts) -> Result<(), Fault> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    if !parts.headers.contains_key(ORIGIN) {
        return Err(Fault::forbidden("the request does not name the page that it comes from (Origin)"));
    }
    check_origin(&parts.headers)
}

impl FromRequestParts<Http> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Failure> {
        // Without a token, this applies only the limits on requests.
        let visitor = Self::of(parts, http)?;
        Caller::admit(parts, http)?;
        Ok(visitor)
    }
}

impl FromRequestParts<Http> for Viewer {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Failure> {
        let visitor = Self::visit(parts, http)?;
        let Some((secret, token)) = visitor else {
            Caller::admit(parts, http)?;
            return Err(Failure::signed_out(&parts.method));
        };
        let caller = match Caller::authenticate(parts, http, Ok(Some(token))) {
            Ok(caller) => caller,
            // The token was removed or replaced.
            Err(fault) if fault.is_unknown_token() => return Err(Failure::signed_out(&parts.method)),
            Err(fault) => return Err(fault.into()),
        };
        caller.require(Right::Monitor)?;
        let can_administer = caller.require(Right::Administer).is_ok();
        Ok(Self { caller, can_administer, form_token: form_token(&secret), secret })
    }
}

impl Viewer {
    /// Returns the secret and the token of a request's session, if it has one.
    fn visit(parts: &Parts, http: &Http) -> Result<Option<(String, [u8; 32])>, Fault> {
        let visitor = Visitor::of(parts, http)?;
        let service = &http.service;
        let Some(secret) = visitor.channel.secret(&parts.headers) else { return Ok(None) };
        Ok(service.sessions.token(&secret, service.uptime()).map(|token| (secret, token)))
    }

    /// Returns true if the session is still open and its token may still look.
    pub(super) fn is_signed_in(&self, http: &Http) -> bool {
        let service = &http.service;
        let token = service.sessions.token(&self.secret, service.uptime());
        token.is_some_and(|token| may_monitor(&token, service))
    }

    /// Ends the session.
    pub(super) fn sign_out(&self, http: &Http) {
        http.service.sessions.close(&self.secret);
    }

    /// Refuses a form that was not made for this session.
    pub(super) fn check_form(&self, form: &Form) -> Result<(), Fault> {
        if form.text(FORM_TOKEN_FIELD) == self.form_token {
            return Ok(());
        }
        Err(Fault::forbidden("the form belongs to another session: open the page again and repeat the change"))
    }

    /// Refuses a form that was not made for this session, or whose sender may not make changes.
    pub(super) fn check_change(&self, form: &Form) -> Result<(), Fault> {
        self.check_form(form)?;
        self.caller.require(Right::Administer)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::super::super::caller::LocalUser;
    use super::*;
    use crate::config::Config;

    fn channel(remote: &str, is_tls: bool, fields: &[(&str, &str)], config: &str) -> Channel {
        let settings = Config::parse(config).unwrap().settings;
        let remote: IpAddr = remote.parse().unwrap();
        let local = if remote.is_loopback() { remote } else { "192.0.2.1".parse().unwrap() };
        let headers = fields
            .iter()
            .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap()));
        let peer = RemoteEnd::Network(Ends { remote, local, is_tls });
        Channel::of(peer, Version::HTTP_11, &headers.collect(), &settings)
    }

    #[test]
    fn plain_http_is_accepted_only_on_this_machine_and_from_no_proxy() {
        let host = ("host", "127.0.0.1:8625");
        assert_eq!(channel("127.0.0.1", false, &[host], ""), Channel::Local(8625));
        assert_eq!(channel("::1", false, &[("host", "localhost:9")], ""), Channel::Local(9));
        assert_eq!(channel("192.0.2.7", true, &[("host", "192.0.2.1")], ""), Channel::Encrypted);
        for fields in [
            &[("host", "bruit.example.org")][..],
            &[host, ("via", "1.1 proxy")],
            &[host, ("x-forwarded-for", "192.0.2.7")],
            &[host, ("x-forwarded-proto", "https")],
        ] {
            assert_eq!(channel("127.0.0.1", false, fields, ""), Channel::Plain, "{fields:?}");
        }
        let own = "own_networks = [\"192.0.2.0/24\"]";
        assert_eq!(
            channel("192.0.2.7", false, &[("host", "192.0.2.1")], own),
            Channel::Plain,
            "also from own networks"
        );
    }

    #[test]
    fn a_proxy_on_the_unix_socket_makes_nobody_local() {
        let user = RemoteEnd::User(LocalUser { id: 0, is_admin: true });
        let channel = |name: &'static str, value: &str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())]);
            Channel::of(user, Version::HTTP_11, &headers, &Config::default().settings)
        };
        assert_eq!(channel("host", "localhost:8625"), Channel::Local(8625));
        assert_eq!(channel("host", "bruit.example.org"), Channel::Plain);
        assert_eq!(channel("x-forwarded-for", "192.0.2.7"), Channel::Plain);
    }

    #[test]
    fn a_trusted_proxy_states_whether_its_client_uses_tls() {
        let trusted = "[http]\ntrusted_proxies = [\"127.0.0.1/32\"]";
        let fields =
            |proto| [("host", "bruit.example.org"), ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", proto)];
        assert_eq!(channel("127.0.0.1", false, &fields("https"), trusted), Channel::Encrypted);
        assert_eq!(channel("127.0.0.1", false, &fields("http"), trusted), Channel::Plain);
        assert_eq!(channel("127.0.0.1", true, &fields("http"), trusted), Channel::Plain);
        assert_eq!(channel("127.0.0.1", false, &[("host", "127.0.0.1")], trusted), Channel::Plain);
    }

    #[test]
    fn a_cookie_is_bound_to_the_host_and_hidden_from_scripts() {
        let cookie = |channel: Channel, secret| channel.cookie(secret).unwrap().to_str().unwrap().to_owned();
        let common = "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict";
        assert_eq!(cookie(Channel::Encrypted, Some("ab")), format!("__Host-bruit=ab; {common}; Secure"));
        assert_eq!(cookie(Channel::Local(8625), Some("ab")), format!("bruit-8625=ab; {common}"));
        assert!(cookie(Channel::Local(1), None).starts_with("bruit-1=; Path=/; Max-Age=0;"));
        assert!(Channel::Plain.cookie(Some("ab")).is_none());
    }

    #[test]
    fn a_session_is_read_from_the_cookie_of_its_channel_and_only_if_there_is_one() {
        let secret = |channel: Channel, cookie: &str| {
            channel.secret(&HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())]))
        };
        let local = Channel::Local(8625);
        assert_eq!(secret(local, "a=b; bruit-8625=xy; c=d").as_deref(), Some("xy"));
        for cookie in ["bruit-8626=xy", "__Host-bruit=xy", "bruit-8625=x; bruit-8625=y", "bruit-8625", ""] {
            assert_eq!(secret(local, cookie), None, "{cookie}");
        }
        assert_eq!(secret(Channel::Plain, "__Host-bruit=xy; bruit-8625=xy"), None);
    }

    #[test]
    fn secrets_in_addresses_and_changes_from_elsewhere_are_refused() {
        let parts = |method: &str, uri: &str, origin: Option<&str>| {
            let mut request = Request::builder().method(method).uri(uri).header(HOST, "127.0.0.1:8625");
            if let Some(origin) = origin {
                request = request.header(ORIGIN, origin);
            }
            request.body(()).unwrap().into_parts().0
        };
        for query in ["token=x", "a=b&Token=", "access_token", "session=1"] {
            assert!(check_query(&parts("GET", &format!("/?{query}"), None)).is_err(), "{query}");
        }
        assert!(check_query(&parts("GET", "/sign-in?link=x", None)).is_ok());
        assert!(check_change(&parts("GET", "/", Some("http://evil.example"))).is_ok(), "a link on another page");
        assert!(check_change(&parts("POST", "/", Some("http://127.0.0.1:8625"))).is_ok());
        for origin in [None, Some("null"), Some("http://evil.example"), Some("http://127.0.0.1:8626")] {
            assert!(check_change(&parts("POST", "/", origin)).is_err(), "{origin:?}");
        }
    }
}
