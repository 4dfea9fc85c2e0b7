//! Parser for `testdata/wire/fuzzy/`. The README there describes the format.

use std::collections::HashMap;
use std::fs;

use bruit_protocols::fuzzy::Keypair;

/// Fields of an encrypted datagram, in order.
const SEALED: [&str; 6] = ["magic", "key-id", "client-key", "nonce", "mac", "ciphertext"];
/// Fields of a plain datagram or of a decrypted one.
const PLAIN: [&str; 5] = ["head", "digest", "shingles", "extension", "tail"];

/// A recording: the storage's key pair, and requests with their replies.
pub(crate) struct Transcript {
    pub(crate) server: Keypair,
    pub(crate) exchanges: Vec<Exchange>,
}

/// A request and its reply.
#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) title: String,
    pub(crate) request: Datagram,
    pub(crate) reply: Datagram,
}

/// A datagram, split into its fields.
#[derive(Default)]
pub(crate) struct Datagram {
    pub(crate) is_encrypted: bool,
    fields: HashMap<&'static str, Vec<u8>>,
    means: HashMap<String, String>,
}

impl Transcript {
    pub(crate) fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/wire/fuzzy/rspamd-3.4.txt");
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("failed to read {path}: {error}"));
        let (preface, rest) = text.split_once("\n# A text").expect("keys come first");
        let key = |name| {
            let line = preface.lines().find_map(|line: &str| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{path} has no {name}")).trim()
        };
        let server = Keypair::from_secret_text(key("server-secret")).expect("a key");
        assert_eq!(server.public().to_string(), key("server-public"));
        let exchanges: Vec<_> = rest.split("\n\n").map(Exchange::read).collect();
        assert_eq!(exchanges.len(), 16, "the recording has 16 exchanges");
        Self { server, exchanges }
    }
}

impl Exchange {
    fn read(text: &str) -> Self {
        let mut exchange = Self::default();
        let (title, rest) = text.split_once("\nrequest ").expect("a request");
        let (request, reply) = rest.split_once("\nreply ").expect("a reply");
        exchange.title = title.replace("\n#", "").trim_start_matches("# ").to_owned();
        exchange.request = Datagram::read(request);
        exchange.reply = Datagram::read(reply);
        exchange
    }
}

impl Datagram {
    fn read(text: &str) -> Self {
        let (how, lines) = text.split_once('\n').expect("fields");
        let mut datagram = Self { is_encrypted: how == "encrypted", ..Self::default() };
        let mut name = "";
        for line in lines.lines() {
            let (named, value) = line.split_at(13);
            name = if named.trim().is_empty() { name } else { named.trim() };
            if name == "means" {
                let pairs = value.split(' ').map(|pair| pair.split_once('=').expect("name and value"));
                datagram.means.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                continue;
            }
            let known = SEALED.iter().chain(&PLAIN).find(|&&known| known == name);
            let field = datagram.fields.entry(known.unwrap_or_else(|| panic!("unknown field {name}"))).or_default();
            field.extend(unhex(value));
        }
        datagram
    }

    /// Returns the bytes as sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if self.is_encrypted { self.joined(&SEALED) } else { self.plain() }
    }

    /// Returns the bytes before encryption.
    pub(crate) fn plain(&self) -> Vec<u8> {
        self.joined(&PLAIN)
    }

    /// Returns the bytes of a field.
    pub(crate) fn field<const N: usize>(&self, name: &str) -> [u8; N] {
        self.fields[name].as_slice().try_into().expect("the field has N bytes")
    }

    /// Returns the value of `name` in the description of the datagram.
    pub(crate) fn means(&self, name: &str) -> &str {
        &self.means[name]
    }

    /// Returns the number `name` in the description of the datagram.
    pub(crate) fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(&self, name: &str) -> N {
        self.means(name).parse().expect("a number")
    }

    /// Returns the tag.
    pub(crate) fn tag(&self) -> u32 {
        u32::from_str_radix(self.means("tag"), 16).expect("a tag")
    }

    fn joined(&self, names: &[&str]) -> Vec<u8> {
        names.iter().filter_map(|name| self.fields.get(name)).flatten().copied().collect()
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter_map(|character| character.to_digit(16)).collect();
    assert!(digits.len().is_multiple_of(2));
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
