//! Roles of single words, looked up by hash.
//!
//! Function words for the most common languages of mail come from the crate `stop-words`. The cues of list footers,
//! disclaimers and greetings are words that such texts cannot do without. All words are stored in the matching form
//! produced by [`super::words`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use super::boilerplate::{TOPICS, Topics};
use super::fold;
use super::words::{Words, hash, matching_form};

/// The role of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A content word.
    Content,
    /// A function word, which occurs in any text.
    Function,
    /// Typical of mailing list footers.
    List,
    /// Names the sponsor of a mailing list.
    Sponsor,
    /// Names a mailing list.
    ListName,
    /// The address of a mailing list. It is not a feature, because addresses are personal.
    ListAddress,
    /// Typical of legal disclaimers.
    Disclaimer,
    /// Begins a greeting.
    Greeting,
}

/// Languages whose function words are ignored.
const LANGUAGES: [&str; 14] = ["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "ru", "ro", "hu", "tr"];

/// Fragments of addresses and contractions, and function words that are missing from the lists of `stop-words`.
const MORE_FUNCTION_WORDS: &str =
    "also may could would should shall might must upon im ive dont cant wont www com http https html";

const LIST_NAMES: &str = "list lists mailing mailinglist";

const SPONSOR_WORDS: &str = "sponsor sponsors sponsored";

const LIST_WORDS: &str = "unsubscribe unsubscribed subscribe subscription subscribed listinfo mailman \
    majordomo listserv yahoogroups sourceforge archive archives digest moderator";

const DISCLAIMER_WORDS: &str = "confidential confidentiality intended recipient recipients addressee addressees addressed \
    entity notify delete destroy disclose disclosure disclosing disclosed disseminate dissemination unauthorised unauthorized \
    prohibited views opinions necessarily represent reflect virus viruses liability liable privileged privilege environment \
    printing copying sender unlawful error \
    vertraulich vertrauliche vertraulichen vertraulichkeit empfaenger empfanger irrtumlich irrtumlicherweise unbefugte \
    unbefugt unerlaubte vernichten weitergabe absender haftung geschaftsfuhrer geschaeftsfuehrer handelsregister \
    registergericht amtsgericht aufsichtsrat vorstand hrb \
    confidentiel confidentielle confidentiels confidentielles confidentialite destinataire destinataires erreur divulgation \
    diffusion expediteur detruire interdite interdit responsabilite siret capital \
    confidencial confidenciales confidencialidad destinatario destinatarios prohibida prohibido notifique remitente \
    divulgacion elimine destruya comunique riservato riservate riservata riservati mittente errore distruggere cancellare \
    vietata vietato divulgazione remetente proibida proibido divulgacao apague elimine \
    vertrouwelijk vertrouwelijke geadresseerde afzender bestemd vernietigen aansprakelijk aansprakelijkheid openbaarmaking \
    poufna poufne poufnosc adresata adresatem nadawce nadawcy zabronione zabroniona rozpowszechnianie";

const GREETING_WORDS: &str = "dear hello hi hey greetings hallo bonjour cher chere hola estimado estimada querido ciao gentile \
    salve liebe lieber sehr beste geachte hej ola caro prezado";

impl Role {
    /// Returns true if words with this role make features.
    pub(super) fn counts(self) -> bool {
        !matches!(self, Self::Function | Self::ListAddress)
    }
}

/// Returns the role of the word with this hash, and the boilerplate topics whose vocabulary contains the word.
pub(super) fn role(word: u64) -> (Role, Topics) {
    static ROLES: LazyLock<Roles> = LazyLock::new(table);
    ROLES.get(&word).copied().unwrap_or((Role::Content, 0))
}

type Roles = HashMap<u64, (Role, Topics), BuildHasherDefault<Hashed>>;

fn table() -> Roles {
    let mut roles = Roles::default();
    let mut add = |word: &str, role: Role| {
        roles.insert(hash(&matching_form(word)), (role, 0));
    };
    for language in LANGUAGES {
        stop_words::lookup(language).into_iter().flatten().for_each(|word| add(word, Role::Function));
    }
    let lists = [
        (MORE_FUNCTION_WORDS, Role::Function),
        (LIST_NAMES, Role::ListName),
        (SPONSOR_WORDS, Role::Sponsor),
        (LIST_WORDS, Role::List),
        (DISCLAIMER_WORDS, Role::Disclaimer),
        (GREETING_WORDS, Role::Greeting),
    ];
    for (words, role) in lists {
        words.split_ascii_whitespace().for_each(|word| add(word, role));
    }
    for (topic, phrases) in TOPICS.iter().enumerate() {
        let mut words = Words::without_roles();
        words.add_line(&fold::folded(phrases));
        for word in words.list() {
            roles.entry(word.hash).or_insert((Role::Content, 0)).1 |= 1 << topic;
        }
    }
    roles
}

/// A hasher for keys that are already hashes.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Unreachable, because keys are `u64`.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_in_the_form_they_are_matched_in() {
        let role_of = |word: &str| role(hash(&matching_form(word))).0;
        assert_eq!(role_of("this"), Role::Function);
        assert_eq!(role_of("für"), Role::Function);
        assert_eq!(role_of("unsubscribe"), Role::List);
        assert_eq!(role_of("confidential"), Role::Disclaimer);
        assert_eq!(role_of("hello"), Role::Greeting);
        assert_eq!(role_of("viagra"), Role::Content);
    }
}
