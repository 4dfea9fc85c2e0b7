//! The account table: bounded, sorted, and changed only by events.

use std::collections::BTreeMap;

use bruit_filters::FingerprintKey;

use super::change::AccountUpdate;
use super::credential::Credential;
use super::fuzzy::KEY_ID_BYTES;
use super::name::{NAME_BYTES_MAX, NameError, Protocol};
use crate::codec::{Malformed, Reader, put_count};
use crate::time::Time;
use crate::trust::{Standing, read_standing};

/// Maximum number of accounts, counting all protocols. A full table takes about 20 MB. Razor lets anyone register, so
/// the table needs a bound.
pub const ACCOUNTS_MAX: usize = 65_536;

/// Minimum length of an encoded account: the shortest name and the shortest credential.
const ENCODED_BYTES_MIN: usize = 1 + 1 + 1 + 20 + REST_BYTES;

/// Length of the fields after the credential: group, standing, creation time, and one byte for the enabled flag and the
/// registration.
const REST_BYTES: usize = 8 + 1 + 8 + 1;

/// All accounts, by protocol and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    by_name: [BTreeMap<Box<[u8]>, Account>; Protocol::ALL.len()],
    /// Names of fuzzy accounts, by the key id that requests carry.
    by_key_id: BTreeMap<[u8; KEY_ID_BYTES], Box<[u8]>>,
}

/// One account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Credential that authenticates the account.
    pub credential: Credential,
    /// Independence group: the accounts of one group count as one voice.
    pub group: u64,
    /// Standing assigned by the operator.
    pub standing: Standing,
    /// Time of registration.
    pub created: Time,
    /// True if the account's claims are accepted. A disabled account keeps its name.
    pub enabled: bool,
    /// Creator of the account.
    pub registration: Registration,
}

/// The creator of an account. The account's reporter id depends on it, and only self-registered accounts can be
/// evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Unknown: the version that created the account did not record its creator. The reporter id is derived from the
    /// name alone.
    Legacy,
    /// The operator.
    Operator,
    /// The account's holder, through a protocol that lets anyone register.
    Itself,
}

impl Registration {
    /// Returns the number that encodes this value.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Legacy => 0,
            Self::Operator => 1,
            Self::Itself => 2,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Legacy, Self::Operator, Self::Itself].into_iter().find(|registration| registration.number() == number)
    }
}

/// Returns a keyed hash of an account's name. This hash is the account's group unless another group is assigned.
#[must_use]
pub fn name_id(protocol: Protocol, name: &[u8], key: &FingerprintKey) -> u64 {
    key.fingerprint(&name_bytes(protocol, name)).high()
}

fn name_bytes(protocol: Protocol, name: &[u8]) -> Vec<u8> {
    [b"account:", protocol.name().as_bytes(), b":", name].concat()
}

/// Error for an account that cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another account has this name.
    #[error("the name is taken: choose another")]
    NameTaken,
    /// The key has the same id as another account's key, so requests could not distinguish the two.
    #[error("another account has this key, or one with the same first {KEY_ID_BYTES} bytes: create a new key")]
    KeyTaken,
    /// The table already holds [`ACCOUNTS_MAX`] accounts.
    #[error("the server already has the maximum of {ACCOUNTS_MAX} accounts: ask the operator to remove some")]
    Full,
}

/// Error for an account that cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// No account has this name.
    #[error("there is no account with this name")]
    Unknown,
    /// The key is taken; see [`RegisterError::KeyTaken`].
    #[error("another account has this key, or one with the same first {KEY_ID_BYTES} bytes: create a new key")]
    KeyTaken,
}

