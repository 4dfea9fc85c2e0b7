//! The whitelists: senders by address or domain, signatures by their keyed hashes.

use bruit_engine::Engine;
use bruit_engine::signature::fingerprint_of;
use bruit_engine::whitelist::{By, WhitelistChange};
use bruit_protocols::http::{Whitelist, WhitelistEntry};

use super::fault::Fault;
use super::router::{PAGE_MAX, next_offset};

/// What is whitelisted, with the senders from `offset` on.
pub(super) fn page(engine: &Engine, offset: u64) -> Whitelist {
    let whitelist = engine.whitelist();
    let sender_count = whitelist.senders.len() as u64;
    let some = whitelist.senders.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(PAGE_MAX);
    Whitelist {
        senders: some.map(|sender| String::from_utf8_lossy(sender).into_owned()).collect(),
        sender_count,
        next_offset: next_offset(offset, sender_count),
        signature_count: whitelist.len() as u64,
    }
}

/// What the audit trail calls an entry. Of a signature a few digits are enough to find it again.
pub(super) fn subject(entry: &WhitelistEntry) -> String {
    match entry {
        WhitelistEntry::Sender(pattern) => format!("sender {pattern}"),
        WhitelistEntry::Signature(named) => {
            let digits: String = named.value.chars().take(16).collect();
            format!("signature {} {digits}…", named.scheme)
        }
    }
}

/// What puts something on a list.
pub(super) fn addition(engine: &Engine, entry: WhitelistEntry) -> Result<WhitelistChange, Fault> {
    Ok(match entry {
        WhitelistEntry::Sender(pattern) => WhitelistChange::AddSender(pattern.into_bytes().into()),
        WhitelistEntry::Signature(named) => {
            let signature = named.signature().map_err(Fault::malformed)?;
            WhitelistChange::List(fingerprint_of(engine.realm().key(), &signature), By::Operator)
        }
    })
}

/// What takes something off a list.
pub(super) fn removal(engine: &Engine, entry: WhitelistEntry) -> Result<WhitelistChange, Fault> {
    Ok(match entry {
        WhitelistEntry::Sender(pattern) => WhitelistChange::RemoveSender(pattern.into_bytes().into()),
        WhitelistEntry::Signature(named) => {
            let signature = named.signature().map_err(Fault::malformed)?;
            WhitelistChange::Unlist(fingerprint_of(engine.realm().key(), &signature))
        }
    })
}
