//! Accounts: who there is, how their claims have fared, and changes of them.

use bruit_engine::Engine;
use bruit_engine::accounts::{Account, AccountChange, Protocol};
use bruit_engine::time::Time;
use bruit_engine::trust::Standing;
use bruit_protocols::http::{NewReporter, ReporterChange, ReporterEntry, ReporterPage, ReporterTrust};

use super::fault::Fault;
use super::router::{PAGE_MAX, next_offset};
use crate::accounts;
use crate::config::{AccountSecret, AccountSettings};
use crate::sources::reporter_id;

/// The reporters from `offset` on.
pub(super) fn page(engine: &Engine, offset: u64, now: Time) -> ReporterPage {
    let total = engine.accounts().len() as u64;
    let some = engine.accounts().iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(PAGE_MAX);
    let reporters = some.map(|(name, account)| entry(engine, name, account, now)).collect();
    ReporterPage { reporters, total, next_offset: next_offset(offset, total) }
}

fn entry(engine: &Engine, name: &[u8], account: &Account, now: Time) -> ReporterEntry {
    let protocol = account.credential.protocol();
    let id = reporter_id(protocol, name, engine.realm().key());
    let trust = engine.trust().reporter(now, id).map(|view| ReporterTrust {
        precision: view.precision,
        weight: view.weight,
        confirmed: view.confirmed,
        refuted: view.refuted,
        unconfirmed: view.unconfirmed,
    });
    ReporterEntry {
        protocol: protocol.name().to_owned(),
        name: String::from_utf8_lossy(name).into_owned(),
        standing: standing_name(account.standing).to_owned(),
        group: format!("{:016x}", account.group),
        enabled: account.enabled,
        created: account.created.0,
        trust,
    }
}

/// What registers a reporter.
pub(super) fn registration(engine: &Engine, new: NewReporter) -> Result<AccountChange, Fault> {
    let protocol = protocol(&new.protocol)?;
    let standing = new.standing.as_deref().map_or(Ok(Standing::Account), standing)?;
    let secret = match protocol {
        Protocol::Razor => AccountSecret::Password(new.secret),
        Protocol::Dcc => AccountSecret::Passwords(new.secret, None),
        Protocol::Pyzor => AccountSecret::Key(new.secret),
        Protocol::Fuzzy => {
            return Err(Fault::malformed("key pairs of the fuzzy storage are named in the server's configuration"));
        }
    };
    let settings = AccountSettings { protocol, name: new.name, secret, standing, group: new.group };
    let credential = accounts::credential(&settings).map_err(Fault::malformed)?;
    let group = accounts::group(&settings, engine.realm().key());
    Ok(AccountChange::Register { name: settings.name.into_bytes().into(), credential, group, standing })
}

/// What removes a reporter.
pub(super) fn removal(change: ReporterChange) -> Result<AccountChange, Fault> {
    if change.enabled.is_some() {
        return Err(Fault::malformed("a reporter that is removed is neither enabled nor disabled: leave that out"));
    }
    Ok(AccountChange::Remove(protocol(&change.protocol)?, change.name.into_bytes().into()))
}

/// What has a reporter heard again, or no more.
pub(super) fn hearing(change: ReporterChange) -> Result<AccountChange, Fault> {
    let (protocol, name) = (protocol(&change.protocol)?, change.name.into_bytes().into());
    match change.enabled {
        Some(true) => Ok(AccountChange::Enable(protocol, name)),
        Some(false) => Ok(AccountChange::Disable(protocol, name)),
        None => Err(Fault::malformed("enabled is missing: true or false")),
    }
}

fn protocol(name: &str) -> Result<Protocol, Fault> {
    let unknown = || Fault::malformed("a protocol is razor, pyzor, dcc or fuzzy");
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == name).ok_or_else(unknown)
}

fn standing(name: &str) -> Result<Standing, Fault> {
    let known = [Standing::Trap, Standing::Own, Standing::Pinned, Standing::Account];
    let unknown = || Fault::malformed("a standing is trap, own, pinned or account");
    known.into_iter().find(|standing| standing_name(*standing) == name).ok_or_else(unknown)
}

const fn standing_name(standing: Standing) -> &'static str {
    match standing {
        Standing::Trap => "trap",
        Standing::Own => "own",
        Standing::Pinned => "pinned",
        Standing::Account => "account",
        Standing::Stranger => "stranger",
    }
}
