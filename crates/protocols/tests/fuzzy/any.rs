//! Tests properties that hold for all commands, replies and byte strings.

use bruit_protocols::fuzzy::{
    Buffer, Command, DATAGRAM_BYTES_MAX, Keypair, MESSAGE_BYTES_MAX, NONCE_BYTES, OpenError, Operation, PublicKey,
    REPLY_BYTES, REPLY_BYTES_SHORT, Reply, SHINGLED_BYTES, SHINGLES, SealError, SealedRequest, Version,
};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn version() -> impl Strategy<Value = Version> {
    select(&[Version::V3, Version::V4, Version::V5][..])
}

fn commands() -> impl Strategy<Value = Command> {
    let operations =
        [Operation::Check, Operation::Write, Operation::Delete, Operation::Stat, Operation::Ping].as_slice();
    let numbers = (any::<u8>(), any::<i32>(), any::<u32>());
    let text = (uniform::<_, 64>(any::<u8>()), prop::option::of(uniform::<_, SHINGLES>(any::<u64>())));
    (version(), select(operations), numbers, text).prop_map(
        |(version, operation, (flag, value, tag), (digest, shingles))| Command {
            version,
            operation,
            flag,
            value,
            tag,
            digest,
            shingles,
        },
    )
}

fn replies() -> impl Strategy<Value = Reply> {
    let numbers = (any::<i32>(), any::<u32>(), any::<u32>(), 0.0..1.0_f32, any::<u32>());
    (numbers, uniform::<_, 64>(any::<u8>())).prop_map(|((value, flag, tag, probability, time), digest)| Reply {
        value,
        flag,
        tag,
        probability,
        digest,
        time,
    })
}

proptest! {
    #[test]
    fn commands_are_read_as_they_were_written(command in commands()) {
        let mut bytes = [0; SHINGLED_BYTES];
        prop_assert_eq!(Command::decode(command.encode(&mut bytes)), Ok(command));
    }

    #[test]
    fn commands_and_replies_survive_encryption(
        command in commands(),
        reply in replies(),
        secrets in uniform::<_, 2>(uniform::<_, 32>(any::<u8>())),
        nonce in uniform::<_, NONCE_BYTES>(any::<u8>()),
    ) {
        let [server, client] = secrets.map(Keypair::from_secret);
        let (theirs, ours) = (client.shared_key(&server.public()).unwrap(), server.shared_key(&client.public()).unwrap());
        let (mut bytes, mut sent, mut received) = ([0; SHINGLED_BYTES], Buffer::default(), Buffer::default());
        let plain = command.encode(&mut bytes);
        let datagram = theirs.seal_request(server.public().id(), &client.public(), &nonce, plain, &mut sent).unwrap();
        let sealed = SealedRequest::parse(datagram).unwrap();
        prop_assert_eq!((sealed.key_id, sealed.client), (server.public().id(), client.public()));
        let opened = ours.open_request(&sealed, &mut received).unwrap();
        prop_assert_eq!(Command::decode(opened), Ok(command));

        let datagram = ours.seal_reply(&reply, command.version, &nonce, &mut sent);
        let opened = theirs.open_reply(datagram, &mut received).unwrap();
        let read = Reply::decode(opened).unwrap();
        let expected = match command.version {
            Version::V3 => Reply { digest: [0; 64], time: 0, ..reply },
            Version::V4 | Version::V5 => reply,
        };
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn replies_are_read_as_they_were_written(reply in replies(), more in vec(any::<u8>(), 0..64)) {
        let mut bytes = [0; REPLY_BYTES];
        let whole = [reply.encode(Version::V4, &mut bytes), &more].concat();
        prop_assert_eq!(Reply::decode(&whole), Ok(reply));
        prop_assert_eq!(Reply::decode(&whole[..REPLY_BYTES_SHORT]).map(|short| short.tag), Ok(reply.tag));
        prop_assert!(Reply::decode(&whole[..REPLY_BYTES - 1]).is_err());
    }

    #[test]
    fn no_bytes_do_harm(mut bytes in vec(any::<u8>(), 0..DATAGRAM_BYTES_MAX + 10), head in 0..6_u8) {
        if let [version, operation, ..] = &mut bytes[..] {
            (*version, *operation) = (head, *operation % 6);
        }
        let _ = Command::decode(&bytes);
        let _ = Reply::decode(&bytes);
        bytes.iter_mut().zip(b"rsfe").for_each(|(byte, magic)| *byte = *magic);
        let key = Keypair::from_secret([3; 32]).shared_key(&PublicKey([9; 32])).unwrap();
        let mut buffer = Buffer::default();
        if let Some(sealed) = SealedRequest::parse(&bytes) {
            prop_assert_eq!(key.open_request(&sealed, &mut buffer), Err(OpenError::Mac));
        }
        prop_assert!(key.open_reply(&bytes, &mut buffer).is_err());
    }
}

#[test]
fn the_longest_message_is_encrypted_and_no_longer_one() {
    let pair = Keypair::from_secret([3; 32]);
    let key = pair.shared_key(&pair.public()).unwrap();
    let message = [7; MESSAGE_BYTES_MAX + 1];
    let (mut sent, mut received) = (Buffer::default(), Buffer::default());
    let mut seal = |length| {
        key.seal_request([0; 8], &pair.public(), &[1; NONCE_BYTES], &message[..length], &mut sent).map(<[u8]>::to_vec)
    };
    let datagram = seal(MESSAGE_BYTES_MAX).unwrap();
    assert_eq!(datagram.len(), DATAGRAM_BYTES_MAX);
    let sealed = SealedRequest::parse(&datagram).unwrap();
    assert_eq!(key.open_request(&sealed, &mut received), Ok(&message[1..]));
    assert_eq!(seal(MESSAGE_BYTES_MAX + 1), Err(SealError(MESSAGE_BYTES_MAX + 1)));

    let longer = [&datagram[..], &[0]].concat();
    assert!(SealedRequest::parse(&longer).is_none());
    let reply = vec![0; 40 + MESSAGE_BYTES_MAX + 1];
    assert_eq!(key.open_reply(&reply, &mut received), Err(OpenError::Length(MESSAGE_BYTES_MAX + 1)));
    assert_eq!(key.open_reply(&reply[1..], &mut received), Err(OpenError::Mac));
}
