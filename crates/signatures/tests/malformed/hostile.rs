//! Messages designed to take long to process: megabytes of constructs that open, nest or repeat. Each test must finish,
//! and its results must be bounded.
//!
//! Tests may not read the clock, so a slow scheme shows up as a test that hangs. The test `timings`, which is ignored
//! by default, prints the time of each scheme at four sizes. If a time grows fourfold when the size doubles, that is a
//! bug:
//!
//! ```sh
//! cargo test --release -p bruit-signatures --test malformed -- --ignored --nocapture timings
//! ```

use std::time::Instant;

use bruit_signatures::bruit::{Explanation, PAIR_DISTANCE_MAX};
use bruit_signatures::message::{Message, PARTS_MAX};
use bruit_signatures::reading::{LINKS_MAX, Reading, TEXT_BYTES_MAX};
use bruit_signatures::{Context, Scheme, Wanted, razor, sign};

const MEGABYTE: usize = 1 << 20;

const TEXT: &str = "Subject: x\n\n";
const HTML: &str = "Content-Type: text/html\n\n";
const BASE64: &str = "Content-Transfer-Encoding: base64\n\n";
const QUOTED: &str = "Content-Transfer-Encoding: quoted-printable\n\n";
const MULTIPART: &str = "Content-Type: multipart/mixed; boundary=x\n\n";

/// A prefix, and the text that is repeated after it.
type Pattern = (&'static str, &'static str);

const PAGES: &[Pattern] = &[
    (HTML, "<"),
    (HTML, "<!--"),
    (HTML, "<!-->"),
    (HTML, "<!-- > "),
    (HTML, "&"),
    (HTML, "&#"),
    (HTML, "&#9"),
    (HTML, "&am"),
    (HTML, "</"),
    (HTML, "<a "),
    (HTML, "<![CDATA["),
    ("Content-Type: text/html\n\n<p", " style=color:red"),
    ("Content-Type: text/html\n\n<p", " style"),
    ("Content-Type: text/html\n\n<p style='", "color:red;"),
    ("Content-Type: text/html\n\n<p class='", "a "),
    (HTML, "<p style=color:red>x"),
    (HTML, "<div style=display:none>"),
    (HTML, "<div style=display:none>x"),
    (HTML, "<b hidden>x"),
    (HTML, "<div>"),
    (HTML, "<p>"),
    (HTML, "<br>"),
    (HTML, "<td>"),
    (HTML, "<img>"),
    (HTML, "<li><p>"),
    (HTML, "<blockquote type=cite>"),
    (HTML, "x:<blockquote type=cite>\n</blockquote>"),
    (HTML, "<b></a></i>"),
    (HTML, "<div></a>"),
    (HTML, "<a href=\"http://a.example/b\">"),
    (HTML, "<a href='"),
    (HTML, "<script>"),
    (HTML, "<script></script "),
    (HTML, "<style>"),
    (HTML, "<style></style>"),
    ("Content-Type: text/html\n\n<style>", "a{b:c}"),
    ("Content-Type: text/html\n\n<style>", ".a,"),
    ("Content-Type: text/html\n\n<style>", "{"),
    ("Content-Type: text/html\n\n<style>", "/*"),
    ("Content-Type: text/html\n\n<style>", "<"),
    ("Content-Type: text/html\n\n<style>a{", "b:c;"),
    ("Content-Type: text/html\n\n<style>.a{color:red}</style>", "<p class='a a a a a a a a'>"),
    ("Content-Type: text/html\n\n<style>", "p{x:y}</style><p>x<style>"),
];

