//! Tests of Pyzor's digest: known answers of the original client, bounds, and arbitrary bytes.

use std::fs;
use std::path::PathBuf;
use std::thread;

use bruit_signatures::pyzor::{Digest, NESTING_MAX, Version, digest, predigest};
use proptest::prelude::*;

const VERSIONS: [Version; 2] = [Version::V1_0, Version::V1_1];
/// Size of hostile messages. An algorithm that takes more than linear time would need hours for this size.
const HOSTILE_BYTES: usize = 4 << 20;

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pyzor").join(name)
}

#[test]
fn known_answers() {
    let expected = fs::read_to_string(testdata("expected.txt")).unwrap();
    assert_eq!(expected.lines().count(), 5);
    for line in expected.lines() {
        let (answer, file) = line.split_once("  ").unwrap();
        let message = fs::read(testdata(file)).unwrap();
        let lines = fs::read_to_string(testdata(file).with_extension("predigest")).unwrap();
        for version in VERSIONS {
            assert_eq!(digest(&message, version).to_string(), answer, "{file}");
            assert_eq!(predigest(&message, version), lines.lines().collect::<Vec<_>>(), "{file}");
        }
    }
}

#[test]
fn messages_without_a_usable_line_have_one_digest() {
    for message in ["", "\n", "Subject: a\n\nshort\n", "Content-Type: text/html\n\n<p class='a long line of words"] {
        assert_eq!(digest(message.as_bytes(), Version::V1_0), Digest::EMPTY, "{message}");
    }
    assert_eq!(Digest::EMPTY.to_string(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

#[test]
fn versions_differ_in_nul_only() {
    let message = b"\n1234\x005678 and more words\n";
    assert_eq!(predigest(message, Version::V1_0), ["1234\x005678andmorewords"]);
    assert_eq!(predigest(message, Version::V1_1), ["12345678andmorewords"]);
}

/// A part nested deeper than the limit is one leaf, so its header counts as text. Up to the limit, the header does not
/// count as text.
#[test]
fn parts_are_found_up_to_the_bound_of_nesting() {
    let nested = |depth: usize| {
        let mut message = String::new();
        for level in 0..depth {
            message.push_str(&format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n"));
        }
        message + "Subject: not a line\n\nthe body of it all\n"
    };
    let lines = move |depth| predigest(nested(depth).as_bytes(), Version::V1_0);
    let with_little_stack = thread::Builder::new().stack_size(256 << 10).spawn(move || {
        assert_eq!(lines(NESTING_MAX), ["thebodyofitall"]);
        assert_eq!(lines(NESTING_MAX + 1), ["Subject:notaline", "thebodyofitall"]);
    });
    with_little_stack.unwrap().join().unwrap();
}

/// Returns a message with a header and a repetitive body. The body ends in `;`, so that no character reference is left
/// unfinished.
fn hostile(header: &str, pattern: &str) -> Vec<u8> {
    let body = pattern.bytes().cycle().take(HOSTILE_BYTES);
    header.bytes().chain(*b"\n\n").chain(body).chain(*b"; \n").collect()
}

/// No message takes more than linear time. A naive implementation would take quadratic time or more for each of these.
#[test]
fn hostile_messages_take_linear_time() {
    let html = [
        "<",
        "<a ",
        "<a b=\"",
        "<a b= '",
        "<a b==",
        "</",
        "</a",
        "<!--",
        "<!-- --",
        "<!-- -",
        "<![",
        "<![if ]",
        "<![cdata[] ",
        "<script>",
        "<script></",
        "<style></style",
        "<?",
        "<!",
        "&",
        "&#",
        "&#1",
        "&a",
        "&abcdefghijklmnopqrstuvwxyzabcdef",
        "&nbsp",
        "&nbsp;",
        "<\0",
        "<a\0",
        "<a/",
        "<a b='c'",
        "\u{a0}",
        "<b> ",
    ];
    for pattern in html {
        digest(&hostile("Content-Type: text/html; charset=utf-8", pattern), Version::V1_0);
    }
    let multipart = "Content-Type: multipart/mixed; boundary=b";
    let nested = "Content-Type: multipart/mixed; boundary=b\n\n--b\n";
    for (header, pattern) in [
        (multipart, "--b\n"),
        (multipart, "--b\n\n"),
        (multipart, "--b\n\n\n--b--\n"),
        (multipart, nested),
        (nested, nested),
        ("Subject: a", "Content-Type: message/rfc822\n\n"),
        ("Content-Type: message/rfc822", "Content-Type: message/rfc822\n\n"),
        ("Content-Type: message/delivery-status", "\n"),
        ("Content-Type: message/delivery-status", "a: b\n\n"),
        ("Content-Type: message/delivery-status", "Content-Type: message/delivery-status\n\n"),
        ("Content-Transfer-Encoding: base64", "===="),
        ("Content-Transfer-Encoding: quoted-printable", "=\r"),
        ("Content-Transfer-Encoding: uuencode", "begin 644 a\n"),
        ("Content-Type: text/plain; charset=gb18030", "\u{81}"),
        ("Content-Type: text/plain; charset=iso-2022-jp", "\x1b("),
        ("Content-Type: text/plain; charset=utf-7", "+"),
        ("Subject: a", "a@"),
        ("Subject: a", "a:"),
        ("Subject: a", "\r"),
    ] {
        digest(&hostile(header, pattern), Version::V1_1);
    }
    for pattern in ["; a=\"", "; charset*0=a", ";", "\n boundary=a;"] {
        let header = pattern.repeat(HOSTILE_BYTES / pattern.len());
        digest(format!("Content-Type: multipart/mixed{header}\n\nbody\n").as_bytes(), Version::V1_0);
    }
}

/// Generates fragments of messages, each of which triggers some part of the code.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"Content-Type: ",
        b"text/html",
        b"multipart/mixed; boundary=b",
        b"message/rfc822",
        b"message/delivery-status",
        b"text/plain; charset=",
        b"gb18030",
        b"utf-16",
        b"utf-7",
        b"iso-2022-jp",
        b"euc-jp",
        b"hz",
        b"charset*0*=''%75",
        b"Content-Transfer-Encoding: ",
        b"base64",
        b"quoted-printable",
        b"uuencode",
        b"begin 644 a\n",
        b"#86)C\n",
        b"=\r\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"--b\n",
        b"--b--",
        b"From a\n",
        b"<a b=\"c\">",
        b"<script>",
        b"</script>",
        b"<!--",
        b"-->",
        b"<![if",
        b"]]>",
        b"&amp",
        b"&#1234567;",
        b"&#x",
        b"\x1b$B",
        b"\x1b(J",
        b"~{",
        b"+AO",
        b"\xff\xfe",
        b"\xe2\x80\xa8",
        b"\xc2\xa0",
        b"\0",
        b"some words ",
        b"a@b ",
        b"http://c ",
    ];
    let piece = prop_oneof![3 => prop::sample::select(words).prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..6)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_have_a_digest(message in prop::collection::vec(any::<u8>(), 0..2000)) {
        digest(&message, Version::V1_0);
    }

    #[test]
    fn any_pieces_have_a_digest(message in pieces()) {
        for version in VERSIONS {
            let lines = predigest(&message, version);
            prop_assert!(lines.len() <= 6);
            prop_assert!(lines.iter().all(|line| line.chars().count() >= 8));
            prop_assert_eq!(lines.is_empty(), digest(&message, version) == Digest::EMPTY);
        }
    }

    #[test]
    fn text_without_nul_is_the_same_to_all_versions(text in "[^\0]{0,300}") {
        prop_assert_eq!(digest(text.as_bytes(), Version::V1_0), digest(text.as_bytes(), Version::V1_1));
    }
}
