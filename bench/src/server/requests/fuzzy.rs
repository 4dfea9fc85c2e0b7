//! Commands to rspamd's fuzzy storage, in the format of version 4.

use std::io;

use bruit_protocols::fuzzy::{Buffer, Keypair, Nonce, PublicKey, SharedKey};

use super::{Kind, Reading, bytes_of};
use crate::keys::mixed;

const VERSION: u8 = 4;
const CHECK: u8 = 0;
const WRITE: u8 = 1;
const SHINGLES: usize = 32;
const REPLY_BYTES: usize = 96;
/// Number of shingles that a near replica has in common with the stored text. A server requires 17.
const SHARED: usize = 22;
/// The list (flag) to which texts are written.
pub(crate) const FLAG: u8 = 1;

/// CHECK requests by digest alone.
#[derive(Clone, Copy)]
pub(crate) struct Digests;

/// CHECK requests for texts whose digests were never written. Near replicas of known texts are found by their shingles.
#[derive(Clone, Copy)]
pub(crate) struct NearCopies;

/// WRITE requests for texts with their shingles.
pub(crate) struct Write;

impl Kind for Digests {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        head(CHECK, 0, serial, &bytes_of(signature, 2), packet);
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        read(reply)
    }
}

impl Kind for NearCopies {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        head(CHECK, SHINGLES as u8, serial, &bytes_of(signature, 3), packet);
        (0..SHINGLES).for_each(|at| {
            let salt = if at < SHARED { 0 } else { u64::from(serial) + 1 };
            packet.extend_from_slice(&shingle(signature, at, salt).to_le_bytes());
        });
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        read(reply)
    }
}

impl Kind for Write {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        head(WRITE, SHINGLES as u8, serial, &bytes_of(signature, 2), packet);
        (0..SHINGLES).for_each(|at| packet.extend_from_slice(&shingle(signature, at, 0).to_le_bytes()));
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        read(reply).filter(|reading| reading.is_known)
    }
}

/// Stores a text in Redis, in rspamd's format.
pub(crate) fn write_to_redis(signature: u64, redis: &mut impl io::Write) -> io::Result<()> {
    let digest: [u8; 64] = bytes_of(signature, 2);
    let key = [&b"fuzzy"[..], &digest].concat();
    put_command(redis, &[b"HSET", &key, b"F", b"1", b"V", b"10", b"C", b"1794725694"])?;
    for at in 0..SHINGLES {
        let key = format!("fuzzy_{at}_{}", shingle(signature, at, 0));
        put_command(redis, &[b"SET", key.as_bytes(), &digest])?;
    }
    Ok(())
}

/// Writes a command in Redis's protocol.
fn put_command(redis: &mut impl io::Write, words: &[&[u8]]) -> io::Result<()> {
    write!(redis, "*{}\r\n", words.len())?;
    words.iter().try_for_each(|word| {
        write!(redis, "${}\r\n", word.len())?;
        redis.write_all(word)?;
        redis.write_all(b"\r\n")
    })
}

/// Requests of kind `K`, encrypted.
struct Sealed<K> {
    plain: K,
    server: PublicKey,
    client: PublicKey,
    shared: SharedKey,
}

/// Returns the key pair of the server.
pub(crate) fn server_keys() -> Keypair {
    Keypair::from_secret([7; 32])
}

/// Encrypts `plain` from one client to [`server_keys`].
pub(crate) fn sealed(plain: impl Kind + 'static) -> Box<dyn Kind> {
    let (server, client) = (server_keys().public(), Keypair::from_secret([8; 32]));
    let shared = client.shared_key(&server).expect("valid keys");
    Box::new(Sealed { plain, server, client: client.public(), shared })
}

