//! Benchmarks of payload attribution: false positives, compared with the tables of the survey of Bloom filters that
//! `docs/survey` describes; attributions of a worm among a million packets; and the speed of recording.

mod study;
mod worm;

use std::fs::File;
use std::io;

use bruit_filters::FingerprintKey;
use bruit_forensics::attribution::{KIND, Pair, RecordError, Recorder, Settings, Summary};
use bruit_forensics::capture::{Capture, CaptureError};
use bruit_forensics::generate::Traffic;
use bruit_forensics::packet::decode;
use bruit_forensics::pages::Pages;
use bruit_structures::blocks::{BlockShape, LEVELS_MAX};

use crate::report::{Figure, Report, Target};
use crate::timing::{ROUNDS, median, process_time, time};

/// Block size used by the survey's authors.
const BLOCK_BYTES: u32 = 32;
/// Number of packets in the capture used to time recording.
const TIMED_PACKETS: u64 = 400_000;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    study::effective_rates(report)?;
    study::equal_memory(report)?;
    worm::incorrect_attributions(report)?;
    speed(report)
}

/// Compares the time to record a capture with the time to read its frames.
fn speed(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("capture");
    let traffic = Traffic {
        hosts: 5000,
        flows: 20_000,
        packets: TIMED_PACKETS,
        payload_bytes: 100..=1400,
        gap: NANOSECONDS_PER_SECOND / 1000,
        ..Traffic::default()
    };
    traffic.write(io::BufWriter::new(File::create(&path)?))?;
    let bytes = path.metadata()?.len() as f64 / TIMED_PACKETS as f64;
    let open = || Capture::open(File::open(&path).expect("the file was written")).expect("a capture");
    let times: Vec<Times> = (0..ROUNDS)
        .map(|round| {
            let reading = time(|| read(open()).expect("a capture"));
            let pages = folder.path().join(round.to_string());
            let mut hashing = 0.0;
            let record = || record(open(), &pages, settings(64 << 20, 0.01)).expect("a capture");
            let both = process_time(|| hashing = time(record));
            Times { reading, hashing, filling: both - hashing }
        })
        .collect();
    let each = |of: fn(&Times) -> f64| median(times.iter().map(of)) / TIMED_PACKETS as f64;
    let (reading, hashing, filling) = (each(|it| it.reading), each(|it| it.hashing), each(|it| it.filling));
    let note = format!(
        "CPU per packet of {bytes:.0} bytes: {hashing:.0} and {filling:.0} ns in two threads; \
         reading alone {reading:.0} ns"
    );
    let ratio = median(times.iter().map(|it| it.reading / it.hashing.max(it.filling)));
    report.add(Figure::new(
        "speed of attribute build / speed of reading the capture",
        ratio,
        Target::AtLeast(0.3),
        note,
    ))
}

/// CPU times of one round, in nanoseconds. On two cores, recording takes as long as the slower of its two threads.
struct Times {
    /// Time to read the capture without recording it.
    reading: f64,
    /// Time of the recording thread that reads the capture and hashes its blocks.
    hashing: f64,
    /// Time of the recording thread that fills the filters.
    filling: f64,
}

/// Reads all frames.
fn read(mut capture: Capture<File>) -> Result<u64, CaptureError> {
    let mut bytes = 0;
    while let Some(frame) = capture.next_frame()? {
        bytes += frame.bytes.len() as u64;
    }
    Ok(bytes)
}

fn settings(bytes_per_hour: u64, false_positive_rate: f64) -> Settings {
    let shape = BlockShape::new(BLOCK_BYTES, LEVELS_MAX).expect("a valid shape");
    Settings { shape, bytes_per_hour, page_seconds: 600, false_positive_rate }
}

/// Records all packets into pages in `folder`.
fn record(mut capture: Capture<File>, folder: &std::path::Path, settings: Settings) -> Result<Summary, RecordError> {
    let pages = Pages::create_or_open(folder, KIND, 1 << 40)?;
    let mut number = 0u8;
    let mut recorder = Recorder::new(pages, settings, || {
        number += 1;
        FingerprintKey::new([number; 16])
    });
    while let Some(frame) = capture.next_frame().expect("our own capture is valid") {
        let packet = decode(&frame).expect("our own packet is valid");
        let pair = Pair { source: packet.source.into(), destination: packet.destination.into() };
        recorder.record(frame.time / NANOSECONDS_PER_SECOND, &[pair], packet.payload)?;
    }
    recorder.finish()
}
