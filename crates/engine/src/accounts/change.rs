//! Account changes, as recorded in the journal.
//!
//! The first byte is the kind of change, and the fields follow:
//!
//! | kind | fields |
//! |---|---|
//! | register (1) | name, credential, group (u64), standing (u8) |
//! | register (6) | as for 1, then the registration (u8) |
//! | remove (2), enable (3), disable (4) | protocol (u8), name |
//! | rotate (5) | name, credential |
//! | update (7) | protocol (u8), name, flags (u8), the fields whose flags are set |
//!
//! The flags of an update are credential (1), standing u8 (2), group u64 (4) and enabled u8 (8). A name is encoded as
//! its length (u8) and its bytes.

use super::credential::Credential;
use super::name::{NAME_BYTES_MAX, Protocol};
use super::table::Registration;
use crate::codec::{Malformed, Reader};
use crate::trust::{Standing, read_standing};

/// A change of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountChange {
    /// Creates the account.
    Register {
        /// Account name.
        name: Box<[u8]>,
        /// Credential that authenticates the account.
        credential: Credential,
        /// Group of reporters that count as one voice.
        group: u64,
        /// Standing assigned by the operator.
        standing: Standing,
        /// Creator of the account.
        registration: Registration,
    },
    /// Removes the account.
    Remove(Protocol, Box<[u8]>),
    /// Accepts the account's claims again.
    Enable(Protocol, Box<[u8]>),
    /// Stops accepting the account's claims.
    Disable(Protocol, Box<[u8]>),
    /// Replaces the credential.
    Rotate {
        /// Account name.
        name: Box<[u8]>,
        /// New credential.
        credential: Credential,
    },
    /// A change by the operator. The account keeps its reporter id and the weight it has earned.
    Update {
        /// Protocol of the account.
        protocol: Protocol,
        /// Account name.
        name: Box<[u8]>,
        /// Fields to change.
        update: AccountUpdate,
    },
}

/// Changes that the operator makes to an account. Fields that are `None` stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// New credential. It must belong to the account's protocol.
    pub credential: Option<Credential>,
    /// New standing.
    pub standing: Option<Standing>,
    /// New group of reporters that count as one voice.
    pub group: Option<u64>,
    /// New enabled flag: true to accept the account's claims.
    pub enabled: Option<bool>,
}

/// Flags for the fields present in an encoded update.
const CREDENTIAL: u8 = 1;
const STANDING: u8 = 2;
const GROUP: u8 = 4;
const ENABLED: u8 = 8;

impl AccountChange {
    /// Returns true if the name is within its length limit and a new credential, if any, belongs to the account's
    /// protocol.
    pub(crate) fn is_within_bounds(&self) -> bool {
        if let Self::Update { protocol, update, .. } = self
            && update.credential.is_some_and(|credential| credential.protocol() != *protocol)
        {
            return false;
        }
        let (Self::Register { name, .. }
        | Self::Remove(_, name)
        | Self::Enable(_, name)
        | Self::Disable(_, name)
        | Self::Rotate { name, .. }
        | Self::Update { name, .. }) = self;
        name.len() <= NAME_BYTES_MAX
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Register { name, credential, group, standing, registration } => {
                out.push(if *registration == Registration::Legacy { 1 } else { 6 });
                put_name(out, name);
                credential.encode(out);
                out.extend(group.to_le_bytes());
                out.push(*standing as u8);
                if *registration != Registration::Legacy {
                    out.push(registration.number());
                }
            }
            Self::Remove(protocol, name) => put_named(out, 2, *protocol, name),
            Self::Enable(protocol, name) => put_named(out, 3, *protocol, name),
            Self::Disable(protocol, name) => put_named(out, 4, *protocol, name),
            Self::Rotate { name, credential } => {
                out.push(5);
                put_name(out, name);
                credential.encode(out);
            }
            Self::Update { protocol, name, update } => {
                put_named(out, 7, *protocol, name);
                update.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let change = reader.u8("the kind of account change")?;
        Ok(match change {
            1 | 6 => Self::Register {
                name: read_name(reader)?,
                credential: Credential::decode(reader)?,
                group: reader.u64("the group of an account")?,
                standing: read_standing(reader)?,
                registration: if change == 1 { Registration::Legacy } else { read_registration(reader)? },
            },
            2 => Self::Remove(read_protocol(reader)?, read_name(reader)?),
            3 => Self::Enable(read_protocol(reader)?, read_name(reader)?),
            4 => Self::Disable(read_protocol(reader)?, read_name(reader)?),
            5 => Self::Rotate { name: read_name(reader)?, credential: Credential::decode(reader)? },
            7 => Self::read_update(reader)?,
            value => return Err(Malformed::OutOfRange { what: "the kind of account change", value: value.into() }),
        })
    }

    fn read_update(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (protocol, name) = (read_protocol(reader)?, read_name(reader)?);
        let update = AccountUpdate::decode(reader)?;
        match update.credential {
            Some(credential) if credential.protocol() != protocol => {
                Err(Malformed::OutOfRange { what: "the protocol of an account", value: credential.protocol() as u64 })
            }
            _ => Ok(Self::Update { protocol, name, update }),
        }
    }
}

impl AccountUpdate {
    /// Returns true if the update changes more than the enabled flag. With such an update, the operator vouches for the
    /// account.
    pub(super) const fn vouches(&self) -> bool {
        self.credential.is_some() || self.standing.is_some() || self.group.is_some()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { credential, standing, group, enabled } = self;
        let bit = |bit, is_there: bool| if is_there { bit } else { 0 };
        out.push(
            bit(CREDENTIAL, credential.is_some())
                | bit(STANDING, standing.is_some())
                | bit(GROUP, group.is_some())
                | bit(ENABLED, enabled.is_some()),
        );
        credential.iter().for_each(|credential| credential.encode(out));
        out.extend(standing.iter().map(|standing| *standing as u8));
        out.extend(group.iter().flat_map(|group| group.to_le_bytes()));
        out.extend(enabled.iter().map(|enabled| u8::from(*enabled)));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const WHAT: &str = "the fields of an account update";
        let bits = reader.u8(WHAT)?;
        if bits & !(CREDENTIAL | STANDING | GROUP | ENABLED) != 0 {
            return Err(Malformed::OutOfRange { what: WHAT, value: bits.into() });
        }
        let has = |bit| bits & bit != 0;
        Ok(Self {
            credential: has(CREDENTIAL).then(|| Credential::decode(reader)).transpose()?,
            standing: has(STANDING).then(|| read_standing(reader)).transpose()?,
            group: has(GROUP).then(|| reader.u64("the group of an account")).transpose()?,
            enabled: has(ENABLED).then(|| read_enabled(reader)).transpose()?,
        })
    }
}

fn read_enabled(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("the enabled flag of an account")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Malformed::OutOfRange { what: "the enabled flag of an account", value: value.into() }),
    }
}

