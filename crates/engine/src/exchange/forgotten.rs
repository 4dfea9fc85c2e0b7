//! Servers whose data was taken back, for example after a break-in.

use std::collections::BTreeMap;

use super::{Exchange, Hash};
use crate::codec::{Malformed, Reader, put_count};
use crate::time::Time;

/// Maximum number of servers with a record of having been forgotten.
pub const FORGOTTEN_MAX: usize = 128;

/// Encoded length of a record.
const RECORD_BYTES: usize = 32 + 8 + 32 + 1;

/// A record of a server that was forgotten, and perhaps accepted again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Time of the last change, by the clock of the node where the operator made it.
    pub at: Time,
    /// Key of the node where the operator made the last change.
    pub by: Hash,
    /// True if the server's segments are refused, false if they are accepted again.
    pub is_forgotten: bool,
    /// True if the server's data is gone from this clearinghouse.
    pub is_done: bool,
}

impl Exchange {
    /// Iterates over the records of forgotten servers, by key.
    pub fn forgotten(&self) -> impl Iterator<Item = ([u8; 32], Forgotten)> + '_ {
        self.forgotten.iter().map(|(&key, &record)| (key, record))
    }

    /// Returns true if the segments of a server are refused because it was forgotten.
    #[must_use]
    pub fn is_forgotten(&self, key: &[u8; 32]) -> bool {
        self.forgotten.get(key).is_some_and(|record| record.is_forgotten)
    }

    /// Returns true if a change made at `at` can be recorded. If the server has a record, the change must be newer than
    /// the recorded one. If not, there must be space for another record.
    pub(crate) fn may_forget(&self, key: &[u8; 32], at: Time) -> bool {
        match self.forgotten.get(key) {
            Some(record) => record.at < at,
            None => self.forgotten.len() < FORGOTTEN_MAX,
        }
    }

    /// Records that a server was forgotten. Other servers that were forgotten by a command on the forgotten server are
    /// accepted again.
    pub(crate) fn record_forgotten(&mut self, key: [u8; 32], at: Time, by: [u8; 32]) {
        self.forgotten.insert(key, Forgotten { at, by, is_forgotten: true, is_done: false });
        for record in self.forgotten.values_mut().filter(|record| record.by == key) {
            record.is_forgotten = false;
        }
    }

    /// Records that a server's segments are accepted again.
    pub(crate) fn record_restored(&mut self, key: [u8; 32], at: Time, by: [u8; 32]) {
        self.forgotten.insert(key, Forgotten { at, by, is_forgotten: false, is_done: true });
    }

    /// Records that the data of all forgotten servers is gone, and drops the frontiers of their chains. The frontiers
    /// of texts are kept, because applying texts again would increase their weight.
    pub(crate) fn finish_forgetting(&mut self) {
        let Self { forgotten, chains, .. } = self;
        let is_over = |key: &[u8; 32]| forgotten.get(key).is_some_and(|record| record.is_forgotten && !record.is_done);
        chains.retain(|chain, _| chain.book == super::Book::Texts || !is_over(&chain.origin.key));
        forgotten.values_mut().for_each(|record| record.is_done = true);
    }

    pub(crate) fn encode_forgotten(&self, out: &mut Vec<u8>) {
        put_count(out, self.forgotten.len());
        for (key, Forgotten { at, by, is_forgotten, is_done }) in &self.forgotten {
            out.extend(key);
            out.extend(at.0.to_le_bytes());
            out.extend(by);
            out.push(u8::from(*is_forgotten) | u8::from(*is_done) << 1);
        }
    }

    /// Reads the records. Snapshots of version 6 and later contain them.
    pub(crate) fn decode_forgotten(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let count = reader.count(FORGOTTEN_MAX, RECORD_BYTES, "the number of forgotten servers")?;
        let mut record = || {
            let key = reader.array("a key")?;
            let (at, by) = (Time(reader.u64("a time")?), reader.array("a key")?);
            let flags = reader.u8("the flags of a forgotten server")?;
            if flags > 3 {
                return Err(Malformed::OutOfRange { what: "the flags of a forgotten server", value: flags.into() });
            }
            Ok((key, Forgotten { at, by, is_forgotten: flags & 1 == 1, is_done: flags & 2 == 2 }))
        };
        self.forgotten = (0..count).map(|_| record()).collect::<Result<BTreeMap<_, _>, _>>()?;
        Ok(())
    }
}
