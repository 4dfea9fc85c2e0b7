//! Creates the files of `docs/analysts.md`: captures with known contents.
//!
//! ```sh
//! cargo run --release -p bruit-forensics --example analysts -- DIR
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use bruit_forensics::generate::{CaptureWriter, Flow, Plant, Traffic};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

/// Topology for the third question of `docs/analysts.md`.
const TOPOLOGY: &str = "\
[[router]]
name = \"edge-1\"
pages = \"edge-1\"
links = [\"core-1\"]

[[router]]
name = \"edge-2\"
pages = \"edge-2\"
links = [\"core-1\"]

[[router]]
name = \"edge-3\"
pages = \"edge-3\"
links = [\"core-2\"]

[[router]]
name = \"edge-4\"
pages = \"edge-4\"
links = [\"core-2\"]

[[router]]
name = \"core-1\"
pages = \"core-1\"
links = [\"core-2\"]

[[router]]
name = \"core-2\"
pages = \"core-2\"
";

const EDGES: [&str; 4] = ["edge-1", "edge-2", "edge-3", "edge-4"];
const PACKETS: u32 = 20_000;
/// The attack packet, which enters at edge-4 and leaves at edge-1.
const ATTACK: u32 = 12_345;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("missing argument: the directory to create")?);
    fs::create_dir_all(&folder)?;
    office(&folder)?;
    network(&folder)
}

/// An office where a worm is spreading: four packets contain a piece of it.
fn office(folder: &Path) -> Result<(), Box<dyn Error>> {
    let worm: Vec<u8> = (0..1200u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let plant = |packet, offset| Plant { packet, offset, excerpt: worm.clone() };
    let traffic = Traffic {
        hosts: 200,
        flows: 2000,
        packets: 100_000,
        payload_bytes: 0..=1400,
        start: START,
        gap: SECOND / 500,
        planted: vec![plant(20_000, 0), plant(41_000, 64), plant(41_700, 64), plant(77_000, 13)],
        ..Traffic::default()
    };
    traffic.write(BufWriter::new(File::create(folder.join("office.pcap"))?))?;
    Ok(fs::write(folder.join("excerpt.bin"), &worm[400..600])?)
}

/// A network, with one capture per router.
fn network(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::write(folder.join("net.toml"), TOPOLOGY)?;
    for router in ["edge-1", "edge-2", "edge-3", "edge-4", "core-1", "core-2"] {
        let mut capture = CaptureWriter::new(BufWriter::new(File::create(folder.join(format!("{router}.pcap")))?))?;
        for number in 0..PACKETS {
            if let Some(hops) = way(number).iter().position(|passed| *passed == router) {
                let late = hops as u64 * SECOND / 1000;
                capture.write(START + u64::from(number) * SECOND / 200 + late, &frame(number, hops as u8))?;
            }
        }
        capture.finish()?;
    }
    // The packet that the victim kept.
    let mut capture = CaptureWriter::new(BufWriter::new(File::create(folder.join("attack.pcap"))?))?;
    capture.write(START + u64::from(ATTACK) * SECOND / 200 + SECOND / 100, &frame(ATTACK, 4))?;
    capture.finish()?;
    Ok(())
}

/// Returns the routers on the path of a packet.
fn way(number: u32) -> Vec<&'static str> {
    let (from, to) = if number == ATTACK { (3, 0) } else { (number as usize % 4, number as usize / 4 % 4) };
    let core = |edge: usize| if edge < 2 { "core-1" } else { "core-2" };
    let mut way = vec![EDGES[from], core(from), core(to), EDGES[to]];
    way.dedup();
    way
}

/// Returns the frame of a packet after `hops` routers. The attack packet has a forged source address that belongs to no
/// host.
fn frame(number: u32, hops: u8) -> Vec<u8> {
    let traffic = Traffic { hosts: 400, flows: PACKETS, ..Traffic::default() };
    let flow = if number == ATTACK {
        let (source, destination) = (Ipv4Addr::new(198, 51, 100, 7), Ipv4Addr::new(10, 0, 0, 1));
        Flow { source, destination, protocol: 17, ports: (4444, 53) }
    } else {
        traffic.flow(number)
    };
    let mut frame = Vec::new();
    flow.frame(number as u16, 64 - hops, b"an arbitrary payload", &mut frame);
    frame
}
