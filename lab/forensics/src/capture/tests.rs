//! Valid and invalid files of both formats, made by hand.

use std::io::{self, Read};

use super::*;

/// A frame with owned data, which tests can compare.
type Seen = (Nanoseconds, Link, Vec<u8>, u32);

fn read_all(file: impl Read) -> (Vec<Seen>, Option<CaptureError>) {
    let mut capture = match Capture::open(file) {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut frames = Vec::new();
    loop {
        match capture.next_frame() {
            Ok(Some(frame)) => frames.push((frame.time, frame.link, frame.bytes.to_vec(), frame.original_bytes)),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

/// Byte order.
#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn put(self, out: &mut Vec<u8>, number: u32) {
        out.extend(match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        });
    }

    fn put_short(self, out: &mut Vec<u8>, number: u16) {
        out.extend(match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        });
    }

    fn pcap(self, magic: u32, snaplen: u32, link: u32) -> Vec<u8> {
        let mut file = Vec::new();
        self.put(&mut file, magic);
        self.put_short(&mut file, 2);
        self.put_short(&mut file, 4);
        [0, 0, snaplen, link].iter().for_each(|&number| self.put(&mut file, number));
        file
    }

    fn pcap_frame(self, file: &mut Vec<u8>, times: (u32, u32), bytes: &[u8]) {
        let length = bytes.len() as u32;
        [times.0, times.1, length, length + 1].iter().for_each(|&number| self.put(file, number));
        file.extend_from_slice(bytes);
    }

    /// Builds a block, with its length at both ends.
    fn block(self, kind: u32, content: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        let length = 12 + content.len() as u32;
        self.put(&mut block, kind);
        self.put(&mut block, length);
        block.extend_from_slice(content);
        self.put(&mut block, length);
        block
    }

    fn section(self) -> Vec<u8> {
        let mut content = Vec::new();
        self.put(&mut content, 0x1a2b_3c4d);
        self.put_short(&mut content, 1);
        self.put_short(&mut content, 0);
        content.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &content)
    }

    fn interface(self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut content = Vec::new();
        self.put_short(&mut content, link);
        self.put_short(&mut content, 0);
        self.put(&mut content, snaplen);
        for (code, value) in options {
            self.put_short(&mut content, *code);
            self.put_short(&mut content, value.len() as u16);
            content.extend_from_slice(value);
            content.resize(content.len().next_multiple_of(4), 0);
        }
        self.block(1, &content)
    }

    fn enhanced(self, interface: u32, ticks: u64, bytes: &[u8], claimed: u32) -> Vec<u8> {
        let mut content = Vec::new();
        let numbers = [interface, (ticks >> 32) as u32, ticks as u32, claimed, claimed.saturating_add(1)];
        numbers.iter().for_each(|&number| self.put(&mut content, number));
        content.extend_from_slice(bytes);
        content.resize(content.len().next_multiple_of(4), 0);
        self.block(6, &content)
    }

    fn simple(self, original: u32, bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        self.put(&mut content, original);
        content.extend_from_slice(bytes);
        content.resize(content.len().next_multiple_of(4), 0);
        self.block(3, &content)
    }
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_resolutions() {
    for order in [Order::Little, Order::Big] {
        for (magic, fraction) in [(0xa1b2_c3d4, 7000), (0xa1b2_3c4d, 7)] {
            let mut file = order.pcap(magic, 65535, 1);
            order.pcap_frame(&mut file, (5, 7), b"first");
            order.pcap_frame(&mut file, (6, 0), b"");
            let first = (5_000_000_000 + fraction, Link::Ethernet, b"first".to_vec(), 6);
            let (frames, error) = read_all(&file[..]);
            assert_eq!(frames, [first, (6_000_000_000, Link::Ethernet, vec![], 1)], "{order:?} {error:?}");
            assert!(error.is_none());
        }
    }
}

#[test]
fn the_modified_pcap_has_longer_headers() {
    let mut file = Order::Little.pcap(0xa1b2_cd34, 65535, 101);
    [1, 0, 3, 3, 9, 9].iter().for_each(|&number| Order::Little.put(&mut file, number));
    file.extend_from_slice(b"abc");
    assert_eq!(read_all(&file[..]).0, [(1_000_000_000, Link::Ip, b"abc".to_vec(), 3)]);
}

