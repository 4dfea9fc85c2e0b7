//! Refusal of weak passwords, which are looked up in a filter built into the program.
//!
//! Spafford's Opus ("Preventing weak password choices", 1991) stores the dictionary of guessable passwords in a Bloom
//! filter and checks every new password against it. The filter here is 43 kB long, and no word can be read from it. If
//! a false positive refuses a good password, its owner has to choose another.
//!
//! People append digits to a common word or capitalise it, and attackers know that. So two forms are looked up: the
//! password in lower case, and the lower-case password without trailing digits and punctuation (at most
//! [`ENDING_BYTES_MAX`] bytes). The false-positive rate of each lookup is 1 in 2,000.
//!
//! An operator can add a [`WordList`] of other words, such as names used at the site or passwords that leaked from it.
//! A word list is the same kind of filter, so no word can be read from it. It is searched for the same two forms, and
//! for the password as entered.
//!
//! ```
//! use bruit_engine::passwords::{WeakPassword, judge};
//!
//! assert_eq!(judge(b"Dragon2024!"), Err(WeakPassword::Common));
//! assert_eq!(judge(b"dragon lemon 2024!"), Ok(()));
//! ```

use std::sync::LazyLock;

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::file::StoredFilter;
use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
use bruit_filters::{FingerprintKey, file};

/// Minimum password length in bytes (NIST SP 800-63B requires eight characters).
pub const PASSWORD_BYTES_MIN: usize = 8;

/// Maximum length of an ending that is removed. An attacker who has the verifier can append each of a million six-digit
/// numbers to 20,000 words, and try them all in seconds.
pub const ENDING_BYTES_MAX: usize = 6;

/// At most one in this many good passwords is refused by mistake.
pub const ERRS_ONCE_IN: u32 = 1_000;

/// False-positive rate of one lookup in an operator's word list. A password needs up to three lookups.
pub const WORD_LIST_RATE: f64 = 4.5e-4;

/// The filter file. `data/README.md` lists the sources of its words.
const FILE: &[u8] = include_bytes!("../data/common-passwords.filter");

static COMMON: LazyLock<Common> = LazyLock::new(|| Common::read(FILE));

/// Reason for refusing a password, worded for the person who chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// The password is shorter than [`PASSWORD_BYTES_MIN`].
    #[error("the password is too short: choose one of at least {PASSWORD_BYTES_MIN} characters")]
    TooShort,
    /// The password is on the built-in list, or a false positive.
    #[error(
        "the password is on a list of common passwords, or is among the 1 in {ERRS_ONCE_IN} good passwords \
         that are refused by mistake: choose another"
    )]
    Common,
    /// The password is on the operator's list, or a false positive.
    #[error(
        "the password is on this site's list of forbidden passwords, or is among the few good passwords that are \
         refused by mistake: choose another"
    )]
    Listed,
}

/// A list of forbidden passwords, stored as a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct WordList {
    key: FingerprintKey,
    filter: StoredFilter,
}

/// Error for a filter file that cannot be used as a word list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordListError {
    /// The file cannot be decoded.
    #[error(transparent)]
    File(#[from] file::FileError),
    /// The file has no key, which lookups need.
    #[error("the filter file has no key, but lookups need one")]
    NoKey,
}

impl WordList {
    /// Creates a list of `words`, ignoring case, under a key of random bytes.
    #[must_use]
    pub fn of<'w>(words: impl Iterator<Item = &'w [u8]> + Clone, key: [u8; 16]) -> Self {
        let key = FingerprintKey::new(key);
        let count = words.clone().count().max(1) as u64;
        let plan = MembershipPlan::new(Layout::OneLine, count, Goal::Rate(WORD_LIST_RATE))
            .expect("a filter exists for any number of words that fit in memory");
        let mut filter = OneLineFilter::from_plan(&plan, key.id())
            .expect("a list of words in memory has a filter of the planned size");
        words.for_each(|word| filter.insert(&key.fingerprint(&word.to_ascii_lowercase())));
        Self { key, filter: StoredFilter::OneLineMembership(filter) }
    }

    /// Reads a filter file that `bruit filter` created from words. Its length must not exceed `limit` bytes.
    ///
    /// # Errors
    /// [`WordListError`].
    pub fn from_filter_file(mut bytes: &[u8], limit: u64) -> Result<Self, WordListError> {
        let stored = file::decode(&mut bytes, limit)?;
        Ok(Self { key: stored.key.ok_or(WordListError::NoKey)?, filter: stored.filter })
    }

    /// Checks that a password is not on the list, whether as entered, in lower case, or in lower case without its
    /// ending.
    ///
    /// # Errors
    /// [`WeakPassword::Listed`].
    pub fn judge(&self, password: &[u8]) -> Result<(), WeakPassword> {
        let lower_case = password.to_ascii_lowercase();
        let forms = [password, &lower_case, without_ending(&lower_case)].map(|form| self.key.fingerprint(form));
        let mut counts = [0; 3];
        self.filter.count_batch(&forms, &mut counts);
        if counts == [0; 3] { Ok(()) } else { Err(WeakPassword::Listed) }
    }
}