const TEXTS: &[Pattern] = &[
    (TEXT, ">"),
    (TEXT, ">\n"),
    (TEXT, "> a quoted line\n"),
    (TEXT, "----------\n"),
    (TEXT, "----------\n\n"),
    (TEXT, "----------\nsubscribe\n"),
    (TEXT, "----------\nsubscribe sponsor\n"),
    (TEXT, "-- \n"),
    (TEXT, "-- \nsubscribe\n"),
    (TEXT, "-- \nword\n"),
    (TEXT, "-- \n\n"),
    (TEXT, "from:\n"),
    (TEXT, "confidential\n"),
    (TEXT, "confidential recipient word\n"),
    (TEXT, "\n"),
    (TEXT, "\r\n"),
    (TEXT, "\r"),
    (TEXT, " "),
    (TEXT, "\t"),
    (TEXT, " \n"),
    (TEXT, "word "),
    (TEXT, "unlike another word of many "),
    (TEXT, "x"),
    (TEXT, "0"),
    (TEXT, "="),
    (TEXT, "-"),
    (TEXT, "."),
    (TEXT, ":"),
    (TEXT, "@"),
    (TEXT, "\0"),
    (TEXT, "a b c d "),
    (TEXT, "a.b.c.d."),
    (TEXT, "a-"),
    (TEXT, "a@b.c "),
    (TEXT, "a@"),
    (TEXT, "http://a.example/b "),
    (TEXT, "http://"),
    (TEXT, "ftp://x"),
    (TEXT, "> ftp://x\n"),
    (TEXT, "://"),
    (TEXT, "www."),
    (TEXT, "http:"),
    (TEXT, "%41"),
    (TEXT, "免"),
    (TEXT, "免费 "),
    (TEXT, "\u{301}"),
    (TEXT, "\u{fdfa}"),
    (TEXT, "ABCD"),
    (TEXT, "ABCD\n"),
    (TEXT, "From \n"),
    (TEXT, "\nFrom x\n"),
    (TEXT, "begin 644 x\n"),
    (TEXT, "begin 644 x\n#0V%T\n`\nend\n"),
    ("Content-Type: text/plain; charset=utf-7\n\n", "+"),
    ("Content-Type: text/plain; charset=utf-7\n\n", "+AGE-"),
    ("Content-Type: text/plain; charset=iso-2022-jp\n\n", "\x1b$B"),
    ("Content-Type: text/plain; charset=utf-16\n\n", "\0a"),
    ("Content-Type: text/plain; charset=gb18030\n\n", "\u{80}0"),
    (BASE64, "ABCD"),
    (BASE64, "ABCD\n"),
    (BASE64, "="),
    (BASE64, "A="),
    (BASE64, "!"),
    (QUOTED, "="),
    (QUOTED, "=\n"),
    (QUOTED, "=41"),
    (QUOTED, "= \n"),
    (QUOTED, " "),
    (QUOTED, " \n"),
];

const PARTS: &[Pattern] = &[
    (MULTIPART, "--x\n"),
    (MULTIPART, "--x"),
    (MULTIPART, "--x "),
    (MULTIPART, "--x--\n"),
    (MULTIPART, "\n--x\n\na"),
    (MULTIPART, "--"),
    (MULTIPART, "-"),
    ("", "Content-Type: multipart/mixed; boundary=x\n\n--x\n"),
    ("", "Content-Type: multipart/alternative; boundary=x\n\n\n--x\n"),
    ("", "Content-Type: multipart/mixed; boundary=x\n\n"),
    ("", "Content-Type: message/rfc822\n\n"),
    ("", "Content-Type: message/rfc822\n"),
    ("", "Content-Type: text/plain; charset=x\n"),
    ("Content-Type: text/plain", "; a=b"),
    ("Content-Type: text/plain", "; charset*0=b"),
    ("Content-Type: text/plain", ";\n a*1*=%41"),
    ("Content-Type: multipart/mixed; boundary=\"", "\\\""),
    ("Content-Type: ", "("),
    ("Content-Type: text/plain; charset=\"", "=?utf-8?q?x?= "),
    ("Content-Disposition: ", "a;"),
    ("", "a: b\n"),
    ("", "a"),
    ("", "a:"),
    ("", "Received: x\n"),
    ("Received: x\n", " \n"),
    ("Received: x\n", " x\n"),
    ("Subject: ", "=?utf-8?b?QQ==?= "),
    ("From: ", "\"<(,"),
    ("", "\n\n"),
];

fn message((head, unit): Pattern, bytes: usize) -> Vec<u8> {
    let mut message = head.as_bytes().to_vec();
    message.extend(unit.bytes().cycle().take(bytes));
    message
}

/// Returns nested multiparts, each with a boundary of its own.
fn nested_multiparts(bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes);
    for level in 0.. {
        message.extend(format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n").bytes());
        if message.len() >= bytes {
            break;
        }
    }
    message
}

/// Returns tags nested in the maximum number of open elements.
fn deep_page(unit: &str, bytes: usize) -> Vec<u8> {
    let head = [HTML, &"<b>".repeat(254)].concat();
    head.bytes().chain(unit.bytes().cycle().take(bytes)).collect()
}

/// Returns words without duplicates.
fn different_words(bytes: usize) -> Vec<u8> {
    let mut message = TEXT.as_bytes().to_vec();
    for number in 0u32.. {
        message.extend(number.to_be_bytes().iter().flat_map(|byte| [b'a' + (byte >> 4), b'a' + (byte & 15)]));
        message.push(b' ');
        if message.len() >= bytes {
            break;
        }
    }
    message
}

