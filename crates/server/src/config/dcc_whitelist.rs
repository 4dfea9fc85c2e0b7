//! DCC's whitelist file: checksums that are never counted, and checksums whose reply is always "many".

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bruit_protocols::dcc::{Count, Item, whitelist};

use super::{ConfigError, invalid};

/// Maximum length of the file, enough for the maximum number of entries.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Checksums whose reply does not depend on their count.
#[derive(Clone, Debug, Default)]
pub struct DccWhitelist {
    marks: Arc<HashMap<Item, Count>>,
}

impl DccWhitelist {
    /// Reads a file in the format of [`whitelist`].
    ///
    /// # Errors
    /// Returns [`ConfigError`] with the line number.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { file: file.to_owned(), source };
        if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
            return Err(invalid("dcc.whitelist", format!("{} is longer than {FILE_BYTES_MAX} bytes", file.display())));
        }
        Self::parse(&fs::read(file).map_err(failed)?)
            .map_err(|error| invalid("dcc.whitelist", format!("{}, {error}", file.display())))
    }

    /// Parses a file. If a checksum has several entries, the strongest one counts, as in the original server's
    /// database.
    fn parse(text: &[u8]) -> Result<Self, whitelist::WhitelistError> {
        let mut marks: HashMap<Item, Count> = HashMap::new();
        for entry in whitelist::read(text)? {
            let mark = marks.entry(entry.item).or_insert(entry.value);
            *mark = mark.plus(entry.value);
        }
        Ok(Self { marks: Arc::new(marks) })
    }

    /// Returns the fixed reply for a checksum, if the file has one.
    #[must_use]
    pub fn mark(&self, item: &Item) -> Option<Count> {
        // Most sites have no whitelist, so skip hashing the checksum.
        if self.marks.is_empty() { None } else { self.marks.get(item).copied() }
    }
}

#[cfg(test)]
mod tests {
    use bruit_protocols::dcc::Kind;
    use bruit_signatures::dcc::{address_sum, field_sum};

    use super::*;

    #[test]
    fn the_strongest_entry_counts() {
        let list = DccWhitelist::parse(b"MANY From a@example\nOK From a@example\nOK2 From a@example\n").unwrap();
        assert_eq!(list.mark(&Item { kind: Kind::From, sum: field_sum(b"a@example") }), Some(Count::OK));
        assert_eq!(list.mark(&Item { kind: Kind::EnvFrom, sum: field_sum(b"a@example") }), None);
    }

    #[test]
    fn a_file_is_read_or_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("whitelist");
        fs::write(&file, "OK IP 192.0.2.7\n").unwrap();
        let item = Item { kind: Kind::Ip, sum: address_sum([192, 0, 2, 7].into()) };
        assert_eq!(DccWhitelist::read(&file).unwrap().mark(&item), Some(Count::OK));
        fs::write(&file, "OK IP 192.0.2.7\nOK IP mail.example\n").unwrap();
        let error = DccWhitelist::read(&file).unwrap_err().to_string();
        assert!(error.starts_with("dcc.whitelist: ") && error.contains(", line 2: expected an address"), "{error}");
        assert!(DccWhitelist::read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_file_is_not_longer_than_any_whitelist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whitelist");
        let file = fs::File::create(&path).unwrap();
        file.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(DccWhitelist::read(&path).unwrap_err().to_string().contains("longer than 16777216 bytes"));
        fs::write(&path, "#\n".repeat(FILE_BYTES_MAX as usize / 2)).unwrap();
        assert!(DccWhitelist::read(&path).is_ok());
    }
}
