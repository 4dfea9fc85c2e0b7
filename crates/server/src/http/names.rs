//! The server's names, and protection against requests from pages of other sites.
//!
//! Callers from the site's own networks are own users. So a page of another site, open in a browser on these networks,
//! could make requests as an own user. A request must therefore address the server by its IP address or by one of its
//! own names. This excludes pages whose DNS name was rebound to the server's address. Requests that a browser sends for
//! a page of another site are refused, too.

use std::fs;
use std::net::IpAddr;

use axum::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};

use super::fault::Fault;

/// The header in which browsers state whether a request comes from a page of the same site.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Maximum length to which a refused name is shown in the error message.
const SHOWN_CHARS_MAX: usize = 80;

/// The file that may list further names of this machine.
const HOSTS_FILE: &str = "/etc/hosts";

/// Returns the names of this machine: its host name, the part before the first dot, and the names on the same line of
/// `/etc/hosts`.
pub(crate) fn of_this_machine() -> Vec<String> {
    let Some(name) = nix::sys::utsname::uname().ok().and_then(|names| names.nodename().to_str().map(str::to_owned))
    else {
        return Vec::new();
    };
    names_beside(&name, &fs::read_to_string(HOSTS_FILE).unwrap_or_default())
}

fn names_beside(name: &str, hosts: &str) -> Vec<String> {
    let is_this = |line: &&str| line.split_whitespace().skip(1).any(|other| other.eq_ignore_ascii_case(name));
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default()).filter(is_this);
    let beside = lines.flat_map(|line| line.split_whitespace().skip(1)).map(str::to_owned);
    let short = name.split('.').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = [name.to_owned(), short].into_iter().chain(beside).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}

/// Rejects host names that are not the server's own. IP addresses are accepted, because a DNS name cannot look like
/// one.
pub(super) fn check_host(headers: &HeaderMap, own: &[String]) -> Result<(), Fault> {
    for value in headers.get_all(HOST) {
        let host = value.to_str().map(host_of).unwrap_or_default();
        let is_own = own.iter().any(|name| name.eq_ignore_ascii_case(host.trim_end_matches('.')));
        if !is_own && !is_localhost(host) && host.parse::<IpAddr>().is_err() {
            return Err(refused_name(host));
        }
    }
    Ok(())
}

fn refused_name(host: &str) -> Fault {
    let shown: String = host.chars().take(SHOWN_CHARS_MAX).collect();
    Fault::misdirected(format!(
        "{shown:?} is not a name of this server. If it should be, write hosts = [{shown:?}] in the section [http] of its \
         configuration and send it SIGHUP; or use its IP address instead of a name"
    ))
}

pub(super) fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

/// Returns the host that a request addresses, without port and brackets, if it names exactly one host.
pub(super) fn named_host(headers: &HeaderMap) -> Option<&str> {
    let mut named = headers.get_all(HOST).iter();
    let host = named.next()?.to_str().ok().map(host_of)?;
    named.next().is_none().then_some(host)
}

/// Strips the port from a host, and the brackets from an IPv6 address.
fn host_of(text: &str) -> &str {
    if let Some(bracketed) = text.strip_prefix('[') {
        return bracketed.split_once(']').map_or("", |(host, _)| host);
    }
    text.rsplit_once(':').map_or(text, |(host, _)| host)
}

/// Rejects requests that a browser sends for a page of another site.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Fault> {
    let is_other_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host));
    let is_foreign = headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(is_own));
    if is_other_site || is_foreign {
        return Err(Fault::forbidden("requests from pages of other sites are refused"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
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
            "bruit.example.org.",
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
        assert!(
            check_host(&headers(&[]), &own).is_ok(),
            "a request without a host is accepted, because browsers always send one"
        );
        assert!(check_host(&headers(&[(HOST, "127.0.0.1"), (HOST, "evil.example")]), &own).is_err());
    }

    #[test]
    fn a_refused_name_is_repeated_with_what_to_write() {
        let refused = check_host(&headers(&[(HOST, "mail.example.org:8625")]), &[]).unwrap_err().to_string();
        assert!(refused.contains("hosts = [\"mail.example.org\"]") && refused.contains("[http]"), "{refused}");
        let long = check_host(&headers(&[(HOST, &"a".repeat(9_000))]), &[]).unwrap_err().to_string();
        assert!(long.len() < 500, "{long}");
    }

    #[test]
    fn a_machine_has_the_names_of_its_line_in_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1\tmx.example.org mx # me\n192.0.2.7 other mxx\n";
        assert_eq!(names_beside("mx", hosts), ["mx", "mx.example.org"]);
        assert_eq!(names_beside("mx.example.org", ""), ["mx", "mx.example.org"]);
        assert!(names_beside("", hosts).is_empty());
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
}
