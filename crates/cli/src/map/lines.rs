//! Lines of keys with values, or of keys alone.

use std::path::{Path, PathBuf};

use bruit_filters::FingerprintKey;
use bruit_filters::map::{Entry, KEYS_MAX};

use crate::failure::Failure;
use crate::filter::keys::Input;
use crate::filter::storage::wrong;
use crate::progress;

/// What a file of lines holds.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// What to call the file.
    pub(super) name: PathBuf,
    pub(super) entries: Vec<Entry>,
    /// Whether the keys have values; none before the first key.
    pub(super) has_values: Option<bool>,
    pub(super) empty_lines: u64,
}

impl Lines {
    /// Reads a file, or standard input for `-`, hashing keys with `key`.
    pub(super) fn read(path: &Path, key: &FingerprintKey) -> Result<Self, Failure> {
        let input = Input::open(path)?;
        let name = input.name.clone();
        let bar = progress::of_bytes(input.bytes, false);
        let mut lines = Self { name: name.clone(), ..Self::default() };
        input.for_each_line(&bar, |number, line| {
            lines.push(line, key).map_err(|what| wrong(&name, format!("line {number}: {what}")))
        })?;
        bar.finish_and_clear();
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
        if self.entries.len() == KEYS_MAX {
            return Err(format!("more than {KEYS_MAX} keys"));
        }
        self.entries.push((key.fingerprint(name), value.unwrap_or(0)));
        Ok(())
    }

    /// The largest value.
    pub(super) fn value_max(&self) -> u32 {
        self.entries.iter().map(|entry| entry.1).max().unwrap_or(0)
    }
}

/// A key, and the value behind the last tab of its line.
fn split(line: &[u8]) -> Result<(&[u8], Option<u32>), String> {
    let Some(tab) = line.iter().rposition(|&byte| byte == b'\t') else { return Ok((line, None)) };
    let (name, value) = (&line[..tab], &line[tab + 1..]);
    if name.is_empty() {
        return Err("there is no key before the tab".into());
    }
    let value = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
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
        for line in ["\t7", "key\t", "key\tseven", "key\t-1", "key\t4294967296", "key\t7 "] {
            assert!(split(line.as_bytes()).is_err(), "{line}");
        }
    }
}
