//! `bruit milter` with scripted MTAs: one that speaks like Sendmail, and hostile ones.

mod common;

use std::io::Read as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use bruit_testing::milter::{self as wire, Answer, Mta};
use common::milter::{Milter, deliver};
use common::{Folder, Server};
use nix::sys::signal::Signal;

/// The address of a client that the site does not know.
const STRANGER: &str = "192.0.2.77";

/// The protocol step that keeps leading spaces. Older versions of Sendmail do not offer this step.
const LEADING_SPACE: u32 = 0x10_0000;

const MESSAGE: &[u8] =
    b"From: a@mail.example\nSubject: folded\n\tsubject\nX-Bruit: ham\n\nGenuine watches at wholesale \
    prices, delivered within seven days to your own door.\n";

fn connect(milter: &Milter) -> TcpStream {
    let stream = TcpStream::connect(milter.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn insert(value: &str) -> Answer {
    Answer::InsertHeader(0, "X-Bruit".into(), value.into())
}

/// A session as Sendmail 8.17 conducts it: the queue ID comes with the sender, and Sendmail waits only for replies that
/// are due.
fn session_of_sendmail(milter: &Milter, steps: u32) -> Vec<Answer> {
    let mut mta = Mta::offer(connect(milter), 6, wire::ACTIONS_OFFERED, steps).unwrap();
    let mut out = Vec::new();
    wire::write_macros(&mut out, b'C', &[("j", "mx.test.example"), ("{daemon_name}", "MTA"), ("v", "8.17.1.9")]);
    wire::write_command(
        &mut out,
        b'C',
        &[b"[IPv6:2001:db8::77]\0", b"6", &25_u16.to_be_bytes(), b"IPv6:2001:db8::77\0"],
    );
    mta.send(&out).unwrap();
    assert_eq!(mta.answers().unwrap(), [Answer::Continue]);
    let mut out = Vec::new();
    wire::write_macros(&mut out, b'M', &[("i", "5AJA0Xyz012345"), ("{mail_mailer}", "esmtp"), ("{mail_addr}", "a@b")]);
    wire::write_strings(&mut out, b'M', &[b"<a@mail.example>", b"SIZE=120"]);
    wire::write_macros(&mut out, b'R', &[("{rcpt_mailer}", "local"), ("{rcpt_addr}", "alice")]);
    wire::write_strings(&mut out, b'R', &[b"<alice@test.example>"]);
    mta.send(&out).unwrap();
    let mut out = Vec::new();
    if steps & LEADING_SPACE == 0 {
        for (name, value) in [("From", "a@mail.example"), ("Subject", "folded\n\tsubject"), ("X-Bruit", "ham")] {
            wire::write_strings(&mut out, b'L', &[name.as_bytes(), value.as_bytes()]);
        }
        wire::write_command(&mut out, b'B', &[b"text\r\n"]);
    } else {
        wire::write_message(&mut out, MESSAGE, 65_535);
    }
    wire::write_macros(&mut out, b'E', &[("i", "5AJA0Xyz012345")]);
    wire::write_command(&mut out, b'E', &[]);
    mta.send(&out).unwrap();
    let answers = mta.answers().unwrap();
    mta.send(&{
        let mut out = Vec::new();
        wire::write_command(&mut out, b'A', &[]);
        wire::write_command(&mut out, b'Q', &[]);
        out
    })
    .unwrap();
    assert_eq!(mta.answer().unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    answers
}

#[test]
fn sendmail_gets_the_answers_that_it_expects() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let milter = Milter::start(&server.url(), "");
    let value = "unknown; confidence=0; reason=not_reported";
    let removed = Answer::ChangeHeader(1, "X-Bruit".into(), String::new());
    let with_space = session_of_sendmail(&milter, wire::STEPS_OFFERED);
    assert_eq!(with_space, [removed.clone(), insert(&format!(" {value}")), Answer::Accept]);
    // If the step is not negotiated, Sendmail adds the space itself.
    let without = session_of_sendmail(&milter, wire::STEPS_OFFERED & !LEADING_SPACE);
    assert_eq!(without, [removed, insert(value), Answer::Accept]);
}

/// Regression test: the threshold set for one recipient replaced the server's threshold for all mail.
#[test]
fn a_recipients_threshold_for_bulk_mail_concerns_nobody_else() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nbulk_threshold = 5\n");
    folder.write("rules", "few@test.example bulk_recipients=3\n");
    let rules = folder.path("rules");
    let more = format!("[bulk]\naction = \"reject\"\n[recipients]\nfile = {rules:?}\n");
    let milter = Milter::start(&server.url(), &more);
    let answers = |recipients: &[&str]| deliver(milter.socket(), recipients, MESSAGE).unwrap();
    let is_refused = |answers: &[Answer]| matches!(answers, [Answer::Refuse(reply)] if reply.starts_with("550 "));
    assert!(!is_refused(&answers(&["a@test.example", "b@test.example"])), "2 recipients");
    assert!(is_refused(&answers(&["few@test.example"])), "3 recipients");
    assert!(!is_refused(&answers(&["c@test.example"])), "4 recipients");
    assert!(is_refused(&answers(&["d@test.example"])), "5 recipients: {}", milter.metrics());
}

#[test]
fn slow_and_malformed_mtas_are_cut_off() {
    let limits = "[limits]\ncommand = \"500ms\"\ncontent = \"1s\"\nidle = \"2s\"\n";
    let milter = Milter::start("http://127.0.0.1:1", limits);
    let ends = |bytes: &[u8], keep: &dyn Fn(&mut Mta<TcpStream>) -> bool| {
        let mut mta = Mta::open(connect(&milter)).unwrap();
        mta.send(bytes).unwrap();
        while keep(&mut mta) {
            thread::sleep(Duration::from_millis(20));
        }
        let mut rest = Vec::new();
        let _ = mta.stream().try_clone().unwrap().read_to_end(&mut rest);
    };
    ends(&[0, 0, 0, 9, b'H', b'x'], &|_| false);
    ends(&[0, 0, 1, 0, b'B'], &|mta| mta.send(b"x").is_ok());
    let mut begun = Vec::new();
    wire::write_connection(&mut begun, "mx", STRANGER);
    wire::write_strings(&mut begun, b'M', &[b"<a@b>"]);
    let field = |out: &mut Vec<u8>| wire::write_strings(out, b'L', &[b"X-More", b" x"]);
    // Endless header fields, one after the other.
    ends(&begun, &|mta| {
        let mut out = Vec::new();
        field(&mut out);
        mta.send(&out).is_ok()
    });
    ends(&[], &|_| false);
    milter.wait(|milter| milter.count("cut_off_total{reason=\"idle\"}") == 1);
    milter.wait(|milter| milter.count("cut_off_total{reason=\"slow\"}") == 3);
    for malformed in [&b"\0\0\0\x01Z"[..], b"\xff\xff\xff\xff", b"\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x01E"]
    {
        ends(malformed, &|_| false);
    }
    // A connection is counted after it is closed.
    milter.wait(|milter| milter.count("cut_off_total{reason=\"malformed\"}") == 5);
    let log = milter.log();
    assert!(log.contains("a command was not complete after 500ms"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    milter.wait(|milter| milter.count("connections_open") == 0);
}

#[test]
fn huge_messages_and_endless_recipients_take_bounded_memory() {
    let limits = "[limits]\nmessage = \"4MiB\"\nmemory = \"16MiB\"\n[recipients]\ndisagreement = \"split\"\n\
        split_to = \"q@test.example\"\n";
    let milter = Milter::start("http://127.0.0.1:1", limits);
    let before = milter.resident_bytes();
    let send = |recipients: usize, fields: usize, pieces: usize| {
        let mut mta = Mta::open(connect(&milter)).unwrap();
        let mut out = Vec::new();
        wire::write_connection(&mut out, "mx", STRANGER);
        mta.send(&out).unwrap();
        mta.answers().unwrap();
        let mut out = Vec::new();
        wire::write_strings(&mut out, b'M', &[b"<a@b>"]);
        (0..recipients).for_each(|number| {
            wire::write_strings(&mut out, b'R', &[format!("<r{number}@test.example>").as_bytes()]);
        });
        mta.send(&out).unwrap();
        let mut field = Vec::new();
        wire::write_strings(&mut field, b'L', &[b"X-More", &vec![b'x'; 60_000]]);
        (0..fields).for_each(|_| mta.send(&field).unwrap());
        let mut piece = Vec::new();
        wire::write_command(&mut piece, b'B', &[&vec![b'x'; 65_535]]);
        (0..pieces).for_each(|_| mta.send(&piece).unwrap());
        let mut out = Vec::new();
        wire::write_command(&mut out, b'E', &[]);
        mta.send(&out).unwrap();
        mta.answers().unwrap()
    };
    let unchecked = |reason: &str| vec![insert(&format!(" unchecked; reason={reason}")), Answer::Accept];
    assert_eq!(send(1, 1, 1_000), unchecked("too_long"), "65 MB of body");
    assert_eq!(send(1, 1_000, 1), unchecked("too_long"), "60 MB of header");
    assert_eq!(send(100_000, 1, 1), unchecked("unreachable"));
    thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(|| send(1_000, 50, 40)))));
    let grown = milter.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    milter.wait(|milter| milter.count("message_bytes") == 0);
    assert!(!milter.log().contains("panicked"), "{}", milter.log());
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let milter = Milter::start("http://127.0.0.1:1", "[limits]\nconnections = 3\n");
    let open: Vec<_> = (0..3).map(|_| Mta::open(connect(&milter)).unwrap()).collect();
    assert!(Mta::open(connect(&milter)).is_err());
    milter.wait(|milter| milter.count("refused_connections_total") == 1);
    drop(open);
    milter.wait(|milter| milter.count("connections_open") == 0);
    assert!(Mta::open(connect(&milter)).is_ok());
}

