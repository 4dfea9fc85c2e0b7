//! Synthetic traffic with known contents, for tests, benches and examples only.
//!
//! All traffic is derived from the seed. The flows of a [`Traffic`] are ranked, and the packets are distributed among
//! them by Zipf's law. Each [`Plant`] inserts an excerpt. [`Traffic::write`] writes a pcap file and returns the
//! [`Truth`] about it.

mod flow;
mod writer;
mod zipf;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use crate::capture::Nanoseconds;
use crate::random::Random;
pub use flow::Flow;
pub use writer::CaptureWriter;
use zipf::Zipf;

/// Maximum number of hosts. Their addresses are in 10.0.0.0/8.
pub const HOSTS_MAX: u32 = 1 << 24;

const TIME_TO_LIVE: u8 = 64;
const STREAM_OF_RANKS: u64 = 1;
const STREAM_OF_PAYLOADS: u64 = 2;

/// Description of the traffic to generate.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Number of hosts: 2 to [`HOSTS_MAX`].
    pub hosts: u32,
    /// Number of distinct five-tuples, at least 1.
    pub flows: u32,
    /// Number of packets.
    pub packets: u64,
    /// Range of payload lengths, uniformly distributed.
    pub payload_bytes: RangeInclusive<u16>,
    /// Exponent of Zipf's law. The flow of rank r, counted from 1, has a share of the packets proportional to
    /// r^(−exponent). With 0, all flows have the same share.
    pub zipf_exponent: f64,
    /// Time of the first packet.
    pub start: Nanoseconds,
    /// Time between packets.
    pub gap: Nanoseconds,
    /// Seed of all random choices.
    pub seed: u64,
    /// Excerpts to insert.
    pub planted: Vec<Plant>,
}

/// An excerpt to insert into the payload of one packet. The payload is extended if necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    /// Index of the packet, from 0.
    pub packet: u64,
    /// Offset in the payload.
    pub offset: u16,
    /// The excerpt.
    pub excerpt: Vec<u8>,
}

/// The known contents of a generated capture.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Number of packets of each flow, indexed by rank from 0.
    pub packets: Vec<u64>,
    /// The inserted excerpts, in the order of their packets.
    pub planted: Vec<PlantedExcerpt>,
}

/// Place of an inserted excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedExcerpt {
    /// Index in [`Traffic::planted`].
    pub plant: usize,
    /// Flow of the packet.
    pub flow: Flow,
    /// Time of the packet.
    pub time: Nanoseconds,
}

impl Default for Traffic {
    /// Returns a thousand packets of a hundred flows between fifty hosts, on a day in 2023.
    fn default() -> Self {
        Self {
            hosts: 50,
            flows: 100,
            packets: 1000,
            payload_bytes: 0..=1000,
            zipf_exponent: 1.0,
            start: 1_700_000_000_000_000_000,
            gap: 1_000_000,
            seed: 1,
            planted: Vec::new(),
        }
    }
}

impl Traffic {
    /// Returns the flow with this rank, from 0. All flows are distinct.
    #[must_use]
    pub fn flow(&self, rank: u32) -> Flow {
        Flow::of_rank(rank, self.hosts, self.seed)
    }

    /// Returns the address of the host with this number, from 0.
    #[must_use]
    pub const fn host(number: u32) -> Ipv4Addr {
        flow::host(number)
    }

