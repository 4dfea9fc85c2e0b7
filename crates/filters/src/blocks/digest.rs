//! Digests: what is put into a filter for each block of a payload.

use super::content::ContentKey;
use super::{BlockShape, Run};
use crate::hash::finalise;
use crate::{Fingerprint, FingerprintKey};

/// 2^64 divided by the golden ratio: odd, so that no two places give the same word.
const PLACE_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The keyed name of a host, or of a pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u64);

/// What is recorded beside the content of a block: the survey's three kinds of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Block digest: nothing. Says that a block was seen, and nothing of its place, so there are no doubled blocks either.
    Content,
    /// Offset digest: the block's offset.
    Offset,
    /// Payload digest: the offset, and the host that sent or received it.
    Payload(HostId),
}

impl Label {
    /// The levels on which blocks are recorded with this label.
    pub(super) const fn shape(self, shape: BlockShape) -> BlockShape {
        match self {
            Self::Content => shape.flat(),
            Self::Offset | Self::Payload(_) => shape,
        }
    }

    /// The digest of a block with content hash `content`.
    #[inline]
    pub(super) fn digest(self, content: u64, level: u32, offset: usize) -> Fingerprint {
        match self {
            Self::Content => digest_of(finalise(content)),
            Self::Offset => digest_of(placed(content, level, offset)),
            Self::Payload(host) => hosted(placed(content, level, offset), host),
        }
    }
}

/// A digest of one word: membership filters look at no more of a fingerprint.
#[inline(always)]
const fn digest_of(word: u64) -> Fingerprint {
    Fingerprint::new(word, word)
}

/// Content, level and offset in one word.
#[inline(always)]
fn placed(content: u64, level: u32, offset: usize) -> u64 {
    let place = u64::from(level + 1) << 32 | offset as u64;
    finalise(content ^ place.wrapping_mul(PLACE_MULTIPLIER))
}

#[inline(always)]
fn hosted(placed: u64, host: HostId) -> Fingerprint {
    digest_of(finalise(placed ^ host.0))
}

/// Cuts payloads into blocks and gives their digests, under a secret key.
#[derive(Clone)]
pub struct Digester {
    key: FingerprintKey,
    content: ContentKey,
    shape: BlockShape,
    /// Content hashes of the level at hand, kept for its memory.
    hashes: Vec<u64>,
}

impl Digester {
    /// One for blocks of `shape`, under `key`.
    #[must_use]
    pub fn new(key: &FingerprintKey, shape: BlockShape) -> Self {
        Self { key: key.clone(), content: ContentKey::new(key), shape, hashes: Vec::new() }
    }

    /// How payloads are cut.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.shape
    }

    /// The name of a host under this key.
    #[must_use]
    pub fn host(&self, name: &[u8]) -> HostId {
        HostId(self.key.fingerprint(name).high())
    }

    /// Appends the digests of all whole blocks of `payload`, those of the base level first, and tells how many these are.
    pub fn append(&mut self, payload: &[u8], label: Label, out: &mut Vec<Fingerprint>) -> usize {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        let blocks = self.append_contents(payload, &mut hashes);
        self.hashes = hashes;
        self.append_levels(label, out);
        blocks
    }

    /// The first half of [`append`](Self::append), where all bytes are read: appends the hashes of what the blocks hold.
    pub fn append_contents(&self, payload: &[u8], out: &mut Vec<u64>) -> usize {
        let blocks = payload.chunks_exact(self.shape.block_bytes() as usize);
        let count = blocks.len();
        out.extend(blocks.map(|block| self.content.block(block)));
        count
    }

    /// The second half, for whoever wants to do it elsewhere: appends the digests of a payload whose contents are hashed.
    pub fn append_digests(&mut self, contents: &[u64], label: Label, out: &mut Vec<Fingerprint>) {
        self.hashes.clear();
        self.hashes.extend_from_slice(contents);
        self.append_levels(label, out);
    }

    /// Appends the digests of the hashes at hand and of their doubled blocks.
    fn append_levels(&mut self, label: Label, out: &mut Vec<Fingerprint>) {
        for level in 0..label.shape(self.shape).levels() {
            if level > 0 {
                self.double();
            }
            let hashes = self.hashes.iter().enumerate();
            out.extend(hashes.map(|(offset, &hash)| label.digest(hash, level, offset)));
        }
    }

    /// The digests of `host` for blocks whose offset digests are given.
    pub fn append_for_host(offset_digests: &[Fingerprint], host: HostId, out: &mut Vec<Fingerprint>) {
        out.extend(offset_digests.iter().map(|digest| hosted(digest.high(), host)));
    }

    /// The offset digests of the blocks of `excerpt` that `run` is made of, without doubled ones: to ask for hosts with
    /// [`append_for_host`](Self::append_for_host).
    #[must_use]
    pub fn digests_of(&self, excerpt: &[u8], run: &Run) -> Vec<Fingerprint> {
        let bytes = excerpt.get(run.bytes(self.shape)).unwrap_or_default();
        let blocks = bytes.chunks_exact(self.shape.block_bytes() as usize).zip(run.offset..);
        blocks.map(|(block, offset)| Label::Offset.digest(self.content.block(block), 0, offset)).collect()
    }

    /// From the hashes of one level to those of the next.
    fn double(&mut self) {
        let doubled = self.hashes.len() / 2;
        for index in 0..doubled {
            self.hashes[index] = self.content.doubled(self.hashes[2 * index], self.hashes[2 * index + 1]);
        }
        self.hashes.truncate(doubled);
    }

    /// The content hashes of all blocks of `excerpt` from byte `alignment` on: by level, those of blocks that begin at each
    /// base block, whatever its offset in a payload may be.
    pub(super) fn contents(&self, excerpt: &[u8], alignment: usize, levels: u32) -> Vec<Vec<u64>> {
        let aligned = excerpt.get(alignment..).unwrap_or_default();
        let blocks = aligned.chunks_exact(self.shape.block_bytes() as usize);
        let mut found: Vec<Vec<u64>> = vec![blocks.map(|block| self.content.block(block)).collect()];
        for level in 1..levels {
            let halves = &found[level as usize - 1];
            let half = 1 << (level - 1);
            let seconds = halves.get(half..).unwrap_or_default();
            found.push(
                halves.iter().zip(seconds).map(|(&first, &second)| self.content.doubled(first, second)).collect(),
            );
        }
        found
    }
}

impl std::fmt::Debug for Digester {
    /// Names the key without showing it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digester({:?}, key id {})", self.shape, self.key.id())
    }
}
