//! Account credentials. A secret is checked when it is entered, and converted to a verifier, which is stored.

use super::dcc::{self, DccPassword, DccVerifier};
use super::fuzzy::{Flags, FuzzyKey, KEY_BYTES};
use super::name::{NameError, Protocol};
use super::pyzor::{self, PyzorVerifier};
use super::razor::{self, RazorVerifier};
use crate::codec::{Malformed, Reader};
use crate::passwords::{WeakPassword, judge};

/// The secret of a new account or a changed one, as entered or received.
#[derive(Clone, Copy)]
pub enum Secret<'a> {
    /// A Razor password.
    Razor {
        /// Password of at most [`razor::PASSWORD_BYTES_MAX`] bytes.
        password: &'a [u8],
    },
    /// A Pyzor key.
    Pyzor {
        /// [`pyzor::KEY_DIGITS`] hexadecimal digits, as `pyzor genkey` prints them after the comma.
        key: &'a [u8],
    },
    /// The passwords of a DCC client-ID.
    Dcc {
        /// Current password, at most [`dcc::PASSWORD_BYTES_MAX`] bytes.
        current: &'a [u8],
        /// Next password, if a change is in progress.
        next: Option<&'a [u8]>,
    },
    /// A key for rspamd's fuzzy storage.
    Fuzzy {
        /// Public half of the server's key pair.
        public_key: [u8; KEY_BYTES],
        /// Flags that the account may write.
        flags: Flags,
    },
}

/// The stored form of a [`Secret`], sufficient to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Razor verifier; see [`razor`].
    Razor(RazorVerifier),
    /// Pyzor verifier; see [`pyzor`]. It is valid only for the name with which it was created.
    Pyzor(PyzorVerifier),
    /// DCC passwords; see [`dcc`].
    Dcc(DccVerifier),
    /// Key of rspamd's fuzzy storage; see [`fuzzy`](super::fuzzy).
    Fuzzy(FuzzyKey),
}

/// Error for a refused secret, worded for the person who chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The account name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The password is easily guessed.
    #[error(transparent)]
    Weak(#[from] WeakPassword),
    /// The password equals the account name.
    #[error("the password equals the account name: choose another")]
    IsName,
    /// The password is longer than the protocol or its verifier allows.
    #[error("the password is longer than the {bytes_max} bytes that {} allows", protocol.name())]
    TooLong {
        /// Protocol of the account.
        protocol: Protocol,
        /// Maximum length in bytes.
        bytes_max: usize,
    },
    /// The DCC password contains characters that DCC's files cannot represent.
    #[error("a dcc password must not contain white space or zero bytes")]
    Blank,
    /// The key is not one that `pyzor genkey` could have printed.
    #[error(
        "invalid pyzor key: expected the {} hexadecimal digits that 'pyzor genkey' prints after the comma",
        pyzor::KEY_DIGITS
    )]
    NotAKey,
}

impl Credential {
    /// Checks the secret for the account `name` and converts it to its stored form.
    ///
    /// # Errors
    /// [`CredentialError`] if the name or the secret is refused.
    pub fn new(name: &[u8], secret: &Secret<'_>) -> Result<Self, CredentialError> {
        secret.protocol().check_name(name)?;
        match *secret {
            Secret::Razor { password } => {
                check_password(Protocol::Razor, name, password, razor::PASSWORD_BYTES_MAX)?;
                Ok(Self::Razor(RazorVerifier::of(password).expect("the length was checked")))
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

    /// Returns the protocol of the credential.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Razor(_) => Protocol::Razor,
            Self::Pyzor(_) => Protocol::Pyzor,
            Self::Dcc(_) => Protocol::Dcc,
            Self::Fuzzy(_) => Protocol::Fuzzy,
        }
    }

    /// Appends the protocol number and the verifier.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.protocol() as u8);
        match self {
            Self::Razor(verifier) => verifier.encode(out),
            Self::Pyzor(verifier) => verifier.encode(out),
            Self::Dcc(verifier) => verifier.encode(out),
            Self::Fuzzy(key) => key.encode(out),
        }
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a valid credential.
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
