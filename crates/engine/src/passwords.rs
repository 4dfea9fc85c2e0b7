//! Passwords that anybody would guess are refused, by a filter that is part of the program.
//!
//! Spafford's Opus ("Preventing weak password choices", 1991) keeps the dictionary of guessable passwords as a Bloom filter
//! and asks it whenever somebody chooses one. It takes 43 kB here and holds no word that could be read. When it errs, a
//! good password is refused, and its owner chooses another: no harm done.
//!
//! People add a digit or a capital letter to a common word, and who guesses does so too. So two questions are asked: for
//! the password in lower case, and for what is left of that without digits and punctuation at its end, at most
//! [`ENDING_BYTES_MAX`]. The filter errs on either once in 2,000 times.
//!
//! An operator's own words, such as the names of the site or passwords that leaked there, make a [`WordList`]: the same filter and the
//! same questions, and one more for the password as it was typed. It holds no word that could be read either.
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

/// The shortest password, in bytes (NIST SP 800-63B asks for eight characters).
pub const PASSWORD_BYTES_MIN: usize = 8;

/// The longest ending that is taken for an addition to a word. A million numbers of six digits, after each of 20,000 words,
/// are tried in seconds by whoever has the verifier.
pub const ENDING_BYTES_MAX: usize = 6;

/// A password that is good is refused once in this many times.
pub const ERRS_ONCE_IN: u32 = 1_000;

/// How often a word list of the operator's errs on one question; there are up to three of a password.
pub const WORD_LIST_RATE: f64 = 4.5e-4;

/// The filter file; `data/README.md` tells where its words are from.
const FILE: &[u8] = include_bytes!("../data/common-passwords.filter");

static COMMON: LazyLock<Common> = LazyLock::new(|| Common::read(FILE));

/// Why a password is refused, in words for whoever chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// Shorter than [`PASSWORD_BYTES_MIN`].
    #[error("the password is too short: choose one of at least {PASSWORD_BYTES_MIN} characters")]
    TooShort,
    /// On the list, or taken for a word of it.
    #[error(
        "the password is on a list of common passwords, or looks like one of them to a filter that errs once in \
         {ERRS_ONCE_IN} times: choose another"
    )]
    Common,
    /// On a list of the operator's, or taken for a word of it.
    #[error(
        "the password is on a list of this site, or looks like one of it to a filter that is rarely wrong: choose another"
    )]
    Listed,
}

/// Words that nobody may have as a password, of which only a filter is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct WordList {
    key: FingerprintKey,
    filter: StoredFilter,
}

/// Why there is no word list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordListError {
    /// The file is damaged, or something else.
    #[error(transparent)]
    File(#[from] file::FileError),
    /// Filters can be asked only under their key.
    #[error("the filter file has no key, so nothing can be looked up in it")]
    NoKey,
}

impl WordList {
    /// The list of `words`, of which case does not matter, under a key of random bytes.
    #[must_use]
    pub fn of<'w>(words: impl Iterator<Item = &'w [u8]> + Clone, key: [u8; 16]) -> Self {
        let key = FingerprintKey::new(key);
        let count = words.clone().count().max(1) as u64;
        let plan = MembershipPlan::new(Layout::OneLine, count, Goal::Rate(WORD_LIST_RATE))
            .expect("there is a filter for as many words as fit into memory");
        let mut filter = OneLineFilter::from_plan(&plan, key.id());
        words.for_each(|word| filter.insert(&key.fingerprint(&word.to_ascii_lowercase())));
        Self { key, filter: StoredFilter::OneLineMembership(filter) }
    }

    /// The list in a filter file of at most `limit` bytes, as `bruit filter` makes them of words.
    ///
    /// # Errors
    /// [`WordListError`].
    pub fn from_filter_file(mut bytes: &[u8], limit: u64) -> Result<Self, WordListError> {
        let stored = file::decode(&mut bytes, limit)?;
        Ok(Self { key: stored.key.ok_or(WordListError::NoKey)?, filter: stored.filter })
    }

    /// Whether a password may be chosen: it is not on the list, neither as it is nor in lower case, nor without an ending.
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

/// Whether a password may be chosen.
///
/// # Errors
/// [`WeakPassword`] says why not.
pub fn judge(password: &[u8]) -> Result<(), WeakPassword> {
    if password.len() < PASSWORD_BYTES_MIN {
        return Err(WeakPassword::TooShort);
    }
    if COMMON.knows(&password.to_ascii_lowercase()) {
        return Err(WeakPassword::Common);
    }
    Ok(())
}

/// The list, as far as it can be asked.
struct Common {
    key: FingerprintKey,
    filter: OneLineFilter,
}

impl Common {
    fn read(mut bytes: &[u8]) -> Self {
        let limit = bytes.len() as u64;
        let file = file::decode(&mut bytes, limit).expect("the file is part of the program, and a test reads it");
        let key = file.key.expect("the file holds its key");
        Self { key, filter: OneLineFilter::try_from(file.filter).expect("the file holds a one-line filter") }
    }

