//! Parsing of signatures from their text form.
//!
//! A text is a signature of a scheme if it encodes the right number of bytes. Razor's signatures are in razor64, and
//! all others are in hex digits of either case.

use crate::hex;
use crate::razor::{E4Signature, E8Signature};
use crate::scheme::{Scheme, Signature};

/// Reason why a text is not a signature of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {scheme} signature: expected {spelling}")]
pub struct SpellingError {
    scheme: Scheme,
    spelling: &'static str,
}

impl Scheme {
    /// Returns the scheme with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// Returns the length of a signature of this scheme in bytes.
    pub const fn signature_bytes(self) -> usize {
        match self {
            Self::Exact | Self::Attachment | Self::Url => 32,
            Self::Pyzor | Self::Pyzor11 | Self::RazorE4 => 20,
            Self::RazorE8 => 8,
            Self::DccIp
            | Self::DccEnvFrom
            | Self::DccFrom
            | Self::DccMessageId
            | Self::DccReceived
            | Self::DccBody
            | Self::DccFuz1 => 16,
        }
    }

    const fn spelling(self) -> &'static str {
        match (self, self.signature_bytes()) {
            (Self::RazorE4, _) => "28 razor64 characters ending in `A`",
            (Self::RazorE8, _) => "12 razor64 characters ending in `A`",
            (_, 16) => "32 hex digits",
            (_, 20) => "40 hex digits",
            (_, _) => "64 hex digits",
        }
    }
}

impl Signature {
    /// Parses a signature of the whole message from its text form.
    ///
    /// ```
    /// use bruit_signatures::{Scheme, Signature};
    ///
    /// let signature = Signature::parse(Scheme::RazorE4, "maD-J2LHO2hbHzZrbOXcsZ6ndsoA")?;
    /// assert_eq!(signature.to_string(), "maD-J2LHO2hbHzZrbOXcsZ6ndsoA");
    /// # Ok::<(), bruit_signatures::SpellingError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`SpellingError`] if the text is not a signature of the scheme.
    pub fn parse(scheme: Scheme, text: &str) -> Result<Self, SpellingError> {
        let parsed = match scheme {
            Scheme::RazorE4 => text.parse().ok().map(|E4Signature(bytes)| Self::new(scheme, None, &bytes)),
            Scheme::RazorE8 => text.parse().ok().map(|E8Signature(bytes)| Self::new(scheme, None, &bytes)),
            _ => parse_hex(scheme, text),
        };
        parsed.ok_or_else(|| SpellingError { scheme, spelling: scheme.spelling() })
    }
}

fn parse_hex(scheme: Scheme, text: &str) -> Option<Signature> {
    let mut bytes = [0; Signature::BYTES_MAX];
    let bytes = bytes.get_mut(..scheme.signature_bytes())?;
    hex::fill(bytes, text)?;
    Some(Signature::new(scheme, None, bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Context, Wanted, dcc, sign};

    const MESSAGE: &[u8] = b"From: a@b.example\nMessage-ID: <1@b.example>\nReceived: from c\nContent-Type: multipart/mixed; \
        boundary=X\n\n--X\n\nGenuine watches at wholesale prices: http://shop.example.com/watches and more of a text that \
        is long enough for every scheme.\n--X\nContent-Type: image/png\nContent-Disposition: attachment\n\nnot\0an image\n--X--\n";

    #[test]
    fn every_scheme_reads_what_it_writes() {
        let envelope = dcc::Envelope { client: Some([192, 0, 2, 1].into()), sender: Some(b"a@b.example") };
        let signed = sign(MESSAGE, &Wanted::ALL, &Context { envelope, ..Context::default() });
        for signature in &signed.signatures {
            assert_eq!(signature.bytes().len(), signature.scheme().signature_bytes(), "{signature:?}");
            let read = Signature::parse(signature.scheme(), &signature.to_string()).unwrap();
            assert_eq!((read.scheme(), read.bytes()), (signature.scheme(), signature.bytes()));
        }
        let is_there = |scheme: &Scheme| signed.signatures.iter().any(|signature| signature.scheme() == *scheme);
        assert!(
            Scheme::ALL.iter().all(is_there),
            "the message has signatures of all schemes; its NUL makes the digests of the two Pyzor releases differ"
        );
    }

    #[test]
    fn schemes_are_found_by_name() {
        Scheme::ALL.iter().for_each(|scheme| assert_eq!(Scheme::from_name(scheme.name()), Some(*scheme)));
        assert_eq!(Scheme::from_name("Exact"), None);
        assert_eq!(Scheme::from_name("bruit"), None, "features are not signatures");
    }

    #[test]
    fn digits_may_have_either_case_and_their_number_is_fixed() {
        let digits = "A94a8fe5ccb19ba61c4c0873d391e987982fbbd3";
        let read = Signature::parse(Scheme::Pyzor, digits).unwrap();
        assert_eq!(read.to_string(), digits.to_lowercase());
        for other in
            ["", &digits[1..], &digits[2..], "a94a8fe5ccb19ba61c4c0873d391e987982fbbg3", &format!("{digits}00")]
        {
            let error = Signature::parse(Scheme::Pyzor, other).unwrap_err();
            assert_eq!(error.to_string(), "invalid pyzor signature: expected 40 hex digits", "{other}");
        }
        let error = Signature::parse(Scheme::RazorE8, "CEwqbhldO38B").unwrap_err();
        assert!(error.to_string().ends_with("12 razor64 characters ending in `A`"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(at in 0..Scheme::ALL.len(), text in "\\PC{0,70}|[0-9a-f]{0,70}") {
            if let Ok(signature) = Signature::parse(Scheme::ALL[at], &text) {
                prop_assert_eq!(signature.to_string(), text.to_lowercase());
            }
        }
    }
}
