//! Subjects from a client are decoded or rejected. Decoded subjects survive a round trip.

use bruit_protocols::http::{AccountName, AccountPatch, NewAccount, Subject, WhitelistEntry};
use bruit_signatures::{mailing_list, sender};

pub(crate) fn fuzz(input: &[u8]) {
    if let Ok(subject) = serde_json::from_slice::<Subject>(input)
        && let Ok(signed) = subject.signed()
    {
        let again = Subject::of(&signed, subject.sender.clone());
        let reread = again.signed().expect("an encoded subject can be decoded");
        assert_eq!(reread.features, signed.features);
        assert_eq!(reread.signatures, signed.signatures);
    }
    let _ = serde_json::from_slice::<NewAccount>(input);
    let _ = serde_json::from_slice::<AccountPatch>(input);
    let _ = serde_json::from_slice::<AccountName>(input);
    if let Ok(WhitelistEntry::Signature(named)) = serde_json::from_slice(input) {
        let _ = named.signature();
    }
    // Also read the other properties of a message.
    assert!(mailing_list::of(input).is_none_or(|list| list.len() <= mailing_list::LIST_BYTES_MAX));
    assert!(sender::of(input).is_none_or(|address| address.len() <= sender::SENDER_BYTES_MAX));
}
