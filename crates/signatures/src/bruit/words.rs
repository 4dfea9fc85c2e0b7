//! The matching form of words, which consists only of letters. Digits and symbols that stand for letters are converted
//! to them, and other characters between letters are removed.
//!
//! The form need not be spelt correctly. It only has to be the same for all ways of writing a word.

use xxhash_rust::xxh3::xxh3_64;

use super::boilerplate::Topics;
use super::fold;
use super::roles::{Role, role};

/// Maximum length of a word. Longer words are codes that differ from copy to copy.
const WORD_CHARS_MAX: usize = 20;

/// Minimum number of consecutive single letters that spell out a word.
const SPELT_LETTERS_MIN: usize = 3;

/// Endings of bare host names and of files on a host. They distinguish `example.com` from two words joined by a full
/// stop, such as `here.Now`.
const HOST_ENDS: [&str; 8] = [".com", ".net", ".org", ".info", ".biz", ".edu", ".gov", ".html"];

/// Substrings of mailing list addresses.
const LIST_ADDRESSES: [&str; 5] = ["lists.", "list@", "listinfo", "majordomo", "groups."];

/// A word of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// Hash of the word, for matching.
    pub hash: u64,
    /// The role of the word.
    pub role: Role,
    /// Boilerplate topics whose vocabulary contains the word.
    pub topics: Topics,
    /// End of the word's letters in [`Words::letters`]. They begin at the end of the previous word.
    end: usize,
}

/// The words of a text, in order.
#[derive(Debug, Default)]
pub(super) struct Words {
    list: Vec<Word>,
    /// The letters of all words. Empty if they are not needed.
    letters: String,
    forgets_letters: bool,
    has_no_roles: bool,
    /// The letters of the current word.
    word: String,
    runs: Vec<(usize, usize)>,
}

impl Words {
    /// Creates a list for matching. It does not keep the letters, which are only needed for display.
    pub(super) fn without_letters() -> Self {
        Self { forgets_letters: true, ..Self::default() }
    }

    /// Creates a list for computing the role tables, which only needs hashes.
    pub(super) fn without_roles() -> Self {
        Self { forgets_letters: true, has_no_roles: true, ..Self::default() }
    }

    /// Returns the number of words.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns all words.
    pub(super) fn list(&self) -> &[Word] {
        &self.list
    }

    /// Returns the letters of the word at an index.
    pub(super) fn letters(&self, index: usize) -> &str {
        let end = |index: usize| self.list.get(index).map_or(0, |word| word.end);
        self.letters.get(index.checked_sub(1).map_or(0, end)..end(index)).unwrap_or_default()
    }

    /// Adds the words of one line of folded text.
    pub(super) fn add_line(&mut self, line: &str) {
        let mut spelt = Spelt::default();
        let mut rest = line;
        loop {
            let text = rest.trim_ascii_start();
            if text.is_empty() {
                break;
            }
            let blanks = rest.len() - text.len();
            if let Some(length) = plain_word(text.as_bytes()) {
                self.add_spelt(&mut spelt);
                let (word, behind) = text.split_at(length);
                self.add_plain_word(word);
                rest = behind.trim_start_matches(is_mark);
                continue;
            }
            let (token, behind) = text.split_at(memchr::memchr2(b' ', b'\t', text.as_bytes()).unwrap_or(text.len()));
            rest = behind;
            if blanks > 1 || !spelt.take(token) {
                self.add_spelt(&mut spelt);
                if !spelt.take(token) {
                    self.add_token(token);
                }
            }
            if spelt.is_over {
                self.add_spelt(&mut spelt);
            }
        }
        self.add_spelt(&mut spelt);
    }

    /// Adds the word that is spelt in single letters, if there are enough of them. Otherwise the letters are dropped,
    /// like any single letter.
    fn add_spelt(&mut self, spelt: &mut Spelt) {
        if spelt.count == 0 {
            return;
        }
        if spelt.count >= SPELT_LETTERS_MIN {
            self.add_word(&spelt.letters);
        }
        spelt.clear();
    }

    fn add_token(&mut self, token: &str) {
        if is_address(token) {
            if LIST_ADDRESSES.iter().any(|part| token.contains(part)) {
                self.list.push(Word { hash: 0, role: Role::ListAddress, topics: 0, end: self.letters.len() });
            }
            return;
        }
        self.runs.clear();
        self.runs.extend(letter_runs(token));
        if is_broken_up(&self.runs) {
            let joined: String = token.chars().filter(|&char| is_letter(char)).collect();
            self.add_word(&joined);
            return;
        }
        let mut from = None;
        for at in 0..self.runs.len() {
            let Some(&(start, end)) = self.runs.get(at) else { break };
            let start = *from.get_or_insert(start);
            let next = self.runs.get(at + 1).and_then(|&(next, _)| token.get(end..next));
            if !next.is_some_and(is_joint) {
                self.add_word(token.get(start..end).unwrap_or_default());
                from = None;
            }
        }
    }

