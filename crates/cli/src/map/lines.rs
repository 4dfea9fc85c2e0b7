//! Lines of keys with values, or of keys alone.

use std::path::{Path, PathBuf};

use bruit_filters::map::{BuildError, Entry, KEYS_MAX};
use bruit_filters::{Fingerprint, FingerprintKey};

use crate::failure::Failure;
use crate::filter::keys::Input;
use crate::filter::storage::wrong;
use crate::progress;

/// Most characters of a key that a message shows.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// What a file of lines holds.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// What to call the file.
    pub(super) name: PathBuf,
    /// Whether it can be read again.
    pub(super) is_file: bool,
    /// Bits that a value may take.
    value_bits: u32,
    pub(super) entries: Vec<Entry>,
    /// Whether the keys have values; none before the first key.
    pub(super) has_values: Option<bool>,
    pub(super) empty_lines: u64,
}

impl Lines {
    /// Reads a file, or standard input for `-`, hashing keys with `key`. No value may take more than `value_bits` bits.
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
            return Err("some keys have a value behind a tab and some have none: give all of them one, or none".into());
        }
        let value = value.unwrap_or(0);
        if u64::from(value) >> self.value_bits != 0 {
            return Err(BuildError::ValueTooLarge { value, bits: self.value_bits }.to_string());
        }
        let keys = self.entries.len();
        if keys == KEYS_MAX {
            return Err(format!("more than {KEYS_MAX} keys"));
        }
        self.entries.try_reserve(1).map_err(|_| format!("there is no memory for more than {keys} keys"))?;
        self.entries.push((key.fingerprint(name), value));
        Ok(())
    }

    /// The largest value.
    pub(super) fn value_max(&self) -> u32 {
        self.entries.iter().map(|entry| entry.1).max().unwrap_or(0)
    }
}

/// Where in a file the key of this fingerprint has two values. None if they are not found, as in a file that has changed.
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
                "line {number}: the key '{name}' has the value {value}, but {first_value} in line {first_number}"
            ));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `work` with the number of each line and the line, and names the file in what it refuses.
fn for_each(input: Input, mut work: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), Failure> {
    let name = input.name.clone();
    let bar = progress::of_bytes(input.bytes, false);
    input.for_each_line(&bar, |number, line| work(number, line).map_err(|what| wrong(&name, what)))?;
    bar.finish_and_clear();
    Ok(())
}

/// The beginning of a key, without characters that would do something to a terminal.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let more = if text.chars().count() > SHOWN_CHARACTERS_MAX { "…" } else { "" };
    let start: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    format!("{}{more}", start.escape_debug())
}

/// A key, and the value behind the last tab of its line.
fn split(line: &[u8]) -> Result<(&[u8], Option<u32>), String> {
    let Some(tab) = line.iter().rposition(|&byte| byte == b'\t') else { return Ok((line, None)) };
    let (name, value) = (&line[..tab], &line[tab + 1..]);
    if name.is_empty() {
        return Err("there is no key before the tab".into());
    }
    // Digits only: what parses numbers would take a sign as well.
    let digits = str::from_utf8(value).ok().filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let value = digits.and_then(|digits| digits.parse().ok());
    let value = value.ok_or("what follows the last tab is not a whole number from 0 to 4294967295")?;
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
