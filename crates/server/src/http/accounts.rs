//! Accounts: listing, reporter records, and changes.

use bruit_engine::Engine;
use bruit_engine::accounts::{Account, AccountChange, AccountUpdate, ChangeError, Protocol, Registration};
use bruit_engine::trust::Standing;
use bruit_protocols::http::{
    AccountDay, AccountEntry, AccountHistory, AccountName, AccountPage, AccountPatch, AccountTrust, NewAccount,
};

use super::administration::{PAGE_MAX, next_offset};
use super::fault::Fault;
use crate::accounts;
use crate::config::{AccountSecret, AccountSettings, PasswordSettings};
use crate::history::{DAY_SECONDS, Sample, day_of};
use crate::service::Service;

/// Returns a page of accounts, starting at index `offset`.
pub(super) fn page(service: &Service, offset: u64) -> AccountPage {
    service.store.check(|engine| {
        let total = engine.accounts().len() as u64;
        let some = engine.accounts().iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(PAGE_MAX);
        let accounts = some.map(|(name, account)| entry(service, engine, name, account)).collect();
        AccountPage { accounts, total, next_offset: next_offset(offset, total) }
    })
}

/// Returns a page with one account.
pub(super) fn one(service: &Service, named: &AccountName) -> Result<AccountPage, Fault> {
    let (protocol, name) = (protocol(&named.protocol)?, named.name.as_bytes());
    service.store.check(|engine| {
        let account =
            engine.accounts().get(protocol, name).ok_or_else(|| Fault::of_refusal(ChangeError::Unknown.into()))?;
        Ok(AccountPage { accounts: vec![entry(service, engine, name, account)], total: 1, next_offset: None })
    })
}

/// Returns the track record of an account by the day.
pub(super) fn history(service: &Service, named: AccountName) -> Result<AccountHistory, Fault> {
    let (protocol, name) = (protocol(&named.protocol)?, named.name.as_bytes());
    let id = service.store.check(|engine| {
        let account = engine.accounts().get(protocol, name);
        account.map(|account| account.reporter_id(name, &service.key))
    });
    let id = id.ok_or_else(|| Fault::of_refusal(ChangeError::Unknown.into()))?;
    let AccountName { protocol, name } = named;
    Ok(AccountHistory { protocol, name, days: days(service, id) })
}

/// Returns the track record of each of these accounts.
pub(super) fn histories(service: &Service, accounts: &[AccountEntry]) -> Vec<Vec<AccountDay>> {
    let ids: Vec<Option<u64>> = service.store.check(|engine| {
        let id = |entry: &AccountEntry| {
            let (protocol, name) = (protocol(&entry.protocol).ok()?, entry.name.as_bytes());
            Some(engine.accounts().get(protocol, name)?.reporter_id(name, &service.key))
        };
        accounts.iter().map(id).collect()
    });
    ids.into_iter().map(|id| id.map_or_else(Vec::new, |id| days(service, id))).collect()
}

fn days(service: &Service, id: u64) -> Vec<AccountDay> {
    let samples = service.history.precision().samples(id, day_of(service.now().0));
    let day = |sample: &Sample| AccountDay {
        start: u64::from(sample.day) * DAY_SECONDS,
        precision: f64::from(sample.precision) / 1e4,
        weight: f64::from(sample.weight) / 1024.0,
        confirmed: sample.confirmed,
        refuted: sample.refuted,
        unconfirmed: sample.unconfirmed,
    };
    samples.iter().map(day).collect()
}

fn entry(service: &Service, engine: &Engine, name: &[u8], account: &Account) -> AccountEntry {
    let id = account.reporter_id(name, &service.key);
    let trust = engine.trust().reporter(service.now(), id).map(|view| AccountTrust {
        precision: view.precision,
        weight: view.weight,
        confirmed: view.confirmed,
        refuted: view.refuted,
        unconfirmed: view.unconfirmed,
    });
    AccountEntry {
        protocol: account.credential.protocol().name().to_owned(),
        name: String::from_utf8_lossy(name).into_owned(),
        standing: standing_name(account.standing).to_owned(),
        group: format!("{:016x}", account.group),
        enabled: account.enabled,
        created: account.created.0,
        registered_by: registration_name(account.registration).to_owned(),
        last_used: service.last_claims.of(id).map(|time| time.0),
        trust,
    }
}

