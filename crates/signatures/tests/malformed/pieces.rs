//! Headers and bodies assembled at random from fragments that are difficult to parse and decode.

use bruit_signatures::message::Message;
use bruit_signatures::{Context, Wanted, sign};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const FIELD_PIECES: &[&str] = &[
    "text",
    "/",
    "html",
    "plain",
    "multipart",
    "mixed",
    ";",
    " ",
    "\n ",
    "\n\t",
    "\r\n ",
    "\r",
    "=",
    "\"",
    "\\",
    "\\\"",
    "'",
    "''",
    "*",
    "*0",
    "*1",
    "*0*",
    "*1*",
    "*99999999999",
    "%",
    "%4",
    "%41",
    "%C3",
    "%zz",
    "(",
    ")",
    "<",
    ">",
    ",",
    "charset",
    "boundary",
    "name",
    "CHARSET",
    "utf-8",
    "utf-7",
    "utf-16",
    "iso-2022-jp",
    "x",
    "B",
    "ä",
    "\0",
    "=?utf-8?q?a?=",
];

const BODY_PIECES: &[&[u8]] = &[
    b"+",
    b"-",
    b"+-",
    b"+A",
    b"+AGE",
    b"+2AA",
    b"+2D3cqQ-",
    b"\x1b",
    b"\x1b$B",
    b"\x1b(B",
    b"\x1b$)C",
    b"\x0e",
    b"\x0f",
    b"~{",
    b"~}",
    b"~",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\0",
    b"\0a",
    b"a",
    b" ",
    b"\n",
    b"\r",
    b"=",
    b"=4",
    b"=41",
    b"==",
    b"AA",
    b"\x81",
    b"\x81\x30",
    b"\x81\x30\x81\x30",
    b"\xd8\x00",
    b"\xdc\x00",
    b"\xe2\x82",
    b"\xf0\x9f",
    b"<",
    b">",
    b"<p",
    b"&#",
    b"&#x",
    b"&amp",
    b";",
    b"!",
    b"<!--",
    b"--x",
    b"--x--",
    b"://",
    b"http",
];

const CHARSETS: &[&str] = &[
    "utf-7",
    "utf-16",
    "utf-16le",
    "utf-16be",
    "utf-8",
    "iso-2022-jp",
    "iso-2022-kr",
    "hz-gb-2312",
    "gb18030",
    "big5",
    "euc-jp",
    "euc-kr",
    "shift_jis",
    "koi8-r",
    "macintosh",
    "ibm866",
    "windows-1258",
    "unknown",
];

proptest! {
    #[test]
    fn no_field_breaks_the_reading_of_a_message(pieces in vec(select(FIELD_PIECES), 0..24)) {
        let field = pieces.concat();
        for name in ["Content-Type", "Content-Disposition", "Content-Transfer-Encoding"] {
            let message = format!("{name}: {field}\n\n--x\n\nbody\n--x--\n");
            Message::read(message.as_bytes()).parts().iter().for_each(|part| drop(part.text()));
        }
        let message = format!("Content-Type: {field}\n\n--x\n\nbody\n--x--\n");
        sign(message.as_bytes(), &Wanted::ALL, &Context::default());
    }

    #[test]
    fn no_body_breaks_a_decoder(
        charset in select(CHARSETS),
        kind in select(&["plain", "html"][..]),
        encoding in select(&["8bit", "base64", "quoted-printable", "x-uuencode"][..]),
        pieces in vec(select(BODY_PIECES), 0..24),
    ) {
        let header = format!("Content-Type: text/{kind}; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n");
        let message = [header.as_bytes(), &pieces.concat()].concat();
        sign(&message, &Wanted::ALL, &Context::default());
    }
}
