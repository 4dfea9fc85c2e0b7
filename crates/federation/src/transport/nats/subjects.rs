//! Names on the broker: subjects, streams and objects of one realm.
//!
//! Subjects contain the origin's public key, so that the broker's permissions can control who publishes where.

use bruit_engine::exchange::{Book, Chain, Origin};
use bruit_engine::realm::RealmId;
use bruit_signatures::hex;

/// The prefix of all subjects. The number is the version of all names with this prefix.
const PREFIX: &str = "bruit.1";

/// The names of one realm.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    realm: String,
}

impl Subjects {
    pub(super) fn new(realm: RealmId) -> Self {
        Self { realm: realm.to_string() }
    }

    /// Returns the subject of a chain's segments.
    pub(super) fn chain(&self, chain: &Chain) -> String {
        let Chain { origin, book, generation } = chain;
        let Origin { key, incarnation } = origin;
        let name = book.name();
        format!("{PREFIX}.{}.{}.{incarnation}.{name}.{generation}", self.realm, digits(key))
    }

    /// Returns the pattern for the segments of all chains.
    pub(super) fn chains(&self) -> String {
        format!("{PREFIX}.{}.*.*.*.*", self.realm)
    }

    /// Returns the subject of an origin's heads.
    pub(super) fn heads(&self, origin: &Origin) -> String {
        format!("{PREFIX}.{}.{}.{}.heads", self.realm, digits(&origin.key), origin.incarnation)
    }

    /// Returns the pattern for the heads of all incarnations of a server.
    pub(super) fn heads_of(&self, key: &[u8; 32]) -> String {
        format!("{PREFIX}.{}.{}.*.heads", self.realm, digits(key))
    }

    /// Returns the pattern for all heads.
    pub(super) fn all_heads(&self) -> String {
        format!("{PREFIX}.{}.*.*.heads", self.realm)
    }

    /// Returns the subject of questions between nodes.
    pub(super) fn ask(&self) -> String {
        format!("{PREFIX}.{}.ask", self.realm)
    }

    /// Returns the name of the stream of segments.
    pub(super) fn segments_stream(&self) -> String {
        format!("bruit-{}", self.realm)
    }

    /// Returns the name of the stream of heads, a separate one because it keeps only the last message of each subject.
    pub(super) fn heads_stream(&self) -> String {
        format!("bruit-{}-heads", self.realm)
    }

    /// Returns the name of the bucket of snapshots.
    pub(super) fn bucket(&self) -> String {
        format!("bruit-{}", self.realm)
    }
}

/// Returns the name of a chain's snapshot.
pub(super) fn object(chain: &Chain) -> String {
    let Chain { origin, book, generation } = chain;
    format!("{}/{}/{}/{generation}", digits(&origin.key), origin.incarnation, book.name())
}

/// Formats a question: `<key>/<incarnation>/<book>/<generation>/<offset>`.
pub(super) fn question(chain: &Chain, offset: u64) -> String {
    format!("{}/{offset}", object(chain))
}

/// Parses a question.
pub(super) fn parse_question(text: &str) -> Option<(Chain, u64)> {
    let mut words = text.split('/');
    let key = hex::read(words.next()?)?;
    let incarnation = words.next()?.parse().ok()?;
    let book = Book::from_name(words.next()?)?;
    let generation = words.next()?.parse().ok()?;
    let offset = words.next()?.parse().ok()?;
    let is_all = words.next().is_none();
    is_all.then_some((Chain { origin: Origin { key, incarnation }, book, generation }, offset))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Chain =
        Chain { origin: Origin { key: [0xab; 32], incarnation: 3 }, book: Book::Revoked, generation: 2961 };

    fn subjects() -> Subjects {
        Subjects::new(RealmId([0x12; 16]))
    }

    #[test]
    fn a_chain_has_a_subject_below_its_origins_key() {
        let (realm, key) = ("12".repeat(16), "ab".repeat(32));
        assert_eq!(subjects().chain(&CHAIN), format!("bruit.1.{realm}.{key}.3.revoked.2961"));
        assert_eq!(subjects().heads(&CHAIN.origin), format!("bruit.1.{realm}.{key}.3.heads"));
    }

    #[test]
    fn questions_are_read_as_they_were_asked_and_nothing_else_is() {
        let question = question(&CHAIN, u64::MAX);
        assert_eq!(parse_question(&question), Some((CHAIN, u64::MAX)));
        let longer = format!("{question}/1");
        let wrong_book = question.replace("revoked", "burnt");
        for text in ["", "a/b/c/d/e", longer.as_str(), &wrong_book, &format!("{question}0"), &question[1..]] {
            assert_eq!(parse_question(text), None, "{text}");
        }
    }
}
