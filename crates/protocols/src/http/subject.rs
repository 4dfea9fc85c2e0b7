//! The subject of a check, report, revocation or explanation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{self as signatures, Piece};
use bruit_signatures::{Scheme, Signature, Signed, SpellingError};
use serde::{Deserialize, Serialize};

use super::answers::is_false;

pub use bruit_signatures::mailing_list::LIST_BYTES_MAX;
pub use bruit_signatures::sender::SENDER_BYTES_MAX;

/// Maximum number of signatures in one request.
pub const SIGNATURES_MAX: usize = 256;

/// Maximum number of features of each kind in one request. At most 256 KiB of a text are read, which contain fewer than
/// 256 Ki / 3 words. Each word forms at most three pairs.
pub const FEATURES_MAX: usize = 1 << 18;

/// Maximum length of a request: a full feature list in base64, plus 256 KiB for everything else.
pub const SUBJECT_BYTES_MAX: usize = FEATURES_MAX * 8 / 3 * 4 + (1 << 18);

/// Maximum length of a feature list in base64.
const FEATURES_TEXT_MAX: usize = (FEATURES_MAX * 8).div_ceil(3) * 4;

/// The subject of a check, report, revocation or explanation.
///
/// ```
/// use bruit_protocols::http::Subject;
/// use bruit_signatures::{Context, Wanted, sign};
///
/// let signed = sign(b"\nBuy genuine watches", &Wanted { pyzor: true, ..Wanted::NONE }, &Context::default());
/// let subject = Subject::of(&signed, None);
/// assert_eq!(subject.signed()?.signatures, signed.signatures);
/// # Ok::<(), bruit_protocols::http::SubjectError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Subject {
    /// Signatures, at most [`SIGNATURES_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<NamedSignature>,
    /// The features of the text, used to find near replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// The composition of the message. Without an outline, the request is about separate signatures, not about one
    /// message. In a check, each signature and the text then decide independently. A claim then applies to everything
    /// in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outline: Option<Outline>,
    /// Sender's address, for the sender whitelist. It is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Mailing list identifier, for the list whitelist. It is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
}

/// A signature in text form, with the name of its scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedSignature {
    /// The scheme, such as `pyzor`.
    pub scheme: String,
    /// The signature.
    pub value: String,
    /// Name of the piece of the message that the signature covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
}

/// The composition of a message, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outline {
    /// Number of words, without greetings, signatures and boilerplate.
    pub words: u32,
    /// Number of the sender's own words: those in `words` that are neither quoted nor forwarded.
    pub own_words: u32,
    /// Number of files, except pictures, accessories such as business cards, and files inside an attached message.
    pub files: u32,
    /// Number of pictures.
    pub pictures: u32,
    /// Number of links.
    pub links: u32,
}

/// Features of a text. Each list is the base64 of at most [`FEATURES_MAX`] little-endian 8-byte numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Text {
    /// Word pairs from the sender's own text.
    pub pairs: String,
    /// Word pairs from the text parts that follow the main one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub appended: String,
    /// Links.
    pub links: String,
    /// Hash of the whole text, as 16 hex digits, used for texts with few features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
    /// True if the text is quoted or forwarded and the message has no other text.
    #[serde(skip_serializing_if = "is_false")]
    pub quoted: bool,
}

/// Reason why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectError {
    /// The request has neither signatures nor a text.
    #[error("neither signatures nor a text given")]
    Empty,
    /// The request has more than [`SIGNATURES_MAX`] signatures.
    #[error("too many signatures: {found}, the maximum is {SIGNATURES_MAX}")]
    TooManySignatures {
        /// Number of signatures.
        found: usize,
    },
    /// The request has more than [`FEATURES_MAX`] features of one kind.
    #[error("too many features of one kind: the maximum is {FEATURES_MAX}")]
    TooManyFeatures,
    /// A scheme is unknown.
    #[error("unknown scheme {0:?}")]
    UnknownScheme(String),
    /// A piece name is unknown.
    #[error("unknown piece {0:?}")]
    UnknownPiece(String),
    /// A signature is invalid for its scheme.
    #[error(transparent)]
    Signature(#[from] SpellingError),
    /// The features are not base64 of 8-byte numbers.
    #[error("invalid features: expected base64 of 8-byte numbers")]
    Features,
    /// A feature is repeated.
    #[error("duplicate feature")]
    RepeatedFeature,
    /// The hash of the whole text is not 16 hex digits.
    #[error("invalid hash of the whole text: expected 16 hex digits")]
    Whole,
    /// The sender is longer than [`SENDER_BYTES_MAX`].
    #[error("sender is longer than {SENDER_BYTES_MAX} bytes")]
    LongSender,
    /// The list identifier is longer than [`LIST_BYTES_MAX`].
    #[error("mailing list identifier is longer than {LIST_BYTES_MAX} bytes")]
    LongList,
}

