//! The real engine in a directory: a small clearinghouse, and events of every kind.

use std::path::Path;

use bruit_engine::accounts::fuzzy::Flags;
use bruit_engine::accounts::{AccountChange, AccountUpdate, Credential, Protocol, Registration, Secret};
use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::event::{By, Event, TextChange};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_engine::{BEHIND_LINES, Engine};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_signatures::bruit::Features;
use bruit_store::{Clearinghouse, Founding, OpenError, Options};

pub(crate) const KEY: [u8; 16] = [9; 16];

/// The start of an epoch of both books: 2024-10-09.
pub(crate) const FOUNDED: Time = Time(4_001 * Realm::SPAM_EPOCH_SECONDS);

pub(crate) fn founding() -> Founding {
    Founding::new(KEY, BUDGET_MIN, Policy::default(), FOUNDED).unwrap()
}

pub(crate) fn try_open(directory: &Path, options: &Options) -> Result<Clearinghouse, OpenError> {
    Clearinghouse::open_or_found(directory, options, founding, &mut |_| {})
}

pub(crate) fn open(directory: &Path, options: &Options) -> Clearinghouse {
    try_open(directory, options).unwrap()
}

/// Returns the encoded state that opening a directory would recover.
pub(crate) fn state(directory: &Path) -> Vec<u8> {
    let (_, mut engine, _) = Clearinghouse::peek(directory, &mut |_| {}).unwrap().unwrap();
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    while !engine.continue_snapshot(1 << 20, &mut bytes) {}
    bytes
}

/// Returns the fingerprint of the signature with this number.
pub(crate) fn fingerprint(signature: u64) -> Fingerprint {
    FingerprintKey::narrow(KEY).fingerprint(&signature.to_le_bytes())
}

/// Returns a reporter with its own group.
pub(crate) const fn by(standing: Standing, id: u64) -> By {
    By { now: Time(FOUNDED.0 + 60), reporter: Reporter { id, standing, group: id } }
}

pub(crate) fn claim(standing: Standing, claim: Claim, signature: u64) -> Event {
    Event::Claim { by: by(standing, 1), claim, flag: 0, fingerprints: vec![fingerprint(signature)] }
}

pub(crate) fn bulk(targets: u32, signature: u64) -> Event {
    Event::Bulk { by: by(Standing::Own, 1), targets, fingerprints: vec![fingerprint(signature)] }
}

/// Returns the recipients counted for a signature.
pub(crate) fn recipients(engine: &Engine, signature: u64) -> u32 {
    engine.bulk().total(&fingerprint(signature))
}

pub(crate) fn features() -> Features {
    Features { pairs: (0..60).collect(), ..Features::default() }
}

pub(crate) const DIGEST: [u8; 64] = [0xD1; 64];

/// Returns events of every kind, including every kind of account and whitelist change. They lead to this state:
///
/// Signature 1 is spam, 2 is revoked, 3 is newly whitelisted, 4 is no longer whitelisted, and 5 has seven recipients.
/// The text of [`features`] is known as signature 1. [`DIGEST`] has weight 3 on list 2, and another text is deleted.
/// There are four accounts.
pub(crate) fn events_of_every_kind() -> Vec<Event> {
    let replicas = founding().engine().unwrap();
    let own = by(Standing::Own, 1);
    let good = Features { pairs: (1_000..1_060).collect(), ..Features::default() };
    let mut events = vec![
        claim(Standing::Own, Claim::Report, 1),
        claim(Standing::Own, Claim::Report, 2),
        claim(Standing::Own, Claim::Revoke, 2),
        bulk(3, 5),
        bulk(4, 5),
        Event::Text { by: own, fingerprint: fingerprint(1), text: replicas.replicas().text(&features()) },
        Event::Good { by: own, features: replicas.replicas().good_features_of(&good) },
        shingles(TextChange::Write { flag: 2, weight: 3 }, DIGEST, 0),
        shingles(TextChange::Write { flag: 2, weight: 3 }, [0xD2; 64], 100),
        shingles(TextChange::Delete, [0xD2; 64], 100),
    ];
    events.extend(account_changes().into_iter().map(|change| Event::Account { now: FOUNDED, change }));
    events.extend(whitelist_changes().into_iter().map(|change| Event::Whitelist { now: FOUNDED, change }));
    events.push(Event::IdentifiedClaim {
        now: FOUNDED,
        id: fingerprint(70),
        events: vec![claim(Standing::Own, Claim::Report, 71)],
    });
    let policy = Box::new(Policy { own_reports_needed: 2, ..Policy::default() });
    events.push(Event::Policy { now: FOUNDED, policy });
    events.push(Event::Tick { now: Time(FOUNDED.0 + Time::DAY), lines: BEHIND_LINES });
    events
}

fn shingles(change: TextChange, digest: [u8; 64], first: u64) -> Event {
    let shingles = std::array::from_fn(|place| first + place as u64);
    Event::Shingles { by: by(Standing::Own, 1), change, digest: Box::new(digest), shingles: Some(Box::new(shingles)) }
}

fn account_changes() -> Vec<AccountChange> {
    let register_as = |registration, name: &[u8], secret| AccountChange::Register {
        name: name.into(),
        credential: Credential::new(name, &secret).unwrap(),
        group: 7,
        standing: Standing::Account,
        registration,
    };
    let register = |name: &[u8], secret| register_as(Registration::Legacy, name, secret);
    let update = AccountUpdate { standing: Some(Standing::Pinned), group: Some(8), ..AccountUpdate::default() };
    let rotated = Credential::new(b"alice", &Secret::Razor { password: b"brass whistle 8" }).unwrap();
    vec![
        register(b"alice", Secret::Razor { password: b"tin whistle 7" }),
        register(b"bob", Secret::Pyzor { key: &[b'a'; 40] }),
        register_as(Registration::Operator, b"32768", Secret::Dcc { current: b"quiet-otter-9", next: None }),
        register_as(Registration::Itself, b"dave", Secret::Razor { password: b"tin whistle 9" }),
        register_as(Registration::Operator, b"carol", Secret::Fuzzy { public_key: [5; 32], flags: Flags::ALL }),
        AccountChange::Rotate { name: b"alice".as_slice().into(), credential: rotated },
        AccountChange::Disable(Protocol::Pyzor, b"bob".as_slice().into()),
        AccountChange::Enable(Protocol::Pyzor, b"bob".as_slice().into()),
        AccountChange::Remove(Protocol::Dcc, b"32768".as_slice().into()),
        AccountChange::Update { protocol: Protocol::Razor, name: b"dave".as_slice().into(), update },
    ]
}

fn whitelist_changes() -> Vec<WhitelistChange> {
    vec![
        WhitelistChange::List(fingerprint(3), ListAuthor::Operator),
        WhitelistChange::List(fingerprint(4), ListAuthor::Operator),
        WhitelistChange::Unlist(fingerprint(4)),
        WhitelistChange::AddSender(b"@example.org".as_slice().into()),
        WhitelistChange::AddSender(b"@example.net".as_slice().into()),
        WhitelistChange::RemoveSender(b"@example.net".as_slice().into()),
    ]
}