/// Returns links without duplicates, in quoted lines and in others.
fn different_links(bytes: usize) -> Vec<u8> {
    let mut message = TEXT.as_bytes().to_vec();
    for number in 0.. {
        message.extend(format!("http://h{number}.example/\n> http://q{number}.example/\n").bytes());
        if message.len() >= bytes {
            break;
        }
    }
    message
}

fn check(message: &[u8], name: &str) {
    let signed = sign(message, &Wanted::ALL, &Context::default());
    let count = |scheme: Scheme| signed.signatures.iter().filter(|signature| signature.scheme() == scheme).count();
    assert!(count(Scheme::Url) <= LINKS_MAX, "{name}");
    assert!(count(Scheme::Attachment) <= PARTS_MAX, "{name}");
    assert!(count(Scheme::RazorE4) <= razor::PARTS_MAX, "{name}");
    let reading = Reading::of(&Message::read(message));
    assert!(reading.text.len() <= TEXT_BYTES_MAX, "{name}");
    assert!(reading.hidden.len() <= 2 * TEXT_BYTES_MAX, "{name}: {}", reading.hidden.len());
    assert!(reading.links.len() <= LINKS_MAX, "{name}");
    let features = signed.features.unwrap();
    // One character may fold to several letters, and every letter of a script without blanks may begin a word.
    assert!(features.pairs.len() <= TEXT_BYTES_MAX * PAIR_DISTANCE_MAX, "{name}: {}", features.pairs.len());
    assert!(features.links.len() <= 2 * LINKS_MAX, "{name}");
    Explanation::of(&reading);
}

fn check_all(patterns: &[Pattern]) {
    for &pattern in patterns {
        check(&message(pattern, 8 * MEGABYTE), &format!("{pattern:?}"));
    }
}

#[test]
fn pages_are_bounded() {
    check_all(PAGES);
    check(&deep_page("<p></p>", 8 * MEGABYTE), "deep page, paragraphs");
    check(&deep_page("</i>", 8 * MEGABYTE), "deep page, stray end tags");
}

#[test]
fn texts_are_bounded() {
    check_all(TEXTS);
    check(&different_words(8 * MEGABYTE), "different words");
    check(&different_links(8 * MEGABYTE), "different links");
}

#[test]
fn parts_and_headers_are_bounded() {
    check_all(PARTS);
    check(&nested_multiparts(8 * MEGABYTE), "nested multiparts");
    check(&b"Content-Type: message/rfc822\n\n".repeat(200_000), "nested messages");
}

#[test]
fn a_line_of_fifty_megabytes_is_processed() {
    check(&message((TEXT, "x"), 50 * MEGABYTE), "one line");
}

#[test]
#[ignore = "prints timings, which people have to judge"]
fn timings() {
    let only = std::env::var("BRUIT_ONLY").unwrap_or_default();
    for &pattern in [PAGES, TEXTS, PARTS].concat().iter() {
        print_timings(&format!("{pattern:?}"), &only, |bytes| message(pattern, bytes));
    }
    print_timings("deep page, paragraphs", &only, |bytes| deep_page("<p></p>", bytes));
    print_timings("deep page, stray end tags", &only, |bytes| deep_page("</i>", bytes));
    print_timings("nested multiparts", &only, nested_multiparts);
    print_timings("different words", &only, different_words);
    print_timings("different links", &only, different_links);
}

#[expect(clippy::print_stdout, reason = "the purpose of the function")]
fn print_timings(name: &str, only: &str, make: impl Fn(usize) -> Vec<u8>) {
    if !name.contains(only) {
        return;
    }
    let messages = [1, 2, 4, 8].map(|megabytes| make(megabytes * MEGABYTE));
    let none = Wanted::NONE;
    let schemes = [
        ("exact", Wanted { exact: true, ..none }),
        ("attachment", Wanted { attachment: true, ..none }),
        ("bruit", Wanted { bruit: true, ..none }),
        ("pyzor", Wanted { pyzor: true, ..none }),
        ("razor", Wanted { razor: true, ..none }),
        ("dcc", Wanted { dcc: true, ..none }),
    ];
    for (scheme, wanted) in schemes {
        let milliseconds = messages.each_ref().map(|message| {
            let start = Instant::now();
            sign(message, &wanted, &Context::default());
            start.elapsed().as_millis()
        });
        println!("{scheme:10} {milliseconds:?} ms  {name}");
    }
}