impl Subject {
    /// Creates a subject from a signed message. Signatures and features beyond the limits are dropped.
    #[must_use]
    pub fn of(signed: &Signed, sender: Option<String>) -> Self {
        Self {
            signatures: signed.signatures.iter().take(SIGNATURES_MAX).map(NamedSignature::of).collect(),
            text: signed.features.as_ref().map(Text::of),
            outline: signed.outline.as_ref().map(Outline::of),
            sender,
            list: None,
        }
    }

    /// Decodes the signatures, in order, and the features. Link targets are not included.
    ///
    /// # Errors
    /// Returns [`SubjectError`] if the subject exceeds a limit or is invalid.
    pub fn signed(&self) -> Result<Signed, SubjectError> {
        let found = self.signatures.len();
        if found > SIGNATURES_MAX {
            return Err(SubjectError::TooManySignatures { found });
        }
        if found == 0 && self.text.is_none() {
            return Err(SubjectError::Empty);
        }
        if self.sender.as_ref().is_some_and(|sender| sender.len() > SENDER_BYTES_MAX) {
            return Err(SubjectError::LongSender);
        }
        if self.list.as_ref().is_some_and(|list| list.len() > LIST_BYTES_MAX) {
            return Err(SubjectError::LongList);
        }
        let signatures = self.signatures.iter().map(NamedSignature::signature).collect::<Result<_, _>>()?;
        let features = self.text.as_ref().map(Text::features).transpose()?;
        Ok(Signed { signatures, links: Vec::new(), features, outline: self.outline.map(Outline::outline) })
    }
}

impl NamedSignature {
    /// Creates the text form of a signature.
    #[must_use]
    pub fn of(signature: &Signature) -> Self {
        let piece = Some(signature.piece()).filter(|&piece| piece != Piece::Message);
        Self {
            scheme: signature.scheme().name().to_owned(),
            value: signature.to_string(),
            piece: piece.map(|piece| piece.name().to_owned()),
        }
    }

    /// Parses the signature.
    ///
    /// # Errors
    /// Returns [`SubjectError`] if the scheme is unknown or the signature is invalid for it.
    pub fn signature(&self) -> Result<Signature, SubjectError> {
        let unknown = || SubjectError::UnknownScheme(self.scheme.chars().take(32).collect());
        let scheme = Scheme::from_name(&self.scheme).ok_or_else(unknown)?;
        let piece = match &self.piece {
            Some(name) => {
                Piece::from_name(name).ok_or_else(|| SubjectError::UnknownPiece(name.chars().take(32).collect()))?
            }
            None => Piece::Message,
        };
        Ok(Signature::parse(scheme, &self.value)?.covering(piece))
    }
}

impl Outline {
    /// Creates the outline of a message.
    #[must_use]
    pub const fn of(outline: &signatures::Outline) -> Self {
        let signatures::Outline { words, own_words, files, pictures, links } = *outline;
        Self { words, own_words, files, pictures, links }
    }

    const fn outline(self) -> signatures::Outline {
        let Self { words, own_words, files, pictures, links } = self;
        signatures::Outline { words, own_words, files, pictures, links }
    }
}

