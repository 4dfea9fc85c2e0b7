//! Tests of DCC with transcripts of the real programs and with malformed input, and tests of properties that hold for
//! any input.

mod transcript;

use bruit_protocols::dcc::{
    ANONYMOUS, Admin, AdminOperation, Ask, Brand, Count, FRAME_BYTES_MAX, Header, ITEMS_MAX, Item, Kind, Numbers,
    Reply, Request, SIGNATURE_BYTES, TARGETS_MAX, Targets, Totals,
};
use bruit_testing::dcc::{self as client, Answer};
use md5::{Digest, Md5};
use proptest::collection::vec;
use proptest::prelude::*;
use transcript::{Sender, sender, transcripts};

/// Returns the frames of a transcript. A frame consists of hex digits on one or more lines.
fn frames(text: &str) -> Vec<(Sender, Vec<u8>)> {
    let mut digits: Vec<(Sender, String)> = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap()) {
        match sender(line) {
            Some((sender, rest)) => digits.push((sender, rest.to_owned())),
            None if line.trim().is_empty() => {}
            None => digits.last_mut().unwrap().1.push_str(line),
        }
    }
    digits.into_iter().map(|(sender, digits)| (sender, bytes(&digits))).collect()
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let (pairs, []) = digits.as_chunks::<2>() else { panic!("odd number of hex digits") };
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Computes a signature without the code under test.
fn signature(password: &str, frame: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let mut padded = password.as_bytes().to_vec();
    padded.resize(32, 0);
    Md5::digest([&padded[..], frame].concat()).into()
}

/// Returns the password with which the transcript in file `name` was signed, or `None` for an unsigned one.
fn password(name: &str) -> Option<&'static str> {
    match name {
        "anonymous.txt" | "version-8.txt" => None,
        "delete.txt" => Some("srvpass1"),
        _ => Some("clntpass"),
    }
}

fn reencode_request(frame: &[u8], password: Option<&str>) -> Vec<u8> {
    let request = Request::decode(frame).unwrap();
    assert_eq!(request.is_signed(), password.is_some());
    let sign = |frame: &[u8]| password.map_or([0; SIGNATURE_BYTES], |password| signature(password, frame));
    let items: Vec<Item> = match request.ask {
        Ask::Query(items) | Ask::Report { items, .. } => items.iter().collect(),
        _ => Vec::new(),
    };
    let mut out = Vec::new();
    client::encode(&request.header, &with_items(&request.ask, &items), &mut out, sign);
    out
}

/// Converts a decoded request to the form that the client side encodes.
fn with_items<'a>(ask: &Ask<'a>, items: &'a [Item]) -> Ask<'a, &'a [Item]> {
    match *ask {
        Ask::Nop => Ask::Nop,
        Ask::Query(_) => Ask::Query(items),
        Ask::Report { targets, .. } => Ask::Report { targets, items },
        Ask::Delete { clock, item } => Ask::Delete { clock, item },
        Ask::Admin(admin) => Ask::Admin(admin),
    }
}

fn reencode_reply(frame: &[u8], password: Option<&str>) -> Vec<u8> {
    let received = client::decode(frame).unwrap();
    let request = Header { sender: ANONYMOUS, ..received.header };
    let sign = |frame: &[u8]| password.map_or_else(|| request.unauthenticated(frame), |word| signature(word, frame));
    let mut out = Vec::new();
    let mut encode = |reply: Reply<'_>| reply.encode(&request, received.header.sender, &mut out, sign);
    match received.answer {
        Answer::Ok { delay_ms, brand, .. } => {
            encode(Reply::Ok { brand: &Brand::new(str::from_utf8(brand).unwrap()).unwrap(), delay_ms });
        }
        Answer::Totals(totals) => encode(Reply::Answer(&totals.iter().collect::<Vec<_>>())),
        Answer::Error(text) => encode(Reply::Error(str::from_utf8(text).unwrap())),
        Answer::Admin(text) => encode(Reply::Text(str::from_utf8(text).unwrap())),
    }
    out
}