    /// Iterates over the ranks of all packets, in order.
    ///
    /// # Panics
    /// If there are no flows.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        let zipf = Zipf::new(self.flows, self.zipf_exponent);
        let mut random = Random::stream(self.seed, STREAM_OF_RANKS);
        (0..self.packets).map(move |_| zipf.rank(random.unit()))
    }

    /// Writes a pcap file with nanosecond timestamps.
    ///
    /// # Errors
    /// An error if writing to `output` fails.
    pub fn write(&self, output: impl Write) -> io::Result<Truth> {
        let mut writer = CaptureWriter::new(output)?;
        let mut random = Random::stream(self.seed, STREAM_OF_PAYLOADS);
        let mut truth = Truth { packets: vec![0; self.flows as usize], planted: Vec::new() };
        let plants = self.plants_by_packet();
        let (mut payload, mut frame) = (Vec::new(), Vec::new());
        for (number, rank) in self.ranks().enumerate() {
            let (flow, time) = (self.flow(rank), self.start + number as u64 * self.gap);
            self.draw_payload(&mut random, &mut payload);
            for &plant in plants.get(&(number as u64)).into_iter().flatten() {
                self.planted[plant].put_into(&mut payload);
                truth.planted.push(PlantedExcerpt { plant, flow, time });
            }
            flow.frame(number as u16, TIME_TO_LIVE, &payload, &mut frame);
            writer.write(time, &frame)?;
            truth.packets[rank as usize] += 1;
        }
        writer.finish()?;
        Ok(truth)
    }

    fn plants_by_packet(&self) -> HashMap<u64, Vec<usize>> {
        let mut plants: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, plant) in self.planted.iter().enumerate() {
            plants.entry(plant.packet).or_default().push(index);
        }
        plants
    }

    fn draw_payload(&self, random: &mut Random, payload: &mut Vec<u8>) {
        let (least, most) = (*self.payload_bytes.start(), *self.payload_bytes.end());
        let length = usize::from(least) + random.below(u64::from(most.saturating_sub(least)) + 1) as usize;
        payload.resize(length, 0);
        for bytes in payload.chunks_mut(8) {
            bytes.copy_from_slice(&random.next().to_le_bytes()[..bytes.len()]);
        }
    }
}

impl Plant {
    fn put_into(&self, payload: &mut Vec<u8>) {
        let range = usize::from(self.offset)..usize::from(self.offset) + self.excerpt.len();
        if payload.len() < range.end {
            payload.resize(range.end, 0);
        }
        payload[range].copy_from_slice(&self.excerpt);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::capture::Capture;
    use crate::packet::decode;

    #[test]
    fn the_capture_is_what_the_truth_says() {
        let plant = Plant { packet: 7, offset: 995, excerpt: b"an excerpt".to_vec() };
        let traffic = Traffic { planted: vec![plant], ..Traffic::default() };
        let mut file = Vec::new();
        let truth = traffic.write(&mut file).unwrap();
        let mut capture = Capture::open(&file[..]).unwrap();
        let (mut packets, mut found) = (HashMap::new(), Vec::new());
        while let Some(frame) = capture.next_frame().unwrap() {
            let packet = decode(&frame).unwrap();
            let flow = Flow::of_packet(&packet).unwrap();
            *packets.entry(flow).or_insert(0u64) += 1;
            if packet.payload.get(995..1005) == Some(b"an excerpt") {
                found.push(PlantedExcerpt { plant: 0, flow, time: frame.time });
            }
        }
        assert_eq!(found, truth.planted);
        assert_eq!(truth.packets.iter().sum::<u64>(), 1000);
        for (rank, &count) in truth.packets.iter().enumerate() {
            assert_eq!(packets.get(&traffic.flow(rank as u32)).copied().unwrap_or(0), count);
        }
    }

    #[test]
    fn flows_of_unlike_ranks_are_unlike() {
        let traffic = Traffic { hosts: 10, flows: 20_000, ..Traffic::default() };
        let flows: HashSet<_> = (0..traffic.flows).map(|rank| traffic.flow(rank)).collect();
        assert_eq!(flows.len(), 20_000);
        assert!(flows.iter().all(|flow| flow.source != flow.destination));
    }

    #[test]
    fn equal_seeds_give_equal_bytes_and_others_do_not() {
        let bytes = |seed| {
            let mut file = Vec::new();
            Traffic { seed, ..Traffic::default() }.write(&mut file).unwrap();
            file
        };
        assert!(bytes(1) == bytes(1) && bytes(1) != bytes(2));
    }
}
