//! The operator's own lists of refused passwords, which extend the built-in one.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bruit_engine::passwords::{WeakPassword, WordList};
use bruit_filters::file::FILTER_MAGIC;
use serde::Deserialize;

use super::{ConfigError, invalid};

/// Maximum length of a file. This is enough for twenty million words, or for a filter with a hundred million words.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum length of a word. No protocol accepts a password as long as this.
const WORD_BYTES_MAX: usize = 1024;
/// Maximum number of files. Each of them is searched for every password.
const FILES_MAX: usize = 16;

const KEY: &str = "passwords.refuse";

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPasswords {
    refuse: Vec<PathBuf>,
}

impl RawPasswords {
    pub(super) fn check(self) -> Result<PasswordSettings, ConfigError> {
        if self.refuse.len() > FILES_MAX {
            return Err(invalid(KEY, format!("expected at most {FILES_MAX} files, found {}", self.refuse.len())));
        }
        let lists = self.refuse.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
        Ok(PasswordSettings { lists: lists.into() })
    }
}

/// The operator's own lists of refused passwords.
#[derive(Clone, Debug, Default)]
pub struct PasswordSettings {
    lists: Arc<[WordList]>,
}

impl PasswordSettings {
    /// Rejects a password that one of these lists contains.
    ///
    /// # Errors
    /// [`WeakPassword::Listed`].
    pub fn judge(&self, password: &[u8]) -> Result<(), WeakPassword> {
        self.lists.iter().try_for_each(|list| list.judge(password))
    }
}

/// Reads a file. It is either text with one word per line, or a filter file, which is recognised by its magic.
fn read(file: &Path) -> Result<WordList, ConfigError> {
    let failed = |source| ConfigError::Read { file: file.to_owned(), source };
    let refused = |what: String| invalid(KEY, format!("{}{what}", file.display()));
    if !fs::metadata(file).map_err(failed)?.is_file() {
        return Err(refused(" is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(failed)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused(format!(" is longer than {FILE_BYTES_MAX} bytes")));
    }
    if bytes.starts_with(&FILTER_MAGIC) {
        return WordList::from_filter_file(&bytes, FILE_BYTES_MAX).map_err(|error| refused(format!(": {error}")));
    }
    ensure_words(&bytes).map_err(|line| refused(format!(", {line}")))?;
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| refused(format!(": failed to get random bytes: {error}")))?;
    Ok(WordList::of(words(&bytes), key))
}

/// Returns the lines that are not empty, without line endings.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

/// Rejects a line that is not a word, with its line number.
fn ensure_words(text: &[u8]) -> Result<(), String> {
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        if line.len() > WORD_BYTES_MAX {
            return Err(format!(
                "line {number}: expected a word of at most {WORD_BYTES_MAX} bytes, found {}",
                line.len()
            ));
        }
        if line.contains(&0) {
            return Err(format!("line {number}: expected text, found a zero byte"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bruit_filters::FingerprintKey;
    use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};
    use bruit_filters::file::{self, Label};

    use super::*;

    /// Returns the settings with one file of this content.
    fn settings(content: &[u8]) -> Result<PasswordSettings, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        fs::write(&file, content).unwrap();
        RawPasswords { refuse: vec![file] }.check().map_err(|error| error.to_string())
    }

    #[test]
    fn words_of_a_text_are_refused() {
        let settings = settings(b"hufnagel\r\nBruit Office\n\n#comment\n").unwrap();
        for password in ["Hufnagel77", "bruit office", "#comment"] {
            assert_eq!(settings.judge(password.as_bytes()), Err(WeakPassword::Listed), "{password}");
        }
        assert_eq!(settings.judge(b"tin whistle 7"), Ok(()));
        assert_eq!(settings.judge(b""), Ok(()), "an empty line is not a word");
        assert_eq!(PasswordSettings::default().judge(b"hufnagel"), Ok(()));
    }

    #[test]
    fn words_of_a_filter_file_are_refused() {
        let key = FingerprintKey::new([3; 16]);
        let mut filter = OneLineFilter::new(4, 8, 48, key.id()).unwrap();
        filter.insert(&key.fingerprint(b"hufnagel"));
        let mut bytes = Vec::new();
        file::encode(&filter, &Label { key: Some(key), ..Label::default() }, &mut bytes).unwrap();
        assert_eq!(settings(&bytes).unwrap().judge(b"Hufnagel1"), Err(WeakPassword::Listed));
        let error = settings(&bytes[..bytes.len() - 1]).unwrap_err();
        assert!(error.starts_with("passwords.refuse: ") && error.contains("words: "), "{error}");
    }

    #[test]
    fn a_word_list_is_bounded_and_its_faults_are_named() {
        assert!(settings(&[b'a'; WORD_BYTES_MAX]).is_ok());
        let error = settings(&[b"word\n", &[b'a'; WORD_BYTES_MAX + 1][..]].concat()).unwrap_err();
        assert!(error.ends_with("words, line 2: expected a word of at most 1024 bytes, found 1025"), "{error}");
        assert!(settings(b"a\nb\0c\n").unwrap_err().ends_with("line 2: expected text, found a zero byte"));
        let too_many = RawPasswords { refuse: vec![PathBuf::from("none"); FILES_MAX + 1] };
        assert!(too_many.check().unwrap_err().to_string().contains("at most 16 files, found 17"));
        assert!(matches!(RawPasswords { refuse: vec!["none".into()] }.check(), Err(ConfigError::Read { .. })));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        let error = RawPasswords { refuse: vec![path] }.check().unwrap_err().to_string();
        assert!(error.ends_with("is longer than 268435456 bytes"), "{error}");
    }
}
