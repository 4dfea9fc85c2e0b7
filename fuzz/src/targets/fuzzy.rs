//! Datagrams to the fuzzy storage, plain or encrypted: decoded datagrams encode to the same bytes. The first byte
//! selects the decoder.

use std::sync::LazyLock;

use bruit_protocols::fuzzy::{
    Buffer, COMMAND_BYTES, Command, Keypair, MESSAGE_BYTES_MAX, NONCE_BYTES, PublicKey, Reply, SHINGLED_BYTES,
    SealedRequest, SharedKey, Version,
};

static SERVER: LazyLock<Keypair> = LazyLock::new(|| Keypair::from_secret([7; 32]));
static CLIENT: LazyLock<Keypair> = LazyLock::new(|| Keypair::from_secret([8; 32]));
static SHARED: LazyLock<SharedKey> = LazyLock::new(|| SERVER.shared_key(&CLIENT.public()).expect("a valid key"));

pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    match kind {
        0 => command(bytes),
        1 => sealed(bytes),
        2 => message(bytes),
        3 => reply(bytes),
        _ => key(bytes),
    }
}

fn command(bytes: &[u8]) {
    let Ok(command) = Command::decode(bytes) else { return };
    let mut out = [0; SHINGLED_BYTES];
    let written = command.encode(&mut out);
    // The decoder ignores some flags in the version byte, and any non-zero number of shingles means 32.
    assert_eq!(written[0], bytes[0] & 0x0f);
    assert_eq!((written[1], written[2] > 0), (bytes[1], bytes[2] > 0));
    assert_eq!(written[3..], bytes[3..written.len()]);
    assert_eq!(Command::decode(written), Ok(command));
    assert_eq!(command.duplicate_key(), written[..COMMAND_BYTES]);
}

/// Decrypts a datagram in the encrypted format.
fn sealed(bytes: &[u8]) {
    let Some(request) = SealedRequest::parse(bytes) else { return };
    let mut buffer = Buffer::default();
    assert!(SHARED.open_request(&request, &mut buffer).is_err(), "a random MAC is invalid");
    assert!(SHARED.open_reply(bytes, &mut buffer).is_err());
}

/// Encrypts and decrypts any message.
fn message(bytes: &[u8]) {
    let (mut sent, mut received) = (Buffer::default(), Buffer::default());
    let nonce = [bytes.len() as u8; NONCE_BYTES];
    let id = SERVER.public().id();
    let datagram = SHARED.seal_request(id, &CLIENT.public(), &nonce, bytes, &mut sent);
    assert_eq!(datagram.is_ok(), bytes.len() <= MESSAGE_BYTES_MAX);
    let Some(request) = datagram.ok().and_then(SealedRequest::parse) else { return };
    assert_eq!((request.key_id, request.client), (id, CLIENT.public()));
    assert_eq!(SHARED.open_request(&request, &mut received), Ok(bytes));
}

fn reply(bytes: &[u8]) {
    let Ok(reply) = Reply::decode(bytes) else { return };
    let length = bytes.len().min(84);
    assert_eq!(reply.bytes()[..length], bytes[..length]);
    let (mut sent, mut received) = (Buffer::default(), Buffer::default());
    let datagram = SHARED.seal_reply(&reply, Version::V4, &[1; NONCE_BYTES], &mut sent);
    assert_eq!(SHARED.open_reply(datagram, &mut received), Ok(&reply.bytes()[..]));
}

/// Parses the text of a key.
fn key(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(key) = text.parse::<PublicKey>() else { return };
    assert_eq!(key.to_string().parse(), Ok(key));
    assert!(text.len() == 64 || key.to_string() == text);
}
