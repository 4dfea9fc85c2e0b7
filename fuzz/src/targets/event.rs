//! Decoded objects encode to the same bytes. Applying decoded events does not panic. The first byte selects the
//! decoder.

use std::cell::RefCell;

use bruit_engine::accounts::Accounts;
use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::codec::Reader;
use bruit_engine::event::Event;
use bruit_engine::realm::Realm;
use bruit_engine::shingles::Shingles;
use bruit_engine::time::Time;
use bruit_engine::trust::{Policy, Trust};
use bruit_engine::whitelist::Whitelist;
use bruit_engine::{Engine, Outcome};
use bruit_filters::FingerprintKey;

const KEY: FingerprintKey = FingerprintKey::narrow([5; 16]);
const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
/// Number of events after which the clearinghouse is replaced. A failure thus depends on only a few inputs.
const EVENTS: u32 = 256;

thread_local! {
    static ENGINE: RefCell<(Engine, u32)> = RefCell::new((engine(), 0));
}

fn engine() -> Engine {
    let plan = Plan::for_budget(BUDGET_MIN).expect("the minimum budget has a plan");
    let realm = Realm::new(KEY, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, plan.sizes)
        .expect("the default epochs are valid");
    Engine::new(realm, plan, Policy::default(), START)
}

pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((&decoder, rest)) = bytes.split_first() else { return };
    let mut reader = Reader::new(rest);
    match decoder {
        0 => trust(rest),
        1 => {
            let accounts = Accounts::decode(&mut reader);
            accounts.iter().for_each(|accounts| same(rest, &reader, |out| accounts.encode(out)));
        }
        2 => {
            let whitelist = Whitelist::decode(&KEY, &mut reader);
            whitelist.iter().for_each(|whitelist| same(rest, &reader, |out| whitelist.encode(out)));
        }
        3 => {
            let table = Shingles::new(KEY, 1_024, 7, 0).table().clone();
            let shingles = Shingles::decode_records(KEY, 1_024, 7, table, &mut reader);
            shingles.iter().for_each(|shingles| same(rest, &reader, |out| shingles.encode_records(out)));
        }
        4 => {
            let policy = Policy::decode(&mut reader);
            policy.iter().for_each(|policy| same(rest, &reader, |out| policy.encode(out)));
        }
        5 => {
            let realm = Realm::decode(&mut reader);
            realm.iter().for_each(|realm| same(rest, &reader, |out| realm.encode(out)));
        }
        _ => event(rest),
    }
}

/// Asserts that the decoded object encodes to the same bytes.
fn same(bytes: &[u8], reader: &Reader<'_>, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    encode(&mut out);
    assert_eq!(out, bytes[..bytes.len() - reader.left()]);
}

/// Decodes the trust records. In crafted bytes, reporters may be at unusual positions, so the first encoding may differ
/// from the input. A second decoding and encoding must then change nothing.
fn trust(bytes: &[u8]) {
    let decode = |bytes: &[u8]| Trust::decode(Policy::default(), 1 << 20, &mut Reader::new(bytes));
    let Ok(mut trust) = decode(bytes) else { return };
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    trust.encode(&mut once);
    decode(&once).expect("encoded bytes can be decoded").encode(&mut twice);
    assert_eq!(once, twice);
    trust.settle(Time(u64::MAX / 2), 1_000);
}

fn event(bytes: &[u8]) {
    let Ok(event) = Event::decode(bytes) else { return };
    let mut again = Vec::new();
    event.encode(&mut again);
    assert_eq!(again, bytes);
    // Skip jumps of years. They are valid, but too slow here.
    if matches!(event, Event::Tick { now, .. } if now.0 > START.0 + 40 * Realm::SPAM_EPOCH_SECONDS) {
        return;
    }
    // Skip budgets of gigabytes. They are valid, but too large for fuzzing.
    if matches!(event, Event::Resize { budget_bytes, .. } if budget_bytes > 4 * BUDGET_MIN) {
        return;
    }
    ENGINE.with_borrow_mut(|(clearinghouse, applied)| {
        if *applied == EVENTS {
            (*clearinghouse, *applied) = (engine(), 0);
        }
        *applied += 1;
        let admitted = clearinghouse.admit(&event);
        let outcome = clearinghouse.apply(&event);
        if let Err(refusal) = admitted {
            assert_eq!(outcome, Outcome::Refused(refusal), "apply rejects the event for the same reason as admit");
        }
    });
}
