//! Descriptions of the reasons for a verdict.

/// Describes the reason for a verdict. An unknown reason is returned unchanged.
pub(crate) fn words(reason: &str) -> &str {
    match reason {
        "own_reports" => "the site's own users reported it",
        "evidence" => "independent reporters agree",
        "listed" => "it was listed, but the details have expired",
        "revoked" => "it was revoked",
        "whitelisted" => "it is whitelisted",
        "sender_whitelisted" => "its sender is whitelisted",
        "many_recipients" => "it was sent to many recipients",
        "suspected" => "it matches reports, but not enough to be sure",
        "not_reported" => "no trusted reporter has reported it",
        "not_in_replica" => "none of its signatures is in the local replica",
        other => other,
    }
}

/// Describes why a listed signature did not decide the verdict. An unknown reason is returned unchanged.
pub(crate) fn limit_words(limit: &str) -> &str {
    match limit {
        "one_part" => "it covers one part, which other messages may share",
        "picture" => "pictures are copied from good mail",
        "accessory" => "business cards, invitations and tiny files occur in many messages",
        "beside_text" => "the message has its own text besides this file",
        "other_file" => "another file of the message is not listed",
        "short_text" => "the text is too short to identify a message",
        "quoted" => "the text is quoted or forwarded",
        "resemblance" => "the message resembles the reported text, but is not close to it",
        "template" => "much of the reported text is known from good mail, and only one person reported it",
        other => other,
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
