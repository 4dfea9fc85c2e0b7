//! Synchronizes the accounts in the configuration with the clearinghouse.
//!
//! The configuration file takes precedence. The accounts in the file are registered, or updated to match the file.
//! Other accounts stay unchanged, because clients may have registered them. To remove an account, delete it from the
//! file and then remove it over HTTP.

use std::collections::BTreeSet;

use bruit_engine::Engine;
use bruit_engine::accounts::{
    Account, AccountChange, AccountUpdate, Credential, CredentialError, Registration, Secret, name_id,
};
use bruit_filters::FingerprintKey;

use crate::config::{AccountSecret, AccountSettings, PasswordSettings};
use crate::fuzzy_keys;

/// The reason why an account in the file is invalid.
#[derive(Debug, thiserror::Error)]
#[error("account {name:?}: {reason}")]
pub struct AccountError {
    name: String,
    reason: String,
}

/// Account changes, in the order in which they must be submitted.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) removed: Vec<AccountChange>,
    pub(crate) updated: Vec<AccountChange>,
    pub(crate) registered: Vec<AccountChange>,
}

/// Checks that the secrets of all accounts in the file are valid, and that no two accounts have the same name or key.
///
/// # Errors
/// Returns [`AccountError`] for the first invalid account.
pub(crate) fn check(named: &[AccountSettings], passwords: &PasswordSettings) -> Result<(), AccountError> {
    let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for settings in named {
        let is_new = match credential(settings, passwords)? {
            Credential::Fuzzy(key) => keys.insert(key.id()),
            _ => true,
        };
        if !names.insert((settings.protocol, &settings.name)) || !is_new {
            let reason = "another account has the same name or secret".to_owned();
            return Err(AccountError { name: settings.name.clone(), reason });
        }
    }
    Ok(())
}

/// Returns the changes that make the clearinghouse match the file.
///
/// # Errors
/// Returns [`AccountError`] for the first invalid account.
pub(crate) fn changes(
    named: &[AccountSettings],
    passwords: &PasswordSettings,
    engine: &Engine,
) -> Result<Changes, AccountError> {
    let key = engine.realm().key();
    let mut changes = Changes::default();
    for settings in named {
        let AccountSettings { protocol, standing, .. } = *settings;
        let credential = credential(settings, passwords)?;
        let group = group(settings, key);
        let name: Box<[u8]> = settings.name.as_bytes().into();
        let known = engine.accounts().get(protocol, &name);
        if known.is_some_and(|known| is_as_named(known, &credential, settings, group)) {
            continue;
        }
        let is_taken = is_key_taken(engine, &credential, &name);
        if known.is_some() && !is_taken {
            let (credential, standing, group) = (Some(credential), Some(standing), Some(group));
            let update = AccountUpdate { credential, standing, group, enabled: None };
            changes.updated.push(AccountChange::Update { protocol, name, update });
            continue;
        }
        if known.is_some() {
            changes.removed.push(AccountChange::Remove(protocol, name.clone()));
        }
        let registration = Registration::Operator;
        changes.registered.push(AccountChange::Register { name, credential, group, standing, registration });
    }
    Ok(changes)
}

/// Returns true if another account currently has the key. The caller then removes the account and registers it again,
/// because two accounts may swap their keys, and every order of updates would cause a conflict.
fn is_key_taken(engine: &Engine, credential: &Credential, name: &[u8]) -> bool {
    let Credential::Fuzzy(key) = credential else { return false };
    engine.accounts().key_id(&key.id()).is_some_and(|(other, _)| other != name)
}

fn is_as_named(known: &Account, credential: &Credential, settings: &AccountSettings, group: u64) -> bool {
    let is_adopted = known.registration != Registration::Itself;
    is_adopted && known.credential == *credential && known.standing == settings.standing && known.group == group
}

/// Returns the credential to store for an account.
///
/// # Errors
/// Returns [`AccountError`] if the protocol rejects the name or secret, or if one of the operator's lists contains the
/// password.
pub(crate) fn credential(settings: &AccountSettings, passwords: &PasswordSettings) -> Result<Credential, AccountError> {
    let name = settings.name.as_bytes();
    let refused = |error: CredentialError| AccountError { name: settings.name.clone(), reason: error.to_string() };
    let secret = match &settings.secret {
        AccountSecret::Password(password) => Secret::Razor { password: password.as_bytes() },
        AccountSecret::Passwords(current, next) => {
            Secret::Dcc { current: current.as_bytes(), next: next.as_ref().map(String::as_bytes) }
        }
        AccountSecret::Key(key) => Secret::Pyzor { key: key.as_bytes() },
        AccountSecret::KeyPair(secret, flags) => {
            let reason =
                "invalid secret: expected 52 characters of rspamd's base-32, or 64 hexadecimal digits".to_owned();
            let public_key =
                fuzzy_keys::public_key(secret).ok_or_else(|| AccountError { name: settings.name.clone(), reason })?;
            Secret::Fuzzy { public_key, flags: *flags }
        }
    };
    let typed: &[&String] = match &settings.secret {
        AccountSecret::Password(password) | AccountSecret::Passwords(password, None) => &[password],
        AccountSecret::Passwords(current, Some(next)) => &[current, next],
        AccountSecret::Key(_) | AccountSecret::KeyPair(..) => &[],
    };
    typed.iter().try_for_each(|typed| passwords.judge(typed.as_bytes())).map_err(|weak| refused(weak.into()))?;
    Credential::new(name, &secret).map_err(refused)
}

/// Returns the group of an account. Accounts of one group count as one voice. An account without a group is a group of
/// its own.
pub(crate) fn group(settings: &AccountSettings, key: &FingerprintKey) -> u64 {
    match &settings.group {
        Some(group) => group_id(group, key),
        None => name_id(settings.protocol, settings.name.as_bytes(), key),
    }
}

/// Returns the ID of the group with this name.
pub(crate) fn group_id(group: &str, key: &FingerprintKey) -> u64 {
    key.fingerprint(format!("group:{group}").as_bytes()).high()
}
