//! Messages designed to reveal differences. There are fragments that trigger every rule of the client.

use crate::fragments::{BOUNDARIES, HEADERS, LABELS, LINE_ENDS, LINKS, MARKUP, TLDS, WORDS};
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Generates a message from a seed, deterministically.
pub(crate) fn message(seed: u64) -> Vec<u8> {
    let mut generator = Generator { random: ChaCha8Rng::seed_from_u64(seed) };
    match seed % 8 {
        0 => generator.plain(),
        1 => generator.soup(),
        2 => generator.encoded("base64"),
        3 => generator.encoded("quoted-printable"),
        4 | 5 => generator.nested(),
        6 => generator.links(),
        _ => generator.large(),
    }
}

struct Generator {
    random: ChaCha8Rng,
}

impl Generator {
    fn one_of(&mut self, choices: &[&'static str]) -> &'static str {
        choices.choose(&mut self.random).expect("there are choices")
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    fn up_to(&mut self, max: usize) -> usize {
        self.random.random_range(0..=max)
    }

    /// Returns up to `max` of `choices`, concatenated. Characters above 127 become Latin-1 bytes or UTF-8.
    fn run(&mut self, choices: &[&'static str], max: usize) -> Vec<u8> {
        (0..self.up_to(max))
            .map(|_| self.one_of(choices))
            .collect::<Vec<_>>()
            .iter()
            .flat_map(|text| self.bytes(text))
            .collect()
    }

    fn bytes(&mut self, text: &str) -> Vec<u8> {
        if self.chance(0.5) {
            text.as_bytes().to_vec()
        } else {
            text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
        }
    }

    fn words(&mut self, max: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..self.up_to(max) {
            text.extend(self.run(WORDS, 1));
            let gap = if self.chance(0.8) { " " } else { self.one_of(LINE_ENDS) };
            text.extend_from_slice(gap.as_bytes());
        }
        text
    }

    fn headers(&mut self, max: usize) -> Vec<u8> {
        let line_end = if self.chance(0.3) { "\r\n" } else { "\n" };
        let lines: Vec<_> = (0..self.up_to(max)).map(|_| self.one_of(HEADERS)).collect();
        lines.iter().flat_map(|line| [line, line_end]).collect::<String>().into_bytes()
    }

    /// Returns the end of a header, usually a blank line.
    fn blank_line(&mut self) -> &'static [u8] {
        self.one_of(&["\n", "\n", "\n", "\n", "\r\n", "\r\r\n", "", "\n\n"]).as_bytes()
    }

    fn end(&mut self) -> &'static [u8] {
        self.one_of(&["", "\n", "\n\n\n", "\r\n\r\n", " \n", "\0", "\n\t"]).as_bytes()
    }

    fn body(&mut self) -> Vec<u8> {
        match self.up_to(9) {
            0 => self
                .one_of(&["", "0", "\n", " \t\n", "0\n", "\r\n", "x", "Content-a: b\nContent-c: d", "Content:\n \n"])
                .as_bytes()
                .to_vec(),
            1..=3 => self.words(300),
            4 | 5 => self.markup(120),
            6 | 7 => self.run(LINKS, 60),
            8 => self.noise(400),
            _ => self.sentences(200),
        }
    }

    fn markup(&mut self, max: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..self.up_to(max) {
            let choices = if self.chance(0.4) { MARKUP } else { WORDS };
            text.extend(self.run(choices, 2));
            text.extend_from_slice(if self.chance(0.1) { b"\n" } else { b" " });
        }
        text
    }

    fn noise(&mut self, max: usize) -> Vec<u8> {
        (0..self.up_to(max)).map(|_| self.random.random()).collect()
    }

    /// Returns distinct lines, so that the positions of sections matter.
    fn sentences(&mut self, max: usize) -> Vec<u8> {
        let line_end = self.one_of(&["\n", "\n", "\r\n", "\n\n", "\r"]);
        (0..self.up_to(max))
            .flat_map(|_| {
                let words: Vec<u16> = (0..self.up_to(12)).map(|_| self.random.random()).collect();
                let line = words.iter().map(|word| format!("w{word} ")).collect::<String>();
                (line + line_end).into_bytes()
            })
            .collect()
    }

    fn plain(&mut self) -> Vec<u8> {
        [&self.headers(6)[..], self.blank_line(), &self.body(), self.end()].concat()
    }

    /// Returns fragments of all kinds in random order.
    fn soup(&mut self) -> Vec<u8> {
        let mut text = if self.chance(0.8) { self.headers(5) } else { Vec::new() };
        for _ in 0..self.up_to(60) {
            let choices = [WORDS, LINE_ENDS, HEADERS, MARKUP, LINKS]
                .choose(&mut self.random)
                .copied()
                .expect("there are choices");
            text.extend(self.run(choices, 3));
            if self.chance(0.1) {
                let boundary = self.one_of(&["\n--b\n", "\n--b--\n", "--b", "\n--b\r\n", "\n--c\n", "\n--\n"]);
                text.extend_from_slice(boundary.as_bytes());
            }
        }
        text
    }

    /// Returns a body in a transfer encoding, usually valid.
    fn encoded(&mut self, encoding: &str) -> Vec<u8> {
        let mut header = self.headers(3);
        header.extend_from_slice(format!("Content-Transfer-Encoding: {encoding}\n").as_bytes());
        let body = self.body();
        let mut body = if encoding == "base64" { self.base64(&body) } else { self.quoted_printable(&body) };
        if self.chance(0.3) {
            let place = self.up_to(body.len());
            let length = self.up_to(body.len() - place).min(9);
            let patch =
                self.run(&["=", "==", "\n\n", "*", "A", "=4", "=\n", "1", "\nContent-Transfer-Encoding: base64\n"], 3);
            body.splice(place..place + length, patch);
        }
        [&header[..], self.blank_line(), &body, self.end()].concat()
    }

    fn base64(&mut self, body: &[u8]) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = Vec::new();
        let line_length = [60, 64, 72, 76, 7].choose(&mut self.random).copied().expect("there are choices");
        for group in body.chunks(3) {
            let bits = group.iter().chain(&[0, 0]).take(3).fold(0, |bits, &byte| bits << 8 | usize::from(byte));
            let characters = [18, 12, 6, 0].map(|shift| ALPHABET[bits >> shift & 63]);
            text.extend_from_slice(&characters[..=group.len()]);
        }
        let padding = if self.chance(0.7) { &b"=="[..(3 - body.len() % 3) % 3] } else { b"" };
        let lines: Vec<_> = text.chunks(line_length).collect();
        [&lines.join(&b'\n'), padding, b"\n"].concat()
    }

    fn quoted_printable(&mut self, body: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for &byte in body {
            if byte == b'=' || !byte.is_ascii() || self.chance(0.1) {
                text.extend_from_slice(format!("={byte:02X}").as_bytes());
            } else {
                text.push(byte);
            }
            if self.chance(0.05) {
                text.extend_from_slice(self.one_of(&["=\n", "=\r\n", "= \n", "=", "=4=\n1", "=3d"]).as_bytes());
            }
        }
        text
    }

    fn nested(&mut self) -> Vec<u8> {
        let depth = self.up_to(4);
        [self.headers(3), self.multipart(depth)].concat()
    }

    /// Returns a header that declares a boundary, and a body that mostly uses it.
    fn multipart(&mut self, depth: usize) -> Vec<u8> {
        let boundary = [self.one_of(BOUNDARIES), self.one_of(&["", "1", "22"])].concat();
        let name = self.one_of(&[
            "boundary=",
            "boundary=",
            "BOUNDARY=",
            "\n\tboundary=",
            "boundary=x; boundary=",
            "boundary= ",
        ]);
        let quote = if self.chance(0.7) { "\"" } else { "" };
        let mut text = format!("Content-Type: multipart/mixed; {name}{quote}{boundary}{quote}\n").into_bytes();
        text.extend(self.headers(2));
        text.extend_from_slice(self.blank_line());
        if self.chance(0.6) {
            text.extend_from_slice(b"preamble");
        }
        for _ in 0..self.up_to(4) {
            let line_end = self.one_of(&["\n", "\n", "\n", "\r\n", "\r\r\n", " \n", "", "\n\n"]);
            let start = self.one_of(&["\n", "\n", "\n", "\r\n", "", "\n--b"]);
            text.extend_from_slice(format!("{start}--{boundary}{line_end}").as_bytes());
            let piece = self.piece(depth);
            text.extend(piece);
        }
        if self.chance(0.8) {
            text.extend_from_slice(format!("\n--{boundary}--\nepilogue").as_bytes());
        }
        text
    }

    fn piece(&mut self, depth: usize) -> Vec<u8> {
        match self.up_to(6) {
            0 | 1 if depth > 0 => self.multipart(depth - 1),
            2 => self.encoded("base64"),
            3 => [b"Content-Type: text/plain\n", &self.encoded("quoted-printable")[..]].concat(),
            4 => self.body(),
            _ => [b"Content-Type: text/html\n", &self.headers(2)[..], self.blank_line(), &self.body()].concat(),
        }
    }

    /// Returns links to hosts of every form, on one line or many.
    fn links(&mut self) -> Vec<u8> {
        let mut body = self.words(10);
        for _ in 0..self.up_to(12) {
            let host: Vec<_> = (0..=self.up_to(3)).map(|_| self.one_of(LABELS)).collect();
            let tld = self.one_of(TLDS);
            let before = self.one_of(&[
                "http://",
                "http://",
                "https://",
                "<a href=\"http://",
                "HREF=http:/",
                " www.",
                "http://u@",
                "http://a=b",
                "HTTP://",
            ]);
            let behind = self.one_of(&["/", "\">x</a>", ":80/", ".", " ", "?q", "", "\r", "/*http://"]);
            body.extend_from_slice(format!("{before}{}.{tld}{behind}", host.join(".")).as_bytes());
            body.extend(self.run(&[" ", " ", "\n", "text", "%20", "\t"], 2));
        }
        [&self.headers(3)[..], b"\n", &body, self.end()].concat()
    }

    /// Returns bodies and headers near the sizes where they are truncated.
    fn large(&mut self) -> Vec<u8> {
        let mut header = self.headers(3);
        if self.chance(0.5) {
            let line = format!("Content-x: {}\n", "y".repeat(self.up_to(90)));
            let count = 3900 / line.len() + self.up_to(8);
            header.extend(line.repeat(count).into_bytes());
            let filling = self.up_to(90);
            header.extend_from_slice(format!("Content-z: {}\nContent-last: a\n", "z".repeat(filling)).as_bytes());
        }
        let unit = self.body();
        let unit = if unit.is_empty() { b"long ".to_vec() } else { unit };
        let length = if self.chance(0.6) { 61_440 + self.up_to(400) - 200 } else { self.up_to(150_000) };
        let mut body: Vec<u8> = unit.iter().copied().cycle().take(length).collect();
        if self.chance(0.5) {
            body.extend(self.sentences(300));
        }
        [&header[..], self.blank_line(), &body, self.end()].concat()
    }
}