impl Accounts {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of accounts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.iter().map(BTreeMap::len).sum()
    }

    /// Returns true if there are no accounts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the account with this name, enabled or not.
    #[must_use]
    pub fn get(&self, protocol: Protocol, name: &[u8]) -> Option<&Account> {
        self.by_name[protocol.index()].get(name)
    }

    /// Returns the name and account of the fuzzy key with this id.
    #[must_use]
    pub fn key_id(&self, id: &[u8; KEY_ID_BYTES]) -> Option<(&[u8], &Account)> {
        let name = self.by_key_id.get(id)?;
        Some((name, self.get(Protocol::Fuzzy, name)?))
    }

    /// Iterates over all accounts and their names, sorted by protocol and name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Account)> {
        self.by_name.iter().flatten().map(|(name, account)| (&**name, account))
    }

    /// Registers an account on behalf of the operator. The credential must have been created for the same name.
    ///
    /// # Errors
    /// [`RegisterError`]; the table is then unchanged.
    pub fn register(
        &mut self,
        name: &[u8],
        credential: Credential,
        group: u64,
        standing: Standing,
        now: Time,
    ) -> Result<(), RegisterError> {
        let registration = Registration::Operator;
        self.insert(name, Account { credential, group, standing, created: now, enabled: true, registration })
    }

    /// Removes an account and frees its name.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn remove(&mut self, protocol: Protocol, name: &[u8]) -> Result<(), ChangeError> {
        let removed = self.by_name[protocol.index()].remove(name).ok_or(ChangeError::Unknown)?;
        if let Credential::Fuzzy(key) = removed.credential {
            self.by_key_id.remove(&key.id());
        }
        Ok(())
    }

    /// Accepts an account's claims again.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn enable(&mut self, protocol: Protocol, name: &[u8]) -> Result<(), ChangeError> {
        self.account_mut(protocol, name).map(|account| account.enabled = true)
    }

    /// Stops accepting an account's claims.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn disable(&mut self, protocol: Protocol, name: &[u8]) -> Result<(), ChangeError> {
        self.account_mut(protocol, name).map(|account| account.enabled = false)
    }

    /// Replaces an account's credential. The account is found by its name and the credential's protocol.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is then unchanged.
    pub fn rotate(&mut self, name: &[u8], credential: Credential) -> Result<(), ChangeError> {
        let before = self.get(credential.protocol(), name).ok_or(ChangeError::Unknown)?.credential;
        if let (Credential::Fuzzy(before), Credential::Fuzzy(after)) = (before, credential) {
            if before.id() != after.id() && self.by_key_id.contains_key(&after.id()) {
                return Err(ChangeError::KeyTaken);
            }
            self.by_key_id.remove(&before.id());
            self.by_key_id.insert(after.id(), name.into());
        }
        self.account_mut(credential.protocol(), name).map(|account| account.credential = credential)
    }

    /// Applies a change by the operator. The account keeps its name and its reporter id.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is then unchanged.
    pub fn update(&mut self, protocol: Protocol, name: &[u8], update: &AccountUpdate) -> Result<(), ChangeError> {
        if let Some(credential) = update.credential {
            // A credential of another protocol belongs to another account.
            self.get(protocol, name).filter(|_| credential.protocol() == protocol).ok_or(ChangeError::Unknown)?;
            self.rotate(name, credential)?;
        }
        let account = self.account_mut(protocol, name)?;
        account.standing = update.standing.unwrap_or(account.standing);
        account.group = update.group.unwrap_or(account.group);
        account.enabled = update.enabled.unwrap_or(account.enabled);
        if update.vouches() && account.registration == Registration::Itself {
            account.registration = Registration::Operator;
        }
        Ok(())
    }

    /// Returns the account to evict for a new one: the oldest evictable account without confirmed reports.
    /// `is_confirmed` tests a reporter id for confirmed reports.
    pub(crate) fn oldest_evictable(
        &self,
        key: &FingerprintKey,
        is_confirmed: impl Fn(u64) -> bool,
    ) -> Option<(Protocol, Box<[u8]>)> {
        let mut oldest: Option<(Time, Protocol, &[u8])> = None;
        for (name, account) in self.iter().filter(|(_, account)| account.is_evictable()) {
            let is_older = oldest.is_none_or(|(created, ..)| account.created < created);
            if is_older && !is_confirmed(account.reporter_id(name, key)) {
                oldest = Some((account.created, account.credential.protocol(), name));
            }
        }
        oldest.map(|(_, protocol, name)| (protocol, name.into()))
    }

    /// Returns true if any account can be evicted for a new one.
    pub(crate) fn has_evictable(&self, key: &FingerprintKey, is_confirmed: impl Fn(u64) -> bool) -> bool {
        let mut accounts = self.iter().filter(|(_, account)| account.is_evictable());
        accounts.any(|(name, account)| !is_confirmed(account.reporter_id(name, key)))
    }

    /// Returns the memory used by the table. Entries count twice, because tree nodes may be half empty.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let names: usize = self.iter().map(|(name, _)| name.len()).sum();
        let entries = self.len() * size_of::<(Box<[u8]>, Account)>();
        let key_ids = self.by_key_id.len() * size_of::<([u8; KEY_ID_BYTES], Box<[u8]>)>();
        let key_names: usize = self.by_key_id.values().map(|name| name.len()).sum();
        (names + key_names + 2 * (entries + key_ids)) as u64
    }

    /// Appends all accounts, sorted by protocol and name. Tables with the same contents have the same encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for (name, account) in self.iter() {
            // Names are shorter than 256 bytes.
            out.push(name.len() as u8);
            out.extend(name);
            account.encode(out);
        }
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a valid table.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(ACCOUNTS_MAX, ENCODED_BYTES_MIN, "the number of accounts")?;
        let mut accounts = Self::new();
        let mut before: Option<(Protocol, &[u8])> = None;
        for at in 0..count {
            let length = reader.u8("the length of an account's name")?;
            let name = reader.bytes(length.into(), "an account's name")?;
            let account = Account::decode(reader)?;
            let place = Some((account.credential.protocol(), name));
            // `encode` writes neither unsorted nor duplicate accounts.
            if before >= place || accounts.insert(name, account).is_err() {
                return Err(Malformed::OutOfRange { what: "the position of an account", value: at as u64 });
            }
            before = place;
        }
        Ok(accounts)
    }

    /// Adds an account without changing its fields.
    pub(crate) fn insert(&mut self, name: &[u8], account: Account) -> Result<(), RegisterError> {
        let protocol = account.credential.protocol();
        protocol.check_name(name)?;
        if self.get(protocol, name).is_some() {
            return Err(RegisterError::NameTaken);
        }
        if self.len() >= ACCOUNTS_MAX {
            return Err(RegisterError::Full);
        }
        if let Credential::Fuzzy(key) = account.credential {
            if self.by_key_id.contains_key(&key.id()) {
                return Err(RegisterError::KeyTaken);
            }
            self.by_key_id.insert(key.id(), name.into());
        }
        self.by_name[protocol.index()].insert(name.into(), account);
        Ok(())
    }

    fn account_mut(&mut self, protocol: Protocol, name: &[u8]) -> Result<&mut Account, ChangeError> {
        self.by_name[protocol.index()].get_mut(name).ok_or(ChangeError::Unknown)
    }
}

