//! Who asks, and what they may.
//!
//! Whoever comes from the site's own networks is one of its own users, without a token. That makes every browser there a way
//! in for pages of strangers, so a request must name the server by an address or a name of its own (against names that lead
//! to us by a trick of DNS), and must not come from a page of another site. And it makes a proxy on this machine a way in for
//! everybody, so what came through a proxy is a stranger's unless it has a token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::request::Parts;
use bruit_engine::trust::{Reporter, Standing};
use bruit_filters::FingerprintKey;

use super::Http;
use super::fault::Fault;
use crate::config::{Settings, Token, sha256};
use crate::service::{Limited, Service};
use crate::sources::Source;

/// What browsers say about the page a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The other end of a connection, as an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The settings in force when they asked.
    pub(super) settings: Arc<Settings>,
    pub(super) reporter: Reporter,
    source: Source,
    grant: Grant,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Check,
    Report,
    Revoke,
    Administer,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant {
    /// There is none.
    None,
    Use,
    Admin,
}

impl FromRequestParts<Http> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let Some(&Peer(peer)) = parts.extensions.get() else { return Err(Fault::broken()) };
        let (service, headers) = (&*http.service, &parts.headers);
        let settings = service.settings();
        let source = source(peer, headers, &settings);
        match Self::of(source, headers, &settings, &service.key) {
            Ok(caller) => caller.take(Limited::Request, service).map(|()| caller),
            // To guess costs as much as to ask.
            Err(fault) if service.admits(&source, Limited::Request, &settings, service.uptime()) => Err(fault),
            Err(_) => Err(Fault::limited("requests")),
        }
    }
}

/// Where a request comes from: not from here, if somebody sent it on, or all are sent on.
fn source(address: IpAddr, headers: &HeaderMap, settings: &Settings) -> Source {
    let mut source = Source::new(address, &settings.own_networks);
    source.is_own &= !settings.http.behind_proxy && !headers.keys().any(is_of_proxy);
    source
}

/// Whether a field is one that proxies add.
fn is_of_proxy(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
}

impl Caller {
    fn of(source: Source, headers: &HeaderMap, settings: &Arc<Settings>, key: &FingerprintKey) -> Result<Self, Fault> {
        check_host(headers, &settings.http.hosts)?;
        check_origin(headers)?;
        let token = token(headers, &settings.http.tokens)?;
        let reporter = token.map_or_else(|| source.reporter(key), |token| holder(token, &source, key));
        let grant = token.map_or(Grant::None, |token| if token.admin { Grant::Admin } else { Grant::Use });
        Ok(Self { settings: Arc::clone(settings), reporter, source, grant })
    }

    /// Refuses what the caller may not do. Whoever has a token may ask, report and revoke: that is what it was given for.
    pub(super) fn require(&self, right: Right) -> Result<(), Fault> {
        let rights = &self.settings.http.rights;
        let (who, is_granted) = match right {
            Right::Check => (rights.check, self.grant != Grant::None),
            Right::Report => (rights.report, self.grant != Grant::None),
            Right::Revoke => (rights.revoke, self.grant != Grant::None),
            Right::Administer => (rights.admin, self.grant == Grant::Admin),
        };
        if is_granted || who.includes(self.reporter.standing) {
            return Ok(());
        }
        Err(Fault::forbidden("this needs a token with more rights, or an address in the site's own networks"))
    }

    /// Refuses what is more than the caller may ask for. The site's own networks may ask for anything.
    pub(super) fn take(&self, kind: Limited, service: &Service) -> Result<(), Fault> {
        let what = match kind {
            Limited::Request | Limited::LongerReply => "requests",
            Limited::Costly => "messages that the server has to sign: send signatures instead",
        };
        let is_admitted = match self.reporter.standing {
            Standing::Stranger => service.admits(&self.source, kind, &self.settings, service.uptime()),
            _ if self.source.is_own => true,
            _ => service.admits_hash(self.reporter.id, kind, &self.settings, service.uptime()),
        };
        if is_admitted { Ok(()) } else { Err(Fault::limited(what)) }
    }

    /// Refuses claims about more signatures than the caller may make.
    pub(super) fn take_claims(&self, count: u32, service: &Service) -> Result<(), Fault> {
        let Self { reporter, source, settings, .. } = self;
        let is_admitted = service.admits_claims(reporter, source, count, settings, service.uptime());
        if is_admitted { Ok(()) } else { Err(Fault::limited("reports and revocations")) }
    }

    /// Whether nobody vouches for the caller.
    pub(super) const fn is_stranger(&self) -> bool {
        matches!(self.reporter.standing, Standing::Stranger)
    }
}

