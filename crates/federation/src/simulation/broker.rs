//! A broker that stores what nodes publish, and forgets it.

use std::collections::BTreeMap;

use bruit_engine::exchange::{Chain, Origin};

use crate::heads::UnverifiedHeads;
use crate::transport::FETCH_BYTES_MAX;

/// The streams of a broker.
#[derive(Debug, Default)]
pub struct Broker {
    pieces: BTreeMap<Chain, Vec<(u64, Vec<u8>)>>,
    heads: BTreeMap<Origin, Vec<u8>>,
    archive: BTreeMap<Chain, Vec<u8>>,
}

impl Broker {
    /// Stores a segment at an offset of its chain's log.
    pub fn publish(&mut self, chain: &Chain, offset: u64, segment: &[u8]) {
        self.pieces.entry(*chain).or_default().push((offset, segment.to_vec()));
    }

    /// Returns the end of the last piece of a chain that was published.
    #[must_use]
    pub fn published(&self, chain: &Chain) -> u64 {
        let last = self.pieces.get(chain).and_then(|pieces| pieces.last());
        last.map_or(0, |(offset, segment)| offset + segment.len() as u64)
    }

    /// Stores heads in place of earlier ones of their origin.
    pub fn announce(&mut self, heads: &[u8]) {
        let origin = UnverifiedHeads::decode(heads).unwrap().origin();
        self.heads.insert(origin, heads.to_vec());
    }

    /// Stores the whole log of a chain.
    pub fn archive(&mut self, chain: &Chain, log: &[u8]) {
        self.archive.insert(*chain, log.to_vec());
    }

    /// Returns the contiguous part of a log that starts at `offset`.
    #[must_use]
    pub fn read(&self, chain: &Chain, offset: u64) -> Vec<u8> {
        let (mut end, mut log) = (offset, Vec::new());
        for (at, piece) in self.pieces.get(chain).into_iter().flatten() {
            let next = at + piece.len() as u64;
            if next <= end {
                continue;
            }
            if *at > end || log.len() >= FETCH_BYTES_MAX {
                break;
            }
            log.extend(&piece[(end - at) as usize..]);
            end = next;
        }
        if log.is_empty() {
            let archived = self.archive.get(chain).and_then(|log| log.get(offset as usize..));
            log = archived.unwrap_or_default().to_vec();
        }
        log
    }

    /// Returns all stored heads.
    #[must_use]
    pub fn heads(&self) -> Vec<Vec<u8>> {
        self.heads.values().cloned().collect()
    }

    /// Loses the part that `kind` selects: everything, all heads, the ends of all logs, or some pieces.
    pub fn forget(&mut self, kind: u32) {
        match kind {
            0 => *self = Self::default(),
            1 => self.heads.clear(),
            2 => self.pieces.values_mut().for_each(|pieces| drop(pieces.pop())),
            _ => self.pieces.values_mut().filter(|pieces| pieces.len() > 2).for_each(|pieces| drop(pieces.remove(1))),
        }
    }
}
