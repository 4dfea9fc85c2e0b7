//! Encoding of the index of texts, without its large arrays.
//!
//! The fields, in this order:
//!
//! | field | encoding |
//! |---|---|
//! | generations | count, then for each: epoch (u64) and first number (u64) |
//! | records | count, then for each: features stored of each quarter (4 × u8), features that count, with a bit for templates (u32), fingerprint |
//! | wholes | count, then for each, in ascending order: fingerprint and number of the report (u64) |
//! | good mail | index of the generation that learns (u8, 0 or 1), number of messages that each generation can still learn (2 × u64) |
//!
//! The snapshot writes the arrays separately: the owner table, and the filters `good` and `seen` of each generation.

use std::collections::{HashMap, VecDeque};

use bruit_filters::owners::Owner;
use bruit_signatures::bruit::Stored;

use super::{Replicas, TextRecord, wholes_max};
use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::generations::LIVE_GENERATIONS;

/// Maximum number of generations: the live ones, and one that has just expired.
const GENERATIONS_MAX: usize = LIVE_GENERATIONS as usize + 1;

impl Replicas {
    /// Appends everything except the arrays.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.generations.len());
        for (epoch, first) in &self.generations {
            out.extend(epoch.to_le_bytes());
            out.extend(first.to_le_bytes());
        }
        put_count(out, self.records.len());
        self.records.iter().for_each(|record| record.encode(out));
        let mut wholes: Vec<_> = self.wholes.iter().map(|(whole, owner)| (*whole, owner.number())).collect();
        wholes.sort_unstable();
        put_count(out, wholes.len());
        for (whole, number) in wholes {
            put_fingerprint(out, whole);
            out.extend(number.to_le_bytes());
        }
        out.push(self.good.current as u8);
        for generation in &self.good.generations {
            out.extend(generation.left.to_le_bytes());
        }
    }

    /// Decodes the output of [`encode`](Self::encode) into a new index. The arrays are restored afterwards.
    pub(crate) fn decode(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let count = reader.count(GENERATIONS_MAX, 16, "the number of text generations")?;
        let mut pair = |what| Ok((reader.u64(what)?, reader.u64(what)?));
        self.generations = (0..count).map(|_| pair("a text generation")).collect::<Result<_, _>>()?;
        let count = reader.count(self.records_max, TextRecord::BYTES, "the number of text records")?;
        let records: Result<VecDeque<_>, _> = (0..count).map(|_| TextRecord::decode(reader)).collect();
        self.records.extend(records?);
        let count = reader.count(wholes_max(self.records_max), 24, "the number of whole texts")?;
        let mut whole = || {
            Ok((
                reader.fingerprint("the fingerprint of a whole text")?,
                Owner::from_number(reader.u64("the report number of a whole text")?),
            ))
        };
        self.wholes.extend((0..count).map(|_| whole()).collect::<Result<HashMap<_, _>, _>>()?);
        self.decode_good(reader)
    }

    fn decode_good(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let what = "the capacity for good mail";
        let capacity = self.good.capacity;
        self.good.current = usize::from(reader.u8(what)?);
        if self.good.current > 1 {
            return Err(Malformed::OutOfRange { what, value: self.good.current as u64 });
        }
        for generation in &mut self.good.generations {
            generation.left = reader.u64(what)?;
            if generation.left > capacity {
                return Err(Malformed::OutOfRange { what, value: generation.left });
            }
        }
        Ok(())
    }
}

impl TextRecord {
    const BYTES: usize = 24;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.marked.by_quarter);
        out.extend(self.marked.features.to_le_bytes());
        put_fingerprint(out, self.fingerprint);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let by_quarter = reader.array("the record of a text")?;
        let features = reader.u32("the record of a text")?;
        let fingerprint = reader.fingerprint("the record of a text")?;
        Ok(Self { marked: Stored { by_quarter, features }, fingerprint })
    }
}