/// Checks that a password is acceptable.
///
/// # Errors
/// [`WeakPassword`] with the reason.
pub fn judge(password: &[u8]) -> Result<(), WeakPassword> {
    if password.len() < PASSWORD_BYTES_MIN {
        return Err(WeakPassword::TooShort);
    }
    if COMMON.knows(&password.to_ascii_lowercase()) {
        return Err(WeakPassword::Common);
    }
    Ok(())
}

/// The built-in list.
struct Common {
    key: FingerprintKey,
    filter: OneLineFilter,
}

impl Common {
    fn read(mut bytes: &[u8]) -> Self {
        let limit = bytes.len() as u64;
        let file = file::decode(&mut bytes, limit).expect("the built-in file is tested");
        let key = file.key.expect("the built-in file holds its key");
        Self { key, filter: OneLineFilter::try_from(file.filter).expect("the built-in file holds a one-line filter") }
    }

    fn knows(&self, lower_case: &[u8]) -> bool {
        let forms = [lower_case, without_ending(lower_case)];
        forms.iter().any(|form| self.filter.contains(&self.key.fingerprint(form)))
    }
}

/// Removes trailing digits and punctuation from a password. Returns the password unchanged if the ending is too long or
/// is the whole password.
fn without_ending(password: &[u8]) -> &[u8] {
    let is_added = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_punctuation();
    let ending = password.iter().rev().take_while(|byte| is_added(byte)).count();
    if ending > ENDING_BYTES_MAX || ending == password.len() { password } else { &password[..password.len() - ending] }
}

#[cfg(test)]
mod tests {
    use bruit_filters::Fingerprint;

    use super::*;

    #[test]
    fn common_passwords_are_refused() {
        for password in ["password", "12345678", "iloveyou", "qwertyuiop", "PASSWORD", "Trustno1", "1q2w3e4r"] {
            assert_eq!(judge(password.as_bytes()), Err(WeakPassword::Common), "{password}");
        }
    }

    #[test]
    fn common_words_with_an_ending_are_refused() {
        for password in ["Password1!", "dragon2024", "monkey99", "Letmein#1", "password123456"] {
            assert_eq!(judge(password.as_bytes()), Err(WeakPassword::Common), "{password}");
        }
    }

    #[test]
    fn the_length_of_an_ending_is_bounded() {
        assert_eq!(without_ending(b"dragon123456"), b"dragon");
        assert_eq!(without_ending(b"dragon1234567"), b"dragon1234567");
        assert_eq!(without_ending(b"12345"), b"12345");
        assert_eq!(without_ending(b""), b"");
    }

    #[test]
    fn good_passwords_are_accepted() {
        for password in
            ["tin whistle 7", "correct horse battery staple", "dragon lemon 2024!", "xK4#vv9Qz-", "größeres Glück"]
        {
            assert_eq!(judge(password.as_bytes()), Ok(()), "{password}");
        }
    }

    #[test]
    fn short_passwords_are_refused() {
        assert_eq!(judge(b"xK4#vv9"), Err(WeakPassword::TooShort));
        assert_eq!(judge(b"xK4#vv9Q"), Ok(()));
        assert_eq!(judge(b""), Err(WeakPassword::TooShort));
    }

    #[test]
    fn the_error_for_common_passwords_mentions_false_positives() {
        assert_eq!(
            WeakPassword::Common.to_string(),
            "the password is on a list of common passwords, or is among the 1 in 1000 good passwords that are \
             refused by mistake: choose another"
        );
    }

    fn words() -> WordList {
        WordList::of([&b"Hufnagel"[..], b"bruit-office", b"pass"].into_iter(), [9; 16])
    }

