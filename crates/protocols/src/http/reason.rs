//! The reasons in answers. A reason is one word in JSON. An unknown word from a newer server is kept unchanged.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines an enum of words, with a last variant for any other word.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$of_variant:meta])* $variant:ident => $word:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$of_variant])* $variant,)*
            /// A word that this version does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Returns the word used in JSON.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|word| Self::from(word.as_str()))
            }
        }
    };
}

words! {
    /// The reason for a verdict. Below, "it" is the message or signature.
    #[derive(Default)]
    Reason {
        /// No trusted reporter has reported it.
        #[default]
        NotReported => "not_reported",
        /// It matches reports that are not sufficient evidence.
        Suspected => "suspected",
        /// The site's own users reported it.
        OwnReports => "own_reports",
        /// Independent reporters agree.
        Evidence => "evidence",
        /// It is listed, but the detailed evidence has expired.
        Listed => "listed",
        /// It was revoked.
        Revoked => "revoked",
        /// It is whitelisted.
        Whitelisted => "whitelisted",
        /// The sender of the message is whitelisted.
        SenderWhitelisted => "sender_whitelisted",
        /// It was sent to many recipients.
        ManyRecipients => "many_recipients",
        /// The local replica does not list it. Servers never return this reason; `bruit check` prints it.
        NotInReplica => "not_in_replica",
    }
}

words! {
    /// The reason why a listed signature does not decide the verdict on a message. Below, "it" is the signature.
    Limit {
        /// It covers one part of several.
        OnePart => "one_part",
        /// It covers a picture.
        Picture => "picture",
        /// It covers a business card, an invitation or a tiny file.
        Accessory => "accessory",
        /// The message has text of its own besides the file.
        BesideText => "beside_text",
        /// Another file of the message is not listed.
        OtherFile => "other_file",
        /// The text is too short to identify a message.
        ShortText => "short_text",
        /// The text is quoted or forwarded.
        Quoted => "quoted",
        /// The message resembles the reported text, but is not close to it.
        Resemblance => "resemblance",
        /// The reported text is a template that only one person has reported.
        Template => "template",
    }
}

impl Reason {
    /// Returns a sentence for people, so that every program explains a verdict in the same words.
    #[must_use]
    pub fn sentence(&self) -> &str {
        match self {
            Self::OwnReports => "the site's own users reported it",
            Self::Evidence => "independent reporters agree",
            Self::Listed => "it was listed, but the details have expired",
            Self::Revoked => "it was revoked",
            Self::Whitelisted => "it is whitelisted",
            Self::SenderWhitelisted => "its sender is whitelisted",
            Self::ManyRecipients => "it was sent to many recipients",
            Self::Suspected => "it matches reports, but not enough to be sure",
            Self::NotReported => "no trusted reporter has reported it",
            Self::NotInReplica => "none of its signatures is in the local replica",
            Self::Other(word) => word,
        }
    }
}

impl Limit {
    /// Returns a sentence for people.
    #[must_use]
    pub fn sentence(&self) -> &str {
        match self {
            Self::OnePart => "it covers one part, which other messages may share",
            Self::Picture => "pictures are copied from good mail",
            Self::Accessory => "business cards, invitations and tiny files occur in many messages",
            Self::BesideText => "the message has its own text besides this file",
            Self::OtherFile => "another file of the message is not listed",
            Self::ShortText => "the text is too short to identify a message",
            Self::Quoted => "the text is quoted or forwarded",
            Self::Resemblance => "the message resembles the reported text, but is not close to it",
            Self::Template => "much of the reported text is known from good mail, and only one person reported it",
            Self::Other(word) => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_sentences_and_new_ones_are_shown_as_they_are() {
        assert_eq!(Reason::OwnReports.sentence(), "the site's own users reported it");
        assert_eq!(Limit::Picture.sentence(), "pictures are copied from good mail");
        assert_eq!(Reason::from("a_new_one").sentence(), "a_new_one");
    }

    #[test]
    fn reasons_are_words_in_json_and_unknown_words_are_kept() {
        for (text, reason) in [
            (r#""own_reports""#, Reason::OwnReports),
            (r#""not_in_replica""#, Reason::NotInReplica),
            (r#""of_the_next_version""#, Reason::Other("of_the_next_version".into())),
        ] {
            assert_eq!(serde_json::from_str::<Reason>(text).unwrap(), reason);
            assert_eq!(serde_json::to_string(&reason).unwrap(), text);
        }
        assert_eq!(serde_json::to_string(&Limit::BesideText).unwrap(), r#""beside_text""#);
        assert_eq!(Limit::from("beside_text"), Limit::BesideText);
        assert_eq!(Reason::default().as_str(), "not_reported");
    }
}
