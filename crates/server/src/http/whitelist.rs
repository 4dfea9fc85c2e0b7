//! The whitelists: senders, by address or domain, and signatures, by keyed hash.

use bruit_engine::Engine;
use bruit_engine::signature::fingerprint_of;
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_protocols::http::{Whitelist, WhitelistEntry};

use super::administration::{PAGE_MAX, next_offset};
use super::fault::Fault;

/// Returns a page of the whitelist, starting at the sender with index `offset`.
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

/// Describes an entry for the audit trail. For a signature, a few digits are enough.
pub(super) fn subject(entry: &WhitelistEntry) -> String {
    match entry {
        WhitelistEntry::Sender(pattern) => format!("sender {pattern}"),
        WhitelistEntry::Signature(named) => {
            let digits: String = named.value.chars().take(16).collect();
            format!("signature {} {digits}…", named.scheme)
        }
    }
}

/// Returns the change that adds an entry.
pub(super) fn addition(engine: &Engine, entry: WhitelistEntry) -> Result<WhitelistChange, Fault> {
    Ok(match entry {
        WhitelistEntry::Sender(pattern) => WhitelistChange::AddSender(pattern.into_bytes().into()),
        WhitelistEntry::Signature(named) => {
            let signature = named.signature().map_err(Fault::malformed)?;
            WhitelistChange::List(fingerprint_of(engine.realm().key(), &signature), ListAuthor::Operator)
        }
    })
}

/// Returns the change that removes an entry.
pub(super) fn removal(engine: &Engine, entry: WhitelistEntry) -> Result<WhitelistChange, Fault> {
    Ok(match entry {
        WhitelistEntry::Sender(pattern) => WhitelistChange::RemoveSender(pattern.into_bytes().into()),
        WhitelistEntry::Signature(named) => {
            let signature = named.signature().map_err(Fault::malformed)?;
            WhitelistChange::Unlist(fingerprint_of(engine.realm().key(), &signature))
        }
    })
}
