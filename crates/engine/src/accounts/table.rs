//! The table of accounts: bounded, in one order, changed by events only.

use std::collections::BTreeMap;

use super::credential::Credential;
use super::fuzzy::KEY_ID_BYTES;
use super::name::{NAME_BYTES_MAX, NameError, Protocol};
use crate::codec::{Malformed, Reader, put_count};
use crate::time::Time;
use crate::trust::{Standing, read_standing};

/// Most accounts, of all protocols together: some 20 MB. Anybody may register with Razor, so there has to be an end.
pub const ACCOUNTS_MAX: usize = 65_536;

/// The fewest bytes an account is encoded in: the shortest name and the shortest credential.
const ENCODED_BYTES_MIN: usize = 1 + 1 + 1 + 20 + REST_BYTES;

/// The bytes of what follows the credential: group, standing, created, enabled.
const REST_BYTES: usize = 8 + 1 + 8 + 1;

/// All accounts, by protocol and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    by_name: [BTreeMap<Box<[u8]>, Account>; Protocol::ALL.len()],
    /// Names of fuzzy accounts by what requests call their keys.
    by_key_id: BTreeMap<[u8; KEY_ID_BYTES], Box<[u8]>>,
}

/// One account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What it proves itself with.
    pub credential: Credential,
    /// The independence group: accounts of one group are one voice.
    pub group: u64,
    /// What the operator knows of it.
    pub standing: Standing,
    /// When it was registered.
    pub created: Time,
    /// Whether its claims are accepted. One that is not keeps its name.
    pub enabled: bool,
}

/// Why an account is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Somebody has it.
    #[error("the name is taken: choose another")]
    NameTaken,
    /// Requests could not tell it from another account's key.
    #[error("another account has this key, or one that begins with the same {KEY_ID_BYTES} bytes: make a new one")]
    KeyTaken,
    /// [`ACCOUNTS_MAX`].
    #[error("there are {ACCOUNTS_MAX} accounts already: ask the operator to remove some")]
    Full,
}

/// Why an account is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// Nobody has this name.
    #[error("there is no account of this name")]
    Unknown,
    /// As for [`RegisterError::KeyTaken`].
    #[error("another account has this key, or one that begins with the same {KEY_ID_BYTES} bytes: make a new one")]
    KeyTaken,
}

impl Accounts {
    /// No accounts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.iter().map(BTreeMap::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The account of this name, enabled or not.
    #[must_use]
    pub fn get(&self, protocol: Protocol, name: &[u8]) -> Option<&Account> {
        self.by_name[protocol.index()].get(name)
    }

    /// The account of a DCC client-ID.
    #[must_use]
    pub fn client_id(&self, id: u32) -> Option<&Account> {
        self.get(Protocol::Dcc, id.to_string().as_bytes())
    }

    /// The name and account of the fuzzy key that a request calls so.
    #[must_use]
    pub fn key_id(&self, id: &[u8; KEY_ID_BYTES]) -> Option<(&[u8], &Account)> {
        let name = self.by_key_id.get(id)?;
        Some((name, self.get(Protocol::Fuzzy, name)?))
    }

    /// All accounts with their names, sorted by protocol and name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Account)> {
        self.by_name.iter().flatten().map(|(name, account)| (&**name, account))
    }

    /// Registers an account. The credential must have been made for the same name.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing has changed then.
    pub fn register(
        &mut self,
        name: &[u8],
        credential: Credential,
        group: u64,
        standing: Standing,
        now: Time,
    ) -> Result<(), RegisterError> {
        let account = Account { credential, group, standing, created: now, enabled: true };
        self.insert(name, account)
    }

    /// Removes an account; its name is free again.
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

    /// Accepts none of an account's claims from now on.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn disable(&mut self, protocol: Protocol, name: &[u8]) -> Result<(), ChangeError> {
        self.account_mut(protocol, name).map(|account| account.enabled = false)
    }

    /// Replaces the credential of the account of its protocol and this name.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
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

    /// The memory of the table, with the half that the nodes of a tree may leave empty.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let names: usize = self.iter().map(|(name, _)| name.len()).sum();
        let entries = self.len() * size_of::<(Box<[u8]>, Account)>();
        let key_ids = self.by_key_id.len() * size_of::<([u8; KEY_ID_BYTES], Box<[u8]>)>();
        let key_names: usize = self.by_key_id.values().map(|name| name.len()).sum();
        (names + key_names + 2 * (entries + key_ids)) as u64
    }

    /// Appends all accounts, sorted by protocol and name: equal tables give equal bytes, whatever their past.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for (name, account) in self.iter() {
            // Names are shorter than 256 bytes.
            out.push(name.len() as u8);
            out.extend(name);
            account.encode(out);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it did not.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(ACCOUNTS_MAX, ENCODED_BYTES_MIN, "the number of accounts")?;
        let mut accounts = Self::new();
        let mut before: Option<(Protocol, &[u8])> = None;
        for at in 0..count {
            let length = reader.u8("the length of an account's name")?;
            let name = reader.bytes(length.into(), "an account's name")?;
            let account = Account::decode(reader)?;
            let place = Some((account.credential.protocol(), name));
            // In another order, or taken twice, it was not written by us.
            if before >= place || accounts.insert(name, account).is_err() {
                return Err(Malformed::OutOfRange { what: "the place of an account", value: at as u64 });
            }
            before = place;
        }
        Ok(accounts)
    }

    fn insert(&mut self, name: &[u8], account: Account) -> Result<(), RegisterError> {
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
    fn encode(&self, out: &mut Vec<u8>) {
        self.credential.encode(out);
        out.extend(self.group.to_le_bytes());
        out.push(self.standing as u8);
        out.extend(self.created.0.to_le_bytes());
        out.push(self.enabled.into());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            credential: Credential::decode(reader)?,
            group: reader.u64("an account's group")?,
            standing: read_standing(reader)?,
            created: Time(reader.u64("when an account was created")?),
            enabled: match reader.u8("whether an account is enabled")? {
                0 => false,
                1 => true,
                value => {
                    return Err(Malformed::OutOfRange { what: "whether an account is enabled", value: value.into() });
                }
            },
        })
    }
}

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize, "the length of a name is written in a byte");
