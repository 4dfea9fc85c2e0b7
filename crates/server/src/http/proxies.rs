//! The source of a request, which may have passed through a proxy.
//!
//! A proxy on this machine or in an own network could make everyone on the Internet an own user. Therefore, a request
//! that may have passed through a proxy is treated as a stranger's request, unless the operator trusts the proxy. A
//! trusted proxy names its client in `X-Forwarded-For` or `Forwarded`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use axum::http::{Version, header};
use ipnet::IpNet;

use super::names::{is_localhost, named_host};
use crate::config::Settings;
use crate::sources::Source;

/// The header that most proxies add.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum number of proxies between a client and this server.
const HOPS_MAX: usize = 32;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) remote: IpAddr,
    /// The local address of the connection.
    pub(super) local: IpAddr,
    /// True if the connection uses TLS.
    pub(super) is_tls: bool,
}

/// Returns the source of a request.
pub(super) fn source(ends: Ends, version: Version, headers: &HeaderMap, settings: &Settings) -> Source {
    let proxies = &settings.http.trusted_proxies;
    let remote = ends.remote.to_canonical();
    if !contains(proxies, remote) {
        let mut source = Source::new(remote, &settings.own_networks);
        source.is_own &= is_direct(ends, version, headers);
        return source;
    }
    match client(headers, proxies) {
        Some(client) => Source::new(client, &settings.own_networks),
        // The trusted proxy does not name its client.
        None => Source { address: remote, is_own: false },
    }
}

/// Returns true if no proxy can have forwarded a request. A proxy would speak HTTP/1.0, add headers, or keep the name
/// that its client used.
pub(super) fn is_direct(ends: Ends, version: Version, headers: &HeaderMap) -> bool {
    let is_modern = version >= Version::HTTP_11;
    is_modern
        && !headers.keys().any(is_of_proxy)
        && named_host(headers).is_some_and(|host| is_address_of(host, ends.local))
}

/// Returns true if no proxy can have forwarded a request on the Unix socket, where host names are arbitrary.
pub(super) fn is_direct_local(version: Version, headers: &HeaderMap) -> bool {
    let ends = Ends { remote: Ipv4Addr::LOCALHOST.into(), local: Ipv4Addr::LOCALHOST.into(), is_tls: false };
    is_direct(ends, version, headers)
}

/// Returns true if a host is the local address of the connection. On loopback, any loopback address or name matches.
fn is_address_of(host: &str, local: IpAddr) -> bool {
    let local = local.to_canonical();
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical() == local || (address.to_canonical().is_loopback() && local.is_loopback()),
        Err(_) => is_localhost(host) && local.is_loopback(),
    }
}

/// Returns true if a header is one that proxies add.
fn is_of_proxy(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_usual = matches!(
        name,
        "forwarded"
            | "via"
            | "x-real-ip"
            | "x-client-ip"
            | "client-ip"
            | "true-client-ip"
            | "cf-connecting-ip"
            | "x-forwarded"
            | "x-cluster-client-ip"
            | "x-original-forwarded-for"
            | "x-envoy-external-address"
    );
    is_usual || name.starts_with("x-forwarded-")
}

/// Returns the client that trusted proxies name. Returns `None` if `X-Forwarded-For` and `Forwarded` are both present
/// and disagree, because a proxy writes only one of them.
fn client(headers: &HeaderMap, proxies: &[IpNet]) -> Option<IpAddr> {
    let by_x = headers.contains_key(&X_FORWARDED_FOR).then(|| nearest(&listed(headers, &X_FORWARDED_FOR)?, proxies));
    let by_standard = headers.contains_key(header::FORWARDED).then(|| nearest(&forwarded(headers)?, proxies));
    match (by_x, by_standard) {
        (Some(one), Some(other)) if one != other => None,
        (Some(client), _) | (None, Some(client)) => client,
        (None, None) => None,
    }
}

