//! Reasons for a verdict, as words in a header field.

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
