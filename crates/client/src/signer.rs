//! Chooses the signatures to send, depending on the purpose of the request.

use bruit_protocols::http::Subject;
use bruit_signatures::razor::Ep4;
use bruit_signatures::{Context, Scheme, Wanted, mailing_list, sender, sign};

/// Computes the subject of a request from a message.
#[derive(Clone, Debug)]
pub struct Signer {
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The schemes to compute.
    pub schemes: Schemes,
    /// The parameters of Razor's e4 signatures. They must be the ones that the server announces.
    pub ep4: Ep4,
    /// True to send the address from the `From` field and the mailing list from the `List-Id` field.
    pub names_sender: bool,
    /// True to send an outline of the message, so that the server judges the message as a whole. Without an outline,
    /// the server treats the request as a set of separate signatures.
    pub outlines: bool,
}

/// The purpose for which signatures of a message are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A check or an explanation.
    Check,
    /// A report or a revocation.
    Claim,
}

/// A set of schemes. It may include the features used to find near replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemes {
    signatures: Vec<Scheme>,
    replicas: bool,
}

/// The names of schemes and of groups of schemes, each with the signature schemes that it selects.
const NAMES: &[(&str, &[Scheme])] = &[
    ("exact", &[Scheme::Exact]),
    ("attachment", &[Scheme::Attachment]),
    ("url", &[Scheme::Url]),
    ("pyzor", &[Scheme::Pyzor, Scheme::Pyzor11]),
    ("razor", &[Scheme::RazorE4, Scheme::RazorE8]),
    ("razor_e4", &[Scheme::RazorE4]),
    ("razor_e8", &[Scheme::RazorE8]),
    ("dcc", &[Scheme::DccBody, Scheme::DccFuz1]),
    ("bruit", &[]),
];

impl Purpose {
    /// Returns the schemes that are sent by default.
    ///
    /// Claims omit DCC's checksums, and also Razor's e8 signatures (a domain and a length), because legitimate mail
    /// shares these. Checks include both, because other reporters may have made claims about them. Neither claims nor
    /// checks contain links (`url`). From the signatures in a claim, the server chooses those that identify the
    /// message.
    #[must_use]
    pub fn schemes(self) -> Schemes {
        let names: &[&str] = match self {
            Self::Check => &["exact", "attachment", "pyzor", "razor", "dcc", "bruit"],
            Self::Claim => &["exact", "attachment", "pyzor", "razor_e4", "bruit"],
        };
        names.iter().filter_map(|name| Schemes::named(name)).fold(Schemes::default(), Schemes::and)
    }
}

impl Schemes {
    /// Returns the names that [`named`](Self::named) accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the schemes that `name` stands for, such as `razor`, or `None` if the name is unknown.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (name, schemes) = NAMES.iter().find(|(known, _)| *known == name)?;
        Some(Self { signatures: schemes.to_vec(), replicas: *name == "bruit" })
    }

    /// Returns the union of two sets of schemes.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.signatures.extend(others.signatures);
        self.replicas |= others.replicas;
        self
    }

    fn wanted(&self) -> Wanted {
        let has = |schemes: &[Scheme]| schemes.iter().any(|scheme| self.signatures.contains(scheme));
        Wanted {
            exact: has(&[Scheme::Exact]),
            attachment: has(&[Scheme::Attachment]),
            url: has(&[Scheme::Url]),
            pyzor: has(&[Scheme::Pyzor]),
            razor: has(&[Scheme::RazorE4, Scheme::RazorE8]),
            dcc: has(&[Scheme::DccBody, Scheme::DccFuz1]),
            bruit: self.replicas,
            razor_pieces: false,
        }
    }
}

impl Signer {
    /// Creates a signer with the default schemes for a purpose. The sender is included only for checks.
    #[must_use]
    pub fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            schemes: purpose.schemes(),
            ep4: Ep4::default(),
            names_sender: purpose == Purpose::Check,
            outlines: true,
        }
    }

    /// Computes the subject of a request about `message`.
    #[must_use]
    pub fn subject(&self, message: &[u8]) -> Subject {
        let context = Context { ep4: self.ep4.clone(), ..Context::default() };
        // Only claims need the kind of piece for each Razor part.
        let wanted = Wanted { razor_pieces: self.purpose == Purpose::Claim, ..self.schemes.wanted() };
        let mut signed = sign(message, &wanted, &context);
        signed.outline = signed.outline.filter(|_| self.outlines);
        signed.signatures.retain(|signature| self.schemes.signatures.contains(&signature.scheme()));
        let list = self.names_sender.then(|| mailing_list::of(message)).flatten();
        Subject { list, ..Subject::of(&signed, self.names_sender.then(|| sender::of(message)).flatten()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"From: Secret Sender <sender@secret.example>\nTo: <recipient@secret.example>\nSubject: the subject\n\
        Message-ID: <identity@secret.example>\nList-Id: <list.secret.example>\nReceived: from relay.secret.example\nContent-Type: multipart/mixed; \
        boundary=X\n\n--X\n\nGenuine watches at wholesale prices: http://shop.secret.example/watches and more of a text.\n\
        --X\nContent-Type: image/png\nContent-Disposition: attachment; filename=secret.png\n\nnot an image\n--X--\n";

    fn schemes(subject: &Subject) -> Vec<&str> {
        let mut schemes: Vec<&str> = subject.signatures.iter().map(|named| &*named.scheme).collect();
        schemes.dedup();
        schemes
    }

    #[test]
    fn a_check_asks_more_than_a_claim_says() {
        let check = Signer::new(Purpose::Check).subject(MESSAGE);
        let expected = ["exact", "attachment", "pyzor", "razor_e4", "razor_e8", "razor_e4", "dcc_body", "dcc_fuz1"];
        assert_eq!(schemes(&check), expected);
        assert_eq!(check.sender.as_deref(), Some("sender@secret.example"));
        let claim = Signer::new(Purpose::Claim).subject(MESSAGE);
        assert_eq!(schemes(&claim), ["exact", "attachment", "pyzor", "razor_e4"]);
        assert_eq!((claim.text.is_some(), claim.sender), (true, None));
    }

    #[test]
    fn no_word_of_a_message_goes_out_but_the_sender_and_the_list() {
        let every = Schemes::names().filter_map(Schemes::named).fold(Schemes::default(), Schemes::and);
        let signer = Signer { schemes: every, ..Signer::new(Purpose::Check) };
        let named = serde_json::to_string(&signer.subject(MESSAGE)).unwrap();
        assert!(named.contains("sender@secret.example") && named.contains("list.secret.example"));
        let silent = serde_json::to_string(&Signer { names_sender: false, ..signer }.subject(MESSAGE)).unwrap();
        for word in
            ["secret", "sender", "recipient", "subject", "identity", "watches", "png", "dcc_message_id", "dcc_from"]
        {
            assert!(!silent.contains(word), "{word} in {silent}");
        }
    }

    #[test]
    fn schemes_are_chosen_by_name() {
        let of = |name: &str| {
            let signer = Signer { schemes: Schemes::named(name).unwrap(), ..Signer::new(Purpose::Claim) };
            signer.subject(MESSAGE)
        };
        for name in Schemes::names() {
            let found = of(name);
            assert_eq!(found.text.is_some(), name == "bruit", "{name}");
            assert!(schemes(&found).iter().all(|scheme| scheme.starts_with(name)), "{name}: {found:?}");
            assert_eq!(found.signatures.is_empty(), name == "bruit", "{name}");
        }
        assert_eq!(Schemes::named("all"), None);
    }
}