    /// Adds a word that consists only of letters, like most words.
    fn add_plain_word(&mut self, word: &str) {
        if word.len() <= WORD_CHARS_MAX {
            let mut letters = [0; WORD_CHARS_MAX];
            for (letter, byte) in letters.iter_mut().zip(word.bytes()) {
                *letter = if matches!(byte, b'i' | b'j') { b'l' } else { byte };
            }
            self.push(letters.get(..word.len()).and_then(|letters| str::from_utf8(letters).ok()).unwrap_or_default());
        }
    }

    /// Adds a run of letters, which may contain digits, symbols, and joints such as `-` between letters. The run makes
    /// one word, or several words in a script without blanks.
    fn add_word(&mut self, written: &str) {
        let written = written.trim_end_matches(is_end_sign).trim_start_matches(is_start_sign);
        if !written.contains(char::is_alphabetic) {
            return;
        }
        let mut word = std::mem::take(&mut self.word);
        word.clear();
        word.extend(written.chars().filter_map(matching_letter));
        let count = word.chars().count();
        if word.contains(is_unspaced) || (count > WORD_CHARS_MAX && !word.is_ascii()) {
            self.add_pairs_of_characters(&word);
        } else if (2..=WORD_CHARS_MAX).contains(&count) {
            self.push(&word);
        }
        self.word = word;
    }

    fn add_pairs_of_characters(&mut self, letters: &str) {
        let starts: Vec<usize> = letters.char_indices().map(|(at, _)| at).chain([letters.len()]).collect();
        for window in starts.windows(3) {
            if let [start, _, end] = *window {
                self.push(letters.get(start..end).unwrap_or_default());
            }
        }
    }

    fn push(&mut self, letters: &str) {
        if !self.forgets_letters {
            self.letters.push_str(letters);
        }
        let hash = hash(letters);
        let (role, topics) = if self.has_no_roles { (Role::Content, 0) } else { role(hash) };
        self.list.push(Word { hash, role, topics, end: self.letters.len() });
    }
}

/// Letters written one by one and separated by blanks, as in `v i a g r a`.
#[derive(Default)]
struct Spelt {
    letters: String,
    count: usize,
    is_over: bool,
}

impl Spelt {
    /// Adds a token if it is a single letter. Returns false for any other token. A punctuation mark after the letter
    /// ends the word.
    fn take(&mut self, token: &str) -> bool {
        // The second byte rules out most tokens.
        if token.as_bytes().get(1).is_some_and(u8::is_ascii_alphanumeric) {
            return false;
        }
        let trimmed = token.trim_end_matches(['.', ',', ';', ':', '?', ')', '"', '\'']);
        let mut chars = trimmed.chars();
        let (Some(letter), None) = (chars.next(), chars.next()) else { return false };
        if self.is_over || !is_letter(letter) {
            return false;
        }
        self.letters.push(letter);
        self.count += 1;
        self.is_over = trimmed.len() < token.len();
        true
    }

    fn clear(&mut self) {
        self.letters.clear();
        self.count = 0;
        self.is_over = false;
    }
}

/// Returns the length of the word at the start of a text, if it consists of lower-case letters and is followed by a
/// blank, or by a punctuation mark and a blank. This is the fast path for most words.
fn plain_word(text: &[u8]) -> Option<usize> {
    let length = text.iter().position(|byte| !byte.is_ascii_lowercase()).unwrap_or(text.len());
    let is_blank = |at: usize| text.get(at).is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    let is_marked = || text.get(length).is_some_and(|&byte| is_mark(char::from(byte))) && is_blank(length + 1);
    (length > 1 && (is_blank(length) || is_marked())).then_some(length)
}

/// Returns the matching form of a single word.
pub(super) fn matching_form(word: &str) -> String {
    fold::folded(word).chars().filter_map(matching_letter).collect()
}

/// Returns the hash of a word in its matching form.
pub(super) fn hash(letters: &str) -> u64 {
    // The hash is fast and unkeyed. Hashes that sites exchange are hashed again with the key of their realm.
    xxh3_64(letters.as_bytes())
}

/// Returns the letter that a character of a word represents, or `None` for a character that only joins letters.
fn matching_letter(char: char) -> Option<char> {
    let letter = match char {
        '0' => 'o',
        '1' | '!' | '|' | 'i' | 'j' => 'l',
        '2' => 'z',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '6' | '9' => 'g',
        '7' | '+' => 't',
        '8' => 'b',
        '(' | '[' | '{' => 'c',
        '#' => 'h',
        char => char,
    };
    letter.is_alphabetic().then_some(letter)
}