/// Who has a token. As with accounts, one that is used from an own network is one of the site's own users.
fn holder(token: &Token, source: &Source, key: &FingerprintKey) -> Reporter {
    let id = key.fingerprint(format!("token:{}", token.name).as_bytes()).high();
    let standing = match token.standing {
        Standing::Account | Standing::Stranger if source.is_own => Standing::Own,
        standing => standing,
    };
    Reporter { id, standing, group: id }
}

/// The token that a request carries, if it carries one.
fn token<'t>(headers: &HeaderMap, tokens: &'t [Token]) -> Result<Option<&'t Token>, Fault> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let (scheme, shown) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Fault::unknown_token());
    }
    // What is compared are hashes, so that the time it takes tells nothing of a token.
    let hash = sha256(shown.trim().as_bytes());
    tokens.iter().find(|token| token.sha256 == hash).map(Some).ok_or_else(Fault::unknown_token)
}

/// Refuses names of the server that are not its own. Only addresses cannot be made to lead here by somebody else's DNS.
fn check_host(headers: &HeaderMap, own: &[String]) -> Result<(), Fault> {
    for value in headers.get_all(HOST) {
        let host = value.to_str().map(host_of).unwrap_or_default();
        let is_own = own.iter().any(|name| name.eq_ignore_ascii_case(host));
        if !is_own && !host.eq_ignore_ascii_case("localhost") && host.parse::<IpAddr>().is_err() {
            return Err(Fault::misdirected("this server has another name: hosts in its configuration has its names"));
        }
    }
    Ok(())
}

/// A host without its port, and an IPv6 address without its brackets.
fn host_of(text: &str) -> &str {
    if let Some(bracketed) = text.strip_prefix('[') {
        return bracketed.split_once(']').map_or("", |(host, _)| host);
    }
    text.rsplit_once(':').map_or(text, |(host, _)| host)
}

/// Refuses what a page of another site sends from somebody's browser.
fn check_origin(headers: &HeaderMap) -> Result<(), Fault> {
    let is_other_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host));
    let is_foreign = headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(is_own));
    if is_other_site || is_foreign {
        return Err(Fault::forbidden("requests of other sites' pages are not answered"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_server_is_named_by_addresses_and_its_own_names() {
        let own = ["bruit.example.org".to_owned()];
        for host in [
            "127.0.0.1:8625",
            "[::1]:8625",
            "[::1]",
            "192.0.2.1",
            "localhost:1",
            "Bruit.Example.org",
            "bruit.example.org:443",
        ] {
            assert!(check_host(&headers(&[(HOST, host)]), &own).is_ok(), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:8625",
            "evil.example:127.0.0.1",
            "[evil",
            "localhost.evil.example",
        ] {
            assert!(check_host(&headers(&[(HOST, host)]), &own).is_err(), "{host}");
        }
        assert!(check_host(&headers(&[]), &own).is_ok(), "browsers always name one");
    }

    #[test]
    fn what_a_proxy_sends_on_does_not_come_from_here() {
        let mut settings = crate::config::Config::default().settings;
        let is_own = |name: &'static str, settings: &Settings| {
            let address = IpAddr::from([127, 0, 0, 1]);
            source(address, &headers(&[(HeaderName::from_static(name), "x")]), settings).is_own
        };
        assert!(is_own("accept", &settings));
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto"] {
            assert!(!is_own(name, &settings), "{name}");
        }
        settings.http.behind_proxy = true;
        assert!(!is_own("accept", &settings));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let with = |name: HeaderName, value: &str| check_origin(&headers(&[(HOST, "127.0.0.1:8625"), (name, value)]));
        assert!(check_origin(&headers(&[(HOST, "127.0.0.1:8625")])).is_ok());
        assert!(with(ORIGIN, "http://127.0.0.1:8625").is_ok());
        for origin in [
            "null",
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:80",
            "https://evil.example/http://127.0.0.1:8625",
        ] {
            assert!(with(ORIGIN, origin).is_err(), "{origin}");
        }
        for (site, is_ok) in [("cross-site", false), ("same-site", false), ("same-origin", true), ("none", true)] {
            assert_eq!(with(SEC_FETCH_SITE, site).is_ok(), is_ok, "{site}");
        }
    }

    #[test]
    fn a_token_is_found_by_its_hash() {
        let named = |name: &str| Token {
            name: name.into(),
            sha256: sha256(name.as_bytes()),
            standing: Standing::Account,
            admin: false,
        };
        let tokens = [named("one"), named("two")];
        let found =
            |value: &str| token(&headers(&[(AUTHORIZATION, value)]), &tokens).map(|found| found.unwrap().name.clone());
        assert_eq!(found("Bearer two").unwrap(), "two");
        assert_eq!(found("bearer one").unwrap(), "one");
        for value in ["Bearer three", "Basic two", "two", "Bearer", "Bearer "] {
            assert!(found(value).is_err(), "{value}");
        }
        assert!(token(&headers(&[]), &tokens).unwrap().is_none());
    }
}
