//! A worm among a million packets: how many of its carriers are missed, and how many attributions are false.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use bruit_forensics::attribution::{Host, KIND, PAGE_BYTES_MAX, Page, Pair, Question, query};
use bruit_forensics::capture::Capture;
use bruit_forensics::generate::{Plant, Traffic, Truth};
use bruit_forensics::pages::{PageName, Pages};

use super::{NANOSECONDS_PER_SECOND, record, settings};
use crate::keys::mixed;
use crate::report::{Figure, Report, Target};

const PACKETS: u64 = 1_000_000;
/// One packet in this many carries the worm.
const WORM_EVERY: u64 = 1000;
const WORM_BYTES: u64 = 800;
/// Offsets of the worm in a payload. Only a few programs send it, each at its own offset.
const WORM_OFFSETS: [u16; 4] = [0, 54, 91, 200];
/// Number of excerpts per length. With a thousand carriers, the number of correct attributions is then about the same
/// as in the survey.
const EXCERPTS: u64 = 25;

/// Lengths of excerpts in bytes, and the survey's number of incorrect attributions for each (with 25,328 correct ones).
const SURVEY: [(usize, u32); 6] = [(96, 1375), (128, 932), (160, 695), (192, 500), (224, 293), (256, 33)];

/// Disk space per hour, and the false-positive rate for which filters are sized.
const SIZES: [(u64, f64); 3] = [(96 << 20, 0.01), (64 << 20, 0.01), (48 << 20, 0.05)];

pub(super) fn incorrect_attributions(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("capture");
    let traffic = traffic();
    let truth = traffic.write(io::BufWriter::new(File::create(&path)?))?;
    for (number, (bytes_per_hour, rate)) in SIZES.into_iter().enumerate() {
        let pages = folder.path().join(number.to_string());
        let capture = Capture::open(File::open(&path)?).map_err(io::Error::other)?;
        record(capture, &pages, settings(bytes_per_hour, rate)).map_err(io::Error::other)?;
        let what = format!("{} MiB per hour", bytes_per_hour >> 20);
        ask(report, &what, &pages, &truth, path.metadata()?.len())?;
    }
    Ok(())
}

/// Returns the traffic of one hour between thousands of hosts.
fn traffic() -> Traffic {
    let plant = |packet| Plant {
        packet,
        offset: WORM_OFFSETS[(mixed(packet) % WORM_OFFSETS.len() as u64) as usize],
        excerpt: worm(),
    };
    Traffic {
        hosts: 5000,
        flows: 20_000,
        packets: PACKETS,
        payload_bytes: 100..=1100,
        zipf_exponent: 0.5,
        start: 1_700_000_400 * NANOSECONDS_PER_SECOND,
        gap: 3600 * NANOSECONDS_PER_SECOND / PACKETS,
        seed: 8,
        planted: (0..PACKETS).step_by(WORM_EVERY as usize).map(plant).collect(),
    }
}

fn worm() -> Vec<u8> {
    (0..WORM_BYTES / 8).flat_map(|word| mixed(1 << 62 | word).to_le_bytes()).collect()
}

/// Queries every page for excerpts of every length, and counts attributions.
fn ask(report: &mut Report, what: &str, folder: &Path, truth: &Truth, capture_bytes: u64) -> io::Result<()> {
    let pages = Pages::open(folder, KIND).map_err(io::Error::other)?;
    let read = |name: &PageName| -> io::Result<Page> {
        let bytes = pages.read(name, PAGE_BYTES_MAX).map_err(io::Error::other)?;
        Page::from_bytes(name.span, &bytes).map_err(io::Error::other)
    };
    let asked = pages.list().iter().map(read).collect::<io::Result<Vec<Page>>>()?;
    let (mut missed, mut correct, disk) = (0, 0, capture_bytes as f64 / pages.bytes() as f64);
    for (length, survey) in SURVEY {
        let mut incorrect = 0;
        for page in &asked {
            let carriers = carriers(page, truth);
            for number in 0..EXCERPTS {
                let start = (mixed(number) % (WORM_BYTES - length as u64)) as usize;
                let named = named(page, &worm()[start..start + length]);
                correct += carriers.intersection(&named).count();
                missed += carriers.difference(&named).count();
                incorrect += named.difference(&carriers).count();
            }
        }
        let name = format!("incorrect attributions of a worm, excerpts of {length} bytes, {what}");
        let note = format!("survey: {survey} incorrect, 25,328 correct; pages are 1/{disk:.0} the size of the capture");
        report.add(Figure::new(name, incorrect as f64, Target::None, note))?;
    }
    let name = format!("carriers of a worm that are missed, {what}");
    let note = format!("{} correct attributions per length", correct / SURVEY.len());
    report.add(Figure::new(name, missed as f64, Target::AtMost(0.0), note))
}

/// Returns the pairs of hosts between which the worm was sent in the span of `page`, according to the known traffic.
fn carriers(page: &Page, truth: &Truth) -> BTreeSet<Pair> {
    let span = page.span();
    let within = truth.planted.iter().filter(|planted| {
        let second = planted.time / NANOSECONDS_PER_SECOND;
        span.from <= second && second <= span.to
    });
    let host = |address: std::net::Ipv4Addr| Host::Address(address.into());
    within
        .map(|planted| Pair { source: host(planted.flow.source), destination: host(planted.flow.destination) })
        .collect()
}

/// Returns the pairs of hosts between which all of `excerpt` was sent, according to the page.
fn named(page: &Page, excerpt: &[u8]) -> BTreeSet<Pair> {
    let answer = query(page, &Question::new(excerpt, 1)).expect("the excerpt has a valid length");
    let whole = answer.attributions.into_iter().filter(|attribution| attribution.part.is_whole);
    whole.map(|attribution| attribution.listed.pair).collect()
}