    fn knows(&self, lower_case: &[u8]) -> bool {
        let forms = [lower_case, without_ending(lower_case)];
        forms.iter().any(|form| self.filter.contains(&self.key.fingerprint(form)))
    }
}

/// A password without what was added to a word; the whole if it ends in more than that, or is nothing else.
fn without_ending(password: &[u8]) -> &[u8] {
    let is_added = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_punctuation();
    let ending = password.iter().rev().take_while(|byte| is_added(byte)).count();
    if ending > ENDING_BYTES_MAX || ending == password.len() { password } else { &password[..password.len() - ending] }
}

#[cfg(test)]
mod tests {
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
    fn an_ending_has_a_longest_length() {
        assert_eq!(without_ending(b"dragon123456"), b"dragon");
        assert_eq!(without_ending(b"dragon1234567"), b"dragon1234567");
        assert_eq!(without_ending(b"12345"), b"12345");
        assert_eq!(without_ending(b""), b"");
    }

    #[test]
    fn good_passwords_are_taken() {
        for password in
            ["tin whistle 7", "correct horse battery staple", "dragon lemon 2024!", "xK4#vv9Qz-", "größeres Glück"]
        {
            assert_eq!(judge(password.as_bytes()), Ok(()), "{password}");
        }
    }

    #[test]
    fn short_passwords_are_refused_whatever_they_are() {
        assert_eq!(judge(b"xK4#vv9"), Err(WeakPassword::TooShort));
        assert_eq!(judge(b"xK4#vv9Q"), Ok(()));
        assert_eq!(judge(b""), Err(WeakPassword::TooShort));
    }

    #[test]
    fn the_user_is_told_what_a_refusal_means() {
        assert_eq!(
            WeakPassword::Common.to_string(),
            "the password is on a list of common passwords, or looks like one of them to a filter that errs once in 1000 \
             times: choose another"
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
    fn a_filter_file_is_a_list_of_the_words_it_was_made_of() {
        let key = FingerprintKey::new([3; 16]);
        let mut filter = OneLineFilter::new(4, 8, 48, key.id());
        filter.insert(&key.fingerprint(b"Hufnagel"));
        let encode = |key| {
            let mut bytes = Vec::new();
            file::encode(&filter, &file::Label { key, ..file::Label::default() }, &mut bytes).unwrap();
            bytes
        };
        let bytes = encode(Some(key.clone()));
        let list = WordList::from_filter_file(&bytes, bytes.len() as u64).unwrap();
        assert_eq!(list.judge(b"Hufnagel"), Err(WeakPassword::Listed));
        assert_eq!(list.judge(b"hufnagel"), Ok(()), "it was put in as it is");
        let bytes = encode(None);
        assert!(matches!(WordList::from_filter_file(&bytes, 1 << 20), Err(WordListError::NoKey)));
        assert!(matches!(WordList::from_filter_file(b"words", 1 << 20), Err(WordListError::File(_))));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "docs/survey/opus.md has the figures")]
    fn a_word_list_refuses_good_passwords_as_rarely_as_told() {
        let words: Vec<_> = (0..20_000u32).map(|number| format!("word{number:x}x")).collect();
        let list = WordList::of(words.iter().map(String::as_bytes), [5; 16]);
        assert!(words.iter().all(|word| list.judge(word.as_bytes()).is_err()), "no false negatives");
        let passwords = 100_000;
        let mut state = 6;
        // Mixed case and two digits at the end: three questions each.
        let refused =
            (0..passwords).filter(|_| list.judge(format!("K{:016x}q77", next(&mut state)).as_bytes()).is_err());
        let (refused, expected) = (refused.count() as f64, 3.0 * WORD_LIST_RATE * f64::from(passwords));
        println!("3 questions: {refused} of {passwords} refused, {expected:.0} computed");
        assert!((refused - expected).abs() < 4.0 * expected.sqrt(), "{refused} of {expected}");
    }

    /// The next of a fixed sequence of numbers (Steele, Lea and Flood's SplitMix64).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Random passwords of 12 printable characters, of which the last is of `last`.
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
    fn good_passwords_are_refused_as_rarely_as_told() {
        let (key, one) = (&COMMON.key, COMMON.filter.estimated_false_positive_rate());
        assert_eq!(key.id(), COMMON.filter.key_id());
        // One question for passwords that end in a letter, two for the others; 200,000 give about 100 and 200 refusals.
        for (last, questions) in [(b'a'..=b'z', 1.0), (b'0'..=b'9', 2.0)] {
            let (measured, predicted) = (refused_share(200_000, last), questions * one);
            println!("{questions} questions: {:.0} of 200000 refused, {:.0} computed", measured * 2e5, predicted * 2e5);
            assert!((measured / predicted - 1.0).abs() < 0.3, "{measured} of {predicted}");
            assert!(predicted <= 1.0 / f64::from(ERRS_ONCE_IN), "{predicted}");
        }
    }
}
