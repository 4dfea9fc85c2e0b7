//! The founding of a clearinghouse: its realm, with the secret key, and its initial settings.
//!
//! The founding file is written once, before anything else, and never changes. Journal and snapshots name their realm
//! but do not contain its key, so they cannot be used without the founding file. `docs/design/store.md` has the byte
//! layout.

use std::fs;
use std::io;
use std::path::Path;

use bruit_engine::budget::{BudgetOutOfRange, Plan};
use bruit_engine::codec::{Malformed, Reader};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_engine::{Engine, NotEnoughMemory};
use bruit_filters::FingerprintKey;
use xxhash_rust::xxh3::xxh3_64;

use crate::directory::TEMPORARY_PREFIX;
use crate::disk::Disk;
use crate::recover::OpenError;

/// Name of the founding file.
pub const FOUNDING_FILE: &str = "realm.bruit";

/// Release date of this program, the start of November 2026. A clock that shows an earlier time is wrong, so founding
/// is refused.
pub const RELEASED: Time = Time(1_793_491_200);

const MAGIC: [u8; 8] = *b"\x89bruitR\n";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 8;

/// Maximum length of a founding file. A longer file cannot be one.
const FOUNDING_BYTES_MAX: u64 = 4_096;

/// The choices made when a clearinghouse is founded.
#[derive(Clone, Debug, PartialEq)]
pub struct Founding {
    /// The realm.
    pub realm: Realm,
    /// The initial memory budget.
    pub budget_bytes: u64,
    /// The initial policy.
    pub policy: Policy,
    /// The time of founding.
    pub founded: Time,
}

/// The reason why a clearinghouse cannot be founded with these choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfitFounding {
    /// The memory cannot be allocated.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// The budget is out of range.
    #[error("has an invalid budget: {0}")]
    Budget(#[from] BudgetOutOfRange),
}

/// The reason why a founding file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoundingError {
    /// The file cannot be read.
    #[error("could not be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a founding file.
    #[error("is not a founding file")]
    Magic,
    /// The file was written by another version of the program.
    #[error("has version {0}, which this program cannot read")]
    Version(u32),
    /// The checksum does not match.
    #[error("is damaged: its checksum does not match")]
    Checksum,
    /// A value is invalid.
    #[error("is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// No clearinghouse can have these values.
    #[error(transparent)]
    Unfit(#[from] UnfitFounding),
}

