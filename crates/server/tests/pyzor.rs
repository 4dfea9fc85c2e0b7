//! Tests of Pyzor over the network, and of the behaviour common to all UDP protocols.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::{Asker, Running};

const DIGEST: &str = "eb2a0e84c910ecae205eba635c8e442e85f5ee9a";

fn request(op: &str, thread: u16) -> Vec<u8> {
    request_of(op, thread, DIGEST)
}

fn request_of(op: &str, thread: u16, digest: &str) -> Vec<u8> {
    format!("Op: {op}\nOp-Digest: {digest}\nThread: {thread}\nPV: 2.1\nUser: anonymous\nTime: 1794725694\nSig: 0\n\n")
        .into_bytes()
}

/// Returns the value of a header line.
fn value(reply: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8(reply.to_vec()).expect("a text");
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
}

fn counts(reply: &[u8]) -> (String, String) {
    (value(reply, "Count").expect("a count"), value(reply, "WL-Count").expect("a count"))
}

fn check(asker: &Asker) -> (String, String) {
    counts(&asker.ask(&request("check", 9_999)))
}

fn pair(reports: &str, revocations: &str) -> (String, String) {
    (reports.to_owned(), revocations.to_owned())
}

fn is_thread(reply: &[u8], thread: u16) -> bool {
    value(reply, "Thread") == Some(thread.to_string())
}

#[test]
fn what_an_own_user_reports_is_known_at_once_and_what_he_whitelists_is_not_spam() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    assert_eq!(check(&asker), pair("0", "0"));
    assert_eq!(value(&asker.ask(&request("report", 2_000)), "Code"), Some("200".into()));
    assert_eq!(check(&asker), pair("5", "0"));
    assert_eq!(value(&asker.ask(&request("info", 2_001)), "Count"), Some("1".into()));
    assert_eq!(value(&asker.ask(&request("whitelist", 2_002)), "Code"), Some("200".into()));
    assert_eq!(check(&asker), pair("1", "1"));
}

#[test]
fn the_count_of_what_is_listed_is_a_setting() {
    let running = Running::start("[pyzor]\nlisted_count = 1");
    let asker = Asker::of(running.address("pyzor"));
    asker.ask(&request("report", 2_000));
    assert_eq!(check(&asker), pair("1", "0"));
}

#[test]
fn a_copy_of_a_report_counts_once_and_is_answered_again() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    for _ in 0..5 {
        let reply = asker.ask(&request("report", 2_000));
        assert!(is_thread(&reply, 2_000) && value(&reply, "Code") == Some("200".into()));
    }
    assert_eq!(value(&asker.ask(&request("info", 2_001)), "Count"), Some("1".into()));
    asker.ask(&request("report", 2_002));
    assert_eq!(value(&asker.ask(&request("info", 2_003)), "Count"), Some("2".into()));
}

#[test]
fn what_strangers_report_has_no_weight() {
    let running = Running::start("own_networks = []");
    let asker = Asker::of(running.address("pyzor"));
    for thread in 2_000..2_010 {
        assert_eq!(value(&asker.ask(&request("report", thread)), "Code"), Some("200".into()));
    }
    assert_eq!(check(&asker), pair("0", "0"));
    assert_eq!(value(&asker.ask(&request("whitelist", 2_011)), "Code"), Some("403".into()));
}

#[test]
fn rights_are_what_the_configuration_says() {
    let running = Running::start("[pyzor]\nrights = { check = \"nobody\", report = \"nobody\", revoke = \"nobody\" }");
    let asker = Asker::of(running.address("pyzor"));
    for op in ["check", "report", "whitelist", "info", "ping"] {
        assert_eq!(value(&asker.ask(&request(op, 2_000)), "Code"), Some("403".into()), "{op}");
    }
}

#[test]
fn a_signature_is_verified_and_an_accounts_word_is_weighed() {
    let account = |standing: &str| {
        format!(
            "own_networks = []\n[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\n\
             key = \"0123456789abcdef0123456789abcdef01234567\"\nstanding = \"{standing}\""
        )
    };
    for (standing, count) in [("account", "0"), ("own", "5")] {
        let running = Running::start(&account(standing));
        let asker = Asker::of(running.address("pyzor"));
        assert_eq!(value(&asker.ask(&signed(2_000, "wrong")), "Code"), Some("401".into()));
        let key = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(value(&asker.ask(&signed(2_001, key)), "Code"), Some("200".into()));
        assert_eq!(check(&asker).0, count, "{standing}");
    }
}

#[test]
fn a_signed_report_that_was_overheard_is_not_taken_from_elsewhere() {
    let running = Running::start(
        "threads = 3\nown_networks = []\n[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\n\
         key = \"0123456789abcdef0123456789abcdef01234567\"\nstanding = \"own\"",
    );
    let address = running.address("pyzor");
    let overheard = signed(2_001, "0123456789abcdef0123456789abcdef01234567");
    let alice = Asker::of(address);
    alice.ask(&overheard);
    assert!(is_thread(&alice.ask(&overheard), 2_001), "her own copy is answered");
    for _ in 0..8 {
        let other = Asker::of(address);
        assert!(other.gets_nothing(&overheard, &request("check", 2_002), |reply| is_thread(reply, 2_002)));
    }
    assert_eq!(value(&alice.ask(&request("info", 2_003)), "Count"), Some("1".into()));
}

