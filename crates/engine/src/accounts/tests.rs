use super::fuzzy::Flags;
use super::*;
use crate::codec::{Malformed, Reader};
use crate::passwords::WeakPassword;
use crate::time::Time;
use crate::trust::Standing;

const NOW: Time = Time(1_794_725_694);
const ACCOUNT: Standing = Standing::Account;

fn razor(name: &[u8]) -> Credential {
    Credential::new(name, &Secret::Razor { password: b"tin whistle 7" }).unwrap()
}

fn fuzzy(first: u8, last: u8) -> Credential {
    let mut public_key = [first; 32];
    public_key[31] = last;
    Credential::new(b"any", &Secret::Fuzzy { public_key, flags: [1, 11].into_iter().collect() }).unwrap()
}

fn pyzor(name: &[u8]) -> Credential {
    Credential::new(name, &Secret::Pyzor { key: &[b'a'; 40] }).unwrap()
}

fn dcc(next: Option<&[u8]>) -> Credential {
    Credential::new(b"32768", &Secret::Dcc { current: b"tin-whistle-7", next }).unwrap()
}

/// Returns a table with one account of every kind, registered in the given order.
fn accounts(order: [usize; 5]) -> Accounts {
    let all: [(&[u8], Credential); 5] = [
        (b"bob", razor(b"bob")),
        (b"alice", razor(b"alice")),
        (b"alice", pyzor(b"alice")),
        (b"32768", dcc(Some(b"tin-whistle-8"))),
        (b"mx.example.org", fuzzy(1, 1)),
    ];
    let mut accounts = Accounts::new();
    for at in order {
        let (name, credential) = all[at];
        accounts.register(name, credential, at as u64, ACCOUNT, NOW).unwrap();
    }
    accounts
}

