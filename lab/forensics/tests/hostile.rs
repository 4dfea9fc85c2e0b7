//! Captures in which arbitrary bytes were changed. Reading them never panics, and never returns more than the input
//! contains.

use std::path::Path;

use bruit_forensics::capture::{Capture, CaptureError};
use bruit_forensics::packet::{Tally, decode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Returns valid captures of every kind: the seed corpus of the fuzzer.
fn captures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/capture");
    let entries = std::fs::read_dir(folder).expect("the seeds are part of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect()
}

/// Returns the number of decoded packets, and a tally of the other frames.
fn read(file: &[u8]) -> Result<(u64, Tally), CaptureError> {
    let mut capture = Capture::open(file)?;
    let (mut packets, mut undecoded, mut given) = (0, Tally::default(), 0);
    while let Some(frame) = capture.next_frame()? {
        given += frame.bytes.len();
        assert!(given <= file.len());
        match decode(&frame) {
            Ok(_) => packets += 1,
            Err(reason) => undecoded.count(reason),
        }
    }
    Ok((packets, undecoded))
}

#[test]
fn the_seeds_are_captures_with_packets() {
    let read: Vec<_> = captures().iter().map(|(name, file)| (name.clone(), read(file).unwrap())).collect();
    let of = |name: &str| {
        read.iter().find(|(found, _)| found == name).map(|(_, (packets, tally))| (*packets, tally.total()))
    };
    assert_eq!(of("pcap_ethernet"), Some((6, 1)));
    assert_eq!(of("pcap_big_endian_nanoseconds"), Some((6, 1)));
    assert_eq!(of("pcap_modified_raw"), Some((2, 0)));
    assert_eq!(of("pcap_loopback"), Some((1, 0)));
    assert_eq!(of("pcap_cooked_v2"), Some((1, 0)));
    assert_eq!(of("pcapng_little_endian"), Some((5, 0)));
    assert_eq!(of("pcapng_two_sections"), Some((10, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn captures_with_changed_bytes_are_read_or_refused(
        which in any::<Index>(),
        changes in vec((any::<Index>(), any::<u8>()), 1..12),
        cut in any::<Index>(),
    ) {
        let captures = captures();
        let (_, mut file) = captures[which.index(captures.len())].clone();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = read(&file);
        let _ = read(&file[..cut.index(file.len())]);
    }
}
