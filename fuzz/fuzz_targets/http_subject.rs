//! Whatever a client sends as a subject is read or refused, and what is read comes out again.
#![no_main]

use bruit_protocols::http::{AccountName, AccountPatch, NewAccount, Subject, WhitelistEntry};
use bruit_signatures::{mailing_list, sender};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(subject) = serde_json::from_slice::<Subject>(input)
        && let Ok(signed) = subject.signed()
    {
        let again = Subject::of(&signed, subject.sender.clone());
        let reread = again.signed().expect("what was written is read");
        assert_eq!(reread.features, signed.features);
        assert_eq!(reread.signatures, signed.signatures);
    }
    let _ = serde_json::from_slice::<NewAccount>(input);
    let _ = serde_json::from_slice::<AccountPatch>(input);
    let _ = serde_json::from_slice::<AccountName>(input);
    if let Ok(WhitelistEntry::Signature(named)) = serde_json::from_slice(input) {
        let _ = named.signature();
    }
    // The other thing that a message is asked for.
    assert!(mailing_list::of(input).is_none_or(|list| list.len() <= mailing_list::LIST_BYTES_MAX));
    assert!(sender::of(input).is_none_or(|address| address.len() <= sender::SENDER_BYTES_MAX));
});