fn encoded(accounts: &Accounts) -> Vec<u8> {
    let mut bytes = Vec::new();
    accounts.encode(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Accounts, Malformed> {
    let mut reader = Reader::new(bytes);
    let accounts = Accounts::decode(&mut reader)?;
    reader.finish().map(|()| accounts)
}

#[test]
fn accounts_are_found_by_name_client_id_and_key_id() {
    let accounts = accounts([0, 1, 2, 3, 4]);
    let group = |account: Option<&Account>| account.map(|account| account.group);
    assert_eq!(group(accounts.get(Protocol::Razor, b"alice")), Some(1));
    assert_eq!(group(accounts.get(Protocol::Pyzor, b"alice")), Some(2));
    assert_eq!(group(accounts.get(Protocol::Dcc, b"32768")), Some(3));
    assert_eq!(
        accounts.key_id(&[1; 8]).map(|(name, account)| (name, account.group)),
        Some((&b"mx.example.org"[..], 4))
    );
    assert_eq!(group(accounts.get(Protocol::Pyzor, b"bob")), None);
    assert_eq!(group(accounts.get(Protocol::Dcc, b"32769")), None);
    assert_eq!(accounts.key_id(&[2; 8]), None);
}

#[test]
fn names_and_keys_are_taken_once() {
    let mut accounts = accounts([0, 1, 2, 3, 4]);
    let before = accounts.clone();
    let again = accounts.register(b"alice", razor(b"alice"), 9, ACCOUNT, NOW);
    assert_eq!(again, Err(RegisterError::NameTaken));
    let same_id = accounts.register(b"other", fuzzy(1, 2), 9, ACCOUNT, NOW);
    assert_eq!(same_id, Err(RegisterError::KeyTaken));
    let bad = accounts.register(b"not one", razor(b"alice"), 9, ACCOUNT, NOW);
    assert_eq!(bad, Err(RegisterError::Name(NameError::Character)));
    assert_eq!(accounts, before);
}

#[test]
fn a_removed_account_leaves_nothing() {
    let mut changed = accounts([0, 1, 2, 3, 4]);
    for (protocol, name) in [(Protocol::Fuzzy, &b"mx.example.org"[..]), (Protocol::Razor, b"bob")] {
        changed.remove(protocol, name).unwrap();
        assert_eq!(changed.remove(protocol, name), Err(ChangeError::Unknown));
    }
    changed.register(b"mx.example.org", fuzzy(1, 1), 4, ACCOUNT, NOW).unwrap();
    changed.register(b"bob", razor(b"bob"), 0, ACCOUNT, NOW).unwrap();
    assert_eq!(changed, accounts([0, 1, 2, 3, 4]));
}

#[test]
fn a_disabled_account_keeps_its_name_and_can_return() {
    let mut accounts = accounts([0, 1, 2, 3, 4]);
    accounts.disable(Protocol::Razor, b"bob").unwrap();
    assert!(!accounts.get(Protocol::Razor, b"bob").unwrap().enabled);
    assert_eq!(accounts.register(b"bob", razor(b"bob"), 0, ACCOUNT, NOW), Err(RegisterError::NameTaken));
    accounts.enable(Protocol::Razor, b"bob").unwrap();
    assert!(accounts.get(Protocol::Razor, b"bob").unwrap().enabled);
    assert_eq!(accounts.disable(Protocol::Dcc, b"bob"), Err(ChangeError::Unknown));
}

#[test]
fn rotation_replaces_the_credential_and_nothing_else() {
    let mut accounts = accounts([0, 1, 2, 3, 4]);
    accounts.rotate(b"32768", dcc(None)).unwrap();
    let account = accounts.get(Protocol::Dcc, b"32768").unwrap();
    assert_eq!((account.credential, account.group), (dcc(None), 3));
    assert_eq!(accounts.rotate(b"nobody", razor(b"nobody")), Err(ChangeError::Unknown));
    accounts.register(b"second", fuzzy(2, 2), 5, ACCOUNT, NOW).unwrap();
    assert_eq!(accounts.rotate(b"second", fuzzy(1, 9)), Err(ChangeError::KeyTaken));
    accounts.rotate(b"second", fuzzy(2, 9)).unwrap();
    accounts.rotate(b"second", fuzzy(3, 3)).unwrap();
    assert_eq!(accounts.key_id(&[2; 8]), None);
    assert_eq!(accounts.key_id(&[3; 8]).unwrap().0, b"second");
}

#[test]
fn the_table_ends_at_its_bound() {
    let mut accounts = Accounts::new();
    let credential = razor(b"any");
    for at in 0..ACCOUNTS_MAX {
        accounts.register(format!("user{at}").as_bytes(), credential, 0, ACCOUNT, NOW).unwrap();
    }
    assert_eq!(accounts.register(b"alice", credential, 0, ACCOUNT, NOW), Err(RegisterError::Full));
    assert!(accounts.bytes() < 32 << 20, "{}", accounts.bytes());
    assert_eq!(decoded(&encoded(&accounts)).as_ref(), Ok(&accounts));
    let mut one_more = encoded(&accounts);
    one_more[..4].copy_from_slice(&(ACCOUNTS_MAX as u32 + 1).to_le_bytes());
    let value = ACCOUNTS_MAX as u64 + 1;
    assert_eq!(decoded(&one_more), Err(Malformed::OutOfRange { what: "the number of accounts", value }));
}

#[test]
fn equal_tables_have_equal_bytes() {
    let mut other = accounts([4, 2, 0, 3, 1]);
    other.disable(Protocol::Razor, b"bob").unwrap();
    other.enable(Protocol::Razor, b"bob").unwrap();
    let bytes = encoded(&accounts([0, 1, 2, 3, 4]));
    assert_eq!(encoded(&other), bytes);
    assert_eq!(decoded(&bytes), Ok(other));
}

#[test]
fn damaged_bytes_are_refused_or_decode_to_another_value() {
    let bytes = encoded(&accounts([0, 1, 2, 3, 4]));
    for length in 0..bytes.len() {
        assert!(decoded(&bytes[..length]).is_err(), "{length}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(other) = decoded(&damaged) {
                assert_eq!(encoded(&other), damaged, "byte {at} bit {bit}");
            }
        }
    }
}

/// Returns the encoding of one account.
fn one(name: &[u8], credential: Credential) -> Vec<u8> {
    let mut accounts = Accounts::new();
    accounts.register(name, credential, 0, ACCOUNT, NOW).unwrap();
    encoded(&accounts)[4..].to_vec()
}

#[test]
fn accounts_out_of_order_are_refused() {
    let (alice, bob) = (one(b"alice", razor(b"alice")), one(b"bob", razor(b"bob")));
    let both = |first: &[u8], second: &[u8]| [&2_u32.to_le_bytes()[..], first, second].concat();
    assert_eq!(decoded(&both(&alice, &bob)).map(|accounts| accounts.len()), Ok(2));
    for (first, second) in [(&alice, &alice), (&bob, &alice)] {
        let refused = Malformed::OutOfRange { what: "the position of an account", value: 1 };
        assert_eq!(decoded(&both(first, second)), Err(refused));
    }
}

#[test]
fn a_password_with_bytes_in_its_padding_is_refused() {
    let mut bytes = [&1_u32.to_le_bytes()[..], &one(b"32768", dcc(None))].concat();
    let at = bytes.windows(13).position(|window| window == b"tin-whistle-7").unwrap();
    bytes[at + 20] = b'x';
    assert_eq!(decoded(&bytes), Err(Malformed::OutOfRange { what: "a DCC password", value: 13 }));
}

#[test]
fn refused_secrets_have_specific_errors() {
    let refused = |name: &[u8], secret| Credential::new(name, &secret).unwrap_err();
    let too_long = refused(b"bob", Secret::Razor { password: &[b'x'; razor::PASSWORD_BYTES_MAX + 1] });
    assert_eq!(too_long.to_string(), "the password is longer than the 64 bytes that razor allows");
    let too_long = refused(b"32768", Secret::Dcc { current: &[b'x'; dcc::PASSWORD_BYTES_MAX + 1], next: None });
    assert_eq!(too_long.to_string(), "the password is longer than the 32 bytes that dcc allows");
    let blank = refused(b"32768", Secret::Dcc { current: b"tin whistle 7", next: None });
    assert_eq!(blank, CredentialError::Blank);
    let weak_next = refused(b"32768", Secret::Dcc { current: b"tin-whistle-7", next: Some(b"letmein1") });
    assert_eq!(weak_next, CredentialError::Weak(WeakPassword::Common));
    let name = refused(b"Tin.Whistle", Secret::Razor { password: b"tin.whistle" });
    assert_eq!(name, CredentialError::IsName);
    let number = refused(b"alice", Secret::Dcc { current: b"tin-whistle-7", next: None });
    assert_eq!(number, CredentialError::Name(NameError::NotAClientId));
    assert_eq!(refused(b"alice", Secret::Pyzor { key: b"salt" }), CredentialError::NotAKey);
}

#[test]
fn passwords_of_maximum_length_are_accepted() {
    let long = *b"a long password, but not longer than the one block SHA-1 takes!!";
    assert_eq!(long.len(), razor::PASSWORD_BYTES_MAX);
    assert!(Credential::new(b"bob", &Secret::Razor { password: &long }).is_ok());
    let long = *b"a-long-password-of-32-characters";
    assert_eq!(long.len(), dcc::PASSWORD_BYTES_MAX);
    assert!(Credential::new(b"32768", &Secret::Dcc { current: &long, next: None }).is_ok());
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!("{:?} {:?} {:?}", razor(b"bob"), pyzor(b"alice"), dcc(Some(b"tin-whistle-8")));
    assert_eq!(
        printed,
        "Razor(RazorVerifier) Pyzor(PyzorVerifier) Dcc(DccVerifier { current: DccPassword, next: Some(DccPassword) })"
    );
    let Credential::Fuzzy(key) = fuzzy(1, 1) else { unreachable!() };
    assert!(key.flags.contains(11) && !key.flags.contains(2) && key.flags != Flags::ALL);
}
