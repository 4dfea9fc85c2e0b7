//! Finds the administrator's token of a server on this machine.
//!
//! The token is sent only over loopback, and only if every process that listens on the server's port belongs to root or
//! to the owner of the token file. Without this check, any user could listen on the port while the server is stopped,
//! and steal the token.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bruit_store::ADMIN_TOKEN_FILE;

use super::read_token;
use crate::serve::data_directories;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Returns the token of the server at this address, if it is on this machine and its token is readable.
pub(crate) fn find(url: &str) -> Option<String> {
    let (addresses, port) = loopback(url)?;
    let listeners = listeners(&addresses, port);
    let is_readable = |file: &Path| fs::File::open(file).is_ok();
    let files = data_directories().into_iter().map(|directory| directory.join(ADMIN_TOKEN_FILE));
    let file = files.into_iter().find(|file| is_readable(file))?;
    let owner = fs::metadata(&file).ok()?.uid();
    let is_trusted = !listeners.is_empty() && listeners.iter().all(|user| *user == owner || *user == 0);
    is_trusted.then(|| read_token(&file).ok()).flatten()
}

/// Returns the addresses and port of a loopback URL.
fn loopback(url: &str) -> Option<(Vec<IpAddr>, u16)> {
    let (usual, rest) = match url.split_once("://")? {
        ("http", rest) => (80, rest),
        ("https", rest) => (443, rest),
        _ => return None,
    };
    let authority = rest.split('/').next()?;
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.eq_ignore_ascii_case("localhost") {
        return Some((vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()], port));
    }
    let address: IpAddr = host.parse().ok()?;
    address.is_loopback().then(|| (vec![address], port))
}

/// Returns the user IDs of the processes that listen on `port`, at one of `addresses` or at all addresses of the
/// machine.
fn listeners(addresses: &[IpAddr], port: u16) -> Vec<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| users(table, addresses, port)).collect()
}

fn users(table: &str, addresses: &[IpAddr], port: u16) -> Vec<u32> {
    // An IPv6 socket bound to a mapped IPv4 address also receives connections to the IPv4 address.
    let mapped = |address: &IpAddr| match address {
        IpAddr::V4(address) => Some(IpAddr::V6(address.to_ipv6_mapped())),
        IpAddr::V6(_) => None,
    };
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into()];
    let places: Vec<String> = addresses
        .iter()
        .copied()
        .chain(addresses.iter().filter_map(mapped))
        .chain(any)
        .chain([Ipv6Addr::UNSPECIFIED.into()])
        .map(|address| format!("{}:{port:04X}", encoded(address)))
        .collect();
    let user = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, LISTENING, _, _, _, user, ..] = *fields else { return None };
        places.iter().any(|place| place == local).then(|| user.parse().ok()).flatten()
    };
    table.lines().filter_map(user).collect()
}

/// Encodes an address as the kernel does: words of four bytes, each in host byte order.
fn encoded(address: IpAddr) -> String {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).filter_map(|word| word.first_chunk::<4>());
    words.map(|word| format!("{:08X}", u32::from_le_bytes(*word).to_le())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_on_this_machine_by_its_address() {
        let port = |url: &str| loopback(url).map(|(_, port)| port);
        assert_eq!(port("http://127.0.0.1:8625"), Some(8625));
        assert_eq!(port("http://localhost/"), Some(80));
        assert_eq!(port("https://[::1]:99/x"), Some(99));
        assert_eq!(port("https://[::1]"), Some(443));
        for elsewhere in [
            "http://192.0.2.1:8625",
            "http://bruit.example.org",
            "ftp://127.0.0.1",
            "127.0.0.1:8625",
            "http://127.0.0.1:x",
        ] {
            assert_eq!(port(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn listeners_are_found_with_their_users() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:21B1 00000000:0000 0A 00000000:00000000 00:00000000 00000000   107        0 1 1\n   \
            1: 0100007F:21B1 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 2 1\n   \
            2: 0200007F:21B1 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 3 1\n   \
            3: 00000000:21B2 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 4 1\n";
        let loopback = [IpAddr::from([127, 0, 0, 1])];
        assert_eq!(users(table, &loopback, 8625), [107]);
        assert_eq!(users(table, &loopback, 8626), [1002], "at every address");
        assert!(users(table, &loopback, 8627).is_empty() && users("nonsense\n", &loopback, 8625).is_empty());
        let mapped = "0: 0000000000000000FFFF00000100007F:21B1 0:0 0A 0:0 00:0 0  1003 0 5 1\n";
        assert_eq!(users(mapped, &loopback, 8625), [1003], "by IPv6");
        assert_eq!(encoded(Ipv6Addr::LOCALHOST.into()), "00000000000000000000000001000000");
    }
}
