//! Razor signatures of whole messages, compared with the output of the original client.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bruit_signatures::razor::{E4Signature, E8Signature, Ep4, command_line_messages, sign, sign_part};
use proptest::collection::vec;
use proptest::prelude::*;

const MESSAGES: [&str; 5] = ["text", "html", "base64", "multipart", "short"];

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/razor").join(name)
}

/// Returns the output of `razor-check -H` for a file.
fn printed(file: &[u8], ep4: &Ep4) -> String {
    let mut text = String::new();
    for (mail, message) in (1..).zip(command_line_messages(file)) {
        for part in sign(&message, ep4) {
            let name = format!("{mail}.{}", part.index);
            writeln!(text, "{name} e4: {}, ep4: {ep4}", part.signatures.e4).unwrap();
            part.signatures.e8.iter().for_each(|e8| writeln!(text, "{name} e8: {e8}").unwrap());
        }
    }
    text
}

#[test]
fn known_messages_have_their_known_signatures() {
    for name in MESSAGES {
        let message = fs::read(testdata(&format!("{name}.eml"))).unwrap();
        for ep4 in ["7542-10", "9911-10"] {
            let expected = fs::read_to_string(testdata(&format!("{name}.ep4-{ep4}.sigs"))).unwrap();
            assert_eq!(printed(&message, &ep4.parse().unwrap()), expected, "{name} under {ep4}");
        }
    }
}

#[test]
fn a_reported_part_is_signed_like_the_part_of_the_message() {
    for name in MESSAGES {
        let message = fs::read(testdata(&format!("{name}.eml"))).unwrap();
        let parts = bruit_signatures::razor::parts(&message);
        for signed in sign(&message, &Ep4::default()) {
            let part = parts[signed.index as usize].as_bytes();
            assert!(part.starts_with(b"X-Razor2-"));
            assert_eq!(sign_part(part, &Ep4::default()), Some(signed.signatures));
        }
    }
}

/// Generates fragments that trigger the rules, so that random messages exercise them.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"\n"[..],
        b"\n\n",
        b"\r\n\r\n",
        b"\n--b\n",
        b"\n--b--",
        b"Content-Type: multipart/x; boundary=b\n",
        b"Content-Transfer-Encoding: base64\n\n",
        b"Content-Transfer-Encoding: quoted-printable\n\n",
        b"<html>",
        b"<!--",
        b"&#300;",
        b"%4",
        b" www.",
        b"http://",
        b"href=",
        b"@",
        b"=",
    ]);
    vec(prop_oneof![known.prop_map(<[u8]>::to_vec), vec(any::<u8>(), 0..20)], 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_signed_without_a_panic(message in fragments()) {
        for part in sign(&message, &Ep4::default()) {
            prop_assert_eq!(part.signatures.e4.to_string().parse::<E4Signature>(), Ok(part.signatures.e4));
            for e8 in part.signatures.e8 {
                prop_assert_eq!(e8.to_string().parse::<E8Signature>(), Ok(e8));
            }
        }
        let _ = sign_part(&message, &Ep4::default());
    }
}

/// Messages of several megabytes on which a quadratic rule would take hours.
#[test]
fn hostile_messages_take_no_time() {
    let header = "Content-Type: multipart/x; boundary=\"-------------------------------------------x\"\n\n";
    let quoted = "Content-Transfer-Encoding: quoted-printable\n\n";
    let base64 = "Content-Transfer-Encoding: base64\n\n";
    for (start, unit) in [
        ("", "\n\r"),
        ("", "\r"),
        ("", "Content-Type: multipart boundary= "),
        (header, "-"),
        (header, "\n--"),
        ("Content-Type: multipart/x; boundary=b\n\n", "\n--b\n"),
        ("Content-Type: multipart/x; boundary=b\n\n", "\n--b\nContent-Type: multipart/x; boundary=b\n\n"),
        (quoted, "=\n"),
        (quoted, "=4=\n"),
        (base64, "A"),
        (base64, "Content-Transfer-Encoding: base64 "),
        ("\n\n", "<a"),
        ("\n\n", "<!--"),
        ("\n\n", "&lt"),
        ("\n\n", "%"),
        ("\n\n", "&#"),
        ("\n\nhttp://a.com ", "http://a=b@"),
        ("\n\nhref=http://a.com ", " href ="),
        ("\n\nhttp://a.com", " www.a"),
        ("\n\nhttp://a.com", " "),
    ] {
        let message = [start, &unit.repeat(4_000_000 / unit.len())].concat();
        let _ = sign(message.as_bytes(), &Ep4::default());
        let _ = sign_part(message.as_bytes(), &Ep4::default());
    }
}