impl Text {
    /// Encodes the features of a text, up to the limit of a request.
    #[must_use]
    pub fn of(features: &Features) -> Self {
        Self {
            pairs: encode(&features.pairs),
            appended: encode(&features.appended),
            links: encode(&features.links),
            whole: features.whole.map(|whole| format!("{whole:016x}")),
            quoted: features.is_quoted,
        }
    }

    /// Decodes the features.
    ///
    /// # Errors
    /// Returns [`SubjectError`] if there are too many features, or if they are malformed.
    pub fn features(&self) -> Result<Features, SubjectError> {
        Ok(Features {
            pairs: decode(&self.pairs)?,
            appended: decode(&self.appended)?,
            links: decode(&self.links)?,
            whole: self.whole.as_deref().map(parse_whole).transpose()?,
            is_quoted: self.quoted,
            files: Vec::new(),
        })
    }
}

fn encode(features: &[u64]) -> String {
    let bytes: Vec<u8> = features.iter().take(FEATURES_MAX).flat_map(|feature| feature.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// Decodes a feature list. Duplicates are an error, because a repeated number would count as several pairs of words.
fn decode(text: &str) -> Result<Vec<u64>, SubjectError> {
    if text.len() > FEATURES_TEXT_MAX {
        return Err(SubjectError::TooManyFeatures);
    }
    let bytes = STANDARD.decode(text).map_err(|_| SubjectError::Features)?;
    let (features, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(SubjectError::Features);
    }
    if features.len() > FEATURES_MAX {
        return Err(SubjectError::TooManyFeatures);
    }
    let features: Vec<u64> = features.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let mut sorted = features.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
        return Err(SubjectError::RepeatedFeature);
    }
    Ok(features)
}

fn parse_whole(text: &str) -> Result<u64, SubjectError> {
    let is_whole = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_whole).ok_or(SubjectError::Whole)
}

#[cfg(test)]
mod tests {
    use bruit_signatures::{Context, Wanted, sign};
    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &[u8] = b"From: a@b.example\n\nGenuine watches at wholesale prices, delivered within seven days: \
        http://shop.example.com/watches\n";

    fn with(signatures: usize) -> Subject {
        let signature = NamedSignature { scheme: "pyzor".into(), value: "00".repeat(20), piece: None };
        Subject { signatures: vec![signature; signatures], ..Subject::default() }
    }

    fn with_pairs(features: impl Iterator<Item = u64>) -> Subject {
        let bytes: Vec<u8> = features.flat_map(u64::to_le_bytes).collect();
        Subject { text: Some(Text { pairs: STANDARD.encode(bytes), ..Text::default() }), ..Subject::default() }
    }

