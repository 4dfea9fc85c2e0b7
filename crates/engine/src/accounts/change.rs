//! Changes of the table as they are journalled.
//!
//! A byte for the change, then: register (1) and rotate (5) name, credential, and for the former group u64 and standing u8;
//! remove (2), enable (3) and disable (4) protocol u8 and name. A name is its length (u8) and its bytes.

use super::credential::Credential;
use super::name::{NAME_BYTES_MAX, Protocol};
use crate::codec::{Malformed, Reader};
use crate::trust::{Standing, read_standing};

/// Something that happens to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountChange {
    /// It is made.
    Register {
        /// Its name.
        name: Box<[u8]>,
        /// What it proves itself with.
        credential: Credential,
        /// The independence group.
        group: u64,
        /// What the operator knows of it.
        standing: Standing,
    },
    /// It is removed.
    Remove(Protocol, Box<[u8]>),
    /// Its claims are accepted again.
    Enable(Protocol, Box<[u8]>),
    /// Its claims are no longer accepted.
    Disable(Protocol, Box<[u8]>),
    /// It has another credential.
    Rotate {
        /// Its name.
        name: Box<[u8]>,
        /// What it proves itself with from now on.
        credential: Credential,
    },
}

impl AccountChange {
    /// Whether its name is no longer than may be written.
    pub(crate) fn is_within_bounds(&self) -> bool {
        let (Self::Register { name, .. }
        | Self::Remove(_, name)
        | Self::Enable(_, name)
        | Self::Disable(_, name)
        | Self::Rotate { name, .. }) = self;
        name.len() <= NAME_BYTES_MAX
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Register { name, credential, group, standing } => {
                out.push(1);
                put_name(out, name);
                credential.encode(out);
                out.extend(group.to_le_bytes());
                out.push(*standing as u8);
            }
            Self::Remove(protocol, name) => put_named(out, 2, *protocol, name),
            Self::Enable(protocol, name) => put_named(out, 3, *protocol, name),
            Self::Disable(protocol, name) => put_named(out, 4, *protocol, name),
            Self::Rotate { name, credential } => {
                out.push(5);
                put_name(out, name);
                credential.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let change = reader.u8("the change of an account")?;
        Ok(match change {
            1 => Self::Register {
                name: read_name(reader)?,
                credential: Credential::decode(reader)?,
                group: reader.u64("an account's group")?,
                standing: read_standing(reader)?,
            },
            2 => Self::Remove(read_protocol(reader)?, read_name(reader)?),
            3 => Self::Enable(read_protocol(reader)?, read_name(reader)?),
            4 => Self::Disable(read_protocol(reader)?, read_name(reader)?),
            5 => Self::Rotate { name: read_name(reader)?, credential: Credential::decode(reader)? },
            value => return Err(Malformed::OutOfRange { what: "the change of an account", value: value.into() }),
        })
    }
}

fn put_named(out: &mut Vec<u8>, change: u8, protocol: Protocol, name: &[u8]) {
    out.extend([change, protocol as u8]);
    put_name(out, name);
}

/// A name that is too long is written so that it is not read back.
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

    #[test]
    fn every_change_is_read_as_written() {
        let name: Box<[u8]> = b"alice".as_slice().into();
        let credential = Credential::new(&name, &Secret::Razor { password: b"tin whistle 7" }).unwrap();
        let changes = [
            AccountChange::Register { name: name.clone(), credential, group: 7, standing: Standing::Pinned },
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
