//! Checksums of whole messages, compared with MD5 hashes of strings that were derived by hand from the rules.
//!
//! The hashes were computed with `printf %s STRING | md5sum`, not with our code.

use std::net::IpAddr;

use bruit_signatures::dcc::{Checksum, Envelope, Kind, sign};
use proptest::collection::vec;
use proptest::prelude::*;

const MESSAGE: &str = "\
Received: from inner.example by outer.example; today
Received: from <First.Example>
\tby inner.example, \"yesterday\".
From: \"Mr. A\" <A@Spam.Example>
Message-ID: <1.2@spam.example>
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

Dear friend,
Buy 100 pills at http://user@shop.pills.example/x/y?z now!
>From here on.
--b
Content-Transfer-Encoding: base64

SXQgaXMgY2hlYXAhCg==
--b--
";

fn hex(sum: [u8; 16]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_message_has_the_sums_of_its_traits() {
    let envelope = Envelope { client: Some(IpAddr::from([192, 0, 2, 1])), sender: Some(b"<Bounce@Spam.Example.>") };
    let sums: Vec<_> =
        sign(MESSAGE.as_bytes(), &envelope).into_iter().map(|Checksum { kind, sum }| (kind, hex(sum))).collect();
    let expected = [
        (Kind::Ip, "3ad457db10541915611a393ede768a63"),
        (Kind::EnvFrom, "96b42f03732f33962f54d7c6ee85a0fb"),
        (Kind::From, "21799fc0935e6314b02f393c8c38ef7d"),
        (Kind::MessageId, "7767410ce2c411afe87b28110dc3bcee"),
        (Kind::Received, "a0e795c558d7910781ebcf69fca27e9b"),
        (Kind::Body, "a6f5a2ae3c1c5cf2a5190ef7cc33afcc"),
        (Kind::Fuz1, "172cfc418f2bd13454cb11da521a8bec"),
    ];
    assert_eq!(sums, expected.map(|(kind, sum)| (kind, sum.to_owned())));
}

#[test]
fn missing_fields_have_no_checksum() {
    assert_eq!(sign(b"", &Envelope::default()), []);
    assert_eq!(sign(b"Subject: x\n\nshort\n", &Envelope::default()), []);
}

#[test]
fn an_address_of_version_6_is_taken_as_it_is() {
    let sum = |address: &str| sign(b"", &Envelope { client: address.parse().ok(), sender: None })[0].sum;
    assert_eq!(sum("::ffff:192.0.2.1"), sum("192.0.2.1"));
    assert_ne!(sum("::192.0.2.1"), sum("192.0.2.1"));
}

#[test]
fn numbers_and_names_are_those_of_the_protocol() {
    let kinds = [Kind::Ip, Kind::EnvFrom, Kind::From, Kind::MessageId, Kind::Received, Kind::Body, Kind::Fuz1];
    assert_eq!(kinds.map(Kind::number), [1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(kinds.map(|kind| kind.to_string()).join(" "), "IP env_From From Message-ID Received Body Fuz1");
}

/// Generates fragments that trigger the rules, so that random messages exercise them.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"\n"[..],
        b"\n\n",
        b"\n--b\n",
        b"\n--b--",
        b"Content-Type: multipart/x; boundary=b\n",
        b"Content-Transfer-Encoding: base64\n\n",
        b"Content-Transfer-Encoding: quoted-printable\n\n",
        b"From:",
        b"\nReceived: ",
        b"http://",
        b"&#x4e9",
        b"b\xc3\xbccher.",
        b"dear",
    ]);
    vec(prop_oneof![known.prop_map(<[u8]>::to_vec), vec(any::<u8>(), 0..20)], 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_signed_without_a_panic(message in fragments()) {
        let checksums = sign(&message, &Envelope { client: None, sender: Some(&message) });
        prop_assert!(checksums.is_sorted_by_key(|checksum| checksum.kind.number()));
    }
}

/// Messages of several megabytes on which a quadratic rule would take hours.
#[test]
fn hostile_messages_take_no_time() {
    for (start, unit) in [
        ("", "From: a\n"),
        ("From: a", "\n b"),
        ("Content-Type: multipart/x; boundary=b\n\n", "\n--b\n"),
        ("Content-Type: multipart/x; boundary=b\n\n", "\n--b"),
        ("Content-Type: multipart/x; boundary=b\n\n", "--b\nContent-Type: multipart/x; boundary=b\n\n"),
        ("Content-Transfer-Encoding: quoted-printable\n\n", "=\n"),
        ("\n", "http://"),
        ("\n", "http://1.2 "),
        ("\nhttp://", "&#"),
        ("\nhttp://", "\u{e9}"),
        ("\nhttp://", "\u{e9}."),
        ("\n", "dear\n"),
    ] {
        let message = [start, &unit.repeat(4_000_000 / unit.len())].concat();
        let _ = sign(message.as_bytes(), &Envelope::default());
    }
}