    #[test]
    fn a_subject_decodes_to_what_was_encoded() {
        let signed = sign(MESSAGE, &Wanted::ALL, &Context::default());
        let subject = Subject::of(&signed, Some("a@b.example".into()));
        let text = serde_json::to_string(&subject).unwrap();
        assert!(!text.contains("watches"), "the request contains no word of the message: {text}");
        let read: Subject = serde_json::from_str(&text).unwrap();
        assert_eq!(read, subject);
        let again = read.signed().unwrap();
        assert_eq!(again.features, signed.features);
        let bytes = |signed: &Signed| signed.signatures.iter().map(|s| s.bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(bytes(&again), bytes(&signed));
    }

    #[test]
    fn signatures_end_at_their_bound() {
        assert_eq!(with(SIGNATURES_MAX).signed().unwrap().signatures.len(), SIGNATURES_MAX);
        let found = SIGNATURES_MAX + 1;
        assert_eq!(with(found).signed(), Err(SubjectError::TooManySignatures { found }));
        let mut signed = with(SIGNATURES_MAX).signed().unwrap();
        signed.signatures.push(signed.signatures[0]);
        assert_eq!(Subject::of(&signed, None).signatures.len(), SIGNATURES_MAX, "the rest is dropped");
    }

    #[test]
    fn features_end_at_their_bound() {
        let most = with_pairs(0..FEATURES_MAX as u64);
        let length = serde_json::to_vec(&most).unwrap().len();
        assert!(length < SUBJECT_BYTES_MAX, "{length}");
        let features = most.signed().unwrap().features.unwrap();
        assert_eq!(features.pairs.len(), FEATURES_MAX);
        assert_eq!(with_pairs(0..FEATURES_MAX as u64 + 1).signed(), Err(SubjectError::TooManyFeatures));
        assert_eq!(with_pairs(0..FEATURES_MAX as u64 + 9).signed(), Err(SubjectError::TooManyFeatures));
        let more = Features { pairs: (0..FEATURES_MAX as u64 + 1).collect(), ..Features::default() };
        assert_eq!(Text::of(&more).features().unwrap().pairs, features.pairs, "the rest is dropped");
    }

    #[test]
    fn no_text_has_more_features_than_fit() {
        // The text consists of distinct pairs of the shortest possible words, up to the limit.
        let letters = b'a'..=b'z';
        let words: Vec<String> = letters
            .clone()
            .flat_map(|one| letters.clone().map(move |two| format!("{}{}", one as char, two as char)))
            .collect();
        let mut text = String::from("\n");
        for (one, first) in words.iter().enumerate() {
            words.iter().skip(one + 1).for_each(|second| text.extend([first, " ", second, " "]));
        }
        let wanted = Wanted { bruit: true, ..Wanted::NONE };
        let features = sign(text.as_bytes(), &wanted, &Context::default()).features.unwrap();
        assert!(features.pairs.len() > 10_000 && features.pairs.len() <= FEATURES_MAX, "{}", features.pairs.len());
    }

    #[test]
    fn senders_are_bounded() {
        let mut subject = with(1);
        subject.sender = Some("a".repeat(SENDER_BYTES_MAX));
        assert!(subject.signed().is_ok());
        subject.sender = Some("a".repeat(SENDER_BYTES_MAX + 1));
        assert_eq!(subject.signed(), Err(SubjectError::LongSender));
    }

    #[test]
    fn list_identifiers_are_bounded() {
        let mut subject = with(1);
        subject.list = Some("a".repeat(LIST_BYTES_MAX));
        assert!(subject.signed().is_ok());
        subject.list = Some("a".repeat(LIST_BYTES_MAX + 1));
        assert_eq!(subject.signed(), Err(SubjectError::LongList));
    }

    #[test]
    fn invalid_subjects_are_refused_by_name() {
        assert_eq!(Subject::default().signed(), Err(SubjectError::Empty));
        assert_eq!(with_pairs([1, 2, 1].into_iter()).signed(), Err(SubjectError::RepeatedFeature));
        let text =
            |pairs: &str, whole: &str| Text { pairs: pairs.into(), whole: Some(whole.into()), ..Text::default() };
        assert_eq!(text("AAAA", "0000000000000000").features(), Err(SubjectError::Features));
        assert_eq!(text("AAAAAAAAAAA", "0000000000000000").features(), Err(SubjectError::Features));
        assert_eq!(text("", "+000000000000000").features(), Err(SubjectError::Whole));
        assert_eq!(text("AAAAAAAAAAA=", "000000000000000a").features().unwrap().whole, Some(10));
        let named =
            |scheme: &str, value: &str| NamedSignature { scheme: scheme.into(), value: value.into(), piece: None };
        assert_eq!(named("md5", "00").signature(), Err(SubjectError::UnknownScheme("md5".into())));
        assert!(matches!(named("pyzor", "00").signature(), Err(SubjectError::Signature(_))));
        assert!(serde_json::from_str::<Subject>(r#"{"message": "text"}"#).is_err());
    }

    proptest! {
        #[test]
        fn any_features_come_out_again(
            pairs in prop::collection::hash_set(any::<u64>(), 0..50),
            appended in prop::collection::hash_set(any::<u64>(), 0..50),
            links in prop::collection::hash_set(any::<u64>(), 0..50),
            whole in any::<Option<u64>>(),
            is_quoted in any::<bool>(),
        ) {
            let [pairs, appended, links] = [pairs, appended, links].map(|set| set.into_iter().collect());
            let features = Features { pairs, appended, links, whole, is_quoted, files: Vec::new() };
            prop_assert_eq!(Text::of(&features).features(), Ok(features));
        }
    }
}
