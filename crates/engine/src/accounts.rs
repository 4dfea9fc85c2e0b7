//! Reporter accounts, and the authentication of their claims.
//!
//! One bounded table, [`Accounts`], holds the protocol, credential, group and standing of every account.
//! [`razor`], [`pyzor`], [`dcc`] and [`fuzzy`] authenticate messages of the four protocols. They work on bytes and use
//! neither sockets nor a clock. [`Credential::new`] refuses weak passwords. Only the resulting [`Credential`], which is
//! sufficient for verification, is stored and journalled.
//!
//! For Razor, Pyzor and rspamd, the stored form is not the original secret. The table must still be kept secret,
//! because anyone who has the table can authenticate as any account in it, and can test guessed passwords against it.
//!
//! ```
//! use bruit_engine::time::Time;
//! use bruit_engine::accounts::{Accounts, Credential, Protocol, Secret};
//! use bruit_engine::trust::Standing;
//!
//! let mut accounts = Accounts::new();
//! let credential = Credential::new(b"alice@example.org", &Secret::Razor { password: b"tin whistle 7" })?;
//! accounts.register(b"alice@example.org", credential, 1, Standing::Account, Time(1_800_000_000))?;
//!
//! let account = accounts.get(Protocol::Razor, b"alice@example.org").expect("just registered");
//! let Credential::Razor(verifier) = &account.credential else { unreachable!() };
//! assert!(!verifier.verify(b"406d3e65e5946eebcd82", b"oUsPU6zmreeHtaW3nBRkR6VNIAgA"));
//!
//! let weak = Credential::new(b"bob", &Secret::Razor { password: b"Password1" });
//! assert!(weak.unwrap_err().to_string().contains("choose another"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod change;
mod credential;
pub mod dcc;
pub mod fuzzy;
mod name;
pub mod pyzor;
pub mod razor;
mod table;
#[cfg(test)]
mod tests;

pub use change::{AccountChange, AccountUpdate};
pub use credential::{Credential, CredentialError, Secret};
pub use name::{NAME_BYTES_MAX, NameError, Protocol};
pub use table::{ACCOUNTS_MAX, Account, Accounts, ChangeError, RegisterError, Registration, name_id};