#[test]
fn pcapng_is_read_in_both_byte_orders_and_sections_begin_anew() {
    let mut file = Vec::new();
    for order in [Order::Little, Order::Big] {
        file.extend(order.section());
        file.extend(order.interface(1, 0, &[]));
        // Nanosecond resolution, and an offset that adds two seconds to the time.
        let offset = match order {
            Order::Little => 2u64.to_le_bytes(),
            Order::Big => 2u64.to_be_bytes(),
        };
        file.extend(order.interface(113, 0, &[(9, &[9]), (14, &offset)]));
        file.extend(order.block(5, b"contents of a statistics block......"));
        file.extend(order.enhanced(0, 3_000_001, b"odd", 3));
        file.extend(order.enhanced(1, 17, b"even", 4));
    }
    let section =
        [(3_000_001_000, Link::Ethernet, b"odd".to_vec(), 4), (2_000_000_017, Link::LinuxCooked, b"even".to_vec(), 5)];
    let (frames, error) = read_all(&file[..]);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames, [section.clone(), section].concat());
}

#[test]
fn ticks_may_be_powers_of_ten_or_two() {
    for (resolution, ticks, nanoseconds) in [
        (0, 3, 3_000_000_000),
        (6, 3, 3000),
        (12, 3_000, 3),
        (0x80 | 10, 1536, 1_500_000_000),
        (0x80 | 63, 1 << 63, 1_000_000_000),
    ] {
        let order = Order::Little;
        let interface = order.interface(1, 0, &[(9, &[resolution])]);
        let file = [order.section(), interface, order.enhanced(0, ticks, b"", 0)].concat();
        assert_eq!(read_all(&file[..]).0[0].0, nanoseconds, "{resolution}");
    }
    let bad = [Order::Little.section(), Order::Little.interface(1, 0, &[(9, &[20])])].concat();
    assert!(matches!(read_all(&bad[..]).1, Some(CaptureError::Malformed { at: 28, .. })));
}

#[test]
fn a_simple_packet_has_the_length_that_fits_and_the_time_before() {
    let order = Order::Big;
    let frames = [order.enhanced(0, 5, b"", 0), order.simple(3, b"abc"), order.simple(9, b"abcdef")];
    let file = [order.section(), order.interface(1, 4, &[]), frames.concat()].concat();
    let simple = |bytes: &[u8], original| (5000, Link::Ethernet, bytes.to_vec(), original);
    assert_eq!(read_all(&file[..]).0[1..], [simple(b"abc", 3), simple(b"abcd", 9)]);
}

#[test]
fn a_truncated_capture_yields_whole_frames_and_then_an_error() {
    let mut pcap = Order::Little.pcap(0xa1b2_c3d4, 65535, 1);
    Order::Little.pcap_frame(&mut pcap, (1, 1), b"whole");
    let whole = pcap.len();
    Order::Little.pcap_frame(&mut pcap, (2, 2), b"cut");
    let order = Order::Little;
    let mut pcapng = [order.section(), order.interface(1, 0, &[]), order.enhanced(0, 1, b"whole", 5)].concat();
    let whole_blocks = pcapng.len();
    pcapng.extend(order.enhanced(0, 1, b"cut", 3));
    for (file, whole) in [(pcap, whole), (pcapng, whole_blocks)] {
        for length in whole + 1..file.len() {
            let (frames, error) = read_all(&file[..length]);
            assert_eq!(frames.len(), 1, "{length}");
            assert!(matches!(error, Some(CaptureError::Truncated { at }) if at == whole as u64), "{length}: {error:?}");
        }
        assert!(read_all(&file[..whole]).1.is_none());
    }
}

#[test]
fn every_beginning_of_a_header_is_truncated_or_no_capture() {
    let header = Order::Little.pcap(0xa1b2_c3d4, 65535, 1);
    assert!(matches!(read_all(&header[..0]).1, Some(CaptureError::NotACapture)));
    for length in 1..header.len() {
        assert!(matches!(read_all(&header[..length]).1, Some(CaptureError::Truncated { at: 0 })), "{length}");
    }
    assert!(matches!(read_all(&b"From someone@example.org"[..]).1, Some(CaptureError::NotACapture)));
}

#[test]
fn a_huge_snaplen_costs_nothing_and_a_frame_at_the_bound_is_read() {
    let mut file = Order::Little.pcap(0xa1b2_c3d4, u32::MAX, 1);
    Order::Little.pcap_frame(&mut file, (1, 1), &vec![7; FRAME_BYTES_MAX]);
    let (frames, error) = read_all(&file[..]);
    assert!(frames[0].2.len() == FRAME_BYTES_MAX && error.is_none());
}