/// Returns the change that registers an account.
pub(super) fn registration(
    engine: &Engine,
    passwords: &PasswordSettings,
    new: NewAccount,
) -> Result<AccountChange, Fault> {
    let protocol = protocol(&new.protocol)?;
    let standing = new.standing.as_deref().map_or(Ok(Standing::Account), standing)?;
    let secret = secret(protocol, new.secret)?;
    let settings = AccountSettings { protocol, name: new.name, secret, standing, group: new.group };
    let credential = accounts::credential(&settings, passwords).map_err(Fault::malformed)?;
    let group = accounts::group(&settings, engine.realm().key());
    let (name, registration) = (settings.name.into_bytes().into(), Registration::Operator);
    Ok(AccountChange::Register { name, credential, group, standing, registration })
}

/// Returns the change that removes an account.
pub(super) fn removal(named: AccountName) -> Result<AccountChange, Fault> {
    Ok(AccountChange::Remove(protocol(&named.protocol)?, named.name.into_bytes().into()))
}

/// Returns the change that updates an account.
pub(super) fn update(
    engine: &Engine,
    passwords: &PasswordSettings,
    patch: AccountPatch,
) -> Result<AccountChange, Fault> {
    let protocol = protocol(&patch.protocol)?;
    let standing = patch.standing.as_deref().map(standing).transpose()?;
    let group = patch.group.as_ref().map(|group| accounts::group_id(group, engine.realm().key()));
    let credential = match patch.secret {
        None => None,
        Some(given) => {
            let (name, secret) = (patch.name.clone(), secret(protocol, given)?);
            let settings = AccountSettings { protocol, name, secret, standing: Standing::Account, group: None };
            Some(accounts::credential(&settings, passwords).map_err(Fault::malformed)?)
        }
    };
    let update = AccountUpdate { credential, standing, group, enabled: patch.enabled };
    if update == AccountUpdate::default() {
        return Err(Fault::malformed(
            "nothing to change: give at least one of the fields `secret`, `enabled`, `standing` and `group`",
        ));
    }
    Ok(AccountChange::Update { protocol, name: patch.name.into_bytes().into(), update })
}

fn secret(protocol: Protocol, given: String) -> Result<AccountSecret, Fault> {
    match protocol {
        Protocol::Razor => Ok(AccountSecret::Password(given)),
        Protocol::Dcc => Ok(AccountSecret::Passwords(given, None)),
        Protocol::Pyzor => Ok(AccountSecret::Key(given)),
        Protocol::Fuzzy => {
            Err(Fault::malformed("accounts with key pairs (fuzzy) can only be set in the server's configuration"))
        }
    }
}

fn protocol(name: &str) -> Result<Protocol, Fault> {
    let unknown = || Fault::malformed("invalid protocol: expected razor, pyzor, dcc or fuzzy");
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == name).ok_or_else(unknown)
}

fn standing(name: &str) -> Result<Standing, Fault> {
    let known = [Standing::Trap, Standing::Own, Standing::Pinned, Standing::Account];
    let unknown = || Fault::malformed("invalid standing: expected trap, own, pinned or account");
    known.into_iter().find(|standing| standing_name(*standing) == name).ok_or_else(unknown)
}

pub(super) const fn standing_name(standing: Standing) -> &'static str {
    match standing {
        Standing::Trap => "trap",
        Standing::Own => "own",
        Standing::Pinned => "pinned",
        Standing::Account => "account",
        Standing::Stranger => "stranger",
    }
}

const fn registration_name(registration: Registration) -> &'static str {
    match registration {
        Registration::Legacy => "unknown",
        Registration::Operator => "operator",
        Registration::Itself => "itself",
    }
}
