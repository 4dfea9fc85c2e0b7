//! Encoding of the exchange state in snapshots.

use std::collections::BTreeMap;

use super::entries::entry_bytes;
use super::pending::{PENDING_BYTES_MAX, Pending};
use super::{
    Book, Chain, Exchange, Frontier, INCARNATIONS_MAX, MEMBERS_MAX, Member, MemberTotals, Origin, Relation, Terms,
};
use crate::codec::{Malformed, Reader, put_count};
use crate::trust::{Standing, read_standing};

/// Maximum number of live chains: for every incarnation of all members and of this server, one in each book and lane.
const CHAINS_MAX: usize = (MEMBERS_MAX + 1) * INCARNATIONS_MAX * Book::ALL.len() * 8;

/// Maximum length of the pending entries of a book, including the entries by which a single event may exceed the limit.
const PENDING_BYTES_READ_MAX: usize = PENDING_BYTES_MAX + (1 << 20);

impl Exchange {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend([u8::from(self.own.is_some()), u8::from(self.cluster)]);
        put_origin(out, &self.own.unwrap_or(Origin { key: [0; 32], incarnation: 0 }));
        put_count(out, self.members.len());
        for (key, Member { terms, learned }) in &self.members {
            out.extend(key);
            put_terms(out, terms);
            out.extend(learned.entries.to_le_bytes());
            out.extend(learned.refused.to_le_bytes());
        }
        put_count(out, self.chains.len());
        for (chain, frontier) in &self.chains {
            put_chain(out, chain);
            put_frontier(out, frontier);
        }
        put_count(out, self.pending.waiting.len());
        for (&(book, generation), waiting) in &self.pending.waiting {
            out.push(book as u8);
            out.extend(generation.to_le_bytes());
            put_count(out, waiting.len());
            out.extend(waiting);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let has_own = read_bool(reader)?;
        let cluster = read_bool(reader)?;
        let own = Some(read_origin(reader)?).filter(|_| has_own);
        let count = reader.count(MEMBERS_MAX, 32, "the number of servers")?;
        let members =
            (0..count).map(|_| Ok((reader.array("a key")?, read_member(reader)?))).collect::<Result<_, _>>()?;
        let count = reader.count(CHAINS_MAX, 49, "the number of chains")?;
        let chains = (0..count).map(|_| Ok((read_chain(reader)?, read_frontier(reader)?))).collect::<Result<_, _>>()?;
        let pending = read_pending(reader)?;
        Ok(Self { own, cluster, members, chains, pending, forgotten: BTreeMap::new() })
    }
}

pub(crate) fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    out.extend(origin.key);
    out.extend(origin.incarnation.to_le_bytes());
}

pub(crate) fn read_origin(reader: &mut Reader<'_>) -> Result<Origin, Malformed> {
    Ok(Origin { key: reader.array("the key of a server")?, incarnation: reader.u64("an incarnation")? })
}

pub(crate) fn put_chain(out: &mut Vec<u8>, chain: &Chain) {
    put_origin(out, &chain.origin);
    out.push(chain.book as u8);
    out.extend(chain.generation.to_le_bytes());
}

pub(crate) fn read_chain(reader: &mut Reader<'_>) -> Result<Chain, Malformed> {
    Ok(Chain { origin: read_origin(reader)?, book: read_book(reader)?, generation: reader.u64("a generation")? })
}

pub(crate) fn read_book(reader: &mut Reader<'_>) -> Result<Book, Malformed> {
    let number = reader.u8("a book")?;
    Book::from_number(number).ok_or_else(|| Malformed::OutOfRange { what: "a book", value: number.into() })
}

pub(crate) fn put_terms(out: &mut Vec<u8>, terms: &Terms) {
    out.extend([u8::from(terms.relation == Relation::Peer), terms.standing as u8]);
    out.extend(terms.group.to_le_bytes());
    out.extend(terms.cap.to_le_bytes());
}

/// Reads terms. Refuses the standings of own users and traps, which another server never has.
pub(crate) fn read_terms(reader: &mut Reader<'_>) -> Result<Terms, Malformed> {
    let relation = if read_bool(reader)? { Relation::Peer } else { Relation::Cluster };
    let standing = read_standing(reader)?;
    if !matches!(standing, Standing::Pinned | Standing::Account) {
        return Err(Malformed::OutOfRange { what: "the standing of a server", value: standing as u64 });
    }
    Ok(Terms { relation, standing, group: reader.u64("a group")?, cap: reader.u32("a cap")? })
}

fn put_frontier(out: &mut Vec<u8>, frontier: &Frontier) {
    out.extend(frontier.sequence.to_le_bytes());
    out.extend(frontier.hash);
    [frontier.offset, frontier.entries, frontier.digest].iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn read_frontier(reader: &mut Reader<'_>) -> Result<Frontier, Malformed> {
    Ok(Frontier {
        sequence: reader.u64("a sequence")?,
        hash: reader.array("the hash of a segment")?,
        offset: reader.u64("an offset")?,
        entries: reader.u64("a number of entries")?,
        digest: reader.u64("a digest")?,
    })
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, Malformed> {
    let terms = read_terms(reader)?;
    let learned = MemberTotals {
        entries: reader.u64("the number of entries applied")?,
        refused: reader.u64("the number of entries refused")?,
    };
    Ok(Member { terms, learned })
}

fn read_pending(reader: &mut Reader<'_>) -> Result<Pending, Malformed> {
    let count = reader.count(Book::ALL.len() * 8, 13, "the number of books with pending entries")?;
    let mut waiting = BTreeMap::new();
    for _ in 0..count {
        let (book, generation) = (read_book(reader)?, reader.u64("a generation")?);
        let length = reader.count(PENDING_BYTES_READ_MAX, 1, "the length of pending entries")?;
        let bytes = reader.bytes(length, "pending entries")?;
        ensure_entries(book, bytes)?;
        waiting.insert((book, generation), bytes.to_vec());
    }
    Ok(Pending::new(waiting))
}

fn ensure_entries(book: Book, mut bytes: &[u8]) -> Result<(), Malformed> {
    while !bytes.is_empty() {
        bytes = bytes.get(entry_bytes(book, bytes)?..).unwrap_or_default();
    }
    Ok(())
}

fn read_bool(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("a boolean")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Malformed::OutOfRange { what: "a boolean", value: value.into() }),
    }
}