#[test]
fn a_frame_past_the_bound_is_refused_before_it_is_read() {
    let mut pcap = Order::Little.pcap(0xa1b2_c3d4, 65535, 1);
    [1, 1, FRAME_BYTES_MAX as u32 + 1, 9].iter().for_each(|&number| Order::Little.put(&mut pcap, number));
    let error = read_all(&pcap[..]).1.unwrap();
    let message = "the frame at byte 24 is 262145 bytes long, over the limit of 262144";
    assert_eq!(error.to_string(), message);

    let order = Order::Little;
    let long = order.enhanced(0, 1, &vec![0; FRAME_BYTES_MAX + 1], FRAME_BYTES_MAX as u32 + 1);
    let pcapng = [order.section(), order.interface(1, 0, &[]), long].concat();
    assert!(matches!(read_all(&pcapng[..]).1, Some(CaptureError::FrameTooLong { at: 48, bytes: 262_145 })));
    let simple = order.simple(u32::MAX, &vec![0; FRAME_BYTES_MAX + 1]);
    let pcapng = [order.section(), order.interface(1, 0, &[]), simple].concat();
    assert!(matches!(read_all(&pcapng[..]).1, Some(CaptureError::FrameTooLong { at: 48, .. })));
}

#[test]
fn blocks_are_read_to_the_bound_and_not_past_it() {
    let order = Order::Little;
    let long = order.block(0xa, &vec![0; BLOCK_BYTES_MAX - 12]);
    let file = [order.section(), long].concat();
    assert!(read_all(&file[..]).1.is_none());

    let mut longer = order.section();
    order.put(&mut longer, 0xa);
    order.put(&mut longer, BLOCK_BYTES_MAX as u32 + 4);
    order.put(&mut longer, 0);
    assert!(matches!(read_all(&longer[..]).1, Some(CaptureError::BlockTooLong { at: 28, bytes: 16_777_220 })));
}

#[test]
fn interfaces_are_taken_to_the_bound_and_not_past_it() {
    let order = Order::Little;
    let described = |count: usize| [order.section(), order.interface(1, 0, &[]).repeat(count)].concat();
    assert!(read_all(&described(INTERFACES_MAX)[..]).1.is_none());
    let error = read_all(&described(INTERFACES_MAX + 1)[..]).1;
    assert!(matches!(error, Some(CaptureError::TooManyInterfaces { at: 81_948 })), "{error:?}");
}

#[test]
fn inconsistent_blocks_are_malformed() {
    let order = Order::Little;
    let behind_header = |block: Vec<u8>| [order.section(), order.interface(1, 0, &[]), block].concat();
    let mut unequal_lengths = order.enhanced(0, 1, b"four", 4);
    *unequal_lengths.last_mut().unwrap() = 1;
    for (block, what) in [
        (order.enhanced(1, 1, b"four", 4), "undeclared interface"),
        (order.enhanced(0, 1, b"four", 400), "do not match its length"),
        (order.enhanced(0, 1, b"four", u32::MAX), "do not match its length"),
        (unequal_lengths, "do not match its length"),
        (order.block(2, &[0; 20]), "replaced in 2009"),
        (order.block(6, b""), "do not match its length"),
        (vec![9, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0], "impossible block length"),
        (vec![9, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0], "impossible block length"),
        (order.block(0x0a0d_0d0a, &[0; 16]), "byte-order mark"),
    ] {
        let error = read_all(&behind_header(block)[..]).1.expect(what).to_string();
        assert!(error.contains(what) && error.starts_with("at byte 48"), "{error}");
    }
}

#[test]
fn a_pipe_that_delivers_single_bytes_works() {
    struct Drops<'a>(&'a [u8]);
    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }
    let order = Order::Little;
    let file = [order.section(), order.interface(1, 0, &[]), order.enhanced(0, 1, b"whole", 5)].concat();
    assert_eq!(read_all(Drops(&file)).0, [(1000, Link::Ethernet, b"whole".to_vec(), 6)]);
}

#[test]
fn a_read_error_keeps_its_source() {
    #[derive(Debug)]
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk removed"))
        }
    }
    let error = Capture::open(Fails).unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "disk removed");
}

#[test]
fn memory_stays_bounded_by_the_longest_part() {
    let order = Order::Little;
    let mut file = order.pcap(0xa1b2_c3d4, u32::MAX, 1);
    (0..200).for_each(|_| order.pcap_frame(&mut file, (1, 1), &[7; 10_000]));
    let mut capture = Capture::open(&file[..]).unwrap();
    while capture.next_frame().unwrap().is_some() {}
    assert_eq!(capture.window.capacity(), 256 * 1024);
    assert_eq!(capture.position(), file.len() as u64);
}
