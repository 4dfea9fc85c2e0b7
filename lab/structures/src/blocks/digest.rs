//! Digests: the keys that represent the blocks of a payload in a filter.

use super::content::ContentKey;
use super::{BlockShape, Run};
use bruit_filters::internal::finalise;
use bruit_filters::{Fingerprint, FingerprintKey};

/// 2^64 divided by the golden ratio. It is odd, so different places map to different words.
const PLACE_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The keyed ID of a host, or of a pair of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u64);

/// Data recorded together with the content of a block. The variants are the survey's three kinds of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Block digest: only the content. It shows that a block was seen, but not at which offset, so there are no doubled
    /// blocks.
    Content,
    /// Offset digest: the content and the block's offset.
    Offset,
    /// Payload digest: content, offset, and the host that sent or received it.
    Payload(HostId),
}

impl Label {
    /// Returns the shape of the blocks that are recorded with this label.
    pub(super) const fn shape(self, shape: BlockShape) -> BlockShape {
        match self {
            Self::Content => shape.flat(),
            Self::Offset | Self::Payload(_) => shape,
        }
    }

    /// Returns the digest of a block with content hash `content`.
    #[inline]
    pub(super) fn digest(self, content: u64, level: u32, offset: usize) -> Fingerprint {
        match self {
            Self::Content => digest_of(finalise(content)),
            Self::Offset => digest_of(placed(content, level, offset)),
            Self::Payload(host) => hosted(placed(content, level, offset), host),
        }
    }
}

/// Returns a digest of one word. Membership filters use only one word of a fingerprint.
#[inline(always)]
const fn digest_of(word: u64) -> Fingerprint {
    Fingerprint::new(word, word)
}

/// Combines content, level and offset in one word.
#[inline(always)]
fn placed(content: u64, level: u32, offset: usize) -> u64 {
    let place = u64::from(level + 1) << 32 | offset as u64;
    finalise(content ^ place.wrapping_mul(PLACE_MULTIPLIER))
}

#[inline(always)]
fn hosted(placed: u64, host: HostId) -> Fingerprint {
    digest_of(finalise(placed ^ host.0))
}

/// Splits payloads into blocks and computes their digests under a secret key.
#[derive(Clone)]
pub struct Digester {
    key: FingerprintKey,
    content: ContentKey,
    shape: BlockShape,
    /// Content hashes of the current level. Kept only to reuse the memory.
    hashes: Vec<u64>,
}

impl Digester {
    /// Creates a digester for blocks of `shape`, with `key`.
    #[must_use]
    pub fn new(key: &FingerprintKey, shape: BlockShape) -> Self {
        Self { key: key.clone(), content: ContentKey::new(key), shape, hashes: Vec::new() }
    }

    /// Returns the shape of the blocks.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.shape
    }

    /// Returns the ID of a host under this key.
    #[must_use]
    pub fn host(&self, name: &[u8]) -> HostId {
        HostId(self.key.fingerprint(name).high())
    }

    /// Appends the digests of all whole blocks of `payload`, base level first, and returns the number of base blocks.
    pub fn append(&mut self, payload: &[u8], label: Label, out: &mut Vec<Fingerprint>) -> usize {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        let blocks = self.append_contents(payload, &mut hashes);
        self.hashes = hashes;
        self.append_levels(label, out);
        blocks
    }

    /// Appends the hashes of the blocks' contents. This is the first half of [`append`](Self::append), the half that
    /// reads all bytes.
    pub fn append_contents(&self, payload: &[u8], out: &mut Vec<u64>) -> usize {
        let blocks = payload.chunks_exact(self.shape.block_bytes() as usize);
        let count = blocks.len();
        out.extend(blocks.map(|block| self.content.block(block)));
        count
    }

    /// Appends the digests of a payload, computed from the hashes of its contents. This is the second half of
    /// [`append`](Self::append), and can run on another thread.
    pub fn append_digests(&mut self, contents: &[u64], label: Label, out: &mut Vec<Fingerprint>) {
        self.hashes.clear();
        self.hashes.extend_from_slice(contents);
        self.append_levels(label, out);
    }

    /// Appends the digests of the current hashes and of their doubled blocks.
    fn append_levels(&mut self, label: Label, out: &mut Vec<Fingerprint>) {
        for level in 0..label.shape(self.shape).levels() {
            if level > 0 {
                self.double();
            }
            let hashes = self.hashes.iter().enumerate();
            out.extend(hashes.map(|(offset, &hash)| label.digest(hash, level, offset)));
        }
    }

    /// Appends the payload digests of blocks for `host`, computed from the offset digests of these blocks.
    pub fn append_for_host(offset_digests: &[Fingerprint], host: HostId, out: &mut Vec<Fingerprint>) {
        out.extend(offset_digests.iter().map(|digest| hosted(digest.high(), host)));
    }

    /// Returns the offset digests of the base blocks of `excerpt` that `run` covers.
    /// [`append_for_host`](Self::append_for_host) uses them to search for hosts.
    #[must_use]
    pub fn digests_of(&self, excerpt: &[u8], run: &Run) -> Vec<Fingerprint> {
        let bytes = excerpt.get(run.bytes(self.shape)).unwrap_or_default();
        let blocks = bytes.chunks_exact(self.shape.block_bytes() as usize).zip(run.offset..);
        blocks.map(|(block, offset)| Label::Offset.digest(self.content.block(block), 0, offset)).collect()
    }

    /// Replaces the hashes of one level with those of the next.
    fn double(&mut self) {
        let doubled = self.hashes.len() / 2;
        for index in 0..doubled {
            self.hashes[index] = self.content.doubled(self.hashes[2 * index], self.hashes[2 * index + 1]);
        }
        self.hashes.truncate(doubled);
    }

    /// Returns the content hashes of all blocks of `excerpt`, from byte `alignment` on. Doubled blocks begin at every
    /// base block on each level, because the offset of the excerpt in a payload is unknown.
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
    /// Writes the ID of the key, not the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digester({:?}, key ID {})", self.shape, self.key.id())
    }
}