#[test]
fn real_frames_are_written_as_they_were_read() {
    let mut count = 0;
    for (name, text) in transcripts("dcc") {
        for (sender, frame) in frames(&text) {
            let again = match sender {
                Sender::Client => reencode_request(&frame, password(&name)),
                Sender::Server => reencode_reply(&frame, password(&name)),
            };
            assert_eq!(again, frame, "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 17);
}

fn transcript(name: &str) -> Vec<(Sender, Vec<u8>)> {
    let found = transcripts("dcc").into_iter().find(|(file, _)| file == name);
    frames(&found.unwrap_or_else(|| panic!("no transcript {name}")).1)
}

#[test]
fn a_retransmission_has_the_key_of_its_request() {
    let [(_, first), _, (_, second), _] = &transcript("anonymous.txt")[..] else { panic!("four frames") };
    let (first, second) = (Request::decode(first).unwrap(), Request::decode(second).unwrap());
    assert_ne!(first.header.numbers, second.header.numbers);
    assert_eq!(first.duplicate_key(), second.duplicate_key());
    let mut other = first.frame().to_vec();
    other[16] ^= 1;
    assert_ne!(Request::decode(&other).unwrap().duplicate_key(), first.duplicate_key());
}

#[test]
fn the_spam_report_says_so() {
    let (_, frame) = &transcript("spam.txt")[0];
    let Ask::Report { targets, items } = Request::decode(frame).unwrap().ask else { panic!("a report") };
    assert_eq!((targets.count, targets.is_spam, targets.is_second, items.len()), (1, true, false, 9));
    let kinds: Vec<u8> = items.iter().map(|item| item.kind as u8).collect();
    assert_eq!(kinds, [1, 3, 5, 6, 7, 8, 9, 10, 11]);
}

/// Returns an encoded query of three checksums with one modification.
fn altered(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = transcript("anonymous.txt")[0].1.clone();
    frame[3] = 3;
    frame[27] = 0;
    change(&mut frame);
    let length = frame.len() as u16;
    frame[..2].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn malformed_datagrams_are_not_answered() {
    assert!(Request::decode(&altered(|_| {})).is_some());
    let mut wrong_length = altered(|_| {});
    wrong_length[1] += 1;
    assert!(Request::decode(&wrong_length).is_none());
    for (name, frame) in [
        ("version 5", altered(|frame| frame[2] = 5)),
        ("version 13", altered(|frame| frame[2] = 13)),
        ("no sender", altered(|frame| frame[7] = 0)),
        ("the ID of an internal sender", altered(|frame| frame[7] = 99)),
        ("a sender ID that is too high", altered(|frame| frame[4] = 1)),
        ("a greylist query", altered(|frame| frame[3] = 10)),
        ("a reply", altered(|frame| frame[3] = 4)),
        ("no operation", altered(|frame| frame[3] = 0)),
        ("a kind that is too high", altered(|frame| frame[64] = 12)),
        ("a repeated kind", altered(|frame| frame[46] = 7)),
        ("an item of the wrong length", altered(|frame| frame[29] = 17)),
        ("a truncated item", altered(|frame| frame.truncate(90))),
        ("no body", altered(|frame| frame.truncate(40))),
        ("a report with too many recipients", altered(|frame| (frame[3], frame[26], frame[27]) = (2, 0x07, 0xd1))),
        ("a deletion of three checksums", altered(|frame| frame[3] = 8)),
        ("a NOP with a body", altered(|frame| frame[3] = 1)),
    ] {
        assert!(Request::decode(&frame).is_none(), "{name}");
    }
}

#[test]
fn nops_are_read_in_all_versions_to_come() {
    let nop = |version: u8| {
        let mut out = Vec::new();
        let header = Header { version, sender: ANONYMOUS, numbers: [7; 16] };
        client::encode(&header, &Ask::Nop, &mut out, |_| [0; 16]);
        Request::decode(&out).is_some()
    };
    assert!((4..=32).all(nop));
    assert!(![0, 3, 33, 255].into_iter().any(nop));
}

#[test]
fn requests_with_invalid_client_ids_are_ignored() {
    let heard = |sender| {
        let mut out = Vec::new();
        client::encode(&Header { version: 12, sender, numbers: [7; 16] }, &Ask::Nop, &mut out, |_| [0; 16]);
        Request::decode(&out).is_some()
    };
    assert!([1, 100, 32767, 32768, 0x00ff_ffff].into_iter().all(heard));
    assert!(![0, 2, 99, 0x0100_0000, u32::MAX].into_iter().any(heard));
}

#[test]
fn the_longest_frames_are_as_long_as_said() {
    let items: Vec<Item> = Kind::ALL.into_iter().map(|kind| Item { kind, sum: [1; 16] }).collect();
    let header = Header { version: 12, sender: ANONYMOUS, numbers: [7; 16] };
    let mut out = Vec::new();
    client::encode(&header, &Ask::Query(&items), &mut out, |_| [0; 16]);
    assert_eq!((items.len(), out.len()), (ITEMS_MAX, FRAME_BYTES_MAX));
    for (rest, is_read) in [(64, true), (65, false)] {
        let rest = vec![0; rest];
        let admin = Admin { clock: 1, operation: AdminOperation::ClientsById, value: 2, values: [3; 3], rest: &rest };
        out.clear();
        client::encode(&header, &Ask::Admin(admin), &mut out, |_| [0; 16]);
        assert_eq!(Request::decode(&out).is_some(), is_read);
    }
}

fn headers() -> impl Strategy<Value = Header> {
    let sender = prop_oneof![Just(1), 100..0x8000_u32, 0x8000..0x0100_0000_u32];
    (6..=12_u8, sender, any::<Numbers>()).prop_map(|(version, sender, numbers)| Header { version, sender, numbers })
}

/// Generates one item of each kind in a bit mask.
fn items() -> impl Strategy<Value = Vec<Item>> {
    (0..1_u16 << ITEMS_MAX, any::<[u8; 16]>()).prop_map(|(mask, sum)| {
        let chosen = Kind::ALL.into_iter().filter(|kind| mask >> (*kind as u8 - 1) & 1 == 1);
        chosen.map(|kind| Item { kind, sum }).collect()
    })
}

fn targets() -> impl Strategy<Value = Targets> {
    (1..=TARGETS_MAX, any::<bool>(), any::<bool>()).prop_map(|(count, spam, is_second)| Targets {
        count,
        is_spam: spam || is_second,
        is_second,
    })
}

proptest! {
    #[test]
    fn what_a_client_writes_is_read_back(
        header in headers(),
        items in items(),
        targets in targets(),
        words in any::<[u32; 2]>(),
        values in any::<[u8; 3]>(),
        rest in vec(any::<u8>(), 0..=64),
        index in 0..AdminOperation::ALL.len(),
    ) {
        let [clock, value] = words;
        let operation = AdminOperation::ALL[index];
        let item = items.first().copied().unwrap_or(Item { kind: Kind::Body, sum: [0; 16] });
        for ask in [
            Ask::Nop,
            Ask::Query(&items[..]),
            Ask::Report { targets, items: &items },
            Ask::Delete { clock, item },
            Ask::Admin(Admin { clock, operation, value, values, rest: &rest }),
        ] {
            let mut frame = Vec::new();
            client::encode(&header, &ask, &mut frame, |frame| signature("secret", frame));
            let request = Request::decode(&frame).unwrap();
            prop_assert_eq!(request.header, header);
            let read: Vec<Item> = match request.ask {
                Ask::Query(items) | Ask::Report { items, .. } => items.iter().collect(),
                _ => items.clone(),
            };
            prop_assert_eq!(&read, &items);
            prop_assert_eq!(with_items(&request.ask, &items), ask);
        }
    }

    #[test]
    fn what_a_server_writes_is_read_back(
        header in headers(),
        totals in vec(any::<[u32; 2]>(), 0..=ITEMS_MAX),
        text in "[ -~]{0,127}",
        brand in "[!-9;-~]{1,63}",
        delay_ms in any::<u16>(),
    ) {
        let totals = totals.into_iter().map(|[current, previous]| [current, previous].map(Count::from_word));
        let totals: Vec<_> = totals.map(|[current, previous]| Totals { current, previous }).collect();
        let brand = Brand::new(&brand).unwrap();
        for reply in [
            Reply::Ok { brand: &brand, delay_ms },
            Reply::Answer(&totals),
            Reply::Error(&text),
            Reply::Text(&text),
        ] {
            let mut frame = Vec::new();
            reply.encode(&header, 1001, &mut frame, |frame| signature("secret", frame));
            prop_assert_eq!(reencode_reply(&frame, Some("secret")), frame);
        }
    }

    #[test]
    fn any_bytes_are_read_or_dropped(
        bytes in vec(any::<u8>(), 0..300),
        version in 6..=12_u8,
        op in 0..=12_u8,
        kinds in vec(0..=12_u8, 0..14),
    ) {
        let _ = (Request::decode(&bytes), client::decode(&bytes));
        let items = kinds.iter().flat_map(|&kind| [vec![kind, 18], vec![kind; 16]].concat());
        for body in [bytes.clone(), [0, 0, 0, 1].into_iter().chain(items).collect()] {
            let mut frame = vec![0, 0, version, op, 0, 0, 0, 1];
            frame.extend([0; 16]);
            frame.extend(body);
            frame.extend([0; 16]);
            let length = frame.len() as u16;
            frame[..2].copy_from_slice(&length.to_be_bytes());
            let _ = client::decode(&frame);
            if let Some(request) = Request::decode(&frame) {
                prop_assert!(frame.len() <= FRAME_BYTES_MAX);
                prop_assert_eq!(request.duplicate_key().len(), 20);
            }
        }
    }
}