    #[test]
    fn words_of_the_operator_are_refused_in_any_case_and_with_an_ending() {
        for password in ["hufnagel", "HUFNAGEL", "Hufnagel2024!", "bruit-office", "Bruit-Office99", "pass123456"] {
            assert_eq!(words().judge(password.as_bytes()), Err(WeakPassword::Listed), "{password}");
        }
        for password in ["hufnage", "hufnagels", "my hufnagel", "bruit office", "pass1234567", ""] {
            assert_eq!(words().judge(password.as_bytes()), Ok(()), "{password}");
        }
    }

    #[test]
    fn a_filter_file_can_be_used_as_a_word_list() {
        let key = FingerprintKey::new([3; 16]);
        let mut filter = OneLineFilter::new(4, 8, 48, key.id()).unwrap();
        filter.insert(&key.fingerprint(b"Hufnagel"));
        let encode = |key| {
            let mut bytes = Vec::new();
            file::encode(&filter, &file::Label { key, ..file::Label::default() }, &mut bytes).unwrap();
            bytes
        };
        let bytes = encode(Some(key.clone()));
        let list = WordList::from_filter_file(&bytes, bytes.len() as u64).unwrap();
        assert_eq!(list.judge(b"Hufnagel"), Err(WeakPassword::Listed));
        assert_eq!(list.judge(b"hufnagel"), Ok(()), "the word was inserted in its original case");
        let bytes = encode(None);
        assert!(matches!(WordList::from_filter_file(&bytes, 1 << 20), Err(WordListError::NoKey)));
        assert!(matches!(WordList::from_filter_file(b"words", 1 << 20), Err(WordListError::File(_))));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "docs/survey/opus.md has the figures")]
    fn the_false_positive_rate_of_a_word_list_is_as_documented() {
        let words: Vec<_> = (0..20_000u32).map(|number| format!("word{number:x}x")).collect();
        let list = WordList::of(words.iter().map(String::as_bytes), [5; 16]);
        assert!(words.iter().all(|word| list.judge(word.as_bytes()).is_err()), "no false negatives");
        let passwords = 100_000;
        let mut state = 6;
        // Passwords in mixed case with two digits at the end need three lookups each.
        let refused =
            (0..passwords).filter(|_| list.judge(format!("K{:016x}q77", next(&mut state)).as_bytes()).is_err());
        let (refused, expected) = (refused.count() as f64, 3.0 * WORD_LIST_RATE * f64::from(passwords));
        println!("3 lookups: {refused} of {passwords} refused, {expected:.0} expected");
        assert!((refused - expected).abs() < 4.0 * expected.sqrt(), "{refused} of {expected}");
    }

    /// Returns the next number of a fixed sequence (Steele, Lea and Flood's SplitMix64).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Fingerprint::narrow(*state).low()
    }

    /// Returns the share of refused passwords among random passwords of 12 printable characters. The last character is
    /// taken from `last`.
    fn refused_share(passwords: u32, last: std::ops::RangeInclusive<u8>) -> f64 {
        let mut state = 5;
        let mut draw = |from: u8, to: u8| from + (next(&mut state) % u64::from(to - from + 1)) as u8;
        let refused = (0..passwords).filter(|_| {
            let mut password: [u8; 12] = std::array::from_fn(|_| draw(b'!', b'~'));
            password[10] = draw(b'a', b'z');
            password[11] = draw(*last.start(), *last.end());
            judge(&password).is_err()
        });
        f64::from(refused.count() as u32) / f64::from(passwords)
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "docs/survey/opus.md has the figures")]
    fn the_false_positive_rate_of_common_passwords_is_as_documented() {
        let (key, one) = (&COMMON.key, COMMON.filter.estimated_false_positive_rate());
        assert_eq!(key.id(), COMMON.filter.key_id());
        // Passwords that end in a letter need one lookup, and about 100 of 200,000 are refused. Other passwords need
        // two lookups, and about 200 of 200,000 are refused.
        for (last, questions) in [(b'a'..=b'z', 1.0), (b'0'..=b'9', 2.0)] {
            let (measured, predicted) = (refused_share(200_000, last), questions * one);
            println!("{questions} lookups: {:.0} of 200000 refused, {:.0} expected", measured * 2e5, predicted * 2e5);
            assert!((measured / predicted - 1.0).abs() < 0.3, "{measured} of {predicted}");
            assert!(predicted <= 1.0 / f64::from(ERRS_ONCE_IN), "{predicted}");
        }
    }
}