impl Founding {
    /// Creates a founding with the default epochs and a narrow key. The bytes of the key must be random.
    ///
    /// # Errors
    /// [`BudgetOutOfRange`] if the budget is out of range.
    pub fn new(key: [u8; 16], budget_bytes: u64, policy: Policy, founded: Time) -> Result<Self, BudgetOutOfRange> {
        let sizes = Plan::for_budget(budget_bytes)?.sizes;
        let key = FingerprintKey::narrow(key);
        let realm = Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, sizes);
        Ok(Self { realm: realm.map_err(|_| BudgetOutOfRange { bytes: budget_bytes })?, budget_bytes, policy, founded })
    }

    /// Returns the clearinghouse in its initial state.
    ///
    /// # Errors
    /// [`UnfitFounding`] if the budget is out of range, or the memory cannot be allocated.
    pub fn engine(&self) -> Result<Engine, UnfitFounding> {
        Ok(Engine::try_new(self.realm.clone(), self.plan()?, self.policy.clone(), self.founded)?)
    }

    /// Returns the plan for the budget. The books get the realm's sizes, and may grow later. If these sizes would
    /// exceed the budget, the books get the sizes that the budget allows.
    fn plan(&self) -> Result<Plan, UnfitFounding> {
        let (plan, sizes) = (Plan::for_budget(self.budget_bytes)?, self.realm.sizes());
        Ok(if sizes.fit(&plan.sizes) { Plan { sizes, ..plan } } else { plan })
    }

    /// Reads the founding of a directory. Returns `None` if the directory has none.
    ///
    /// # Errors
    /// [`OpenError::Founding`] if the file is damaged, [`OpenError::Io`] if it cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>, OpenError> {
        let path = directory.join(FOUNDING_FILE);
        match Self::read_file(&path) {
            Ok(founding) => Ok(Some(founding)),
            Err(FoundingError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Report an unreadable file as an I/O error, because restoring a backup would not help.
            Err(FoundingError::Io(source)) => Err(OpenError::io("read", &path, source)),
            Err(fault) => Err(OpenError::Founding { file: FOUNDING_FILE, reason: fault.to_string() }),
        }
    }

    /// Reads the founding from a file of any name, such as another server's.
    ///
    /// # Errors
    /// [`FoundingError`].
    pub fn read_file(path: &Path) -> Result<Self, FoundingError> {
        if fs::metadata(path)?.len() > FOUNDING_BYTES_MAX {
            return Err(FoundingError::Magic);
        }
        Self::decode(&fs::read(path)?)
    }

    /// Writes the founding into a new directory.
    ///
    /// # Errors
    /// [`OpenError::Io`] if writing fails; the directory then still counts as new.
    pub(crate) fn write(&self, directory: &Path, disk: &dyn Disk) -> Result<(), OpenError> {
        let path = directory.join(FOUNDING_FILE);
        let temporary = directory.join(format!("{TEMPORARY_PREFIX}{FOUNDING_FILE}"));
        let written = disk.create(&temporary).and_then(|mut file| {
            file.write_all(&self.encode())?;
            file.sync()
        });
        let written = written.and_then(|()| disk.rename(&temporary, &path));
        let written = written.and_then(|()| disk.sync_directory(directory));
        written.map_err(|source| OpenError::io("write", &path, source))
    }

    /// Returns the bytes of the founding file. The bytes contain the realm's secret key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.founded.0.to_le_bytes());
        out.extend(self.budget_bytes.to_le_bytes());
        self.realm.encode(&mut out);
        self.policy.encode(&mut out);
        let checksum = xxh3_64(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Decodes the bytes of a founding file.
    ///
    /// # Errors
    /// [`FoundingError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FoundingError> {
        let mut reader = Reader::new(bytes);
        if reader.array("the magic")? != MAGIC {
            return Err(FoundingError::Magic);
        }
        let version = reader.u32("the version")?;
        if version != VERSION {
            return Err(FoundingError::Version(version));
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if checksum != xxh3_64(content).to_le_bytes() {
            return Err(FoundingError::Checksum);
        }
        let founded = Time(reader.u64("when it was founded")?);
        let budget_bytes = reader.u64("the budget")?;
        let (realm, policy) = (Realm::decode(&mut reader)?, Policy::decode(&mut reader)?);
        reader.bytes(CHECKSUM_BYTES, "the checksum")?;
        reader.finish()?;
        let founding = Self { realm, budget_bytes, policy, founded };
        founding.plan()?;
        Ok(founding)
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::realm::{BookSizes, RING_LINES_MAX};

    use super::*;
    use crate::disk::SystemDisk;

    fn founding() -> Founding {
        Founding::new([7; 16], BUDGET_MIN, Policy::default(), Time(1_800_000_000)).unwrap()
    }

    #[test]
    fn a_founding_is_read_as_written_and_damage_is_seen_everywhere() {
        let bytes = founding().encode();
        assert!(bytes.len() as u64 <= FOUNDING_BYTES_MAX);
        assert_eq!(Founding::decode(&bytes).unwrap(), founding());
        for at in 0..bytes.len() {
            assert!(Founding::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Founding::decode(&damaged).is_err(), "damaged at {at}");
        }
    }

    /// Returns the test [`Founding`] with its book sizes modified by `change`.
    fn resized(change: impl FnOnce(&mut BookSizes)) -> Founding {
        let founding = founding();
        let mut sizes = founding.realm.sizes();
        change(&mut sizes);
        let key = FingerprintKey::narrow([7; 16]);
        let realm = Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, sizes).unwrap();
        Founding { realm, ..founding }
    }

    #[test]
    fn books_larger_than_the_budget_become_those_of_the_budget_and_smaller_ones_stay() {
        let too_large = [
            resized(|sizes| sizes.spam_lines += 1),
            resized(|sizes| sizes.revoked_lines += 1),
            resized(|sizes| sizes.claim_lines += 1),
            resized(|sizes| sizes.bulk_lines = RING_LINES_MAX),
        ];
        for founding in too_large {
            assert_eq!(Founding::decode(&founding.encode()).unwrap(), founding);
            let engine = founding.engine().unwrap();
            assert_eq!(*engine.plan(), Plan::for_budget(BUDGET_MIN).unwrap());
            assert_eq!(
                engine.realm().id(),
                founding.realm.id(),
                "the realm's id is still derived from the founding's sizes"
            );
        }
        let smaller = resized(|sizes| sizes.bulk_lines = 1);
        assert_eq!(Founding::decode(&smaller.encode()).unwrap(), smaller);
        assert_eq!(smaller.engine().unwrap().plan().sizes, smaller.realm.sizes());
    }

    #[test]
    fn a_directory_has_one_founding_or_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Founding::read(folder.path()).unwrap(), None);
        founding().write(folder.path(), &SystemDisk).unwrap();
        assert_eq!(Founding::read(folder.path()).unwrap(), Some(founding()));
        fs::write(folder.path().join(FOUNDING_FILE), vec![0; FOUNDING_BYTES_MAX as usize + 1]).unwrap();
        let error = Founding::read(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("realm.bruit is not a founding file"), "{error}");
    }
}
