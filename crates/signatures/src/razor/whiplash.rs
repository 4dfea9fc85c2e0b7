//! Engine 8: one signature for each host, computed from its name and the length of the text.

use sha1::{Digest, Sha1};

use super::hosts::hosts;
use super::signature::E8Signature;

/// Granularity of lengths, in bytes.
const LENGTH_STEP: usize = 100;

/// Returns the e8 signatures of `text`, in the client's order. They may repeat. A host with a character above 255 has
/// no signature, because the client crashes on it.
pub(super) fn sign(text: &[u8]) -> Vec<E8Signature> {
    let hosts = hosts(text);
    if hosts.is_empty() {
        return Vec::new();
    }
    let length = (text.len() - text.len() % LENGTH_STEP).to_string();
    let [high, low, ..] = sha1(length.as_bytes());
    let signature = |host: Vec<u8>| {
        let [a, b, c, d, e, f, ..] = sha1(&host);
        E8Signature([a, b, c, d, e, f, high, low])
    };
    hosts.iter().filter_map(|host| bytes(host)).map(signature).collect()
}

/// Returns the bytes of a host if all its characters are at most 255.
fn bytes(host: &str) -> Option<Vec<u8>> {
    host.chars().map(|character| u8::try_from(character).ok()).collect()
}

fn sha1(text: &[u8]) -> [u8; 20] {
    Sha1::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_beyond_bytes_is_left_out() {
        let text = b"http://&#300;.com/ http://a.com/";
        assert_eq!(hosts(text).len(), 2);
        assert_eq!(sign(text), sign(b"http://a.com/"));
    }
}
