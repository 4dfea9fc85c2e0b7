//! Descriptions of the reasons for a verdict.

use bruit_client::http::{Limit, Reason};

/// Describes the reason for a verdict. An unknown reason is returned unchanged.
pub(crate) fn words(reason: &Reason) -> &str {
    match reason {
        Reason::OwnReports => "the site's own users reported it",
        Reason::Evidence => "independent reporters agree",
        Reason::Listed => "it was listed, but the details have expired",
        Reason::Revoked => "it was revoked",
        Reason::Whitelisted => "it is whitelisted",
        Reason::SenderWhitelisted => "its sender is whitelisted",
        Reason::ManyRecipients => "it was sent to many recipients",
        Reason::Suspected => "it matches reports, but not enough to be sure",
        Reason::NotReported => "no trusted reporter has reported it",
        Reason::NotInReplica => "none of its signatures is in the local replica",
        other => other.as_str(),
    }
}

/// Describes why a listed signature did not decide the verdict. An unknown reason is returned unchanged.
pub(crate) fn limit_words(limit: &Limit) -> &str {
    match limit {
        Limit::OnePart => "it covers one part, which other messages may share",
        Limit::Picture => "pictures are copied from good mail",
        Limit::Accessory => "business cards, invitations and tiny files occur in many messages",
        Limit::BesideText => "the message has its own text besides this file",
        Limit::OtherFile => "another file of the message is not listed",
        Limit::ShortText => "the text is too short to identify a message",
        Limit::Quoted => "the text is quoted or forwarded",
        Limit::Resemblance => "the message resembles the reported text, but is not close to it",
        Limit::Template => "much of the reported text is known from good mail, and only one person reported it",
        other => other.as_str(),
    }
}

/// Returns a word from the server if it is safe in a header field, otherwise "other".
pub(crate) fn machine_word(word: &str) -> &str {
    let is_word = !word.is_empty() && word.len() <= 32;
    let is_plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word && is_plain { word } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_word_goes_into_a_header() {
        assert_eq!(machine_word("own_reports"), "own_reports");
        for word in ["", "a b", "a\r\nX-Spam: no", "ä", "A", "a;b", &"a".repeat(33)] {
            assert_eq!(machine_word(word), "other", "{word:?}");
        }
        assert_eq!(machine_word(&"a".repeat(32)).len(), 32);
    }
}