/// Returns the rightmost address that does not belong to a trusted proxy. The client could have forged any address to
/// the left of it.
fn nearest(hops: &[&str], proxies: &[IpNet]) -> Option<IpAddr> {
    let mut client = None;
    for hop in hops.iter().rev().take(HOPS_MAX) {
        let address = address(hop)?;
        client = Some(address);
        if !contains(proxies, address) {
            break;
        }
    }
    client
}

/// Returns the elements of all headers of this name, in order.
fn listed<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Vec<&'h str>> {
    let fields: Result<Vec<&str>, _> = headers.get_all(name).iter().map(|value| value.to_str()).collect();
    Some(fields.ok()?.into_iter().flat_map(|field| field.split(',')).map(str::trim).collect())
}

/// Returns the value of `for` in each element of `Forwarded`, in order, or `None` if the elements are ambiguous.
fn forwarded(headers: &HeaderMap) -> Option<Vec<&str>> {
    let is_clear = |value: &HeaderValue| value.to_str().is_ok_and(|text| !is_ambiguous(text));
    if !headers.get_all(header::FORWARDED).iter().all(is_clear) {
        return None;
    }
    Some(listed(headers, &header::FORWARDED)?.into_iter().map(for_of).collect())
}

/// Returns true if a separator is quoted or a quote is not closed. In both cases, the client may have forged an
/// element.
fn is_ambiguous(field: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in field.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' | ';' if is_quoted => return true,
            _ => {}
        }
    }
    is_quoted
}

/// Returns the value of `for` in an element. If there is none, returns the empty string, which is not a valid address.
fn for_of(element: &str) -> &str {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    found.map_or("", |(_, value)| value.trim())
}

