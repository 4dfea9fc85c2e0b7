//! The table of accounts: bounded, in one order, changed by events only.

use std::collections::BTreeMap;

use bruit_filters::FingerprintKey;

use super::change::AccountUpdate;
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

/// The bytes of what follows the credential: group, standing, created, enabled and who made it.
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
    /// Who made it.
    pub registration: Registration,
}

/// Who made an account, which decides what its reporter id is made of and whether it gives way to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Nobody knows: it is from before this was kept. Its reporter id is made of its name alone, as it was then.
    Legacy,
    /// The operator.
    Operator,
    /// Its holder, by a protocol that lets anybody register.
    Itself,
}

impl Registration {
    /// The number that stands for it in bytes.
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

/// A keyed hash of an account's name: its group, if it was given none.
#[must_use]
pub fn name_id(protocol: Protocol, name: &[u8], key: &FingerprintKey) -> u64 {
    key.fingerprint(&name_bytes(protocol, name)).high()
}

fn name_bytes(protocol: Protocol, name: &[u8]) -> Vec<u8> {
    [b"account:", protocol.name().as_bytes(), b":", name].concat()
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

    /// Registers an account for the operator. The credential must have been made for the same name.
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
        let registration = Registration::Operator;
        self.insert(name, Account { credential, group, standing, created: now, enabled: true, registration })
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

    /// Changes what the operator says of an account, and nothing else: it keeps its name and its reporter id.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn update(&mut self, protocol: Protocol, name: &[u8], update: &AccountUpdate) -> Result<(), ChangeError> {
        if let Some(credential) = update.credential {
            // A credential of another protocol is of another account.
            self.get(protocol, name).filter(|_| credential.protocol() == protocol).ok_or(ChangeError::Unknown)?;
            self.rotate(name, credential)?;
        }
        let account = self.account_mut(protocol, name)?;
        account.standing = update.standing.unwrap_or(account.standing);
        account.group = update.group.unwrap_or(account.group);
        account.enabled = update.enabled.unwrap_or(account.enabled);
        if update.adopts() && account.registration == Registration::Itself {
            account.registration = Registration::Operator;
        }
        Ok(())
    }

    /// The account that gives way to a new one: the oldest of those that registered themselves and were not confirmed, by what
    /// `is_confirmed` says of a reporter id.
    pub(crate) fn giving_way(
        &self,
        key: &FingerprintKey,
        is_confirmed: impl Fn(u64) -> bool,
    ) -> Option<(Protocol, Box<[u8]>)> {
        let mut oldest: Option<(Time, Protocol, &[u8])> = None;
        for (name, account) in self.iter().filter(|(_, account)| account.may_give_way()) {
            let is_older = oldest.is_none_or(|(created, ..)| account.created < created);
            if is_older && !is_confirmed(account.reporter_id(name, key)) {
                oldest = Some((account.created, account.credential.protocol(), name));
            }
        }
        oldest.map(|(_, protocol, name)| (protocol, name.into()))
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

    /// Adds an account as it is.
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
    /// What its claims are known by among reporters. When it was made is part of it: who registers the name of a removed account
    /// inherits nothing.
    #[must_use]
    pub fn reporter_id(&self, name: &[u8], key: &FingerprintKey) -> u64 {
        let protocol = self.credential.protocol();
        if self.registration == Registration::Legacy {
            return name_id(protocol, name, key);
        }
        let mut bytes = name_bytes(protocol, name);
        // No name has a zero, so no name is another's name and time.
        bytes.push(0);
        bytes.extend(self.created.0.to_le_bytes());
        key.fingerprint(&bytes).high()
    }

    /// Whether nobody but its holder ever spoke for it. A decision of the operator to disable it stands.
    const fn may_give_way(&self) -> bool {
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
        const WHAT: &str = "whether an account is enabled";
        let credential = Credential::decode(reader)?;
        let group = reader.u64("an account's group")?;
        let standing = read_standing(reader)?;
        let created = Time(reader.u64("when an account was created")?);
        // Before it was kept who made an account, this was 0 or 1.
        let flags = reader.u8(WHAT)?;
        let out_of_range = || Malformed::OutOfRange { what: WHAT, value: flags.into() };
        let registration = Registration::from_number(flags >> 1).ok_or_else(out_of_range)?;
        Ok(Self { credential, group, standing, created, enabled: flags & 1 != 0, registration })
    }
}

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize, "the length of a name is written in a byte");
