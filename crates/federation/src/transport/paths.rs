//! The paths of offers and logs, below a URL and in a directory that a web server serves.
//!
//! ```text
//! offer                                                 a sequence of signed heads
//! realm                                                 the founding file, with the secret key of the realm
//! log/<origin's key>/<incarnation>/<book>/<generation>  the segments of a chain
//! ```

use bruit_engine::exchange::{Book, Chain, Origin};
use bruit_signatures::hex;

/// Path of the heads.
pub const OFFER: &str = "offer";

/// Path of the founding file, for authorised clients.
pub const REALM: &str = "realm";

/// Path prefix of logs.
pub const LOG: &str = "log";

/// Default prefix of all paths on a server, for URLs without a path.
pub const BASE: &str = "/v1/federation";

/// Returns the path of a chain's log, without a leading slash.
#[must_use]
pub fn log(chain: &Chain) -> String {
    let Chain { origin, book, generation } = chain;
    format!("{LOG}/{}/{}/{}/{generation}", digits(&origin.key), origin.incarnation, book.name())
}

/// Parses the path of a log. Each chain has only one valid spelling.
#[must_use]
pub fn chain(path: &str) -> Option<Chain> {
    let mut names = path.split('/');
    let mut next = || names.next();
    if next()? != LOG {
        return None;
    }
    let origin = Origin { key: hex::read(next()?)?, incarnation: next()?.parse().ok()? };
    let chain = Chain { origin, book: Book::from_name(next()?)?, generation: next()?.parse().ok()? };
    (log(&chain) == path).then_some(chain)
}

/// Formats bytes as hexadecimal digits.
#[must_use]
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses hexadecimal digits into at most `bytes_max` bytes.
#[must_use]
pub fn bytes(digits: &str, bytes_max: usize) -> Option<Vec<u8>> {
    if digits.len() > 2 * bytes_max || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| hex::read(pair?).map(|[byte]| byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Chain =
        Chain { origin: Origin { key: [0xa7; 32], incarnation: u64::MAX }, book: Book::Votes, generation: 12 };

    #[test]
    fn a_log_is_found_by_its_path() {
        let path = log(&CHAIN);
        assert_eq!(path, format!("log/{}/18446744073709551615/votes/12", "a7".repeat(32)));
        assert_eq!(chain(&path), Some(CHAIN));
    }

    #[test]
    fn a_log_has_one_path_only() {
        let key = "a7".repeat(32);
        for path in [
            String::new(),
            "log".into(),
            format!("log/{key}/1/votes"),
            format!("log/{key}/1/votes/12/"),
            format!("log/{key}/1/votes/12/13"),
            format!("/log/{key}/1/votes/12"),
            format!("log/{key}/01/votes/12"),
            format!("log/{key}/+1/votes/12"),
            format!("log/{key}/1/Votes/12"),
            format!("log/{}/1/votes/12", key.to_uppercase()),
            format!("log/{key}/18446744073709551616/votes/12"),
            format!("log/{}/1/votes/12", &key[1..]),
            format!("log/../{key}/1/votes/12"),
        ] {
            assert_eq!(chain(&path), None, "{path}");
        }
    }

    #[test]
    fn bytes_are_read_as_they_are_written_up_to_a_bound() {
        assert_eq!(bytes(&digits(&[0, 255, 16]), 3), Some(vec![0, 255, 16]));
        assert_eq!(bytes("", 0), Some(Vec::new()));
        for text in ["000000", "0", "zz", "é", "+1"] {
            assert_eq!(bytes(text, 2), None, "{text}");
        }
    }
}