fn read_registration(reader: &mut Reader<'_>) -> Result<Registration, Malformed> {
    const WHAT: &str = "the registration of an account";
    let value = reader.u8(WHAT)?;
    // Legacy registrations are encoded without this byte.
    let known = Registration::from_number(value).filter(|registration| *registration != Registration::Legacy);
    known.ok_or_else(|| Malformed::OutOfRange { what: WHAT, value: value.into() })
}

fn put_named(out: &mut Vec<u8>, change: u8, protocol: Protocol, name: &[u8]) {
    out.extend([change, protocol as u8]);
    put_name(out, name);
}

/// Appends a name. A name that is too long is written with a length that the decoder rejects.
fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend(name);
}

fn read_name(reader: &mut Reader<'_>) -> Result<Box<[u8]>, Malformed> {
    let length = usize::from(reader.u8("the length of a name")?);
    if length > NAME_BYTES_MAX {
        return Err(Malformed::OutOfRange { what: "the length of a name", value: length as u64 });
    }
    Ok(reader.bytes(length, "a name")?.into())
}

fn read_protocol(reader: &mut Reader<'_>) -> Result<Protocol, Malformed> {
    Protocol::from_number(reader.u8("a protocol")?)
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;

    fn register(name: &[u8], credential: Credential, registration: Registration) -> AccountChange {
        AccountChange::Register { name: name.into(), credential, group: 7, standing: Standing::Pinned, registration }
    }

    #[test]
    fn an_update_with_a_credential_of_another_protocol_is_refused() {
        let credential = Credential::new(b"alice", &Secret::Razor { password: b"tin whistle 7" }).unwrap();
        let update = AccountUpdate { credential: Some(credential), ..AccountUpdate::default() };
        let change = AccountChange::Update { protocol: Protocol::Pyzor, name: b"alice".as_slice().into(), update };
        assert!(!change.is_within_bounds());
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        assert!(AccountChange::decode(&mut Reader::new(&bytes)).is_err());
    }

    #[test]
    fn every_change_round_trips() {
        let name: Box<[u8]> = b"alice".as_slice().into();
        let credential = Credential::new(&name, &Secret::Razor { password: b"tin whistle 7" }).unwrap();
        let all = AccountUpdate {
            credential: Some(credential),
            standing: Some(Standing::Own),
            group: Some(9),
            enabled: Some(false),
        };
        let changes = [
            register(&name, credential, Registration::Legacy),
            register(&name, credential, Registration::Operator),
            register(&name, credential, Registration::Itself),
            AccountChange::Update { protocol: Protocol::Razor, name: name.clone(), update: all },
            AccountChange::Update { protocol: Protocol::Razor, name: name.clone(), update: AccountUpdate::default() },
            AccountChange::Remove(Protocol::Razor, name.clone()),
            AccountChange::Enable(Protocol::Pyzor, [b'x'; NAME_BYTES_MAX].into()),
            AccountChange::Disable(Protocol::Dcc, b"32768".as_slice().into()),
            AccountChange::Rotate { name, credential },
        ];
        for change in changes {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(AccountChange::decode(&mut reader), Ok(change));
            assert_eq!(reader.finish(), Ok(()));
            (0..bytes.len()).for_each(|cut| assert!(AccountChange::decode(&mut Reader::new(&bytes[..cut])).is_err()));
        }
    }
}