/// Returns true if the character can be part of a word.
fn is_letter(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '@' | '$' | '!' | '|' | '+' | '(' | '[' | '{' | '#')
}

/// Returns true for symbols that, at the end of a word, are more often punctuation than letters.
fn is_end_sign(char: char) -> bool {
    matches!(char, '!' | '(' | '[' | '{' | '#')
}

/// Returns true for symbols that, at the start of a word, are more often punctuation than letters.
fn is_start_sign(char: char) -> bool {
    matches!(char, '(' | '[' | '{' | '#')
}

/// Returns true for scripts written without blanks between words.
fn is_unspaced(char: char) -> bool {
    matches!(char, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns true if the text between two runs of letters joins the runs into one word.
fn is_joint(between: &str) -> bool {
    matches!(between, "-" | "*" | "_" | "^" | "~" | "'" | "`")
}

/// Returns the runs of characters that can be part of a word.
fn letter_runs(token: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut chars = token.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = chars.find(|&(_, char)| is_letter(char))?;
        while chars.next_if(|&(_, char)| is_letter(char)).is_some() {}
        let end = chars.peek().map_or(token.len(), |&(at, _)| at);
        Some((start, end))
    })
}

/// Returns true if the runs are the letters of one word with other characters between them, as in `v*i*a*g*r*a`.
fn is_broken_up(runs: &[(usize, usize)]) -> bool {
    let singles = runs.iter().filter(|(start, end)| end - start == 1).count();
    let is_close = runs.windows(2).all(|pair| matches!(pair, [(_, end), (next, _)] if next - end <= 2));
    runs.len() >= SPELT_LETTERS_MIN && 3 * singles >= 2 * runs.len() && is_close
}

/// Returns true for punctuation that never represents a letter at the start or end of a word.
fn is_mark(char: char) -> bool {
    matches!(char, '.' | ',' | ';' | ':' | '?' | '"' | ')' | '\'')
}

/// Returns true if a token is a URL or a mail address. Addresses are personal, and URLs have their own signature
/// scheme.
fn is_address(token: &str) -> bool {
    let token = token.trim_matches(['<', '>', '(', ')', '[', ']', '"', '\'', ',', ';', '.', ':', '!', '?']);
    token.contains("://")
        || token.starts_with("www.")
        || token.starts_with("mailto:")
        || token.split_once('@').is_some_and(|(name, host)| !name.is_empty() && is_host(host))
        || (token.contains('.')
            && is_host(token.split_once('/').map_or(token, |(host, _)| host))
            && has_host_end(token))
}

fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.contains('.') && text.split('.').all(is_label)
}

fn has_host_end(token: &str) -> bool {
    let host = token.split_once('/').map_or(token, |(host, _)| host);
    HOST_ENDS.iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut words = Words::default();
        words.add_line(&fold::folded(line));
        (0..words.len()).map(|index| words.letters(index).to_owned()).collect()
    }

    #[test]
    fn ways_to_write_a_word() {
        for written in [
            "viagra",
            "V1AGRA",
            "v!agr@",
            "v|4gra",
            "V i a g r a",
            "v.i.a.g.r.a",
            "v-i-a-g-r-a",
            "v*i*a*g*r*a",
            "V_i_a_g_r_a,",
            "vi-agra",
            "via*gra",
            "v i a g r a.",
            "(viagra)",
            "\"viagra!\"",
            "vіаgrа",
            "v1@gr4!!!",
        ] {
            assert_eq!(words(written), ["vlagra"], "{written}");
        }
    }

    #[test]
    fn numbers_addresses_and_codes_are_no_words() {
        for line in [
            "100 $99.95 #1 12:30 +44",
            "http://x.example/a www.example.org a.b@c.example <mailto:x@y.z>",
            "example.com/buy",
            "x a",
            "abcdefghijklmnopqrstuvwxyz",
        ] {
            assert_eq!(words(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn sentences_come_apart() {
        assert_eq!(
            words("Click here.Now -- or later, and/or never"),
            ["cllck", "here", "now", "or", "later", "and", "or", "never"]
        );
    }

    #[test]
    fn spelt_words_end_at_two_blanks_or_a_mark() {
        assert_eq!(words("f r e e  c a s h, n o w"), ["free", "cash", "now"]);
    }

    #[test]
    fn scripts_without_blanks_give_pairs() {
        assert_eq!(words("免费发票"), ["免费", "费发", "发票"]);
    }
}
