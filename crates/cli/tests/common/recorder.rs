//! A server that records the milter's requests. This module also makes the messages to send, and compares their
//! signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bruit_client::http::Subject;
use bruit_client::{Purpose, Signer};

use super::testdata;

/// For each scheme, the names of the messages whose signatures in this scheme differ from those that the milter sent.
pub(crate) type Differences = BTreeMap<String, BTreeSet<String>>;

/// A server that knows nothing and keeps every request.
pub(crate) struct Recorder {
    address: SocketAddr,
    subjects: Arc<Mutex<Vec<Subject>>>,
}

impl Recorder {
    /// Starts the server.
    pub(crate) fn start() -> Self {
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

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the subjects of all requests, in their order.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        self.subjects.lock().unwrap().clone()
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

/// Notes the schemes in which the signatures of `bytes` differ from those that the milter sent.
pub(crate) fn note(differences: &mut Differences, name: &str, bytes: &[u8], sent: &Subject) {
    let (signed, sent) = (by_scheme(&Signer::new(Purpose::Check).subject(bytes)), by_scheme(sent));
    let schemes: BTreeSet<&String> = signed.keys().chain(sent.keys()).collect();
    for scheme in schemes.into_iter().filter(|scheme| signed.get(*scheme) != sent.get(*scheme)) {
        differences.entry(scheme.clone()).or_default().insert(name.to_owned());
    }
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

/// Returns true if MTAs pass on a message unchanged: it has a header of fields and a body, every line ends in LF, and
/// it contains no CR. The signatures of other messages may change on their way. An MTA adds a missing LF at the end,
/// inserts a missing empty line after the header, and may change a bare CR. Fields that it adds matter if the message
/// has no body, because Razor then signs the header.
pub(crate) fn is_plain(message: &[u8]) -> bool {
    let Some(end) = message.windows(2).position(|pair| pair == b"\n\n") else { return false };
    let (header, body) = message.split_at(end + 2);
    let is_field = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.len() < line.len() && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
    };
    let mut lines = header[..end].split(|byte| *byte == b'\n');
    lines.next().is_some_and(is_field)
        && lines.all(|line| line.starts_with(b" ") || line.starts_with(b"\t") || is_field(line))
        && !body.trim_ascii().is_empty()
        && body.ends_with(b"\n")
        && !message.contains(&b'\r')
}

/// Asserts that plain messages have no differences, and prints the differences of all others.
#[track_caller]
#[allow(clippy::print_stdout, reason = "lists the differences between signatures")]
pub(crate) fn expect_plain_to_agree(what: &str, differences: &Differences, messages: &[(String, Vec<u8>)]) {
    let plain: BTreeSet<&String> = messages.iter().filter(|(_, bytes)| is_plain(bytes)).map(|(name, _)| name).collect();
    println!("{what}: {} messages, {} of them plain; differences {differences:#?}", messages.len(), plain.len());
    for (scheme, names) in differences {
        let wrong: Vec<&String> = names.iter().filter(|name| plain.contains(name)).collect();
        assert!(wrong.is_empty(), "{what}, {scheme}: {wrong:?}");
    }
}

/// Returns messages made from the test data: each file as it is, and four copies with text or header fields added.
pub(crate) fn messages() -> Vec<(String, Vec<u8>)> {
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
