//! Who may claim, and how a claim proves who makes it.
//!
//! One bounded table, [`Accounts`], holds for every account its protocol, its credential and whose voice it is. What a
//! protocol's messages prove is decided here, from bytes alone: [`razor`], [`pyzor`], [`dcc`] and [`fuzzy`] know the four
//! ways, but neither sockets nor a clock. A password is looked at once, by [`Credential::new`], which refuses weak ones;
//! what is kept and journalled is the [`Credential`], from which a protocol can verify and no more.
//!
//! For Razor, Pyzor and rspamd that is not what was typed. It is still a secret: who has the table can sign in as anybody
//! in it, which none of these protocols prevents, and can try passwords against it.
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
mod digits;
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