#[test]
fn a_stop_finishes_the_messages_under_way() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut milter = Milter::start(&server.url(), "");
    let idle = Mta::open(connect(&milter)).unwrap();
    let mut busy = Mta::open(connect(&milter)).unwrap();
    let mut out = Vec::new();
    wire::write_connection(&mut out, "mx", STRANGER);
    busy.send(&out).unwrap();
    busy.answers().unwrap();
    let mut out = Vec::new();
    wire::write_strings(&mut out, b'M', &[b"<a@mail.example>"]);
    wire::write_strings(&mut out, b'R', &[b"<alice@test.example>"]);
    wire::write_message(&mut out, MESSAGE, 65_535);
    busy.send(&out).unwrap();
    // Wait until the milter is receiving the message.
    milter.wait(|milter| milter.count("message_bytes") > 0);
    milter.signal(Signal::SIGTERM);
    let end = idle.stream().try_clone().unwrap().read(&mut [0]).unwrap();
    assert_eq!(end, 0, "idle connections are closed");
    let mut out = Vec::new();
    wire::write_command(&mut out, b'E', &[]);
    busy.send(&out).unwrap();
    assert_eq!(busy.answers().unwrap().last(), Some(&Answer::Accept));
    assert_eq!(milter.stop(), Some(0));
}