impl<K: Kind> Kind for Sealed<K> {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        let mut plain = Vec::new();
        self.plain.write(serial, signature, &mut plain);
        let (nonce, mut buffer): (Nonce, _) = (bytes_of(serial.into(), 4), Buffer::default());
        let sealed = self.shared.seal_request(self.server.id(), &self.client, &nonce, &plain, &mut buffer);
        packet.extend_from_slice(sealed.expect("a command fits"));
    }

    fn mark(&self, serial: u32) -> u32 {
        self.plain.mark(serial)
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        self.plain.read(self.shared.open_reply(reply, &mut Buffer::default()).ok()?)
    }
}

fn head(command: u8, shingles: u8, tag: u32, digest: &[u8; 64], packet: &mut Vec<u8>) {
    let (flag, weight) = if command == WRITE { (FLAG, 10_u32) } else { (0, 0) };
    packet.extend_from_slice(&[VERSION, command, shingles, flag]);
    packet.extend_from_slice(&weight.to_le_bytes());
    packet.extend_from_slice(&tag.to_le_bytes());
    packet.extend_from_slice(digest);
}

fn shingle(signature: u64, at: usize, salt: u64) -> u64 {
    mixed(mixed(signature ^ salt << 44) ^ (at as u64) << 56)
}

/// A successful write is answered like a check of a known text: with a probability above one half.
fn read(reply: &[u8]) -> Option<Reading> {
    let word = |at: usize| Some(u32::from_le_bytes(reply.get(at..at + 4)?.try_into().ok()?));
    let probability = f32::from_bits(word(12)?);
    let is_refused = probability <= 0.5 && word(0)? != 0;
    (reply.len() == REPLY_BYTES && !is_refused).then_some(Reading { mark: word(8)?, is_known: probability > 0.5 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: &dyn Kind) -> Vec<u8> {
        let mut packet = Vec::new();
        kind.write(7, 1, &mut packet);
        packet
    }

    #[test]
    fn commands_have_the_lengths_of_the_protocol() {
        assert_eq!([packet(&Digests).len(), packet(&NearCopies).len(), packet(&Write).len()], [76, 332, 332]);
    }

    #[test]
    fn encrypted_commands_are_longer_by_their_head() {
        assert_eq!([packet(&*sealed(Digests)).len(), packet(&*sealed(NearCopies)).len()], [160, 416]);
    }

    #[test]
    fn a_text_goes_to_redis_as_a_record_and_its_shingles() {
        let mut commands = Vec::new();
        write_to_redis(1, &mut commands).unwrap();
        assert!(commands.starts_with(b"*8\r\n$4\r\nHSET\r\n$69\r\nfuzzy"));
        assert_eq!(commands.windows(7).filter(|window| window == b"\nfuzzy_").count(), SHINGLES);
    }

    #[test]
    fn a_near_copy_shares_twenty_two_shingles() {
        let (near, written) = (packet(&NearCopies), packet(&Write));
        let equal = near[76..].chunks(8).zip(written[76..].chunks(8)).filter(|(near, written)| near == written);
        assert_eq!(equal.count(), SHARED);
        assert_ne!(near[12..76], written[12..76]);
        assert_eq!(packet(&Digests)[12..76], written[12..76]);
    }

    #[test]
    fn replies_have_the_mark_and_whether_the_text_is_known() {
        let reply = |value: u32, probability: f32| {
            let mut reply = Vec::new();
            [value, 1, 7, probability.to_bits()].iter().for_each(|word| reply.extend_from_slice(&word.to_le_bytes()));
            reply.resize(REPLY_BYTES, 0);
            reply
        };
        assert_eq!(Digests.read(&reply(10, 1.0)), Some(Reading { mark: 7, is_known: true }));
        assert_eq!(Digests.read(&reply(0, 0.0)), Some(Reading { mark: 7, is_known: false }));
        assert_eq!(Write.read(&reply(403, 0.0)), None);
        assert_eq!(Write.read(&reply(0, 1.0)), Some(Reading { mark: 7, is_known: true }));
    }
}
