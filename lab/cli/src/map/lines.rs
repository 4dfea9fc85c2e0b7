//! Reads lines of keys with values, or of keys alone.

use std::path::{Path, PathBuf};

use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_structures::map::{BuildError, Entry, KEYS_MAX};

use bruit_console::Failure;
use bruit_console::files::bad_file;
use bruit_console::keys::Input;
use bruit_console::progress;

/// Maximum number of characters of a key in an error message.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Keys and values of a file with one key per line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// File name shown in messages.
    pub(super) name: PathBuf,
    /// True if the input is a file, which can be read again.
    pub(super) is_file: bool,
    /// Maximum number of bits per value.
    value_bits: u32,
    pub(super) entries: Vec<Entry>,
    /// True if the keys have values; `None` before the first key.
    pub(super) has_values: Option<bool>,
    pub(super) empty_lines: u64,
}

impl Lines {
    /// Reads a file (standard input for `-`) and hashes its keys with `key`. Rejects values of more than `value_bits`
    /// bits.
    pub(super) fn read(path: &Path, key: &FingerprintKey, value_bits: u32) -> Result<Self, Failure> {
        let input = Input::open(path)?;
        let is_file = path != Path::new("-") && input.bytes.is_some();
        let mut lines = Self { name: input.name.clone(), is_file, value_bits, ..Self::default() };
        for_each(input, |number, line| lines.push(line, key).map_err(|what| format!("line {number}: {what}")))?;
        Ok(lines)
    }

    fn push(&mut self, line: &[u8], key: &FingerprintKey) -> Result<(), String> {
        if line.is_empty() {
            self.empty_lines += 1;
            return Ok(());
        }
        let (name, value) = split(line)?;
        if *self.has_values.get_or_insert_with(|| value.is_some()) != value.is_some() {
            return Err("some keys have a value and some do not; give a value to all keys or to none".into());
        }
        let value = value.unwrap_or(0);
        if u64::from(value) >> self.value_bits != 0 {
            return Err(BuildError::ValueTooLarge { value, bits: self.value_bits }.to_string());
        }
        let keys = self.entries.len();
        if keys == KEYS_MAX {
            return Err(format!("more than {KEYS_MAX} keys"));
        }
        self.entries.try_reserve(1).map_err(|_| format!("out of memory after {keys} keys"))?;
        self.entries.push((key.fingerprint(name), value));
        Ok(())
    }

    /// Returns the largest value.
    pub(super) fn value_max(&self) -> u32 {
        self.entries.iter().map(|entry| entry.1).max().unwrap_or(0)
    }
}

/// Describes the two lines that give different values to the key with this fingerprint. Returns `None` if the file has
/// changed and no longer contains such lines.
pub(super) fn find_conflict(path: &Path, key: &FingerprintKey, wanted: Fingerprint) -> Result<Option<String>, Failure> {
    let (mut first, mut found) = (None, None);
    for_each(Input::open(path)?, |number, line| {
        let Ok((name, Some(value))) = split(line) else { return Ok(()) };
        if found.is_some() || key.fingerprint(name) != wanted {
            return Ok(());
        }
        let (first_number, first_value) = *first.get_or_insert((number, value));
        if first_value != value {
            let name = shown(name);
            found = Some(format!(
                "line {number}: the key '{name}' has the value {value} here, but {first_value} in line {first_number}"
            ));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `work` with the number and content of each line. Errors name the file.
fn for_each(input: Input, mut work: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), Failure> {
    let name = input.name.clone();
    let bar = progress::of_bytes(input.bytes, false);
    input.for_each_line(&bar, |number, line| work(number, line).map_err(|what| bad_file(&name, what)))?;
    bar.finish_and_clear();
    Ok(())
}

/// Returns the first characters of a key, with control characters escaped.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let more = if text.chars().count() > SHOWN_CHARACTERS_MAX { "…" } else { "" };
    let start: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    format!("{}{more}", start.escape_debug())
}

/// Splits a line at its last tab into key and value.
fn split(line: &[u8]) -> Result<(&[u8], Option<u32>), String> {
    let Some(tab) = line.iter().rposition(|&byte| byte == b'\t') else { return Ok((line, None)) };
    let (name, value) = (&line[..tab], &line[tab + 1..]);
    if name.is_empty() {
        return Err("no key before the tab".into());
    }
    // Check the digits: the integer parser would also accept a sign.
    let digits = str::from_utf8(value).ok().filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let value = digits.and_then(|digits| digits.parse().ok());
    let value = value.ok_or("expected a whole number from 0 to 4294967295 after the last tab")?;
    Ok((name, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_stands_behind_the_last_tab() {
        assert_eq!(split(b"key\t7"), Ok((&b"key"[..], Some(7))));
        assert_eq!(split(b"two\ttabs\t4294967295"), Ok((&b"two\ttabs"[..], Some(u32::MAX))));
        assert_eq!(split(b"no value"), Ok((&b"no value"[..], None)));
        for line in ["\t7", "key\t", "key\tseven", "key\t-1", "key\t+7", "key\t4294967296", "key\t7 "] {
            assert!(split(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn keys_are_shown_on_one_line_of_bounded_length() {
        assert_eq!(shown(b"a\tb\x1b[2J"), r"a\tb\u{1b}[2J");
        assert_eq!(shown(&[b'x'; SHOWN_CHARACTERS_MAX]), "x".repeat(SHOWN_CHARACTERS_MAX));
        assert_eq!(shown(&[b'x'; SHOWN_CHARACTERS_MAX + 1]), "x".repeat(SHOWN_CHARACTERS_MAX) + "…");
    }
}
