//! What an account proves itself with: from what was typed to what is kept.

use super::dcc::{self, DccPassword, DccVerifier};
use super::fuzzy::{Flags, FuzzyKey, KEY_BYTES};
use super::name::{NameError, Protocol};
use super::pyzor::{self, PyzorVerifier};
use super::razor::{self, RazorVerifier};
use crate::codec::{Malformed, Reader};
use crate::passwords::{WeakPassword, judge};

/// What somebody gives to register with, as it was typed or sent.
#[derive(Clone, Copy)]
pub enum Secret<'a> {
    /// A Razor password.
    Razor {
        /// At most [`razor::PASSWORD_BYTES_MAX`] bytes.
        password: &'a [u8],
    },
    /// A Pyzor key.
    Pyzor {
        /// [`pyzor::KEY_DIGITS`] hexadecimal digits, as `pyzor genkey` prints them behind the comma.
        key: &'a [u8],
    },
    /// The passwords of a DCC client-ID.
    Dcc {
        /// The one in use, at most [`dcc::PASSWORD_BYTES_MAX`] bytes.
        current: &'a [u8],
        /// The one that will be.
        next: Option<&'a [u8]>,
    },
    /// A key of the fuzzy storage.
    Fuzzy {
        /// The public half of the server's key pair.
        public_key: [u8; KEY_BYTES],
        /// The flags it may write.
        flags: Flags,
    },
}

/// What is kept of a [`Secret`]: enough to verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// See [`razor`].
    Razor(RazorVerifier),
    /// See [`pyzor`]. It belongs to the name it was made with.
    Pyzor(PyzorVerifier),
    /// See [`dcc`].
    Dcc(DccVerifier),
    /// See [`fuzzy`](super::fuzzy).
    Fuzzy(FuzzyKey),
}

/// Why a secret is refused, in words for whoever chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The name it is for cannot be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A password that is easily guessed.
    #[error(transparent)]
    Weak(#[from] WeakPassword),
    /// The password is the name.
    #[error("the password is the name of the account: choose another")]
    IsName,
    /// A password that the protocol, or what is kept for it, has no room for.
    #[error("a {} password has at most {bytes_max} bytes", protocol.name())]
    TooLong {
        /// Whose.
        protocol: Protocol,
        /// How many.
        bytes_max: usize,
    },
    /// A DCC password with characters that its files cannot have.
    #[error("a dcc password has no blanks and no zero bytes")]
    Blank,
    /// Not what `pyzor genkey` prints.
    #[error(
        "a pyzor key is {} hexadecimal digits, the part behind the comma of what 'pyzor genkey' prints",
        pyzor::KEY_DIGITS
    )]
    NotAKey,
}

impl Credential {
    /// Looks at what was given for the account `name`, once, and makes of it what is kept.
    ///
    /// # Errors
    /// [`CredentialError`] if the name or the secret is refused.
    pub fn new(name: &[u8], secret: &Secret<'_>) -> Result<Self, CredentialError> {
        secret.protocol().check_name(name)?;
        match *secret {
            Secret::Razor { password } => {
                check_password(Protocol::Razor, name, password, razor::PASSWORD_BYTES_MAX)?;
                Ok(Self::Razor(RazorVerifier::of(password).expect("its length was checked")))
            }
            Secret::Pyzor { key } => PyzorVerifier::of(name, key).map(Self::Pyzor).ok_or(CredentialError::NotAKey),
            Secret::Dcc { current, next } => {
                let current = dcc_password(name, current)?;
                let next = next.map(|next| dcc_password(name, next)).transpose()?;
                Ok(Self::Dcc(DccVerifier { current, next }))
            }
            Secret::Fuzzy { public_key, flags } => Ok(Self::Fuzzy(FuzzyKey { public_key, flags })),
        }
    }

    /// The protocol it is for.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Razor(_) => Protocol::Razor,
            Self::Pyzor(_) => Protocol::Pyzor,
            Self::Dcc(_) => Protocol::Dcc,
            Self::Fuzzy(_) => Protocol::Fuzzy,
        }
    }

    /// Appends the protocol's number and what is kept.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.protocol() as u8);
        match self {
            Self::Razor(verifier) => verifier.encode(out),
            Self::Pyzor(verifier) => verifier.encode(out),
            Self::Dcc(verifier) => verifier.encode(out),
            Self::Fuzzy(key) => key.encode(out),
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it did not.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match Protocol::from_number(reader.u8("a protocol")?)? {
            Protocol::Razor => Self::Razor(RazorVerifier::decode(reader)?),
            Protocol::Pyzor => Self::Pyzor(PyzorVerifier::decode(reader)?),
            Protocol::Dcc => Self::Dcc(DccVerifier::decode(reader)?),
            Protocol::Fuzzy => Self::Fuzzy(FuzzyKey::decode(reader)?),
        })
    }
}

impl Secret<'_> {
    const fn protocol(&self) -> Protocol {
        match self {
            Self::Razor { .. } => Protocol::Razor,
            Self::Pyzor { .. } => Protocol::Pyzor,
            Self::Dcc { .. } => Protocol::Dcc,
            Self::Fuzzy { .. } => Protocol::Fuzzy,
        }
    }
}

fn dcc_password(name: &[u8], password: &[u8]) -> Result<DccPassword, CredentialError> {
    check_password(Protocol::Dcc, name, password, dcc::PASSWORD_BYTES_MAX)?;
    DccPassword::new(password).ok_or(CredentialError::Blank)
}

fn check_password(protocol: Protocol, name: &[u8], password: &[u8], bytes_max: usize) -> Result<(), CredentialError> {
    if password.len() > bytes_max {
        return Err(CredentialError::TooLong { protocol, bytes_max });
    }
    if password.eq_ignore_ascii_case(name) {
        return Err(CredentialError::IsName);
    }
    Ok(judge(password)?)
}