#[test]
fn a_digest_that_is_named_often_counts_once() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    let digests = format!("Op-Digest: {DIGEST}\n").repeat(100);
    asker.ask(format!("Op: report\n{digests}Thread: 2000\nPV: 2.1\n\n").as_bytes());
    assert_eq!(value(&asker.ask(&request("info", 2_001)), "Count"), Some("1".into()));
}

#[test]
fn an_account_changes_as_the_file_says() {
    let with = |key: &str| {
        format!(
            "own_networks = []\n[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\nkey = \"{key}\"\nstanding = \"own\""
        )
    };
    let (old, new) = ("0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef");
    let running = Running::start(&with(old));
    let asker = Asker::of(running.address("pyzor"));
    let code = |thread, key| value(&asker.ask(&signed(thread, key)), "Code").expect("a code");
    assert_eq!((code(2_001, old), code(2_002, new)), ("200".into(), "401".into()));
    running.server.reload(&common::config(&with(new))).expect("settings");
    assert_eq!((code(2_003, old), code(2_004, new)), ("401".into(), "200".into()));
}

/// Returns a report by alice, signed with a key.
fn signed(thread: u16, key: &str) -> Vec<u8> {
    use sha1::{Digest, Sha1};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    let text = format!("Op: report\nOp-Digest: {DIGEST}\nThread: {thread}\nPV: 2.1\nUser: alice\nTime: {now}");
    let of_key = hex(&Sha1::digest(format!("alice:{key}")));
    let whole = [&Sha1::digest(&text)[..], format!(":{now}:{of_key}").as_bytes()].concat();
    format!("{text}\nSig: {}\n\n", hex(&Sha1::digest(whole))).into_bytes()
}

#[test]
fn a_network_that_asks_too_much_gets_no_more_replies() {
    let running = Running::start("own_networks = []\n[limits]\nrequests = { per_second = 0.001, burst = 3 }");
    let asker = Asker::of(running.address("pyzor"));
    for thread in 2_000..2_020 {
        asker.send(&request("check", thread));
    }
    let replies: Vec<_> = (0..3).map(|_| asker.receive()).collect();
    assert!(replies.iter().zip(2_000..).all(|(reply, thread)| is_thread(reply, thread)));
    // Own users are not limited, no matter what strangers send.
    running.server.reload(&common::config("[limits]\nrequests = { per_second = 0.001, burst = 3 }")).expect("settings");
    for thread in 3_000..3_020 {
        assert!(is_thread(&asker.ask(&request("check", thread)), thread));
    }
}

#[test]
fn strangers_get_few_replies_that_are_longer_than_what_they_sent() {
    let running = Running::start("own_networks = []\n[limits]\nlonger_replies = { per_second = 0.001, burst = 1 }");
    let asker = Asker::of(running.address("pyzor"));
    assert_eq!(value(&asker.ask(b"Op: x\n\n"), "Code"), Some("400".into()));
    let probe = request("check", 2_000);
    assert!(asker.gets_nothing(b"Op: x\n\n", &probe, |reply| is_thread(reply, 2_000)));
}

#[test]
fn garbage_gets_no_reply_and_does_no_harm() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    let probe = request("check", 2_000);
    let long = [&b"X: ".repeat(20_000)[..], b"\n\n"].concat();
    for garbage in [&b""[..], b"\n", b"\0\0\0\0", &[0xff; 9_000], &long] {
        assert!(asker.gets_nothing(garbage, &probe, |reply| is_thread(reply, 2_000)));
    }
}

#[test]
fn a_reply_comes_from_the_address_that_was_asked() {
    let running = Running::start("[pyzor]\nlisten = \"0.0.0.0:0\"");
    let port = running.address("pyzor").port();
    for address in [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 7)] {
        // A connected socket receives datagrams only from the connected address.
        let asker = Asker::of(SocketAddr::from((address, port)));
        assert!(is_thread(&asker.ask(&request("check", 2_000)), 2_000));
        assert!(is_thread(&asker.ask(&request("report", 2_001)), 2_001));
    }
}

#[test]
fn many_threads_answer_as_one_does() {
    let running = Running::start("threads = 3");
    let address = running.address("pyzor");
    Asker::of(address).ask(&request("report", 2_000));
    for _ in 0..20 {
        assert_eq!(check(&Asker::of(address)), pair("5", "0"));
    }
}

#[test]
fn what_was_answered_is_there_after_a_restart() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    let digest = |at: u32| format!("{at:040x}");
    for at in 0..100 {
        asker.ask(&request_of("report", 2_000, &digest(at)));
    }
    let running = running.restart();
    let asker = Asker::of(running.address("pyzor"));
    for at in 0..100 {
        assert_eq!(counts(&asker.ask(&request_of("check", 3_000, &digest(at)))), pair("5", "0"), "{at}");
    }
    assert_eq!(counts(&asker.ask(&request_of("check", 3_000, &digest(100)))), pair("0", "0"));
}

#[test]
fn a_batch_of_digests_counts_each() {
    let running = Running::start("");
    let asker = Asker::of(running.address("pyzor"));
    let digests: String = (0..150).map(|at| format!("Op-Digest: {at:040x}\n")).collect();
    let reply = asker.ask(format!("Op: report\nOp-Spec: 20,3,60,3\n{digests}Thread: 2000\nPV: 2.1\n\n").as_bytes());
    assert_eq!(value(&reply, "Code"), Some("200".into()));
    for at in [0, 63, 64, 149] {
        assert_eq!(counts(&asker.ask(&request_of("check", 3_000, &format!("{at:040x}")))), pair("5", "0"), "{at}");
    }
}