/// Parses an address with or without quotes, brackets and port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let plain = bracketed.unwrap_or(text).parse::<IpAddr>().ok();
    plain.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).map(|address| address.to_canonical())
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use axum::http::header::{ACCEPT, FORWARDED, HOST};
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn ends(remote: &str, local: &str) -> Ends {
        Ends { remote: remote.parse().unwrap(), local: local.parse().unwrap(), is_tls: false }
    }

    fn settings(more: &str) -> Settings {
        Config::parse(&format!("own_networks = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n[http]\n{more}")).unwrap().settings
    }

    fn is_own(ends: Ends, version: Version, fields: &[(HeaderName, &str)]) -> bool {
        source(ends, version, &headers(fields), &settings("")).is_own
    }

    #[test]
    fn only_a_request_that_names_the_address_it_came_to_is_direct() {
        let loopback = ends("127.0.0.1", "127.0.0.1");
        for host in ["127.0.0.1:8625", "localhost:8625", "127.9.9.9", "[::1]:8625"] {
            assert!(is_own(loopback, Version::HTTP_11, &[(HOST, host)]), "{host}");
            assert!(!is_own(loopback, Version::HTTP_10, &[(HOST, host)]), "{host}, as stock nginx sends it");
        }
        for host in ["bruit.example.org", "192.0.2.7", "10.0.0.1:8625"] {
            assert!(!is_own(loopback, Version::HTTP_11, &[(HOST, host)]), "{host}, as HAProxy passes it on");
        }
        assert!(!is_own(loopback, Version::HTTP_11, &[]));
        let network = ends("10.0.0.9", "10.0.0.1");
        assert!(is_own(network, Version::HTTP_11, &[(HOST, "10.0.0.1:8625")]));
        for host in ["bruit.example.org", "localhost", "127.0.0.1", "10.0.0.2"] {
            assert!(!is_own(network, Version::HTTP_11, &[(HOST, host)]), "{host}");
        }
    }

    #[test]
    fn what_a_proxy_marks_is_a_strangers() {
        let loopback = ends("127.0.0.1", "127.0.0.1");
        let with = |name: &'static str| {
            is_own(loopback, Version::HTTP_11, &[(HOST, "localhost"), (HeaderName::from_static(name), "x")])
        };
        assert!(with("accept"));
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "cf-connecting-ip"] {
            assert!(!with(name), "{name}");
        }
    }

    #[test]
    fn a_trusted_proxy_says_whom_it_speaks_for() {
        let settings = settings("trusted_proxies = [\"127.0.0.1/32\", \"10.0.0.2/32\"]\n");
        let of = |remote: &str, fields: &[(HeaderName, &str)]| {
            let source = source(ends(remote, "127.0.0.1"), Version::HTTP_10, &headers(fields), &settings);
            (source.address.to_string(), source.is_own)
        };
        let x = X_FORWARDED_FOR;
        let own = |address: &str| (address.to_owned(), true);
        let stranger = |address: &str| (address.to_owned(), false);
        assert_eq!(of("127.0.0.1", &[(x.clone(), "10.1.2.3")]), own("10.1.2.3"));
        assert_eq!(
            of("127.0.0.1", &[(x.clone(), "10.1.2.3, 192.0.2.9")]),
            stranger("192.0.2.9"),
            "addresses on the left may be forged"
        );
        assert_eq!(of("127.0.0.1", &[(x.clone(), "192.0.2.9"), (x.clone(), "10.0.0.2")]), stranger("192.0.2.9"));
        assert_eq!(of("127.0.0.1", &[(x.clone(), "10.0.0.2")]), own("10.0.0.2"), "the proxy itself");
        assert_eq!(of("127.0.0.1", &[(FORWARDED, "for=192.0.2.1, For=\"10.5.5.5:99\";proto=https")]), own("10.5.5.5"));
        assert_eq!(of("127.0.0.1", &[(FORWARDED, "proto=https;for=\"[2001:db8::9]:47\"")]), stranger("2001:db8::9"));
        let both = [(x.clone(), "192.0.2.9"), (FORWARDED, "for=10.5.5.5")];
        assert_eq!(of("127.0.0.1", &both), stranger("127.0.0.1"), "a client's own field does not help it");
        let quoted = "for=203.0.113.9;host=\"a,for=10.1.1.1;x=\"";
        assert_eq!(of("127.0.0.1", &[(FORWARDED, quoted)]), stranger("127.0.0.1"), "a client wrote the host");
        assert_eq!(of("127.0.0.1", &[(FORWARDED, "for=10.1.1.1;host=\"a")]), stranger("127.0.0.1"));
        for wrong in ["", "unknown", "_hidden", "10.0.0.300", "10.0.0.1 10.0.0.1"] {
            assert_eq!(of("127.0.0.1", &[(x.clone(), wrong)]), stranger("127.0.0.1"), "{wrong}");
            assert_eq!(of("127.0.0.1", &[(FORWARDED, &format!("for={wrong}"))]), stranger("127.0.0.1"), "{wrong}");
        }
        assert_eq!(
            of("127.0.0.1", &[(ACCEPT, "text/html")]),
            stranger("127.0.0.1"),
            "the proxy does not name a client"
        );
        assert_eq!(of("10.0.0.3", &[(x, "10.1.2.3")]), stranger("10.0.0.3"), "this proxy is not trusted");
    }

    proptest! {
        #[test]
        fn whatever_a_client_writes_left_of_the_proxy_changes_nothing(forged in "[ -~]{0,60}", field in any::<bool>()) {
            let settings = settings("trusted_proxies = [\"127.0.0.1/32\"]\n");
            let value = format!("{forged}, 192.0.2.9");
            let name = if field { X_FORWARDED_FOR } else { FORWARDED };
            let value = if field { value } else { format!("{forged}, for=192.0.2.9") };
            let Ok(value) = HeaderValue::from_str(&value) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            headers.append(name, value);
            let found = source(ends("127.0.0.1", "127.0.0.1"), Version::HTTP_11, &headers, &settings);
            prop_assert!(!found.is_own);
        }
    }
}