impl Account {
    /// Returns the reporter id under which the account's claims are recorded. The id depends on the creation time, so
    /// an account that reuses a removed account's name does not inherit its record.
    #[must_use]
    pub fn reporter_id(&self, name: &[u8], key: &FingerprintKey) -> u64 {
        let protocol = self.credential.protocol();
        if self.registration == Registration::Legacy {
            return name_id(protocol, name, key);
        }
        let mut bytes = name_bytes(protocol, name);
        // Names contain no zero byte, so a name followed by a time never equals another account's name.
        bytes.push(0);
        bytes.extend(self.created.0.to_le_bytes());
        key.fingerprint(&bytes).high()
    }

    /// Returns true if the account can be evicted, because nobody but its holder vouches for it. A disabled account is
    /// never evicted.
    const fn is_evictable(&self) -> bool {
        matches!(self.registration, Registration::Itself) && matches!(self.standing, Standing::Account) && self.enabled
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.credential.encode(out);
        out.extend(self.group.to_le_bytes());
        out.push(self.standing as u8);
        out.extend(self.created.0.to_le_bytes());
        out.push(u8::from(self.enabled) | self.registration.number() << 1);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const WHAT: &str = "the enabled flag of an account";
        let credential = Credential::decode(reader)?;
        let group = reader.u64("the group of an account")?;
        let standing = read_standing(reader)?;
        let created = Time(reader.u64("the creation time of an account")?);
        // In accounts without a recorded registration, this byte is 0 or 1.
        let flags = reader.u8(WHAT)?;
        let out_of_range = || Malformed::OutOfRange { what: WHAT, value: flags.into() };
        let registration = Registration::from_number(flags >> 1).ok_or_else(out_of_range)?;
        Ok(Self { credential, group, standing, created, enabled: flags & 1 != 0, registration })
    }
}

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize, "the length of a name must fit in a byte");
