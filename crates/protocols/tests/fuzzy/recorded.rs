//! Tests that datagrams recorded from rspamd and its storage can be decoded, and that encoding yields the same bytes
//! again.

use bruit_protocols::fuzzy::{
    Buffer, COMMAND_BYTES, Command, OpenError, Operation, REPLY_BYTES, Reply, SHINGLED_BYTES, SealedRequest, SharedKey,
    Version,
};

use crate::transcript::{Datagram, Transcript};

fn parse(bytes: &[u8]) -> SealedRequest<'_> {
    SealedRequest::parse(bytes).expect("encrypted")
}

/// Returns the key shared by the two sides of an encrypted exchange.
fn shared_key(transcript: &Transcript, request: &SealedRequest<'_>) -> SharedKey {
    transcript.server.shared_key(&request.client).expect("an ordinary key")
}

fn operation(name: &str) -> Operation {
    match name {
        "check" => Operation::Check,
        "write" => Operation::Write,
        "delete" => Operation::Delete,
        "stat" => Operation::Stat,
        other => panic!("no operation {other}"),
    }
}

fn assert_means(command: &Command, datagram: &Datagram, title: &str) {
    assert_eq!(command.version, Version::V4, "{title}");
    assert_eq!(command.operation, operation(datagram.means("operation")), "{title}");
    assert_eq!(command.flag, datagram.number::<u8>("flag"), "{title}");
    assert_eq!(command.value, datagram.number::<i32>("value"), "{title}");
    assert_eq!(command.tag, datagram.tag(), "{title}");
    assert_eq!(command.digest, datagram.field("digest"), "{title}");
    assert_eq!(command.shingles.is_some(), datagram.means("shingles") == "yes", "{title}");
}

/// Returns the reply that the transcript describes.
fn meant(datagram: &Datagram) -> Reply {
    let (agreed, of) = datagram.means("probability").split_once('/').expect("a fraction");
    Reply {
        value: datagram.number("value"),
        flag: datagram.number("flag"),
        tag: datagram.tag(),
        probability: agreed.parse::<f32>().expect("a number") / of.parse::<f32>().expect("a number"),
        digest: datagram.field("digest"),
        time: datagram.number("time"),
    }
}

#[test]
fn every_request_says_what_it_means() {
    let transcript = Transcript::read();
    for exchange in &transcript.exchanges {
        let (bytes, title) = (exchange.request.bytes(), &exchange.title);
        let sealed = SealedRequest::parse(&bytes);
        assert_eq!(sealed.is_some(), exchange.request.is_encrypted, "{title}");
        let mut buffer = Buffer::default();
        let plain = sealed.as_ref().map_or(&bytes[..], |sealed| {
            let key = shared_key(&transcript, sealed);
            assert_eq!(sealed.key_id, transcript.server.public().id(), "{title}");
            key.open_request(sealed, &mut buffer).expect("our key")
        });
        assert_eq!(plain, exchange.request.plain(), "{title}");
        assert_means(&Command::decode(plain).expect("a command"), &exchange.request, title);
    }
}

#[test]
fn every_request_is_written_as_rspamd_does() {
    let transcript = Transcript::read();
    for exchange in &transcript.exchanges {
        let (request, title) = (&exchange.request, &exchange.title);
        let mut bytes = [0; SHINGLED_BYTES];
        let command = Command::decode(&request.plain()).expect("a command");
        let written = command.encode(&mut bytes);
        // Compare only the beginning, because our client does not send extensions.
        assert_eq!(written, &request.plain()[..written.len()], "{title}");
        assert!([COMMAND_BYTES, SHINGLED_BYTES].contains(&written.len()));

        let datagram = request.bytes();
        let Some(sealed) = SealedRequest::parse(&datagram) else { continue };
        let (key, nonce) = (shared_key(&transcript, &sealed), request.field("nonce"));
        let mut buffer = Buffer::default();
        let again = key.seal_request(sealed.key_id, &sealed.client, &nonce, &request.plain(), &mut buffer);
        assert_eq!(again, Ok(&datagram[..]), "{title}");
    }
}

#[test]
fn every_reply_is_written_as_rspamd_does_and_read_again() {
    let transcript = Transcript::read();
    for exchange in &transcript.exchanges {
        let (datagram, title) = (exchange.reply.bytes(), &exchange.title);
        let reply = meant(&exchange.reply);
        let (mut bytes, mut buffer) = ([0; REPLY_BYTES], Buffer::default());
        let request = exchange.request.bytes();
        let Some(sealed) = SealedRequest::parse(&request) else {
            assert_eq!(reply.encode(Version::V4, &mut bytes), datagram, "{title}");
            assert_eq!(Reply::decode(&datagram), Ok(reply), "{title}");
            continue;
        };
        let key = shared_key(&transcript, &sealed);
        let nonce = exchange.reply.field("nonce");
        assert_eq!(key.seal_reply(&reply, Version::V4, &nonce, &mut buffer), datagram, "{title}");
        let opened = key.open_reply(&datagram, &mut buffer).expect("our key");
        assert_eq!(Reply::decode(opened), Ok(reply), "{title}");
    }
}

#[test]
fn our_replies_equal_the_recorded_ones() {
    let transcript = Transcript::read();
    for exchange in &transcript.exchanges {
        let command = Command::decode(&exchange.request.plain()).expect("a command");
        let meant = meant(&exchange.reply);
        let ours = match command.operation {
            Operation::Write | Operation::Delete => Reply::accepted(&command),
            Operation::Stat => Reply::records(command.tag, 3),
            _ if !meant.is_success() => Reply::not_found(command.tag),
            _ => continue,
        };
        assert_eq!(ours.bytes(), exchange.reply.plain()[..], "{}", exchange.title);
    }
}

#[test]
fn no_byte_of_an_encrypted_request_can_be_changed() {
    let transcript = Transcript::read();
    let request = transcript.exchanges[0].request.bytes();
    let key = shared_key(&transcript, &parse(&request));
    let mut buffer = Buffer::default();
    // Skip the key ID, which only selects one of the server's keys. A changed client key is tested below.
    for at in 44..request.len() {
        let mut changed = request.clone();
        changed[at] ^= 0x40;
        assert_eq!(key.open_request(&parse(&changed), &mut buffer), Err(OpenError::Mac), "byte {at}");
    }
    let mut other = request.clone();
    other[20] ^= 1;
    let other_key = shared_key(&transcript, &parse(&other));
    assert_eq!(other_key.open_request(&parse(&request), &mut buffer), Err(OpenError::Mac));
    assert_eq!(key.open_request(&parse(&request[..request.len() - 1]), &mut buffer), Err(OpenError::Mac));
}
