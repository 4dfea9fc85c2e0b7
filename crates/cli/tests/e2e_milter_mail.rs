//! The milter signs the bytes that Postfix delivers, and serves many sessions at once.

#![allow(clippy::print_stdout, reason = "a test lists the differences between signatures")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bruit_client::http::Subject;
use bruit_client::{Purpose, Signer};
use common::milter::Milter;
use common::postfix::Postfix;
use common::smtp::Smtp;
use common::testdata;

const STRANGER: &str = "192.0.2.77";

/// Number of SMTP sessions at the same time.
const SESSIONS: usize = 200;

/// Messages without a body. Razor signs their header, to which Postfix adds fields on delivery.
const WITHOUT_BODY: [&str; 5] = [
    "malformed/bare-cr.eml",
    "malformed/empty.eml",
    "malformed/header-cut.eml",
    "malformed/header-only.eml",
    "malformed/newline.eml",
];

/// A server that knows nothing and keeps every request.
struct Recorder {
    address: SocketAddr,
    subjects: Arc<Mutex<Vec<Subject>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subjects = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&subjects);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                thread::spawn(move || while answer(&stream, &kept).is_some() {});
            }
        });
        Self { address, subjects }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Reads a request, keeps its subject, and answers that nothing is known.
fn answer(stream: &TcpStream, kept: &Mutex<Vec<Subject>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let answer = r#"{"verdict":"unknown","reason":"not_reported","confidence":0,"bulk_count":1,"signatures":[]}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    (&mut &*stream).write_all(format!("{head} {}\r\n\r\n{answer}", answer.len()).as_bytes()).ok()
}

/// Returns messages made from the test data: each file as it is, and with other contents added.
fn messages() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in ["malformed", "pyzor", "razor"] {
        for entry in fs::read_dir(testdata(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.extension().is_none_or(|extension| extension != "eml") {
                continue;
            }
            let name = format!("{folder}/{}", entry.file_name().unwrap().to_str().unwrap());
            let bytes = fs::read(&entry).unwrap();
            let added = |text: &[u8]| [&bytes[..], text].concat();
            let before = |text: &[u8]| [text, &bytes[..]].concat();
            found.push((format!("{name} with dots"), added(b"\n.\n..dots at the start of lines\n. \n")));
            found.push((format!("{name} folded"), before(b"X-Folded: one\n two\n\tthree\nX-Empty:\nX-None:x\n")));
            found.push((format!("{name} with raw bytes"), before(b"X-Raw: \xff\xfe caf\xe9\nX-Tab:\tvalue \n")));
            found.push((format!("{name} with words"), added(b"\nMore words at the end of this message: caf\xe9.\n")));
            found.push((name, bytes));
        }
    }
    found.sort();
    found
}

/// Returns the signatures by scheme, in order. The features count as one signature.
fn by_scheme(subject: &Subject) -> BTreeMap<String, Vec<String>> {
    let mut schemes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for named in &subject.signatures {
        schemes.entry(named.scheme.clone()).or_default().push(named.value.clone());
    }
    if let Some(text) = &subject.text {
        schemes.insert("bruit".to_owned(), vec![serde_json::to_string(text).unwrap()]);
    }
    schemes.insert("outline".to_owned(), vec![format!("{:?}", subject.outline)]);
    schemes
}

#[test]
fn the_signatures_are_those_of_the_delivered_messages() {
    let recorder = Recorder::start();
    let mut milter = Milter::start(&recorder.url(), "");
    let postfix = Postfix::start(&milter.address, &["alice"], "");
    let messages = messages();
    assert!(messages.len() >= 300, "{}", messages.len());
    let mut smtp = Smtp::open_as(postfix.address(), STRANGER, None);
    for (number, (name, bytes)) in messages.iter().enumerate() {
        // The field identifies the delivered message. A message without a header gets one by it.
        let marked = [format!("X-Test: {number}.\n").as_bytes(), bytes].concat();
        let reply = smtp.send("sender@mail.example", &["alice@test.example"], &marked);
        assert_eq!(reply.code, 250, "{name}: {reply:?}");
    }
    postfix.wait_for("alice", messages.len());
    let subjects = recorder.subjects.lock().unwrap().clone();
    assert_eq!(subjects.len(), messages.len(), "one request per message: {}", milter.log());
    let mut differences: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for delivered in postfix.mailbox("alice") {
        let text = String::from_utf8_lossy(&delivered.bytes).into_owned();
        let number: usize = text.split("\nX-Test: ").nth(1).unwrap().split('.').next().unwrap().parse().unwrap();
        let signed = by_scheme(&Signer::new(Purpose::Check).subject(&delivered.bytes));
        let sent = by_scheme(&subjects[number]);
        let schemes = signed.keys().chain(sent.keys()).filter(|scheme| signed.get(*scheme) != sent.get(*scheme));
        for scheme in schemes.cloned().collect::<BTreeSet<String>>() {
            differences.entry(scheme).or_default().insert(messages[number].0.clone());
        }
    }
    println!("differences by scheme, of {} messages: {differences:#?}", messages.len());
    let is_known = |name: &str| WITHOUT_BODY.iter().any(|known| name.starts_with(known));
    for (scheme, names) in &differences {
        assert!(scheme.starts_with("razor_") && names.iter().all(|name| is_known(name)), "{scheme}: {names:?}");
    }
    assert_eq!(milter.stop(), Some(0));
}

#[test]
fn many_sessions_at_once_all_deliver() {
    let recorder = Recorder::start();
    let milter = Milter::start(&recorder.url(), "");
    let postfix = Postfix::start(
        &milter.address,
        &["alice"],
        "default_process_limit = 250\nsmtpd_client_connection_count_limit = 0",
    );
    let message = fs::read(testdata("razor/text.eml")).unwrap();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut smtp = Smtp::open_as(postfix.address(), STRANGER, None);
                    smtp.send("sender@mail.example", &["alice@test.example"], &message).code
                })
            })
            .collect();
        let codes: Vec<u16> = sessions.into_iter().map(|session| session.join().unwrap()).collect();
        assert_eq!(codes, vec![250; SESSIONS]);
    });
    postfix.wait_for("alice", SESSIONS);
    let is_checked = |mail: &common::postfix::Delivered| mail.field().starts_with("unknown; ");
    assert!(postfix.mailbox("alice").iter().all(is_checked), "{}\n{}", milter.log(), milter.metrics());
    assert_eq!(milter.count("refused_connections_total"), 0);
}
