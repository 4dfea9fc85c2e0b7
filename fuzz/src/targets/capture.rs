//! Reading captures and decoding packets never panics. All returned bytes are part of the input.

use bruit_forensics::capture::{Capture, FRAME_BYTES_MAX, Frame, Link};
use bruit_forensics::flows::{IDENTITY_BYTES_MAX, Identity, Key};
use bruit_forensics::packet::decode;

const LINKS: [Link; 6] =
    [Link::Ethernet, Link::Ip, Link::Loopback, Link::LinuxCooked, Link::LinuxCookedV2, Link::Other(105)];
const KEYS: [Key; 4] = [Key::PAIR, Key::FIVE_TUPLE, Key::SOURCE, Key::DESTINATION];

pub(crate) fn fuzz(bytes: &[u8]) {
    let Ok(mut capture) = Capture::open(bytes) else { return };
    let mut given = 0;
    while let Ok(Some(frame)) = capture.next_frame() {
        given += frame.bytes.len();
        assert!(frame.bytes.len() <= FRAME_BYTES_MAX && given <= bytes.len());
        // Decode the frame with the link type of the capture, and with every other link type.
        LINKS.into_iter().chain([frame.link]).for_each(|link| look_into(&Frame { link, ..frame }));
    }
    assert!(capture.position() <= bytes.len() as u64);
}

fn look_into(frame: &Frame<'_>) {
    let Ok(packet) = decode(frame) else { return };
    let parts = [packet.header.len(), packet.ip_payload.len()];
    assert!(parts.iter().sum::<usize>() <= frame.bytes.len() && packet.payload.len() <= packet.ip_payload.len());
    for key in KEYS {
        let mut identity = Identity::default();
        identity.set_packet(key, &packet);
        assert!(identity.as_bytes().len() <= IDENTITY_BYTES_MAX);
        assert!(!key.describe(identity.as_bytes()).contains('?'));
    }
}
