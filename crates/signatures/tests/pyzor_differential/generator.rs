//! Generates messages from seeds. They contain every structure that occurs in mail, both intact and broken.

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::pieces::{CHARSETS, ENCODINGS, ESCAPES, HEADERS, HTML, REFERENCES, SOUP, SPACES, TYPES, WORDS};

/// Maximum nesting depth of multiparts.
const DEPTH_MAX: usize = 3;

/// Generates the message for a seed.
pub(crate) fn message(seed: u64) -> Vec<u8> {
    let mut generator = Generator { rng: ChaCha8Rng::seed_from_u64(seed) };
    let mut message = Vec::new();
    if generator.is(20) {
        message.extend(b"From someone@example.org  Thu Jan  1 00:00:00 1970\n");
    }
    if generator.is(15) {
        return generator.soup();
    }
    generator.headers(&mut message);
    generator.entity(0, &mut message);
    match generator.below(10) {
        0 => to_crlf(&message),
        1 => generator.mixed_line_ends(&message),
        2 => generator.damaged(message),
        _ => message,
    }
}

struct Generator {
    rng: ChaCha8Rng,
}

impl Generator {
    fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }

    /// Returns true with this probability in per cent.
    fn is(&mut self, percentage: usize) -> bool {
        self.below(100) < percentage
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.choose(&mut self.rng).unwrap()
    }

    /// Returns fragments of messages in random order.
    fn soup(&mut self) -> Vec<u8> {
        let mut soup = String::new();
        for _ in 0..self.below(80) {
            soup += self.one_of(SOUP);
        }
        soup.into_bytes()
    }

    fn headers(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let header = self.one_of(HEADERS);
            out.extend(latin_1(header));
        }
    }

    /// Writes content header fields, an empty line, and a body.
    fn entity(&mut self, depth: usize, out: &mut Vec<u8>) {
        match self.below(100) {
            0..30 if depth < DEPTH_MAX => self.multipart(depth, out),
            30..36 if depth < DEPTH_MAX => {
                out.extend(b"Content-Type: message/rfc822\n\n");
                self.headers(out);
                self.entity(depth + 1, out);
            }
            36..39 if depth < DEPTH_MAX => self.delivery_status(depth, out),
            39..42 => self.plain_words(out),
            _ => self.leaf(out),
        }
    }

    fn plain_words(&mut self, out: &mut Vec<u8>) {
        if self.is(70) {
            out.push(b'\n');
        }
        let text = self.words(12);
        out.extend(text.bytes());
    }

    fn multipart(&mut self, depth: usize, out: &mut Vec<u8>) {
        let boundaries =
            ["b", "=_next_part", "--", "a b", "b--", "<x>", "\u{e4}", "", " lead", "tail ", "a\\\"b", "--b", "0", "b"];
        let boundary = self.one_of(&boundaries);
        let subtype = self.one_of(&["mixed", "alternative", "digest", "Mixed", "related"]);
        let parameter = match self.below(9) {
            0 => format!("boundary*=us-ascii''{}", boundary.replace(' ', "%20")),
            1 => format!("boundary*0=\"{boundary}\"; boundary*1=\"\""),
            2 => format!("boundary={boundary}"),
            3 => format!("x=\"; boundary=z\"; BOUNDARY=\"{boundary}\""),
            4 => format!("boundary=\n\t\"{boundary}\""),
            5 => "charset=utf-8".to_owned(),
            _ => format!("boundary=\"{boundary}\""),
        };
        out.extend(latin_1(&format!("Content-Type: multipart/{subtype}; {parameter}\n")));
        if self.is(10) {
            out.extend(b"Content-Transfer-Encoding: base64\n");
        }
        out.extend(b"\n");
        if self.is(50) {
            let text = self.words(4);
            out.extend(text.bytes());
            out.push(b'\n');
        }
        let boundary = if self.is(90) { boundary.trim_end() } else { "other" };
        for _ in 0..=self.below(4) {
            let suffix =
                self.one_of(&["\n", "\n", "\n", "\n", " \t\n", "\r\n", "\r", "--\n", "x\n", "\n--b\n", " -- \n"]);
            out.extend(latin_1(&format!("--{boundary}{suffix}")));
            if self.is(95) {
                self.entity(depth + 1, out);
            }
            let end = self.one_of(&["\n", "\n", "\n", "", "\n\n", "\r\n", "\r"]);
            out.extend(end.bytes());
        }
        if self.is(75) {
            let suffix = self.one_of(&["\n", "", " \n", "\nepilogue with several words\n", "--\n"]);
            out.extend(latin_1(&format!("--{boundary}--{suffix}")));
        }
    }

    fn delivery_status(&mut self, depth: usize, out: &mut Vec<u8>) {
        out.extend(b"Content-Type: message/delivery-status\n\n");
        for _ in 0..self.below(4) {
            match self.below(4) {
                0 => self.entity(depth + 1, out),
                1 => out.extend(b"this line is no header but text\n"),
                _ => out.extend(b"Reporting-MTA: dns; example.org\nFinal-Recipient: rfc822; someone@example.org\n"),
            }
            let end = self.one_of(&["\n", "\n", "\n\n", "\r\n", ""]);
            out.extend(end.bytes());
        }
    }

    fn leaf(&mut self, out: &mut Vec<u8>) {
        let content_type = if self.is(70) { self.one_of(&TYPES[..6]) } else { self.one_of(TYPES) };
        let charset = self.one_of(CHARSETS);
        let parameter = match self.below(14) {
            0 => String::new(),
            1 => format!("; charset*=us-ascii'en'{charset}"),
            2 => format!("; charset*0={charset}; charset*1="),
            3 => format!("; charset*0*=''{charset}"),
            4 => format!(";\n charset = {charset}"),
            5 => format!("; format=flowed; CHARSET={charset}; charset=utf-8"),
            6 => format!("; charset*={charset}"),
            _ => format!("; charset={charset}"),
        };
        if self.is(92) {
            let name = self.one_of(&["Content-Type", "Content-Type", "content-type", "CONTENT-TYPE"]);
            out.extend(latin_1(&format!("{name}: {content_type}{parameter}\n")));
        }
        let encoding = self.one_of(ENCODINGS);
        if self.is(60) {
            out.extend(format!("Content-Transfer-Encoding: {encoding}\n").bytes());
        }
        if self.is(5) {
            out.extend(b"Content-Type: text/plain\nContent-Transfer-Encoding: 8bit\n");
        }
        if self.is(95) {
            out.push(b'\n');
        }
        let is_html = content_type.to_ascii_lowercase().contains("html");
        let text = if is_html { self.html() } else { self.words(40) };
        let bytes = self.in_charset(&text, charset);
        let bytes = if self.is(12) { self.damaged(bytes) } else { bytes };
        let body = self.encoded(&bytes, encoding);
        out.extend(body);
    }

    /// Returns words separated by white space of all kinds, mostly in lines.
    fn words(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(count * 4) {
            text += self.one_of(WORDS);
            text += if self.is(18) { "\n" } else { self.one_of(SPACES) };
        }
        text
    }

    fn html(&mut self) -> String {
        let mut html = String::new();
        for _ in 0..self.below(50) {
            html += match self.below(10) {
                // A broken construct hides everything after it, so most are intact.
                0..3 => self.one_of(&HTML[..10]),
                3 => self.one_of(HTML),
                4 => self.one_of(REFERENCES),
                _ => self.one_of(WORDS).trim_matches(['<', '&', '\0']),
            };
            html += if self.is(12) { "\n" } else { self.one_of(SPACES) };
        }
        match self.below(5) {
            0 => html += self.one_of(REFERENCES),
            1 => html.push_str(&format!("&{}", "a".repeat(self.below(40)))),
            _ => {}
        }
        html
    }

    /// Returns the text in this character set, or random bytes that resemble such text.
    fn in_charset(&mut self, text: &str, charset: &str) -> Vec<u8> {
        let encoding = encoding_rs::Encoding::for_label(charset.trim_matches('"').as_bytes());
        match encoding {
            _ if charset.starts_with("utf-16") => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            _ if charset.starts_with("utf-32") => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            _ if charset == "utf-7" => text.replace('\u{e4}', "+AOQ-").into_bytes(),
            _ if charset.starts_with("iso-2022") || charset.starts_with("hz") => self.with_escapes(text),
            _ if self.is(20) => self.random_bytes(text),
            Some(encoding) => encoding.encode(text).0.into_owned(),
            None => text.as_bytes().to_vec(),
        }
    }

    /// Returns the text with known and unknown escape sequences inserted.
    fn with_escapes(&mut self, text: &str) -> Vec<u8> {
        let mut out = String::new();
        for character in text.chars().filter(char::is_ascii) {
            out.push(character);
            if self.is(10) {
                out += self.one_of(ESCAPES);
            }
        }
        out.into_bytes()
    }

    /// Returns the text with some random bytes inserted, mostly above ASCII.
    fn random_bytes(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for byte in text.bytes() {
            bytes.push(byte);
            if self.is(15) {
                for _ in 0..self.below(6) {
                    bytes.push(if self.is(80) { 0x80 | self.rng.next_u32() as u8 } else { self.rng.next_u32() as u8 });
                }
            }
        }
        bytes
    }

    fn encoded(&mut self, bytes: &[u8], encoding: &str) -> Vec<u8> {
        let encoded = match encoding.trim().to_ascii_lowercase().trim_matches('"') {
            "base64" => base64(bytes).into_bytes(),
            "quoted-printable" => self.quoted_printable(bytes),
            "x-uuencode" | "uuencode" => self.uuencode(bytes),
            _ => bytes.to_vec(),
        };
        if self.is(12) { self.damaged(encoded) } else { encoded }
    }

    fn quoted_printable(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => out.push(b'\n'),
                b' '..=b'~' if byte != b'=' => out.push(byte),
                _ if self.is(95) => out.extend(format!("={byte:02X}").bytes()),
                _ => out.push(byte),
            }
            if self.is(4) {
                let soft = self.one_of(&["=\n", "=\r\n", "=\r", "= \n", "==", "=4", "=g"]);
                out.extend(soft.bytes());
            }
        }
        out
    }

    fn uuencode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let begin = self.one_of(&[
            "begin 644 name\n",
            "begin 644 name\n",
            "x\nbegin 0o644 a\n",
            "begin 9 a\n",
            "begin\n",
            "begin +6_4 a\nbegin",
        ]);
        let mut out = begin.as_bytes().to_vec();
        for chunk in bytes.chunks(45) {
            out.push(b' ' + chunk.len() as u8);
            for group in chunk.chunks(3) {
                let bits = group.iter().chain(&[0, 0]).take(3).fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
                for shift in [18, 12, 6, 0] {
                    let value = (bits >> shift & 0x3f) as u8;
                    out.push(if value == 0 { b'`' } else { b' ' + value });
                }
            }
            let end = self.one_of(&["\n", "\n", "\n", "\n", " \n", "`\n", "M\n", "\r\n"]);
            out.extend(end.bytes());
        }
        let end = self.one_of(&["`\nend\n", "end\n", "", " end \nmore\n", "\nend\n"]);
        out.extend(end.bytes());
        out
    }

    /// Returns `bytes` with a few bytes changed, lost or doubled.
    fn damaged(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return bytes;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *b"\r\n=-<>&;\"' \0\x80\xff:".choose(&mut self.rng).unwrap()),
                3 => bytes.insert(at, self.rng.next_u32() as u8),
                _ => bytes[at] ^= 1 << (self.rng.next_u32() % 8),
            }
        }
        bytes
    }

    fn mixed_line_ends(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => out.extend(self.one_of(&["\n", "\r\n", "\r", "\n", "\n\r"]).bytes()),
                _ => out.push(byte),
            }
        }
        out
    }
}

/// Encodes each character as one byte, because headers may contain any raw bytes.
fn latin_1(text: &str) -> impl Iterator<Item = u8> {
    text.chars().map(|character| character as u8)
}

fn to_crlf(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| if byte == b'\n' { b"\r\n".to_vec() } else { vec![byte] }).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for (index, group) in bytes.chunks(3).enumerate() {
        let bits = group.iter().chain(&[0, 0]).take(3).fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        for (position, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let is_padding = position > group.len();
            out.push(if is_padding { '=' } else { char::from(ALPHABET[(bits >> shift & 0x3f) as usize]) });
        }
        if index % 19 == 18 {
            out.push('\n');
        }
    }
    out
}
